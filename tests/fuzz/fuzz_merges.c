// vocab.json and merges.txt of a byte-level BPE, one behind another with a line "====" between them.
#define _GNU_SOURCE
#include "fuzz.h"

#include "data/tokenizer.h"

#include <string.h>

static zero_status use(const zr_tokenizer *tokenizer, zero_error *error)
{
    static const char text[] = "the cat's hat, 12 h\xc3\xa4ts \xf0\x9f\x99\x82\n";
    int32_t ids[4 * sizeof text];
    int64_t count = 0;
    zr_buffer decoded = {0};
    zero_status status = zr_tokenizer_encode(tokenizer, text, strlen(text), "text", ids, &count, error);
    fuzz_must(status != ZERO_OK || (count >= 0 && count <= (int64_t)ZR_COUNT(ids)));
    for (int64_t i = 0; status == ZERO_OK && i < count; i++) {
        fuzz_must(ids[i] >= 0 && ids[i] < zr_tokenizer_vocabulary(tokenizer));
        zr_tokenizer_decode(tokenizer, ids[i], &decoded);
    }
    zr_buffer_free(&decoded);
    return status;
}

zero_status fuzz_one(const uint8_t *data, size_t size, zero_error *error)
{
    static const char between[] = "\n====\n";
    const char *cut = memmem(data, size, between, sizeof between - 1), *begin = (const char *)data;
    size_t first = cut ? (size_t)(cut - begin) : size, second = cut ? first + sizeof between - 1 : size;
    zr_tokenizer *tokenizer;
    fuzz_put("vocab.json", begin, first);
    fuzz_put("merges.txt", begin + second, size - second);
    ZERO_TRY(zr_tokenizer_load(fuzz_directory(), &tokenizer, error));
    zero_status status = use(tokenizer, error);
    zr_tokenizer_destroy(tokenizer);
    return status;
}
