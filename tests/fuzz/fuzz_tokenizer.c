// tokenizer.json: one that is accepted encodes text to ids of its own vocabulary, as a whole and in
// parts alike, and decodes them to text.
#include "use_tokenizer.h"

zero_status fuzz_one(const uint8_t *data, size_t size, zero_error *error)
{
    zr_tokenizer *tokenizer;
    fuzz_put("tokenizer.json", data, size);
    ZERO_TRY(zr_tokenizer_load(fuzz_directory(), &tokenizer, error));
    zero_status status = fuzz_use_tokenizer(tokenizer, error);
    zr_tokenizer_destroy(tokenizer);
    return status;
}
