// The index of a Megatron pair, with 64 bytes of ids next to it. Every document is within them, and
// so are all ranges of ids.
#include "fuzz.h"

#include "data/token_file.h"

#include <string.h>

static void read_documents(const zr_token_file *file)
{
    for (int64_t d = 0; d < file->documents; d++) {
        int64_t first, count;
        int32_t ids[64];
        zr_token_file_document(file, d, &first, &count);
        fuzz_must(first >= 0 && count >= 0 && first <= file->count &&
                  count <= file->count - first && count <= 64);
        zr_token_file_read(file, first, count, ids);
    }
}

// With an end behind each document every range can be read, and is the same as part of a larger
// one.
static void read_ends(zr_token_file *file)
{
    enum { MOST = 4096 };
    int32_t all[MOST], some[MOST];
    zr_token_file_end_documents(file, 7); // no id of the file
    if (file->count > MOST)
        return;
    zr_token_file_read(file, 0, file->count, all);
    for (int64_t first = 0; first < file->count; first += 3) {
        int64_t count = ZR_MIN(file->count - first, first % 11);
        zr_token_file_read(file, first, count, some);
        fuzz_must(count == 0 || memcmp(some, all + first, (size_t)count * sizeof *some) == 0);
    }
}

zero_status fuzz_one(const uint8_t *data, size_t size, zero_error *error)
{
    char ids[64];
    zr_token_file file;
    for (int i = 0; i < ZR_COUNT(ids); i++)
        ids[i] = (char)(i % 7);
    fuzz_put("x.bin", ids, sizeof ids);
    ZERO_TRY(zr_token_file_open(fuzz_put("x.idx", data, size), ZR_TOKENS_MEGATRON, &file, error));
    fuzz_must(file.count >= 0 && file.count <= 64 / file.bytes);
    read_documents(&file);
    read_ends(&file);
    zr_token_file_close(&file);
    return ZERO_OK;
}
