/* y = x W^T on a CPU, in float32, with a special layout of the weights.

   A decode step reads every weight of the model for a handful of rows, so memory bandwidth limits
   the speed. Therefore the weights are stored in the order in which a product reads them. A panel
   holds the weights of 16 outputs, [in_features][16]. A product reads a panel from the first byte
   to the last, which is ideal for the prefetcher. The sums of a tile of rows stay in registers:
   for each input, one vector of 16 weights is multiplied by one number of each row. So the weights
   are read once for sixteen rows, as for one row.

   Each output is summed from the first input to the last, one multiply_add_16 at a time, for any
   number of rows and threads. So a row's result is the same in any batch, bit for bit. */

#include "threads.h"
#include "vector.h"

/* Whether the compiler used registers of sixteen floats. Without them, there are too few
   registers for the sums below. */
int64_t linear_is_fast(void) {
#ifdef __AVX512F__
    return 1;
#else
    return 0;
#endif
}

#define TILE 16         /* rows at once */
/* With few rows, compute several panels side by side: each step of a sum waits for the previous
   step, so one sum alone would be slow. */
#define MAX_PANELS 6
#define ACCUMULATORS 24 /* sums at once, of AVX-512's 32 registers */
#define PREFETCH_FROM 7 /* rows; with fewer, the processor's own prefetcher keeps up */
#define AHEAD 64        /* vectors to prefetch ahead: 4 KiB */

#define MAX_PANELS_A_TASK 6 /* so few that they stay in the core's cache for all tiles of rows */
#define TILES_A_TASK 16
#define TURNED_A_TASK 256 /* inputs */
/* A job is long from this many weights, or from this many multiplications: some tens of
   microseconds. */
#define LONG_FROM_WEIGHTS (1 << 17)
#define LONG_FROM_PRODUCTS (1 << 20)

static inline int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* `rows` rows by `panels` panels.
   x: [in_features][rows]; w: the first panel; out: the first row's first output */
INLINE void multiply_tile(
    const float *x, const int rows, const float *w, const int panels, float *out,
    int64_t in_features, int64_t out_features) {
    vec sums[ACCUMULATORS];
    UNROLL for (int i = 0; i < rows * panels; i++) sums[i] = (vec){0};
    for (int64_t k = 0; k < in_features; k++) {
        vec weights[MAX_PANELS];
        UNROLL for (int p = 0; p < panels; p++) {
            const float *from = w + (p * in_features + k) * LANES;
            /* At the end of a panel, this prefetches the panel after it in memory. If panels are
               computed one by one, that is the next to compute. */
            if (rows >= PREFETCH_FROM) __builtin_prefetch(from + AHEAD * LANES);
            weights[p] = load(from);
        }
        UNROLL for (int r = 0; r < rows; r++)
            UNROLL for (int p = 0; p < panels; p++) {
                int i = r * panels + p;
                sums[i] = multiply_add_16(broadcast_16(x[k * rows + r]), weights[p], sums[i]);
            }
    }
    UNROLL for (int r = 0; r < rows; r++) {
        UNROLL for (int p = 0; p < panels; p++) {
            store(out + r * out_features + p * LANES, sums[r * panels + p]);
        }
    }
}

/* Multiply one tile of rows by the panels from `first` to `last`. */
static void multiply_rows(const float *x, int rows, const float *w, float *out,
                          int64_t in_features, int64_t out_features, int64_t first, int64_t last) {
#define TAKE(rows, panels)                                                                \
    for (; first + panels <= last; first += panels)                                       \
        multiply_tile(x, rows, w + first * in_features * LANES, panels,                   \
                      out + first * LANES, in_features, out_features);
/* Compute as many panels side by side as fit into registers, then the rest one by one. */
#define ROWS(rows)                                                                        \
    case rows:                                                                            \
        TAKE(rows, (ACCUMULATORS / rows < MAX_PANELS ? ACCUMULATORS / rows : MAX_PANELS)) \
        TAKE(rows, 1)                                                                     \
        break;
    switch (rows) {
        ROWS(1) ROWS(2) ROWS(3) ROWS(4) ROWS(5) ROWS(6) ROWS(7) ROWS(8)
        ROWS(9) ROWS(10) ROWS(11) ROWS(12) ROWS(13) ROWS(14) ROWS(15) ROWS(16)
    }
}

