// Which backends this build has, which of them the processor offers, and which one a queue gets;
// and the functions that backends share.
#include "base/alloc.h"
#include "base/cpu.h"
#include "base/random.h"
#include "compute/backends.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const zr_backend *const backends[] = {
    // Of backends with one name, the best path comes first.
    &zr_ref_backend,
#ifdef ZR_COMPUTE_ONEDNN
    &zr_cpu_backend_amx,
#endif
#ifdef ZR_COMPUTE_X86
    &zr_cpu_backend_avx512_bf16,
    &zr_cpu_backend_avx512,
    &zr_cpu_backend_avx2,
#endif
    &zr_cpu_backend_portable,
    NULL,
};

static const zr_backend *const no_devices[] = {NULL};
static const zr_backend *const *_Atomic devices = no_devices;

const zr_backend *const *zr_backends(void) { return backends; }

void zr_backends_offer(const zr_backend *const *more) { devices = more; }

const zr_backend *zr_backend_portable(void) { return &zr_cpu_backend_portable; }

// Used when a queue is opened: calls CPUID, and requests the tile registers from the kernel.
static bool is_path_offered(const char *path, const zr_cpu_features *features)
{
    if (strcmp(path, "amx") == 0)
        return features->amx_bf16;
    if (strcmp(path, "avx512_bf16") == 0)
        return features->avx512_bf16;
    if (strcmp(path, "avx512") == 0)
        return features->avx512 && features->avx2_fma;
    if (strcmp(path, "avx2") == 0)
        return features->avx2_fma;
    return true;
}

// Called at every layer, so it uses what the loader found out, since CPUID takes microseconds under
// a hypervisor.
bool zr_backend_offered(const zr_backend *backend)
{
    const char *path = backend->path();
#ifdef ZR_COMPUTE_X86
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    if (strcmp(path, "avx2") == 0)
        return avx2;
    if (strcmp(path, "avx512") == 0)
        return avx512;
    if (strcmp(path, "avx512_bf16") == 0)
        return avx512 && __builtin_cpu_supports("avx512bf16");
    if (strcmp(path, "amx") == 0)
        return avx512 && __builtin_cpu_supports("avx512bf16") && zr_cpu_keeps_tiles();
#endif
    return strcmp(path, "portable") == 0;
}

// Writes "cpu (that is cpu:avx2), cpu:avx2, cpu:portable, ref", with the best path in brackets.
void zr_backends_offered(char *out, size_t size)
{
    zr_cpu_features features = zr_cpu_detect();
    size_t at = 0;
    for (int i = 0; backends[i] && at < size; i++) {
        const char *path = backends[i]->path();
        if (strcmp(backends[i]->name, "cpu") != 0 || !is_path_offered(path, &features))
            continue;
        at += (size_t)(at ? snprintf(out + at, size - at, ", cpu:%s", path)
                          : snprintf(out, size, "cpu (that is cpu:%s), cpu:%s", path, path));
    }
    if (at < size)
        at += (size_t)snprintf(out + at, size - at, ", ref");
    const zr_backend *const *list = devices;
    if (list[0] && at < size)
        snprintf(out + at, size - at, ", %s", list[0]->name);
}

static zero_status refuse_backend(const char *name, const char *path, zero_status code,
                                  zero_error *error)
{
    char offered[160];
    zr_backends_offered(offered, sizeof offered);
    return zr_fail(error, code,
                   "there is no backend \"%s%s%s\" here; this build on this processor offers %s",
                   name, path ? ":" : "", path ? path : "", offered);
}

// Returns the first backend of a list that has this name, of `length` bytes, and path (NULL: any).
// *known: whether one has the name at all.
static const zr_backend *find_in(const zr_backend *const *list, const char *name, size_t length,
                                 const char *path, bool *known)
{
    zr_cpu_features features = zr_cpu_detect();
    for (int i = 0; list[i]; i++) {
        const char *its = list[i]->path();
        if (strncmp(list[i]->name, name, length) != 0 || list[i]->name[length])
            continue;
        *known = true;
        if ((!path || strcmp(its, path) == 0) && is_path_offered(its, &features))
            return list[i];
    }
    return NULL;
}

zero_status zr_backend_find(const char *name, const char *isa, const zr_backend **out,
                            zero_error *error)
{
    const char *colon = isa ? NULL : strchr(name, ':');
    size_t length = colon ? (size_t)(colon - name) : strlen(name);
    const char *path = colon ? colon + 1 : isa;
    bool known = false;
    const zr_backend *found = find_in(backends, name, length, path, &known);
    if (!found)
        found = find_in(devices, name, length, path, &known);
    if (found) {
        *out = found;
        return ZERO_OK;
    }
    return refuse_backend(name, isa, known && !colon ? ZERO_ERR_UNSUPPORTED : ZERO_ERR_USAGE,
                          error);
}

typedef struct opened_queue { // what zr_free gets is the address of the queue
    zr_queue queue;
    zr_queue_failure failure;
} opened_queue;

zero_status zr_queue_open(const char *name, const char *isa, int threads, zr_queue **out,
                          zero_error *error)
{
    const zr_backend *backend = NULL;
    if (threads < 1)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "opening a compute queue: %d threads, at least 1 is needed", threads);
    ZERO_TRY(zr_backend_find(name, isa, &backend, error));
    opened_queue *opened = zr_alloc(sizeof *opened, error);
    if (!opened)
        return ZERO_ERR_MEMORY;
    zr_queue *queue = &opened->queue;
    queue->failure = &opened->failure;
    queue->backend = backend;
    queue->device = zr_device_host();
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

