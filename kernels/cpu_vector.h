/* What the kernels for a CPU have in common: rows of floats in vectors, and e^x.

   A `vec` is sixteen floats, an AVX-512 register; where registers are smaller the compiler takes several. */

#ifndef CPU_VECTOR_H
#define CPU_VECTOR_H

#include <stdint.h>
#include <string.h>

#define LANES 16
#define INLINE static inline __attribute__((always_inline)) /* its constant arguments are constants to the compiler */
#define UNROLL _Pragma("GCC unroll 16")                     /* an array that only unrolled loops touch is registers */

typedef float vec __attribute__((vector_size(4 * LANES), aligned(4)));
typedef float half_vec __attribute__((vector_size(2 * LANES), aligned(4)));
typedef float quarter_vec __attribute__((vector_size(LANES), aligned(4)));

static inline vec load(const float *from) { return *(const vec *)from; }
static inline void store(float *to, vec value) { *(vec *)to = value; }

/* Four sums, whose sum is that of all lanes. */
static inline quarter_vec quarter_of_sum(vec v) {
    half_vec halves[2];
    quarter_vec quarters[2];
    memcpy(halves, &v, sizeof v);
    halves[0] += halves[1];
    memcpy(quarters, &halves[0], sizeof halves[0]);
    return quarters[0] + quarters[1];
}

static inline float sum_of_lanes(vec v) {
    quarter_vec quarter = quarter_of_sum(v);
    return (quarter[0] + quarter[1]) + (quarter[2] + quarter[3]);
}

/* e^x to about one unit in the last place: 2^n from the exponent's bits times a polynomial for the rest. The library's
   expf would be called for one number at a time; this is plain arithmetic, so loops over it become vector code. */
static inline float exp_(float x) {
    x = x < -87.0f ? -87.0f : x; /* false for NaN, which stays */
    x = x > 88.0f ? 88.0f : x;
    float n = (x * 1.44269504f + 12582912.0f) - 12582912.0f; /* rounds: 1.5 * 2^23 leaves no bit for fractions */
    float r = x - n * 0.693359375f + n * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    uint32_t bits = (uint32_t)((int32_t)n + 127) << 23; /* of NaN some number, but then p is NaN */
    float power;
    memcpy(&power, &bits, sizeof power);
    return p * power;
}

#endif
