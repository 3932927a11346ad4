/* Shared by the CPU kernels: vectors of floats, a * b + c, and e^x.

   A `vec` is sixteen floats, an AVX-512 register. The compiler uses several smaller registers where
   needed.

   a * b + c rounds once as a fused multiply-add, and twice as two operations. The compiler would
   choose for each loop: gcc 13, for Sapphire Rapids and Zen 4, fuses except in a loop with a single
   sum. Then a row could get other bits in a batch than alone. So library.py turns fusing off
   (-ffp-contract=off), and sums of products call multiply_add. */

#ifndef CPU_VECTOR_H
#define CPU_VECTOR_H

#include <stdint.h>
#include <string.h>
#ifdef __FMA__
#include <immintrin.h>
#elif defined __aarch64__
#include <arm_neon.h>
#endif

#define LANES 16
/* After inlining, constant arguments are constants for the compiler. */
#define INLINE static inline __attribute__((always_inline))
/* The compiler keeps an array in registers only if all loops that use it are unrolled. */
#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#define SHUFFLE(numbers, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else /* before version 12, gcc knows only its own name for it */
#define UNROLL _Pragma("GCC unroll 16")
#define SHUFFLE(numbers, a, b, ...) __builtin_shuffle(a, b, (numbers){__VA_ARGS__})
#endif

typedef float vec __attribute__((vector_size(4 * LANES), aligned(4)));
typedef float half_vec __attribute__((vector_size(2 * LANES), aligned(4)));
typedef float quarter_vec __attribute__((vector_size(LANES), aligned(4)));

static inline vec load(const float *from) { return *(const vec *)from; }
static inline void store(float *to, vec value) { *(vec *)to = value; }

/* a * b + c, rounded once if the processor has fused multiply-add, otherwise twice. All kernels and
   widths round in the same way. */
INLINE float multiply_add(float a, float b, float c) {
#if defined __FP_FAST_FMAF || defined __FMA__ /* clang has only the second name */
    return __builtin_fmaf(a, b, c);
#else
    return a * b + c;
#endif
}

INLINE half_vec multiply_add_8(half_vec a, half_vec b, half_vec c) {
#ifdef __FMA__
    return (half_vec)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined __aarch64__
    quarter_vec as[2], bs[2], cs[2];
    memcpy(as, &a, sizeof a);
    memcpy(bs, &b, sizeof b);
    memcpy(cs, &c, sizeof c);
    UNROLL for (int i = 0; i < 2; i++)
        cs[i] = (quarter_vec)vfmaq_f32((float32x4_t)cs[i], (float32x4_t)as[i], (float32x4_t)bs[i]);
    memcpy(&c, cs, sizeof c);
    return c;
#else
    UNROLL for (int i = 0; i < LANES / 2; i++) c[i] = multiply_add(a[i], b[i], c[i]);
    return c;
#endif
}

INLINE vec multiply_add_16(vec a, vec b, vec c) {
#ifdef __AVX512F__
    return (vec)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#else
    half_vec as[2], bs[2], cs[2];
    memcpy(as, &a, sizeof a);
    memcpy(bs, &b, sizeof b);
    memcpy(cs, &c, sizeof c);
    UNROLL for (int i = 0; i < 2; i++) cs[i] = multiply_add_8(as[i], bs[i], cs[i]);
    memcpy(&c, cs, sizeof c);
    return c;
#endif
}

/* Copy one number to all lanes. Subtracting zero changes no number, so the compiler removes it. */
INLINE half_vec broadcast_8(float x) { return x - (half_vec){0}; }
INLINE vec broadcast_16(float x) { return x - (vec){0}; }

INLINE uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* The bits of the nearest bfloat16 as a float: to even in the middle, and a NaN stays a NaN. */
INLINE uint32_t nearest_bf16(float x) {
    uint32_t bits = bits_of(x), rounded = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
    return x == x ? rounded : 0x7fc00000;
}

/* Transpose an array of sixteen vectors of sixteen numbers. Each of four stages interleaves the
   upper with the lower eight rows, which moves one bit of a number's row to its column. */
#define TRANSPOSE_16(rows, numbers)                                                            \
    UNROLL for (int stage = 0; stage < 4; stage++) {                                           \
        numbers interleaved[LANES];                                                            \
        UNROLL for (int i = 0; i < LANES / 2; i++) {                                           \
            interleaved[2 * i] = SHUFFLE(numbers, rows[i], rows[i + 8],                        \
                0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);                       \
            interleaved[2 * i + 1] = SHUFFLE(numbers, rows[i], rows[i + 8],                    \
                8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);                 \
        }                                                                                      \
        UNROLL for (int i = 0; i < LANES; i++) rows[i] = interleaved[i];                       \
    }

/* Return four partial sums, which add up to the sum of all lanes. */
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

/* e^x to about one unit in the last place: 2^n from the exponent's bits, times a polynomial for the
   rest. The compiler vectorizes loops over this function; the C library's expf takes one number per
   call. */
static inline float exp_(float x) {
    x = x < -87.0f ? -87.0f : x; /* false for NaN, which stays NaN */
    x = x > 88.0f ? 88.0f : x;
    /* Round to a whole number: adding 1.5 * 2^23 leaves no bits for a fraction. */
    float n = multiply_add(x, 1.44269504f, 12582912.0f) - 12582912.0f;
    float r = multiply_add(n, 2.12194440e-4f, multiply_add(n, -0.693359375f, x));
    float p = 1.9875691500e-4f;
    p = multiply_add(p, r, 1.3981999507e-3f);
    p = multiply_add(p, r, 8.3334519073e-3f);
    p = multiply_add(p, r, 4.1665795894e-2f);
    p = multiply_add(p, r, 1.6666665459e-1f);
    p = multiply_add(p, r, 5.0000001201e-1f);
    p = multiply_add(p * r, r, r) + 1.0f;
    uint32_t bits = (uint32_t)((int32_t)n + 127) << 23; /* arbitrary for NaN; p is NaN then */
    float power;
    memcpy(&power, &bits, sizeof power);
    return p * power;
}

#endif
