// Unpacks the pages of a Parquet file, whose unpacked size their headers say.
#ifndef ZR_DATA_PARQUET_CODEC_H
#define ZR_DATA_PARQUET_CODEC_H

#include "base/errors.h"

// Fills out[0..room) exactly. `name` begins the messages of errors. ZERO_ERR_DATA for data that are
// damaged; ZERO_ERR_UNSUPPORTED for a codec that is not built.
zero_status zr_parquet_unpack(int codec, const void *data, size_t length, void *out, size_t room,
                              const char *name, zero_error *error);

// Snappy's raw format: the length, then literals and copies. Returns false for damaged data.
bool zr_snappy_unpack(const uint8_t *data, size_t length, uint8_t *out, size_t room);

#endif