struct product {
    const float *x, *packed;
    float *turned, *out;
    int64_t num_rows, in_features, out_features;
    /* num_panel_tasks: per TILES_A_TASK tiles of rows */
    int64_t num_panels, panels_a_task, num_panel_tasks;
    int64_t num_turn_tasks; /* per tile of rows */
};

static int64_t rows_of_tile(const struct product *p, int64_t first) {
    return p->num_rows - first < TILE ? p->num_rows - first : TILE;
}

/* Transpose some inputs of a tile of rows, so that numbers used together are stored together. */
static void turn(const void *job, int64_t item) {
    const struct product *p = job;
    int64_t first = item / p->num_turn_tasks * TILE, rows = rows_of_tile(p, first);
    int64_t first_k = item % p->num_turn_tasks * TURNED_A_TASK, end = first_k + TURNED_A_TASK;
    for (int64_t k = first_k; k < end && k < p->in_features; k++) {
        float *to = p->turned + first * p->in_features + k * rows;
        for (int64_t r = 0; r < rows; r++) to[r] = p->x[(first + r) * p->in_features + k];
    }
}

static void multiply(const void *job, int64_t item) {
    const struct product *p = job;
    int64_t first_tile = item / p->num_panel_tasks * TILES_A_TASK,
            first_panel = item % p->num_panel_tasks * p->panels_a_task;
    int64_t last_panel = first_panel + p->panels_a_task < p->num_panels
                             ? first_panel + p->panels_a_task
                             : p->num_panels;
    for (int64_t first = first_tile * TILE;
         first < (first_tile + TILES_A_TASK) * TILE && first < p->num_rows; first += TILE) {
        multiply_rows(p->turned + first * p->in_features, rows_of_tile(p, first), p->packed,
                      p->out + first * p->out_features, p->in_features, p->out_features,
                      first_panel, last_panel);
    }
}

/* x: [num_rows, in_features]; packed: [out_features / 16, in_features, 16]
   out: [num_rows, out_features]
   turned: workspace of the size of x, or x itself if x has one row */
void linear(const float *x, const float *packed, float *turned, float *out,
            int64_t num_rows, int64_t in_features, int64_t out_features, int64_t num_threads) {
    int64_t num_panels = out_features / LANES, num_tiles = divide_up(num_rows, TILE);
    int is_long = in_features * out_features >= LONG_FROM_WEIGHTS ||
                  num_rows * in_features * out_features >= LONG_FROM_PRODUCTS;
    /* Use as few rounds as possible; in each round, every thread gets one task. */
    int64_t num_rounds = divide_up(num_panels, num_threads * MAX_PANELS_A_TASK);
    int64_t panels_a_task = divide_up(num_panels, num_threads * num_rounds);
    const struct product product = {
        x, packed, turned, out, num_rows, in_features, out_features,
        num_panels, panels_a_task, divide_up(num_panels, panels_a_task),
        divide_up(in_features, TURNED_A_TASK)};
    if (turned != x)
        share(turn, &product, num_tiles * product.num_turn_tasks, num_threads, is_long);
    share(multiply, &product, divide_up(num_tiles, TILES_A_TASK) * product.num_panel_tasks,
          num_threads, is_long);
}

struct lookup {
    const float *packed;
    const int64_t *indices;
    float *out;
    int64_t num_rows, in_features;
};

static void look_up(const void *job, int64_t item) {
    const struct lookup *l = job;
    for (int64_t i = item * TILE; i < l->num_rows && i < (item + 1) * TILE; i++) {
        const float *from =
            l->packed + l->indices[i] / LANES * l->in_features * LANES + l->indices[i] % LANES;
        for (int64_t k = 0; k < l->in_features; k++)
            l->out[i * l->in_features + k] = from[k * LANES];
    }
}

/* Look up rows of a packed weight.
   indices: [num_rows], each the index of an output; out: [num_rows, in_features] */
void rows_of_packed(const float *packed, const int64_t *indices, float *out, int64_t num_rows,
                    int64_t in_features, int64_t num_threads) {
    const struct lookup lookup = {packed, indices, out, num_rows, in_features};
    share(look_up, &lookup, divide_up(num_rows, TILE), num_threads, 0);
}
