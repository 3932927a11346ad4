/* Paged attention for a CPU, computed in float32 over any cache (kv_kinds.h). It reads the cache in
   place; torch would have to gather a copy of every context.
   minivllm/runtime/attention/cpu_backend.py cuts the work into parts, and
   ops.py calls `attend`. The reference implementation is
   minivllm/runtime/attention/torch_backend.py.

   A part is up to sixteen pairs of a row and a query head, and the tokens that these pairs read.
   The kernel goes through the tokens in tiles of sixteen: it computes the tile's scores, updates
   the largest score so far, and rescales the earlier sums (online softmax). With many pairs, each
   pair is a lane (attention_lanes.h). A decode has few pairs, so the numbers of a head are the
   lanes (`attend_one_row`).

   A part can continue the softmax of an earlier part. Until a row's last part is done, its output is
   a sum that is not yet divided by its total.

   Slots after a sequence's end can hold NaN from another request, and 0 * NaN is NaN. So the code
   never computes an address beyond the last visible token; an incomplete tile repeats its first
   token. The same holds for tokens before the window of a part's first row. */

#include <float.h>
#include <math.h>
#include "kv_kinds.h"
#include "operations.h"
#include "threads.h"
#include "vector.h"

#define TILE 16 /* tokens; NUM_TOKENS_AT_ONCE in cpu_backend.py */
#define MAX_HEAD_SIZE 256
/* With more heads, attention_lanes.h needs fewer operations, even with half of its lanes empty. */
#define MAX_HEADS_OF_ROW 4
#define ENOUGH_PARTS 8 /* parts per thread, so that no thread waits long for the last part */
/* A job is long from this many multiplications; they take some tens of microseconds. */
#define LONG_FROM (1 << 18)
/* Partial sums of a score, for a cache of any kind but float32. With a single one, each addition
   would wait for the one before. */
#define NUM_SUMS 4
/* Prefetch the next tile to the second-level cache: the first level's few open requests are all in
   use (decision 68). */
#define FETCH(address) __builtin_prefetch(address, 0, 2)
/* Make the compiler keep this pointer in a register here. */
#define KEEP(pointer) __asm__("" : "+r"(pointer))

#ifdef __AVX512F__
#define AT_ONCE 16 /* sums that fit into registers */
#else
#define AT_ONCE 8
#endif

/* A row of `AttentionWork.parts`. Pairs are numbered from the stretch's first row; the heads of a
   row have consecutive numbers. */
struct part {
    int64_t first_entry; /* the stretch's first entry in `rows` */
    int64_t first_pair, num_pairs;
    int64_t table; /* start of the block table, in `block_tables` */
    int64_t begin; /* start of the first tile, a multiple of 16 */
    int64_t first; /* first token to read: after `begin` where a window starts in a tile */
    int64_t window; /* how many tokens a row sees, at most */
    int64_t continues; /* whether the rows have an earlier part */
    /* number of tokens that the stretch's first row sees, from the start of the context */
    int64_t limit;
    int64_t grows; /* how many tokens more each next row sees */
    int64_t is_last; /* whether this is the last part of its rows: divide the sums */
    int64_t is_decode; /* whether this is the last part of a single row */
};

struct step {
    const float *query;
    const char *cache;
    const int64_t *block_tables, *rows;
    float *out, *largest, *total;
    int64_t query_stride, num_kv_heads, group, head_size, block_size, kind;
    float scale;
};

/* A position in a block table. */
struct walk {
    const char *rows;
    const int64_t *block;
    int64_t in_block, block_size, token_stride;
};

INLINE struct walk start_walk(const struct step *step, const struct part *part, const int kind) {
    return (struct walk){
        .rows = step->cache,
        .block = step->block_tables + part->table + part->first / step->block_size,
        .in_block = part->first % step->block_size,
        .block_size = step->block_size,
        .token_stride = row_bytes(kind, 2 * step->num_kv_heads, step->head_size),
    };
}

/* Find the rows of the next tile's tokens, from number `first` of the tile on; num_left tokens
   remain. If none remains, `token` stays unchanged. */
INLINE void find_tokens(struct walk *walk, int64_t first, int64_t num_left, const char **token) {
    for (int t = first; t < TILE && num_left > 0; t++) {
        if (t >= num_left) {
            token[t] = token[first];
            continue;
        }
        token[t] =
            walk->rows + (*walk->block * walk->block_size + walk->in_block) * walk->token_stride;
        if (++walk->in_block == walk->block_size) {
            walk->in_block = 0;
            walk->block++;
        }
    }
    for (int t = 0; t < first; t++) token[t] = token[first];
}

/* The scales of a tile's keys or values; 1 without scales. `head` counts the keys' heads, then the
   values'. */
