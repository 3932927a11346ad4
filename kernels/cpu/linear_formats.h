/* Decode panels of stored weights to float32 (linear.c says what a panel is).

   A panel holds the weights of 16 outputs, in the bits of the checkpoint but in the order in which
   they are decoded: first what 16 outputs share in a block, then their weights input by input.
   `x16` is one field of 16 outputs; runtime/quantization/panels.py writes this layout.

       float16    per input        [f16 x16]
       bfloat16   per 2 inputs     [2 x bf16 x16]        a lane of 32 bits has two inputs
       int8       [f32 x16], then per input [int8 x16]
       q8_0       per 32 inputs    [d x16] 32 x [int8 x16]
       q4_0       per 32 inputs    [d x16] 4 x [8 x 4 bits x16]        a lane has eight inputs
       q4_1       per 32 inputs    [d x16] [m x16] 4 x [8 x 4 bits x16]
       q4_k       per 256 inputs   [d x16] [dmin x16]
                  then per 32      [scale x16] [min x16] 4 x [8 x 4 bits x16]
       q6_k       per 256 inputs   [d x16]
                  then per 16      [scale x16] 2 x [8 x 4 bits x16] [16 x 2 bits x16]

   A decoded weight is the float32 number of the Python references, bit for bit: scale times quant
   is exact, and only the addition of a minimum rounds. */

#ifndef CPU_LINEAR_FORMATS_H
#define CPU_LINEAR_FORMATS_H

#include "vector.h"

/* The order of FORMAT_NAMES in ops.py. */
enum format { FLOAT32, BFLOAT16, FLOAT16, INT8, Q8_0, Q4_0, Q4_1, Q4_K, Q6_K };

/* A register of floats: all 16 outputs of a panel with AVX-512, otherwise half of them. */
#ifdef __AVX512F__
typedef vec reg;
#define REG 16
#else
typedef half_vec reg;
#define REG 8
#endif
#define REGS (LANES / REG) /* per panel */
/* Panels that one row is multiplied by at once: each step of a sum waits for the previous one, so
   one panel's sums alone would leave the processor idle. */
#define MAX_BESIDE 2

typedef uint32_t words __attribute__((vector_size(4 * REG)));
typedef int32_t integers __attribute__((vector_size(4 * REG)));

INLINE reg load_reg(const float *from) { return *(const reg *)from; }
INLINE void store_reg(float *to, reg value) { *(reg *)to = value; }

INLINE reg multiply_add_reg(reg a, reg b, reg c) {
#ifdef __AVX512F__
    return multiply_add_16(a, b, c);
#else
    return multiply_add_8(a, b, c);
#endif
}

INLINE reg to_floats(integers numbers) { return __builtin_convertvector(numbers, reg); }

INLINE words load_words(const uint8_t *from) {
    words loaded;
    memcpy(&loaded, from, sizeof loaded);
    return loaded;
}

INLINE reg as_floats(words bits) {
    reg floats;
    memcpy(&floats, &bits, sizeof bits);
    return floats;
}

INLINE integers load_bytes(const uint8_t *from) {
#ifdef __AVX512F__
    return (integers)_mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)from));
#elif defined __AVX2__
    return (integers)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)from));
#else
    uint8_t loaded __attribute__((vector_size(REG)));
    memcpy(&loaded, from, sizeof loaded);
    return __builtin_convertvector(loaded, integers);
#endif
}

INLINE integers load_signed_bytes(const uint8_t *from) {
#ifdef __AVX512F__
    return (integers)_mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)from));
#elif defined __AVX2__
    return (integers)_mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)from));
#else
    int8_t loaded __attribute__((vector_size(REG)));
    memcpy(&loaded, from, sizeof loaded);
    return __builtin_convertvector(loaded, integers);
#endif
}

