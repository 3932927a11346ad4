/* y = x W^T on a CPU, in float32, with a special layout of the weights.

   A decode step reads every weight of the model for a handful of rows, so memory bandwidth limits
   the speed. Therefore the weights are stored in the order in which a product reads them. A panel
   holds the weights of 16 outputs, [in_features][16]. A product reads a panel from the first byte
   to the last, which is ideal for the prefetcher. The sums of a tile of rows stay in registers:
   for each input, one vector of 16 weights is multiplied by one number of each row. So the weights
   are read once for sixteen rows, as for one row.

   Quantized weights and half precision keep the checkpoint's bits in memory (linear_formats.h). A
   task decodes a chunk of its panels to float32, in the core's cache, and multiplies all its rows
   by the chunk. So memory traffic shrinks to the bytes of the checkpoint. A single row is
   multiplied where its weights are decoded, in the registers. Decoding bfloat16 is a shift, so that
   is done in the registers for any number of rows.

   linear_rounded multiplies bfloat16 by bfloat16, on some processors in pairs (linear_pairs.h).

   Each output is summed from the first input to the last, one multiply_add at a time, for any
   number of rows and threads, and for any format. So a row's result is the same in any batch, and
   with stored weights as with their float32 values, bit for bit. */

#include "linear.h"
#include "linear_formats.h"
#include "linear_pairs.h"
#include "threads.h"

/* The instructions that the compiler used, of those that the kernels are written for: vectors,
   multiply-add and, for stored weights, conversion of half precision. Without them, torch is
   faster. */
const char *instructions(void) {
#if defined __AVX512F__
    return "AVX-512";
#elif defined __AVX2__ && defined __FMA__ && defined __F16C__
    return "AVX2";
#elif defined __aarch64__
    return "NEON";
#else
    return "";
#endif
}

const char *compiler(void) {
#define TEXT_OF(number) #number
#define TEXT(number) TEXT_OF(number)
#ifdef __clang__
    return "clang " TEXT(__clang_major__);
#else
    return "gcc " TEXT(__GNUC__);
#endif
}

/* With few rows, compute several panels side by side: each step of a sum waits for the previous
   step, so one sum alone would be slow. */
#define MAX_PANELS 6
#ifdef __AVX512F__
#define TILE 16         /* rows at once */
#define ACCUMULATORS 24 /* sums for a panel's outputs at once, in AVX-512's 32 registers */
#define PREFETCH_FROM 7 /* rows of a tile; with fewer, the processor's own prefetcher keeps up */
#else
#define TILE 6
#define ACCUMULATORS 6 /* each in two of AVX2's 16 registers */
#define PREFETCH_FROM 4
#endif
#define AHEAD 4096 /* bytes to prefetch ahead */

#define TURNED_A_TASK 256 /* inputs */
#define CHUNK 32 /* inputs; a multiple of all groups that share a scale */
/* Decoded inputs of all panels that are computed side by side. So few that they stay in the core's
   first cache, and otherwise as many as possible: after them, the sums leave the registers. */
#define DECODED (MAX_PANELS * CHUNK)
#define LINE_BYTES 64 /* of the cache */
#define CHUNKS_AHEAD 2 /* to prefetch ahead for one row */

INLINE reg broadcast_reg(float x) { return x - (reg){0}; }

/* How the weights of a chunk are stored, and what is multiplied.
   FLOATS: float32
   HALVES: bfloat16 in pairs of inputs, an even number of them; multiplied as float32
   PAIRS:  the same, times rounded inputs in pairs, by VDPBF16PS */
enum way { FLOATS, HALVES, PAIRS };

/* The next inputs of some panels. */
struct chunk {
    enum way way;
    const void *weights;
    int64_t stride; /* inputs from the start of one panel to the start of the next */
    int64_t num_inputs;
    int is_first; /* otherwise, the sums of the chunks before it are in `out` */
    /* What to prefetch for the first input of the first panel, and bytes to the next panel's and
       to the next input's. */
    const uint8_t *ahead;
    int64_t panel_bytes, input_bytes;
};

