// The functions of a queue that backend.c puts together.
#ifndef ZR_CUDA_QUEUE_OPS_H
#define ZR_CUDA_QUEUE_OPS_H

#include "cuda/queue.h"

zero_status zr_cuda_queue_open(zr_queue *queue, int number, zero_error *error);
void zr_cuda_queue_close(zr_queue *queue); // after what it was given has ended
uint64_t zr_cuda_queue_mark(zr_queue *queue);
void zr_cuda_queue_after(zr_queue *queue, zr_mark mark);
zero_status zr_cuda_queue_finish(zr_mark mark, double seconds, zero_error *error);

#endif
