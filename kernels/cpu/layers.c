/* All layers of a decoder in one call.

   A layer takes nine operations. With one row, most of them take a few microseconds, about as long
   as their call from Python. Here C calls the same functions in the same order, so every result has
   the same bits. The loop of decoder.py is easier to read, and it also runs what this file cannot:
   biases, norms of single heads, other attention. */

#include "linear.h"
#include "operations.h"

/* CpuLayers (runtime/cpu/layers.py) writes these two structs. */
struct layer {
    const float *input_norm, *post_attention_norm;
    char *cache;
    struct matrix qkv, o, gate_up, down;
};

struct shape {
    int64_t num_layers, hidden_size, intermediate_size, num_heads, num_kv_heads, head_size,
        block_size, kind;
    int64_t rounds; /* whether products are in bfloat16 */
};

/* Where a step keeps its rows between two operations. */
struct space {
    float *normed; /* [num_rows, hidden_size] */
    float *wide;   /* queries, keys and values; gates and ups */
    float *narrow; /* attended heads; gated ups */
    float *out;    /* [num_rows, hidden_size]: the result of a block, not yet added to `hidden` */
    float *turned; /* as large as the largest input of a product (linear.h) */
};

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

static struct space cut_workspace(float *workspace, const struct shape *s, int64_t qkv_stride,
                                  int64_t num_rows) {
    int64_t wide = larger(qkv_stride, 2 * s->intermediate_size),
            narrow = larger(s->num_heads * s->head_size, s->intermediate_size);
    struct space space = {.normed = workspace};
    space.wide = space.normed + num_rows * s->hidden_size;
    space.narrow = space.wide + num_rows * wide;
    space.out = space.narrow + num_rows * narrow;
    space.turned = space.out + num_rows * s->hidden_size;
    return space;
}

/* hidden: [num_rows, hidden_size], becomes the hidden states before the last norm
   cos, sin, slots: as in rotary_and_cache; block_tables to total: as in attend
   workspace: [num_rows, 2 * hidden_size + wide + narrow], and what the largest product needs */
void run_layers(const struct layer *layers, const struct shape *s, float eps, float scale,
                float *hidden, const float *cos, const float *sin, const int64_t *slots,
                const int64_t *block_tables, const int64_t *rows, const void *parts,
                const int64_t *level_ends, int64_t num_levels, float *largest, float *total,
                float *workspace, int64_t num_rows, int64_t num_threads) {
    const int64_t stride = layers->qkv.out_stride, size = s->hidden_size;
    const int64_t key = s->num_heads * s->head_size, value = key + s->num_kv_heads * s->head_size;
    struct space at = cut_workspace(workspace, s, stride, num_rows);
#define MULTIPLY(x, matrix, out)                                                            \
    linear(x, (matrix).parts, at.turned, out, (matrix).num_parts, num_rows,                \
           (matrix).in_features, (matrix).out_stride, s->rounds, num_threads)
    for (int64_t i = 0; i < s->num_layers; i++) {
        const struct layer *layer = layers + i;
        add_rms_norm(i ? at.out : 0, hidden, layer->input_norm, at.normed, num_rows, size, eps,
                     num_threads);
        MULTIPLY(at.normed, layer->qkv, at.wide);
        rotary_and_cache(at.wide, at.wide + key, at.wide + value, stride, stride, stride, cos, sin,
                         layer->cache, slots, num_rows, s->num_heads, s->num_kv_heads,
                         s->head_size, s->kind, num_threads);
        attend(at.wide, stride, layer->cache, block_tables, rows, parts, level_ends, num_levels,
               at.narrow, largest, total, s->num_kv_heads, s->num_heads / s->num_kv_heads,
               s->head_size, s->block_size, s->kind, scale, num_threads);
        MULTIPLY(at.narrow, layer->o, at.out);
        add_rms_norm(at.out, hidden, layer->post_attention_norm, at.normed, num_rows, size, eps,
                     num_threads);
        MULTIPLY(at.normed, layer->gate_up, at.wide);
        silu_and_mul(at.wide, layer->gate_up.out_stride, at.narrow, num_rows, s->intermediate_size,
                     0, num_threads);
        MULTIPLY(at.narrow, layer->down, at.out);
    }
    for (int64_t i = 0; i < num_rows * size; i++) hidden[i] += at.out[i];
}
