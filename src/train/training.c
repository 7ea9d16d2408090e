// zero_train, which reads like the description of a training. Each phase that is not collective
// ends in an agreement of all ranks, so that no rank is left waiting; a failure in a collective
// phase ends the other ranks through the communicator.
#include "train/training.h"

#include "base/clock.h"
#include "base/errors.h"
#include "checkpoint/run_directory.h"
#include "checkpoint/training_checkpoint.h"
#include "comm/agreement.h"
#include "layers/layers.h"
#include "model/architecture.h"
#include "setup/backend_choice.h"
#include "setup/initialize.h"
#include "setup/model_part.h"
#include <zero/weights.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

static zero_status check_options(const zero_train_options *options, zero_error *error)
{
    if (!options->new_spec == !options->model_dir)
        return zr_fail(
            error, ZERO_ERR_USAGE,
            "zero_train: exactly one of options.new_spec and options.model_dir must be given");
    if (options->data_count < 1 || !options->data)
        return zr_fail(error, ZERO_ERR_USAGE, "zero_train: options.data names no file");
    if (!options->out_dir && !options->dry_run)
        return zr_fail(error, ZERO_ERR_USAGE, "zero_train: options.out_dir is missing");
    if (options->resume && options->overwrite)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "zero_train: options.resume and options.overwrite are both given: a run "
                       "goes on, or is replaced");
    const zr_backend *backend;
    if (!options->backend || strcmp(options->backend, "auto") != 0)
        ZERO_TRY(zr_said_backend_find(options->backend, &backend, error));
    zr_lm_changes changes;
    if (options->allow_change && !options->resume)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "zero_train: options.allow_change (--allow-change) belongs to a run that is "
                       "resumed: options.resume (--resume) is missing");
    ZERO_TRY(zr_lm_changes_parse(options->allow_change, &changes, error));
    if (options->steps && options->epochs > 0)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "zero_train: options.steps and options.epochs are both given");
    return ZERO_OK;
}

// Takes over the options, whatever their version. A run that is given as model or tokenizer is
// replaced by its directory of the model or tokenizer, and every flag becomes an override.
static zero_status accept_options(zr_train *train, const zero_train_options *options,
                                  zero_error *error)
{
    zero_train_options *own = &train->asked.own.options;
    ZERO_TRY(zr_struct_take("zero_train: options", options,
                            ZR_STRUCT_UPTO(zero_train_options, no_final_checkpoint), own,
                            sizeof *own, error));
    if (train->comm->rank == 0)
        train->logger = own->logger;
    ZERO_TRY(check_options(own, error));
    ZERO_TRY(
        zr_model_directory(own->model_dir, &train->logger, &train->asked.own.model_dir, error));
    ZERO_TRY(
        zr_tokenizer_directory(own->tokenizer, &train->logger, &train->asked.own.tokenizer, error));
    const zero_parallel parallel = {.tensor = own->tensor,
                                    .sequence_parallel = own->sequence_parallel,
                                    .pipeline = own->pipeline,
                                    .schedule = own->schedule,
                                    .split = own->split};
    ZERO_TRY(zr_flag_list_make(own->overrides, own->override_count, &parallel, own->seed, own->lr,
                               &train->asked.own.flags, error));
    own->overrides = train->asked.own.flags.at;
    own->override_count = train->asked.own.flags.count;
    own->model_dir = train->asked.own.model_dir;
    own->tokenizer = train->asked.own.tokenizer;
    train->asked.options = own;
    return ZERO_OK;
}

void zr_train_init(zr_train *train, zero_comm *comm, const zero_train_options *options,
                   int64_t replay_to)
{
    *train = (zr_train){
        .comm = comm,
        .asked = {.options = options, .replay_to = replay_to},
        .run =
            {
                .outputs = {.lock = -1},
                .tasks = {.since = zr_clock_seconds()},
                .turns = zr_turns_now(),
                .evals = {.best = INFINITY, .last = INFINITY},
            },
    };
}

// Does and checks everything that a rank can by itself. Errors come in the order in which a user
// would look: names, the configuration, the place for outputs; then the contents of files.
zero_status zr_train_prepare(zr_train *train, zero_error *error)
{
    ZERO_TRY(zr_train_check_names(train, error));
    ZERO_TRY(zr_train_check_config(train, error));
    ZERO_TRY(zr_train_check_outputs(train, error));
    zr_run_tasks_end(&train->run.tasks, ZR_TASK_BEGIN);
    ZERO_TRY(zr_train_read(train, error));
    zr_run_tasks_end(&train->run.tasks, ZR_TASK_READ);
    zr_train_describe_model(train);
    ZERO_TRY(zr_train_configure(train, error));
    ZERO_TRY(zr_train_check_places(train, error));
    zr_model_tiles_apply(train->resolved.config, &train->subject.model_config);
    return ZERO_OK;
}

// Builds the model once everything is chosen, because its flat parameters follow from its tiles,
// and records what was chosen.
static zero_status build_model(zr_train *train, zero_error *error)
{
    ZERO_TRY(zr_lm_create(&train->subject.model_config, &train->subject.model, error));
    return zr_train_record(train, error);
}

