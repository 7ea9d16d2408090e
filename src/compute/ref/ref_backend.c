// The reference backend, assembled. Its queue has no caches and ignores its number of threads.
#include "compute/backends.h"
#include "compute/ref/ref.h"

#define FUNCTION(kind) zr_ref_##kind

static void run_ref(zr_queue *queue, const zr_op *op)
{
    switch (op->kind) {
        ZR_OPS(ZR_KERNEL_CASE)
    default: break;
    }
}

static size_t ref_scratch(zr_queue *queue, const zr_op *op)
{
    bool attends = op->kind == ZR_OP_attention_forward || op->kind == ZR_OP_attention_backward;
    return attends ? zr_ref_attention_scratch(&op->shape.attention) : 0;
}

static const char *ref_path(void) { return "portable"; }

static zero_status ref_open(zr_queue *queue, zero_error *error)
{
    queue->impl = NULL;
    return ZERO_OK;
}

static void ref_close(zr_queue *queue) {}

const zr_backend zr_ref_backend = {
    .name = "ref",
    .run = run_ref,
    .scratch = ref_scratch,
    .path = ref_path,
    .open = ref_open,
    .close = ref_close,
};
