// Computes the batch of elasticity and which numbers of ranks can share it. config_elastic.c calls
// it, and tools/plan_model for other numbers of ranks.
#include "config/elastic.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

// Numbers with more divisors than any smaller one; the list is DeepSpeed's.
static const int64_t highly_composite[] = {
    1,      2,      4,      6,      12,     24,     36,     48,     60,    120,
    180,    240,    360,    720,    840,    1260,   1680,   2520,   5040,  7560,
    10080,  15120,  20160,  25200,  27720,  45360,  50400,  55440,  83160, 110880,
    166320, 221760, 277200, 332640, 498960, 554400, 665280, 720720,
};

static int64_t largest_composite_multiple(int64_t base, int64_t most)
{
    int64_t factor = 1;
    for (int i = 0; i < ZR_COUNT(highly_composite) && highly_composite[i] <= most / base; i++)
        factor = highly_composite[i];
    return base == most ? base : base * factor;
}

static int64_t common_divisor(int64_t a, int64_t b)
{
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

// Returns the least common multiple, or any number above `most` if it is larger than that.
static int64_t common_multiple(const zr_elastic_rule *rule, int64_t most)
{
    int64_t multiple = 1;
    for (int i = 0; i < rule->micro_count && multiple <= most; i++)
        if (__builtin_mul_overflow(
                multiple, rule->micros[i] / common_divisor(multiple, rule->micros[i]), &multiple))
            return INT64_MAX;
    return multiple;
}

static int64_t least_micro(const zr_elastic_rule *rule)
{
    int64_t least = rule->micros[0];
    for (int i = 1; i < rule->micro_count; i++)
        least = ZR_MIN(least, rule->micros[i]);
    return least;
}

// Returns the largest micro-batch of the list that divides `samples`; 0 if there is none.
static int64_t largest_dividing_micro(const zr_elastic_rule *rule, int64_t samples)
{
    int64_t found = 0;
    for (int i = 0; i < rule->micro_count; i++)
        if (samples % rule->micros[i] == 0)
            found = ZR_MAX(found, rule->micros[i]);
    return found;
}

static int compare_ascending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

typedef struct search { // over numbers of ranks, or of machines
    const zr_elastic_rule *rule;
    int64_t most, least_ranks, most_ranks;
} search;

static void add_ranks_if_possible(const search *s, int64_t batch, int64_t ranks, zr_elastic *out)
{
    if (ranks >= s->least_ranks && ranks <= s->most_ranks &&
        largest_dividing_micro(s->rule, batch / ranks))
        out->ranks[out->count++] = ranks;
}

static void try_batch(const search *s, int64_t batch, zr_elastic *out)
{
    out->batch = batch;
    out->count = 0;
    for (int64_t d = 1; d * d <= batch; d++) {
        if (batch % d)
            continue;
        add_ranks_if_possible(s, batch, d, out);
        if (d != batch / d)
            add_ranks_if_possible(s, batch, batch / d, out);
    }
}

static bool has_better_batch(const zr_elastic *a, const zr_elastic *b, bool prefer_larger)
{
    if (a->count != b->count)
        return a->count > b->count;
    return prefer_larger ? a->batch > b->batch : a->batch < b->batch;
}

static zero_status find_best(const search *s, zr_elastic *out, zero_error *error)
{
    const zr_elastic_rule *rule = s->rule;
    for (int i = 0; i < rule->micro_count; i++)
        if (rule->micros[i] > s->most)
            return zr_fail(error, ZERO_ERR_CONFIG,
                           "a micro-batch of %" PRId64
                           " samples is above the largest batch, %" PRId64 "%s",
                           rule->micros[i], s->most,
                           s->most < rule->most_samples ? " for each rank of a machine" : "");
    zr_elastic best = {.rule = *rule}, next = {.rule = *rule};
    for (int i = 0; i <= rule->micro_count; i++) {
        int64_t base = i < rule->micro_count ? rule->micros[i] : common_multiple(rule, s->most);
        if (base > s->most)
            continue;
        try_batch(s, largest_composite_multiple(base, s->most), &next);
        if (next.count && has_better_batch(&next, &best, rule->prefer_larger))
            best = next;
    }
    *out = best;
    qsort(out->ranks, (size_t)out->count, sizeof *out->ranks, compare_ascending);
    return ZERO_OK;
}

zero_status zr_elastic_solve(const zr_elastic_rule *rule, zr_elastic *out, zero_error *error)
{
    int64_t node = rule->by_node ? rule->node_ranks : 1;
    search s = {.rule = rule,
                .most = rule->most_samples / node,
                .least_ranks = rule->min_ranks / node,
                .most_ranks = rule->max_ranks / node};
    if (!s.most_ranks) // as in DeepSpeed: less than one machine is no limit
        s.most_ranks = s.most / least_micro(rule);
    ZERO_TRY(find_best(&s, out, error));
    out->batch *= node;
    for (int i = 0; i < out->count; i++)
        out->ranks[i] *= node;
    return ZERO_OK;
}

static bool lists_rank_count(const zr_elastic *elastic, int64_t ranks)
{
    return bsearch(&ranks, elastic->ranks, (size_t)elastic->count, sizeof ranks,
                   compare_ascending) != NULL;
}

// Returns the largest batch that is a multiple of a micro-batch on these ranks: the largest (or,
// unless prefer_larger, the smallest) over the micro-batches.
static int64_t batch_of_others(const zr_elastic_rule *rule, int64_t ranks)
{
    int64_t found = -1;
    for (int i = 0; i < rule->micro_count; i++) {
        int64_t step, batch = 0;
        if (!__builtin_mul_overflow(rule->micros[i], ranks, &step))
            batch = rule->most_samples / step * step;
        if (found < 0 || (rule->prefer_larger ? batch > found : batch < found))
            found = batch;
    }
    return found;
}

bool zr_elastic_share(const zr_elastic *elastic, int64_t ranks, zr_elastic_batch *out)
{
    bool named = lists_rank_count(elastic, ranks);
    if (!named && !elastic->rule.by_node)
        return false;
    int64_t train = named ? elastic->batch : batch_of_others(&elastic->rule, ranks);
    if (train < 1)
        return false;
    int64_t micro = largest_dividing_micro(&elastic->rule, train / ranks);
    *out = (zr_elastic_batch){
        .train = train, .micro = micro, .accumulation = train / ranks / micro, .other = !named};
    return true;
}

void zr_elastic_list(const zr_elastic *elastic, char *out, size_t bytes)
{
    size_t used = 0;
    int i = 0;
    out[0] = 0;
    for (; i < elastic->count && used + 64 < bytes; i++)
        used += (size_t)snprintf(out + used, bytes - used, "%s%" PRId64, i ? ", " : "",
                                 elastic->ranks[i]);
    if (i < elastic->count)
        snprintf(out + used, bytes - used, ", ... (%d in all)", elastic->count);
    else if (!i)
        snprintf(out, bytes, "none");
}
