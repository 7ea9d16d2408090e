// A backend that computes nothing: none of its functions touches an operand, and those that tell
// the bytes of scratch ask the backend that it stands for. With a recording around it
// (zr_queue_record) it tells which operations a unit makes, in address space that no memory backs.
#ifndef ZR_COMPUTE_COUNTING_H
#define ZR_COMPUTE_COUNTING_H

#include "compute/compute.h"

typedef struct zr_counting zr_counting;

// Puts it in place of the queue's backend until zr_queue_count_end. A recording that begins later
// ends first. ZERO_ERR_MEMORY.
zero_status zr_queue_count(zr_queue *queue, zr_counting **out, zero_error *error);
void zr_queue_count_end(zr_queue *queue, zr_counting *counting); // NULL is allowed

#endif
