// A card that is open. What was opened last is closed first.
#include "cuda/card.h"

#include "base/alloc.h"
#include "cuda/device.h"
#include "cuda/image.h"

#include <pthread.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static zr_cuda_card cards[ZR_CUDA_MOST_CARDS];

zero_status zr_cuda_fail(zr_cuda_card *card, const char *call, zr_cuda_result result,
                         zero_error *error)
{
    const char *text = NULL;
    size_t unused = 0, all = 0;
    card->cu->cuGetErrorString(result, &text);
    zero_status status =
        result == ZR_CUDA_ERROR_OUT_OF_MEMORY ? ZERO_ERR_MEMORY : ZERO_ERR_UNSUPPORTED;
    if (card->context && !card->cu->cuMemGetInfo_v2(&unused, &all))
        return zr_fail(error, status,
                       "cuda:%d: %s failed: %s (%u); the card has %zu of %zu bytes unused",
                       card->number, call, text ? text : "an unknown error", result, unused, all);
    return zr_fail(error, status, "cuda:%d: %s failed: %s (%u)", card->number, call,
                   text ? text : "an unknown error", result);
}

zero_status zr_cuda_card_enter(zr_cuda_card *card, zero_error *error)
{
    // Others in the process may have changed the thread's context, so nothing is remembered.
    ZR_CUDA_TRY(card, error, cuCtxSetCurrent, card->context);
    return ZERO_OK;
}

// ---- opening ----

static zero_status read_attribute(zr_cuda_card *card, unsigned attribute, int *out,
                                  zero_error *error)
{
    ZR_CUDA_TRY(card, error, cuDeviceGetAttribute, out, attribute, card->id);
    return ZERO_OK;
}

static zero_status check_number(zr_cuda_card *card, zero_error *error)
{
    int count = 0;
    ZR_CUDA_TRY(card, error, cuDeviceGetCount, &count);
    if (card->number < count)
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_USAGE,
                   "there is no card \"cuda:%d\": this machine has %d, which %s counted from 0",
                   card->number, count, count == 1 ? "is" : "are");
}

static zero_status read_facts(zr_cuda_card *card, zero_error *error)
{
    int major = 0, minor = 0, reaches = 0;
    ZR_CUDA_TRY(card, error, cuDeviceGet, &card->id, card->number);
    ZR_CUDA_TRY(card, error, cuDeviceGetName, card->name, sizeof card->name, card->id);
    ZERO_TRY(read_attribute(card, ZR_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &major, error));
    ZERO_TRY(read_attribute(card, ZR_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &minor, error));
    ZERO_TRY(read_attribute(card, ZR_CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
                            &card->multiprocessors, error));
    ZERO_TRY(read_attribute(card, ZR_CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM,
                            &reaches, error));
    card->capability = 10 * major + minor;
    if (card->capability < 80)
        return zr_fail(error, ZERO_ERR_UNSUPPORTED,
                       "cuda:%d (%s) has compute capability %d.%d: cards from 8.0 (A100) on are "
                       "computed on",
                       card->number, card->name, major, minor);
    if (!reaches)
        return zr_fail(error, ZERO_ERR_UNSUPPORTED,
                       "cuda:%d (%s) cannot reach the host's memory by its own addresses",
                       card->number, card->name);
    return ZERO_OK;
}

#define FILE_NAME(file) #file,
static const char *const file_names[] = {ZR_CUDA_FILES(FILE_NAME)};
#define FILE_NUMBER(file) FILE_##file,
enum { ZR_CUDA_FILES(FILE_NUMBER) FILE_COUNT };
static_assert(FILE_COUNT <= ZR_COUNT(((zr_cuda_card *)0)->modules), "each file has a module");

#define KERNEL_ROW(file, kernel) {FILE_##file, "zr_" #kernel},
static const struct {
    int file;
    const char *name;
} kernels[] = {ZR_CUDA_KERNELS(KERNEL_ROW)};

// The image of a file, made by a thread of its own, because compiling takes seconds.
typedef struct making {
    const char *file;
    int capability;
    pthread_t thread;
    bool apart; // else by the thread that opens the card
    zr_cuda_image image;
    char warning[ZERO_MESSAGE_BYTES];
    zero_status status;
    zero_error error;
} making;

static void *make_image(void *user)
{
    making *m = user;
    m->status = zr_cuda_image_make(m->file, m->capability, false, &m->image, m->warning, &m->error);
    return NULL;
}

static void make_images(const zr_cuda_card *card, making all[FILE_COUNT])
{
    for (int f = 0; f < FILE_COUNT; f++) {
        all[f].file = file_names[f];
        all[f].capability = card->capability;
        all[f].apart = f > 0 && !pthread_create(&all[f].thread, NULL, make_image, &all[f]);
    }
    for (int f = 0; f < FILE_COUNT; f++)
        if (!all[f].apart)
            make_image(&all[f]);
    for (int f = 0; f < FILE_COUNT; f++)
        if (all[f].apart)
            pthread_join(all[f].thread, NULL);
}

