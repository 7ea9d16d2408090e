// Makes the part of a language model that one tensor rank holds. A slice is a flat parameter of its
// own, so that shards, chunks, norms and checkpoints are functions of the slice, whichever rank
// holds it.
#include "model/lm_build.h"
#include "model/unit.h"

#include <stdio.h>
#include <string.h>

typedef struct cutting { // of one unit
    const zr_unit_storage *from;
    zr_unit_storage *to;
    const zr_unit_tensor *of; // (count)
    int count;
    zr_lm_slices slices;
    int cuts_of_keys; // number of parts of a tensor of ZR_SPLIT_BY_KEYS
} cutting;

const zr_tensor_handle *zr_lm_tensor(const zr_lm_unit *unit, int slice, int tensor)
{
    return unit->sliced ? &unit->sliced[slice][tensor] : &unit->tensor[tensor];
}

// Returns whether the unit owns the tensor.
static bool has_tensor(const cutting *c, int t) { return c->of[t].desc.dims > 0; }

static bool tensor_is_cut(const cutting *c, int t)
{
    return has_tensor(c, t) && c->of[t].desc.tp_axis >= 0;
}

// Returns the number of parts into which a tensor is cut.
static int cuts_of_tensor(const cutting *c, int t)
{
    return c->of[t].split == ZR_SPLIT_BY_KEYS ? c->cuts_of_keys : c->slices.count;
}

static zero_status reserve_cut_unit(cutting *c, zero_error *error)
{
    zr_unit_storage *to = c->to;
    size_t here = (size_t)zr_slices_here(&c->slices), tensors = (size_t)c->count * (here + 1),
           flat_params = 3 * (ZR_LM_GROUPS + 2 * here);
    to->names = zr_alloc(tensors * sizeof *to->names, error);
    to->tensors = zr_alloc(tensors * sizeof *to->tensors, error);
    to->flat_params = zr_alloc(flat_params * sizeof *to->flat_params, error);
    to->hyper.sliced = zr_alloc(here * sizeof *to->hyper.sliced, error);
    return to->names && to->tensors && to->flat_params && to->hyper.sliced ? ZERO_OK
                                                                           : ZERO_ERR_MEMORY;
}

// Begins a flat parameter. It counts only once a tensor is added.
static zero_flat_param_desc *flat_param_begin(cutting *c, zero_class kind)
{
    zr_unit_storage *to = c->to;
    zero_flat_param_desc *flat_param = &to->flat_params[to->flat_param_count];
    *flat_param = (zero_flat_param_desc){.kind = kind, .tensors = &to->tensors[to->tensor_count]};
    return flat_param;
}

static void flat_param_end(cutting *c)
{
    c->to->flat_param_count += c->to->flat_params[c->to->flat_param_count].tensor_count > 0;
}

// Adds a tensor to the flat parameter that was begun last, and returns the tensor's handle.
static zr_tensor_handle tensor_add(cutting *c, int t, const zero_tensor_desc *desc)
{
    zr_unit_storage *to = c->to;
    to->tensors[to->tensor_count++] = *desc;
    return (zr_tensor_handle){.flat_param = to->flat_param_count,
                              .tensor = to->flat_params[to->flat_param_count].tensor_count++,
                              .tiles = 1,
                              .step = desc->shape[c->of[t].tile_axis],
                              .trains = c->from->hyper.tensor[t].trains,
                              .tp = c->from->hyper.tensor[t].tp};
}

// Describes part `cut` of a tensor.
static zero_tensor_desc describe_tensor_slice(cutting *c, int t, int cut)
{
    zero_tensor_desc desc = c->of[t].desc;
    int axis = desc.tp_axis;
    int64_t size = desc.shape[axis], of_part = size / desc.tp_parts,
            step = of_part / cuts_of_tensor(c, t);
    zr_slice_tokens part = {cut * step, step};
    if (c->of[t].split == ZR_SPLIT_BY_TOKENS)
        part = zr_tokens_of_slice(&c->slices, of_part, cut);
    char *name = c->to->names[c->to->name_count++];
    snprintf(name, ZR_LM_NAME_BYTES, "%s[%d]", c->from->names[t], cut);
    desc.name = name;
    desc.shape[axis] = part.count * desc.tp_parts;
    desc.tile =
        (zero_tile){.whole = c->from->names[t], .axis = axis, .first = part.first, .size = size};
    return desc;
}

static zero_class class_of(const cutting *c, int t)
{
    return zr_lm_class(&c->of[t], c->from->hyper.tensor[t].trains);
}

static void add_whole_tensors(cutting *c, int group, zero_class kind)
{
    flat_param_begin(c, kind);
    for (int t = 0; t < c->count; t++) {
        zero_tensor_desc desc = c->of[t].desc;
        if (!has_tensor(c, t) || tensor_is_cut(c, t) || c->of[t].group != group ||
            class_of(c, t) != kind)
            continue;
        desc.name = c->from->names[t];
        c->to->hyper.tensor[t] = tensor_add(c, t, &desc);
    }
    flat_param_end(c);
}

