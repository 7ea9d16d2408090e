// The cpu backend put together for one instruction set.
#include "compute/cpu/cpu.h"

#define TEXT_(name) #name
#define TEXT(name) TEXT_(name)

static const char *cpu_path(void)
{
    return TEXT(ZR_CPU_ISA);
}

#ifndef ZR_COMPUTE_ONEDNN
static zero_status cpu_open(zr_queue *queue, zero_error *error)
{
    queue->impl = NULL;
    return ZERO_OK;
}

static void cpu_close(zr_queue *queue)
{
}
#endif

const zr_backend ZR_CPU_TABLE(zr_cpu_backend) = {
    .name = "cpu",
    .rows = &ZR_CPU_TABLE(zr_cpu_row_ops),
    .attention = &ZR_CPU_TABLE(zr_cpu_attention_ops),
    .elements = &ZR_CPU_TABLE(zr_cpu_element_ops),
    .optimizer = &ZR_CPU_TABLE(zr_cpu_optimizer_ops),
    .path = cpu_path,
#ifdef ZR_COMPUTE_ONEDNN
    .product = &zr_cpu_dnnl_ops,
    .open = zr_cpu_dnnl_open,
    .close = zr_cpu_dnnl_close,
#else
    .product = &ZR_CPU_TABLE(zr_cpu_blocked_ops),
    .open = cpu_open,
    .close = cpu_close,
#endif
};
