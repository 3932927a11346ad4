/* The decoder's small operations for a CPU, in float32: what torch would need ten operations for. Built by cpu_library.py, called by
   cpu_ops.py; the twins are in reference_ops.py.

   Everything is rows of floats. All sizes that rows are cut by (hidden size, head size) are multiples of sixteen; cpu_ops.py sees to it.

   Easy to get wrong: the compiler's freedom. With -ffast-math it may assume that there are no NaN, and a sequence whose logits
   are NaN must be found, not computed away. So sums over lanes are written out, and no such flag is given. A row's
   result depends on that row alone, never on how rows are spread over threads. */

#include <math.h>
#include "cpu_vector.h"

#define PARALLEL_FROM 16384 /* floats: below, waking the other threads takes longer than the work */

/* residual += x (if there is an x), then out = residual / sqrt(mean(residual^2) + eps) * weight.
   x, residual, out: [num_rows, size] */
void add_rms_norm(const float *x, float *residual, const float *weight, float *out, int64_t num_rows, int64_t size, float eps) {
#pragma omp parallel for if (num_rows * size > PARALLEL_FROM)
    for (int64_t row = 0; row < num_rows; row++) {
        float *sum = residual + row * size, *normed = out + row * size;
        vec squares = {0};
        for (int64_t i = 0; i < size; i += LANES) {
            vec value = load(sum + i);
            if (x) {
                value += load(x + row * size + i);
                store(sum + i, value);
            }
            squares += value * value;
        }
        float scale = 1.0f / sqrtf(sum_of_lanes(squares) / (float)size + eps);
        for (int64_t i = 0; i < size; i += LANES) store(normed + i, load(sum + i) * scale * load(weight + i));
    }
}

static inline void rotate(float *x, const float *cos, const float *sin, int64_t size) {
    int64_t half = size / 2;
    for (int64_t i = 0; i < half; i++) {
        float a = x[i], b = x[i + half];
        x[i] = a * cos[i] + b * sin[i]; /* the sine of the first half is negative already */
        x[i + half] = b * cos[i + half] + a * sin[i + half];
    }
}

/* Rotate queries and keys in place, if there are angles, and write keys and values to the cache.
   query: [num_tokens, num_heads, head_size], key, value: [num_tokens, num_kv_heads, head_size], each with its stride from token to token
   cos, sin: [num_tokens, head_size] or NULL; slots: [num_tokens], negative for a token that is not written
   cache: [num_slots, 2 * num_kv_heads, head_size], the heads' keys, then their values */
void rotary_and_cache(float *query, float *key, const float *value, int64_t query_stride, int64_t key_stride, int64_t value_stride,
                      const float *cos, const float *sin, float *cache, const int64_t *slots,
                      int64_t num_tokens, int64_t num_heads, int64_t num_kv_heads, int64_t head_size) {
    int64_t row_size = num_kv_heads * head_size;
#pragma omp parallel for if (num_tokens * (num_heads + 2 * num_kv_heads) * head_size > PARALLEL_FROM)
    for (int64_t token = 0; token < num_tokens; token++) {
        float *q = query + token * query_stride, *k = key + token * key_stride;
        if (cos) {
            const float *c = cos + token * head_size, *s = sin + token * head_size;
            for (int64_t head = 0; head < num_heads; head++) rotate(q + head * head_size, c, s, head_size);
            for (int64_t head = 0; head < num_kv_heads; head++) rotate(k + head * head_size, c, s, head_size);
        }
        if (slots[token] >= 0) {
            float *slot = cache + slots[token] * 2 * row_size;
            memcpy(slot, k, row_size * sizeof(float));
            memcpy(slot + row_size, value + token * value_stride, row_size * sizeof(float));
        }
    }
}

/* silu(gate) * up, where silu(g) = g / (1 + e^-g). x: [num_rows, 2 * size], gates, then ups; out: [num_rows, size] */
void silu_and_mul(const float *x, float *out, int64_t num_rows, int64_t size) {
#pragma omp parallel for if (num_rows * size > PARALLEL_FROM)
    for (int64_t row = 0; row < num_rows; row++) {
        const float *gate = x + row * 2 * size, *up = gate + size;
        float *to = out + row * size;
        for (int64_t i = 0; i < size; i++) to[i] = gate[i] / (1.0f + exp_(-gate[i])) * up[i];
    }
}
