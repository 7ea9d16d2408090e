// Loads the driver, cuBLASLt and NVRTC: where the loader looks, then in the folders of
// library_folders.c. The version of the driver's own CUDA comes first. A later one than the
// driver's is not taken, because it needs a later driver.
#define _GNU_SOURCE
#include "cuda/libraries.h"

#include "base/alloc.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { OLDEST_CUDA = 12, NEWEST_CUDA = 13, LEAST_DRIVER = 12000 };

typedef struct symbol {
    const char *name, *older; // its name in earlier libraries, or NULL
    size_t offset;            // of its pointer in the table of functions
} symbol;

#define DRIVER_SYMBOL(name, older, parameters) {#name, older, offsetof(zr_cuda_driver, name)},
#define BLAS_SYMBOL(result, name, parameters) {#name, NULL, offsetof(zr_blas, name)},
#define NVRTC_SYMBOL(result, name, parameters) {#name, NULL, offsetof(zr_nvrtc, name)},
static const symbol driver_symbols[] = {ZR_CUDA_FUNCTIONS(DRIVER_SYMBOL)};
static const symbol blas_symbols[] = {ZR_BLAS_FUNCTIONS(BLAS_SYMBOL)};
static const symbol nvrtc_symbols[] = {ZR_NVRTC_FUNCTIONS(NVRTC_SYMBOL)};

static zr_cuda_driver driver;
static zr_blas blas;
static zr_nvrtc nvrtc;

static const struct library {
    const char *stem;
    const symbol *symbols;
    int symbol_count;
    void *table;
} libraries[] = {
    [ZR_CUDA_DRIVER] = {"libcuda", driver_symbols, ZR_COUNT(driver_symbols), &driver},
    [ZR_CUDA_CUBLASLT] = {"libcublasLt", blas_symbols, ZR_COUNT(blas_symbols), &blas},
    [ZR_CUDA_NVRTC] = {"libnvrtc", nvrtc_symbols, ZR_COUNT(nvrtc_symbols), &nvrtc},
};

// What was found so far. A library that was not found is looked for again.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static zr_cuda_library_fact facts[ZR_CUDA_LIBRARIES];
static zr_cuda_result driver_beginning; // what cuInit returned

// ---- one library ----

typedef struct search {
    const struct library *of;
    int version;
    void *library;
    char refused[512]; // what the loader said of the first file that is there
} search;

static bool try_folder(void *user, const char *folder)
{
    search *s = user;
    char path[2048];
    int length = snprintf(path, sizeof path, "%s/%s.so.%d", folder, s->of->stem, s->version);
    if (length >= (int)sizeof path || access(path, F_OK))
        return false;
    s->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!s->library && !*s->refused)
        snprintf(s->refused, sizeof s->refused, "%s", dlerror());
    return s->library;
}

static bool open_version(search *s, int version, bool ask_python)
{
    char name[64];
    s->version = version;
    if (ask_python)
        return zr_cuda_each_python_folder(try_folder, s);
    snprintf(name, sizeof name, "%s.so.%d", s->of->stem, version);
    s->library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    return s->library || zr_cuda_each_folder(try_folder, s);
}

// Fills the table. Returns the name of the first function that the library lacks, or NULL.
static const char *find_symbols(void *library, const struct library *of)
{
    for (int i = 0; i < of->symbol_count; i++) {
        const symbol *wanted = &of->symbols[i];
        void *found = dlsym(library, wanted->name);
        if (!found && wanted->older)
            found = dlsym(library, wanted->older);
        if (!found)
            return wanted->name;
        memcpy((char *)of->table + wanted->offset, &found, sizeof found);
    }
    return NULL;
}

static void find_path(const struct library *of, zr_cuda_library_fact *out)
{
    void *function;
    Dl_info found;
    memcpy(&function, (char *)of->table + of->symbols[0].offset, sizeof function);
    bool known = function && dladdr(function, &found) && found.dli_fname;
    snprintf(out->path, sizeof out->path, "%s", known ? found.dli_fname : of->stem);
}

// ---- the driver ----

static void load_driver(zr_cuda_library_fact *out)
{
    const struct library *of = &libraries[ZR_CUDA_DRIVER];
    search s = {.of = of};
    if (!open_version(&s, 1, false)) {
        snprintf(out->why, sizeof out->why,
                 "there is no driver of NVIDIA: libcuda.so.1 is not found%s%s; it comes with the "
                 "driver of the card, 525.60 or later",
                 *s.refused ? ": " : "", s.refused);
        return;
    }
    const char *missing = find_symbols(s.library, of);
    find_path(of, out);
    if (missing) {
        snprintf(out->why, sizeof out->why,
                 "the driver of NVIDIA is too old: \"%s\" has no %s; a driver of 525.60 or later "
                 "is right",
                 out->path, missing);
        return;
    }
    driver_beginning = driver.cuInit(0);
    if (driver.cuDriverGetVersion(&out->version))
        out->version = 0;
    if (out->version < LEAST_DRIVER) {
        snprintf(out->why, sizeof out->why,
                 "the driver of NVIDIA (\"%s\") is of CUDA %d.%d, which is too old: one of CUDA "
                 "12.0 or later is right, which is driver 525.60 or later",
                 out->path, out->version / 1000, out->version % 1000 / 10);
        return;
    }
    out->found = true;
}

