// The reference backend, assembled. Its queue has no caches and ignores its number of threads.
#include "compute/backends.h"
#include "compute/ref/ref.h"

static const char *ref_path(void) { return "portable"; }

static zero_status ref_open(zr_queue *queue, zero_error *error)
{
    queue->impl = NULL;
    return ZERO_OK;
}

static void ref_close(zr_queue *queue) {}

const zr_backend zr_ref_backend = {
    .name = "ref",
    .product = &zr_ref_product_ops,
    .rows = &zr_ref_row_ops,
    .attention = &zr_ref_attention_ops,
    .elements = &zr_ref_element_ops,
    .optimizer = &zr_ref_optimizer_ops,
    .path = ref_path,
    .open = ref_open,
    .close = ref_close,
};
