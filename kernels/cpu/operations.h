#ifndef CPU_OPERATIONS_H
#define CPU_OPERATIONS_H

#include <stdint.h>

/* What a layer does besides its products. kernels.c and attention.c document the arguments. */

void add_rms_norm(const float *x, float *residual, const float *weight, float *out,
                  int64_t num_rows, int64_t size, float eps, int64_t num_threads);

void rotary_and_cache(float *query, float *key, const float *value, int64_t query_stride,
                      int64_t key_stride, int64_t value_stride, const float *cos, const float *sin,
                      char *cache, const int64_t *slots, int64_t num_tokens, int64_t num_heads,
                      int64_t num_kv_heads, int64_t head_size, int64_t kind, int64_t num_threads);

void silu_and_mul(const float *x, int64_t x_stride, float *out, int64_t num_rows, int64_t size,
                  int64_t gelu, int64_t num_threads);

void attend(const float *query, int64_t query_stride, const char *cache,
            const int64_t *block_tables, const int64_t *rows, const void *work,
            const int64_t *level_ends, int64_t num_levels, float *out, float *largest, float *total,
            int64_t num_kv_heads, int64_t group, int64_t head_size, int64_t block_size,
            int64_t kind, float scale, int64_t num_threads);

#endif
