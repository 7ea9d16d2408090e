// What a training may write, and where. It is checked before anything is read, and opened under the
// lock of --out before the first step.
#include "base/clock.h"
#include "comm/agreement.h"
#include "checkpoint/adapter_directory.h"
#include "checkpoint/ownership.h"
#include "checkpoint/run_directory.h"
#include "train/training.h"

#include <unistd.h>

static zero_status gather_input_paths(const zero_train_options *options, zr_input_paths *reads,
                                      zero_error *error)
{
    ZERO_TRY(zr_input_paths_add(reads, options->model_dir, "--model", error));
    ZERO_TRY(zr_input_paths_add(reads, options->tokenizer, "--tokenizer", error));
    ZERO_TRY(zr_input_paths_add(reads, options->config_path, "--config", error));
    ZERO_TRY(zr_input_paths_add_data(reads, options->data, options->data_count, "--data", error));
    return options->val ? zr_input_paths_add_data(reads, &options->val, 1, "--val", error)
                        : ZERO_OK;
}

zero_status zr_train_check_outputs(zr_train *train, zero_error *error)
{
    const zero_train_options *options = train->asked.options;
    if (train->comm->rank > 0)
        return ZERO_OK;
    ZERO_TRY(gather_input_paths(options, &train->run.place.reads, error));
    train->run.place.directory = options->out_dir;
    train->run.place.way = train->asked.resume  ? ZR_OUTPUTS_GO_ON
                           : options->overwrite ? ZR_OUTPUTS_REPLACE
                                                : ZR_OUTPUTS_NEW;
    train->run.place.loses = !train->asked.has_checkpoint;
    if (!options->dry_run)
        ZERO_TRY(zr_outputs_check(&train->run.place, error));
    return zr_train_profile_check(train, error);
}

// Files that the configuration asks for may lie in out_dir, but not where the run itself writes.
zero_status zr_train_check_places(const zr_train *train, zero_error *error)
{
    const zr_config *config = train->resolved.config;
    const char *out = train->asked.options->out_dir;
    const struct {
        bool enabled, is_file;
        const char *path, *what;
    } rows[] = {
        {config->flops_profiler.enabled, true, config->flops_profiler.output_file,
         "flops_profiler.output_file"},
        {config->tensorboard.enabled, false, config->tensorboard.directory,
         "the directory of tensorboard"},
        {config->csv_monitor.enabled, false, config->csv_monitor.directory,
         "the directory of csv_monitor"},
    };
    for (int i = 0; i < ZR_COUNT(rows) && out && train->comm->rank == 0; i++)
        if (rows[i].enabled)
            ZERO_TRY(zr_ownership_check_outside(out, rows[i].path, rows[i].is_file, rows[i].what,
                                                error));
    return ZERO_OK;
}

// Checks that this rank's out_dir is the one that rank 0 writes to, because all ranks write into
// it: the rank looks for a file that rank 0 has made there.
static zero_status check_sees_beacon(const zr_train *train, const char *name, zero_error *error)
{
    char host[256] = "";
    const char *out = train->asked.options->out_dir;
    if (zr_outputs_sees_beacon(out, name))
        return ZERO_OK;
    gethostname(host, sizeof host - 1);
    return zr_fail(error, ZERO_ERR_USAGE,
                   "\"%s\" of rank %d (on %s) is not the directory that rank 0 writes to: all "
                   "ranks write into --out, so it must be shared by all machines",
                   out, train->comm->rank, host);
}

// This comes before anything in the directory is changed.
static zero_status check_directory_is_shared(const zr_train *train, zero_error *error)
{
    char name[ZR_OUTPUTS_BEACON] = "";
    const char *out = train->asked.options->out_dir;
    bool first = train->comm->rank == 0;
    if (train->comm->size == 1)
        return ZERO_OK;
    ZERO_TRY(zr_comm_agree(train->comm,
                           first ? zr_outputs_create_beacon(out, name, error) : ZERO_OK, error));
    zero_status status = zr_comm_broadcast(train->comm, name, sizeof name, 0, error);
    if (status == ZERO_OK)
        status = zr_comm_agree(train->comm, first ? ZERO_OK : check_sees_beacon(train, name, error),
                               error);
    if (first)
        zr_outputs_remove_beacon(out, name);
    return status;
}

// Keeps from the first step what goes with the weights (shape, tokenizer, chat template), so that a
// checkpoint of a run that was interrupted can become a model. A model that is there has it.
static zero_status keep_model_files(const zr_train *train, zero_error *error)
{
    const char *name = zr_train_last_model(train);
    char *model = zr_sprintf(error, "%s/%s", train->asked.options->out_dir, name);
    zero_status status = model ? ZERO_OK : ZERO_ERR_MEMORY;
    if (status == ZERO_OK && !zr_has_weights(model) && !zr_is_adapter(model))
        status = zr_train_write_model_files(train, name, error);
    zr_free(model);
    return status;
}

static zero_status open_outputs_directory(zr_train *train, zero_error *error)
{
    const zero_train_options *options = train->asked.options;
    bool first = train->comm->rank == 0;
    ZERO_TRY(zr_comm_agree(
        train->comm,
        first ? zr_outputs_open(&train->run.place, &train->run.outputs, error) : ZERO_OK, error));
    zero_status status = check_directory_is_shared(train, error);
    if (status == ZERO_OK && first)
        status = zr_outputs_begin(&train->run.outputs, &train->run.place,
                                  train->resolved.config_text, options->job, error);
    // What a checkpoint refuses leaves nothing behind.
    if (status == ZERO_OK && first && !train->asked.resume)
        status = keep_model_files(train, error);
    if (status != ZERO_OK && first)
        zr_outputs_close(&train->run.outputs, true);
    return status;
}

zero_status zr_train_open_outputs(zr_train *train, zero_error *error)
{
    zero_status status =
        train->asked.options->dry_run ? ZERO_OK : open_outputs_directory(train, error);
    if (status == ZERO_OK)
        status = zr_train_profile_try(train, error);
    ZERO_TRY(zr_comm_agree(train->comm, status, error));
    train->run.saves.saved_at = zr_clock_seconds();
    if (!train->asked.resume)
        return ZERO_OK;
    zr_run_tasks_end(&train->run.tasks, ZR_TASK_BEGIN);
    ZERO_TRY(zr_train_resume(train, error));
    if (train->asked.has_checkpoint)
        zr_run_tasks_end(&train->run.tasks, ZR_TASK_RESUME);
    zr_outputs *outputs = &train->run.outputs;
    if (train->comm->rank == 0)
        status =
            zr_outputs_go_on(outputs, train->resolved.config_text, train->run.first_lines, error);
    if (train->comm->rank == 0 && status == ZERO_OK)
        status = keep_model_files(train, error);
    if (outputs->lost_steps)
        zr_log(&train->logger, ZERO_LOG_INFO,
               "resume   %lld step%s that came after it, %.1f s, %s made again",
               (long long)outputs->lost_steps, outputs->lost_steps == 1 ? "" : "s",
               outputs->lost_milliseconds / 1e3, outputs->lost_steps == 1 ? "is" : "are");
    return zr_comm_agree(train->comm, status, error);
}
