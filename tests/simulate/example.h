// A run that tests change: a model of 7 billion parameters on a machine of round numbers.
#ifndef ZR_TESTS_SIM_EXAMPLE_H
#define ZR_TESTS_SIM_EXAMPLE_H

#include "simulate/run.h"

// 8 devices a node of 100 TFLOP/s and 1 TB/s, links of 100 and 10 GB/s without latency.
zr_sim_machine sim_example_machine(void);
zr_sim_run sim_example_run(void); // not complete

#endif