void zr_queue_fail(zr_queue *queue, zero_status status, const zero_error *error)
{
    if (queue->failure->status == ZERO_OK)
        *queue->failure = (zr_queue_failure){status, *error};
}

zero_status zr_queue_check(zr_queue *queue, zero_error *error)
{
    zero_status status = queue->failure->status;
    if (status == ZERO_OK)
        return ZERO_OK;
    queue->failure->status = ZERO_OK;
    if (error)
        *error = queue->failure->error;
    return status;
}

zero_status zr_mark_finish(zr_mark mark, double seconds, zero_error *error)
{
    if (!mark.queue)
        return ZERO_OK;
    if (mark.number)
        ZERO_TRY(mark.queue->backend->finish(mark, seconds, error));
    return zr_queue_check(mark.queue, error);
}

zr_queue zr_queue_with_scratch(const zr_queue *queue, void *scratch, size_t bytes)
{
    zr_queue other = *queue;
    other.scratch = scratch;
    other.scratch_bytes = bytes;
    return other;
}

static bool is_storage_dtype(zero_dtype dtype)
{
    return dtype == ZERO_F32 || dtype == ZERO_BF16 || dtype == ZERO_F16;
}

zero_status zr_product_check(const zr_product *p, zero_error *error)
{
    if (!is_storage_dtype(p->dtype) || (p->out != p->dtype && p->out != ZERO_F32))
        return zr_fail(error, ZERO_ERR_UNSUPPORTED,
                       "matrix product: operands of type %d, result of type %d; operands are fp32, "
                       "bf16 or fp16, the result "
                       "as they are or fp32",
                       (int)p->dtype, (int)p->out);
    if (p->add && (p->out != ZERO_F32 || p->epilogue != ZR_EPILOGUE_NONE))
        return zr_fail(error, ZERO_ERR_UNSUPPORTED,
                       "matrix product: only an fp32 result without epilogue can be added to");
    if (!ZR_IS_DENSE(p) && (p->gelu_a || p->epilogue || p->format))
        return zr_fail(error, ZERO_ERR_UNSUPPORTED,
                       "matrix product: rows that lie apart are of plain products");
    if (ZR_A_STEP(p) < ZR_A_WIDTH(p) || ZR_D_STEP(p) < p->n)
        return zr_fail(error, ZERO_ERR_UNSUPPORTED,
                       "matrix product: rows of %lld and %lld elements lie %lld and %lld apart",
                       (long long)ZR_A_WIDTH(p), (long long)p->n, (long long)ZR_A_STEP(p),
                       (long long)ZR_D_STEP(p));
    return ZERO_OK;
}

zero_status zr_product_check_dense(const zr_product *p, zero_error *error)
{
    ZERO_TRY(zr_product_check(p, error));
    if (!ZR_IS_DENSE(p))
        return zr_fail(error, ZERO_ERR_UNSUPPORTED,
                       "matrix product: the processor multiplies no rows that lie apart");
    return ZERO_OK;
}

bool zr_dropout_keep(uint64_t key, uint64_t index, float p)
{
    return zr_philox4x32(key, 0, index / 4).v[index % 4] >= zr_dropout_threshold(p);
}

// Returns the sum of e^(logit - largest) over slices [0, count), by the tree of contract 3. A slice
// without a logit above -infinity adds 0, or the NaN that it met.
static double sum_of_slices(const zr_loss_part *parts, int count, int64_t stride, float largest)
{
    if (count > 1) {
        int left = 1 << (31 - __builtin_clz((unsigned)count - 1));
        return sum_of_slices(parts, left, stride, largest) +
               sum_of_slices(parts + left * stride, count - left, stride, largest);
    }
    return parts->sum * exp((double)parts->largest - (double)largest);
}

zr_loss_part zr_loss_parts_join(const zr_loss_part *parts, int slices, int64_t stride)
{
    zr_loss_part whole = {.largest = -INFINITY, .aimed = -INFINITY};
    for (int t = 0; t < slices; t++) {
        whole.largest = fmaxf(whole.largest, parts[t * stride].largest);
        whole.aimed = fmaxf(whole.aimed, parts[t * stride].aimed);
    }
    whole.sum = sum_of_slices(parts, slices, stride, whole.largest);
    return whole;
}

size_t zr_product_scratch(zr_queue *queue, zero_dtype dtype, const zero_product_shape *shape)
{
    const zr_product variants[] = {
        // A unit's shape does not say which of these it is.
        {.out = dtype},
        {.out = dtype, .epilogue = ZR_EPILOGUE_BIAS},
        {.out = dtype, .epilogue = ZR_EPILOGUE_BIAS, .gelu_a = true},
        {.out = dtype, .epilogue = ZR_EPILOGUE_GELU_BACKWARD},
        {.out = ZERO_F32},
        {.out = ZERO_F32, .add = true},
        {.out = ZERO_F32, .gelu_a = true},
        {.out = ZERO_F32, .gelu_a = true, .add = true},
    };
    size_t most = 0;
    for (int i = 0; i < ZR_COUNT(variants); i++) {
        zr_product product = variants[i];
        product.dtype = dtype;
        product.m = shape->m, product.n = shape->n, product.k = shape->k;
        product.trans_a = shape->trans_a, product.trans_b = shape->trans_b;
        product.format = (zr_weight_format)shape->format;
        size_t bytes = zr_op_scratch(
            queue, product.format ? zr_op_quantised_product(&product, NULL, NULL, NULL, NULL, NULL)
                                  : zr_op_product(&product, NULL, NULL, NULL, NULL));
        most = ZR_MAX(most, bytes);
    }
    return most;
}
