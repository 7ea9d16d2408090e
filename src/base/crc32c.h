#ifndef ZR_BASE_CRC32C_H
#define ZR_BASE_CRC32C_H

#include "base/errors.h"

// CRC32C (Castagnoli) of data appended to a running value (start with 0); hardware where there is
// any, else a table.
uint32_t zr_crc32c(uint32_t crc, const void *data, size_t length);
uint32_t zr_crc32c_table(uint32_t crc, const void *data, size_t length); // the portable twin

#endif
