// Products through oneDNN: one matmul primitive for each shape, made at its first use and kept in queue->impl.
// The only file that knows oneDNN's API; 2.x and 3.x create descriptors differently, and are told apart here.
//
// What oneDNN cannot do, or not with this processor's instructions, our own products do (cache.otherwise). GELU of A goes
// through scratch and its slope is multiplied into D in place, both by the element kernels: a 16-bit D is rounded twice then.
//
// Invariant: after a shape's first call nothing here allocates. Scratchpads are the caller's (queue->scratch), and memory
// objects are kept, only their handles change. oneDNN takes its number of threads from the calling thread's OpenMP setting,
// both when a primitive is made and when it runs; both places set it, and put back what the host program had.
#include "base/alloc.h"
#include "compute/cpu/cpu.h"

#include <dnnl.h>
#include <omp.h>
#include <string.h>

enum { A, B, BIAS, D, SCRATCH, MEMORIES };

typedef struct kept { // a primitive and what it runs on
    zr_product product;         // as oneDNN is asked for it
    dnnl_primitive_t primitive; // NULL: oneDNN has none
    dnnl_memory_t memory[MEMORIES]; // memory[BIAS], memory[SCRATCH]: NULL where not needed
    size_t scratch_bytes;
} kept;

typedef struct cache {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    const zr_product_ops *otherwise;
    bool bf16; // oneDNN multiplies it
    int count, capacity;
    kept *at;
} cache;

static zero_status dnnl_failed(const zr_product *p, dnnl_status_t status, const char *what, zero_error *error)
{
    zero_status code = status == dnnl_out_of_memory ? ZERO_ERR_MEMORY : ZERO_ERR_INTERNAL;
    return zr_fail(error, code,
                   "product m %lld, n %lld, k %lld, trans %d%d, add %d, epilogue %d: oneDNN's %s gave status %d",
                   (long long)p->m, (long long)p->n, (long long)p->k, p->trans_a, p->trans_b, p->add, (int)p->epilogue,
                   what, (int)status);
}

static bool same(const zr_product *x, const zr_product *y)
{
    return x->m == y->m && x->n == y->n && x->k == y->k && x->dtype == y->dtype && x->out == y->out
           && x->trans_a == y->trans_a && x->trans_b == y->trans_b && x->add == y->add && x->epilogue == y->epilogue;
}

static void kept_destroy(kept *entry)
{
    for (int i = 0; i < MEMORIES; i++)
        if (entry->memory[i])
            dnnl_memory_destroy(entry->memory[i]);
    if (entry->primitive)
        dnnl_primitive_destroy(entry->primitive);
    memset(entry, 0, sizeof(*entry));
}

static dnnl_data_type_t type_of(zero_dtype dtype)
{
    return dtype == ZERO_F32 ? dnnl_f32 : dnnl_bf16;
}

// What only one of the two versions has: descriptors by value (2.x) or as handles (3.x).
#if DNNL_VERSION_MAJOR < 3
typedef dnnl_memory_desc_t layout;
typedef const dnnl_memory_desc_t *layout_ref;

static layout_ref layout_use(const layout *of)
{
    return of;
}

static dnnl_status_t layout_create(layout *out, zero_dtype dtype, int64_t rows, int64_t columns, bool transposed)
{
    dnnl_dims_t dims = {rows, columns};
    return dnnl_memory_desc_init_by_tag(out, 2, dims, type_of(dtype), transposed ? dnnl_ba : dnnl_ab);
}

static void layout_destroy(layout *of)
{
}

static dnnl_status_t matmul_create(dnnl_engine_t engine, layout at[D + 1], bool bias, dnnl_primitive_attr_t attr,
                                   dnnl_primitive_desc_t *out)
{
    dnnl_matmul_desc_t matmul;
    dnnl_status_t status = dnnl_matmul_desc_init(&matmul, &at[A], &at[B], bias ? &at[BIAS] : NULL, &at[D]);
    return status != dnnl_success ? status : dnnl_primitive_desc_create(out, &matmul, attr, engine, NULL);
}

static dnnl_status_t sum_append(dnnl_post_ops_t ops)
{
    return dnnl_post_ops_append_sum(ops, 1.0f);
}
#else
typedef dnnl_memory_desc_t layout;
typedef const_dnnl_memory_desc_t layout_ref;

static layout_ref layout_use(const layout *of)
{
    return *of;
}

static dnnl_status_t layout_create(layout *out, zero_dtype dtype, int64_t rows, int64_t columns, bool transposed)
{
    dnnl_dims_t dims = {rows, columns};
    return dnnl_memory_desc_create_with_tag(out, 2, dims, type_of(dtype), transposed ? dnnl_ba : dnnl_ab);
}

static void layout_destroy(layout *of)
{
    if (*of)
        dnnl_memory_desc_destroy(*of);
}

static dnnl_status_t matmul_create(dnnl_engine_t engine, layout at[D + 1], bool bias, dnnl_primitive_attr_t attr,
                                   dnnl_primitive_desc_t *out)
{
    return dnnl_matmul_primitive_desc_create(out, engine, at[A], at[B], bias ? at[BIAS] : NULL, at[D], attr);
}

