// What units of a model of one's own call to exchange with other tensor ranks.
#include "model/unit.h"

#include <string.h>

zero_status zero_tensor_sum(zero_context *context, float *data, int64_t elements)
{
    if (!context || (!data && elements > 0) || elements < 0)
        return zr_fail(context ? context->error : NULL, ZERO_ERR_USAGE,
                       "zero_tensor_sum: context or data is missing (NULL), or there are %lld "
                       "elements",
                       (long long)elements);
    const struct zr_exchanger *exchanger = context->exchanger;
    if (!exchanger || exchanger->size == 1)
        return ZERO_OK;
    int64_t share = (elements + exchanger->size - 1) / exchanger->size;
    size_t bytes = (size_t)elements * sizeof *data,
           needed = (size_t)(share * exchanger->size) * sizeof *data;
    if (needed > (size_t)exchanger->bytes)
        return zr_fail(context->error, ZERO_ERR_USAGE,
                       "unit \"%s\": zero_tensor_sum of %lld elements; the exchange_bytes of its "
                       "sizes are too few for %zu bytes",
                       context->unit->name, (long long)elements, needed);
    memcpy(exchanger->window, data, bytes);
    memset(exchanger->window + bytes, 0, needed - bytes);
    ZERO_TRY(exchanger->run(exchanger, context, ZERO_EXCHANGE_SUM, 0, 0, share, ZERO_F32));
    memcpy(data, exchanger->window, bytes);
    return ZERO_OK;
}
