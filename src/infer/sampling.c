// Chooses the next token from logits: the likeliest, or one drawn by temperature, top-k and top-p.
#include "infer/decoding.h"

#include <math.h>
#include <stdlib.h>

static int compare_candidates(const void *a, const void *b)
{
    const zr_candidate *x = a, *y = b;
    if (x->logit != y->logit)
        return x->logit < y->logit ? 1 : -1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static int32_t find_likeliest(const float *logits, int32_t count)
{
    int32_t best = 0;
    for (int32_t i = 1; i < count; i++)
        if (logits[i] > logits[best])
            best = i;
    return best;
}

static double sampling_weight(const zr_candidate *candidate, float most, double temperature)
{
    return exp((double)(candidate->logit - most) / temperature);
}

// Returns how many of the sorted candidates together have the share top_p of the probability of all
// `count`.
static int32_t count_top_p(const zr_candidate *sorted, int32_t count, double temperature,
                           double top_p)
{
    double total = 0, so_far = 0;
    for (int32_t i = 0; i < count; i++)
        total += sampling_weight(&sorted[i], sorted[0].logit, temperature);
    for (int32_t i = 0; i < count; i++) {
        so_far += sampling_weight(&sorted[i], sorted[0].logit, temperature);
        if (so_far >= top_p * total)
            return i + 1;
    }
    return count;
}

int32_t zr_choose_token(const float *logits, int32_t count, double temperature, int top_k,
                        double top_p, double random, zr_candidate *room)
{
    if (temperature <= 0)
        return find_likeliest(logits, count);
    float most = logits[find_likeliest(logits, count)];
    for (int32_t i = 0; i < count; i++)
        room[i] = (zr_candidate){logits[i], i};
    int32_t kept = count;
    if (top_k > 0 || top_p < 1) {
        qsort(room, (size_t)count, sizeof *room, compare_candidates);
        kept = top_k > 0 ? ZR_MIN(count, top_k) : count;
        if (top_p < 1)
            kept = count_top_p(room, kept, temperature, top_p);
    }
    double total = 0;
    for (int32_t i = 0; i < kept; i++)
        total += sampling_weight(&room[i], most, temperature);
    double left = random * total;
    for (int32_t i = 0; i < kept; i++) {
        left -= sampling_weight(&room[i], most, temperature);
        if (left < 0)
            return room[i].id;
    }
    return room[kept - 1].id;
}
