// zero_save_weights and zero_load_weights: the engine's shards as the ranges that checkpoint/ reads and writes.
#include "api/agree.h"
#include "base/alloc.h"
#include "checkpoint/weights.h"
#include "engine/engine.h"
#include "layers/layers.h"

// GPT-2's names stand behind "transformer." in Hugging Face's files; other models keep their own.
static const char *prefix_of(const zero_model *model)
{
    return model->units[0].ops == zr_gpt2_unit_ops.embedding ? "transformer." : "";
}

// The part of a tensor that lies in this rank's shard of its piece.
static zr_weight_range range_of(zero_engine *engine, int number, const zr_plan_tensor *tensor)
{
    const zr_piece *piece = &zr_engine_plan(engine)->pieces[number];
    int64_t shard_first = zr_engine_comm(engine)->rank * piece->shard;
    int64_t first = ZR_MAX(tensor->first, shard_first), end = ZR_MIN(tensor->first + tensor->count, shard_first + piece->shard);
    if (end <= first)
        return (zr_weight_range){.tensor = tensor->desc};
    zr_weight_range range = {.tensor = tensor->desc, .first = first - tensor->first, .count = end - first};
    char *shard = zr_engine_weight_shard(engine, number, &range.dtype);
    range.data = shard + (first - shard_first) * (int64_t)zero_dtype_bytes(range.dtype);
    return range;
}

static void fill_view(zero_engine *engine, const zero_tensor_desc **tensors, zr_weight_view *view)
{
    const zr_plan *plan = zr_engine_plan(engine);
    for (int p = 0; p < plan->piece_count; p++) {
        for (int t = 0; t < plan->pieces[p].tensor_count; t++) {
            const zr_plan_tensor *tensor = &plan->pieces[p].tensors[t];
            zr_weight_range range = range_of(engine, p, tensor);
            tensors[view->tensor_count++] = tensor->desc;
            if (range.count > 0)
                view->ranges[view->range_count++] = range;
        }
    }
}

typedef zero_status (*view_use)(zero_engine *engine, const char *path, const zr_weight_view *view, zero_error *error);

static zero_status with_view(zero_engine *engine, const char *path, view_use use, zero_error *error)
{
    size_t count = (size_t)zr_engine_plan(engine)->tensor_count;
    const zero_tensor_desc **tensors = zr_alloc(count * sizeof *tensors, error);
    zr_weight_range *ranges = zr_alloc(count * sizeof *ranges, error);
    zr_weight_view view = {.tensors = tensors, .ranges = ranges};
    zero_status status = zr_agree(zr_engine_comm(engine), tensors && ranges ? ZERO_OK : ZERO_ERR_MEMORY, error);
    if (status == ZERO_OK) {
        fill_view(engine, tensors, &view);
        status = use(engine, path, &view, error);
    }
    zr_free(ranges);
    zr_free(tensors);
    return status;
}

static zero_status save(zero_engine *engine, const char *path, const zr_weight_view *view, zero_error *error)
{
    return zr_weights_save(zr_engine_comm(engine), path, prefix_of(zr_engine_plan(engine)->model), view, error);
}

static zero_status load(zero_engine *engine, const char *directory, const zr_weight_view *view, zero_error *error)
{
    ZERO_TRY(zr_comm_barrier(zr_engine_comm(engine), error)); // nobody reads the old weights any more
    ZERO_TRY(zr_weights_load(zr_engine_comm(engine), directory, view, error));
    return zr_engine_parameters_changed(engine, error);
}

zero_status zero_save_weights(zero_engine *engine, const char *path, zero_error *error)
{
    return with_view(engine, path, save, error);
}

zero_status zero_load_weights(zero_engine *engine, const char *directory, zero_error *error)
{
    ZERO_TRY(zr_engine_between_steps(engine, "zero_load_weights", error));
    return with_view(engine, directory, load, error);
}
