// One safetensors file: the tensors of a file that is accepted are inside it, one after another,
// and can be read.
#include "fuzz.h"

#include "formats/safetensors.h"

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

zero_status fuzz_one(const uint8_t *data, size_t size, zero_error *error)
{
    zr_st_set set;
    ZERO_TRY(zr_st_open(fuzz_put("x.safetensors", data, size), &set, error));
    zero_status status = check(&set, (int64_t)size, error);
    zr_st_close(&set);
    return status;
}