INLINE void load_scales(const struct step *step, const char **token, int64_t head, const int kind,
                        float *scales) {
    const int64_t num_heads = 2 * step->num_kv_heads;
    const int64_t at = num_heads * step->head_size + head * sizeof(float);
    for (int t = 0; t < TILE; t++) {
        scales[t] = 1.0f;
        if (kind == INT8) memcpy(scales + t, token[t] + at, sizeof(float));
    }
}

#define WIDTH 8
#include "attention_lanes.h"
#ifdef __AVX512F__
#define WIDTH 16
#include "attention_lanes.h"
#endif

/* A head of a tile, for one row's queries: numbers `to_key` and following of each token's row. */
struct head_tile {
    const float *query; /* [num_heads, head_size] */
    const char **token, **next;
    int64_t to_key, to_value, kv_head;
    int first, length; /* the tile's tokens [first, length) are visible */
};

#define FETCH_NUMBERS(row, i, kind) \
    if ((i) * number_bytes(kind) % 64 == 0) FETCH((row) + (i) * number_bytes(kind))

/* Scores of a float32 cache. The numbers of a key are lanes. */
INLINE void score_rows(const struct head_tile *tile, float scale, float (*scores)[TILE],
                       const int64_t head_size, const int num_heads) {
    float quarters[MAX_HEADS_OF_ROW][TILE][4];
    for (int t = 0; t < TILE; t++) {
        vec products[MAX_HEADS_OF_ROW];
        UNROLL for (int head = 0; head < num_heads; head++) products[head] = (vec){0};
        UNROLL for (int64_t d = 0; d < head_size; d += LANES) {
            vec key = load_numbers(tile->token[t], tile->to_key + d, FLOAT32);
            FETCH(tile->next[t] + (tile->to_key + d) * sizeof(float));
            UNROLL for (int head = 0; head < num_heads; head++)
                products[head] =
                    multiply_add_16(load(tile->query + head * head_size + d), key, products[head]);
        }
        UNROLL for (int head = 0; head < num_heads; head++) {
            quarter_vec quarter = quarter_of_sum(products[head]);
            memcpy(quarters[head][t], &quarter, sizeof quarter);
        }
    }
    for (int head = 0; head < num_heads; head++)
        for (int t = 0; t < TILE; t++) {
            const float *q = quarters[head][t];
            scores[head][t] = ((q[0] + q[1]) + (q[2] + q[3])) * scale;
        }
}

/* Scores of the other kinds. The tokens are lanes, and each sum has the order of attention_lanes.h,
   so a token gets the same bits from a decode and from a chunk. Here this matters: the next layer
   rounds so coarsely that a different last bit can become a different number. */
INLINE void score_columns(const struct head_tile *tile, const float *scales, float scale,
                          float (*scores)[TILE], const int64_t head_size, const int num_heads,
                          const int kind) {
    vec sums[MAX_HEADS_OF_ROW][NUM_SUMS];
    UNROLL for (int head = 0; head < num_heads; head++)
        UNROLL for (int i = 0; i < NUM_SUMS; i++) sums[head][i] = (vec){0};
    for (int64_t d = 0; d < head_size; d += LANES) {
        char columns[LANES][TILE * sizeof(uint16_t)] __attribute__((aligned(64)));
        const int64_t from = (tile->to_key + d) * number_bytes(kind);
        UNROLL for (int t = 0; t < TILE; t++) {
            memcpy(columns[t], tile->token[t] + from, LANES * number_bytes(kind));
            FETCH_NUMBERS(tile->next[t] + tile->to_key * number_bytes(kind), d, kind);
        }
        if (kind == INT8) transpose_bytes(columns);
        if (kind == BFLOAT16) transpose_shorts(columns);
        UNROLL for (int i = 0; i < LANES; i++) {
            vec keys = load_numbers(columns[i], 0, kind);
            UNROLL for (int head = 0; head < num_heads; head++)
                sums[head][i % NUM_SUMS] =
                    multiply_add_16(broadcast_16(tile->query[head * head_size + d + i]), keys,
                                    sums[head][i % NUM_SUMS]);
        }
    }
    UNROLL for (int head = 0; head < num_heads; head++) {
        vec *sum = sums[head];
        store(scores[head], ((sum[0] + sum[1]) + (sum[2] + sum[3])) * (load(scales) * scale));
    }
}

/* Attend from one row to one tile, for the num_heads query heads of a key head. Each key and value
   is loaded once for all heads. */
