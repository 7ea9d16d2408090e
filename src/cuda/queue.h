// A queue of a card: a stream, and marks in it.
#ifndef ZR_CUDA_QUEUE_H
#define ZR_CUDA_QUEUE_H

#include "compute/compute.h"
#include "cuda/card.h"

enum { ZR_CUDA_EVENTS = 256 };

typedef struct zr_cuda_queue {
    zr_cuda_card *card;
    zr_cuda_stream stream;
    // Mark number n is event n % ZR_CUDA_EVENTS. Where a later mark has taken its event, whoever
    // waits for n waits for that one, which was recorded in the same stream after it.
    zr_cuda_event events[ZR_CUDA_EVENTS];
    uint64_t marks;        // made so far
    _Atomic uint64_t done; // the last mark that somebody has finished
    _Atomic int last;      // zr_op_kind of the last operation that was submitted
} zr_cuda_queue;

static inline zr_cuda_queue *zr_cuda_queue_of(zr_queue *queue) { return queue->impl; }

// Fails the queue with the operation's name, the call's, and what the card has unused.
void zr_cuda_queue_fail(zr_queue *queue, const char *call, zr_cuda_result result);
// Fails it because the backend does not compute an operation of this kind or shape; why may be
// NULL: "of bf16 with more than 256 ranks".
void zr_cuda_queue_refuse(zr_queue *queue, const char *why);

// Launches a kernel with its structure; a grid of 0 blocks launches nothing. Fails the queue.
void zr_cuda_launch(zr_queue *queue, zr_cuda_kernel kernel, const int64_t grid[3], int threads,
                    const void *args);

// ZR_LAUNCH(queue, kernel, threads, blocks_x, blocks_y, .member = value, ...)
#define ZR_LAUNCH(queue, kernel, threads, blocks_x, blocks_y, ...)                                 \
    zr_cuda_launch(queue, ZR_KERNEL_##kernel, (const int64_t[3]){blocks_x, blocks_y, 1}, threads,  \
                   &(const zr_##kernel##_args){__VA_ARGS__})

// Returns the blocks of a grid for `items` things, one a thread: at most 16 a processor, so that
// kernels go through what is left by the grid's stride. Only for kernels whose results do not
// depend on the grid.
int64_t zr_cuda_blocks(zr_queue *queue, int64_t items, int threads);

void zr_cuda_fill_bytes(zr_queue *queue, void *to, uint8_t value, int64_t bytes);
void zr_cuda_copy_bytes(zr_queue *queue, const void *from, void *to, int64_t bytes);

#endif
