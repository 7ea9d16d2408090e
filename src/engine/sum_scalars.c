// The scalars of a step: loss, norm and number of targets, added up over the ranks.
//
// In the same message, hashes of samples are compared. Tensor ranks compute the same samples
// together, and so do the first and the last stage of a pipeline: one reads the tokens and the
// other the targets. Nothing else would show that a program has given them different ones, because
// each computes only its part.
#include "base/dtype.h"
#include "base/random.h"
#include "comm/agreement.h"
#include "engine/interpret.h"
#include "engine/step.h"

#include <stddef.h>
#include <string.h>

uint64_t zr_samples_fold(const zero_tensors *batch, uint64_t hash)
{
    for (int i = 0; i < batch->count; i++)
        if (batch->at[i].data)
            hash = zr_hash_bytes(batch->at[i].data, (size_t)zr_tensor_bytes(&batch->at[i]), hash);
    return hash;
}

// Says whether a rank of the pipeline reads samples: those of its first and of its last stage do.
static bool stage_reads_samples(const zr_grid *grid, int stage)
{
    return stage == 0 || stage == grid->mesh.size[ZERO_AXIS_pipeline] - 1;
}

int64_t zr_samples_difference(const zero_engine *engine)
{
    const zr_grid *grid = &engine->grid;
    const zr_mesh *mesh = &grid->mesh;
    int stage = mesh->place[ZERO_AXIS_pipeline], tensor = mesh->place[ZERO_AXIS_tensor];
    int readers = mesh->size[ZERO_AXIS_tensor] * (grid->pipeline ? 2 : 1);
    uint64_t hash = zr_hash_bytes(&grid->data->rank, sizeof(int), engine->now.samples);
    if (!stage_reads_samples(grid, stage))
        return 0;
    return (int64_t)(hash >> 32) * (stage == 0 && tensor == 0 ? readers - 1 : -1);
}

zero_status zr_samples_compare_tensor(zero_engine *engine, uint64_t hash, zero_error *error)
{
    zero_comm *tensor = engine->grid.tensor;
    int64_t hashes[ZERO_MAX_RANKS] = {0};
    hashes[tensor->rank] = (int64_t)(hash >> 1);
    ZERO_TRY(zr_comm_all_reduce_small(tensor, hashes, tensor->size, ZERO_I64, ZR_SUM, error));
    for (int r = 1; r < tensor->size; r++)
        if (hashes[r] != hashes[0])
            return zr_fail(error, ZERO_ERR_USAGE,
                           "step %lld: ranks %d and %d compute one model's layers together and "
                           "have different micro-batches; tensor ranks need the same samples, "
                           "those of their data rank (zero_grid_of, zero_position)",
                           (long long)engine->progress.step, zr_comm_job_rank(tensor, 0),
                           zr_comm_job_rank(tensor, r));
    return ZERO_OK;
}

zero_status zr_samples_refuse_pipeline_ends(const zero_engine *engine, zero_error *error)
{
    const zero_comm *pipeline = engine->grid.pipeline;
    return zr_fail(error, ZERO_ERR_USAGE,
                   "step %lld: ranks %d and %d are the first and the last pipeline stage of one "
                   "model and have different micro-batches; both need the same samples, those of "
                   "their data rank (zero_grid_of, zero_position)",
                   (long long)engine->progress.step, zr_comm_job_rank(pipeline, 0),
                   zr_comm_job_rank(pipeline, pipeline->size - 1));
}

static zero_status compare_all(zero_engine *engine, zero_error *error)
{
    zero_comm *pipeline = engine->grid.pipeline;
    zero_error own = {0};
    zero_status tensor = ZERO_OK, ends = ZERO_OK;
    if (engine->grid.tensor)
        tensor = zr_samples_compare_tensor(engine, engine->now.samples, error);
    if (!pipeline)
        return tensor;
    // Also where tensor ranks differ, because the other pipeline stages know nothing of that.
    zero_error *second = tensor == ZERO_OK ? error : &own;
    int64_t hashes[2] = {0}; // of the first and of the last rank
    if (stage_reads_samples(&engine->grid, pipeline->rank))
        hashes[pipeline->rank > 0] = (int64_t)(engine->now.samples >> 1);
    ends = zr_comm_all_reduce_small(pipeline, hashes, 2, ZERO_I64, ZR_SUM, second);
    if (ends == ZERO_OK && hashes[0] != hashes[1])
        ends = zr_samples_refuse_pipeline_ends(engine, second);
    return tensor != ZERO_OK ? tensor : ends;
}

zero_status zr_samples_settle(zero_engine *engine, int64_t difference, zero_error *error)
{
    return difference ? zr_comm_agree(engine->grid.world, compare_all(engine, error), error)
                      : ZERO_OK;
}

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

// Sums over the ranks, in one message. compares: the ranks' samples are compared in it, too.
static zero_status sum_over_ranks(zero_engine *engine, bool compares, zero_error *error)
{
    zr_step_sums *sums = &engine->sums;
    ZERO_TRY(zr_norms_bring_step(engine, error));
    scalars_message message = {.nonfinite_losses = sums->loss.nonfinite != 0,
                               .nonfinite_norms = sums->norm.nonfinite != 0,
                               .targets = sums->targets,
                               .samples_differ = compares ? zr_samples_difference(engine) : 0};
    memcpy(message.loss, sums->loss.limb, sizeof message.loss);
    memcpy(message.norm, sums->norm.limb, sizeof message.norm);
    ZERO_TRY(zr_norm_all_reduce(engine, message.sums, compares ? 3 : 2, error));
    memcpy(sums->loss.limb, message.loss, sizeof message.loss);
    memcpy(sums->norm.limb, message.norm, sizeof message.norm);
    sums->loss.nonfinite = message.nonfinite_losses;
    sums->norm.nonfinite = message.nonfinite_norms;
    sums->targets = message.targets;
    return zr_samples_settle(engine, message.samples_differ, error);
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
    case ZR_SCALARS_OF_PIPELINE_STAGE: return sum_over_ranks(engine, false, error);
    case ZR_SCALARS_GIVE: memcpy(slot, &engine->sums, sizeof engine->sums); return ZERO_OK;
    case ZR_SCALARS_ADD: add_words(&engine->sums, slot); return ZERO_OK;
    case ZR_SCALARS_TAKE: memcpy(&engine->sums, slot, sizeof engine->sums); return ZERO_OK;
    default: return sum_over_ranks(engine, engine->grid.tensor || engine->grid.pipeline, error);
    }
}
