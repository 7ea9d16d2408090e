#include "setup/model_part.h"

#include "config/config_ranks.h"
#include "layers/layers.h"

static zero_status refuse_model_without_split(const char *name, const zr_config *config,
                                              zero_error *error)
{
    if (config->tensor > 1)
        return zr_fail(error, ZERO_ERR_UNSUPPORTED,
                       "model \"%s\" has no split: %d tensor ranks cannot hold slices of its "
                       "layers; one tensor rank can hold it whole, or a program makes each rank's "
                       "part of it (zero_model.whole, zero_tensor_sum)",
                       name, config->tensor);
    return zr_fail(error, ZERO_ERR_UNSUPPORTED,
                   "model \"%s\" has no split, so it cannot be computed as %lld slices "
                   "(libzero.exact_tensor)",
                   name, (long long)config->exact_tensor);
}

static zr_lm_slices slices_of_tensor_rank(const zr_config *config, int tensor_rank)
{
    return (zr_lm_slices){
        .count = (int)config->exact_tensor,
        .ranks = config->tensor,
        .rank = tensor_rank,
        .exact = config->exact_tensor_said,
        .by_rows = config->sequence_parallel && config->tensor > 1,
    };
}

enum { ASKED = 512 }; // bytes of the words about the key or flag that sets slices

// Several slices are always set by a key or flag.
static zr_slices_message slices_message(const zr_config *config, const char *name,
                                        char asked[ASKED])
{
    zr_config_describe_slices(config, asked, ASKED);
    return (zr_slices_message){.model = name, .option = asked};
}

zero_status zr_model_part_check(const zr_lm_config *shape, const char *name,
                                const zr_config *config, zero_error *error)
{
    char asked[ASKED];
    const zr_lm_slices slices = slices_of_tensor_rank(config, 0);
    if (config->exact_tensor == 1)
        return ZERO_OK;
    const zr_slices_message words = slices_message(config, name, asked);
    return zr_slices_check(shape, &slices, &words, error);
}

zero_status zr_model_part_make(const zero_model *model, const char *name, const zr_config *config,
                               int tensor_rank, zr_model_part *out, zero_error *error)
{
    const zr_lm_slices slices = slices_of_tensor_rank(config, tensor_rank);
    char asked[ASKED];
    *out = (zr_model_part){.model = model};
    if (config->exact_tensor == 1 || model->whole)
        return ZERO_OK;
    if (!zr_lm_config_of(model))
        return refuse_model_without_split(name, config, error);
    const zr_slices_message words = slices_message(config, name, asked);
    ZERO_TRY(zr_lm_cut(model, &slices, &words, &out->made, error));
    out->model = out->made;
    return ZERO_OK;
}

void zr_model_part_free(zr_model_part *part)
{
    zr_lm_free(part->made);
    *part = (zr_model_part){0};
}
