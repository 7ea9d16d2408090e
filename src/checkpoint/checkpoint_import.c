#include "checkpoint/states.h"

#include "formats/safetensors.h"
#include "formats/safetensors_write.h"
#include "model/unit.h"

#include <string.h>

#define BLOCK (ZR_EXTENT_BYTES / (int64_t)sizeof(float)) // elements of an extent

typedef struct view { // of one vector
    zr_weight_view view;
    zr_source *source;
    int vector, count;
    char **names;                  // (tensor_count of the source's vector)
    int *of;                       // (count) numbers of the source's tensors
    zero_tensor_desc *tensors;     // (count)
    const zero_tensor_desc **list; // (count)
    char *in;                      // BLOCK elements of at most 8 bytes
    float *wide;                   // BLOCK
    zr_source_progress progress;
    void *user;
} view;

static zero_status import_tensor(const view *v, int i, zr_range_use use, void *use_user,
                                 zero_error *error)
{
    const zr_source_tensor *from = &v->source->vectors[v->vector].tensors[v->of[i]];
    int64_t size = zr_st_dtype_find(from->dtype)->bits / 8, elements = from->bytes / size;
    zr_weight_range range = {.tensor = v->list[i], .data = v->wide, .dtype = ZERO_F32};
    for (int64_t first = 0, n; first < elements; first += n) {
        n = ZR_MIN(elements - first, BLOCK);
        range.at = zr_rectangle_of_stretch(first, n);
        ZERO_TRY(
            zr_source_read(v->source, v->vector, v->of[i], first * size, n * size, v->in, error));
        zr_source_widen(from->dtype, v->in, n, v->wide);
        ZERO_TRY(use(use_user, &range, error));
        if (v->progress)
            v->progress(v->user, n * size);
    }
    return ZERO_OK;
}

static zero_status each_range(void *user, int part, bool changed, zr_range_use use, void *use_user,
                              zero_error *error)
{
    const view *v = user;
    for (int i = 0; i < v->count; i++)
        ZERO_TRY(import_tensor(v, i, use, use_user, error));
    return ZERO_OK;
}

static zero_status add_tensor(view *v, int t, zero_error *error)
{
    const zr_source_tensor *from = &v->source->vectors[v->vector].tensors[t];
    zero_tensor_desc *to = &v->tensors[v->count];
    if (!zr_source_is_real(from->dtype) || from->dims > ZERO_MAX_DIMS)
        return zr_fail(
            error, ZERO_ERR_UNSUPPORTED,
            "tensor \"%s\" has %d dimensions of %s: a checkpoint keeps real numbers in at most %d",
            from->name, from->dims, from->dtype, ZERO_MAX_DIMS);
    *to = (zero_tensor_desc){.name = v->names[t], .dims = from->dims};
    memcpy(to->shape, from->shape, (size_t)from->dims * sizeof *from->shape);
    v->list[v->count] = to;
    v->view.elements += zr_tensor_desc_elements(to);
    v->of[v->count++] = t;
    return ZERO_OK;
}

static zero_status begin_import_view(view *v, zero_error *error)
{
    const zr_source_vector *from = &v->source->vectors[v->vector];
    size_t most = (size_t)from->tensor_count + 1;
    ZERO_TRY(zr_tensor_names(v->source, from, ZR_NAMES_OURS, &v->names, error));
    v->of = zr_alloc(most * sizeof *v->of, error);
    v->tensors = zr_alloc(most * sizeof *v->tensors, error);
    v->list = zr_alloc(most * sizeof *v->list, error);
    v->in = zr_alloc((size_t)BLOCK * 8, error);
    v->wide = zr_alloc((size_t)BLOCK * sizeof *v->wide, error);
    if (!v->of || !v->tensors || !v->list || !v->in || !v->wide)
        return ZERO_ERR_MEMORY;
    for (int t = 0; t < from->tensor_count; t++)
        if (v->names[t])
            ZERO_TRY(add_tensor(v, t, error));
    v->view.tensors = v->list;
    v->view.tensor_count = v->count;
    v->view.parts = 1;
    v->view.each = each_range;
    v->view.user = v;
    return ZERO_OK;
}

static void free_import_view(view *v)
{
    zr_tensor_names_free(v->names, v->source->vectors[v->vector].tensor_count);
    zr_free(v->of);
    zr_free(v->tensors);
    zr_free(v->list);
    zr_free(v->in);
    zr_free(v->wide);
}

zero_status zr_checkpoint_import(zero_comm *comm, zr_source *source, const char *directory,
                                 json_t *state, zr_source_progress progress, void *user,
                                 zero_error *error)
{
    view *views = zr_alloc((size_t)source->vector_count * sizeof *views, error);
    zr_state_vector *vectors = zr_alloc((size_t)source->vector_count * sizeof *vectors, error);
    zero_status status = views && vectors ? ZERO_OK : ZERO_ERR_MEMORY;
    int made = 0;
    while (status == ZERO_OK && made < source->vector_count) {
        views[made] = (view){.source = source, .vector = made, .progress = progress, .user = user};
        status = begin_import_view(&views[made], error);
        vectors[made] = (zr_state_vector){
            .name = source->vectors[made].name, .dtype = ZERO_F32, .view = views[made].view};
        made++;
    }
    if (status == ZERO_OK)
        status = zr_states_save(comm, directory, vectors, source->vector_count, state, error);
    for (int v = 0; v < made; v++)
        free_import_view(&views[v]);
    zr_free(vectors);
    zr_free(views);
    return status;
}