// Adds part `cut` of all tensors that are cut into `cuts` parts. Local slices [first, end) share
// this part.
static void add_cut_tensors(cutting *c, int cuts, int cut, int first, int end, zero_class kind)
{
    zero_flat_param_desc *flat_param = flat_param_begin(c, kind);
    int sharing = c->slices.ranks / cuts;
    flat_param->replicas = ZR_MAX(sharing, 1);
    for (int t = 0; t < c->count; t++) {
        if (!tensor_is_cut(c, t) || cuts_of_tensor(c, t) != cuts || class_of(c, t) != kind)
            continue;
        const zero_tensor_desc desc = describe_tensor_slice(c, t, cut);
        const zr_tensor_handle handle = tensor_add(c, t, &desc);
        for (int i = first; i < end; i++)
            c->to->hyper.sliced[i][t] = handle;
    }
    flat_param_end(c);
}

static void add_slices(cutting *c, int cuts)
{
    int here = zr_slices_here(&c->slices), first = zr_slices_first(&c->slices);
    int each = c->slices.count / cuts; // slices that share a part
    for (int i = 0, end; i < here; i = end) {
        int cut = (first + i) / each;
        end = ZR_MIN((cut + 1) * each - first, here);
        add_cut_tensors(c, cuts, cut, i, end, ZERO_TRAINABLE);
        add_cut_tensors(c, cuts, cut, i, end, ZERO_FROZEN);
        add_cut_tensors(c, cuts, cut, i, end, ZERO_CODES);
    }
}

static zero_status cut_unit(cutting *c, zero_unit *unit, zero_error *error)
{
    zr_unit_storage *to = c->to;
    ZERO_TRY(reserve_cut_unit(c, error));
    for (int t = 0; t < ZR_LM_TENSORS; t++)
        to->hyper.tensor[t] = (zr_tensor_handle){.flat_param = -1};
    for (int group = 0; group < ZR_LM_GROUPS; group++) {
        add_whole_tensors(c, group, ZERO_TRAINABLE);
        add_whole_tensors(c, group, ZERO_FROZEN);
        add_whole_tensors(c, group, ZERO_CODES);
    }
    for (int i = 0; i < zr_slices_here(&c->slices); i++)
        memcpy(to->hyper.sliced[i], to->hyper.tensor, sizeof to->hyper.tensor);
    add_slices(c, c->slices.count);
    if (c->cuts_of_keys < c->slices.count)
        add_slices(c, c->cuts_of_keys);
    unit->name = c->from->name;
    unit->hyper = &to->hyper;
    unit->flat_param_count = to->flat_param_count;
    unit->flat_params = to->flat_params;
    return ZERO_OK;
}

// Lets the head borrow the slices of the embedding's table.
static zero_status table_borrow(zr_lm_storage *s, zero_error *error)
{
    int last = s->model.unit_count - 1;
    zr_unit_storage *head = &s->storage[last];
    const zr_lm_unit *embedding = &s->storage[0].hyper;
    int here = zr_slices_here(&head->hyper.slices);
    head->borrowed = zr_alloc((size_t)here * sizeof *head->borrowed, error);
    if (!head->borrowed)
        return ZERO_ERR_MEMORY;
    for (int i = 0; i < here; i++) {
        zr_tensor_handle *table = &head->hyper.sliced[i][ZR_LM_TABLE];
        *table = embedding->sliced[i][ZR_LM_TABLE];
        head->borrowed[i] = (zero_flat_param_ref){.unit = 0, .flat_param = table->flat_param};
        table->flat_param = head->flat_param_count + i;
    }
    s->units[last].borrowed_count = here;
    s->units[last].borrowed = head->borrowed;
    return ZERO_OK;
}

static zero_status cut_units(const zr_lm_storage *whole, const zr_lm_slices *slices,
                             zr_lm_storage *s, zero_error *error)
{
    size_t count = (size_t)whole->model.unit_count;
    s->units = zr_alloc(sizeof *s->units * count, error);
    s->storage = zr_alloc(sizeof *s->storage * count, error);
    if (!s->units || !s->storage)
        return ZERO_ERR_MEMORY;
    for (int u = 0; u < whole->model.unit_count; u++) {
        const zr_unit_storage *from = &whole->storage[u];
        zr_unit_storage *to = &s->storage[u];
        cutting c = {.from = from, .to = to, .slices = *slices};
        c.cuts_of_keys = (int)ZR_MIN(slices->count, from->hyper.shape.kv_heads);
        c.of = zr_lm_design_of(whole, u, &c.count);
        to->hyper = from->hyper;
        memset(to->hyper.tensor, 0, sizeof to->hyper.tensor);
        to->hyper.slices = *slices;
        s->units[u] = (zero_unit){.ops = whole->units[u].ops};
        ZERO_TRY(cut_unit(&c, &s->units[u], error));
    }
    bool tied = whole->units[count - 1].borrowed_count > 0;
    return tied ? table_borrow(s, error) : ZERO_OK;
}

zero_status zr_lm_cut(const zero_model *model, const zr_lm_slices *slices,
                      const zr_slices_message *message, zero_model **out, zero_error *error)
{
    const zr_lm_storage *whole = (const zr_lm_storage *)model;
    assert(slices->count > 1);
    ZERO_TRY(zr_slices_check(&whole->storage[0].hyper.config, slices, message, error));
    zr_lm_storage *s = zr_alloc(sizeof(*s), error);
    if (!s)
        return ZERO_ERR_MEMORY;
    s->model = (zero_model){.name = model->name, .unit_count = model->unit_count, .whole = model};
    zero_status status = cut_units(whole, slices, s, error);
    if (status != ZERO_OK) {
        zr_lm_free(&s->model);
        return status;
    }
    s->model.units = s->units;
    *out = &s->model;
    return ZERO_OK;
}
