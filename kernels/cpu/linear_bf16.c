/* y = x W^T on a CPU, in bfloat16 with float32 sums.

   x is rounded to bfloat16, once for all outputs, and W is stored in bfloat16. A product of two
   such numbers is exact in float32, so only the sums round. There are two ways:

       AMX         TDPBF16PS multiplies tiles: 16 rows by 32 inputs by 16 outputs
       otherwise   linear.c over the rounded x, one fused multiply-add after another

   AVX-512 has VDPBF16PS, which is not used: on an Intel Xeon without AMX, two fused multiply-adds
   computed the same 32 products in about two thirds of the time (decision 122).

   A panel of weights is [in_features / 2][16 outputs][2 inputs] (linear_formats.h). So 32 inputs of
   a panel are one tile of weights, in one piece. x is laid out in tiles, too.

   A tile of sums is computed from the first to the last 32 inputs, and no row of it depends on
   another. A tile always has 16 rows, and the result of rows that do not exist is dropped. So a
   row's result is the same in any batch, bit for bit. The two ways sum in different orders: results
   can differ in their last bits between a processor with AMX and one without. */

#include "linear.h"
#include "threads.h"
#include "vector.h"

#define TILE 16         /* rows of a tile */
#define INPUTS 32       /* inputs of a tile */
#define TILE_BYTES 1024 /* 16 rows of 64 bytes, in all tiles */
#define LINE 64

#define MAX_PANELS_A_TASK 6
#define TILES_A_TASK 16

struct product {
    const float *x;
    /* [num_rows, in_features] float32, or for AMX [num_tiles][num_blocks][16 rows][32] bfloat16 */
    void *rounded;
    float *out;
    int64_t num_rows, in_features, out_stride;
    struct part part;
    int64_t num_blocks; /* of INPUTS */
    int64_t panels_a_task, num_panel_tasks;
};

/* Round to the nearest bfloat16, ties to even. A NaN stays a NaN. */
INLINE uint32_t nearest_bf16(float number) {
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
    return number == number ? rounded : 0x7fc00000;
}

static void round_rows(const void *job, int64_t item) {
    const struct product *p = job;
    int64_t first = item * TILE, end = smaller(first + TILE, p->num_rows);
    uint32_t *to = p->rounded;
    for (int64_t i = first * p->in_features; i < end * p->in_features; i++)
        to[i] = nearest_bf16(p->x[i]);
}

#ifdef __AMX_BF16__

#include <sys/syscall.h>
#include <unistd.h>

#define ARCH_REQ_XCOMP_PERM 0x1023
#define XFEATURE_XTILEDATA 18

/* A process must ask Linux for the tiles' memory before its first use of them. */
static int has_amx(void) {
    static _Atomic int permitted = -1;
    if (permitted < 0)
        permitted = !syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA);
    return permitted;
}

/* Round a tile of rows, and lay it out in tiles. Inputs past the last are zero. */
static void round_tiles(const void *job, int64_t item) {
    const struct product *p = job;
    int64_t first = item * TILE, rows = smaller(p->num_rows - first, TILE);
    uint16_t *tiles = (uint16_t *)p->rounded + first * p->num_blocks * INPUTS;
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t block = 0; block < p->num_blocks; block++) {
            const float *from = p->x + (first + r) * p->in_features + block * INPUTS;
            float rest[INPUTS] = {0};
            int64_t left = p->in_features - block * INPUTS;
            if (left < INPUTS) from = memcpy(rest, from, left * sizeof *rest);
            uint16_t *to = tiles + (block * TILE + r) * INPUTS;
            for (int k = 0; k < INPUTS; k++) to[k] = nearest_bf16(from[k]) >> 16;
        }
    }
}

/* Return a tile of weights. The last one of a panel can be shorter: it is copied and padded. */
INLINE const uint8_t *tile_of_weights(const struct product *p, const uint8_t *panel, int64_t block,
                                      uint8_t *padded) {
    int64_t left = p->part.panel_bytes - block * TILE_BYTES;
    if (left >= TILE_BYTES) return panel + block * TILE_BYTES;
    memset(padded + left, 0, TILE_BYTES - left);
    return memcpy(padded, panel + block * TILE_BYTES, left);
}

/* Store tile register `number`, or those of its rows that exist. */
#define STORE_TILE(number, to, rows)                                                   \
    do {                                                                               \
        float sums[TILE * LANES];                                                      \
        if (rows >= TILE) _tile_stored(number, to, p->out_stride * sizeof(float));     \
        else _tile_stored(number, sums, LINE);                                         \
        for (int64_t r = 0; rows < TILE && r < rows; r++)                              \
            store(to + r * p->out_stride, load(sums + r * LANES));                     \
    } while (0)

/* One or two tiles of rows by one or two panels.
   Tile registers: 0 to 3 sums, 4 and 5 inputs, 6 and 7 weights
   rows: how many exist, from the first of the tiles */
