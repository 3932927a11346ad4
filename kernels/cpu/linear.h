#ifndef CPU_LINEAR_H
#define CPU_LINEAR_H

#include <stdint.h>
#include "threads.h"

/* Rows of a matrix that have the same format. packed_matrix.py writes this struct. */
struct part {
    int64_t format;
    const uint8_t *panels; /* [num_panels][panel_bytes] */
    int64_t panel_bytes, num_panels;
    int64_t first_output; /* of the matrix */
};

/* Padding of a part is overwritten by the next part. PackedMatrix writes this struct. */
struct matrix {
    const struct part *parts; /* in the order of the outputs */
    int64_t num_parts, in_features, out_stride;
};

/* y = x W^T */
struct product {
    struct matrix matrix;
    const float *x;
    const int64_t *rows; /* which rows of x; 0 for the first ones */
    int64_t num_rows;
    float *turned; /* workspace: the rows in the order in which they are read */
    float *out;    /* [num_rows, out_stride], with room for the padding of the last part */
    /* The rest is set by `multiply_all`, for one part of the matrix. */
    const struct part *part;
    int64_t panels_a_task, num_panel_tasks; /* per TILES_A_TASK tiles of rows */
    int64_t num_turn_tasks;                 /* per tile of rows; 0 if they are in order already */
    int64_t turned_size;                    /* of a row, in words of 32 bits */
    int way, rounds;
};

static inline const float *row_of(const struct product *p, int64_t row) {
    return p->x + (p->rows ? p->rows[row] : row) * p->matrix.in_features;
}

/* How linear.c or linear_bf16.c multiplies. */
struct method {
    int64_t tile, rounds; /* rows of a tile; whether x is rounded to bfloat16 */
    void (*prepare)(struct product *p);
    task *turn, *multiply;
};

#define MAX_PANELS_A_TASK 6 /* so few that they stay in the core's cache for all tiles of rows */
#define TILES_A_TASK 16

/* A job is long from this many weights, or from this many multiplications: some tens of
   microseconds. */
#define LONG_FROM_WEIGHTS (1 << 17)
#define LONG_FROM_PRODUCTS (1 << 20)

static inline int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
static inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

#define OURS __attribute__((visibility("hidden"))) /* as `share` in threads.h */
OURS extern const struct method exact;   /* in float32; see linear.c */
OURS extern const struct method rounded; /* x is rounded to bfloat16, as are all parts */
OURS struct method bf16_method(void);    /* the same, or AMX; see linear_bf16.c */

/* Compute several products at the same time. `turned` has room for the rows, with one more input if
   their number is odd; for bf16_method, for 16 rows or a multiple, and for 32 inputs or one. */
OURS void multiply_all(const struct product *products, int64_t num_products, struct method method,
                       int64_t num_threads);

/* One of them; rounds: whether by bf16_method */
void linear(const float *x, const struct part *parts, float *workspace, float *out,
            int64_t num_parts, int64_t num_rows, int64_t in_features, int64_t out_stride,
            int64_t rounds, int64_t num_threads);

int64_t bf16_way(void); /* how bf16_method multiplies */
void rows_of_packed(const struct part *parts, const int64_t *indices, float *out, int64_t num_parts,
                    int64_t num_rows, int64_t in_features, int64_t num_threads);

#endif
