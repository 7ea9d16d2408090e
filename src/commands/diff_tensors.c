#include "commands/diff_tensors.h"

#include "formats/name_index.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 1 << 18 }; // elements that are compared at once

typedef struct names { // names of a source's tensors
    const zr_source *source;
    zr_named **of; // (vector_count)
} names;

typedef struct comparing {
    zr_source *a, *b;
    names in_a, in_b;
    char *bytes[2]; // a block each, as the files have it
    float *wide[2]; // the same in fp32
    void (*differs)(void *user, const zr_tensor_difference *difference);
    void *user;
} comparing;

typedef struct place {
    int vector, tensor;
} place;

static const zr_source_tensor *at(const zr_source *source, place where)
{
    return &source->vectors[where.vector].tensors[where.tensor];
}

static bool find_diff_tensors(const names *in, const char *vector, const char *tensor, place *out)
{
    out->vector = zr_source_find(in->source, vector);
    out->tensor = out->vector < 0
                      ? -1
                      : zr_name_index_find(in->of[out->vector],
                                           in->source->vectors[out->vector].tensor_count, tensor);
    return out->tensor >= 0;
}

static int64_t diff_tensors_elements_of(const zr_source_tensor *tensor)
{
    int64_t elements = 1;
    if (!zr_source_is_real(tensor->dtype))
        return tensor->bytes;
    for (int d = 0; d < tensor->dims; d++)
        elements *= tensor->shape[d];
    return elements;
}

static bool are_comparable(const zr_source_tensor *a, const zr_source_tensor *b)
{
    bool types =
        a->dtype == b->dtype || (zr_source_is_real(a->dtype) && zr_source_is_real(b->dtype));
    return types && a->dims == b->dims &&
           !memcmp(a->shape, b->shape, (size_t)a->dims * sizeof *a->shape);
}

static void widen_diff_tensors(const zr_source_tensor *tensor, const char *bytes, int64_t count,
                               float *out)
{
    if (zr_source_is_real(tensor->dtype))
        zr_source_widen(tensor->dtype, bytes, count, out);
    else // not numbers, so there is no distance
        for (int64_t i = 0; i < count; i++)
            out[i] = NAN;
}

static void count_element(zr_tensor_difference *d, int64_t element, double a, double b)
{
    double apart = fabs(a - b);
    if (!d->differing++)
        d->first = element;
    d->largest = isnan(apart) || isnan(d->largest) ? NAN : fmax(d->largest, apart);
}

static void look_closer(const comparing *c, const zr_source_tensor *a, const zr_source_tensor *b,
                        int64_t first, int64_t count, zr_tensor_difference *d)
{
    bool same_type = a->dtype == b->dtype;
    int64_t size = a->bytes / d->elements;
    widen_diff_tensors(a, c->bytes[0], count, c->wide[0]);
    widen_diff_tensors(b, c->bytes[1], count, c->wide[1]);
    for (int64_t i = 0; i < count; i++)
        if (same_type ? memcmp(c->bytes[0] + i * size, c->bytes[1] + i * size, (size_t)size) != 0
                      : !(c->wide[0][i] == c->wide[1][i]))
            count_element(d, first + i, c->wide[0][i], c->wide[1][i]);
}

static zero_status compare_elements(const comparing *c, place in_a, place in_b,
                                    zr_tensor_difference *d, zero_error *error)
{
    const zr_source_tensor *a = at(c->a, in_a), *b = at(c->b, in_b);
    for (int64_t first = 0, n; first < d->elements; first += n) {
        n = ZR_MIN(d->elements - first, BLOCK);
        int64_t size_a = a->bytes / d->elements, size_b = b->bytes / d->elements;
        ZERO_TRY(zr_source_read(c->a, in_a.vector, in_a.tensor, first * size_a, n * size_a,
                                c->bytes[0], error));
        ZERO_TRY(zr_source_read(c->b, in_b.vector, in_b.tensor, first * size_b, n * size_b,
                                c->bytes[1], error));
        if (a->dtype != b->dtype || memcmp(c->bytes[0], c->bytes[1], (size_t)(n * size_a)))
            look_closer(c, a, b, first, n, d);
    }
    return ZERO_OK;
}