static dnnl_status_t sum_append(dnnl_post_ops_t ops)
{
    return dnnl_post_ops_append_sum(ops, 1.0f, 0, dnnl_data_type_undef);
}
#endif

static dnnl_status_t attributes_create(const zr_product *product, dnnl_primitive_attr_t *out)
{
    dnnl_post_ops_t ops = NULL;
    dnnl_status_t status = dnnl_primitive_attr_create(out);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_set_scratchpad_mode(*out, dnnl_scratchpad_mode_user);
    if (status != dnnl_success || !product->add)
        return status;
    status = dnnl_post_ops_create(&ops);
    if (status == dnnl_success)
        status = sum_append(ops);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_set_post_ops(*out, ops);
    if (ops)
        dnnl_post_ops_destroy(ops);
    return status;
}

static dnnl_status_t scratch_create(dnnl_engine_t engine, dnnl_primitive_desc_t desc, kept *entry)
{
    layout_ref of = dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0);
    entry->scratch_bytes = of ? dnnl_memory_desc_get_size(of) : 0;
    return entry->scratch_bytes ? dnnl_memory_create(&entry->memory[SCRATCH], of, engine, DNNL_MEMORY_NONE)
                                : dnnl_success;
}

static dnnl_status_t layouts_create(const zr_product *product, layout at[D + 1])
{
    dnnl_status_t status = layout_create(&at[A], product->dtype, product->m, product->k, product->trans_a);
    if (status == dnnl_success)
        status = layout_create(&at[B], product->dtype, product->k, product->n, product->trans_b);
    if (status == dnnl_success)
        status = layout_create(&at[BIAS], product->dtype, 1, product->n, false);
    if (status == dnnl_success)
        status = layout_create(&at[D], product->out, product->m, product->n, false);
    return status;
}

// entry is zeroed; what a failure leaves in it kept_destroy takes away.
static dnnl_status_t kept_create(dnnl_engine_t engine, const zr_product *product, kept *entry)
{
    layout at[D + 1];
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t desc = NULL;
    bool bias = product->epilogue == ZR_EPILOGUE_BIAS;
    memset(at, 0, sizeof(at));
    entry->product = *product;
    dnnl_status_t status = layouts_create(product, at);
    if (status == dnnl_success)
        status = attributes_create(product, &attr);
    if (status == dnnl_success)
        status = matmul_create(engine, at, bias, attr, &desc);
    if (status == dnnl_success)
        status = dnnl_primitive_create(&entry->primitive, desc);
    if (status == dnnl_success)
        status = scratch_create(engine, desc, entry);
    for (int i = A; i <= D && status == dnnl_success; i++)
        if (i != BIAS || bias)
            status = dnnl_memory_create(&entry->memory[i], layout_use(&at[i]), engine, DNNL_MEMORY_NONE);
    if (desc)
        dnnl_primitive_desc_destroy(desc);
    if (attr)
        dnnl_primitive_attr_destroy(attr);
    for (int i = A; i <= D; i++)
        layout_destroy(&at[i]);
    return status;
}

static zero_status cache_reserve(cache *of, zero_error *error)
{
    if (of->count < of->capacity)
        return ZERO_OK;
    int capacity = ZR_MAX(32, 2 * of->capacity);
    kept *grown = zr_realloc(of->at, sizeof(kept) * (size_t)capacity, error);
    if (!grown)
        return ZERO_ERR_MEMORY;
    of->at = grown;
    of->capacity = capacity;
    return ZERO_OK;
}

static zero_status cache_find(zr_queue *queue, const zr_product *product, kept **out, zero_error *error)
{
    cache *of = queue->impl;
    for (int i = 0; i < of->count; i++) {
        *out = &of->at[i];
        if (same(&of->at[i].product, product))
            return ZERO_OK;
    }
    ZERO_TRY(cache_reserve(of, error));
    kept *entry = &of->at[of->count];
    memset(entry, 0, sizeof(*entry));
    int before = omp_get_max_threads();
    omp_set_num_threads(queue->threads);
    dnnl_status_t status = kept_create(of->engine, product, entry);
    omp_set_num_threads(before);
    if (status != dnnl_success) {
        kept_destroy(entry);
        entry->product = *product;
    }
    if (status != dnnl_success && status != dnnl_unimplemented)
        return dnnl_failed(product, status, "matmul", error);
    of->count++;
    *out = entry;
    return ZERO_OK;
}

// Whether oneDNN is asked at all.
static bool foreign(const cache *of, const zr_product *p)
{
    bool typed = p->dtype == ZERO_F32 || (p->dtype == ZERO_BF16 && of->bf16);
    bool sloped = p->epilogue != ZR_EPILOGUE_GELU_BACKWARD || p->out == p->dtype; // the slope's kernel has one type
    return typed && sloped && p->m > 0 && p->n > 0 && p->k > 0;
}

