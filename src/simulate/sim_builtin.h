// The machines and frameworks that are built in, as plain data.
#ifndef ZR_SIMULATE_SIM_BUILTIN_H
#define ZR_SIMULATE_SIM_BUILTIN_H

#include "simulate/sim_machine.h"

extern const zr_sim_machine zr_sim_builtin_machines[];
extern const int zr_sim_builtin_machine_count;
// The last one, named "", is that of a well-made framework.
extern const zr_sim_framework zr_sim_builtin_frameworks[];
extern const int zr_sim_builtin_framework_count;

#endif
