// One safetensors file: the tensors of a file that is accepted are inside it, one after another,
// and can be read, also as weights in codes.
#include "fuzz.h"

#include "formats/quantised_files.h"

#include <stdio.h>
#include <string.h>

static zero_status check(const zr_st_set *set, int64_t size, zero_error *error)
{
    for (int t = 0; t < set->tensor_count; t++) {
        const zr_st_tensor *tensor = &set->tensors[t];
        float first;
        int64_t elements = 1;
        fuzz_must(tensor->begin >= 8 && tensor->begin <= tensor->end && tensor->end <= size &&
                  tensor->dims >= 0 && tensor->dims <= 8);
        for (int d = 0; d < tensor->dims; d++)
            elements *= tensor->shape[d];
        fuzz_must(!t || strcmp(set->tensors[t - 1].name, tensor->name) < 0);
        fuzz_must(zr_st_find(set, tensor->name));
        if (elements < 1)
            continue;
        zero_status status = zr_st_read(set, tensor, elements - 1, 1, &first, error);
        fuzz_must(status != ZERO_ERR_IO);
        if (status == ZERO_ERR_MEMORY)
            return status;
    }
    return ZERO_OK;
}

// Asks for the parts of a weight in codes as a model of the tensor's size would.
static zero_status check_codes(zr_codes *codes, const zr_st_tensor *tensor, zr_weight_format format,
                               zero_error *error)
{
    static char bytes[1 << 16];
    char name[512];
    int64_t out = 4, in = 64;
    if (tensor->dims == 2 && tensor->shape[0] > 0 && tensor->shape[1] > 1) {
        out = tensor->shape[0];
        in = tensor->shape[1];
    }
    const int64_t shapes[3][2] = {{out, zr_weight_code_bytes(format, in)},
                                  {out, zr_weight_scale_bytes(format, in)},
                                  {1, zr_weight_shared_bytes(format, out, in)}};
    static const char *const endings[] = {"", ".absmax", ".nested_absmax"};
    for (int part = 0; part < 3; part++) {
        zero_tensor_desc desc = {.name = name, .dims = 2};
        int64_t all = shapes[part][0] * shapes[part][1];
        snprintf(name, sizeof name, "%.255s%s", tensor->name, endings[part]);
        memcpy(desc.shape, shapes[part], sizeof shapes[part]);
        if (all < 1 || zr_codes_check(codes, "x", &desc, error) != ZERO_OK)
            continue;
        int64_t first = all / 3, count = ZR_MIN(all - first, (int64_t)sizeof bytes);
        zero_status status = zr_codes_read(codes, &desc, first, count, bytes, error);
        fuzz_must(status != ZERO_ERR_IO);
        if (status == ZERO_ERR_MEMORY)
            return status;
    }
    return ZERO_OK;
}

static zero_status check_weights(const zr_st_set *set, zr_weight_format format, zero_error *error)
{
    zr_codes *codes;
    ZERO_TRY(zr_codes_open(set, format, &codes, error));
    zero_status status = ZERO_OK;
    for (int t = 0; t < set->tensor_count && status == ZERO_OK; t++) {
        zr_codes_uses(codes, set->tensors[t].name);
        status = check_codes(codes, &set->tensors[t], format, error);
    }
    zr_codes_close(codes);
    return status;
}

zero_status fuzz_one(const uint8_t *data, size_t size, zero_error *error)
{
    zr_st_set set;
    ZERO_TRY(zr_st_open(fuzz_put("x.safetensors", data, size), &set, error));
    zero_status status = check(&set, (int64_t)size, error);
    for (zr_weight_format f = ZR_WEIGHT_NF4; f <= ZR_WEIGHT_INT8 && status == ZERO_OK; f++)
        status = check_weights(&set, f, error);
    zr_st_close(&set);
    return status;
}
