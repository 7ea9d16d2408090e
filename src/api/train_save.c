// Writes a model directory: rank 0 the small files, every rank its own weights.
#include "api/agree.h"
#include "api/train.h"

zero_status zr_train_save_model(zr_train *train, const char *name, zero_error *error)
{
    char *path = NULL;
    zero_status status = ZERO_OK;
    if (train->comm->rank == 0)
        status = zr_outputs_model(train->options->out_dir, name, &train->shape, train->tokenizer, &path, error);
    else
        path = zr_sprintf(error, "%s/%s/model.safetensors", train->options->out_dir, name);
    if (!path && status == ZERO_OK)
        status = ZERO_ERR_MEMORY;
    status = zr_agree(train->comm, status, error);
    if (status == ZERO_OK)
        status = zero_save_weights(train->engine, path, error);
    zr_free(path);
    return status;
}