// An image that was kept, and that the driver refuses, is compiled anew.
static zero_status load_image(zr_cuda_card *card, making *m, zr_cuda_module *out, zero_error *error)
{
    if (m->status != ZERO_OK)
        return zr_fail(error, m->status, "%s", m->error.message);
    zr_cuda_result result = card->cu->cuModuleLoadData(out, m->image.bytes);
    if (result && !m->image.compiled) {
        zr_free(m->image.bytes);
        ZERO_TRY(zr_cuda_image_make(m->file, m->capability, true, &m->image, m->warning, error));
        result = card->cu->cuModuleLoadData(out, m->image.bytes);
    }
    if (*m->warning && !*card->warning)
        memcpy(card->warning, m->warning, sizeof m->warning);
    return result ? zr_cuda_fail(card, "cuModuleLoadData", result, error) : ZERO_OK;
}

static zero_status load_images(zr_cuda_card *card, zero_error *error)
{
    making *all = zr_alloc(FILE_COUNT * sizeof *all, error);
    zero_status status = ZERO_OK;
    if (!all)
        return ZERO_ERR_MEMORY;
    make_images(card, all);
    for (int f = 0; f < FILE_COUNT && status == ZERO_OK; f++)
        status = load_image(card, &all[f], &card->modules[f], error);
    for (int f = 0; f < FILE_COUNT; f++)
        zr_free(all[f].image.bytes);
    zr_free(all);
    return status;
}

static zero_status load_kernels(zr_cuda_card *card, zero_error *error)
{
    ZERO_TRY(load_images(card, error));
    for (int k = 0; k < ZR_CUDA_KERNEL_COUNT; k++)
        ZR_CUDA_TRY(card, error, cuModuleGetFunction, &card->functions[k],
                    card->modules[kernels[k].file], kernels[k].name);
    return ZERO_OK;
}

static void close_all(zr_cuda_card *card)
{
    zr_cuda_products_end(card);
    if (card->blas_handle)
        card->blas->cublasLtDestroy(card->blas_handle);
    for (int f = 0; f < FILE_COUNT; f++)
        if (card->modules[f])
            card->cu->cuModuleUnload(card->modules[f]);
    if (card->context) {
        card->cu->cuCtxSetCurrent(NULL);
        card->cu->cuDevicePrimaryCtxRelease_v2(card->id);
    }
    *card = (zr_cuda_card){0};
}

static zero_status open_all(zr_cuda_card *card, int number, zero_error *error)
{
    card->number = number;
    card->device = (zr_device){&zr_cuda_device_ops, card};
    if (!(card->cu = zr_cuda_driver_get(error)) || !(card->blas = zr_cuda_blas_get(error)))
        return ZERO_ERR_UNSUPPORTED;
    ZERO_TRY(check_number(card, error));
    ZERO_TRY(read_facts(card, error));
    ZR_CUDA_TRY(card, error, cuDevicePrimaryCtxRetain, &card->context, card->id);
    ZERO_TRY(zr_cuda_card_enter(card, error));
    zr_blas_status blas = card->blas->cublasLtCreate(&card->blas_handle);
    if (blas)
        return zr_fail(error, ZERO_ERR_UNSUPPORTED, "cuda:%d: cublasLtCreate failed: %s", number,
                       card->blas->cublasLtGetStatusString(blas));
    ZERO_TRY(zr_cuda_products_begin(card, error));
    return load_kernels(card, error);
}

zero_status zr_cuda_card_open(int number, zr_cuda_card **out, zero_error *error)
{
    zr_cuda_card *card = &cards[number];
    zero_status status = ZERO_OK;
    pthread_mutex_lock(&lock);
    if (card->stuck)
        status = zr_fail(error, ZERO_ERR_UNSUPPORTED,
                         "cuda:%d has not ended what this process gave it before", number);
    else if (card->users == 0 && (status = open_all(card, number, error)) != ZERO_OK)
        close_all(card);
    else
        card->users++;
    pthread_mutex_unlock(&lock);
    *out = status == ZERO_OK ? card : NULL;
    return status;
}

void zr_cuda_card_use(zr_cuda_card *card)
{
    pthread_mutex_lock(&lock);
    card->users++;
    pthread_mutex_unlock(&lock);
}

void zr_cuda_card_close(zr_cuda_card *card)
{
    pthread_mutex_lock(&lock);
    if (--card->users == 0 && !card->stuck) {
        zr_cuda_card_enter(card, NULL);
        close_all(card);
    }
    pthread_mutex_unlock(&lock);
}
