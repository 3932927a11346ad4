#ifndef CPU_LINEAR_H
#define CPU_LINEAR_H

#include <stdint.h>

/* Rows of a matrix that have the same format. packed_matrix.py writes this struct. */
struct part {
    int64_t format;
    const uint8_t *panels; /* [num_panels][panel_bytes] */
    int64_t panel_bytes, num_panels;
    int64_t first_output; /* of the matrix */
};

/* A job is long from this many weights, or from this many multiplications: some tens of
   microseconds. */
#define LONG_FROM_WEIGHTS (1 << 17)
#define LONG_FROM_PRODUCTS (1 << 20)

static inline int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
static inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* y = x W^T
   x: [num_rows, in_features]
   parts: the matrix, in the order of its outputs; padding of a part is overwritten by the next
   workspace: like x, with one more input if their number is odd; for linear_bf16, with the number
       of rows rounded up to a multiple of 16, and the number of inputs to a multiple of 32
   out: [num_rows, out_stride], with room for the padding of the last part */
typedef void multiply_by_matrix(const float *x, const struct part *parts, float *workspace,
                                float *out, int64_t num_parts, int64_t num_rows,
                                int64_t in_features, int64_t out_stride, int64_t num_threads);

multiply_by_matrix linear;         /* in float32; see linear.c */
multiply_by_matrix linear_bf16;    /* x is rounded to bfloat16, as are all parts; linear_bf16.c */
multiply_by_matrix linear_rounded; /* the same without AMX */

int64_t bf16_way(void); /* how linear_bf16 multiplies */
void rows_of_packed(const struct part *parts, const int64_t *indices, float *out, int64_t num_parts,
                    int64_t num_rows, int64_t in_features, int64_t num_threads);

#endif
