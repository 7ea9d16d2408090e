// tokenizer.json: what is taken encodes text to ids of its own vocabulary, and decodes every id.
#include "fuzz.h"

#include "data/tokenizer.h"

#include <string.h>

static zero_status use(const zr_tokenizer *tokenizer, zero_error *error)
{
    static const char text[] = "Hello, w\xc3\xb6rld! 12 \xf0\x9f\x99\x82\n\tthe end";
    int32_t ids[4 * sizeof text], vocabulary = zr_tokenizer_vocabulary(tokenizer);
    int64_t count = 0;
    zr_buffer decoded = {0};
    fuzz_must(vocabulary >= 0);
    zero_status status = zr_tokenizer_encode(tokenizer, text, strlen(text), "text", ids, &count, error);
    fuzz_must(status != ZERO_OK || (count >= 0 && count <= (int64_t)ZR_COUNT(ids)));
    for (int64_t i = 0; status == ZERO_OK && i < count; i++) {
        fuzz_must(ids[i] >= 0 && ids[i] < vocabulary);
        zr_tokenizer_decode(tokenizer, ids[i], &decoded);
    }
    for (int32_t id = -1; id <= ZR_MIN(vocabulary, 300); id++)
        zr_tokenizer_decode(tokenizer, id, &decoded);
    zr_buffer_free(&decoded);
    return status;
}

zero_status fuzz_one(const uint8_t *data, size_t size, zero_error *error)
{
    zr_tokenizer *tokenizer;
    fuzz_put("tokenizer.json", data, size);
    ZERO_TRY(zr_tokenizer_load(fuzz_directory(), &tokenizer, error));
    zero_status status = use(tokenizer, error);
    zr_tokenizer_destroy(tokenizer);
    return status;
}
