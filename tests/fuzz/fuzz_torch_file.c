// A file of torch.save: an archive whose records are inside it and share no byte, its pickle, and
// where the elements of tensors are.
#include "fuzz.h"

#include "formats/torch_file.h"

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
    return status;
}