static zero_status compare_tensor(const comparing *c, place in_a, int64_t *compared,
                                  zero_error *error)
{
    const zr_source_tensor *a = at(c->a, in_a);
    zr_tensor_difference d = {.vector = c->a->vectors[in_a.vector].name,
                              .name = a->name,
                              .elements = diff_tensors_elements_of(a)};
    place in_b;
    bool both = find_diff_tensors(&c->in_b, d.vector, d.name, &in_b);
    d.only_in = both ? NULL : c->a;
    d.shapes_differ = both && !are_comparable(a, at(c->b, in_b));
    *compared += both;
    if (both && !d.shapes_differ)
        ZERO_TRY(compare_elements(c, in_a, in_b, &d, error));
    if (d.only_in || d.shapes_differ || d.differing)
        c->differs(c->user, &d);
    return ZERO_OK;
}

static void tell_of_those_that_a_lacks(const comparing *c)
{
    place in_a;
    for (int v = 0; v < c->b->vector_count; v++)
        for (int t = 0; t < c->b->vectors[v].tensor_count; t++) {
            const zr_source_tensor *tensor = &c->b->vectors[v].tensors[t];
            const zr_tensor_difference d = {.vector = c->b->vectors[v].name,
                                            .name = tensor->name,
                                            .only_in = c->b,
                                            .elements = diff_tensors_elements_of(tensor)};
            if (!find_diff_tensors(&c->in_a, d.vector, d.name, &in_a))
                c->differs(c->user, &d);
        }
}

static zero_status compare_all(const comparing *c, int64_t *compared, zero_error *error)
{
    for (int v = 0; v < c->a->vector_count; v++)
        for (int t = 0; t < c->a->vectors[v].tensor_count; t++)
            ZERO_TRY(compare_tensor(c, (place){v, t}, compared, error));
    tell_of_those_that_a_lacks(c);
    return ZERO_OK;
}

static const char *diff_tensors_name_of(const void *vector, int t)
{
    return ((const zr_source_vector *)vector)->tensors[t].name;
}

static zero_status list_names(const zr_source *source, names *out, zero_error *error)
{
    *out = (names){source, zr_alloc(((size_t)source->vector_count + 1) * sizeof *out->of, error)};
    if (!out->of)
        return ZERO_ERR_MEMORY;
    for (int v = 0; v < source->vector_count; v++)
        ZERO_TRY(zr_name_index_create(diff_tensors_name_of, &source->vectors[v],
                                      source->vectors[v].tensor_count, &out->of[v], error));
    return ZERO_OK;
}

static void free_names(names *n)
{
    for (int v = 0; n->of && v < n->source->vector_count; v++)
        zr_free(n->of[v]);
    zr_free(n->of);
}

zero_status zr_sources_compare(zr_source *a, zr_source *b,
                               void (*differs)(void *user, const zr_tensor_difference *difference),
                               void *user, int64_t *compared, zero_error *error)
{
    comparing c = {.a = a, .b = b, .differs = differs, .user = user};
    size_t room = BLOCK * sizeof(double); // for the widest type
    char *memory = zr_alloc(2 * room + 2 * BLOCK * sizeof(float), error);
    *compared = 0;
    zero_status status = memory ? ZERO_OK : ZERO_ERR_MEMORY;
    for (int i = 0; i < 2 && memory; i++) {
        c.bytes[i] = memory + (size_t)i * room;
        c.wide[i] = (float *)(void *)(memory + 2 * room) + i * BLOCK;
    }
    if (status == ZERO_OK)
        status = list_names(a, &c.in_a, error);
    if (status == ZERO_OK)
        status = list_names(b, &c.in_b, error);
    if (status == ZERO_OK)
        status = compare_all(&c, compared, error);
    free_names(&c.in_a);
    free_names(&c.in_b);
    zr_free(memory);
    return status;
}
