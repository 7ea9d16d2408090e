// A GGUF file: one that is accepted has its keys and tensors inside it; one that is accepted as a
// model can be read whole, and its tokenizer makes files that load, or are refused with a message.
#include "fuzz.h"

#include "checkpoint/gguf_model.h"
#include "formats/source_gguf.h"
#include "tokenizer/tokenizer.h"

#include <string.h>

static void check_inside(const zr_gguf *gguf, const char *begin, size_t size)
{
    for (int t = 0; t < gguf->tensor_count; t++) {
        const zr_gguf_item *tensor = &gguf->tensors[t];
        int64_t bytes = zr_gguf_bytes(tensor->type, tensor->elements);
        fuzz_must(tensor->data >= begin && bytes > 0);
        fuzz_must((size_t)(tensor->data - begin) <= size - (size_t)bytes);
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
    ZERO_TRY(zr_source_open_gguf(path, &source, error));
    zero_status status = read_tensors(&source, error);
    zr_source_close(&source);
    return status;
}

static zero_status read_tokenizer(const zr_gguf *gguf, zero_error *error)
{
    zr_token_list list;
    zr_buffer json = {0}, config = {0};
    ZERO_TRY(zr_gguf_read_tokenizer(gguf, &list, error));
    zero_status status =
        list.count ? zr_token_list_json(&list, "x", &json, &config, error) : ZERO_OK;
    zr_token_list_free(&list);
    if (status == ZERO_OK && json.length) {
        zr_tokenizer *tokenizer;
        status = zr_tokenizer_load(fuzz_put("tokenizer.json", json.data, json.length), &tokenizer,
                                   error);
        if (status == ZERO_OK)
            zr_tokenizer_destroy(tokenizer);
    }
    zr_buffer_free(&json);
    zr_buffer_free(&config);
    return status;
}

zero_status fuzz_one(const uint8_t *data, size_t size, zero_error *error)
{
    zr_gguf gguf;
    zero_error model = {0};
    char path[512];
    snprintf(path, sizeof path, "%s", fuzz_put("x.gguf", data, size));
    ZERO_TRY(zr_gguf_open(path, &gguf, error));
    check_inside(&gguf, gguf.file.data, size);
    zero_status status = read_tokenizer(&gguf, error);
    zr_gguf_close(&gguf);
    zero_status of_model = read_model(path, &model);
    fuzz_must(of_model == ZERO_OK || model.message[0]);
    return status == ZERO_OK && of_model == ZERO_ERR_MEMORY ? read_model(path, error) : status;
}