/* `rows` rows by `panels` panels, from panel `first` of the chunk.
   x: [num_inputs][rows], or [num_inputs / 2][rows] pairs; out: the first row's first output */
INLINE void multiply_tile(const float *x, const int rows, const struct chunk *chunk, int64_t first,
                          const int panels, const enum way way, float *out, int64_t out_stride) {
    const int64_t stride = chunk->stride, num_inputs = chunk->num_inputs;
    const int inputs = way == FLOATS ? 1 : 2; /* at once */
    const int bytes = sizeof(float) / inputs; /* of a weight */
    const uint8_t *w = (const uint8_t *)chunk->weights + first * stride * LANES * bytes;
    const uint8_t *ahead = chunk->ahead + first * chunk->panel_bytes;
    reg sums[ACCUMULATORS * REGS];
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int j = 0; j < panels * REGS; j++)
        sums[i * panels * REGS + j] =
            chunk->is_first ? (reg){0} : load_reg(out + i * out_stride + j * REG);
    for (int64_t k = 0; k < num_inputs; k += inputs, ahead += inputs * chunk->input_bytes) {
        words loaded[MAX_PANELS * REGS];
        UNROLL for (int p = 0; p < panels; p++) {
            const uint8_t *from = w + (p * stride + k) * LANES * bytes;
            if (rows >= PREFETCH_FROM) __builtin_prefetch(ahead + p * chunk->panel_bytes);
            UNROLL for (int r = 0; r < REGS; r++)
                loaded[p * REGS + r] = load_words(from + r * sizeof(reg));
        }
        UNROLL for (int i = 0; way == PAIRS && i < rows; i++)
            UNROLL for (int j = 0; j < panels; j++)
                sums[i * panels + j] =
                    multiply_add_pairs(x + k / 2 * rows + i, loaded[j], sums[i * panels + j]);
        UNROLL for (int input = 0; way != PAIRS && input < inputs; input++) {
            UNROLL for (int i = 0; i < rows; i++) {
                reg from_row = broadcast_reg(x[(k + input) * rows + i]);
                UNROLL for (int j = 0; j < panels * REGS; j++) {
                    words weights = inputs == 1  ? loaded[j]
                                    : input == 0 ? loaded[j] << 16
                                                 : loaded[j] & 0xffff0000;
                    reg *sum = &sums[i * panels * REGS + j];
                    *sum = multiply_add_reg(from_row, as_floats(weights), *sum);
                }
            }
        }
    }
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int j = 0; j < panels * REGS; j++)
        store_reg(out + i * out_stride + j * REG, sums[i * panels * REGS + j]);
}

/* How many panels are computed side by side: their sums must fit into the registers. */
INLINE int64_t panels_beside(int64_t rows) {
    return smaller(ACCUMULATORS / rows, MAX_PANELS);
}

/* Multiply one tile of rows by all `num_panels` panels of a chunk. */
INLINE void multiply_rows(const float *x, int rows, const struct chunk *chunk, int64_t num_panels,
                          const enum way way, float *out, int64_t out_stride) {
    int64_t first = 0;
#define TAKE(rows, panels)                                                                \
    for (; first + panels <= num_panels; first += panels)                                 \
        multiply_tile(x, rows, chunk, first, panels, way, out + first * LANES, out_stride);
/* Compute panels side by side, then the rest one by one. */
#define ROWS(rows)                                                                        \
    case rows:                                                                            \
        TAKE(rows, panels_beside(rows))                                                   \
        TAKE(rows, 1)                                                                     \
        break;
    switch (rows) {
        ROWS(1) ROWS(2) ROWS(3) ROWS(4) ROWS(5) ROWS(6)
#if TILE == 16
        ROWS(7) ROWS(8) ROWS(9) ROWS(10) ROWS(11) ROWS(12) ROWS(13) ROWS(14) ROWS(15) ROWS(16)
#endif
    }
}

static int64_t rows_of_tile(const struct product *p, int64_t first) {
    return smaller(p->num_rows - first, TILE);
}

