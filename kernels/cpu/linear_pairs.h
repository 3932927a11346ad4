/* Inputs rounded to bfloat16, and VDPBF16PS, which multiplies them in pairs.

   A lane of 32 bits has two neighbouring inputs, of a row or of an output's weights. VDPBF16PS adds
   both products of all lanes to sixteen float32 sums. It takes subnormal numbers for zero. */

#ifndef CPU_LINEAR_PAIRS_H
#define CPU_LINEAR_PAIRS_H

#include "linear_formats.h"

/* Whether VDPBF16PS is used: on AMD's processors it does twice the work of a fused multiply-add in
   the same time, and on an Intel Xeon less than the same (decision 131). gcc defines these names
   for AMD's processors; version 12 takes a Zen 4 for a Zen 3. */
#if defined __AVX512BF16__ && (defined __znver3__ || defined __znver4__ || defined __znver5__)
#define MULTIPLIES_PAIRS 1
#else
#define MULTIPLIES_PAIRS 0
#endif

#if MULTIPLIES_PAIRS

/* sum + x[0] * weights[0] + x[1] * weights[1] in each lane; x: one pair, for all lanes. */
INLINE reg multiply_add_pairs(const float *x, words weights, reg sum) {
    return (reg)_mm512_dpbf16_ps((__m512)sum, (__m512bh)weights,
                                 (__m512bh)(bits_of(*x) - (words){0}));
}

/* Round the inputs from `first` of up to sixteen rows, and transpose them as pairs.
   num_inputs: at most 32; an odd one is followed by zero
   to: [divide_up(num_inputs, 2)][num_rows] pairs */
INLINE void turn_pairs(const float *const *x, int64_t num_rows, int64_t first, int64_t num_inputs,
                       float *to) {
    const uint32_t inputs = (uint32_t)((UINT64_C(1) << num_inputs) - 1);
    words pairs[LANES] = {0};
    for (int64_t r = 0; r < num_rows; r++)
        pairs[r] = (words)_mm512_cvtne2ps_pbh(
            _mm512_maskz_loadu_ps((__mmask16)(inputs >> LANES), x[r] + first + LANES),
            _mm512_maskz_loadu_ps((__mmask16)inputs, x[r] + first));
    TRANSPOSE_16(pairs, words)
    const __mmask16 rows = (__mmask16)((1 << num_rows) - 1);
    for (int64_t k = 0; 2 * k < num_inputs; k++)
        _mm512_mask_storeu_ps(to + k * num_rows, rows, (__m512)pairs[k]);
}

#else

/* Never called. */
INLINE reg multiply_add_pairs(const float *x, words weights, reg sum) { return sum; }
INLINE void turn_pairs(const float *const *x, int64_t num_rows, int64_t first, int64_t num_inputs,
                       float *to) {}

#endif

#endif
