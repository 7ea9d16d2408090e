#include "example.h"

zr_sim_machine sim_example_machine(void)
{
    return (zr_sim_machine){
        .name = "example",
        .device = "example",
        .devices = 8,
        .memory = 1e12,
        .peak = {[ZR_SIM_FP32] = 10e12, [ZR_SIM_16_BIT] = 100e12, [ZR_SIM_8_BIT] = 200e12},
        .processors = 1,
        .memory_rate = 1e12,
        .links = {[ZR_SIM_IN_NODE] = {100e9, 0, 1},
                  [ZR_SIM_RAIL] = {10e9, 0, 1},
                  [ZR_SIM_SPINE] = {10e9, 0, 1}},
        .taper = 1,
        .host_memory = 1e12,
        .host_rate = 100e9,
        .host_link = 10e9,
        .constants = {[ZR_SIM_REACHED] = 0.5,
                      [ZR_SIM_HALF] = 0,
                      [ZR_SIM_STREAMED] = 1,
                      [ZR_SIM_ATTENDED] = 0.5,
                      [ZR_SIM_LAUNCH] = 0,
                      [ZR_SIM_NARROW] = 0.5},
    };
}

zr_sim_run sim_example_run(void)
{
    return (zr_sim_run){
        .layers = 32,
        .width = 4096,
        .heads = 32,
        .vocab = 51200,
        .seq = 2048,
        .tied = true,
        .devices = 8,
        .micro_batch = 2,
        .accumulation = 4,
        .number = ZR_SIM_16_BIT,
        .attention = ZR_SIM_FLASH,
        .framework = {.name = "example", .constants = {1, 0}},
        .machine = sim_example_machine(),
    };
}
