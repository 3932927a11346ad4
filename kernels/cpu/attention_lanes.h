/* Attention of many queries over the same tokens, for vectors of WIDTH lanes; attention.c includes
   this file once for each width.

   A lane is one query head of one row. All lanes read the same keys and values, so each number of
   the cache is broadcast to all lanes. No sum goes over lanes, so a lane's result depends neither
   on the lane's position nor on the number of lanes. */

#define JOIN_NAMES(a, b) a##b
#define JOIN(a, b) JOIN_NAMES(a, b)
#define lanes JOIN(lanes_, WIDTH)
#define attend_lanes JOIN(attend_lanes_, WIDTH)
#define attend_pairs JOIN(attend_pairs_, WIDTH)
#define multiply_add_lanes JOIN(multiply_add_, WIDTH)
#define broadcast_lanes JOIN(broadcast_, WIDTH)
#define EACH_SCORE for (int t = 0; t < TILE; t++) for (int lane = 0; lane < WIDTH; lane++)

typedef float lanes __attribute__((vector_size(4 * WIDTH)));

/* Lane i is pair first_pair + i of the part's pairs of row and query head. */
INLINE void attend_lanes(const struct step *step, const struct part *part, int64_t kv_head,
                         int64_t first_pair, int64_t num_lanes, const int kind) {
    const int64_t head_size = step->head_size, group = step->group,
                  to_key = kv_head * head_size,
                  to_value = to_key + step->num_kv_heads * head_size;
    const int num_sums = kind == FLOAT32 ? 1 : NUM_SUMS, at_once = AT_ONCE / num_sums;
    /* sums: the weighted sum of the values, [head_size] for each lane */
    lanes query[MAX_HEAD_SIZE], sums[MAX_HEAD_SIZE], shrink;
    float scores[TILE][WIDTH] __attribute__((aligned(64))), largest[WIDTH], top[WIDTH],
        total[WIDTH];
    /* A lane sees the tokens [starts, limits); heads: index of its [row, head] in the step. */
    int64_t starts[WIDTH], limits[WIDTH], heads[WIDTH];

    for (int lane = 0; lane < WIDTH; lane++) {
        /* A lane without a pair repeats the last pair; its result is not used. */
        int64_t pair = first_pair + (lane < num_lanes ? lane : num_lanes - 1);
        int64_t row = step->rows[part->first_entry + pair / group],
                head = kv_head * group + pair % group;
        heads[lane] = row * step->num_kv_heads * group + head;
        limits[lane] = part->limit + part->grows * (pair / group);
        starts[lane] = limits[lane] - part->window;
        largest[lane] = -INFINITY;
        /* A lane may see nothing of the first tile, and -INFINITY - -INFINITY is NaN. */
        if (starts[lane] > part->begin) largest[lane] = -FLT_MAX;
        if (part->continues) largest[lane] = step->largest[heads[lane]];
        total[lane] = part->continues ? step->total[heads[lane]] : 0.0f;
        /* Here and below, KEEP makes the compiler move numbers one by one. Without it, the compiler
           uses gathers and scatters, which are slower. */
        const float *from = step->query + row * step->query_stride + head * head_size,
                    *before = step->out + heads[lane] * head_size;
        float *to = (float *)query + lane, *to_sum = (float *)sums + lane;
        for (int64_t d = 0; d < head_size; d++, to += WIDTH) {
            KEEP(to);
            *to = kind == FLOAT32 ? from[d] * step->scale : from[d];
        }
        for (int64_t d = 0; part->continues && d < head_size; d++, to_sum += WIDTH) {
            KEEP(to_sum);
            *to_sum = before[d];
        }
    }
    if (!part->continues) memset(sums, 0, head_size * sizeof(lanes));

    const int64_t end = limits[WIDTH - 1];
    struct walk walk = start_walk(step, part, kind);
    const char *next[TILE], *token[TILE];
    const float *key[TILE], *value[TILE];
    float key_scales[TILE], value_scales[TILE];
    /* Each number is read once for each lane, so other kinds are converted to float32 first. */
    float floats[2 * TILE * MAX_HEAD_SIZE];
    find_tokens(&walk, part->first - part->begin, end - part->begin, next);
    for (int64_t begin = part->begin; begin < end; begin += TILE) {
        const int length = end - begin < TILE ? end - begin : TILE;
        memcpy(token, next, sizeof token);
        find_tokens(&walk, 0, end - begin - TILE, next);

        for (int t = 0; t < TILE; t++) {
            key[t] = (const float *)token[t] + to_key;
            value[t] = (const float *)token[t] + to_value;
            if (kind == FLOAT32) continue;
            float *keys = floats + 2 * t * head_size, *values = keys + head_size;
            for (int64_t d = 0; d < head_size; d += LANES) {
                store(keys + d, load_numbers(token[t], to_key + d, kind));
                store(values + d, load_numbers(token[t], to_value + d, kind));
                FETCH(next[t] + (to_key + d) * number_bytes(kind));
                FETCH(next[t] + (to_value + d) * number_bytes(kind));
            }
            key[t] = keys;
            value[t] = values;
        }
        load_scales(step, token, kv_head, kind, key_scales);
        load_scales(step, token, step->num_kv_heads + kv_head, kind, value_scales);

        for (int first = 0; first < TILE; first += at_once) {
            lanes dots[AT_ONCE]; /* [at_once][num_sums] */
            UNROLL for (int i = 0; i < AT_ONCE; i++) dots[i] = (lanes){0};
            for (int64_t d = 0; d < head_size; d += 4) {
                /* Four iterations prefetch one cache line of each token's key. */
                UNROLL for (int t = 0; kind == FLOAT32 && t < AT_ONCE / 4; t++)
                    FETCH((const float *)next[first + d / 4 % 4 * (AT_ONCE / 4) + t] + to_key + d);
                UNROLL for (int t = 0; t < at_once; t++) {
                    const float *numbers = key[first + t] + d;
                    UNROLL for (int i = 0; i < 4; i++) {
                        lanes *sum = dots + t * num_sums + i % num_sums;
                        *sum = multiply_add_lanes(broadcast_lanes(numbers[i]), query[d + i], *sum);
                    }
                }
            }
            UNROLL for (int t = 0; t < at_once; t++) {
                lanes *sum = dots + t * num_sums, dot = *sum;
                if (kind != FLOAT32)
                    dot = ((sum[0] + sum[1]) + (sum[2] + sum[3])) *
                          broadcast_lanes(key_scales[first + t] * step->scale);
                *(lanes *)scores[first + t] = dot;
            }
        }

        int32_t first_seen[WIDTH], end_seen[WIDTH];
        const int has_unseen = limits[0] < begin + TILE || starts[WIDTH - 1] > begin;
        for (int lane = 0; lane < WIDTH; lane++) {
            int64_t left = limits[lane] - begin, gone = starts[lane] - begin;
            end_seen[lane] = left < TILE ? (int32_t)left : TILE;
            first_seen[lane] = gone < 0 ? 0 : gone < TILE ? (int32_t)gone : TILE;
            top[lane] = largest[lane];
        }
#define IS_SEEN(t, lane) ((t) >= first_seen[lane] && (t) < end_seen[lane])
        if (has_unseen)
            EACH_SCORE scores[t][lane] = IS_SEEN(t, lane) ? scores[t][lane] : -INFINITY;
        EACH_SCORE top[lane] = scores[t][lane] > top[lane] ? scores[t][lane] : top[lane];
        EACH_SCORE scores[t][lane] = exp_(scores[t][lane] - top[lane]);
        /* exp_(-INFINITY) is tiny but not 0, and unseen tokens must have a weight of 0. */
        if (has_unseen) EACH_SCORE scores[t][lane] = IS_SEEN(t, lane) ? scores[t][lane] : 0.0f;
        for (int lane = 0; lane < WIDTH; lane++) {
            float factor = exp_(largest[lane] - top[lane]); /* for the first tile, it scales 0 */
            ((float *)&shrink)[lane] = factor;
            total[lane] *= factor;
            largest[lane] = top[lane];
        }
        EACH_SCORE total[lane] += scores[t][lane];
        if (kind == INT8) EACH_SCORE scores[t][lane] *= value_scales[t];

        for (int64_t d = 0; d < head_size; d += AT_ONCE) {
            lanes some[AT_ONCE];
            UNROLL for (int i = 0; i < AT_ONCE; i++) some[i] = sums[d + i] * shrink;
            for (int t = 0; t < length; t++) {
                const float *numbers = value[t] + d;
                KEEP(numbers); /* use one address with sixteen offsets, not sixteen addresses */
                if (kind == FLOAT32) FETCH((const float *)next[t] + to_value + d);
                UNROLL for (int i = 0; i < AT_ONCE; i++)
                    some[i] = multiply_add_lanes(broadcast_lanes(numbers[i]), *(lanes *)scores[t],
                                                 some[i]);
            }
            UNROLL for (int i = 0; i < AT_ONCE; i++) sums[d + i] = some[i];
        }
    }

    for (int lane = 0; lane < num_lanes; lane++) {
        float *to = step->out + heads[lane] * head_size,
              factor = part->is_last ? 1.0f / total[lane] : 1.0f;
        const float *from = (float *)sums + lane;
        for (int64_t d = 0; d < head_size; d++, from += WIDTH) {
            KEEP(from);
            to[d] = *from * factor;
        }
        step->largest[heads[lane]] = largest[lane];
        step->total[heads[lane]] = total[lane];
    }
}

/* Attend from all pairs of a part, for key heads [first_kv_head, end_kv_head). */
INLINE void attend_pairs(const struct step *step, const struct part *part, int64_t first_kv_head,
                         int64_t end_kv_head, const int kind) {
    for (int64_t kv_head = first_kv_head; kv_head < end_kv_head; kv_head++)
        for (int64_t done = 0; done < part->num_pairs; done += WIDTH) {
            int64_t left = part->num_pairs - done;
            attend_lanes(step, part, kv_head, part->first_pair + done, left < WIDTH ? left : WIDTH,
                         kind);
        }
}

#undef JOIN_NAMES
#undef JOIN
#undef lanes
#undef attend_lanes
#undef attend_pairs
#undef multiply_add_lanes
#undef broadcast_lanes
#undef EACH_SCORE
#undef IS_SEEN
#undef WIDTH
