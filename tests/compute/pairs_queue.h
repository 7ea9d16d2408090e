// Queues whose kernels compute pairs of bf16 without an instruction for them, and so anywhere.
#ifndef TESTS_COMPUTE_PAIRS_QUEUE_H
#define TESTS_COMPUTE_PAIRS_QUEUE_H

#include "compute_check.h"

// As check_queue. NULL if this processor lacks AVX2.
zr_queue *pairs_queue(int threads);

#endif