// The product that oneDNN is asked for: without what the element kernels do.
static zr_product stripped(const zr_product *p)
{
    zr_product plain = *p;
    plain.gelu_a = false;
    if (p->epilogue == ZR_EPILOGUE_GELU_BACKWARD)
        plain.epilogue = ZR_EPILOGUE_NONE;
    return plain;
}

static size_t gelu_bytes(const zr_product *p)
{
    return p->gelu_a ? ZR_ROUND_UP((size_t)(p->m * p->k) * zero_dtype_bytes(p->dtype), 64) : 0;
}

static zero_status execute(zr_queue *queue, kept *entry, const void *const handle[MEMORIES], zero_error *error)
{
    static const int role[MEMORIES] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DST,
                                       DNNL_ARG_SCRATCHPAD};
    cache *of = queue->impl;
    dnnl_exec_arg_t args[MEMORIES];
    int count = 0;
    for (int i = 0; i < MEMORIES; i++) {
        if (!entry->memory[i])
            continue;
        dnnl_memory_set_data_handle(entry->memory[i], (void *)handle[i]);
        args[count++] = (dnnl_exec_arg_t){role[i], entry->memory[i]};
    }
    int before = omp_get_max_threads();
    omp_set_num_threads(queue->threads);
    dnnl_status_t status = dnnl_primitive_execute(entry->primitive, of->stream, count, args);
    if (status == dnnl_success)
        status = dnnl_stream_wait(of->stream);
    omp_set_num_threads(before);
    return status == dnnl_success ? ZERO_OK : dnnl_failed(&entry->product, status, "execution", error);
}

static zero_status run(zr_queue *queue, const zr_product *product, const void *a, const void *b, const void *operand,
                       void *d, zero_error *error)
{
    cache *of = queue->impl;
    zr_product plain = stripped(product);
    kept *entry;
    ZERO_TRY(zr_product_check(product, error));
    if (!foreign(of, product))
        return of->otherwise->run(queue, product, a, b, operand, d, error);
    ZERO_TRY(cache_find(queue, &plain, &entry, error));
    if (!entry->primitive)
        return of->otherwise->run(queue, product, a, b, operand, d, error);
    size_t own = gelu_bytes(product), needed = own + entry->scratch_bytes;
    if (needed > queue->scratch_bytes)
        return zr_fail(error, ZERO_ERR_INTERNAL,
                       "product m %lld, n %lld, k %lld: needs %zu bytes of scratch, the queue has %zu",
                       (long long)product->m, (long long)product->n, (long long)product->k, needed,
                       queue->scratch_bytes);
    if (product->gelu_a) {
        queue->backend->elements->gelu_forward(queue, product->dtype, product->m * product->k, a, queue->scratch);
        a = queue->scratch;
    }
    ZERO_TRY(execute(queue, entry, (const void *[]){a, b, operand, d, (char *)queue->scratch + own}, error));
    if (product->epilogue == ZR_EPILOGUE_GELU_BACKWARD)
        queue->backend->elements->gelu_backward(queue, product->dtype, product->m * product->n, operand, d);
    return ZERO_OK;
}

// A product that cannot be made needs no scratch; run says why.
static size_t scratch(zr_queue *queue, const zr_product *product)
{
    cache *of = queue->impl;
    zr_product plain = stripped(product);
    kept *entry;
    if (zr_product_check(product, NULL) != ZERO_OK)
        return 0;
    if (!foreign(of, product))
        return of->otherwise->scratch(queue, product);
    if (cache_find(queue, &plain, &entry, NULL) != ZERO_OK)
        return 0;
    return entry->primitive ? gelu_bytes(product) + entry->scratch_bytes : of->otherwise->scratch(queue, product);
}

zero_status zr_cpu_dnnl_open(zr_queue *queue, const zr_product_ops *otherwise, bool bf16, zero_error *error)
{
    cache *of = zr_alloc(sizeof(*of), error);
    if (!of)
        return ZERO_ERR_MEMORY;
    of->otherwise = otherwise;
    of->bf16 = bf16;
    queue->impl = of;
    dnnl_status_t status = dnnl_engine_create(&of->engine, dnnl_cpu, 0);
    if (status == dnnl_success)
        status = dnnl_stream_create(&of->stream, of->engine, dnnl_stream_default_flags);
    if (status == dnnl_success)
        return ZERO_OK;
    zr_cpu_dnnl_close(queue);
    return zr_fail(error, ZERO_ERR_INTERNAL, "opening a compute queue: oneDNN's CPU engine gave status %d",
                   (int)status);
}

void zr_cpu_dnnl_close(zr_queue *queue)
{
    cache *of = queue->impl;
    for (int i = 0; i < of->count; i++)
        kept_destroy(&of->at[i]);
    if (of->stream)
        dnnl_stream_destroy(of->stream);
    if (of->engine)
        dnnl_engine_destroy(of->engine);
    zr_free(of->at);
    zr_free(of);
    queue->impl = NULL;
}

const zr_product_ops zr_cpu_dnnl_ops = {
    .scratch = scratch,
    .run = run,
};
