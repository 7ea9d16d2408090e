// Names of what a simulation tells.
#include "simulate/sim_step.h"

const char *const zr_sim_part_names[ZR_SIM_PARTS] = {
    [ZR_SIM_PRODUCTS] = "products",   [ZR_SIM_ATTENTION] = "attention",
    [ZR_SIM_OTHER] = "other kernels", [ZR_SIM_RECOMPUTE] = "computed again",
    [ZR_SIM_TENSOR] = "tensor ranks", [ZR_SIM_DATA] = "data ranks",
    [ZR_SIM_PIPELINE] = "messages",   [ZR_SIM_BUBBLE] = "bubble",
    [ZR_SIM_UPDATE] = "update",       [ZR_SIM_OFFLOAD] = "offload",
};
