// Predicts how long a step of a plan takes on a machine that was measured, to choose between plans
// (libzero.offload auto) and to say what a step waits for. Pure.
//
//                          the larger of                    and
//   forward and backward   kernels + exchange + checksums   what NVMe reads and writes meanwhile
//   update                 update + checksums               what NVMe reads and writes in place
//
// Where the update is delayed, the larger of these two counts, and then what publishes the
// parameters.
#ifndef ZR_PLAN_PREDICT_H
#define ZR_PLAN_PREDICT_H

#include "plan/full_plan.h"

typedef struct zr_speed { // of one rank while all ranks of its machine work; bytes a second
    // Seconds of the kernels over activations, in forward and backward of one micro-batch.
    double micro_batch;
    double copy, update; // memory: bytes read and written together by a copy; by an update in place
    double checksum;     // CRC32C
    // The disk; mix: sub-groups are read and written in place, and both are counted. 0: there is no
    // disk.
    double read, write, mix;
} zr_speed;

typedef struct zr_prediction { // seconds of one step; total is the sum of the others
    double compute, exchange, update;
    double disk; // waiting for NVMe while nothing else goes on
    double total;
} zr_prediction;

zr_prediction zr_predict(const zr_plan *plan, const zr_speed *speed);
// Returns the name of the largest part: "compute", "exchange between ranks", "update", "NVMe".
const char *zr_prediction_bottleneck(const zr_prediction *prediction);

#endif
