// Which tensors have factors, and where these lie.
#include "model/unit.h"
#include "plan/plan_parts.h"

static zero_status place_factors(zr_plan *plan, const zr_tensor_walk *at, zero_error *error)
{
    const zero_tensor_desc tensor = zr_tensor_whole(at->desc);
    zr_tensor_factors *factors = &plan->factors[at->number];
    *factors = (zr_tensor_factors){.name = zr_tensor_name(at->desc), .first = plan->factor_elems};
    if (at->kind != ZERO_TRAINABLE)
        return ZERO_OK;
    if (tensor.dims > 2)
        return zr_fail(error, ZERO_ERR_UNSUPPORTED,
                       "planning %s with Adafactor: tensor \"%s\" has %d dimensions, and averages "
                       "are kept of the rows and columns of matrices: expected at most 2",
                       plan->model->name, factors->name, tensor.dims);
    factors->rows = tensor.dims == 2 ? tensor.shape[0] : 0;
    factors->columns = tensor.shape[tensor.dims - 1];
    plan->factor_elems += factors->rows + factors->columns;
    return ZERO_OK;
}

zero_status zr_plan_factors(zr_plan *plan, zero_error *error)
{
    const zero_model *model = plan->model->whole ? plan->model->whole : plan->model;
    if (!plan->settings.factored)
        return ZERO_OK;
    plan->factors = zr_alloc(sizeof *plan->factors * (size_t)ZR_MAX(plan->tensor_count, 1), error);
    if (!plan->factors)
        return ZERO_ERR_MEMORY;
    for (zr_tensor_walk at = zr_tensors_of(model); at.desc; zr_tensors_next(&at))
        ZERO_TRY(place_factors(plan, &at, error));
    return ZERO_OK;
}
