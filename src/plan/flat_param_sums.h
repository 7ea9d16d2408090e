// What is added up for a flat parameter, where that goes, and how many bytes it takes. All files
// that place, write or run the program ask here, so that they agree.
#ifndef ZR_PLAN_FLAT_PARAM_SUMS_H
#define ZR_PLAN_FLAT_PARAM_SUMS_H

#include "plan/flat_params.h"
#include "plan/plan_settings.h"

// Says whether units contribute to the flat parameter: it is trained, or it is a buffer that its
// owner writes. Known once reductions are planned.
bool zr_flat_param_collects(const zr_flat_param *flat_param);
// Returns the bytes of its contributions in fp32, over all ranks' shards.
int64_t zr_flat_param_open_bytes(const zr_flat_param *flat_param);
// Returns the bytes of the own shard's sum in one accumulator.
int64_t zr_flat_param_sum_bytes(const zr_flat_param *flat_param);
// Returns the bytes of its sums in all accumulators: several, where the number of ranks may change.
int64_t zr_flat_param_accumulator_bytes(const zr_settings *settings,
                                        const zr_flat_param *flat_param);
// Says whether its sums go on to NVMe, through buffers in host memory.
bool zr_flat_param_sums_on_nvme(const zr_flat_param *flat_param);

#endif
