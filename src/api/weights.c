// zero_save_weights and zero_load_weights: the engine's shards as the ranges that checkpoint/ reads and writes.
#include "api/agree.h"
#include "base/alloc.h"
#include "checkpoint/weights.h"
#include "engine/engine.h"
#include "layers/layers.h"
#include "model/unit.h"

// GPT-2's names stand behind "transformer." in Hugging Face's files; other models keep their own.
static const char *prefix_of(const zero_model *model)
{
    return model->units[0].ops == zr_gpt2_unit_ops.embedding ? "transformer." : "";
}

typedef struct wholes { // of the model's tensors, by number: what files have
    const zero_tensor_desc **tensors; // (tensor_count)
    zero_tensor_desc *joined;         // (tensor_count) those that are tiled, put together
    zero_engine *engine;
} wholes;

typedef struct visiting {
    const wholes *wholes;
    const zr_piece *piece;
    const zr_portion *portion;
    zr_range_use use;
    void *user;
    zero_status status;
    zero_error *error;
} visiting;

static void use_part(void *user, const zr_plan_tensor *tensor, int64_t first, int64_t count)
{
    visiting *v = user;
    for (int64_t done = 0, run; done < count && v->status == ZERO_OK; done += run) {
        zr_weight_range range = {.tensor = v->wholes->tensors[tensor->number], .dtype = v->portion->dtype, .data = zr_portion_at(v->portion, first + done)};
        range.count = run = zr_tile_run(tensor->desc, first - tensor->first + done, count - done, &range.first);
        v->status = v->use(v->user, &range, v->error);
    }
}

static zero_status use_portion(void *user, const zr_portion *portion, zero_error *error)
{
    visiting *v = user;
    v->portion = portion;
    v->error = error;
    zr_for_parts(v->piece, portion->span, use_part, v);
    return v->status;
}

static zero_status visit_ranges(void *user, bool changed, zr_range_use use, void *use_user, zero_error *error)
{
    const wholes *wholes = user;
    zero_engine *engine = wholes->engine;
    const zr_plan *plan = zr_engine_plan(engine);
    for (int p = 0; p < plan->piece_count; p++) {
        visiting visiting = {.wholes = wholes, .piece = &plan->pieces[p], .use = use, .user = use_user};
        ZERO_TRY(zr_engine_visit_weights(engine, p, changed, use_portion, &visiting, error));
    }
    return ZERO_OK;
}

static void add_elements(void *user, const zr_plan_tensor *tensor, int64_t first, int64_t count)
{
    *(int64_t *)user += count;
}

static void join_tiles(wholes *wholes, const zr_plan_tensor *tensor)
{
    zero_tensor_desc *joined = &wholes->joined[tensor->number];
    *joined = *tensor->desc;
    joined->name = tensor->desc->tile.whole;
    joined->shape[tensor->desc->tile.axis] = tensor->desc->tile.size;
    joined->tile = (zero_tile){0};
    wholes->tensors[tensor->number] = joined;
}

static void fill_view(wholes *wholes, zr_weight_view *view)
{
    const zr_plan *plan = zr_engine_plan(wholes->engine);
    for (int p = 0; p < plan->piece_count; p++) {
        const zr_piece *piece = &plan->pieces[p];
        for (int t = 0; t < piece->tensor_count; t++) {
            wholes->tensors[piece->tensors[t].number] = piece->tensors[t].desc;
            if (piece->tensors[t].desc->tile.whole)
                join_tiles(wholes, &piece->tensors[t]);
        }
        zr_for_parts(piece, (zr_span){zr_engine_comm(wholes->engine)->rank * piece->shard, piece->shard}, add_elements, &view->elements);
    }
}

typedef zero_status (*view_use)(zero_engine *engine, const char *path, const zr_weight_view *view, zero_error *error);

static zero_status with_view(zero_engine *engine, const char *path, view_use use, zero_error *error)
{
    size_t count = (size_t)zr_engine_plan(engine)->tensor_count;
    wholes wholes = {.engine = engine, .tensors = zr_alloc(count * sizeof *wholes.tensors, error), .joined = zr_alloc(count * sizeof *wholes.joined, error)};
    zr_weight_view view = {.tensors = wholes.tensors, .tensor_count = (int)count, .visit = visit_ranges, .user = &wholes};
    zero_status status = zr_agree(zr_engine_comm(engine), wholes.tensors && wholes.joined ? ZERO_OK : ZERO_ERR_MEMORY, error);
    if (status == ZERO_OK) {
        fill_view(&wholes, &view);
        status = use(engine, path, &view, error);
    }
    zr_free(wholes.joined);
    zr_free(wholes.tensors);
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