// Makes the engine, which takes over the configuration.
static zero_status open_engine(zr_train *train, zero_error *error)
{
    const zero_options options = zr_train_engine_options(train);
    zr_config *config = train->resolved.config;
    bool kept = !train->asked.options->dry_run;
    train->resolved.config = NULL;
    config->tensorboard.enabled = config->tensorboard.enabled && kept;
    config->csv_monitor.enabled = config->csv_monitor.enabled && kept;
    return zr_engine_make(&options, config, NULL, &train->run.engine, error);
}

enum { LONG_TO_READ = 100000000 }; // parameters; about a second

// Hashes the model that adapters adapt, for the checkpoints.
static zero_status hash_base(zr_train *train, zero_error *error)
{
    uint64_t hash;
    if (!train->asked.lora.rank)
        return ZERO_OK;
    ZERO_TRY(zr_train_hash_model(train, &hash, error));
    snprintf(train->subject.base_hash, sizeof train->subject.base_hash, "%016llx",
             (unsigned long long)hash);
    return ZERO_OK;
}

static zero_status load_weights(zr_train *train, zero_error *error)
{
    const zero_train_options *options = train->asked.options;
    const zero_load_options how = {
        .struct_size = sizeof how,
        .ignore_unused = options->ignore_unused,
        .logger = train->logger,
    };
    if (!options->model_dir)
        return ZERO_OK;
    if (train->subject.parameters > LONG_TO_READ)
        zr_log(&train->logger, ZERO_LOG_INFO, "start    the weights of \"%s\" are read, %.0f M",
               options->model_dir, (double)train->subject.parameters / 1e6);
    zr_run_tasks_end(&train->run.tasks, ZR_TASK_BEGIN);
    ZERO_TRY(zero_load_weights_with(train->run.engine, options->model_dir, &how, error));
    ZERO_TRY(hash_base(train, error));
    zr_run_tasks_end(&train->run.tasks, ZR_TASK_LOAD);
    return ZERO_OK;
}

// Ends the start-up if any rank got a signal to end. Nothing was trained, so nothing is saved.
static zero_status leave_if_asked(const zr_train *train, zero_error *error)
{
    const volatile int *stop = train->asked.options->stop;
    int64_t asked = stop && *stop;
    ZERO_TRY(zr_comm_agree_on_largest(train->comm, &asked, error));
    return asked ? zr_fail(error, ZERO_ERR_STOPPED,
                           "ended as asked, before the first step of this start: nothing was "
                           "trained, nothing is saved")
                 : ZERO_OK;
}

static zero_status check_sample(const zr_train *train, zero_error *error)
{
    if (!zr_train_makes_samples(train))
        return ZERO_OK;
    zero_status status = zr_train_sample_check(&train->subject, train->run.engine, error);
    return zr_comm_agree(train->comm, status, error);
}

// Where "auto" took a card on which the training has no room, the processor may have it.
static zero_status name_processor(const zr_train *train, zero_status status, zero_error *error)
{
    if (status != ZERO_ERR_LIMIT || !train->resolved.chose_card)
        return status;
    zero_error cause = *error;
    return zr_fail(error, status, "%.900s; --backend cpu trains on the processor", cause.message);
}

zero_status zr_train_make_engine(zr_train *train, zero_error *error)
{
    zr_train_resolved *resolved = &train->resolved;
    int threads = train->asked.options->threads;
    ZERO_TRY(zr_rank_threads_choose(train->comm, threads, &resolved->threads, error));
    ZERO_TRY(zr_train_place(train, error));
    ZERO_TRY(zr_comm_agree(train->comm, build_model(train, error), error));
    zr_train_describe_runtime(&train->logger);
    ZERO_TRY(leave_if_asked(train, error));
    zr_run_tasks_end(&train->run.tasks, ZR_TASK_BEGIN);
    ZERO_TRY(name_processor(train, open_engine(train, error), error));
    zr_run_tasks_end(&train->run.tasks, ZR_TASK_RESERVE);
    const zr_engine_making making = zr_engine_making_of(train->run.engine);
    zr_run_tasks_move(&train->run.tasks, ZR_TASK_RESERVE, ZR_TASK_SHARE, making.sharing);
    zr_run_tasks_move(&train->run.tasks, ZR_TASK_RESERVE, ZR_TASK_DRAW, making.drawing);
    ZERO_TRY(check_sample(train, error));
    ZERO_TRY(leave_if_asked(train, error));
    ZERO_TRY(load_weights(train, error));
    ZERO_TRY(zr_train_describe_run(train, error));
    ZERO_TRY(zr_train_make_reference(train, error));
    resolved->profiled = zr_train_profile_steps(train);
    ZERO_TRY(zr_comm_agree(train->comm, zr_train_measure(train, error), error));
    // Of a far device each recorded operation is waited for, and what it took is learnt by nobody.
    bool far = zr_device_is_far(zr_engine_queue(train->run.engine)->device);
    return zr_observe(train->run.engine, &train->logger, resolved->profiled,
                      far ? NULL : train->run.measured, &train->run.observed, error);
}

