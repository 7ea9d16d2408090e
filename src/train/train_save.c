// Writes a model directory: rank 0 writes the small files, and every rank its own weights.
#include "base/alloc.h"
#include "comm/agreement.h"
#include "checkpoint/receipt.h"
#include "model/architecture.h"
#include "train/training.h"

// Completes the receipt of a model. If this fails, the receipt that was begun stays, which does not
// name the weights.
static zero_status write_receipt(const zr_train *train, const char *name, zero_error *error)
{
    int64_t step, none;
    zero_position(train->run.engine, &step, &none);
    const zr_receipt receipt = {
        .instructions = zr_train_instructions(train->asked.options->backend),
        .step = step,
        .seed = train->resolved.seed,
        .data_hash = train->subject.data_hash,
        .config_text = train->resolved.config_text,
    };
    char *directory = zr_sprintf(error, "%s/%s", train->asked.options->out_dir, name);
    zero_status status = directory ? zr_receipt_write(&receipt, directory, error) : ZERO_ERR_MEMORY;
    zr_free(directory);
    return status;
}

static zero_status save_model(zr_train *train, const char *name, zero_error *error)
{
    char *path = NULL;
    zero_status status = ZERO_OK;
    if (train->comm->rank == 0)
        status = zr_outputs_model(train->asked.options->out_dir, name, &train->subject.model_config,
                                  train->subject.tokenizer, train->subject.generation,
                                  train->subject.template, &path, error);
    else
        path = zr_sprintf(error, "%s/%s/" ZR_MODEL_WEIGHTS, train->asked.options->out_dir, name);
    if (!path && status == ZERO_OK)
        status = ZERO_ERR_MEMORY;
    status = zr_comm_agree(train->comm, status, error);
    if (status == ZERO_OK)
        status = zero_save_weights(train->run.engine, path, error);
    zr_free(path);
    ZERO_TRY(status);
    return zr_comm_agree(
        train->comm, train->comm->rank == 0 ? write_receipt(train, name, error) : ZERO_OK, error);
}

zero_status zr_train_save_model(zr_train *train, const char *name, zero_error *error)
{
    zr_time_part before = zr_run_clock_turn(&train->run.clock, ZR_TIME_SAVING);
    zero_status status = save_model(train, name, error);
    zr_run_tasks_count_saving(&train->run.tasks, ZR_TASK_MODEL, status);
    zr_run_tasks_end_saving(&train->run.tasks, ZR_TASK_MODEL, &train->run.clock, before);
    return status;
}
