/* The decoder's small operations and paged decode attention for a CPU, in float32: what torch would need ten operations and a
   gathered copy of every context for. Built by cpu_library.py, called by cpu_ops.py; the twins are in reference_ops.py and
   minivllm/runtime/torch_attention.py.

   Everything is rows of floats, taken sixteen at a time. All sizes that rows are cut by (hidden size, head size) are multiples of
   sixteen; cpu_ops.py sees to it.

   Easy to get wrong: the compiler's freedom. With -ffast-math it may assume that there are no NaN, and a sequence whose logits
   are NaN must be found, not computed away. So sums over lanes are written out here, and no such flag is given. A row's
   result depends on that row alone, never on how rows are spread over threads. */

#include <math.h>

#include "cpu_vector.h"

#define TILE 64 /* tokens whose scores are held at once */
#define MAX_HEAD_SIZE 256
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

/* One key head of one sequence: its group of query heads attends to the tokens in `blocks`, read where they lie.

   Tile by tile: scores, their largest so far, and what was summed up before scaled down to it (online softmax), so that
   a context of any length needs no more than a tile's scores. */
static inline __attribute__((always_inline)) void attend_head(
    const float *query, const float *keys, const int64_t *blocks, float *out, float *log_sum_exp,
    int64_t num_tokens, int64_t block_size, int64_t num_kv_heads, int64_t group, const int64_t head_size, float scale) {
    const int64_t token_stride = 2 * num_kv_heads * head_size, to_value = num_kv_heads * head_size;
    for (int64_t head = 0; head < group; head++) {
        const float *q = query + head * head_size;
        float *sums = out + head * head_size;
        float largest = -INFINITY, total = 0.0f, scores[TILE];
        vec acc[MAX_HEAD_SIZE / LANES];
        for (int64_t i = 0; i < head_size / LANES; i++) acc[i] = (vec){0};
        for (int64_t begin = 0; begin < num_tokens;) {
            int64_t in_block = begin % block_size, left = block_size - in_block;
            int64_t length = num_tokens - begin < left ? num_tokens - begin : left;
            length = length < TILE ? length : TILE;
            const float *tile = keys + (blocks[begin / block_size] * block_size + in_block) * token_stride;
            float top = largest;
            for (int64_t t = 0; t < length; t++) {
                vec products = {0};
                for (int64_t i = 0; i < head_size; i += LANES) products += load(q + i) * load(tile + t * token_stride + i);
                scores[t] = sum_of_lanes(products) * scale;
                top = scores[t] > top ? scores[t] : top;
            }
            if (top > largest) {
                float shrink = exp_(largest - top); /* of nothing, at first */
                total *= shrink;
                for (int64_t i = 0; i < head_size / LANES; i++) acc[i] *= shrink;
                largest = top;
            }
            for (int64_t t = 0; t < length; t++) scores[t] = exp_(scores[t] - largest);
            for (int64_t t = 0; t < length; t++) {
                const float *value = tile + to_value + t * token_stride;
                total += scores[t];
                for (int64_t i = 0; i < head_size / LANES; i++) acc[i] += scores[t] * load(value + i * LANES);
            }
            begin += length;
        }
        for (int64_t i = 0; i < head_size / LANES; i++) store(sums + i * LANES, acc[i] / total);
        log_sum_exp[head] = largest + logf(total);
    }
}

/* Sequences with one query each attend to their contexts.
   query, out: [num_rows, num_kv_heads * group, head_size], queries with a stride from row to row; log_sum_exp: [num_rows, the same heads]
   cache: [num_blocks, block_size, 2 * num_kv_heads, head_size]; rows, num_tokens: [num_seqs]
   block_tables: [num_seqs, table_width], the blocks that hold each one's tokens */
void decode_attention(const float *query, int64_t query_stride, const float *cache, const int64_t *block_tables, int64_t table_width,
                      const int64_t *rows, const int64_t *num_tokens, float *out, float *log_sum_exp,
                      int64_t num_seqs, int64_t num_kv_heads, int64_t group, int64_t head_size, int64_t block_size, float scale) {
    int64_t num_heads = num_kv_heads * group;
#pragma omp parallel for collapse(2) schedule(dynamic)
    for (int64_t seq = 0; seq < num_seqs; seq++) {
        for (int64_t kv_head = 0; kv_head < num_kv_heads; kv_head++) {
            int64_t row = rows[seq], first = kv_head * group;
            const float *q = query + row * query_stride + first * head_size, *keys = cache + kv_head * head_size;
            const int64_t *blocks = block_tables + seq * table_width;
            float *to = out + (row * num_heads + first) * head_size, *lse = log_sum_exp + row * num_heads + first;
            /* The sizes that models have are constants to the compiler, which keeps their sums in registers. */
            if (head_size == 64)
                attend_head(q, keys, blocks, to, lse, num_tokens[seq], block_size, num_kv_heads, group, 64, scale);
            else if (head_size == 128)
                attend_head(q, keys, blocks, to, lse, num_tokens[seq], block_size, num_kv_heads, group, 128, scale);
            else
                attend_head(q, keys, blocks, to, lse, num_tokens[seq], block_size, num_kv_heads, group, head_size, scale);
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
