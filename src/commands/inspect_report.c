#include "commands/inspect_report.h"

#include "base/file.h"
#include "formats/safetensors.h"

#include <math.h>
#include <string.h>

#define BLOCK ((int64_t)1 << 17) // elements read at once
enum { WIDEST = 8 };

typedef struct sums {
    double least, most, sum, squares;
    int64_t count, not_numbers, infinite; // count: finite ones
    uint32_t checksum;
} sums;

static void add_values(sums *s, const float *values, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        double x = values[i];
        s->not_numbers += isnan(x);
        s->infinite += isinf(x);
        if (!isfinite(x))
            continue;
        s->least = s->count && s->least < x ? s->least : x;
        s->most = s->count && s->most > x ? s->most : x;
        s->sum += x;
        s->squares += x * x;
        s->count++;
    }
}

static zero_status sum_tensor(zr_source *source, int v, int t, char *block, float *wide, sums *s,
                              zero_error *error)
{
    const zr_source_tensor *tensor = &source->vectors[v].tensors[t];
    int64_t size = ZR_MAX(zr_st_dtype_find(tensor->dtype)->bits / 8, 1);
    *s = (sums){0};
    for (int64_t done = 0, n; done < tensor->bytes; done += n) {
        n = ZR_MIN(tensor->bytes - done, BLOCK * size);
        ZERO_TRY(zr_source_read(source, v, t, done, n, block, error));
        s->checksum = zr_crc32c(s->checksum, block, (size_t)n);
        if (!zr_source_is_real(tensor->dtype))
            continue;
        zr_source_widen(tensor->dtype, block, n / size, wide);
        add_values(s, wide, n / size);
    }
    return ZERO_OK;
}

static json_t *sums_object(const sums *s)
{
    double count = (double)s->count;
    json_t *object = json_pack("{s:I, s:I, s:I}", "crc32c", (json_int_t)s->checksum, "nan",
                               (json_int_t)s->not_numbers, "infinite", (json_int_t)s->infinite);
    if (s->count)
        json_object_update_new(object,
                               json_pack("{s:f, s:f, s:f, s:f}", "min", s->least, "max", s->most,
                                         "mean", s->sum / count, "rms", sqrt(s->squares / count)));
    return object;
}

typedef struct reporting {
    zr_source *source;
    const zero_inspect_options *options;
    char *block; // BLOCK elements of WIDEST bytes
    float *wide; // BLOCK
    zero_error *error;
} reporting;

static zero_status add_tensor(const reporting *r, int v, int t, json_t *list)
{
    const zr_source_tensor *tensor = &r->source->vectors[v].tensors[t];
    json_t *shape = json_array(),
           *object = json_pack("{s:s, s:s, s:o, s:I}", "name", tensor->name, "dtype", tensor->dtype,
                               "shape", shape, "bytes", (json_int_t)tensor->bytes);
    if (!object)
        return zr_fail(r->error, ZERO_ERR_DATA, "\"%s\": a tensor's name is no UTF-8",
                       r->source->path);
    for (int d = 0; d < tensor->dims; d++)
        json_array_append_new(shape, json_integer(tensor->shape[d]));
    json_array_append_new(list, object);
    if (!r->options->sums)
        return ZERO_OK;
    sums s;
    ZERO_TRY(sum_tensor(r->source, v, t, r->block, r->wide, &s, r->error));
    json_object_set_new(object, "sums", sums_object(&s));
    return ZERO_OK;
}

static int64_t count_elements(const zr_source_vector *vector, int64_t *bytes)
{
    int64_t elements = 0;
    for (int t = 0; t < vector->tensor_count; t++) {
        const zr_source_tensor *tensor = &vector->tensors[t];
        int bits = zr_st_dtype_find(tensor->dtype)->bits;
        *bytes += tensor->bytes;
        elements += bits < 8 ? tensor->bytes * (8 / bits) : tensor->bytes / (bits / 8);
    }
    return elements;
}

