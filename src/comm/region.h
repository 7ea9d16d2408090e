// Regions: whole pages of private memory, which are reserved for good or refused.
#ifndef ZR_COMM_REGION_H
#define ZR_COMM_REGION_H

#include "base/errors.h"

// ZERO_ERR_MEMORY: the machine has less than `bytes`; the message says how much there is, and why
// not more.
zero_status zr_region_check(int64_t bytes, zero_error *error);
// Makes mapped pages present, so that no step takes a page fault; base is page-aligned.
zero_status zr_region_touch(char *base, int64_t bytes, zero_error *error);
zero_status zr_region_create(int64_t bytes, char **out, zero_error *error); // zeroed; 0 bytes: NULL
void zr_region_destroy(char *base, int64_t bytes);

#endif