INLINE void attend_tile(const struct step *step, const struct head_tile *tile, float *sums,
                        float *largest, float *total, const int64_t head_size,
                        const int num_heads, const int kind) {
    float scores[MAX_HEADS_OF_ROW][TILE], scales[TILE];
    if (kind == FLOAT32) {
        score_rows(tile, step->scale, scores, head_size, num_heads);
    } else {
        load_scales(step, tile->token, tile->kv_head, kind, scales);
        score_columns(tile, scales, step->scale, scores, head_size, num_heads, kind);
    }
    load_scales(step, tile->token, step->num_kv_heads + tile->kv_head, kind, scales);
    for (int head = 0; head < num_heads; head++) {
        float top = largest[head], *score = scores[head];
        for (int t = 0; t < tile->first; t++) score[t] = -INFINITY;
        for (int t = 0; t < tile->length; t++) top = score[t] > top ? score[t] : top;
        for (int t = 0; t < TILE; t++) score[t] = exp_(score[t] - top);
        for (int t = 0; t < tile->first; t++) score[t] = 0.0f;
        float shrink = exp_(largest[head] - top); /* for the first tile, it scales zeros */
        total[head] *= shrink;
        for (int t = 0; t < tile->length; t++) total[head] += score[t];
        largest[head] = top;
        for (int64_t d = 0; d < head_size; d += LANES)
            store(sums + head * head_size + d, load(sums + head * head_size + d) * shrink);
        if (kind == INT8)
            for (int t = 0; t < TILE; t++) score[t] *= scales[t];
    }
    for (int64_t d = 0; d < head_size; d += LANES) {
        vec some[MAX_HEADS_OF_ROW];
        UNROLL for (int head = 0; head < num_heads; head++)
            some[head] = load(sums + head * head_size + d);
        for (int t = 0; t < tile->length; t++) {
            vec value = load_numbers(tile->token[t], tile->to_value + d, kind);
            FETCH_NUMBERS(tile->next[t] + tile->to_value * number_bytes(kind), d, kind);
            UNROLL for (int head = 0; head < num_heads; head++)
                some[head] = multiply_add_16(broadcast_16(scores[head][t]), value, some[head]);
        }
        UNROLL for (int head = 0; head < num_heads; head++)
            store(sums + head * head_size + d, some[head]);
    }
}

/* Attend from one row, for key heads [first_kv_head, end_kv_head). Each of them has num_heads query
   heads, at most MAX_HEADS_OF_ROW. The key heads of a token are neighbours in memory, so the loop
   computes a tile for all key heads before the next tile. */
INLINE void attend_one_row(const struct step *step, const struct part *part, int64_t first_kv_head,
                           int64_t end_kv_head, const int64_t head_size, const int num_heads,
                           const int kind) {
    const int64_t row = step->rows[part->first_entry], row_size = step->num_kv_heads * head_size;
    /* the row's first query head among those of the step */
    const int64_t first_head = row * step->num_kv_heads * num_heads;
    const float *query = step->query + row * step->query_stride;
    float *sums = step->out + first_head * head_size,
          *largest = step->largest + first_head, *total = step->total + first_head;
    const int64_t first = first_kv_head * num_heads, end = end_kv_head * num_heads;
    for (int64_t head = first; head < end && !part->continues; head++) {
        memset(sums + head * head_size, 0, head_size * sizeof(float));
        largest[head] = -INFINITY;
        total[head] = 0.0f;
    }
    struct walk walk = start_walk(step, part, kind);
    const char *next[TILE], *token[TILE];
    find_tokens(&walk, part->first - part->begin, part->limit - part->begin, next);
    for (int64_t begin = part->begin; begin < part->limit; begin += TILE) {
        const int length = part->limit - begin < TILE ? part->limit - begin : TILE,
                  unseen = part->first > begin ? part->first - begin : 0;
        memcpy(token, next, sizeof token);
        find_tokens(&walk, 0, part->limit - begin - TILE, next);
        for (int64_t head = first; head < end; head += num_heads) {
            const int64_t kv_head = head / num_heads, to_key = kv_head * head_size;
            const struct head_tile tile = {query + head * head_size, token, next, to_key,
                                           to_key + row_size, kv_head, unseen, length};
            attend_tile(step, &tile, sums + head * head_size, largest + head, total + head,
                        head_size, num_heads, kind);
        }
    }
    for (int64_t head = first; head < end; head++) {
        float *to = sums + head * head_size, factor = 1.0f / total[head];
        for (int64_t d = 0; d < head_size; d += LANES) store(to + d, load(to + d) * factor);
    }
}

/* Each case of constants is a function of its own. gcc takes twice as long to compile one function
   with all of them. */
typedef void attend_case(const struct step *step, const struct part *part, int64_t first_kv_head,
                         int64_t end_kv_head);
