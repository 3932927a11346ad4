/* AMX's instructions in plain C, for processors without them: gcc -include emulated_amx.h.
   Source: Intel's manual, TDPBF16PS: even and odd inputs have a sum each, which is added at the
   end. It also flushes subnormal numbers to zero, which is left out here. */

#include <immintrin.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>
#define __AMX_BF16__ 1
#undef _tile_zero
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbf16ps
#define syscall(...) 0 /* the system grants permission */
#define _tile_loadconfig(config) amx_configure(config)
#define _tile_release() (amx_is_configured = 0)
#define _tile_zero(t) memset(amx_tile(t), 0, 1024)
#define _tile_loadd(t, from, stride) amx_copy(amx_tile(t), 64, from, stride)
#define _tile_stored(t, to, stride) amx_copy(to, stride, amx_tile(t), 64)
#define _tile_dpbf16ps(c, a, b) amx_multiply(amx_tile(c), amx_tile(a), amx_tile(b))

static _Thread_local uint8_t amx_tiles[8][1024];
static _Thread_local int amx_is_configured;

static inline void amx_configure(const void *config) {
    const uint8_t *bytes = config;
    amx_is_configured = bytes[0] == 1;
    for (int t = 0; t < 8; t++) amx_is_configured &= bytes[16 + 2 * t] == 64 && bytes[48 + t] == 16;
}

static inline void *amx_tile(int number) {
    if (!amx_is_configured) __builtin_trap();
    return amx_tiles[number];
}

static inline void amx_copy(void *to, int64_t to_stride, const void *from, int64_t from_stride) {
    for (int r = 0; r < 16; r++)
        memcpy((char *)to + r * to_stride, (const char *)from + r * from_stride, 64);
}

static inline float amx_float(uint16_t bf16) {
    uint32_t bits = (uint32_t)bf16 << 16;
    float number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

static inline void amx_multiply(void *sums, const void *inputs, const void *weights) {
    float *c = sums;
    const uint16_t *a = inputs, *b = weights;
    for (int m = 0; m < 16; m++)
        for (int n = 0; n < 16; n++) {
            float of[2] = {0, 0};
            for (int k = 0; k < 16; k++)
                for (int i = 0; i < 2; i++)
                    of[i] = __builtin_fmaf(amx_float(a[m * 32 + 2 * k + i]),
                                           amx_float(b[k * 32 + 2 * n + i]), of[i]);
            c[m * 16 + n] += of[0] + of[1];
        }
}
