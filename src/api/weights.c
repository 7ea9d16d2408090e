// zero_save_weights and zero_load_weights: a model's weights alone, as Hugging Face's files have them.
#include "api/model_view.h"
#include "comm/agree.h"
#include "layers/layers.h"

// What stands before a name in Hugging Face's files ("transformer." for GPT-2); a user's models keep their own.
static const char *prefix_of(const zero_model *model)
{
    const zr_lm_config *ours = zr_lm_config_of(model);
    return ours ? zr_architecture_of(ours->kind)->file_prefix : "";
}

typedef zero_status (*view_use)(zero_engine *engine, const char *path, const zr_weight_view *view, zero_error *error);

static zero_status with_view(zero_engine *engine, const char *path, view_use use, zero_error *error)
{
    zr_model_view weights;
    zero_status status = zr_model_view_create(engine, ZR_VECTOR_MASTER, &weights, error);
    status = zr_comm_agree(zr_engine_comm(engine), status, error);
    if (status == ZERO_OK)
        status = use(engine, path, &weights.view, error);
    zr_model_view_free(&weights);
    return status;
}

static zero_status save(zero_engine *engine, const char *path, const zr_weight_view *view, zero_error *error)
{
    return zr_weights_save(zr_engine_comm(engine), path, prefix_of(zr_engine_plan(engine)->model), view, error);
}

static zero_status load(zero_engine *engine, const char *directory, const zr_weight_view *view, zero_error *error)
{
    ZERO_TRY(zr_comm_barrier(zr_engine_comm(engine), error)); // nobody reads the old weights any more
    ZERO_TRY(zr_weights_load(zr_engine_comm(engine), directory, view, error));
    return zr_engine_parameters_changed(engine, error);
}

zero_status zero_save_weights(zero_engine *engine, const char *path, zero_error *error)
{
    return with_view(engine, path, save, error);
}

zero_status zero_load_weights(zero_engine *engine, const char *directory, zero_error *error)
{
    ZERO_TRY(zr_engine_between_steps(engine, "zero_load_weights", error));
    return with_view(engine, directory, load, error);
}