/* Transpose some inputs of a tile of rows, so that numbers used together are stored together. */
static void turn(const void *job, int64_t item) {
    const struct product *p = job;
    int64_t first = item / p->num_turn_tasks * TILE, rows = rows_of_tile(p, first);
    int64_t first_k = item % p->num_turn_tasks * TURNED_A_TASK,
            end = smaller(first_k + TURNED_A_TASK, p->matrix.in_features);
    const float *x[TILE];
    float *tile = p->turned + first * p->turned_size;
    for (int64_t r = 0; r < rows; r++) x[r] = row_of(p, first + r);
    if (p->way == PAIRS) {
        for (int64_t k = first_k; k < end; k += 2 * LANES)
            turn_pairs(x, rows, k, smaller(end - k, 2 * LANES), tile + k / 2 * rows);
        return;
    }
    for (int64_t k = first_k; k < end; k++) {
        for (int64_t r = 0; r < rows; r++) {
            float number = x[r][k];
            uint32_t bits = p->rounds ? nearest_bf16(number) : bits_of(number);
            memcpy(tile + k * rows + r, &bits, sizeof bits);
        }
    }
}

/* Multiply a task's tiles of rows, from row `first` to `end`, by one chunk of its panels.
   first_k: the chunk's first input; out: the first output of row 0 */
static void multiply_chunk(const struct product *p, const struct chunk *chunk, int64_t first_k,
                           int64_t num_panels, int64_t first, int64_t end, float *out) {
    for (; first < end; first += TILE) {
        int64_t rows = rows_of_tile(p, first);
        const float *x = p->turned + first * p->turned_size + first_k * rows;
        float *to = out + first * p->matrix.out_stride;
        switch (chunk->way) {
            case FLOATS:
                multiply_rows(x, rows, chunk, num_panels, FLOATS, to, p->matrix.out_stride);
                break;
            case HALVES:
                multiply_rows(x, rows, chunk, num_panels, HALVES, to, p->matrix.out_stride);
                break;
            case PAIRS: multiply_rows(x, rows, chunk, num_panels, PAIRS, to, p->matrix.out_stride);
        }
    }
}

/* Prefetch about the inputs from `first` to `end` of a panel. */
static void prefetch_inputs(const struct product *p, const uint8_t *panel, int64_t first,
                            int64_t end) {
    int64_t from = p->part->panel_bytes * first / p->matrix.in_features,
            to = p->part->panel_bytes * end / p->matrix.in_features;
    for (; from < to; from += LINE_BYTES) __builtin_prefetch(panel + from);
}

/* Add the products of one row and a chunk, from input `k`, to the sums of some panels side by side.
   x: the row's number for input `k`; sums: [panels][LANES] */
INLINE void multiply_one_row(const struct part *part, const uint8_t *panel, const int panels,
                             int64_t k, const float *x, float *sums) {
    decode_quants(part->format, panel, k, k + CHUNK,
                  (struct target){1, panels, part->panel_bytes, sums, x});
}

/* Multiply the only row by some panels, without storing decoded weights. The panels take turns,
   because each step of a sum waits for the previous one. */
static void multiply_in_registers(const struct product *p, const uint8_t *panels,
                                  int64_t num_panels, float *out) {
    const struct part *part = p->part;
    memset(out, 0, num_panels * LANES * sizeof *out);
    int64_t chunk_bytes = part->panel_bytes / (p->matrix.in_features / CHUNK);
    for (int64_t k = 0; k < p->matrix.in_features; k += CHUNK) {
        for (int64_t i = 0, side; i < num_panels; i += side) {
            const uint8_t *panel = panels + i * part->panel_bytes;
            const uint8_t *ahead = panel + (k / CHUNK + CHUNKS_AHEAD) * chunk_bytes;
            side = smaller(num_panels - i, MAX_BESIDE);
            for (int64_t j = 0; j < side; j++)
                for (int64_t b = 0; b < chunk_bytes; b += LINE_BYTES)
                    __builtin_prefetch(ahead + j * part->panel_bytes + b);
            if (side == MAX_BESIDE)
                multiply_one_row(part, panel, MAX_BESIDE, k, p->turned + k, out + i * LANES);
            else
                multiply_one_row(part, panel, 1, k, p->turned + k, out + i * LANES);
        }
    }
}

