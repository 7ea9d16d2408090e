// One matmul primitive per shape, created at its first use and kept. This is the only file that
// knows oneDNN's API; cpu_dnnl_version.h hides where 2.x and 3.x differ.
//
// Invariant: after a shape's first call nothing here allocates. Scratchpads are the caller's, and
// memory objects are kept: only their handles change. oneDNN takes its number of threads from the
// calling thread's OpenMP setting, both when a primitive is created and when it runs; each place
// sets it and then restores what the host program had.
#include "compute/cpu/cpu_dnnl_matmul.h"

#include "base/alloc.h"
#include "compute/cpu/cpu_dnnl_version.h"

#include <omp.h>
#include <string.h>
#include <sys/mman.h>

struct zr_cpu_matmul {
    zr_product product;             // as it is given to oneDNN
    dnnl_primitive_t primitive;     // NULL if oneDNN has none
    dnnl_memory_t memory[MEMORIES]; // BIAS and SCRATCH are NULL if not needed
    size_t scratch_bytes;
};

_Static_assert((int)MEMORIES == (int)ZR_CPU_MATMUL_HANDLES, "a handle for each memory");

struct zr_cpu_matmuls {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    zr_cpu_dnnl_use use;
    int count, capacity;
    zr_cpu_matmul *at;
};

static zero_status report_dnnl_failure(const zr_product *p, dnnl_status_t status, const char *what,
                                       zero_error *error)
{
    zero_status code = status == dnnl_out_of_memory ? ZERO_ERR_MEMORY : ZERO_ERR_INTERNAL;
    return zr_fail(error, code,
                   "product m %lld, n %lld, k %lld, trans %d%d, add %d, epilogue %d: oneDNN's %s "
                   "gave status %d",
                   (long long)p->m, (long long)p->n, (long long)p->k, p->trans_a, p->trans_b,
                   p->add, (int)p->epilogue, what, (int)status);
}

bool zr_cpu_matmul_same(const zr_product *x, const zr_product *y)
{
    return x->m == y->m && x->n == y->n && x->k == y->k && x->dtype == y->dtype &&
           x->out == y->out && x->trans_a == y->trans_a && x->trans_b == y->trans_b &&
           x->add == y->add && x->epilogue == y->epilogue;
}

static void clear_matmul_entry(zr_cpu_matmul *entry)
{
    for (int i = 0; i < MEMORIES; i++)
        if (entry->memory[i])
            dnnl_memory_destroy(entry->memory[i]);
    if (entry->primitive)
        dnnl_primitive_destroy(entry->primitive);
    memset(entry, 0, sizeof(*entry));
}

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

static dnnl_status_t layouts_create(const zr_product *product, layout at[D + 1])
{
    dnnl_status_t status =
        layout_create(&at[A], product->dtype, product->m, product->k, product->trans_a);
    if (status == dnnl_success)
        status = layout_create(&at[B], product->dtype, product->k, product->n, product->trans_b);
    if (status == dnnl_success)
        status = layout_create(&at[BIAS], product->dtype, 1, product->n, false);
    if (status == dnnl_success)
        status = layout_create(&at[D], product->out, product->m, product->n, false);
    return status;
}

static void layouts_destroy(layout at[D + 1])
{
    for (int i = A; i <= D; i++)
        layout_destroy(&at[i]);
}

// `at` and *out must be zeroed; the caller destroys what a failure leaves in them.
static dnnl_status_t create_primitive_desc(const zr_cpu_matmuls *of, const zr_product *product,
                                           layout at[D + 1], dnnl_primitive_desc_t *out)
{
    dnnl_primitive_attr_t attr = NULL;
    dnnl_status_t status = layouts_create(product, at);
    if (status == dnnl_success)
        status = attributes_create(product, &attr);
    if (status == dnnl_success)
        status = matmul_create(of->engine, at, product->epilogue == ZR_EPILOGUE_BIAS, attr, out);
    if (attr)
        dnnl_primitive_attr_destroy(attr);
    return status;
}

static size_t scratch_bytes_of_desc(const_dnnl_primitive_desc_t desc)
{
    layout_ref of = dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0);
    return of ? dnnl_memory_desc_get_size(of) : 0;
}

static dnnl_status_t scratch_create(dnnl_engine_t engine, const_dnnl_primitive_desc_t desc,
                                    zr_cpu_matmul *entry)
{
    entry->scratch_bytes = scratch_bytes_of_desc(desc);
    if (!entry->scratch_bytes)
        return dnnl_success;
    return dnnl_memory_create(&entry->memory[SCRATCH],
                              dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0),
                              engine, DNNL_MEMORY_NONE);
}

// `entry` must be zeroed; clear_matmul_entry removes what a failure leaves in it.
static dnnl_status_t build_matmul_entry(const zr_cpu_matmuls *of, const zr_product *product,
                                        zr_cpu_matmul *entry)
{
    layout at[D + 1] = {0};
    dnnl_primitive_desc_t desc = NULL;
    bool bias = product->epilogue == ZR_EPILOGUE_BIAS;
    entry->product = *product;
    dnnl_status_t status = create_primitive_desc(of, product, at, &desc);
    if (status == dnnl_success)
        status = dnnl_primitive_create(&entry->primitive, desc);
    if (status == dnnl_success)
        status = scratch_create(of->engine, desc, entry);
    for (int i = A; i <= D && status == dnnl_success; i++)
        if (i != BIAS || bias)
            status = dnnl_memory_create(&entry->memory[i], layout_use(&at[i]), of->engine,
                                        DNNL_MEMORY_NONE);
    if (desc)
        dnnl_primitive_desc_destroy(desc);
    layouts_destroy(at);
    return status;
}