// Says whether there is an average of the weights, which a run without updates does not have.
static bool has_average(const zr_train *train)
{
    return zr_engine_plan(train->run.engine)->settings.average &&
           zr_engine_progress(train->run.engine).updates > 0;
}

// Writes "model    out/model, val loss 1.234567 (...); the best of the run, val loss ...".
static void describe_models(const zr_train *train, char *text, size_t size)
{
    const zr_train_evals *evals = &train->run.evals;
    const char *out = train->asked.options->out_dir, *name = zr_train_last_model(train);
    int at = snprintf(text, size, "%-8s %s/%s", name, out, name);
    if (isfinite(evals->last) && at < (int)size)
        at += snprintf(text + at, size - (size_t)at, ", val loss %.6f (all of the held-out text)",
                       evals->last);
    if (evals->equalled && !evals->differed && at < (int)size)
        snprintf(text + at, size - (size_t)at,
                 "; the loss was the same in all evaluations (%s/" ZR_BEST_MODEL
                 " is from the first)",
                 out);
    else if (isfinite(evals->best) && at < (int)size)
        snprintf(text + at, size - (size_t)at,
                 "; the best of the run, val loss %.6f%s%s%s: %s/" ZR_BEST_MODEL, evals->best,
                 evals->text[0] ? " (" : "", evals->text, evals->text[0] ? ")" : "", out);
    size_t end = strlen(text);
    if (has_average(train))
        snprintf(text + end, size - end, "; the average of its weights: %s/" ZR_EMA_MODEL, out);
}

static zero_status finish_training(zr_train *train, zero_error *error)
{
    const zero_train_options *options = train->asked.options;
    const zr_train_evals *evals = &train->run.evals;
    char text[2048] = "dry run: one step was made, nothing is kept";
    if (!options->dry_run) {
        zero_status status = zr_train_save_model(train, zr_train_last_model(train), error);
        if (status == ZERO_OK && has_average(train))
            status = zr_train_save_model(train, ZR_EMA_MODEL, error);
        if (status != ZERO_OK)
            return zr_train_rescue(train, status, error);
        describe_models(train, text, sizeof text);
    }
    ZERO_TRY(zr_train_tell_times(train, error));
    zero_event end = {
        .kind = ZERO_EVENT_END,
        .step = train->resolved.steps,
        .total_steps = train->resolved.steps,
        .text = text,
        .loss = isfinite(evals->best) ? evals->best : 0,
    };
    zr_train_tell(train, &end);
    return ZERO_OK;
}

static zero_status run_training(zr_train *train, zero_error *error)
{
    zr_run_tasks_end(&train->run.tasks, ZR_TASK_BEGIN);
    ZERO_TRY(zr_train_compare_inputs(train, error));
    ZERO_TRY(zr_train_hash_data(train, error));
    zr_run_tasks_end(&train->run.tasks, ZR_TASK_READ);
    ZERO_TRY(zr_train_make_engine(train, error));
    ZERO_TRY(leave_if_asked(train, error));
    ZERO_TRY(zr_train_open_outputs(train, error));
    zero_status status = zr_train_loop(train, error);
    if (status == ZERO_ERR_STOPPED)
        zr_train_tell_times(train, &(zero_error){0}); // `error` says why the run has ended
    return status == ZERO_OK ? finish_training(train, error) : status;
}

void zr_train_free(zr_train *train)
{
    zr_checkpoint_abandon(train->run.saves.saving);
    zr_outputs_close(&train->run.outputs, false);
    zr_input_paths_free(&train->run.place.reads);
    zr_generation_times_close(&train->run.samples);
    zero_destroy(train->run.engine);
    zr_queue_close(train->run.card);
    zr_free(train->run.measured);
    zr_config_destroy(train->resolved.config);
    zr_free(train->resolved.config_text);
    zr_free(train->resolved.file_text);
    zr_free(train->asked.own.model_dir);
    zr_free(train->asked.own.tokenizer);
    zr_flag_list_free(&train->asked.own.flags);
    zr_train_release_subject(&train->subject);
}

zero_status zero_train(zero_comm *comm, const zero_train_options *options, zero_error *error)
{
    ZR_NEED(error, comm);
    ZR_NEED(error, options);
    zero_error local = {0};
    if (!error)
        error = &local;
    zr_train train;
    zr_train_init(&train, comm, NULL, 0);
    zero_status status = zr_comm_agree(comm, accept_options(&train, options, error), error);
    if (status == ZERO_OK)
        status = zr_train_foresee(&train.asked, comm, error);
    if (status == ZERO_OK)
        status = zr_comm_agree(comm, zr_train_prepare(&train, error), error);
    if (status == ZERO_OK) {
        status = run_training(&train, error);
        if (status != ZERO_OK && status != ZERO_ERR_CANCELLED && status != ZERO_ERR_STOPPED)
            zero_comm_abort(comm, error->message);
    }
    zr_train_free(&train);
    return status;
}
