#include "files/model_view.h"

#include "base/alloc.h"
#include "model/unit.h"

typedef struct taking {
    const zr_model_view *view;
    const zr_piece *piece;
    const zr_portion *portion; // NULL: this is an outline
    zr_range_use use;
    void *user;
    zero_status status;
    zero_error *error;
} taking;

static void use_part(void *user, const zr_plan_tensor *tensor, int64_t first, int64_t count)
{
    taking *t = user;
    for (int64_t done = 0, stretch; done < count && t->status == ZERO_OK; done += stretch) {
        zr_weight_range range = {.tensor = t->view->by_number[tensor->number]};
        if (t->portion) {
            range.dtype = t->portion->dtype;
            range.data = zr_portion_at(t->portion, first + done);
        }
        range.count = stretch =
            zr_tile_stretch(tensor->desc, first - tensor->first + done, count - done, &range.first);
        t->status = t->use(t->user, &range, t->error);
    }
}

static zero_status use_portion(void *user, const zr_portion *portion, zero_error *error)
{
    taking *t = user;
    t->portion = portion;
    t->error = error;
    zr_for_parts(t->piece, portion->span, use_part, t);
    return t->status;
}

static bool has(const zr_model_view *view, int piece)
{
    return view->vector == ZR_VECTOR_MASTER ||
           zr_engine_has_state(view->engine, piece, view->vector);
}

// The view's parts are pieces.
static zero_status each_range(void *user, int part, bool changed, zr_range_use use, void *use_user,
                              zero_error *error)
{
    const zr_model_view *view = user;
    taking taking = {.view = view,
                     .piece = &zr_engine_plan(view->engine)->pieces[part],
                     .use = use,
                     .user = use_user};
    if (!has(view, part))
        return ZERO_OK;
    return view->vector == ZR_VECTOR_MASTER
               ? zr_engine_weights_each(view->engine, part, changed, use_portion, &taking, error)
               : zr_engine_state_each(view->engine, part, view->vector, changed, use_portion,
                                      &taking, error);
}

static zr_span shard_of(const zr_model_view *view, const zr_piece *piece)
{
    return (zr_span){zr_engine_comm(view->engine)->rank * piece->shard, piece->shard};
}

static zero_status outline_ranges(void *user, int part, zr_range_use use, void *use_user,
                                  zero_error *error)
{
    const zr_model_view *view = user;
    taking taking = {.view = view,
                     .piece = &zr_engine_plan(view->engine)->pieces[part],
                     .use = use,
                     .user = use_user,
                     .error = error};
    if (has(view, part))
        zr_for_parts(taking.piece, shard_of(view, taking.piece), use_part, &taking);
    return taking.status;
}

static void add_elements(void *user, const zr_plan_tensor *tensor, int64_t first, int64_t count)
{
    *(int64_t *)user += count;
}

// Returns the tensor as files have it: of a tiled one, the whole.
static const zero_tensor_desc *whole_of(zr_model_view *view, const zr_plan_tensor *tensor)
{
    zero_tensor_desc *joined = &view->joined[tensor->number];
    if (!tensor->desc->tile.whole)
        return tensor->desc;
    *joined = *tensor->desc;
    joined->name = tensor->desc->tile.whole;
    joined->shape[tensor->desc->tile.axis] = tensor->desc->tile.size;
    joined->tile = (zero_tile){0};
    return joined;
}

static void list_piece(zr_model_view *view, const zr_piece *piece)
{
    for (int t = 0; t < piece->tensor_count; t++) {
        const zr_plan_tensor *tensor = &piece->tensors[t];
        if (view->by_number[tensor->number])
            continue; // another tile of it is listed already
        view->by_number[tensor->number] = whole_of(view, tensor);
        view->listed[view->view.tensor_count++] = view->by_number[tensor->number];
    }
    zr_for_parts(piece, shard_of(view, piece), add_elements, &view->view.elements);
}

zero_status zr_model_view_create(zero_engine *engine, zr_vector vector, zr_model_view *out,
                                 zero_error *error)
{
    const zr_plan *plan = zr_engine_plan(engine);
    size_t count = (size_t)plan->tensor_count;
    *out = (zr_model_view){.engine = engine,
                           .vector = vector,
                           .listed = zr_alloc(count * sizeof *out->listed, error),
                           .by_number = zr_alloc(count * sizeof *out->by_number, error),
                           .joined = zr_alloc(count * sizeof *out->joined, error)};
    if (!out->listed || !out->by_number || !out->joined) {
        zr_model_view_free(out);
        return ZERO_ERR_MEMORY;
    }
    out->view = (zr_weight_view){.tensors = out->listed,
                                 .parts = plan->piece_count,
                                 .each = each_range,
                                 .outline = outline_ranges,
                                 .user = out};
    for (int p = 0; p < plan->piece_count; p++)
        if (has(out, p))
            list_piece(out, &plan->pieces[p]);
    return ZERO_OK;
}

void zr_model_view_free(zr_model_view *view)
{
    zr_free(view->listed);
    zr_free(view->by_number);
    zr_free(view->joined);
    *view = (zr_model_view){0};
}
