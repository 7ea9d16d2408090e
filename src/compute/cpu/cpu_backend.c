// The cpu backend, assembled for one instruction set: its kernels by kind of operation.
#include "compute/cpu/cpu_kernels.h"
#include "compute/cpu/cpu_vector.h"

#define TEXT_(name) #name
#define TEXT(name) TEXT_(name)

static const char *cpu_path(void) { return TEXT(ZR_CPU_ISA); }

// Runs ten chains, more than needed to hide the latency of a multiply-add. They begin with
// different values, or the compiler would merge them.
static int64_t cpu_multiply_add(int64_t rounds)
{
    const vf x = vf_all(0.999f), y = vf_all(0.001f);
    vf a = vf_all((float)rounds), b = a + 1, c = a + 2, d = a + 3, e = a + 4, f = a + 5, g = a + 6,
       h = a + 7, i = a + 8, j = a + 9;
    for (int64_t round = 0; round < rounds; round++) {
        a = a * x + y, b = b * x + y, c = c * x + y, d = d * x + y, e = e * x + y;
        f = f * x + y, g = g * x + y, h = h * x + y, i = i * x + y, j = j * x + y;
    }
    volatile float used = vf_sum(a + b + c + d + e + f + g + h + i + j);
    (void)used;
    return rounds * 10 * 2 * LANES;
}

// oneDNN multiplies in fp32, and in bf16 where there are tiles.
#if defined(ZR_COMPUTE_ONEDNN) && defined(__AVX512F__)
#define PRODUCTS zr_cpu_dnnl_products

static zero_status cpu_open(zr_queue *queue, zero_error *error)
{
    return zr_cpu_dnnl_open(queue, &ZR_CPU_TABLE(zr_cpu_own_products), ZR_CPU_DNNL_F32, error);
}

static void cpu_close(zr_queue *queue) { zr_cpu_dnnl_close(queue); }
#else
#define PRODUCTS ZR_CPU_TABLE(zr_cpu_own_products)

static zero_status cpu_open(zr_queue *queue, zero_error *error)
{
    queue->impl = NULL;
    return ZERO_OK;
}

static void cpu_close(zr_queue *queue) {}
#endif

static void multiply(zr_queue *queue, const zr_op *op)
{
    zero_error error = {0};
    zero_status status = PRODUCTS.run(queue, &op->shape.product, op->at.product.a, op->at.product.b,
                                      op->at.product.operand, op->at.product.d, &error);
    if (status != ZERO_OK)
        zr_queue_fail(queue, status, &error);
}

#define FUNCTION(kind) ZR_CPU_TABLE(zr_cpu_##kind)

static void run_cpu(zr_queue *queue, const zr_op *op)
{
    switch (op->kind) {
    case ZR_OP_product:
        multiply(queue, op);
        break;
        ZR_KERNEL_CASE(quantised_product, product)
        ZR_KERNEL_CASE(decode_scales, scale_codes)
        ZR_ROW_OPS(ZR_KERNEL_CASE)
        ZR_ATTENTION_OPS(ZR_KERNEL_CASE)
        ZR_ELEMENT_OPS(ZR_KERNEL_CASE)
        ZR_GRAPH_OPS(ZR_KERNEL_CASE)
        ZR_MAGNITUDE_OPS(ZR_KERNEL_CASE)
        ZR_OPTIMIZER_OPS(ZR_KERNEL_CASE)
        ZR_FACTORED_OPS(ZR_KERNEL_CASE)
        ZR_BLOCK_OPS(ZR_KERNEL_CASE)
        ZR_TREE_OPS(ZR_KERNEL_CASE)
    default: break;
    }
}

static size_t cpu_scratch(zr_queue *queue, const zr_op *op)
{
    switch (op->kind) {
    case ZR_OP_product: return PRODUCTS.scratch(queue, &op->shape.product);
    case ZR_OP_quantised_product:
        return ZR_CPU_TABLE(zr_cpu_own_products).scratch(queue, &op->shape.product);
    case ZR_OP_norm_backward: return FUNCTION(norm_scratch)(&op->shape.norm);
    case ZR_OP_column_sum: return FUNCTION(column_sum_scratch)(&op->shape.matrix);
    case ZR_OP_attention_forward:
    case ZR_OP_attention_backward: return FUNCTION(attention_scratch)(queue, &op->shape.attention);
    case ZR_OP_attention_decode: return FUNCTION(decode_scratch)(queue, &op->shape.attention);
    default: return 0;
    }
}

#define BACKEND(its_path, its_open)                                                                \
    {                                                                                              \
        .name = "cpu", .run = run_cpu, .scratch = cpu_scratch, .path = its_path,                   \
        .multiply_add = cpu_multiply_add, .open = its_open, .close = cpu_close,                    \
    }

const zr_backend ZR_CPU_TABLE(zr_cpu_backend) = BACKEND(cpu_path, cpu_open);

#if defined(ZR_COMPUTE_ONEDNN) && defined(__AVX512BF16__)
static const char *path_amx(void) { return "amx"; }

static zero_status open_amx(zr_queue *queue, zero_error *error)
{
    return zr_cpu_dnnl_open(queue, &ZR_CPU_TABLE(zr_cpu_own_products), ZR_CPU_DNNL_BF16, error);
}

const zr_backend zr_cpu_backend_amx = BACKEND(path_amx, open_amx);
#endif
