// Hides where oneDNN 2.x and 3.x differ: descriptors are passed by value (2.x) or as handles (3.x).
// For cpu_dnnl_matmul.c only.
#ifndef ZR_COMPUTE_CPU_DNNL_VERSION_H
#define ZR_COMPUTE_CPU_DNNL_VERSION_H

#include "compute/compute.h"

#include <dnnl.h>

enum { A, B, BIAS, D, SCRATCH, MEMORIES }; // memories of a product

static inline dnnl_data_type_t type_of(zero_dtype dtype)
{
    return dtype == ZERO_F32 ? dnnl_f32 : dnnl_bf16;
}

#if DNNL_VERSION_MAJOR < 3
typedef dnnl_memory_desc_t layout;
typedef const dnnl_memory_desc_t *layout_ref;

static inline layout_ref layout_use(const layout *of) { return of; }

static inline dnnl_status_t layout_create(layout *out, zero_dtype dtype, int64_t rows,
                                          int64_t columns, bool transposed)
{
    dnnl_dims_t dims = {rows, columns};
    return dnnl_memory_desc_init_by_tag(out, 2, dims, type_of(dtype),
                                        transposed ? dnnl_ba : dnnl_ab);
}

static inline void layout_destroy(layout *of) {}

// The caller destroys *out.
static inline dnnl_status_t matmul_create(dnnl_engine_t engine, layout at[D + 1], bool bias,
                                          dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *out)
{
    dnnl_matmul_desc_t matmul;
    dnnl_status_t status =
        dnnl_matmul_desc_init(&matmul, &at[A], &at[B], bias ? &at[BIAS] : NULL, &at[D]);
    return status == dnnl_success ? dnnl_primitive_desc_create(out, &matmul, attr, engine, NULL)
                                  : status;
}

static inline dnnl_status_t sum_append(dnnl_post_ops_t ops)
{
    return dnnl_post_ops_append_sum(ops, 1.0f);
}
#else
typedef dnnl_memory_desc_t layout;
typedef const_dnnl_memory_desc_t layout_ref;

static inline layout_ref layout_use(const layout *of) { return *of; }

static inline dnnl_status_t layout_create(layout *out, zero_dtype dtype, int64_t rows,
                                          int64_t columns, bool transposed)
{
    dnnl_dims_t dims = {rows, columns};
    return dnnl_memory_desc_create_with_tag(out, 2, dims, type_of(dtype),
                                            transposed ? dnnl_ba : dnnl_ab);
}

static inline void layout_destroy(layout *of)
{
    if (*of)
        dnnl_memory_desc_destroy(*of);
}

static inline dnnl_status_t matmul_create(dnnl_engine_t engine, layout at[D + 1], bool bias,
                                          dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *out)
{
    return dnnl_matmul_primitive_desc_create(out, engine, at[A], at[B], bias ? at[BIAS] : NULL,
                                             at[D], attr);
}

static inline dnnl_status_t sum_append(dnnl_post_ops_t ops)
{
    return dnnl_post_ops_append_sum(ops, 1.0f, 0, dnnl_data_type_undef);
}
#endif

#endif
