/* The decoder's small operations for a CPU, in float32. In torch they would be ten operations.
   library.py builds this file, ops.py calls the functions, and reference_ops.py has the reference
   implementations.

   All data are rows of floats. ops.py checks that hidden size and head size are multiples of
   sixteen. A row's result depends on that row only, never on the division of rows among threads.

   -ffast-math would let the compiler assume that there are no NaNs, but the engine must find
   sequences with NaN logits. So -ffast-math is not used, and sums over lanes are written out. */

#include <math.h>
#include "kv_kinds.h"
#include "operations.h"
#include "threads.h"
#include "vector.h"

#define FLOATS_A_TASK 8192 /* some microseconds of work, about as long as handing a task over */
#define LONG_FROM 8 /* a job of this many tasks is long (threads.h) */

/* A task has several rows. */
struct rows {
    int64_t num_rows, rows_a_task;
};
#define EACH_ROW(rows, item)                                                             \
    for (int64_t row = (item) * (rows).rows_a_task;                                      \
         row < (rows).num_rows && row < ((item) + 1) * (rows).rows_a_task; row++)

static struct rows cut_rows(int64_t num_rows, int64_t row_size) {
    return (struct rows){num_rows, row_size < FLOATS_A_TASK ? FLOATS_A_TASK / row_size : 1};
}

static void share_rows(task *run, const void *job, struct rows rows, int64_t num_threads) {
    int64_t num_tasks = (rows.num_rows + rows.rows_a_task - 1) / rows.rows_a_task;
    share(run, job, num_tasks, num_threads, num_tasks >= LONG_FROM);
}

struct norm {
    struct rows rows;
    const float *x, *weight;
    float *residual, *out;
    int64_t size;
    float eps;
};

static void norm_rows(const void *job, int64_t item) {
    const struct norm *n = job;
    const int64_t size = n->size;
    EACH_ROW(n->rows, item) {
        float *sum = n->residual + row * size, *normed = n->out + row * size;
        vec squares = {0};
        for (int64_t i = 0; i < size; i += LANES) {
            vec value = load(sum + i);
            if (n->x) {
                value += load(n->x + row * size + i);
                store(sum + i, value);
            }
            squares = multiply_add_16(value, value, squares);
        }
        float scale = 1.0f / sqrtf(sum_of_lanes(squares) / (float)size + n->eps);
        for (int64_t i = 0; i < size; i += LANES)
            store(normed + i, load(sum + i) * scale * load(n->weight + i));
    }
}

/* residual += x (if there is an x), then out = residual / sqrt(mean(residual^2) + eps) * weight.
   x, residual, out: [num_rows, size] */
void add_rms_norm(const float *x, float *residual, const float *weight, float *out,
                  int64_t num_rows, int64_t size, float eps, int64_t num_threads) {
    const struct norm norm = {cut_rows(num_rows, size), x, weight, residual, out, size, eps};
    share_rows(norm_rows, &norm, norm.rows, num_threads);
}

static inline void rotate(float *x, const float *cos, const float *sin, int64_t size) {
    int64_t half = size / 2;
    for (int64_t i = 0; i < half; i++) {
        float a = x[i], b = x[i + half];
        /* The sine of the first half is already negated. */
        x[i] = multiply_add(a, cos[i], b * sin[i]);
        x[i + half] = multiply_add(b, cos[i + half], a * sin[i + half]);
    }
}

struct tokens {
    struct rows rows;
    float *query, *key;
    const float *value;
    int64_t query_stride, key_stride, value_stride;
    const float *cos, *sin;
    char *cache;
    const int64_t *slots;
    int64_t num_heads, num_kv_heads, head_size, kind;
};

static void rotate_and_cache_tokens(const void *job, int64_t item) {
    const struct tokens *t = job;
    const int64_t head_size = t->head_size, num_kv_heads = t->num_kv_heads;
    EACH_ROW(t->rows, item) {
        float *q = t->query + row * t->query_stride, *k = t->key + row * t->key_stride;
        const float *c = t->cos + row * head_size, *s = t->sin + row * head_size;
        for (int64_t head = 0; head < t->num_heads; head++)
            rotate(q + head * head_size, c, s, head_size);
        for (int64_t head = 0; head < num_kv_heads; head++)
            rotate(k + head * head_size, c, s, head_size);
        if (t->slots[row] >= 0) {
            const float *v = t->value + row * t->value_stride;
            char *slot = t->cache + t->slots[row] * row_bytes(t->kind, 2 * num_kv_heads, head_size);
            store_heads(k, slot, 0, num_kv_heads, 2 * num_kv_heads, head_size, t->kind);
            store_heads(v, slot, num_kv_heads, num_kv_heads, 2 * num_kv_heads, head_size, t->kind);
        }
    }
}

/* Rotate queries and keys in place, and write keys and values to the cache.
   query: [num_tokens, num_heads, head_size], key, value: [num_tokens, num_kv_heads, head_size],
   each with its stride between tokens
   cos, sin: [num_tokens, head_size]
   slots: [num_tokens], negative for a token that is not written
   cache: [num_slots] rows of 2 * num_kv_heads heads, of this kind (kv_kinds.h) */
void rotary_and_cache(float *query, float *key, const float *value, int64_t query_stride,
                      int64_t key_stride, int64_t value_stride, const float *cos, const float *sin,
                      char *cache, const int64_t *slots, int64_t num_tokens, int64_t num_heads,
                      int64_t num_kv_heads, int64_t head_size, int64_t kind, int64_t num_threads) {
    const struct tokens tokens = {
        cut_rows(num_tokens, (num_heads + 2 * num_kv_heads) * head_size), query, key, value,
        query_stride, key_stride, value_stride, cos, sin, cache, slots, num_heads,
        num_kv_heads, head_size, kind};
    share_rows(rotate_and_cache_tokens, &tokens, tokens.rows, num_threads);
}

struct gates {
    struct rows rows;
    const float *x;
    float *out;
    int64_t x_stride, size, gelu;
};

static void silu_and_mul_rows(const void *job, int64_t item) {
    const struct gates *g = job;
    EACH_ROW(g->rows, item) {
        const float *gate = g->x + row * g->x_stride, *up = gate + g->size;
        float *to = g->out + row * g->size;
        if (g->gelu)
            for (int64_t i = 0; i < g->size; i++) {
                float power = gate[i] * (1.59576912f + 0.0713548128f * gate[i] * gate[i]);
                to[i] = gate[i] / (1.0f + exp_(-power)) * up[i];
            }
        else
            for (int64_t i = 0; i < g->size; i++) to[i] = gate[i] / (1.0f + exp_(-gate[i])) * up[i];
    }
}

/* silu(gate) * up, where silu(g) = g / (1 + e^-g). With `gelu`, the power of e is -2y, which gives
   g * (1 + tanh(y)) / 2 for y = sqrt(2 / pi) * (g + 0.044715 g^3).
   x: rows of 2 * size numbers, the gates first; out: [num_rows, size] */
void silu_and_mul(const float *x, int64_t x_stride, float *out, int64_t num_rows, int64_t size,
                  int64_t gelu, int64_t num_threads) {
    const struct gates gates = {cut_rows(num_rows, size), x, out, x_stride, size, gelu};
    share_rows(silu_and_mul_rows, &gates, gates.rows, num_threads);
}
