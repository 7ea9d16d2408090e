// A file of torch.save: an archive whose records are inside it and share no byte, its pickle, and
// where the elements of tensors are. One that is accepted as a model can be read whole.
#include "fuzz.h"

#include "formats/source_torch.h"

static zero_status place(const zr_torch_file *file, int64_t size, zero_error *error)
{
    const zr_pickle_value *root = file->pickle.root;
    bool listed = zr_pickle_is(root, ZR_PICKLE_LIST) || zr_pickle_is(root, ZR_PICKLE_DICT) ||
                  zr_pickle_is(root, ZR_PICKLE_TUPLE);
    for (size_t i = 0; listed && i < root->items.count; i++) {
        const zr_pickle_value *value = root->items.at[i];
        int64_t begin;
        if (!zr_pickle_is(value, ZR_PICKLE_TENSOR))
            continue;
        zero_status status = zr_torch_position(file, &value->tensor, "a tensor", &begin, error);
        if (status == ZERO_ERR_MEMORY)
            return status;
        fuzz_must(status != ZERO_OK ||
                  (begin >= 0 && begin <= size && value->tensor.elements <= size - begin));
    }
    return ZERO_OK;
}

static void check_records(const zr_zip *zip, int64_t size)
{
    for (int i = 0; i < zip->count; i++) {
        const zr_zip_record *record = &zip->records[i];
        fuzz_must(record->header >= 0 && record->begin > record->header && record->bytes >= 0 &&
                  record->begin <= size && record->bytes <= size - record->begin);
        fuzz_must(zr_zip_find(zip, record->name) == record);
    }
}

static zero_status read_tensors(zr_source *source, zero_error *error)
{
    float values[32];
    for (int t = 0; t < source->vectors[0].tensor_count; t++) {
        int64_t bytes = source->vectors[0].tensors[t].bytes,
                wanted = ZR_MIN(bytes, (int64_t)sizeof values);
        ZERO_TRY(zr_source_read(source, 0, t, 0, wanted, values, error));
        ZERO_TRY(zr_source_read(source, 0, t, bytes - wanted, wanted, values, error));
    }
    return ZERO_OK;
}

static zero_status read_model(const char *path, zero_error *error)
{
    zr_source source;
    zero_error model = {0};
    zero_status status = zr_source_open_torch(path, &source, &model);
    fuzz_must(status == ZERO_OK || model.message[0]);
    if (status == ZERO_ERR_MEMORY)
        return zr_fail(error, status, "%s", model.message);
    if (status != ZERO_OK)
        return ZERO_OK;
    status = read_tensors(&source, error);
    fuzz_must(status == ZERO_OK || status == ZERO_ERR_MEMORY);
    zr_source_close(&source);
    return status;
}

zero_status fuzz_one(const uint8_t *data, size_t size, zero_error *error)
{
    zr_zip zip;
    zr_torch_file file;
    const char *path = fuzz_put("x.pt", data, size);
    ZERO_TRY(zr_zip_open(path, &zip, error));
    check_records(&zip, (int64_t)size);
    zero_status status = zr_zip_verify(&zip, NULL, NULL, error);
    zr_zip_close(&zip);
    if (status == ZERO_ERR_MEMORY)
        return status;
    ZERO_TRY(zr_torch_open(path, &file, error));
    status = place(&file, (int64_t)size, error);
    zr_torch_close(&file);
    return status == ZERO_OK ? read_model(path, error) : status;
}
