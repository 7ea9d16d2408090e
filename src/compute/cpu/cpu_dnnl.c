// Products through oneDNN: one matmul primitive for each shape, made at its first use and kept in queue->impl.
// The only file that knows oneDNN's API; where 2.x and 3.x differ, cpu_dnnl_version.h tells them apart.
//
// What oneDNN cannot do, or not with this processor's instructions, our own products do (cache.otherwise). GELU of A goes
// through scratch and its slope is multiplied into D in place, both by the element kernels: a 16-bit D is rounded twice then.
//
// Scratch: what oneDNN wants for a product of m rows goes up and down with m, as m has divisors that make good blocks. So a
// few points on the way to m are asked about (next_point), and what is reserved for m is the most of these and of m itself. A
// product of fewer rows that wants more than that is computed by parts whose rows are such points: what these want is there.
//
// Invariant: after a shape's first call nothing here allocates. Scratchpads are the caller's (queue->scratch), and memory
// objects are kept, only their handles change. oneDNN takes its number of threads from the calling thread's OpenMP setting,
// both when a primitive is made and when it runs; both places set it, and put back what the host program had.
#include "base/alloc.h"
#include "base/dtype.h"
#include "compute/cpu/cpu_dnnl_version.h"
#include "compute/cpu/cpu_kernels.h"

#include <omp.h>
#include <string.h>
#include <sys/mman.h>

typedef struct kept { // a primitive and what it runs on
    zr_product product;         // as oneDNN is asked for it
    dnnl_primitive_t primitive; // NULL: oneDNN has none
    dnnl_memory_t memory[MEMORIES]; // memory[BIAS], memory[SCRATCH]: NULL where not needed
    size_t scratch_bytes;
} kept;

enum { POINTS = 256, EACH = 32, COPIED = 8 }; // points: each m up to 32, then eight an octave; COPIED: rows of a part, A transposed

typedef struct sizes { // what products want that differ in m alone
    zr_product product; // m 0; as oneDNN is asked for it
    int count;
    size_t most[POINTS]; // bytes, of the points up to this one
    int64_t asked;       // the m that was asked about last, and its bytes: one shape after the other is planned for it
    size_t wanted;
} sizes;

typedef struct cache {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    const zr_product_ops *otherwise;
    zr_cpu_dnnl_use use;
    int count, capacity;
    kept *at;
    int size_count, size_capacity;
    sizes *sizes;
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
    dnnl_status_t status = layout_create(&at[A], product->dtype, product->m, product->k, product->trans_a);
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

static bool is_any(const_dnnl_primitive_desc_t desc) { return true; }

// oneDNN tells its implementations apart by name alone: "brg:avx512_core_amx_bf16", "brg:avx512_core_bf16", "gemm:jit", of which the
// last takes whatever the processor has.
static bool is_without_tiles(const_dnnl_primitive_desc_t desc)
{
    const char *name = NULL;
    return dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, &name) == dnnl_success && strstr(name, "brg") && !strstr(name, "amx");
}

// at and *out are zeroed; what a failure leaves in them is the caller's to destroy.
static dnnl_status_t described_create(const cache *of, const zr_product *product, layout at[D + 1], dnnl_primitive_desc_t *out)
{
    dnnl_primitive_attr_t attr = NULL;
    dnnl_status_t status = layouts_create(product, at);
    if (status == dnnl_success)
        status = attributes_create(product, &attr);
    if (status == dnnl_success)
        status = matmul_create(of->engine, at, product->epilogue == ZR_EPILOGUE_BIAS, attr,
                               product->dtype == ZERO_BF16 && of->use == ZR_CPU_DNNL_BF16 ? is_without_tiles : is_any, out);
    if (attr)
        dnnl_primitive_attr_destroy(attr);
    return status;
}

static size_t described_bytes(const_dnnl_primitive_desc_t desc)
{
    layout_ref of = dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0);
    return of ? dnnl_memory_desc_get_size(of) : 0;
}

static dnnl_status_t scratch_create(dnnl_engine_t engine, const_dnnl_primitive_desc_t desc, kept *entry)
{
    entry->scratch_bytes = described_bytes(desc);
    if (!entry->scratch_bytes)
        return dnnl_success;
    return dnnl_memory_create(&entry->memory[SCRATCH], dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0), engine, DNNL_MEMORY_NONE);
}

