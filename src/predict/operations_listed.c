// What units of a program's own ask of the backend, as far as they list it: nobody may call them
// before a run, because they may compute anything.
#include "base/alloc.h"
#include "base/dtype.h"
#include "predict/operations.h"

// Thirds of a micro-batch's products that a call makes: backward has two products for each one of
// forward, one for the input and one for the weights.
static const int thirds[ZR_OPERATION_CALLS] = {
    [ZR_CALL_FORWARD] = 1, [ZR_CALL_AGAIN] = 1, [ZR_CALL_BACKWARD] = 2,
    [ZR_CALL_BOTH] = 3,    [ZR_CALL_INPUT] = 1, [ZR_CALL_WEIGHT] = 1,
};

static zr_operation third_of_product(const zero_product_shape *product, int64_t element, int calls)
{
    int64_t operands = product->m * product->k + product->k * product->n + product->m * product->n;
    return (zr_operation){.what = ZR_ACTIVITY_product,
                          .bytes = operands * element / 3,
                          .flops = 2 * product->m * product->n * product->k / 3,
                          .calls = calls * product->calls};
}

static int count_products(const zr_plan *plan)
{
    int count = 0;
    for (int u = 0; u < plan->unit_count; u++)
        count += plan->units[u].sizes.product_count;
    return count;
}

zero_status zr_plan_operations_from_products(const zr_plan *plan, zr_plan_operations *out,
                                             zero_error *error)
{
    int64_t element = (int64_t)zero_dtype_bytes(plan->settings.precision.activations);
    size_t all = (size_t)ZR_MAX(count_products(plan) * ZR_OPERATION_CALLS, 1);
    *out = (zr_plan_operations){.unit_count = plan->unit_count};
    out->units = zr_alloc((size_t)plan->unit_count * sizeof *out->units, error);
    out->all = zr_alloc(all * sizeof *out->all, error);
    if (!out->units || !out->all)
        return ZERO_ERR_MEMORY;
    zr_operation *at = out->all;
    for (int u = 0; u < plan->unit_count; u++)
        for (int c = 0; c < ZR_OPERATION_CALLS; c++) {
            const zero_unit_sizes *sizes = &plan->units[u].sizes;
            out->units[u].calls[c] = (zr_operation_list){at, sizes->product_count};
            for (int p = 0; p < sizes->product_count; p++)
                *at++ = third_of_product(&sizes->products[p], element, thirds[c]);
        }
    return ZERO_OK;
}