INLINE void multiply_panels(const struct product *p, const uint8_t *x, const int tiles,
                            const uint8_t *panel, const int panels, float *out, int64_t rows) {
    const int64_t next_tile = p->num_blocks * TILE_BYTES, next_panel = p->part.panel_bytes;
    _Alignas(LINE) uint8_t padded[2][TILE_BYTES];
    _tile_zero(0);
    if (panels > 1) _tile_zero(1);
    if (tiles > 1) _tile_zero(2);
    if (tiles > 1 && panels > 1) _tile_zero(3);
    for (int64_t block = 0; block < p->num_blocks; block++, x += TILE_BYTES) {
        _tile_loadd(4, x, LINE);
        _tile_loadd(6, tile_of_weights(p, panel, block, padded[0]), LINE);
        _tile_dpbf16ps(0, 4, 6);
        if (panels > 1) {
            _tile_loadd(7, tile_of_weights(p, panel + next_panel, block, padded[1]), LINE);
            _tile_dpbf16ps(1, 4, 7);
        }
        if (tiles > 1) {
            _tile_loadd(5, x + next_tile, LINE);
            _tile_dpbf16ps(2, 5, 6);
            if (panels > 1) _tile_dpbf16ps(3, 5, 7);
        }
    }
    STORE_TILE(0, out, rows);
    if (panels > 1) STORE_TILE(1, out + LANES, rows);
    if (tiles > 1) {
        float *below = out + TILE * p->out_stride;
        STORE_TILE(2, below, rows - TILE);
        if (panels > 1) STORE_TILE(3, below + LANES, rows - TILE);
    }
}

static void multiply_tiles(const void *job, int64_t item) {
    const struct product *p = job;
    const struct part *part = &p->part;
    int64_t first = item / p->num_panel_tasks * TILES_A_TASK * TILE,
            end = smaller(first + TILES_A_TASK * TILE, p->num_rows),
            first_panel = item % p->num_panel_tasks * p->panels_a_task,
            end_panel = smaller(first_panel + p->panels_a_task, part->num_panels);
    /* Palette 1: eight registers, each of 16 rows of 64 bytes. oneDNN sets its own palette in the
       same thread, so set ours for each task. */
    _Alignas(LINE) struct {
        uint8_t palette, unused[15];
        uint16_t bytes[16];
        uint8_t rows[16];
    } config = {.palette = 1};
    for (int i = 0; i < 8; i++) config.bytes[i] = LINE, config.rows[i] = TILE;
    _tile_loadconfig(&config);
    for (; first < end; first += 2 * TILE) {
        const uint8_t *x = (const uint8_t *)p->rounded + first * p->num_blocks * LINE;
        const uint8_t *w = part->panels + first_panel * part->panel_bytes;
        float *out = p->out + first * p->out_stride + first_panel * LANES;
        int64_t rows = end - first;
        for (int64_t panel = first_panel; panel < end_panel;
             panel += 2, w += 2 * part->panel_bytes, out += 2 * LANES) {
            if (rows > TILE && end_panel - panel > 1) multiply_panels(p, x, 2, w, 2, out, rows);
            else if (rows > TILE) multiply_panels(p, x, 2, w, 1, out, rows);
            else if (end_panel - panel > 1) multiply_panels(p, x, 1, w, 2, out, rows);
            else multiply_panels(p, x, 1, w, 1, out, rows);
        }
    }
    _tile_release(); /* otherwise the system saves the tiles at each change of threads */
}

static void multiply_with_amx(struct product p, int is_long, int64_t num_threads) {
    int64_t num_tiles = divide_up(p.num_rows, TILE), num_panels = p.part.num_panels;
    p.num_blocks = divide_up(p.in_features, INPUTS);
    p.panels_a_task =
        divide_up(num_panels, num_threads * divide_up(num_panels, num_threads * MAX_PANELS_A_TASK));
    p.num_panel_tasks = divide_up(num_panels, p.panels_a_task);
    share(round_tiles, &p, num_tiles, num_threads, is_long);
    share(multiply_tiles, &p, divide_up(num_tiles, TILES_A_TASK) * p.num_panel_tasks, num_threads,
          is_long);
}

#else

static int has_amx(void) { return 0; }
static void multiply_with_amx(struct product p, int is_long, int64_t num_threads) {}

#endif

/* Whether `linear_bf16` uses AMX. */
int64_t bf16_uses_amx(void) { return has_amx(); }

/* x: [num_rows, in_features] float32; part: the whole matrix, in bfloat16
   workspace: twice the size of x, with the number of rows rounded up to a multiple of 16 and the
       number of inputs to a multiple of 32
   out: [num_rows, out_stride] float32, with room for the padding of the part */
void linear_bf16(const float *x, const struct part *part, float *workspace, float *out,
                 int64_t num_rows, int64_t in_features, int64_t out_stride, int64_t num_threads) {
    const struct product product = {x, workspace, out, num_rows, in_features, out_stride, *part};
    int64_t num_weights = in_features * out_stride;
    int is_long = num_weights >= LONG_FROM_WEIGHTS || num_rows * num_weights >= LONG_FROM_PRODUCTS;
    if (has_amx()) {
        multiply_with_amx(product, is_long, num_threads);
        return;
    }
    share(round_rows, &product, divide_up(num_rows, TILE), num_threads, is_long);
    linear(workspace, part, num_rows == 1 ? workspace : workspace + num_rows * in_features, out, 1,
           num_rows, in_features, out_stride, num_threads);
}
