/* Runs the CPU kernels on fixed numbers, and prints a hash of each result; see
   tests/more/kernels/test_other_architectures.py. The exit status is 1 if a product differs from
   a plain loop in one bit. */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "linear.h"
#include "operations.h"
#include "vector.h"

#define INPUTS 512
#define PANELS 3
#define OUTPUTS (PANELS * LANES)
#define MOST_ROWS 17
#define THREADS 3

static uint64_t state = 1;

static uint32_t draw(void) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return state >> 32;
}

static float *draw_floats(int64_t size) {
    float *numbers = malloc(size * sizeof *numbers);
    for (int64_t i = 0; i < size; i++) numbers[i] = (float)(int32_t)draw() * 0x1p-31f;
    return numbers;
}

static void print(const char *name, int64_t number, const void *from, int64_t size) {
    uint64_t hash = 14695981039346656037u;
    for (int64_t i = 0; i < size; i++) hash = (hash ^ ((const uint8_t *)from)[i]) * 1099511628211u;
    printf("%s %d %016llx\n", name, (int)number, (unsigned long long)hash);
}

/* For each format of linear_formats.h, in this order: inputs and bytes of a block. */
enum { BFLOAT16 = 1, NUM_FORMATS = 9 };
static const int64_t BLOCKS[NUM_FORMATS][2] = {{1, 64},   {2, 64},   {2, 64},
                                               {INPUTS, 64 + 16 * INPUTS}, {32, 544}, {32, 288},
                                               {32, 320}, {256, 2368}, {256, 3360}};

/* Draw bytes. The first 64 of a block are floats of 16 bits, small and of either sign, which also
   make finite floats of 32 bits. */
static struct part draw_part(int64_t format) {
    const int64_t bytes = BLOCKS[format][1], size = INPUTS / BLOCKS[format][0] * bytes;
    uint8_t *panels = malloc(PANELS * size);
    for (int64_t i = 0; i < PANELS * size; i++)
        panels[i] = (uint8_t)(i % bytes < 64 && i % 2 ? (draw() & 0x83) | 0x20 : draw());
    return (struct part){format, panels, size, PANELS, 0};
}

/* Whether all outputs are sums from the first input to the last, with one rounding for each. */
static int is_plain_product(const float *x, const float *weights, const float *out,
                            int64_t num_rows, int rounds) {
    for (int64_t r = 0; r < num_rows; r++)
        for (int64_t o = 0; o < OUTPUTS; o++) {
            float sum = 0;
            for (int64_t k = 0; k < INPUTS; k++) {
                float input = x[r * INPUTS + k];
                uint32_t bits = nearest_bf16(input);
                if (rounds) memcpy(&input, &bits, sizeof bits);
                sum = fmaf(input, weights[o * INPUTS + k], sum);
            }
            if (bits_of(sum) != bits_of(out[r * OUTPUTS + o])) return 0;
        }
    return 1;
}

static int check_products(void) {
    static float weights[OUTPUTS * INPUTS], workspace[(MOST_ROWS + LANES) * (INPUTS + 2 * LANES)],
        out[MOST_ROWS * OUTPUTS];
    int64_t indices[OUTPUTS], is_right = 1;
    float *x = draw_floats(MOST_ROWS * INPUTS);
    for (int64_t i = 0; i < OUTPUTS; i++) indices[i] = i;
    for (int64_t format = 0; format < NUM_FORMATS; format++) {
        struct part part = draw_part(format);
        rows_of_packed(&part, indices, weights, 1, OUTPUTS, INPUTS, THREADS);
        print("weights", format, weights, sizeof weights);
        for (int64_t rows = 1; rows <= MOST_ROWS; rows++) {
            linear(x, &part, workspace, out, 1, rows, INPUTS, OUTPUTS, 0, THREADS);
            is_right &= is_plain_product(x, weights, out, rows, 0);
            if (format != BFLOAT16 || bf16_way()) continue; /* other ways sum in another order */
            linear(x, &part, workspace, out, 1, rows, INPUTS, OUTPUTS, 1, THREADS);
            is_right &= is_plain_product(x, weights, out, rows, 1);
        }
    }
    return is_right;
}

/* A decode over 37 tokens, and a chunk of two or five tokens after twenty. A row sees `window`. */
static void attend_to_cache(int64_t kind, int64_t head_size, int64_t group, int64_t window) {
    enum { BLOCK = 16, TOKENS = 62, KV_HEADS = 2, ROWS = 6 };
    static const int64_t tables[] = {3, 1, 4, 0, 2, 5}, rows[] = {0, 1, 2, 3, 4, 5};
    const int64_t pairs = (group > 3 ? 2 : 5) * group, level_end = 2, heads = group * KV_HEADS,
                  first = window < 37 ? 37 - window : 0, begin = first / 16 * 16,
                  next = window < 21 ? 21 - window : 0;
    const int64_t parts[][12] = {{0, 0, group, 0, begin, first, window, 0, 37, 1, 1, 1},
                                 {1, 0, pairs, 3, 0, next, window, 0, 21, 1, 1, 0}};
    static char cache[6 * BLOCK * 2 * KV_HEADS * 256 * sizeof(float)];
    int64_t slots[TOKENS];
    for (int64_t i = 0; i < TOKENS; i++)
        slots[i] = i < 37 ? tables[i / BLOCK] * BLOCK + i % BLOCK
                          : tables[3 + (i - 37) / BLOCK] * BLOCK + (i - 37) % BLOCK;
    float *query = draw_floats(TOKENS * heads * head_size),
          *key = draw_floats(TOKENS * KV_HEADS * head_size),
          *value = draw_floats(TOKENS * KV_HEADS * head_size),
          *cos = draw_floats(TOKENS * head_size), *sin = draw_floats(TOKENS * head_size),
          *out = draw_floats(ROWS * heads * head_size), *state = draw_floats(2 * ROWS * heads);
    memset(cache, 0, sizeof cache);
    rotary_and_cache(query, key, value, heads * head_size, KV_HEADS * head_size,
                     KV_HEADS * head_size, cos, sin, cache, slots, TOKENS, heads, KV_HEADS,
                     head_size, kind, THREADS);
    print("cache", kind, cache, sizeof cache);
    attend(query, heads * head_size, cache, tables, rows, parts, &level_end, 1, out, state,
           state + ROWS * heads, KV_HEADS, group, head_size, BLOCK, kind, 0.125f, THREADS);
    print("attention", 1000 * window + head_size, out, ROWS * heads * head_size * sizeof *out);
}

int main(void) {
    const int64_t size = 576, num_rows = 40;
    float *x = draw_floats(num_rows * size), *residual = draw_floats(num_rows * size),
          *weight = draw_floats(size), *out = draw_floats(num_rows * size);
    add_rms_norm(x, residual, weight, out, num_rows, size, 1e-5f, THREADS);
    print("norm", size, out, num_rows * size * sizeof *out);
    silu_and_mul(x, size, out, num_rows, size / 2, 0, THREADS);
    print("silu", size, out, num_rows * size / 2 * sizeof *out);
    for (int64_t kind = 0; kind < 3; kind++) {
        for (int64_t window = 10; window < 1000; window *= 10) { /* 100 is no window here */
            attend_to_cache(kind, 64, 3, window);
            attend_to_cache(kind, 128, 1, window);
            attend_to_cache(kind, 48, 6, window);
        }
    }
    return check_products() ? 0 : 1;
}
