// The backends by name: one of each card's number, and one of each card that is imagined.
#include "cuda/launch.h"
#include "cuda/device.h"
#include "cuda/queue_ops.h"

#include <string.h>

#define FUNCTION(kind) zr_cuda_##kind

static void run(zr_queue *queue, const zr_op *op)
{
    zr_cuda_queue_of(queue)->last = (int)op->kind;
    switch (op->kind) {
        ZR_OPS(ZR_KERNEL_CASE)
    default: break;
    }
}

static size_t scratch(zr_queue *queue, const zr_op *op)
{
    switch (op->kind) {
    case ZR_OP_product: return zr_cuda_product_scratch(&op->shape.product);
    case ZR_OP_norm_backward: return zr_cuda_norm_scratch(&op->shape.norm);
    case ZR_OP_column_sum: return zr_cuda_column_sum_scratch(&op->shape.matrix);
    case ZR_OP_attention_forward:
    case ZR_OP_attention_backward:
    case ZR_OP_attention_decode: return zr_cuda_attention_scratch(&op->shape.attention, op->kind);
    default: return 0;
    }
}

// ---- cards that are not here ----

typedef struct imagined_card {
    const char *name;
    int64_t bytes; // that a program finds unused on an idle card; 0: no bound
} imagined_card;

static const imagined_card imagined[] = {
    // All but what a driver keeps for itself.
    {ZR_CUDA_ANY_CARD, 0},
    {"a100-40gb", (int64_t)39 << 30},
    {"a100-80gb", (int64_t)79 << 30},
    {"h100-80gb", (int64_t)79 << 30},
    {"h200-141gb", (int64_t)139 << 30},
    {"rtx4090-24gb", (int64_t)23 << 30},
};

static zero_status refuse_reserve(zr_device *device, zr_memory kind, size_t bytes, void **out,
                                  zero_error *error)
{
    const imagined_card *card = device->impl;
    *out = NULL;
    return zr_fail(error, ZERO_ERR_UNSUPPORTED,
                   "\"cuda:%s\" names a card that is not here: it can be planned for, and nothing "
                   "else; a card of this machine is \"cuda\" or \"cuda:1\"",
                   card->name);
}

static void imagined_free_bytes(zr_device *device, int64_t *unused, int64_t *all)
{
    const imagined_card *card = device->impl;
    *unused = *all = card->bytes;
}

static const zr_device_ops imagined_ops = {.name = "cuda",
                                           .far = true,
                                           .align = 256,
                                           .reserve = refuse_reserve,
                                           .free_bytes = imagined_free_bytes};

static zr_device imagined_devices[ZR_COUNT(imagined)];

static void run_nothing(zr_queue *queue, const zr_op *op)
{
    zero_error error = {0};
    void *none;
    refuse_reserve(queue->device, ZR_MEMORY_DEVICE, 0, &none, &error);
    zr_queue_fail(queue, ZERO_ERR_UNSUPPORTED, &error);
}

static zero_status open_imagined(zr_queue *queue, zero_error *error)
{
    const char *name = queue->backend->path();
    for (int i = 0; i < ZR_COUNT(imagined); i++) {
        if (strcmp(imagined[i].name, name) != 0)
            continue;
        imagined_devices[i] = (zr_device){&imagined_ops, (void *)&imagined[i]};
        queue->device = &imagined_devices[i];
    }
    return ZERO_OK;
}

static void close_nothing(zr_queue *queue) {}

static uint64_t mark_nothing(zr_queue *queue) { return 0; }

// ---- the table ----

enum { LOGIT_BYTES = 1 << 30, LOGIT_STEP = 64 };

// X(number): those of ZR_CUDA_MOST_CARDS
#define NUMBERS(X)                                                                                 \
    X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
#define IMAGINED(X) X(0) X(1) X(2) X(3) X(4) X(5)

#define CARD_FUNCTIONS(n)                                                                          \
    static const char *path_of_card_##n(void) { return #n; }                                       \
    static zero_status open_card_##n(zr_queue *queue, zero_error *error)                           \
    {                                                                                              \
        return zr_cuda_queue_open(queue, n, error);                                                \
    }
NUMBERS(CARD_FUNCTIONS)

#define IMAGINED_FUNCTIONS(n)                                                                      \
    static const char *path_of_imagined_##n(void) { return imagined[n].name; }
IMAGINED(IMAGINED_FUNCTIONS)

#define CARD_ROW(n)                                                                                \
    {.name = "cuda",                                                                               \
     .run = run,                                                                                   \
     .scratch = scratch,                                                                           \
     .path = path_of_card_##n,                                                                     \
     .open = open_card_##n,                                                                        \
     .close = zr_cuda_queue_close,                                                                 \
     .logit_bytes = LOGIT_BYTES,                                                                   \
     .logit_step = LOGIT_STEP,                                                                     \
     .runtime_bytes = ZR_CUDA_RUNTIME_BYTES,                                                       \
     .host = "cpu",                                                                                \
     .mark = zr_cuda_queue_mark,                                                                   \
     .after = zr_cuda_queue_after,                                                                 \
     .finish = zr_cuda_queue_finish},
static const zr_backend cards[] = {NUMBERS(CARD_ROW)};
static_assert(ZR_COUNT(cards) == ZR_CUDA_MOST_CARDS, "each card has a backend");

#define IMAGINED_ROW(n)                                                                            \
    {.name = "cuda",                                                                               \
     .run = run_nothing,                                                                           \
     .scratch = scratch,                                                                           \
     .path = path_of_imagined_##n,                                                                 \
     .open = open_imagined,                                                                        \
     .close = close_nothing,                                                                       \
     .logit_bytes = LOGIT_BYTES,                                                                   \
     .logit_step = LOGIT_STEP,                                                                     \
     .runtime_bytes = ZR_CUDA_RUNTIME_BYTES,                                                       \
     .host = "cpu",                                                                                \
     .mark = mark_nothing},
static const zr_backend imagined_backends[] = {IMAGINED(IMAGINED_ROW)};
static_assert(ZR_COUNT(imagined_backends) == ZR_COUNT(imagined), "each has a backend");

#define CARD_ADDRESS(n) &cards[n],
#define IMAGINED_ADDRESS(n) &imagined_backends[n],
static const zr_backend *const all[] = {NUMBERS(CARD_ADDRESS) IMAGINED(IMAGINED_ADDRESS) NULL};

void zr_cuda_offer(void) { zr_backends_offer(all); }
