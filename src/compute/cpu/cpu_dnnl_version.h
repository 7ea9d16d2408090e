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

// Returns whether an implementation may be used. matmul_create takes the first one that may be;
// *out must be NULL before it, and the caller destroys it.
typedef bool matmul_allowed(const_dnnl_primitive_desc_t desc);

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

static inline dnnl_status_t matmul_create(dnnl_engine_t engine, layout at[D + 1], bool bias,
                                          dnnl_primitive_attr_t attr, matmul_allowed *allowed,
                                          dnnl_primitive_desc_t *out)
{
    dnnl_matmul_desc_t matmul;
    dnnl_primitive_desc_iterator_t at_one = NULL;
    dnnl_status_t status =
        dnnl_matmul_desc_init(&matmul, &at[A], &at[B], bias ? &at[BIAS] : NULL, &at[D]);
    if (status == dnnl_success)
        status = dnnl_primitive_desc_iterator_create(&at_one, &matmul, attr, engine, NULL);
    while (status == dnnl_success && !*out) {
        *out = dnnl_primitive_desc_iterator_fetch(at_one);
        if (!*out)
            status = dnnl_out_of_memory;
        else if (!allowed(*out)) {
            dnnl_primitive_desc_destroy(*out);
            *out = NULL;
            status = dnnl_primitive_desc_iterator_next(at_one);
        }
    }
    if (at_one)
        dnnl_primitive_desc_iterator_destroy(at_one);
    return status == dnnl_iterator_ends ? dnnl_unimplemented : status;
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
                                          dnnl_primitive_attr_t attr, matmul_allowed *allowed,
                                          dnnl_primitive_desc_t *out)
{
    dnnl_status_t status = dnnl_matmul_primitive_desc_create(out, engine, at[A], at[B],
                                                             bias ? at[BIAS] : NULL, at[D], attr);
    while (status == dnnl_success && !allowed(*out))
        status = dnnl_primitive_desc_next_impl(*out);
    return status == dnnl_last_impl_reached ? dnnl_unimplemented : status;
}

static inline dnnl_status_t sum_append(dnnl_post_ops_t ops)
{
    return dnnl_post_ops_append_sum(ops, 1.0f, 0, dnnl_data_type_undef);
}
#endif

#endif
