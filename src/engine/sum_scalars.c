// The scalars of a step: loss, norm and number of targets, added up over the ranks.
#include "engine/buffers.h"
#include "engine/interpret.h"
#include "engine/step.h"

#include <stddef.h>
#include <string.h>

// What one message adds up over the ranks: an array of int64, like the accumulators (zr_exact) that
// it travels as. Where an accumulator counts its non-finite addends, the message has words of its
// own.
typedef union scalars_message {
    struct {
        int64_t loss[ZR_EXACT_LIMBS];
        // Ranks whose loss, or norm, is not finite. They are halves of one word that adds up, which
        // no number of ranks makes overflow into the other.
        uint32_t nonfinite_losses, nonfinite_norms;
        int64_t norm[ZR_EXACT_LIMBS];
        int64_t targets;
        int64_t samples_differ; // zr_samples_difference; sent where ranks share samples
    };
    zr_exact sums[3];
} scalars_message;
static_assert(offsetof(scalars_message, samples_differ) == 2 * sizeof(zr_exact),
              "the third accumulator begins with what may be left out");

// Sums over the ranks, in one message. samples_differ: added up with the scalars; NULL if there is
// nothing to compare.
static zero_status sum_over_ranks(zero_engine *engine, int64_t *samples_differ, zero_error *error)
{
    zr_step_sums *sums = &engine->sums;
    scalars_message message = {.nonfinite_losses = sums->loss.nonfinite != 0,
                               .nonfinite_norms = sums->norm.nonfinite != 0,
                               .targets = sums->targets,
                               .samples_differ = samples_differ ? *samples_differ : 0};
    memcpy(message.loss, sums->loss.limb, sizeof message.loss);
    memcpy(message.norm, sums->norm.limb, sizeof message.norm);
    ZERO_TRY(zr_norm_all_reduce(engine, message.sums, samples_differ ? 3 : 2, error));
    memcpy(sums->loss.limb, message.loss, sizeof message.loss);
    memcpy(sums->norm.limb, message.norm, sizeof message.norm);
    sums->loss.nonfinite = message.nonfinite_losses;
    sums->norm.nonfinite = message.nonfinite_norms;
    sums->targets = message.targets;
    if (samples_differ)
        *samples_differ = message.samples_differ;
    return ZERO_OK;
}

static zero_status sum_over_all(zero_engine *engine, zero_error *error)
{
    bool shared = engine->grid.tensor || engine->grid.pipeline;
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
