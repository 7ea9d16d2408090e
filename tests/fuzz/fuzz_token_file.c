// A file of token ids, llm.c's or nanoGPT's: every id that it claims to have is inside it.
#include "fuzz.h"

#include "data/token_file.h"

static void read_all(const zr_token_file *file)
{
    int32_t ids[64];
    for (int64_t first = 0; first < file->count; first += ZR_COUNT(ids)) {
        int64_t count = ZR_MIN(file->count - first, ZR_COUNT(ids));
        zr_token_file_read(file, first, count, ids);
        for (int64_t i = 0; i < count; i++)
            fuzz_must(ids[i] >= -1);
    }
}

zero_status fuzz_one(const uint8_t *data, size_t size, zero_error *error)
{
    zr_token_file file;
    ZERO_TRY(zr_token_file_open(fuzz_put("x.bin", data, size), ZR_TOKENS_DETECT, &file, error));
    fuzz_must(file.count >= 0 && file.bytes > 0 && file.count <= (int64_t)size / file.bytes);
    read_all(&file);
    zero_status status = zr_token_file_check(&file, 0, file.count, 50257, error);
    zr_token_file_close(&file);
    return status;
}
