// The scalars of a step: loss, norm and number of targets, added up over the ranks.
#include "engine/buffers.h"
#include "engine/interpret.h"
#include "engine/step.h"
#include "engine/update.h"

#include <string.h>

// Sums over the ranks, in one message. The last word of an accumulator says whether it has met a
// non-finite value. One such word has room for both accumulators' flags, so the other one carries
// the number of targets. With `difference`, that is added up with them.
static zero_status sum_over_ranks(zero_engine *engine, int64_t *difference, zero_error *error)
{
    const int64_t of_norm = (int64_t)1 << 32; // above any possible number of ranks
    zr_step_sums *of = &engine->sums;
    zr_exact sums[3] = {of->loss, of->norm, {.limb = {difference ? *difference : 0}}};
    sums[0].nonfinite = (of->loss.nonfinite != 0) + (of->norm.nonfinite != 0) * of_norm;
    sums[1].nonfinite = of->targets;
    ZERO_TRY(zr_norm_all_reduce(engine, sums, difference ? 3 : 2, error));
    of->targets = sums[1].nonfinite;
    sums[1].nonfinite = sums[0].nonfinite / of_norm;
    sums[0].nonfinite %= of_norm;
    of->loss = sums[0];
    of->norm = sums[1];
    if (difference)
        *difference = sums[2].limb[0];
    return ZERO_OK;
}

static zero_status sum_over_all(zero_engine *engine, zero_error *error)
{
    bool shared = zr_samples_are_shared(&engine->grid);
    int64_t difference = shared ? zr_samples_difference(engine) : 0;
    ZERO_TRY(sum_over_ranks(engine, shared ? &difference : NULL, error));
    return zr_samples_settle(engine, difference, error);
}

static void add_words(zr_step_sums *to, const zr_step_sums *from)
{
    int64_t *sum = (int64_t *)(void *)to;
    const int64_t *more = (const int64_t *)(const void *)from;
    for (int i = 0; i < ZR_STEP_SUMS_WORDS; i++)
        sum[i] += more[i];
}

zero_status zr_execute_scalars(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    void *slot = i->slot.kind == ZR_SLOT_LINK ? zr_engine_slot_at(engine, i->slot.index) : NULL;
    switch ((zr_scalars_part)i->what) {
    case ZR_SCALARS_OF_PIPELINE_STAGE: return sum_over_ranks(engine, NULL, error);
    case ZR_SCALARS_GIVE: memcpy(slot, &engine->sums, sizeof engine->sums); return ZERO_OK;
    case ZR_SCALARS_ADD: add_words(&engine->sums, slot); return ZERO_OK;
    case ZR_SCALARS_TAKE: memcpy(&engine->sums, slot, sizeof engine->sums); return ZERO_OK;
    default: return sum_over_all(engine, error);
    }
}