static zero_status reserve_matmul_entry(zr_cpu_matmuls *of, zero_error *error)
{
    zr_cpu_matmul *grown = zr_list_grow(of->at, of->count, &of->capacity, sizeof *grown, error);
    if (!grown)
        return ZERO_ERR_MEMORY;
    of->at = grown;
    return ZERO_OK;
}

// Makes sure that there is memory for compiled code, because oneDNN does not check whether it got
// any. A primitive has up to 32 kernels, and each begins with 256 KiB.
static zero_status check_room_for_code(const zr_product *p, zero_error *error)
{
    const size_t room = 16 << 20; // bytes
    void *at = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return zr_fail(error, ZERO_ERR_MEMORY,
                       "product m %lld, n %lld, k %lld: oneDNN needs %zu MiB of address space to "
                       "compile it, which this process does not get (ulimit -v; --backend cpu:avx2 "
                       "compiles nothing)",
                       (long long)p->m, (long long)p->n, (long long)p->k, room >> 20);
    munmap(at, room);
    return ZERO_OK;
}

zero_status zr_cpu_matmul_find_or_create(zr_cpu_matmuls *of, int threads, const zr_product *product,
                                         zr_cpu_matmul **out, zero_error *error)
{
    for (int i = 0; i < of->count; i++) {
        *out = &of->at[i];
        if (zr_cpu_matmul_same(&of->at[i].product, product))
            return ZERO_OK;
    }
    ZERO_TRY(check_room_for_code(product, error));
    ZERO_TRY(reserve_matmul_entry(of, error));
    zr_cpu_matmul *entry = &of->at[of->count];
    memset(entry, 0, sizeof(*entry));
    int before = omp_get_max_threads();
    omp_set_num_threads(threads);
    dnnl_status_t status = build_matmul_entry(of, product, entry);
    omp_set_num_threads(before);
    if (status != dnnl_success) {
        clear_matmul_entry(entry);
        entry->product = *product;
    }
    if (status != dnnl_success && status != dnnl_unimplemented)
        return report_dnnl_failure(product, status, "matmul", error);
    of->count++;
    *out = entry;
    return ZERO_OK;
}

zero_status zr_cpu_matmul_run(const zr_cpu_matmuls *of, int threads, zr_cpu_matmul *entry,
                              const void *const handle[ZR_CPU_MATMUL_HANDLES], zero_error *error)
{
    static const int role[MEMORIES] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DST,
                                       DNNL_ARG_SCRATCHPAD};
    dnnl_exec_arg_t args[MEMORIES];
    int count = 0;
    for (int i = 0; i < MEMORIES; i++) {
        if (!entry->memory[i])
            continue;
        dnnl_memory_set_data_handle(entry->memory[i], (void *)handle[i]);
        args[count++] = (dnnl_exec_arg_t){role[i], entry->memory[i]};
    }
    int before = omp_get_max_threads();
    omp_set_num_threads(threads);
    dnnl_status_t status = dnnl_primitive_execute(entry->primitive, of->stream, count, args);
    if (status == dnnl_success)
        status = dnnl_stream_wait(of->stream);
    omp_set_num_threads(before);
    return status == dnnl_success
               ? ZERO_OK
               : report_dnnl_failure(&entry->product, status, "execution", error);
}

bool zr_cpu_matmul_exists(const zr_cpu_matmul *entry) { return entry->primitive; }

size_t zr_cpu_matmul_scratch(const zr_cpu_matmul *entry) { return entry->scratch_bytes; }

bool zr_cpu_matmul_query_scratch(const zr_cpu_matmuls *of, int threads, const zr_product *product,
                                 size_t *bytes)
{
    layout at[D + 1] = {0};
    dnnl_primitive_desc_t desc = NULL;
    int before = omp_get_max_threads();
    omp_set_num_threads(threads);
    dnnl_status_t status = create_primitive_desc(of, product, at, &desc);
    omp_set_num_threads(before);
    *bytes = status == dnnl_success ? scratch_bytes_of_desc(desc) : 0;
    if (desc)
        dnnl_primitive_desc_destroy(desc);
    layouts_destroy(at);
    return status != dnnl_unimplemented;
}

zero_status zr_cpu_matmuls_open(zr_cpu_dnnl_use use, zr_cpu_matmuls **out, zero_error *error)
{
    zr_cpu_matmuls *of = zr_alloc(sizeof(*of), error);
    if (!of)
        return ZERO_ERR_MEMORY;
    of->use = use;
    dnnl_status_t status = dnnl_engine_create(&of->engine, dnnl_cpu, 0);
    if (status == dnnl_success)
        status = dnnl_stream_create(&of->stream, of->engine, dnnl_stream_default_flags);
    *out = of;
    if (status == dnnl_success)
        return ZERO_OK;
    zr_cpu_matmuls_close(of);
    *out = NULL;
    return zr_fail(error, ZERO_ERR_INTERNAL,
                   "opening a compute queue: oneDNN's CPU engine gave status %d", (int)status);
}

void zr_cpu_matmuls_close(zr_cpu_matmuls *of)
{
    if (!of)
        return;
    for (int i = 0; i < of->count; i++)
        clear_matmul_entry(&of->at[i]);
    if (of->stream)
        dnnl_stream_destroy(of->stream);
    if (of->engine)
        dnnl_engine_destroy(of->engine);
    zr_free(of->at);
    zr_free(of);
}
