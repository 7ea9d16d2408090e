#include "model/unit.h"

#include <string.h>

const char *zr_tensor_name(const zero_tensor_desc *tensor)
{
    return tensor->tile.whole ? tensor->tile.whole : tensor->name;
}

zero_tensor_desc zr_tensor_whole(const zero_tensor_desc *tensor)
{
    zero_tensor_desc whole = *tensor;
    if (!tensor->tile.whole)
        return whole;
    whole.name = tensor->tile.whole;
    whole.shape[tensor->tile.axis] = tensor->tile.size;
    whole.tile = (zero_tile){0};
    return whole;
}

bool zr_tensor_continues(const zero_tensor_desc *last, const zero_tensor_desc *tensor)
{
    return last && last->tile.whole && tensor->tile.whole &&
           strcmp(last->tile.whole, tensor->tile.whole) == 0;
}

// Moves from the end of a flat parameter's tensors to the next tensor, or to the end of the walk.
static void seek_tensor(zr_tensor_walk *w)
{
    w->desc = NULL;
    for (; w->unit < w->end_unit; w->unit++, w->flat_param = w->tensor = 0) {
        const zero_unit *unit = &w->model->units[w->unit];
        for (; w->flat_param < unit->flat_param_count; w->flat_param++, w->tensor = 0)
            if (w->tensor < unit->flat_params[w->flat_param].tensor_count) {
                w->kind = unit->flat_params[w->flat_param].kind;
                w->desc = &unit->flat_params[w->flat_param].tensors[w->tensor];
                return;
            }
    }
}

static zr_tensor_walk begin_tensor_walk(const zero_model *model, int unit, int end)
{
    zr_tensor_walk walk = {.model = model, .unit = unit, .end_unit = end};
    seek_tensor(&walk);
    return walk;
}

zr_tensor_walk zr_tensors_of(const zero_model *model)
{
    return begin_tensor_walk(model, 0, model->unit_count);
}

zr_tensor_walk zr_tensors_of_unit(const zero_model *model, int unit)
{
    return begin_tensor_walk(model, unit, unit + 1);
}

void zr_tensors_next(zr_tensor_walk *walk)
{
    const zero_tensor_desc *last = walk->last; // of the flat parameter before
    do {
        const zero_flat_param_desc *flat_param =
            &walk->model->units[walk->unit].flat_params[walk->flat_param];
        if (++walk->tensor == flat_param->tensor_count)
            last = &flat_param->tensors[flat_param->tensor_count - 1];
        seek_tensor(walk);
    } while (walk->desc && zr_tensor_continues(last, walk->desc));
    walk->last = last;
    walk->number++;
}

int zr_tensors_count(zr_tensor_walk walk)
{
    int count = 0;
    for (; walk.desc; zr_tensors_next(&walk))
        count++;
    return count;
}

const zero_tensor_desc *zr_model_tensor(const zero_model *model, int number)
{
    zr_tensor_walk walk = zr_tensors_of(model);
    while (walk.desc && walk.number < number)
        zr_tensors_next(&walk);
    return walk.desc;
}