INLINE reg load_halves(const uint8_t *from) {
#ifdef __AVX512F__
    return (reg)_mm512_cvtph_ps(_mm256_loadu_si256((const void *)from));
#elif defined __F16C__
    return (reg)_mm256_cvtph_ps(_mm_loadu_si128((const void *)from));
#elif defined __aarch64__
    const float16x8_t halves = vreinterpretq_f16_u8(vld1q_u8(from));
    const float32x4_t floats[2] = {vcvt_f32_f16(vget_low_f16(halves)), vcvt_high_f32_f16(halves)};
    return *(const reg *)floats;
#else
    uint16_t halves[REG];
    words bits;
    memcpy(halves, from, sizeof halves);
    UNROLL for (int i = 0; i < REG; i++) bits[i] = halves[i];
    /* Move the bits into float32's places; the product corrects the exponent, which has another
       bias. An exponent of all ones (infinity, NaN) stays all ones. */
    words sign = (bits & 0x8000) << 16, all_ones = (words)((bits & 0x7c00) == 0x7c00);
    words magnitude = (words)(as_floats((bits & 0x7fff) << 13) * 0x1p112f);
    return as_floats(magnitude | (all_ones & 0x7f800000) | sign);
#endif
}

/* Number i of the eight numbers of 4 bits in each lane, times 16^i if there is no table. Then the
   scale is smaller by as much (`nibble_scale`): both are exact, and it saves a shift. The last
   number has the lane's sign bit. */
INLINE reg nibbles(words lanes, const int i) {
#ifdef __AVX512F__
    /* A permutation uses only the low four bits of a lane: it is a table of sixteen numbers. */
    const vec table = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    return (reg)_mm512_permutexvar_ps((__m512i)(lanes >> 4 * i), (__m512)table);
#else
    return to_floats((integers)(i == 7 ? lanes >> 28 : lanes & 15u << 4 * i));
#endif
}

INLINE reg nibble_scale(reg scale, const int i) {
#ifdef __AVX512F__
    return scale;
#else
    return i == 7 ? scale : scale * (1.0f / (1 << 4 * i));
#endif
}

#define GROUP 32 /* inputs that share a scale in the formats of 4 bits, and in q8_0 */
#define SUPER 256 /* inputs of a block in the formats named _k */
#define NIBBLES (GROUP / 2 * LANES) /* bytes of a group of 4 bits */
#define SMALL_GROUP 16 /* inputs that share a scale in q6_k */

/* Where decoded weights go. With several rows, they are stored for all of them. With one row, each
   is multiplied at once, in the register in which it was decoded. */
struct target {
    const int is_sum; /* a constant for the compiler */
    const int panels; /* decoded side by side, a constant; 1 if they are stored */
    int64_t panel_bytes;
    float *to;        /* [num_inputs][LANES], or the sums, [panels][LANES] */
    const float *x;   /* the row's numbers for the inputs, if `is_sum` */
};

#define EACH_REG(r) UNROLL for (int r = 0; r < REGS * target.panels; r++)
/* Register `r` of a field of the panels, whose numbers have `bytes` bytes. */
#define AT(from, r, bytes) ((from) + r / REGS * target.panel_bytes + r % REGS * REG * (bytes))

struct sums {
    reg of[REGS * MAX_BESIDE];
};

INLINE struct sums load_sums(const struct target target) {
    struct sums sums = {0};
    if (target.is_sum) EACH_REG(r) sums.of[r] = load_reg(target.to + r * REG);
    return sums;
}

/* Take the weights of input `i`, in register `r`. */
INLINE void take(const struct target target, int64_t i, int r, reg weights, struct sums *sums) {
    if (target.is_sum)
        sums->of[r] = multiply_add_reg(target.x[i] - (reg){0}, weights, sums->of[r]);
    else
        store_reg(target.to + i * LANES + r * REG, weights);
}

INLINE void store_sums(const struct target target, const struct sums *sums) {
    if (target.is_sum) EACH_REG(r) store_reg(target.to + r * REG, sums->of[r]);
}

