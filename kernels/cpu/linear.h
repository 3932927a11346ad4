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

/* y = x W^T in float32; see linear.c. */
void linear(const float *x, const struct part *parts, float *turned, float *out, int64_t num_parts,
            int64_t num_rows, int64_t in_features, int64_t out_stride, int64_t num_threads);

#endif
