// nanoGPT's meta.pkl: one that is accepted makes a tokenizer.json that loads, and each of its
// characters is one token.
#include "fuzz.h"

#include "checkpoint/nanogpt_tokenizer.h"
#include "tokenizer/tokenizer.h"

zero_status fuzz_one(const uint8_t *data, size_t size, zero_error *error)
{
    char checkpoint[512];
    bool there;
    zr_tokenizer *tokenizer;
    fuzz_put("meta.pkl", data, size);
    snprintf(checkpoint, sizeof checkpoint, "%s/ckpt.pt", fuzz_directory());
    ZERO_TRY(zr_nanogpt_tokenizer_write(checkpoint, fuzz_directory(), &there, error));
    if (!there)
        return ZERO_OK;
    ZERO_TRY(zr_tokenizer_load(fuzz_directory(), &tokenizer, error));
    zr_buffer text = {0};
    zr_ids ids = {0};
    int32_t count = zr_tokenizer_vocabulary(tokenizer);
    for (int32_t id = 0; id < count; id++)
        zr_tokenizer_decode(tokenizer, id, &text);
    zero_status status =
        text.failed ? zr_fail(error, ZERO_ERR_MEMORY, "no memory for the characters")
                    : zr_tokenizer_encode(tokenizer, text.data, text.length, "x", &ids, error);
    fuzz_must(status == ZERO_ERR_MEMORY || ids.count == count);
    for (int32_t id = 0; status == ZERO_OK && id < count; id++)
        fuzz_must(ids.at[id] == id);
    zr_ids_free(&ids);
    zr_buffer_free(&text);
    zr_tokenizer_destroy(tokenizer);
    return status;
}