// ---- the others ----

static const char *packages_of(int cuda)
{
    return cuda == OLDEST_CUDA ? "nvidia-cublas-cu12 nvidia-cuda-nvrtc-cu12"
                               : "nvidia-cublas nvidia-cuda-nvrtc";
}

// The CUDA whose libraries suit the driver best.
static int own_version(void)
{
    return facts[ZR_CUDA_DRIVER].found && facts[ZR_CUDA_DRIVER].version < 1000 * NEWEST_CUDA
               ? OLDEST_CUDA
               : NEWEST_CUDA;
}

static void say_missing(const search *s, int own, zr_cuda_library_fact *out)
{
    if (*s->refused)
        snprintf(out->why, sizeof out->why,
                 "%s cannot be loaded: %s; \"pip install %s\" brings another", s->of->stem,
                 s->refused, packages_of(own));
    else
        snprintf(out->why, sizeof out->why,
                 "%s.so.%d is not found where the loader looks, in CUDA_HOME, in the active "
                 "environment of Python and in /usr/local/cuda: \"pip install %s\" brings it",
                 s->of->stem, own, packages_of(own));
}

static int version_of(zr_cuda_library which)
{
    int major = 0, minor = 0;
    if (which == ZR_CUDA_CUBLASLT)
        return (int)blas.cublasLtGetVersion();
    return nvrtc.nvrtcVersion(&major, &minor) ? 0 : 1000 * major + 10 * minor;
}

// The driver's own version everywhere, then the other; python3 is asked when neither was found.
static void load_other(zr_cuda_library which, zr_cuda_library_fact *out)
{
    const struct library *of = &libraries[which];
    const int own = own_version(), other = OLDEST_CUDA + NEWEST_CUDA - own;
    search s = {.of = of};
    if (!open_version(&s, own, false) && !open_version(&s, other, false) &&
        !open_version(&s, own, true) && !open_version(&s, other, true)) {
        say_missing(&s, own, out);
        return;
    }
    const char *missing = find_symbols(s.library, of);
    find_path(of, out);
    if (missing) {
        snprintf(out->why, sizeof out->why, "\"%s\" has no %s; \"pip install %s\" brings another",
                 out->path, missing, packages_of(own));
    } else if (s.version > own) {
        snprintf(out->why, sizeof out->why,
                 "\"%s\" is of CUDA %d, the driver of NVIDIA of CUDA %d.%d: \"pip install %s\" "
                 "brings one that suits it, as a driver of 580.65 or later does",
                 out->path, s.version, facts[ZR_CUDA_DRIVER].version / 1000,
                 facts[ZR_CUDA_DRIVER].version % 1000 / 10, packages_of(own));
    } else {
        out->version = version_of(which);
        out->found = true;
    }
}

// Under the lock.
static void look(zr_cuda_library which)
{
    zr_cuda_library_fact *fact = &facts[which];
    if (which != ZR_CUDA_DRIVER)
        look(ZR_CUDA_DRIVER); // which decides what suits
    if (fact->found)
        return;
    *fact = (zr_cuda_library_fact){.name = libraries[which].stem};
    if (which == ZR_CUDA_DRIVER)
        load_driver(fact);
    else
        load_other(which, fact);
}

void zr_cuda_library_look(zr_cuda_library which, zr_cuda_library_fact *out)
{
    pthread_mutex_lock(&lock);
    look(which);
    *out = facts[which];
    pthread_mutex_unlock(&lock);
}

static const void *get(zr_cuda_library which, zero_error *error)
{
    pthread_mutex_lock(&lock);
    look(which);
    const void *table = facts[which].found ? libraries[which].table : NULL;
    if (!table)
        zr_fail(error, ZERO_ERR_UNSUPPORTED, "%s", facts[which].why);
    pthread_mutex_unlock(&lock);
    return table;
}

const zr_cuda_driver *zr_cuda_driver_get(zero_error *error)
{
    const char *text = NULL;
    const zr_cuda_driver *table = get(ZR_CUDA_DRIVER, error);
    if (!table || !driver_beginning)
        return table;
    table->cuGetErrorString(driver_beginning, &text);
    zr_fail(error, ZERO_ERR_UNSUPPORTED,
            "the driver of NVIDIA finds no card: cuInit failed: %s (%u)",
            text ? text : "an unknown error", driver_beginning);
    return NULL;
}

const zr_blas *zr_cuda_blas_get(zero_error *error) { return get(ZR_CUDA_CUBLASLT, error); }

const zr_nvrtc *zr_cuda_nvrtc_get(zero_error *error) { return get(ZR_CUDA_NVRTC, error); }
