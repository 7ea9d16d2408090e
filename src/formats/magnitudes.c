#include "formats/magnitudes.h"

#include "base/dtype.h"
#include "comm/agreement.h"
#include "model/lora.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { NAME = 256, AT_ONCE = 4096 }; // elements of a row of a plain weight

typedef struct weight { // beside a magnitude
    char name[NAME];
    int64_t out, in;
    const zr_st_tensor *found; // in the files
    // Of codes: buffers for a row, and what the scales of all rows share.
    char *codes, *scale_codes;
    float *wide, *scales, *shared;
} weight;

typedef struct loading {
    zero_comm *comm;
    const char *directory;
    const zr_st_set *set;
    const zr_weight_view *view;
    const zr_magnitudes_options *how;
    zr_codes *codes; // NULL if the weights are plain
} loading;

// Copies the name without its ending, with another one; returns false if it ends otherwise.
static bool replace_ending(const char *name, const char *ending, const char *by, char out[NAME])
{
    size_t length = strlen(name), cut = strlen(ending);
    bool ends = length > cut && !strcmp(name + length - cut, ending);
    if (ends)
        snprintf(out, NAME, "%.*s%s", (int)(length - cut), name, by);
    return ends;
}

// The inputs of the weight are those of A, which trains beside the magnitude.
static int64_t find_inputs(const loading *load, const char *magnitude)
{
    char name[NAME];
    replace_ending(magnitude, ZR_LORA_MAGNITUDE, ZR_LORA_A, name);
    for (int t = 0; t < load->view->tensor_count; t++)
        if (!strcmp(load->view->tensors[t]->name, name))
            return load->view->tensors[t]->shape[1];
    return 0;
}

static zero_status read_codes(const loading *load, const weight *of, const char *ending,
                              int64_t rows, int64_t row, int64_t bytes, void *out,
                              zero_error *error)
{
    char name[NAME + 32];
    snprintf(name, sizeof name, "%s%s", of->name, ending);
    const zero_tensor_desc tensor = {.name = name, .dims = 2, .shape = {rows, bytes}};
    return zr_codes_read(load->codes, &tensor, row * bytes, bytes, out, error);
}

static void free_buffers(weight *of)
{
    zr_free(of->codes);
    zr_free(of->scale_codes);
    zr_free(of->wide);
    zr_free(of->scales);
    zr_free(of->shared);
}

static zero_status make_buffers(const loading *load, weight *of, zero_error *error)
{
    zr_weight_format format = load->how->format;
    int64_t shared = zr_weight_shared_bytes(format, of->out, of->in);
    size_t scales = (size_t)zr_weight_row_scales(format, of->in);
    of->codes = zr_alloc((size_t)zr_weight_code_bytes(format, of->in), error);
    of->scale_codes = zr_alloc((size_t)zr_weight_scale_bytes(format, of->in), error);
    of->wide = zr_alloc((size_t)of->in * sizeof *of->wide, error);
    of->scales = zr_alloc(scales * sizeof *of->scales, error);
    of->shared = zr_alloc((size_t)shared + 1, error);
    if (!of->codes || !of->scale_codes || !of->wide || !of->scales || !of->shared)
        return ZERO_ERR_MEMORY;
    return shared ? read_codes(load, of, ".nested_absmax", 1, 0, shared, of->shared, error)
                  : ZERO_OK;
}

static double sum_squares(const float *values, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += (double)values[i] * (double)values[i];
    return sum;
}

static zero_status measure_coded_row(const loading *load, const weight *of, int64_t row,
                                     double *sum, zero_error *error)
{
    zr_weight_format format = load->how->format;
    int64_t scales = zr_weight_row_scales(format, of->in);
    ZERO_TRY(read_codes(load, of, "", of->out, row, zr_weight_code_bytes(format, of->in), of->codes,
                        error));
    ZERO_TRY(read_codes(load, of, ".absmax", of->out, row, zr_weight_scale_bytes(format, of->in),
                        of->scale_codes, error));
    if (format == ZR_WEIGHT_NF4)
        zr_nf4_decode_scales((const uint8_t *)of->scale_codes, of->shared, row * scales, scales,
                             of->scales);
    else
        memcpy(of->scales, of->scale_codes, (size_t)scales * sizeof *of->scales);
    zr_weight_decode(format, of->codes, of->scales, 0, of->in, of->wide);
    *sum = sum_squares(of->wide, of->in);
    return ZERO_OK;
}

static zero_status measure_plain_row(const loading *load, const weight *of, int64_t row,
                                     double *sum, zero_error *error)
{
    float values[AT_ONCE];
    *sum = 0;
    for (int64_t at = 0, n; at < of->in; at += n) {
        n = ZR_MIN((int64_t)AT_ONCE, of->in - at);
        ZERO_TRY(zr_st_read(load->set, of->found, row * of->in + at, n, values, error));
        *sum += sum_squares(values, n);
    }
    return ZERO_OK;
}

