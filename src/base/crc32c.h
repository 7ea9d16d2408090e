#ifndef ZR_BASE_CRC32C_H
#define ZR_BASE_CRC32C_H

#include "base/errors.h"

// Continues a CRC32C (Castagnoli) over `data`; a new one starts from 0. Uses the processor's
// instruction if it has one, else a table.
uint32_t zr_crc32c(uint32_t crc, const void *data, size_t length);
// The same from a table alone, on any processor.
uint32_t zr_crc32c_table(uint32_t crc, const void *data, size_t length);

#endif
