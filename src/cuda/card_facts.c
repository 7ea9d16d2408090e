// What a card is, for doctor and for `auto`.
#include "cuda/card.h"
#include "cuda/cards.h"
#include "cuda/device.h"

#include <stdio.h>

int zr_cuda_card_count(zero_error *error)
{
    int count = 0;
    const zr_cuda_driver *cu = zr_cuda_driver_get(error);
    if (!cu)
        return 0;
    zr_cuda_result result = cu->cuDeviceGetCount(&count);
    if (result)
        zr_fail(error, ZERO_ERR_UNSUPPORTED, "cuDeviceGetCount failed (%u)", result);
    return result ? 0 : ZR_MIN(count, (int)ZR_CUDA_MOST_CARDS);
}

void zr_cuda_version_text(int version, char *out, size_t size)
{
    if (version >= 100000)
        snprintf(out, size, "%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
    else
        snprintf(out, size, "%d.%d", version / 1000, version % 1000 / 10);
}

static zero_status describe(zr_cuda_card *card, zr_cuda_card_fact *out, zero_error *error)
{
    size_t unused = 0, all = 0;
    zr_cuda_library_fact library;
    ZERO_TRY(zr_cuda_card_enter(card, error));
    ZR_CUDA_TRY(card, error, cuMemGetInfo_v2, &unused, &all);
    *out = (zr_cuda_card_fact){.capability = card->capability,
                               .multiprocessors = card->multiprocessors,
                               .unused = (int64_t)unused,
                               .all = (int64_t)all};
    snprintf(out->name, sizeof out->name, "%s", card->name);
    snprintf(out->warning, sizeof out->warning, "%s", card->warning);
    int *const versions[] = {[ZR_CUDA_DRIVER] = &out->driver,
                             [ZR_CUDA_CUBLASLT] = &out->cublaslt,
                             [ZR_CUDA_NVRTC] = &out->nvrtc};
    for (int i = 0; i < ZR_CUDA_LIBRARIES; i++) {
        zr_cuda_library_look((zr_cuda_library)i, &library);
        *versions[i] = library.version;
    }
    return ZERO_OK;
}

zero_status zr_cuda_card_look(int number, zr_cuda_card_fact *out, zero_error *error)
{
    zr_cuda_card *card;
    *out = (zr_cuda_card_fact){0};
    if (number < 0 || number >= ZR_CUDA_MOST_CARDS)
        return zr_fail(error, ZERO_ERR_USAGE, "there is no card \"cuda:%d\"", number);
    ZERO_TRY(zr_cuda_card_open(number, &card, error));
    zero_status status = describe(card, out, error);
    zr_cuda_card_close(card);
    return status;
}

zero_status zr_queue_instructions(const zr_queue *queue, char *out, size_t size, zero_error *error)
{
    zr_cuda_card_fact card;
    char driver[24], blas[24], nvrtc[24];
    if (queue->device->ops != &zr_cuda_device_ops) {
        snprintf(out, size, "%s", queue->backend->path());
        return ZERO_OK;
    }
    const zr_cuda_card *of = queue->device->impl;
    ZERO_TRY(zr_cuda_card_look(of->number, &card, error));
    zr_cuda_version_text(card.driver, driver, sizeof driver);
    zr_cuda_version_text(card.cublaslt, blas, sizeof blas);
    zr_cuda_version_text(card.nvrtc, nvrtc, sizeof nvrtc);
    snprintf(out, size, "%s, sm_%d, driver %s, cuBLASLt %s, NVRTC %s", card.name, card.capability,
             driver, blas, nvrtc);
    return ZERO_OK;
}