/* Multiply a task's tiles of rows by panels that are computed side by side. */
static void multiply_decoded(const struct product *p, const uint8_t *panels, int64_t num_panels,
                             int64_t first, int64_t end, float *out) {
    const struct part *part = p->part;
    _Alignas(LINE_BYTES) float decoded[DECODED * LANES];
    const int64_t length = DECODED / num_panels / CHUNK * CHUNK;
    for (int64_t k = 0; k < p->matrix.in_features; k += length) {
        int64_t end_k = smaller(k + length, p->matrix.in_features);
        for (int64_t i = 0; i < num_panels; i++) {
            const uint8_t *panel = panels + i * part->panel_bytes;
            /* With more rows, the multiplications prefetch the next chunk. */
            if (p->num_rows < PREFETCH_FROM)
                prefetch_inputs(p, panel, end_k, smaller(end_k + length, p->matrix.in_features));
            decode(part->format, panel, k, end_k, decoded + i * length * LANES);
        }
        struct chunk chunk = {FLOATS, decoded, length, end_k - k, k == 0,
                              panels + part->panel_bytes * end_k / p->matrix.in_features,
                              part->panel_bytes, part->panel_bytes / p->matrix.in_features};
        multiply_chunk(p, &chunk, k, num_panels, first, end, out);
    }
}

static void multiply(const void *job, int64_t item) {
    const struct product *p = job;
    const struct part *part = p->part;
    int64_t first = item / p->num_panel_tasks * TILES_A_TASK * TILE,
            end = smaller(first + TILES_A_TASK * TILE, p->num_rows),
            first_panel = item % p->num_panel_tasks * p->panels_a_task,
            num_panels = smaller(p->panels_a_task, part->num_panels - first_panel);
    const uint8_t *panels = part->panels + first_panel * part->panel_bytes;
    float *out = p->out + part->first_output + first_panel * LANES;
    if (part->format == FLOAT32 || p->way != FLOATS) {
        /* At the end of a panel, this prefetches the panel after it in memory. If panels are
           computed one by one, that is the next to compute. */
        int64_t num_inputs = p->way == PAIRS ? 2 * p->turned_size : p->matrix.in_features;
        struct chunk all = {p->way, panels, num_inputs, num_inputs, 1, panels + AHEAD,
                            part->panel_bytes, part->panel_bytes / p->matrix.in_features};
        multiply_chunk(p, &all, 0, num_panels, first, end, out);
        return;
    }
    if (p->num_rows == 1 && part->format != BFLOAT16 && p->matrix.in_features % CHUNK == 0) {
        multiply_in_registers(p, panels, num_panels, out);
        return;
    }
    for (int64_t i = 0; i < num_panels;) {
        int64_t side = smaller(num_panels - i, panels_beside(smaller(p->num_rows, TILE)));
        multiply_decoded(p, panels + i * part->panel_bytes, side, first, end, out + i * LANES);
        i += side;
    }
}

static void prepare(struct product *p) {
    int can_halve = p->part->format == BFLOAT16 && p->matrix.in_features % 2 == 0;
    p->way = p->rounds && MULTIPLIES_PAIRS ? PAIRS : can_halve ? HALVES : FLOATS;
    p->turned_size = p->way == PAIRS ? divide_up(p->matrix.in_features, 2) : p->matrix.in_features;
    p->num_turn_tasks = divide_up(p->matrix.in_features, TURNED_A_TASK);
    if (p->num_rows == 1 && !p->rounds) { /* a single row is in order already */
        p->turned = (float *)row_of(p, 0);
        p->num_turn_tasks = 0;
    }
}

const struct method exact = {TILE, 0, prepare, turn, multiply},
                    rounded = {TILE, 1, prepare, turn, multiply};

#define AT_ONCE 64

/* One step of several products. */
struct step {
    task *run;
    const struct product *products;
    int64_t num_tasks[AT_ONCE], sum;
};

static void run_step(const void *job, int64_t item) {
    const struct step *step = job;
    int64_t i = 0;
    for (; item >= step->num_tasks[i]; i++) item -= step->num_tasks[i];
    step->run(step->products + i, item);
}

