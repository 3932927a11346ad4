/* A mixture of experts: choose each token's experts, and run them.

   The tokens of one expert are multiplied together, so a step reads the weights of an expert once,
   or not at all if it has no token. The products of all experts are one job for all threads, so an
   expert with few tokens keeps no core waiting. A token's result depends on that token only: its
   scores are summed in one order, and its experts' results in ascending order of the experts. */

#include <math.h>
#include "linear.h"
#include "operations.h"
#include "threads.h"
#include "vector.h"

#define MAX_EXPERTS 1024 /* as in model_config.py */

struct router {
    const float *x, *weight;
    float *shares;
    int64_t *chosen;
    int64_t num_experts, hidden_size, top_k, normalizes;
};

static float dot(const float *a, const float *b, int64_t size) {
    vec sums = {0};
    int64_t i = 0;
    for (; i + LANES <= size; i += LANES) sums = multiply_add_16(load(a + i), load(b + i), sums);
    float sum = sum_of_lanes(sums);
    for (; i < size; i++) sum = multiply_add(a[i], b[i], sum);
    return sum;
}

static void route_token(const void *job, int64_t token) {
    const struct router *r = job;
    const int64_t size = r->hidden_size;
    float scores[MAX_EXPERTS];
    char is_chosen[MAX_EXPERTS] = {0};
    float largest = -INFINITY, sum = 0, sum_of_chosen = 0;
    for (int64_t i = 0; i < r->num_experts; i++) {
        scores[i] = dot(r->x + token * size, r->weight + i * size, size);
        largest = scores[i] > largest ? scores[i] : largest;
    }
    for (int64_t i = 0; i < r->num_experts; i++) sum += scores[i] = exp_(scores[i] - largest);
    for (int64_t k = 0; k < r->top_k; k++) {
        int64_t best = -1; /* where all scores are NaN, an expert is still chosen once */
        for (int64_t i = 0; i < r->num_experts; i++)
            if (!is_chosen[i] && (best < 0 || scores[i] > scores[best])) best = i;
        is_chosen[best] = 1;
        sum_of_chosen += scores[best];
    }
    for (int64_t i = 0, at = token * r->top_k; i < r->num_experts; i++) {
        if (!is_chosen[i]) continue;
        r->shares[at] = scores[i] / (r->normalizes ? sum_of_chosen : sum);
        r->chosen[at++] = i;
    }
}

/* x: [num_tokens, hidden_size]; weight: [num_experts, hidden_size]
   shares, chosen: [num_tokens, top_k], in ascending order of the experts */
void fused_topk(const float *x, const float *weight, float *shares, int64_t *chosen,
                int64_t num_tokens, int64_t num_experts, int64_t hidden_size, int64_t top_k,
                int64_t normalizes, int64_t num_threads) {
    const struct router router = {x, weight, shares, chosen, num_experts, hidden_size, top_k,
                                  normalizes};
    share(route_token, &router, num_tokens, num_threads,
          num_tokens * num_experts * hidden_size >= LONG_FROM_PRODUCTS);
}

/* `decoder.Experts` writes this struct. */
struct expert {
    struct matrix gate_up, down;
};

struct sums {
    const float *results, *shares;
    const int64_t *places; /* [num_tokens, top_k]: of a pair of token and expert, in `results` */
    float *out;
    int64_t top_k, stride, hidden_size;
};

static void add_results(const void *job, int64_t token) {
    const struct sums *s = job;
    float *out = s->out + token * s->hidden_size;
    memset(out, 0, s->hidden_size * sizeof *out);
    for (int64_t pair = token * s->top_k; pair < (token + 1) * s->top_k; pair++) {
        const float *result = s->results + s->places[pair] * s->stride;
        for (int64_t i = 0; i < s->hidden_size; i++) out[i] += result[i] * s->shares[pair];
    }
}

/* x, out: [num_tokens, hidden_size]; shares, chosen: as fused_topk returns them
   numbers: [num_experts + 2 * num_pairs], workspace for num_pairs = num_tokens * top_k
   workspace: rows of gates and ups, gated ups and results for each pair, and then what all
       experts' products need (linear.h) */
void fused_experts(const float *x, const struct expert *experts, const float *shares,
                   const int64_t *chosen, float *out, int64_t *numbers, float *workspace,
                   int64_t num_tokens, int64_t top_k, int64_t num_experts, int64_t rounds,
                   int64_t num_threads) {
    const int64_t hidden = experts->gate_up.in_features, width = experts->down.in_features,
                  num_pairs = num_tokens * top_k;
    int64_t *ends = numbers, *tokens = ends + num_experts, *places = tokens + num_pairs;
    float *wide = workspace, *narrow = wide + num_pairs * experts->gate_up.out_stride,
          *results = narrow + num_pairs * width,
          *turned = results + num_pairs * experts->down.out_stride;
    /* Sort the pairs by expert. In the end, an expert's pairs end where the next one's begin. */
    memset(ends, 0, num_experts * sizeof *ends);
    for (int64_t i = 0; i < num_pairs; i++) ends[chosen[i]]++;
    for (int64_t e = 0, first = 0, count; e < num_experts; e++, first += count)
        count = ends[e], ends[e] = first;
    for (int64_t i = 0; i < num_pairs; i++) {
        places[i] = ends[chosen[i]]++;
        tokens[places[i]] = i / top_k;
    }
    struct product into[MAX_EXPERTS], back[MAX_EXPERTS];
    int64_t num = 0, widest = divide_up(hidden > width ? hidden : width, 32) * 32;
    for (int64_t e = 0, first = 0; e < num_experts; first = ends[e++]) {
        if (ends[e] == first) continue;
        const struct matrix *gate_up = &experts[e].gate_up, *down = &experts[e].down;
        const int64_t count = ends[e] - first;
        into[num] = (struct product){*gate_up, x, tokens + first, count, turned,
                                     wide + first * gate_up->out_stride};
        back[num++] = (struct product){*down, narrow + first * width, 0, count, turned,
                                       results + first * down->out_stride};
        turned += divide_up(count, LANES) * LANES * widest;
    }
    const struct method method = rounds ? bf16_method() : exact;
    multiply_all(into, num, method, num_threads);
    silu_and_mul(wide, experts->gate_up.out_stride, narrow, num_pairs, width, 0, num_threads);
    multiply_all(back, num, method, num_threads);
    const struct sums sums = {results, shares, places, out,
                              top_k, experts->down.out_stride, hidden};
    share(add_results, &sums, num_tokens, num_threads, num_pairs * hidden >= LONG_FROM_PRODUCTS);
}
