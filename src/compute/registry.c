// Which backends this build has, and which one a queue gets. The only place that asks the processor what it offers.
#include "base/alloc.h"
#include "base/cpu.h"
#include "base/random.h"
#include "compute/backends.h"

#include <string.h>

static const zr_backend *const backends[] = {
    // of one name, the widest instruction set first
    &zr_ref_backend,
#ifdef ZR_COMPUTE_X86
    &zr_cpu_backend_avx512,   &zr_cpu_backend_avx2,
#endif
    &zr_cpu_backend_portable, NULL,
};

const zr_backend *const *zr_backends(void)
{
    return backends;
}

static bool path_offered(const char *path, const zr_cpu_features *features)
{
    if (strcmp(path, "avx512") == 0)
        return features->avx512 && features->avx2_fma;
    if (strcmp(path, "avx2") == 0)
        return features->avx2_fma;
    return true;
}

// Asked at every layer: from what the loader found out, since CPUID itself takes microseconds under a hypervisor.
bool zr_backend_offered(const zr_backend *backend)
{
    const char *path = backend->path();
#ifdef ZR_COMPUTE_X86
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (strcmp(path, "avx2") == 0)
        return avx2;
    if (strcmp(path, "avx512") == 0)
        return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vl");
#endif
    return strcmp(path, "portable") == 0;
}

zero_status zr_backend_find(const char *name, const char *isa, const zr_backend **out, zero_error *error)
{
    zr_cpu_features features = zr_cpu_detect();
    bool known = false, built = false;
    for (int i = 0; backends[i]; i++) {
        if (strcmp(backends[i]->name, name) != 0)
            continue;
        known = true;
        if (isa && strcmp(backends[i]->path(), isa) != 0)
            continue;
        built = true;
        if (!path_offered(backends[i]->path(), &features))
            continue;
        *out = backends[i];
        return ZERO_OK;
    }
    if (!known)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "opening a compute queue: there is no backend \"%s\"; there are \"cpu\" and \"ref\"", name);
    if (!built)
        return zr_fail(error, ZERO_ERR_UNSUPPORTED,
                       "opening a compute queue: backend \"%s\" of this build has no path \"%s\"", name, isa);
    return zr_fail(error, ZERO_ERR_UNSUPPORTED, "opening a compute queue: this processor does not offer \"%s\"", isa);
}

zero_status zr_queue_open(const char *name, const char *isa, int threads, zr_queue **out, zero_error *error)
{
    const zr_backend *backend = NULL;
    if (threads < 1)
        return zr_fail(error, ZERO_ERR_USAGE, "opening a compute queue: %d threads, at least 1 is needed", threads);
    ZERO_TRY(zr_backend_find(name, isa, &backend, error));
    zr_queue *queue = zr_alloc(sizeof(*queue), error);
    if (!queue)
        return ZERO_ERR_MEMORY;
    queue->backend = backend;
    queue->threads = threads;
    zero_status status = backend->open(queue, error);
    if (status != ZERO_OK)
        goto undo_alloc;
    *out = queue;
    return ZERO_OK;

undo_alloc:
    zr_free(queue);
    return status;
}

void zr_queue_close(zr_queue *queue)
{
    if (!queue)
        return;
    queue->backend->close(queue);
    zr_free(queue);
}

static bool stored_in(zero_dtype dtype)
{
    return dtype == ZERO_F32 || dtype == ZERO_BF16 || dtype == ZERO_F16;
}

zero_status zr_product_check(const zr_product *p, zero_error *error)
{
    if (!stored_in(p->dtype) || (p->out != p->dtype && p->out != ZERO_F32))
        return zr_fail(error, ZERO_ERR_UNSUPPORTED,
                       "matrix product: operands of type %d, result of type %d; operands are fp32, bf16 or fp16, the result "
                       "as they are or fp32",
                       (int)p->dtype, (int)p->out);
    if (p->add && (p->out != ZERO_F32 || p->epilogue != ZR_EPILOGUE_NONE))
        return zr_fail(error, ZERO_ERR_UNSUPPORTED, "matrix product: only an fp32 result without epilogue can be added to");
    return ZERO_OK;
}

bool zr_dropout_keep(uint64_t key, uint64_t index, float p)
{
    return zr_philox4x32(key, 0, index / 4).v[index % 4] >= zr_dropout_threshold(p);
}
