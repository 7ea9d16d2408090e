// Products through oneDNN; cpu_dnnl_matmul.c creates and keeps its matmul primitives.
//
// Our own products (cache.otherwise) do what oneDNN cannot, or cannot with this processor's
// instructions. GELU of A goes through scratch, and its slope is multiplied into D in place, both
// by the element kernels; a 16-bit D is then rounded twice.
//
// Scratch: the bytes that oneDNN wants for a product of m rows rise and fall with m, because they
// depend on whether m has divisors that make good blocks. So oneDNN is queried at a few points
// below m (next_point), and m reserves the most that any of these or m itself wants. A product
// of fewer rows that wants more than that is computed in parts whose rows are such points, so that
// their scratch is there.
//
// Invariant: after a shape's first call nothing here allocates.
#include "base/alloc.h"
#include "base/dtype.h"
#include "compute/cpu/cpu_dnnl_matmul.h"

// Points are each m up to EACH (32), then eight per octave. COPIED: rows of a part when A is
// transposed.
enum { POINTS = 256, EACH = 32, COPIED = 8 };

typedef struct sizes {  // what is wanted by products that differ in m only
    zr_product product; // with m = 0; as it is given to oneDNN
    int count;
    size_t most[POINTS]; // bytes: the most of all points up to this one
    // The m queried last, and its bytes: a plan queries the same m repeatedly.
    int64_t last_m;
    size_t wanted;
} sizes;

typedef struct cache {
    zr_cpu_matmuls *matmuls;
    const zr_cpu_products *otherwise;
    zr_cpu_dnnl_use use;
    int size_count, size_capacity;
    sizes *sizes;
} cache;

// Returns whether oneDNN computes the product.
static bool is_for_onednn(const cache *of, const zr_product *p)
{
    bool typed = p->dtype == ZERO_F32 || (p->dtype == ZERO_BF16 && of->use != ZR_CPU_DNNL_F32);
    // The kernel of the slope has one type.
    bool sloped = p->epilogue != ZR_EPILOGUE_GELU_BACKWARD || p->out == p->dtype;
    return typed && sloped && p->m > 0 && p->n > 0 && p->k > 0;
}

// Returns the product as oneDNN computes it, without what the element kernels do.
static zr_product onednn_product(const zr_product *p)
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

static size_t gelu_bytes(const zr_product *p) { return p->gelu_a ? a_bytes(p, p->m) : 0; }

// Returns the bytes that oneDNN wants for its product, or ours if oneDNN has no primitive for it;
// 0 if that cannot be found out: run then reports why.
static size_t wanted_bytes(zr_queue *queue, const zr_product *plain)
{
    const cache *of = queue->impl;
    size_t bytes;
    bool has = zr_cpu_matmul_query_scratch(of->matmuls, queue->threads, plain, &bytes);
    return has ? bytes : of->otherwise->scratch(queue, plain);
}

static int64_t quarter_of_octave(int64_t m) // EACH <= m
{
    return ((int64_t)1 << (63 - __builtin_clzll((unsigned long long)m))) / 4;
}

// Returns the least point above m. Points are the quarters of an octave, and one more than each,
// because there another block begins.
static int64_t next_point(int64_t m)
{
    if (m < EACH)
        return m + 1;
    int64_t quarter = quarter_of_octave(m), past = m % quarter;
    return past ? m + quarter - past : m + 1;
}

// Returns the largest point up to m, at least 1.
static int64_t point_below(int64_t m)
{
    return m < EACH ? m : m - ZR_MAX(m % quarter_of_octave(m) - 1, 0);
}

