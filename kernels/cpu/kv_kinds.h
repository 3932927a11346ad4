/* How a number of the KV cache is stored: float32, bfloat16, or int8 with a float32 scale for each
   token and head. The reference implementation is TorchAttentionBackend in
   minivllm/runtime/attention/torch_backend.py.

   A token's row has the keys of all heads, then the values, and with int8 their scales in the same
   order. `kind` is a constant wherever a function is inlined, so the compiler keeps one case. */

#ifndef CPU_KV_KINDS_H
#define CPU_KV_KINDS_H

#include "vector.h"

enum { FLOAT32, BFLOAT16, INT8 }; /* KINDS in ops.py */
#define MAX_INT8 127.0f
#define MIN_SCALE 1e-6f /* as in reference_ops.py */

typedef int8_t bytes_16 __attribute__((vector_size(LANES), aligned(1)));
typedef uint16_t shorts_16 __attribute__((vector_size(2 * LANES), aligned(2)));
typedef int32_t ints_16 __attribute__((vector_size(4 * LANES), aligned(4)));

INLINE int64_t number_bytes(const int kind) {
    return kind == FLOAT32 ? 4 : kind == BFLOAT16 ? 2 : 1;
}

/* Bytes of a token's row with num_heads heads, keys and values together. */
INLINE int64_t row_bytes(const int kind, int64_t num_heads, int64_t head_size) {
    return num_heads * (head_size * number_bytes(kind) + (kind == INT8 ? sizeof(float) : 0));
}

INLINE vec floats_of_int8(bytes_16 from) {
#ifdef __AVX512F__
    return (vec)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32((__m128i)from));
#else
    return __builtin_convertvector(from, vec);
#endif
}

INLINE vec floats_of_bfloat16(shorts_16 from) {
    /* A bfloat16 is the upper half of a float. */
    return (vec)(__builtin_convertvector(from, ints_16) << 16);
}

/* Load sixteen numbers of a row, from number i on; without their scale. */
INLINE vec load_numbers(const char *row, int64_t i, const int kind) {
    row += i * number_bytes(kind);
    if (kind == INT8) return floats_of_int8(*(const bytes_16 *)row);
    if (kind == BFLOAT16) return floats_of_bfloat16(*(const shorts_16 *)row);
    return load((const float *)row);
}

/* Transpose sixteen rows of sixteen numbers. */
#define TRANSPOSE(name, numbers)                                     \
    static __attribute__((noinline, unused)) void name(void *rows) { \
        numbers a[LANES];                                            \
        UNROLL for (int i = 0; i < LANES; i++)                       \
            memcpy(&a[i], (char *)rows + 2 * LANES * i, sizeof a[i]); \
        TRANSPOSE_16(a, numbers)                                     \
        UNROLL for (int i = 0; i < LANES; i++)                       \
            memcpy((char *)rows + 2 * LANES * i, &a[i], sizeof a[i]); \
    }
TRANSPOSE(transpose_bytes, bytes_16)
TRANSPOSE(transpose_shorts, shorts_16)

static inline void store_bfloat16(const float *from, char *to, int64_t size) {
    for (int64_t i = 0; i < size; i++) {
        uint16_t stored = nearest_bf16(from[i]) >> 16;
        memcpy(to + i * sizeof stored, &stored, sizeof stored);
    }
}

/* Round a head to int8; return its scale, which is NaN or infinite if one of the numbers is. */
static inline float store_int8(const float *from, char *to, int64_t size) {
    /* Without the sign, the bits of floats sort like the numbers, and NaN comes last. */
    int32_t largest = 0;
    for (int64_t i = 0; i < size; i++) {
        int32_t bits = (int32_t)(bits_of(from[i]) & 0x7fffffff);
        largest = bits > largest ? bits : largest;
    }
    float scale;
    memcpy(&scale, &largest, sizeof scale);
    scale *= 1.0f / MAX_INT8;
    scale = scale < MIN_SCALE ? MIN_SCALE : scale; /* false for NaN, which stays NaN */
    const float inverse = 1.0f / scale;
    for (int64_t i = 0; i < size; i++) {
        float number = from[i] * inverse;
        number = number > MAX_INT8 ? MAX_INT8 : number;
        number = number < -MAX_INT8 ? -MAX_INT8 : number;
        /* Round to a whole number, as in exp_. A NaN becomes any number; its scale is NaN. */
        number = (number + 12582912.0f) - 12582912.0f;
        to[i] = (char)(int32_t)number;
    }
    return scale;
}

/* Write num_heads heads of keys or values to a token's row, as heads first_head and following. */
static inline void store_heads(const float *from, char *row, int64_t first_head, int64_t num_heads,
                               int64_t all_heads, int64_t head_size, int kind) {
    char *to = row + first_head * head_size * number_bytes(kind);
    if (kind == FLOAT32) memcpy(to, from, num_heads * head_size * sizeof(float));
    if (kind == BFLOAT16) store_bfloat16(from, to, num_heads * head_size);
    for (int64_t head = 0; kind == INT8 && head < num_heads; head++) {
        float scale = store_int8(from + head * head_size, to + head * head_size, head_size);
        memcpy(row + all_heads * head_size + (first_head + head) * sizeof scale, &scale,
               sizeof scale);
    }
}

#endif