// entry is zeroed; what a failure leaves in it kept_destroy takes away.
static dnnl_status_t kept_create(const cache *of, const zr_product *product, kept *entry)
{
    layout at[D + 1] = {0};
    dnnl_primitive_desc_t desc = NULL;
    bool bias = product->epilogue == ZR_EPILOGUE_BIAS;
    entry->product = *product;
    dnnl_status_t status = described_create(of, product, at, &desc);
    if (status == dnnl_success)
        status = dnnl_primitive_create(&entry->primitive, desc);
    if (status == dnnl_success)
        status = scratch_create(of->engine, desc, entry);
    for (int i = A; i <= D && status == dnnl_success; i++)
        if (i != BIAS || bias)
            status = dnnl_memory_create(&entry->memory[i], layout_use(&at[i]), of->engine, DNNL_MEMORY_NONE);
    if (desc)
        dnnl_primitive_desc_destroy(desc);
    layouts_destroy(at);
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

// oneDNN does not look whether it got the memory that its compiler writes code to: it is made sure of before. A primitive has up to 32
// kernels, each of which begins with 256 KiB.
static zero_status has_room_for_code(const zr_product *p, zero_error *error)
{
    const size_t room = 16 << 20; // bytes
    void *at = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return zr_fail(error, ZERO_ERR_MEMORY,
                       "product m %lld, n %lld, k %lld: oneDNN needs %zu MiB of address space to compile it, which this process does not get (ulimit -v; --backend cpu:avx2 "
                       "compiles nothing)", (long long)p->m, (long long)p->n, (long long)p->k, room >> 20);
    munmap(at, room);
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
    ZERO_TRY(has_room_for_code(product, error));
    ZERO_TRY(cache_reserve(of, error));
    kept *entry = &of->at[of->count];
    memset(entry, 0, sizeof(*entry));
    int before = omp_get_max_threads();
    omp_set_num_threads(queue->threads);
    dnnl_status_t status = kept_create(of, product, entry);
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
    bool typed = p->dtype == ZERO_F32 || (p->dtype == ZERO_BF16 && of->use != ZR_CPU_DNNL_F32);
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

static size_t a_bytes(const zr_product *p, int64_t rows)
{
    return ZR_ROUND_UP((size_t)(rows * p->k) * zero_dtype_bytes(p->dtype), 64);
}

static size_t gelu_bytes(const zr_product *p)
{
    return p->gelu_a ? a_bytes(p, p->m) : 0;
}

// What oneDNN wants for a stripped product, or ours where it has none; 0 where that cannot be found out: run says why.
static size_t wanted_bytes(zr_queue *queue, const zr_product *plain)
{
    const cache *of = queue->impl;
    layout at[D + 1] = {0};
    dnnl_primitive_desc_t desc = NULL;
    int before = omp_get_max_threads();
    omp_set_num_threads(queue->threads);
    dnnl_status_t status = described_create(of, plain, at, &desc);
    omp_set_num_threads(before);
    size_t bytes = status == dnnl_success ? described_bytes(desc) : status == dnnl_unimplemented ? of->otherwise->scratch(queue, plain) : 0;
    if (desc)
        dnnl_primitive_desc_destroy(desc);
    layouts_destroy(at);
    return bytes;
}

static int64_t quarter_of_octave(int64_t m) // EACH <= m
{
    return ((int64_t)1 << (63 - __builtin_clzll((unsigned long long)m))) / 4;
}

// The least point above m: the quarters of an octave, and one more than each, where a block more begins.
static int64_t next_point(int64_t m)
{
    if (m < EACH)
        return m + 1;
    int64_t quarter = quarter_of_octave(m), past = m % quarter;
    return past ? m + quarter - past : m + 1;
}

// The largest point up to m, at least 1.
static int64_t point_below(int64_t m)
{
    return m < EACH ? m : m - ZR_MAX(m % quarter_of_octave(m) - 1, 0);
}

static zero_status sizes_find(cache *of, const zr_product *plain, sizes **out, zero_error *error)
{
    zr_product any = *plain;
    any.m = 0;
    for (int i = 0; i < of->size_count; i++) {
        *out = &of->sizes[i];
        if (same(&of->sizes[i].product, &any))
            return ZERO_OK;
    }
    if (of->size_count == of->size_capacity) {
        int capacity = ZR_MAX(32, 2 * of->size_capacity);
        sizes *grown = zr_realloc(of->sizes, sizeof(sizes) * (size_t)capacity, error);
        if (!grown)
            return ZERO_ERR_MEMORY;
        of->sizes = grown;
        of->size_capacity = capacity;
    }
    *out = &of->sizes[of->size_count++];
    **out = (sizes){.product = any};
    return ZERO_OK;
}

// Rows that a part may have.
static int64_t part_most(const zr_product *product, int64_t rows)
{
    return point_below(product->trans_a ? ZR_MIN(rows, COPIED) : rows);
}

// What is there for a product of m rows whatever m wants itself: enough for each part of run_parts.
static size_t parts_bytes(zr_queue *queue, const zr_product *product, sizes *of)
{
    zr_product plain = stripped(product);
    int64_t last = part_most(product, product->m);
    size_t most = 0;
    int i = 0;
    for (int64_t point = 1; point <= last && i < POINTS; point = next_point(point), i++) {
        plain.m = point;
        if (i == of->count)
            of->most[of->count++] = ZR_MAX(most, wanted_bytes(queue, &plain));
        most = of->most[i];
    }
    return most + gelu_bytes(product) + (product->trans_a ? a_bytes(product, last) : 0);
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

static zero_status too_little(const zr_queue *queue, const zr_product *p, size_t needed, zero_error *error)
{
    return zr_fail(error, ZERO_ERR_INTERNAL,
                   "product m %lld, n %lld, k %lld: needs %zu bytes of scratch, the queue has %zu",
                   (long long)p->m, (long long)p->n, (long long)p->k, needed, queue->scratch_bytes);
}

static size_t entry_bytes(zr_queue *queue, const zr_product *product, const kept *entry)
{
    const cache *of = queue->impl;
    return entry->primitive ? gelu_bytes(product) + entry->scratch_bytes : of->otherwise->scratch(queue, product);
}

static zero_status run_whole(zr_queue *queue, const zr_product *product, kept *entry, const void *a, const void *b, const void *operand, void *d,
                             zero_error *error)
{
    const cache *of = queue->impl;
    if (!entry->primitive)
        return of->otherwise->run(queue, product, a, b, operand, d, error);
    if (product->gelu_a) {
        queue->backend->elements->gelu_forward(queue, product->dtype, product->m * product->k, a, queue->scratch);
        a = queue->scratch;
    }
    char *rest = (char *)queue->scratch + gelu_bytes(product);
    ZERO_TRY(execute(queue, entry, (const void *[]){a, b, operand, d, rest}, error));
    if (product->epilogue == ZR_EPILOGUE_GELU_BACKWARD)
        queue->backend->elements->gelu_backward(queue, product->dtype, product->m * product->n, operand, d);
    return ZERO_OK;
}

// Rows i .. i+part->m-1 of the product. A that is stored transposed has them in its columns: they are copied to the front of the scratch.
static zero_status run_part(zr_queue *queue, const zr_product *product, const zr_product *part, int64_t i, const void *a, const void *b,
                            const void *operand, void *d, zero_error *error)
{
    size_t size = zero_dtype_bytes(product->dtype), front = product->trans_a ? a_bytes(product, part->m) : 0;
    zr_queue rest = *queue;
    kept *entry;
    const char *from = (const char *)a + (size_t)(product->trans_a ? i : i * product->k) * size;
    if (product->trans_a) {
        queue->backend->elements->copy_rows(queue, product->k, part->m * (int64_t)size, from, product->m * (int64_t)size, queue->scratch, part->m * (int64_t)size);
        from = queue->scratch;
    }
    rest.scratch = (char *)queue->scratch + front;
    rest.scratch_bytes -= front;
    if (product->epilogue == ZR_EPILOGUE_GELU_BACKWARD)
        operand = (const char *)operand + (size_t)(i * product->n) * size;
    zr_product plain = stripped(part);
    ZERO_TRY(cache_find(&rest, &plain, &entry, error));
    size_t wanted = entry_bytes(&rest, part, entry);
    if (wanted > rest.scratch_bytes)
        return too_little(&rest, part, wanted, error);
    return run_whole(&rest, part, entry, from, b, operand, (char *)d + (size_t)(i * product->n) * zero_dtype_bytes(product->out), error);
}

static zero_status run_parts(zr_queue *queue, const zr_product *product, size_t wanted, const void *a, const void *b, const void *operand, void *d,
                             zero_error *error)
{
    zr_product part = *product, plain = stripped(product);
    sizes *of;
    ZERO_TRY(sizes_find(queue->impl, &plain, &of, error));
    size_t needed = parts_bytes(queue, product, of);
    if (needed > queue->scratch_bytes)
        return too_little(queue, product, ZR_MIN(needed, wanted), error);
    for (int64_t i = 0; i < product->m; i += part.m) {
        part.m = part_most(product, product->m - i);
        ZERO_TRY(run_part(queue, product, &part, i, a, b, operand, d, error));
    }
    return ZERO_OK;
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
    size_t wanted = entry_bytes(queue, product, entry);
    if (wanted > queue->scratch_bytes)
        return run_parts(queue, product, wanted, a, b, operand, d, error);
    return run_whole(queue, product, entry, a, b, operand, d, error);
}

// A product that cannot be made needs no scratch; run says why.
static size_t scratch(zr_queue *queue, const zr_product *product)
{
    cache *of = queue->impl;
    zr_product plain = stripped(product);
    sizes *known;
    if (zr_product_check(product, NULL) != ZERO_OK)
        return 0;
    if (!foreign(of, product))
        return of->otherwise->scratch(queue, product);
    if (sizes_find(of, &plain, &known, NULL) != ZERO_OK)
        return 0;
    if (known->asked != product->m)
        known->wanted = wanted_bytes(queue, &plain);
    known->asked = product->m;
    return ZR_MAX(parts_bytes(queue, product, known), gelu_bytes(product) + known->wanted);
}

zero_status zr_cpu_dnnl_open(zr_queue *queue, const zr_product_ops *otherwise, zr_cpu_dnnl_use use, zero_error *error)
{
    cache *of = zr_alloc(sizeof(*of), error);
    if (!of)
        return ZERO_ERR_MEMORY;
    of->otherwise = otherwise;
    of->use = use;
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
    zr_free(of->sizes);
    zr_free(of);
    queue->impl = NULL;
}

const zr_product_ops zr_cpu_dnnl_ops = {
    .scratch = scratch,
    .run = run,
};
