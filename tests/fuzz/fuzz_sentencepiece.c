// SentencePiece's tokenizer.model, and after a line "====" a tokenizer_config.json for it: the same
// checks as for tokenizer.json (fuzz_tokenizer.c); and what is saved, which has a tokenizer.json
// made of it, is the same tokenizer.
#define _GNU_SOURCE
#include "use_tokenizer.h"

zero_status fuzz_one(const uint8_t *data, size_t size, zero_error *error)
{
    static const char between[] = "\n====\n";
    const char *cut = memmem(data, size, between, sizeof between - 1), *begin = (const char *)data;
    size_t first = cut ? (size_t)(cut - begin) : size, second = first + sizeof between - 1;
    zr_tokenizer *tokenizer;
    remove(fuzz_put("tokenizer_config.json", "", 0));
    if (cut)
        fuzz_put("tokenizer_config.json", begin + second, size - second);
    fuzz_put("tokenizer.model", begin, first);
    ZERO_TRY(zr_tokenizer_load(fuzz_directory(), &tokenizer, error));
    zero_status status = fuzz_use_tokenizer(tokenizer, error);
    if (status == ZERO_OK)
        status = fuzz_save_tokenizer(tokenizer, error);
    zr_tokenizer_destroy(tokenizer);
    return status;
}
