// Device memory by cuMemAlloc, pinned memory by cuMemHostAlloc. Each reservation is a user of the
// card, so that a card lives as long as its memory. Ranks that share a card are threads of one
// process, so that a share is an address.
#include "cuda/device.h"

#include "cuda/card.h"

#include <string.h>
#include <unistd.h>

enum { ALIGN = 256 };

static zr_cuda_card *card_of(zr_device *device) { return device->impl; }

static void *address_of(zr_cuda_address at) { return (void *)(uintptr_t)at; } // NOLINT

static zero_status allocate(zr_cuda_card *card, zr_memory kind, size_t bytes, void **out,
                            zero_error *error)
{
    zr_cuda_address at = 0;
    ZERO_TRY(zr_cuda_card_enter(card, error));
    if (kind == ZR_MEMORY_DEVICE) {
        ZR_CUDA_TRY(card, error, cuMemAlloc_v2, &at, bytes);
        *out = address_of(at);
        return ZERO_OK;
    }
    ZR_CUDA_TRY(card, error, cuMemHostAlloc, out, bytes,
                ZR_CU_MEMHOSTALLOC_PORTABLE | ZR_CU_MEMHOSTALLOC_DEVICEMAP);
    memset(*out, 0, bytes);
    return ZERO_OK;
}

// The driver gives no 0 bytes, so one is asked for, which nobody counts.
static size_t allocated_bytes(size_t bytes) { return bytes ? bytes : 1; }

// The driver would wait for what a stuck card never ends, so its memory stays taken.
static bool can_release(zr_cuda_card *card)
{
    return !card->stuck && zr_cuda_card_enter(card, NULL) == ZERO_OK;
}

static zero_status cuda_reserve(zr_device *device, zr_memory kind, size_t bytes, void **out,
                                zero_error *error)
{
    zr_cuda_card *card = card_of(device);
    *out = NULL;
    if (kind == ZR_MEMORY_HOST)
        return zr_device_host()->ops->reserve(zr_device_host(), kind, bytes, out, error);
    ZERO_TRY(allocate(card, kind, allocated_bytes(bytes), out, error));
    zr_cuda_card_use(card);
    return ZERO_OK;
}

static void cuda_release(zr_device *device, zr_memory kind, void *at, size_t bytes)
{
    zr_cuda_card *card = card_of(device);
    if (kind == ZR_MEMORY_HOST)
        zr_device_host()->ops->release(zr_device_host(), kind, at, bytes);
    if (kind == ZR_MEMORY_HOST || !at)
        return;
    if (can_release(card) && kind == ZR_MEMORY_DEVICE)
        card->cu->cuMemFree_v2((uintptr_t)at);
    else if (can_release(card))
        card->cu->cuMemFreeHost(at);
    zr_cuda_card_close(card);
}

static zero_status cuda_pin(zr_device *device, void *at, size_t bytes, zero_error *error)
{
    zr_cuda_card *card = card_of(device);
    if (!bytes)
        return ZERO_OK;
    ZERO_TRY(zr_cuda_card_enter(card, error));
    ZR_CUDA_TRY(card, error, cuMemHostRegister_v2, at, bytes,
                ZR_CU_MEMHOSTREGISTER_PORTABLE | ZR_CU_MEMHOSTREGISTER_DEVICEMAP);
    zr_cuda_card_use(card);
    return ZERO_OK;
}

static void cuda_unpin(zr_device *device, void *at, size_t bytes)
{
    zr_cuda_card *card = card_of(device);
    if (!bytes)
        return;
    if (can_release(card))
        card->cu->cuMemHostUnregister(at);
    zr_cuda_card_close(card);
}

typedef struct shared { // what a share holds
    void *at;
    pid_t process;
} shared;

static zero_status cuda_share(zr_device *device, const void *at, zr_share *out, zero_error *error)
{
    zr_cuda_card *card = card_of(device);
    const shared share = {(void *)at, getpid()};
    unsigned type = 0;
    *out = (zr_share){{0}};
    ZERO_TRY(zr_cuda_card_enter(card, error));
    if (card->cu->cuPointerGetAttribute(&type, ZR_CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                        (uintptr_t)at) ||
        type != ZR_CU_MEMORYTYPE_DEVICE)
        return zr_fail(error, ZERO_ERR_USAGE, "cuda:%d: %p is no memory of the card", card->number,
                       at);
    memcpy(out->bytes, &share, sizeof share);
    return ZERO_OK;
}

static zero_status cuda_attach(zr_device *device, const zr_share *share, void **out,
                               zero_error *error)
{
    shared of;
    memcpy(&of, share->bytes, sizeof of);
    *out = NULL;
    if (of.process != getpid())
        return zr_fail(error, ZERO_ERR_UNSUPPORTED,
                       "cuda:%d: memory of process %lld: ranks that share a card are threads of "
                       "one process, so far",
                       card_of(device)->number, (long long)of.process);
    *out = of.at;
    return ZERO_OK;
}

static void cuda_detach(zr_device *device, void *at) {}

// What the context holds already is planned for, so it counts as unused.
static void cuda_free_bytes(zr_device *device, int64_t *unused, int64_t *all)
{
    size_t left = 0, total = 0;
    zr_cuda_card *card = card_of(device);
    if (zr_cuda_card_enter(card, NULL) == ZERO_OK)
        card->cu->cuMemGetInfo_v2(&left, &total);
    *unused = ZR_MIN((int64_t)left + ZR_CUDA_CONTEXT_BYTES, (int64_t)total);
    *all = (int64_t)total;
}

const zr_device_ops zr_cuda_device_ops = {
    .name = "cuda",
    .far = true,
    .align = ALIGN,
    .reserve = cuda_reserve,
    .release = cuda_release,
    .pin = cuda_pin,
    .unpin = cuda_unpin,
    .share = cuda_share,
    .attach = cuda_attach,
    .detach = cuda_detach,
    .free_bytes = cuda_free_bytes,
};
