/* y = x W^T on a CPU, in bfloat16 with float32 sums.

   x is rounded to bfloat16, once for all outputs, and W is stored in bfloat16. A product of two
   such numbers is exact in float32, so only the sums round. There are three ways:

       AMX         TDPBF16PS multiplies tiles: 16 rows by 32 inputs by 16 outputs; in this file
       VDPBF16PS   adds two products for each of 16 outputs; linear.c, on AMD's processors
       otherwise   linear.c over the rounded x, one fused multiply-add after another

   A panel of weights is [in_features / 2][16 outputs][2 inputs] (linear_formats.h). So 32 inputs of
   a panel are one tile of weights, in one piece. x is laid out in tiles, too.

   A tile of sums is computed from the first to the last 32 inputs, and no row of it depends on
   another. A tile always has 16 rows, and the result of rows that do not exist is dropped. So a
   row's result is the same in any batch, bit for bit. The ways sum in different orders, so results
   can differ in their last bits between processors. */

#include "linear.h"
#include "linear_pairs.h"
#include "threads.h"
#include "vector.h"

#define TILE 16         /* rows of a tile */
#define INPUTS 32       /* inputs of a tile */
#define TILE_BYTES 1024 /* 16 rows of 64 bytes, in all tiles */
#define LINE 64

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

static int64_t num_blocks(const struct product *p) {
    return divide_up(p->matrix.in_features, INPUTS);
}

/* Round a tile of rows, and lay it out in tiles. Inputs past the last are zero. */
static void round_tiles(const void *job, int64_t item) {
    const struct product *p = job;
    int64_t first = item * TILE, rows = smaller(p->num_rows - first, TILE);
    uint16_t *tiles = (uint16_t *)p->turned + first * num_blocks(p) * INPUTS;
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t block = 0; block < num_blocks(p); block++) {
            const float *from = row_of(p, first + r) + block * INPUTS;
            float rest[INPUTS] = {0};
            int64_t left = p->matrix.in_features - block * INPUTS;
            if (left < INPUTS) from = memcpy(rest, from, left * sizeof *rest);
            uint16_t *to = tiles + (block * TILE + r) * INPUTS;
            for (int k = 0; k < INPUTS; k++) to[k] = nearest_bf16(from[k]) >> 16;
        }
    }
}

/* Return a tile of weights. The last one of a panel can be shorter: it is copied and padded. */
INLINE const uint8_t *tile_of_weights(const struct product *p, const uint8_t *panel, int64_t block,
                                      uint8_t *padded) {
    int64_t left = p->part->panel_bytes - block * TILE_BYTES;
    if (left >= TILE_BYTES) return panel + block * TILE_BYTES;
    memset(padded + left, 0, TILE_BYTES - left);
    return memcpy(padded, panel + block * TILE_BYTES, left);
}

/* Store tile register `number`, or those of its rows that exist. */
#define STORE_TILE(number, to, rows)                                                   \
    do {                                                                               \
        float sums[TILE * LANES];                                                      \
        if (rows >= TILE) _tile_stored(number, to, p->matrix.out_stride * sizeof(float));     \
        else _tile_stored(number, sums, LINE);                                         \
        for (int64_t r = 0; rows < TILE && r < rows; r++)                              \
            store(to + r * p->matrix.out_stride, load(sums + r * LANES));                     \
    } while (0)

/* One or two tiles of rows by one or two panels.
   Tile registers: 0 to 3 sums, 4 and 5 inputs, 6 and 7 weights
   rows: how many exist, from the first of the tiles */
INLINE void multiply_panels(const struct product *p, const uint8_t *x, const int tiles,
                            const uint8_t *panel, const int panels, float *out, int64_t rows) {
    const int64_t blocks = num_blocks(p);
    const int64_t next_tile = blocks * TILE_BYTES, next_panel = p->part->panel_bytes;
    _Alignas(LINE) uint8_t padded[2][TILE_BYTES];
    _tile_zero(0);
    if (panels > 1) _tile_zero(1);
    if (tiles > 1) _tile_zero(2);
    if (tiles > 1 && panels > 1) _tile_zero(3);
    for (int64_t block = 0; block < blocks; block++, x += TILE_BYTES) {
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
        float *below = out + TILE * p->matrix.out_stride;
        STORE_TILE(2, below, rows - TILE);
        if (panels > 1) STORE_TILE(3, below + LANES, rows - TILE);
    }
}

static void multiply_tiles(const void *job, int64_t item) {
    const struct product *p = job;
    const struct part *part = p->part;
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
        const uint8_t *x =
            (const uint8_t *)((uint16_t *)p->turned + first * num_blocks(p) * INPUTS);
        const uint8_t *w = part->panels + first_panel * part->panel_bytes;
        float *out = p->out + first * p->matrix.out_stride + part->first_output +
                     first_panel * LANES;
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

static void prepare(struct product *p) { p->num_turn_tasks = 1; }

struct method bf16_method(void) {
    return has_amx() ? (struct method){TILE, 1, prepare, round_tiles, multiply_tiles} : rounded;
}

#else

static int has_amx(void) { return 0; }

struct method bf16_method(void) { return rounded; }

#endif

/* What multiplies by `bf16_method`; BF16_WAYS in ops.py. */
int64_t bf16_way(void) { return has_amx() ? 2 : MULTIPLIES_PAIRS; }