static zero_status find_or_add_sizes(cache *of, const zr_product *plain, sizes **out,
                                     zero_error *error)
{
    zr_product any = *plain;
    any.m = 0;
    for (int i = 0; i < of->size_count; i++) {
        *out = &of->sizes[i];
        if (zr_cpu_matmul_same(&of->sizes[i].product, &any))
            return ZERO_OK;
    }
    sizes *grown =
        zr_list_grow(of->sizes, of->size_count, &of->size_capacity, sizeof *grown, error);
    if (!grown)
        return ZERO_ERR_MEMORY;
    of->sizes = grown;
    *out = &of->sizes[of->size_count++];
    **out = (sizes){.product = any};
    return ZERO_OK;
}

// Returns the most rows that a part may have.
static int64_t part_most(const zr_product *product, int64_t rows)
{
    return point_below(product->trans_a ? ZR_MIN(rows, COPIED) : rows);
}

// Returns the scratch that a product of m rows has in any case, whatever m itself wants: enough for
// each part of run_parts.
static size_t parts_bytes(zr_queue *queue, const zr_product *product, sizes *of)
{
    zr_product plain = onednn_product(product);
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

static zero_status refuse_too_little_scratch(const zr_queue *queue, const zr_product *p,
                                             size_t needed, zero_error *error)
{
    return zr_fail(error, ZERO_ERR_INTERNAL,
                   "product m %lld, n %lld, k %lld: needs %zu bytes of scratch, the queue has %zu",
                   (long long)p->m, (long long)p->n, (long long)p->k, needed, queue->scratch_bytes);
}

static size_t entry_bytes(zr_queue *queue, const zr_product *product, const zr_cpu_matmul *entry)
{
    const cache *of = queue->impl;
    return zr_cpu_matmul_exists(entry) ? gelu_bytes(product) + zr_cpu_matmul_scratch(entry)
                                       : of->otherwise->scratch(queue, product);
}

static zero_status run_whole(zr_queue *queue, const zr_product *product, zr_cpu_matmul *entry,
                             const void *a, const void *b, const void *operand, void *d,
                             zero_error *error)
{
    const cache *of = queue->impl;
    if (!zr_cpu_matmul_exists(entry))
        return of->otherwise->run(queue, product, a, b, operand, d, error);
    if (product->gelu_a) {
        const zr_elements all = {product->dtype, product->m * product->k};
        zr_run(queue, zr_op_gelu_forward(&all, a, queue->scratch));
        a = queue->scratch;
    }
    char *rest = (char *)queue->scratch + gelu_bytes(product);
    ZERO_TRY(zr_cpu_matmul_run(of->matmuls, queue->threads, entry,
                               (const void *[]){a, b, operand, d, rest}, error));
    if (product->epilogue == ZR_EPILOGUE_GELU_BACKWARD)
        zr_run(queue, zr_op_gelu_backward(&(zr_elements){product->dtype, product->m * product->n},
                                          operand, d));
    return ZERO_OK;
}

// Computes rows i .. i+part->m-1 of the product. If A is stored transposed, these are columns of
// it, which are copied to the front of the scratch.
static zero_status run_part(zr_queue *queue, const zr_product *product, const zr_product *part,
                            int64_t i, const void *a, const void *b, const void *operand, void *d,
                            zero_error *error)
{
    size_t size = zero_dtype_bytes(product->dtype),
           front = product->trans_a ? a_bytes(product, part->m) : 0;
    const cache *of = queue->impl;
    zr_queue rest = *queue;
    zr_cpu_matmul *entry;
    const char *from = (const char *)a + (size_t)(product->trans_a ? i : i * product->k) * size;
    if (product->trans_a) {
        const zr_strided columns = {.rows = product->k,
                                    .bytes = part->m * (int64_t)size,
                                    .from_stride = product->m * (int64_t)size,
                                    .to_stride = part->m * (int64_t)size};
        zr_run(queue, zr_op_copy_rows(&columns, from, queue->scratch));
        from = queue->scratch;
    }
    rest.scratch = (char *)queue->scratch + front;
    rest.scratch_bytes -= front;
    if (product->epilogue == ZR_EPILOGUE_GELU_BACKWARD)
        operand = (const char *)operand + (size_t)(i * product->n) * size;
    zr_product plain = onednn_product(part);
    ZERO_TRY(zr_cpu_matmul_find_or_create(of->matmuls, rest.threads, &plain, &entry, error));
    size_t wanted = entry_bytes(&rest, part, entry);
    if (wanted > rest.scratch_bytes)
        return refuse_too_little_scratch(&rest, part, wanted, error);
    return run_whole(&rest, part, entry, from, b, operand,
                     (char *)d + (size_t)(i * product->n) * zero_dtype_bytes(product->out), error);
}

static zero_status run_parts(zr_queue *queue, const zr_product *product, size_t wanted,
                             const void *a, const void *b, const void *operand, void *d,
                             zero_error *error)
{
    zr_product part = *product, plain = onednn_product(product);
    sizes *of;
    ZERO_TRY(find_or_add_sizes(queue->impl, &plain, &of, error));
    size_t needed = parts_bytes(queue, product, of);
    if (needed > queue->scratch_bytes)
        return refuse_too_little_scratch(queue, product, ZR_MIN(needed, wanted), error);
    for (int64_t i = 0; i < product->m; i += part.m) {
        part.m = part_most(product, product->m - i);
        ZERO_TRY(run_part(queue, product, &part, i, a, b, operand, d, error));
    }
    return ZERO_OK;
}

static zero_status cpu_dnnl_run(zr_queue *queue, const zr_product *product, const void *a,
                                const void *b, const void *operand, void *d, zero_error *error)
{
    cache *of = queue->impl;
    zr_product plain = onednn_product(product);
    zr_cpu_matmul *entry;
    ZERO_TRY(zr_product_check_dense(product, error));
    if (!is_for_onednn(of, product))
        return of->otherwise->run(queue, product, a, b, operand, d, error);
    ZERO_TRY(zr_cpu_matmul_find_or_create(of->matmuls, queue->threads, &plain, &entry, error));
    size_t wanted = entry_bytes(queue, product, entry);
    if (wanted > queue->scratch_bytes)
        return run_parts(queue, product, wanted, a, b, operand, d, error);
    return run_whole(queue, product, entry, a, b, operand, d, error);
}

// Returns 0 for a product that cannot be computed; run then says why.
static size_t cpu_dnnl_scratch(zr_queue *queue, const zr_product *product)
{
    cache *of = queue->impl;
    zr_product plain = onednn_product(product);
    sizes *known;
    if (zr_product_check_dense(product, NULL) != ZERO_OK)
        return 0;
    if (!is_for_onednn(of, product))
        return of->otherwise->scratch(queue, product);
    if (find_or_add_sizes(of, &plain, &known, NULL) != ZERO_OK)
        return 0;
    if (known->last_m != product->m)
        known->wanted = wanted_bytes(queue, &plain);
    known->last_m = product->m;
    return ZR_MAX(parts_bytes(queue, product, known), gelu_bytes(product) + known->wanted);
}

zero_status zr_cpu_dnnl_open(zr_queue *queue, const zr_cpu_products *otherwise, zr_cpu_dnnl_use use,
                             zero_error *error)
{
    cache *of = zr_alloc(sizeof(*of), error);
    if (!of)
        return ZERO_ERR_MEMORY;
    of->otherwise = otherwise;
    of->use = use;
    queue->impl = of;
    zero_status status = zr_cpu_matmuls_open(use, &of->matmuls, error);
    if (status != ZERO_OK)
        zr_cpu_dnnl_close(queue);
    return status;
}

void zr_cpu_dnnl_close(zr_queue *queue)
{
    cache *of = queue->impl;
    zr_cpu_matmuls_close(of->matmuls);
    zr_free(of->sizes);
    zr_free(of);
    queue->impl = NULL;
}

const zr_cpu_products zr_cpu_dnnl_products = {
    .scratch = cpu_dnnl_scratch,
    .run = cpu_dnnl_run,
};