/* Part i of all matrices is computed together, because a part's padding overlaps the next part. */
void multiply_all(const struct product *products, int64_t num_products, struct method method,
                  int64_t num_threads) {
    struct product now[AT_ONCE];
    for (; num_products > 0; products += AT_ONCE, num_products -= AT_ONCE)
        for (int64_t part = 0, num = 1; num; part++) {
            struct step turns = {method.turn, now}, multiplies = {method.multiply, now};
            int64_t num_weights = 0, num_sums = 0;
            num = 0;
            for (int64_t i = 0; i < smaller(num_products, AT_ONCE); i++) {
                if (part >= products[i].matrix.num_parts) continue;
                struct product *p = now + num;
                *p = products[i];
                p->part = p->matrix.parts + part;
                /* Use as few rounds as possible; in each round, every thread gets one task. */
                int64_t num_panels = p->part->num_panels,
                        tiles = divide_up(p->num_rows, method.tile),
                        num_rounds = divide_up(num_panels, num_threads * MAX_PANELS_A_TASK);
                p->panels_a_task = divide_up(num_panels, num_threads * num_rounds);
                p->num_panel_tasks = divide_up(num_panels, p->panels_a_task);
                p->rounds = method.rounds;
                method.prepare(p);
                turns.sum += turns.num_tasks[num] = part ? 0 : tiles * p->num_turn_tasks;
                multiplies.sum += multiplies.num_tasks[num++] =
                    divide_up(tiles, TILES_A_TASK) * p->num_panel_tasks;
                num_weights += p->matrix.in_features * num_panels * LANES;
                num_sums += p->num_rows * p->matrix.in_features * num_panels * LANES;
            }
            int is_long = num_weights >= LONG_FROM_WEIGHTS || num_sums >= LONG_FROM_PRODUCTS;
            share(run_step, &turns, turns.sum, num_threads, is_long);
            share(run_step, &multiplies, multiplies.sum, num_threads, is_long);
        }
}

void linear(const float *x, const struct part *parts, float *workspace, float *out,
            int64_t num_parts, int64_t num_rows, int64_t in_features, int64_t out_stride,
            int64_t rounds, int64_t num_threads) {
    const struct product one = {
        {parts, num_parts, in_features, out_stride}, x, 0, num_rows, workspace, out};
    multiply_all(&one, 1, rounds ? bf16_method() : exact, num_threads);
}

struct lookup {
    const struct part *parts;
    int64_t num_parts;
    const int64_t *indices;
    float *out;
    int64_t num_rows, in_features;
};

#define LOOKUPS_A_TASK 16

static void look_up(const void *job, int64_t item) {
    const struct lookup *l = job;
    float decoded[CHUNK * LANES];
    int64_t end = smaller((item + 1) * LOOKUPS_A_TASK, l->num_rows);
    for (int64_t i = item * LOOKUPS_A_TASK; i < end; i++) {
        const struct part *part = l->parts + l->num_parts - 1;
        while (part->first_output > l->indices[i]) part--;
        int64_t row = l->indices[i] - part->first_output;
        const uint8_t *panel = part->panels + row / LANES * part->panel_bytes;
        for (int64_t k = 0; k < l->in_features; k += CHUNK) {
            int64_t end_k = smaller(k + CHUNK, l->in_features);
            decode(part->format, panel, k, end_k, decoded);
            for (int64_t j = 0; j < end_k - k; j++)
                l->out[i * l->in_features + k + j] = decoded[j * LANES + row % LANES];
        }
    }
}

/* Look up rows of a packed matrix.
   indices: [num_rows], each the index of an output; out: [num_rows, in_features] */
void rows_of_packed(const struct part *parts, const int64_t *indices, float *out,
                    int64_t num_parts, int64_t num_rows, int64_t in_features,
                    int64_t num_threads) {
    const struct lookup lookup = {parts, num_parts, indices, out, num_rows, in_features};
    share(look_up, &lookup, divide_up(num_rows, LOOKUPS_A_TASK), num_threads, 0);
}
