// The values in a file of torch.save: a pickle, of which nothing is executed.
#include "fuzz.h"

#include "formats/pickle.h"

// All of what can be reached in a few steps is there.
static void walk(const zr_pickle_value *value, int depth)
{
    int64_t integer;
    double number;
    if (!value || depth == 6)
        return;
    fuzz_must(value->kind < ZR_PICKLE_KINDS);
    zr_pickle_integer(value, &integer);
    zr_pickle_number(value, &number);
    zr_pickle_text(value);
    zr_pickle_get(value, "module");
    bool listed = zr_pickle_is(value, ZR_PICKLE_TUPLE) || zr_pickle_is(value, ZR_PICKLE_LIST) ||
                  zr_pickle_is(value, ZR_PICKLE_DICT);
    for (size_t i = 0; listed && i < value->items.count && i < 32; i++)
        walk(value->items.at[i], depth + 1);
    if (zr_pickle_is(value, ZR_PICKLE_OBJECT)) {
        walk(value->object.arguments, depth + 1);
        walk(value->object.attributes, depth + 1);
    }
    if (zr_pickle_is(value, ZR_PICKLE_TENSOR)) {
        const zr_pickle_tensor *tensor = &value->tensor;
        fuzz_must(tensor->dims >= 0 && tensor->dims <= ZR_PICKLE_DIMS && tensor->offset >= 0 &&
                  tensor->elements >= 0);
        if (tensor->contiguous)
            fuzz_must(tensor->offset + tensor->elements <= tensor->storage->elements);
    }
}

zero_status fuzz_one(const uint8_t *data, size_t size, zero_error *error)
{
    zr_pickle pickle;
    ZERO_TRY(zr_pickle_read((const char *)data, size, "data.pkl", &pickle, error));
    walk(pickle.root, 0);
    zr_pickle_free(&pickle);
    return ZERO_OK;
}
