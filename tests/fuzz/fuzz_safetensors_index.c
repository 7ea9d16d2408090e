// The index of a sharded model, with one sound shard next to it: tensors "a" (2, 2) and "b" (3),
// fp32.
#include "fuzz.h"

#include "formats/safetensors.h"

#include <string.h>

static void put_shard(void)
{
    static const char header[] =
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]},\"b\":{\"dtype\":"
        "\"F32\",\"shape\":[3],\"data_offsets\":[16,28]}}";
    char file[8 + sizeof header - 1 + 28] = {(char)(sizeof header - 1)};
    memcpy(file + 8, header, sizeof header - 1);
    fuzz_put("model-00001-of-00001.safetensors", file, sizeof file);
}

zero_status fuzz_one(const uint8_t *data, size_t size, zero_error *error)
{
    zr_st_set set;
    put_shard();
    fuzz_put("model.safetensors.index.json", data, size);
    ZERO_TRY(zr_st_open(fuzz_directory(), &set, error));
    fuzz_must(set.tensor_count <= 2);
    for (int t = 0; t < set.tensor_count; t++)
        fuzz_must(!strcmp(set.tensors[t].name, "a") || !strcmp(set.tensors[t].name, "b"));
    zr_st_close(&set);
    return ZERO_OK;
}