/* Decode inputs from `first` to `end`, which the target counts from 0.
   A weight is scale * quant + minimum. Without minimums, a quant has a zero: the minimum is
   -zero * scale, and the sum is exact, as scale * (quant - zero) would be. */
INLINE void decode_nibbles(const enum format format, const uint8_t *panel, int64_t first,
                           int64_t end, struct target target) {
    struct sums sums = load_sums(target);
    for (int64_t k = first; k < end; k += GROUP) {
        const int64_t group = k / GROUP;
        const uint8_t *from = panel; /* scales in f16, then the group's quants */
        reg scales[REGS * MAX_BESIDE], minimums[REGS * MAX_BESIDE];
        if (format == Q4_K) {
            const int64_t bytes = 2 * LANES + NIBBLES; /* of a group */
            const uint8_t *block = panel + k / SUPER * (4 * LANES + SUPER / GROUP * bytes);
            from = block + 4 * LANES + group % (SUPER / GROUP) * bytes;
            EACH_REG(r) {
                scales[r] = load_halves(AT(block, r, 2)) * to_floats(load_bytes(AT(from, r, 1)));
                minimums[r] = -(load_halves(AT(block + 2 * LANES, r, 2)) *
                                to_floats(load_bytes(AT(from + LANES, r, 1))));
            }
            from += 2 * LANES;
        } else {
            const int64_t bytes = (format == Q4_1 ? 2 : 1) * 2 * LANES; /* of the scales */
            from += group * (bytes + NIBBLES);
            EACH_REG(r) {
                scales[r] = load_halves(AT(from, r, 2));
                minimums[r] = format == Q4_1 ? load_halves(AT(from + 2 * LANES, r, 2))
                                             : scales[r] * -8.0f;
            }
            from += bytes;
        }
        for (int word = 0; word < GROUP / 8; word++) {
            words lanes[REGS * MAX_BESIDE];
            EACH_REG(r) lanes[r] = load_words(AT(from + word * 4 * LANES, r, 4));
            UNROLL for (int i = 0; i < 8; i++) EACH_REG(r)
                take(target, k - first + word * 8 + i, r,
                     multiply_add_reg(nibble_scale(scales[r], i), nibbles(lanes[r], i), minimums[r]), &sums);
        }
    }
    store_sums(target, &sums);
}

INLINE void decode_q6_k(const uint8_t *panel, int64_t first, int64_t end, struct target target) {
    const int64_t bytes = LANES + 3 * 4 * LANES; /* of a group */
    struct sums sums = load_sums(target);
    for (int64_t k = first; k < end; k += SMALL_GROUP) {
        const uint8_t *block = panel + k / SUPER * (2 * LANES + SUPER / SMALL_GROUP * bytes);
        const uint8_t *group = block + 2 * LANES + k % SUPER / SMALL_GROUP * bytes;
        const uint8_t *quants = group + LANES;
        reg scales[REGS * MAX_BESIDE], minimums[REGS * MAX_BESIDE];
        words high[REGS * MAX_BESIDE];
        EACH_REG(r) {
            scales[r] = load_halves(AT(block, r, 2)) *
                        to_floats(load_signed_bytes(AT(group, r, 1)));
            minimums[r] = scales[r] * -32.0f;
            high[r] = load_words(AT(quants + 2 * 4 * LANES, r, 4));
        }
        UNROLL for (int word = 0; word < 2; word++) {
            words low[REGS * MAX_BESIDE];
            EACH_REG(r) low[r] = load_words(AT(quants + word * 4 * LANES, r, 4));
            UNROLL for (int i = 0; i < 8; i++) EACH_REG(r) {
                /* the two bits of input `at`, moved to the bits 4 and 5 */
                const int at = word * 8 + i;
                words upper = at < 2 ? high[r] << (4 - 2 * at) : high[r] >> (2 * at - 4);
                words quant = (low[r] >> 4 * i & 15) | (upper & 48);
                take(target, k - first + at, r,
                     multiply_add_reg(scales[r], to_floats((integers)quant), minimums[r]), &sums);
            }
        }
    }
    store_sums(target, &sums);
}

