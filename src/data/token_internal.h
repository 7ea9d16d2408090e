// What the files that read token files share.
#ifndef ZR_DATA_TOKEN_INTERNAL_H
#define ZR_DATA_TOKEN_INTERNAL_H

#include "data/token_file.h"

#define ZR_LLMC_HEADER 1024 // bytes

enum {
    ZR_LLMC_MAGIC_16 = 20240520,
    ZR_LLMC_VERSION_16 = 1,
    ZR_LLMC_MAGIC_32 = 20240801,
    ZR_LLMC_VERSION_32 = 7
};

int zr_token_bytes(zr_token_type type);
bool zr_token_path_ends(const char *path, const char *suffix);
// Returns the name of the other file: `from` at the end of the path becomes `to`. NULL: no memory.
char *zr_token_path_with(const char *path, const char *from, const char *to, zero_error *error);

// Opens PREFIX.bin and PREFIX.idx into an empty `file`, which the caller closes in any case.
zero_status zr_token_megatron_open(const char *path, zr_token_file *file, zero_error *error);

#endif