#define CASE(name, attend, ...)                                                            \
    static __attribute__((noinline)) void name(const struct step *step,                    \
                                               const struct part *part, int64_t first,     \
                                               int64_t end) {                              \
        attend(step, part, first, end, __VA_ARGS__);                                       \
    }
#define ROW_CASES(name, head_size, kind)                                                   \
    CASE(name##_1, attend_one_row, head_size, 1, kind)                                     \
    CASE(name##_2, attend_one_row, head_size, 2, kind)                                     \
    CASE(name##_3, attend_one_row, head_size, 3, kind)                                     \
    CASE(name##_4, attend_one_row, head_size, 4, kind)                                     \
    static attend_case *const name[MAX_HEADS_OF_ROW] = {name##_1, name##_2, name##_3, name##_4};
#define PAIRS_CASES(name, attend)                                                          \
    CASE(name##_float32, attend, FLOAT32)                                                  \
    CASE(name##_bfloat16, attend, BFLOAT16)                                                \
    CASE(name##_int8, attend, INT8)                                                        \
    static attend_case *const name[] = {name##_float32, name##_bfloat16, name##_int8};

ROW_CASES(row_float32, step->head_size, FLOAT32)
ROW_CASES(row_bfloat16, step->head_size, BFLOAT16)
ROW_CASES(row_int8, step->head_size, INT8)
static attend_case *const *const row_of_kind[] = {row_float32, row_bfloat16, row_int8};
/* With a common head size as a constant, the compiler keeps a row of float32 in registers. */
ROW_CASES(row_float32_of_64, 64, FLOAT32)
ROW_CASES(row_float32_of_128, 128, FLOAT32)
PAIRS_CASES(pairs_8, attend_pairs_8)
#ifdef __AVX512F__
PAIRS_CASES(pairs_16, attend_pairs_16)
#endif

static attend_case *choose_case(const struct step *step, const struct part *part) {
    if (part->is_decode && step->group <= MAX_HEADS_OF_ROW) {
        if (step->kind == FLOAT32 && step->head_size == 64)
            return row_float32_of_64[step->group - 1];
        if (step->kind == FLOAT32 && step->head_size == 128)
            return row_float32_of_128[step->group - 1];
        return row_of_kind[step->kind][step->group - 1];
    }
#ifdef __AVX512F__
    if (part->num_pairs > 8) return pairs_16[step->kind];
#endif
    return pairs_8[step->kind];
}

/* The parts of one level. A task is one part for some of the key heads. */
struct level {
    const struct step *step;
    const struct part *parts;
    int64_t tasks_a_part, heads_a_task;
};

static void attend_task(const void *job, int64_t item) {
    const struct level *level = job;
    int64_t kv_head = item % level->tasks_a_part * level->heads_a_task;
    const struct part *part = level->parts + item / level->tasks_a_part;
    choose_case(level->step, part)(level->step, part, kv_head, kv_head + level->heads_a_task);
}

/* Run all parts of a layer, level by level: parts[level_ends[i - 1]] to parts[level_ends[i] - 1]
   are level i.
   work: the parts, as cpu_backend.py writes them
   query, out: [num_rows, num_kv_heads * group, head_size]; query_stride: between rows of the query
   cache: [num_blocks, block_size] rows of this kind (kv_kinds.h), keys and values of a token
   largest, total: [num_rows, num_kv_heads * group], a row's softmax state between its parts */
void attend(const float *query, int64_t query_stride, const char *cache,
            const int64_t *block_tables, const int64_t *rows, const void *work,
            const int64_t *level_ends, int64_t num_levels, float *out, float *largest, float *total,
            int64_t num_kv_heads, int64_t group, int64_t head_size, int64_t block_size,
            int64_t kind, float scale, int64_t num_threads) {
    const struct step step = {query, cache, block_tables, rows, out, largest, total,
                              query_stride, num_kv_heads, group, head_size, block_size, kind,
                              scale};
    const struct part *parts = work;
    if (!num_levels) return;
    int64_t num_products = 0;
    for (const struct part *part = parts; part < parts + level_ends[num_levels - 1]; part++)
        num_products += part->num_pairs * (part->limit - part->begin) * num_kv_heads * head_size;
    for (int64_t i = 0; i < num_levels; i++) {
        int64_t first = i ? level_ends[i - 1] : 0, num_parts = level_ends[i] - first;
        /* If there are enough parts for all threads, a task takes all key heads of a part, because
           they are neighbours in memory. */
        int64_t heads_a_task = num_parts >= ENOUGH_PARTS * num_threads ? num_kv_heads : 1;
        const struct level level = {&step, parts + first, num_kv_heads / heads_a_task,
                                    heads_a_task};
        share(attend_task, &level, num_parts * level.tasks_a_part, num_threads,
              num_products >= LONG_FROM);
    }
}