INLINE void decode_q8_0(const uint8_t *panel, int64_t first, int64_t end, struct target target) {
    struct sums sums = load_sums(target);
    for (int64_t k = first; k < end; k += GROUP) {
        const uint8_t *block = panel + k / GROUP * (2 * LANES + GROUP * LANES);
        const uint8_t *quants = block + 2 * LANES;
        reg scales[REGS * MAX_BESIDE];
        EACH_REG(r) scales[r] = load_halves(AT(block, r, 2));
        UNROLL for (int i = 0; i < GROUP; i++) EACH_REG(r)
            take(target, k - first + i, r,
                 scales[r] * to_floats(load_signed_bytes(AT(quants + i * LANES, r, 1))), &sums);
    }
    store_sums(target, &sums);
}

INLINE void decode_int8(const uint8_t *panel, int64_t first, int64_t end, struct target target) {
    const uint8_t *quants = panel + 4 * LANES;
    struct sums sums = load_sums(target);
    for (int64_t k = first; k < end; k++) EACH_REG(r)
        take(target, k - first, r,
             as_floats(load_words(AT(panel, r, 4))) *
                 to_floats(load_signed_bytes(AT(quants + k * LANES, r, 1))),
             &sums);
    store_sums(target, &sums);
}

INLINE void decode_float16(const uint8_t *panel, int64_t first, int64_t end,
                           struct target target) {
    struct sums sums = load_sums(target);
    for (int64_t k = first; k < end; k++) EACH_REG(r)
        take(target, k - first, r, load_halves(AT(panel + k * 2 * LANES, r, 2)), &sums);
    store_sums(target, &sums);
}

/* The odd number of inputs of a matrix is padded to an even one, with weights of zero. */
INLINE void decode_bfloat16(const uint8_t *panel, int64_t first, int64_t end, float *to) {
    for (int64_t k = first; k < end; k += 2, to += 2 * LANES)
        UNROLL for (int r = 0; r < REGS; r++) {
        words pairs = load_words(panel + k * 2 * LANES + r * 4 * REG);
        store_reg(to + r * REG, as_floats(pairs << 16));
        store_reg(to + LANES + r * REG, as_floats(pairs & 0xffff0000));
    }
}

/* Returns 0 for a format whose weights need no decoding, or only a shift. */
INLINE int decode_quants(enum format format, const uint8_t *panel, int64_t first, int64_t end,
                         struct target target) {
    switch (format) {
        case FLOAT16: decode_float16(panel, first, end, target); return 1;
        case INT8: decode_int8(panel, first, end, target); return 1;
        case Q8_0: decode_q8_0(panel, first, end, target); return 1;
        case Q4_0: decode_nibbles(Q4_0, panel, first, end, target); return 1;
        case Q4_1: decode_nibbles(Q4_1, panel, first, end, target); return 1;
        case Q4_K: decode_nibbles(Q4_K, panel, first, end, target); return 1;
        case Q6_K: decode_q6_k(panel, first, end, target); return 1;
        default: return 0;
    }
}

/* Decode the inputs from `first` to `end` of a panel; `first` is a multiple of GROUP.
   to: [end - first][LANES], with room for a whole group after the last one */
static void decode(enum format format, const uint8_t *panel, int64_t first, int64_t end,
                   float *to) {
    if (decode_quants(format, panel, first, end, (struct target){0, 1, 0, to, 0})) return;
    if (format == BFLOAT16)
        decode_bfloat16(panel, first, end, to);
    else
        memcpy(to, (const float *)panel + first * LANES, (end - first) * LANES * sizeof *to);
}

#endif