// Sums over the inputs of outputs [first, first + count), which lie next to each other.
static zero_status measure_columns(const loading *load, const weight *of, int64_t first,
                                   int64_t count, double *sums, zero_error *error)
{
    float values[AT_ONCE];
    for (int64_t row = 0; row < of->in; row++)
        for (int64_t at = 0, n; at < count; at += n) {
            n = ZR_MIN((int64_t)AT_ONCE, count - at);
            ZERO_TRY(
                zr_st_read(load->set, of->found, row * of->out + first + at, n, values, error));
            for (int64_t j = 0; j < n; j++)
                sums[at + j] += (double)values[j] * (double)values[j];
        }
    return ZERO_OK;
}

static zero_status measure_rows(const loading *load, weight *of, int64_t first, int64_t count,
                                double *sums, zero_error *error)
{
    for (int64_t i = 0; i < count; i++) {
        ZERO_TRY(load->codes ? measure_coded_row(load, of, first + i, &sums[i], error)
                             : measure_plain_row(load, of, first + i, &sums[i], error));
        zr_comm_progress(load->comm, load->comm->step);
    }
    return ZERO_OK;
}

static zero_status check_weight(const loading *load, const weight *of, zero_error *error)
{
    const int64_t shape[] = {load->how->outputs_first ? of->out : of->in,
                             load->how->outputs_first ? of->in : of->out};
    const zr_st_tensor *found = of->found;
    if (load->codes && of->in)
        return ZERO_OK; // its shapes were checked as it was loaded
    if (found && found->dims == 2 && found->shape[0] == shape[0] && found->shape[1] == shape[1])
        return ZERO_OK;
    return zr_fail(
        error, ZERO_ERR_DATA,
        "%s: the tensor \"%s\" is %s, where magnitudes are the norms of a weight of %lld "
        "x %lld",
        load->directory, of->name, found ? "of another shape" : "missing", (long long)shape[0],
        (long long)shape[1]);
}

// Sums of all outputs of a range, which of a slice of several parts (zero_tensor_desc.tp_parts) are
// stretches.
static zero_status measure_range(const loading *load, weight *of, const zr_rectangle *at,
                                 double *sums, zero_error *error)
{
    if (load->codes)
        ZERO_TRY(make_buffers(load, of, error));
    for (int64_t row = 0; row < at->rows; row++) {
        int64_t first = at->first + row * at->stride;
        double *to = sums + row * at->width;
        ZERO_TRY(load->how->outputs_first ? measure_rows(load, of, first, at->width, to, error)
                                          : measure_columns(load, of, first, at->width, to, error));
    }
    return ZERO_OK;
}

static zero_status set_magnitudes(const loading *load, weight *of, const zr_weight_range *range,
                                  double *sums, zero_error *error)
{
    int64_t count = zr_rectangle_elements(&range->at);
    ZERO_TRY(check_weight(load, of, error));
    ZERO_TRY(measure_range(load, of, &range->at, sums, error));
    for (int64_t i = 0; i < count; i++) {
        float norm = (float)sqrt(sums[i]);
        zr_narrow(range->dtype, &norm, 1,
                  (char *)range->data + i * (int64_t)zero_dtype_bytes(range->dtype));
    }
    return ZERO_OK;
}

static zero_status set_range(void *user, const zr_weight_range *range, zero_error *error)
{
    const loading *load = user;
    weight of = {.out = range->tensor->shape[0]};
    if (!replace_ending(range->tensor->name, ZR_LORA_MAGNITUDE, ".weight", of.name))
        return ZERO_OK;
    of.in = find_inputs(load, range->tensor->name);
    of.found = zr_st_find(load->set, of.name);
    size_t count = (size_t)zr_rectangle_elements(&range->at);
    double *sums = zr_alloc((count + 1) * sizeof *sums, error);
    zero_status status = sums ? set_magnitudes(load, &of, range, sums, error) : ZERO_ERR_MEMORY;
    zr_free(sums);
    free_buffers(&of);
    return status;
}

static zero_status load_here(loading *load, zero_error *error)
{
    if (load->how->format)
        ZERO_TRY(zr_codes_open(load->set, load->how->format, &load->codes, error));
    zero_status status = zr_view_each(load->view, true, set_range, load, error);
    zr_codes_close(load->codes);
    return status;
}

zero_status zr_magnitudes_load(zero_comm *comm, const char *directory, const zr_weight_view *view,
                               const zr_magnitudes_options *how, zero_error *error)
{
    zr_st_set set;
    loading load = {comm, directory, &set, view, how, NULL};
    zero_status opened = zr_st_open(directory, &set, error), status = opened;
    if (status == ZERO_OK)
        status = load_here(&load, error);
    if (opened == ZERO_OK)
        zr_st_close(&set);
    return zr_comm_agree(comm, status, error);
}
