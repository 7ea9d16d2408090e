// What a rank of a pipeline is at, in one word that the other ranks and their supervisor can read:
// a rank that has died or stopped can no longer say it.
#ifndef ZR_COMM_WORK_H
#define ZR_COMM_WORK_H

#include <stddef.h>
#include <stdint.h>

typedef struct zr_work {
    int stage, stages; // of the pipeline; stages below 2: there is none
    int chunk;         // of the stage; -1: between micro-batches
    int micro_batch;   // of the step; -1: of none, as in an evaluation
} zr_work;

enum { ZR_WORK_TEXT = 96 }; // bytes

uint64_t zr_work_pack(const zr_work *work); // 0: no pipeline
// Writes what follows a step in a message: ", pipeline stage 1 of 4, chunk 0, micro-batch 2"; of a
// word that is 0, nothing.
void zr_work_text(uint64_t word, char out[ZR_WORK_TEXT]);

#endif
