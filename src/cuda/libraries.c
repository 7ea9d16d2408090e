// Looks for the libraries and loads them.
#define _GNU_SOURCE
#include "cuda/libraries.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

typedef struct symbol {
    const char *name, *older;
    size_t offset;
} symbol;

#define DRIVER_SYMBOL(name, older, parameters) {#name, older, offsetof(zr_cuda_driver, name)},
#define BLAS_SYMBOL(result, name, parameters) {#name, NULL, offsetof(zr_blas, name)},
#define NVRTC_SYMBOL(result, name, parameters) {#name, NULL, offsetof(zr_nvrtc, name)},
static const symbol driver_symbols[] = {ZR_CUDA_FUNCTIONS(DRIVER_SYMBOL)};
static const symbol blas_symbols[] = {ZR_BLAS_FUNCTIONS(BLAS_SYMBOL)};
static const symbol nvrtc_symbols[] = {ZR_NVRTC_FUNCTIONS(NVRTC_SYMBOL)};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static zr_cuda_driver driver;
static zr_blas blas;
static zr_nvrtc nvrtc;
static bool have[3];

static zero_status load(const char *file, const symbol *symbols, int count, void *table, bool *done,
                        zero_error *error)
{
    if (*done)
        return ZERO_OK;
    void *library = dlopen(file, RTLD_NOW);
    if (!library)
        return zr_fail(error, ZERO_ERR_UNSUPPORTED, "there is no %s: %s", file, dlerror());
    for (int i = 0; i < count; i++) {
        void *found = dlsym(library, symbols[i].name);
        if (!found && symbols[i].older)
            found = dlsym(library, symbols[i].older);
        if (!found)
            return zr_fail(error, ZERO_ERR_UNSUPPORTED, "%s has no %s", file, symbols[i].name);
        memcpy((char *)table + symbols[i].offset, &found, sizeof found);
    }
    *done = true;
    return ZERO_OK;
}

static zero_status load_one(const char *file, const symbol *symbols, int count, void *table,
                            bool *done, zero_error *error)
{
    pthread_mutex_lock(&lock);
    zero_status status = load(file, symbols, count, table, done, error);
    pthread_mutex_unlock(&lock);
    return status;
}

const zr_cuda_driver *zr_cuda_driver_get(zero_error *error)
{
    bool had = have[0];
    if (load_one("libcuda.so.1", driver_symbols, ZR_COUNT(driver_symbols), &driver, &have[0],
                 error) != ZERO_OK)
        return NULL;
    if (!had && driver.cuInit(0)) {
        zr_fail(error, ZERO_ERR_UNSUPPORTED, "there is no card of NVIDIA's");
        return NULL;
    }
    return &driver;
}

const zr_blas *zr_cuda_blas_get(zero_error *error)
{
    return load_one("libcublasLt.so.13", blas_symbols, ZR_COUNT(blas_symbols), &blas, &have[1],
                    error) == ZERO_OK
               ? &blas
               : NULL;
}

const zr_nvrtc *zr_cuda_nvrtc_get(zero_error *error)
{
    return load_one("libnvrtc.so.13", nvrtc_symbols, ZR_COUNT(nvrtc_symbols), &nvrtc, &have[2],
                    error) == ZERO_OK
               ? &nvrtc
               : NULL;
}