static zero_status add_vectors(const reporting *r, json_t *report)
{
    json_t *vectors = json_array();
    json_object_set_new(report, "vectors", vectors);
    for (int v = 0; v < r->source->vector_count; v++) {
        const zr_source_vector *vector = &r->source->vectors[v];
        int64_t bytes = 0, elements = count_elements(vector, &bytes);
        json_t *list = json_array();
        json_array_append_new(vectors, json_pack("{s:s, s:I, s:I, s:o}", "name", vector->name,
                                                 "elements", (json_int_t)elements, "bytes",
                                                 (json_int_t)bytes, "tensors", list));
        for (int t = 0; t < vector->tensor_count; t++)
            ZERO_TRY(add_tensor(r, v, t, list));
        if (v == 0)
            json_object_set_new(report, "parameters", json_integer(elements));
    }
    return ZERO_OK;
}

typedef struct verifying {
    int64_t bytes;
    json_t *damaged;
} verifying;

static void add_checked_bytes(void *user, int64_t bytes) { ((verifying *)user)->bytes += bytes; }

static void list_damage(void *user, const zero_error *what)
{
    json_array_append_new(((verifying *)user)->damaged, json_string(what->message));
}

zero_status zr_inspect_verify(zr_source *source, json_t *report, zero_error *error)
{
    verifying v = {.damaged = json_array()};
    bool checksums = source->ops->verify != NULL;
    zero_status status =
        checksums ? source->ops->verify(source, add_checked_bytes, list_damage, &v, error)
                  : ZERO_OK;
    json_object_set_new(report, "verify",
                        json_pack("{s:b, s:I, s:o}", "checksums", checksums, "bytes",
                                  (json_int_t)v.bytes, "damaged", v.damaged));
    return status;
}

static const char *source_kind_text(const zr_source *source)
{
    static const char *const kinds[] = {[ZR_SOURCE_CHECKPOINT] = "checkpoint",
                                        [ZR_SOURCE_SAFETENSORS] = "safetensors",
                                        [ZR_SOURCE_DEEPSPEED] = "DeepSpeed checkpoint",
                                        [ZR_SOURCE_GGUF] = "GGUF",
                                        [ZR_SOURCE_TORCH] = "torch.save"};
    return kinds[source->kind];
}

static zero_status fill_report(const reporting *r, json_t *report)
{
    if (!report)
        return zr_fail(r->error, ZERO_ERR_DATA, "the path \"%s\" is no UTF-8", r->source->path);
    if (r->source->state)
        json_object_set(report, "state", r->source->state);
    if (r->options->verify) // before tensors are read, so that all damage is listed
        ZERO_TRY(zr_inspect_verify(r->source, report, r->error));
    if (r->options->verify &&
        json_array_size(json_object_get(json_object_get(report, "verify"), "damaged")))
        return add_vectors(&(reporting){.source = r->source,
                                        .options = &(zero_inspect_options){0},
                                        .error = r->error},
                           report);
    return add_vectors(r, report);
}

zero_status zr_inspect_report(zr_source *source, const zero_inspect_options *options, json_t **out,
                              zero_error *error)
{
    reporting r = {.source = source,
                   .options = options,
                   .error = error,
                   .block = zr_alloc((size_t)BLOCK * WIDEST, error),
                   .wide = zr_alloc((size_t)BLOCK * sizeof *r.wide, error)};
    *out = NULL;
    zero_status status = r.block && r.wide ? ZERO_OK : ZERO_ERR_MEMORY;
    if (status == ZERO_OK) {
        *out = json_pack("{s:s, s:s, s:I}", "path", source->path, "kind", source_kind_text(source),
                         "files_bytes", (json_int_t)source->file_bytes);
        status = fill_report(&r, *out);
    }
    if (status != ZERO_OK) {
        json_decref(*out);
        *out = NULL;
    }
    zr_free(r.block);
    zr_free(r.wide);
    return status;
}
