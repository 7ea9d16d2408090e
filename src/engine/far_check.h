// What does not train on a far device (memory/device.h) in this version.
#ifndef ZR_ENGINE_FAR_CHECK_H
#define ZR_ENGINE_FAR_CHECK_H

#include "memory/device.h"
#include "model/architecture.h"
#include "plan/plan.h"

// Returns the part of a training that the host does itself ("Muon's exchange of matrices"), or
// NULL. config: NULL for what is no language model.
const char *zr_far_refusal(const zr_settings *settings, const zr_lm_config *config);
// Returns ZERO_ERR_UNSUPPORTED for a plan or a unit whose work the host does itself; the message
// names it. device: the far device's name.
zero_status zr_far_check(const char *device, const zr_plan *plan, zero_error *error);

// Refuses a micro-batch in the memory of a far device (ZERO_ERR_USAGE). function: who was given it.
zero_status zr_far_check_batch(zr_device *device, const char *function, const zero_tensors *batch,
                               zero_error *error);

#endif
