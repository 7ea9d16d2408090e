// Names of what a simulation tells.
#include "simulate/step.h"

const char *const zr_sim_part_names[ZR_SIM_PARTS] = {
    [ZR_SIM_PRODUCTS] = "products",   [ZR_SIM_ATTENTION] = "attention",
    [ZR_SIM_OTHER] = "other kernels", [ZR_SIM_RECOMPUTE] = "computed again",
    [ZR_SIM_TENSOR] = "tensor ranks", [ZR_SIM_DATA] = "data ranks",
    [ZR_SIM_PIPELINE] = "messages",   [ZR_SIM_BUBBLE] = "bubble",
    [ZR_SIM_UPDATE] = "update",       [ZR_SIM_OFFLOAD] = "offload",
};

const char *const zr_sim_reach_names[ZR_SIM_REACHES] = {
    [ZR_SIM_IN_NODE] = "node",
    [ZR_SIM_RAIL] = "rail",
    [ZR_SIM_SPINE] = "spine",
};

const char *const zr_sim_constant_names[ZR_SIM_CONSTANTS] = {
    [ZR_SIM_REACHED] = "reached",   [ZR_SIM_HALF] = "half",     [ZR_SIM_STREAMED] = "streamed",
    [ZR_SIM_ATTENDED] = "attended", [ZR_SIM_LAUNCH] = "launch", [ZR_SIM_NARROW] = "narrow",
};
const char *const zr_sim_framework_constant_names[ZR_SIM_FRAMEWORK_CONSTANTS] = {
    [ZR_SIM_KERNELS] = "kernels",
    [ZR_SIM_HIDDEN] = "hidden",
};
