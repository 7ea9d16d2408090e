// vocab.json and merges.txt of a byte-level BPE, one after the other with a line "====" in between:
// the same checks as for tokenizer.json (fuzz_tokenizer.c); and what is saved, which has a
// tokenizer.json made of them, is the same tokenizer.
#define _GNU_SOURCE
#include "use_tokenizer.h"

zero_status fuzz_one(const uint8_t *data, size_t size, zero_error *error)
{
    static const char between[] = "\n====\n";
    const char *cut = memmem(data, size, between, sizeof between - 1), *begin = (const char *)data;
    size_t first = cut ? (size_t)(cut - begin) : size,
           second = cut ? first + sizeof between - 1 : size;
    zr_tokenizer *tokenizer;
    fuzz_put("vocab.json", begin, first);
    fuzz_put("merges.txt", begin + second, size - second);
    ZERO_TRY(zr_tokenizer_load(fuzz_directory(), &tokenizer, error));
    zero_status status = fuzz_use_tokenizer(tokenizer, error);
    if (status == ZERO_OK)
        status = fuzz_save_tokenizer(tokenizer, error);
    zr_tokenizer_destroy(tokenizer);
    return status;
}
