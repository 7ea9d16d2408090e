// Writes a model directory: rank 0 writes the small files, and every rank its own weights.
#include "base/alloc.h"
#include "comm/agreement.h"
#include "checkpoint/receipt.h"
#include "checkpoint/run_directory.h"
#include "model/architecture.h"
#include "train/training.h"

#include <string.h>

// Completes the receipt of a model. If this fails, the receipt that was begun stays, which does not
// name the weights.
static zero_status write_receipt(const zr_train *train, const char *name, zero_error *error)
{
    int64_t step, none;
    zero_position(train->run.engine, &step, &none);
    const zr_receipt receipt = {
        .weights = zr_outputs_weights(&train->subject.model_config),
        .instructions = train->resolved.instructions,
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

const char *zr_train_last_model(const zr_train *train)
{
    return train->asked.lora.rank ? ZR_RUN_ADAPTER_DIRECTORY : ZR_LAST_MODEL;
}

zero_status zr_train_write_model_files(const zr_train *train, const char *name, zero_error *error)
{
    const zr_train_subject *subject = &train->subject;
    const zr_outputs_files files = {.config = &subject->model_config,
                                    .base = train->asked.options->model_dir,
                                    .tokenizer = subject->tokenizer,
                                    .generation = subject->generation,
                                    .template = subject->template};
    return zr_outputs_model(train->asked.options->out_dir, name, &files, error);
}

static zero_status save_model(zr_train *train, const char *name, zero_error *error)
{
    bool first = train->comm->rank == 0, average = !strcmp(name, ZR_EMA_MODEL);
    char *path = zr_sprintf(error, "%s/%s/%s", train->asked.options->out_dir, name,
                            zr_outputs_weights(&train->subject.model_config));
    zero_status status = path ? ZERO_OK : ZERO_ERR_MEMORY;
    if (first && status == ZERO_OK)
        status = zr_train_write_model_files(train, name, error);
    status = zr_comm_agree(train->comm, status, error);
    if (status == ZERO_OK)
        status = (average ? zero_save_average : zero_save_weights)(train->run.engine, path, error);
    zr_free(path);
    ZERO_TRY(status);
    return zr_comm_agree(train->comm, first ? write_receipt(train, name, error) : ZERO_OK, error);
}

zero_status zr_train_save_model(zr_train *train, const char *name, zero_error *error)
{
    zr_time_part before = zr_run_clock_turn(&train->run.clock, ZR_TIME_SAVING);
    zero_status status = save_model(train, name, error);
    zr_run_tasks_count_saving(&train->run.tasks, ZR_TASK_MODEL, status);
    zr_run_tasks_end_saving(&train->run.tasks, ZR_TASK_MODEL, &train->run.clock, before);
    return status;
}
