// Loads the driver, cuBLASLt and NVRTC: where the loader looks, then in the folders of the options.
#define _GNU_SOURCE
#include "probe.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

typedef struct symbol {
    const char *name;
    const char *older; // its name before, or NULL
    size_t offset;     // of its pointer in the table of functions
} symbol;

#define DRIVER_SYMBOL(name, older, parameters) {#name, older, offsetof(zr_cuda_driver, name)},
#define BLAS_SYMBOL(result, name, parameters) {#name, NULL, offsetof(zr_blas, name)},
#define NVRTC_SYMBOL(result, name, parameters) {#name, NULL, offsetof(zr_nvrtc, name)},
static const symbol driver_symbols[] = {ZR_CUDA_FUNCTIONS(DRIVER_SYMBOL)};
static const symbol blas_symbols[] = {ZR_BLAS_FUNCTIONS(BLAS_SYMBOL)};
static const symbol nvrtc_symbols[] = {ZR_NVRTC_FUNCTIONS(NVRTC_SYMBOL)};

// Fills a table of functions. Returns the name of the first that the library lacks, or NULL.
static const char *find_symbols(void *library, const symbol *symbols, size_t count, void *table)
{
    for (size_t i = 0; i < count; i++) {
        void *found = dlsym(library, symbols[i].name);
        if (!found && symbols[i].older)
            found = dlsym(library, symbols[i].older);
        if (!found)
            return symbols[i].name;
        memcpy((char *)table + symbols[i].offset, &found, sizeof found);
    }
    return NULL;
}

bool probe_load_driver(probe_session *session)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) {
        probe_answer_fail(session->answer, "there is no driver of NVIDIA: %s", dlerror());
        return false;
    }
    const char *missing =
        find_symbols(library, driver_symbols, PROBE_LENGTH(driver_symbols), &session->cu);
    if (missing)
        probe_answer_fail(session->answer, "the driver is too old: libcuda.so.1 has no %s",
                          missing);
    return !missing;
}

// Opens STEM.so.MAJOR from the loader's path, else from the first folder that has it.
static void *open_version(const probe_options *options, const char *stem, int major)
{
    char path[4096];
    snprintf(path, sizeof path, "%s.so.%d", stem, major);
    void *library = dlopen(path, RTLD_NOW);
    for (int i = 0; i < options->library_count && !library; i++) {
        snprintf(path, sizeof path, "%s/%s.so.%d", options->libraries[i], stem, major);
        library = dlopen(path, RTLD_NOW);
    }
    return library;
}

// The version of the driver's own CUDA first, because a later one may refuse this driver.
static void *open_library(probe_session *session, const char *stem)
{
    const int own = session->driver_version / 1000 == 12 ? 12 : 13;
    void *library = open_version(session->options, stem, own);
    if (!library)
        library = open_version(session->options, stem, 25 - own);
    if (!library)
        probe_answer_fail(session->answer,
                          "there is no %s.so.13 or .12 where the loader looks and in %d folders",
                          stem, session->options->library_count);
    return library;
}

static bool load_library(probe_session *session, const char *stem, const symbol *symbols,
                         size_t count, void *table, char *path, size_t bytes)
{
    void *library = open_library(session, stem);
    if (!library)
        return false;
    const char *missing = find_symbols(library, symbols, count, table);
    void *function;
    memcpy(&function, (char *)table + symbols[0].offset, sizeof function);
    Dl_info found;
    bool known = function && dladdr(function, &found) && found.dli_fname;
    snprintf(path, bytes, "%s", known ? found.dli_fname : stem);
    if (missing)
        probe_answer_fail(session->answer, "%s has no %s", path, missing);
    return !missing;
}

bool probe_load_blas(probe_session *session, char *path, size_t bytes)
{
    return load_library(session, "libcublasLt", blas_symbols, PROBE_LENGTH(blas_symbols),
                        &session->blas, path, bytes);
}

bool probe_load_nvrtc(probe_session *session, char *path, size_t bytes)
{
    return load_library(session, "libnvrtc", nvrtc_symbols, PROBE_LENGTH(nvrtc_symbols),
                        &session->nvrtc, path, bytes);
}
