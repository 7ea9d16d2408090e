// The monitors of a run on rank 0: tensorboard and csv_monitor of the configuration. Their files
// are opened when the first step has something for them, because only then is it known whether the
// run continues from a checkpoint. Monitoring never ends a run: if something cannot be written, one
// warning is given, every step tries again, and the points in between are missing.
#include "base/file.h"
#include "checkpoint/ownership.h"
#include "engine/step_schedules.h"
#include "monitor/breakdown.h"
#include "monitor/scalar_files.h"
#include "monitor/sinks.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

typedef struct monitors {
    const zr_config *config; // not owned
    const zero_logger *logger;
    zr_event_file *events; // NULL: not open
    zr_csv_files *tables;
    int64_t done; // samples that were trained on before this run
    bool begun;
    bool owes;                     // the evaluation after `done` samples will be repeated
    bool events_fail, tables_fail; // whether the last attempt to write failed
} monitors;

static bool monitors_is_asked(const zr_config *config)
{
    return config->tensorboard.enabled || config->csv_monitor.enabled;
}

static zero_status prepare_directory(const zr_monitor_config *monitor, const char *name,
                                     zero_error *error)
{
    if (!monitor->enabled)
        return ZERO_OK;
    zero_status status = zr_directory_create(monitor->directory, error);
    if (status == ZERO_OK && access(monitor->directory, W_OK | X_OK))
        status =
            zr_fail_errno(error, ZERO_ERR_IO, errno, "cannot write to \"%s\"", monitor->directory);
    if (status != ZERO_OK)
        zr_error_prefix(error, "%s", name);
    return status;
}

// Checks that rows would be appended only to files of an earlier run.
static zero_status check_tables(const zr_monitor_config *monitor, zero_error *error)
{
    for (int name = 0; name < ZR_SCALAR_COUNT && monitor->enabled; name++) {
        char *path = zr_csv_files_path(monitor->directory, (zr_scalar_name)name, error);
        zero_status status = path ? zr_ownership_check_file(path, "file of csv_monitor",
                                                            zr_csv_files_is_one, NULL, error)
                                  : ZERO_ERR_MEMORY;
        zr_free(path);
        ZERO_TRY(status);
    }
    return ZERO_OK;
}

static zero_status prepare_directories(const zr_config *config, zero_error *error)
{
    ZERO_TRY(prepare_directory(&config->tensorboard, "tensorboard", error));
    ZERO_TRY(prepare_directory(&config->csv_monitor, "csv_monitor", error));
    return check_tables(&config->csv_monitor, error);
}

// Warns once when writing begins to fail, and logs one line when it succeeds again.
static void log_change_of_failure(const monitors *m, const char *name, int64_t samples, bool fails,
                                  bool *failed, const zero_error *error)
{
    if (fails && !*failed)
        zr_log(m->logger, ZERO_LOG_WARNING,
               "%s: %s: its points are missing from %lld samples on; the run goes on", name,
               error->message, (long long)samples);
    else if (!fails && *failed)
        zr_log(m->logger, ZERO_LOG_INFO, "%s: written again from %lld samples on", name,
               (long long)samples);
    *failed = fails;
}

static zero_status write_events(monitors *m, int64_t samples, const zr_scalar *scalars, int count,
                                zero_error *error)
{
    if (!m->events)
        ZERO_TRY(zr_event_file_open(m->config->tensorboard.directory, m->done, &m->events, error));
    return zr_event_file_write(m->events, samples, scalars, count, error);
}

static zero_status write_tables(monitors *m, int64_t samples, const zr_scalar *scalars, int count,
                                zero_error *error)
{
    if (!m->tables)
        ZERO_TRY(zr_csv_files_open(m->config->csv_monitor.directory, m->done, m->owes, &m->tables,
                                   error));
    return zr_csv_files_write(m->tables, samples, scalars, count, error);
}

// samples: trained on so far; fresh: those of them from the step that ends here (0: an evaluation).
static void write_scalars(monitors *m, int64_t samples, int64_t fresh, const zr_scalar *scalars,
                          int count)
{
    zero_error error = {0};
    if (!m->begun)
        m->done = samples - fresh;
    m->begun = true;
    if (m->config->tensorboard.enabled) {
        zero_status status = write_events(m, samples, scalars, count, &error);
        log_change_of_failure(m, "tensorboard", samples, status != ZERO_OK, &m->events_fail,
                              &error);
    }
    if (m->config->csv_monitor.enabled) {
        zero_status status = write_tables(m, samples, scalars, count, &error);
        log_change_of_failure(m, "csv_monitor", samples, status != ZERO_OK, &m->tables_fail,
                              &error);
    }
}

// Whether monitors show times: as in DeepSpeed, if something times the steps anyway.
static bool shows_times(const zr_config *config)
{
    return config->wall_clock_breakdown || config->flops_profiler.enabled;
}

static zr_wanted monitors_wants(const zr_config *config, int64_t step)
{
    return shows_times(config) ? ZR_WANTS_RECORDS : ZR_WANTS_STEP;
}

static zero_status open_monitors(const zr_observed *seen, void **own, zero_error *error)
{
    ZERO_TRY(prepare_directories(seen->config, error));
    monitors *m = zr_alloc(sizeof *m, error);
    if (!m)
        return ZERO_ERR_MEMORY;
    *m = (monitors){.config = seen->config, .logger = seen->logger};
    *own = m;
    return ZERO_OK;
}

static int64_t samples_until_step(const zr_observed *seen, int64_t step)
{
    return step * seen->config->train_batch;
}

// Appends the times of a step: of steps that were recorded together, their mean.
static int add_times(const zr_observed *seen, zr_scalar *scalars)
{
    zr_step_times times = zr_step_times_of(seen->recorder, seen->begun);
    double of = 1e6 * (double)(seen->steps.last - seen->steps.first + 1);
    const zr_scalar shown[] = {
        {ZR_SCALAR_elapsed_time_ms_forward, (double)times.forward / of},
        {ZR_SCALAR_elapsed_time_ms_backward, (double)times.backward / of},
        {ZR_SCALAR_elapsed_time_ms_backward_inner, (double)(times.backward - times.reduce) / of},
        {ZR_SCALAR_elapsed_time_ms_backward_allreduce, (double)times.reduce / of},
        {ZR_SCALAR_elapsed_time_ms_step, (double)times.step / of},
    };
    memcpy(scalars, shown, sizeof shown);
    return ZR_COUNT(shown);
}

// Writes the scalars of a step. As in DeepSpeed, learning rate and loss scale are those of the next
// step.
static zero_status monitors_step_done(void *own, const zr_observed *seen,
                                      const zero_step_info *info, zero_error *error)
{
    const zr_config *config = seen->config;
    const zr_progress progress = zr_engine_progress(seen->engine);
    zr_scalar scalars[ZR_SCALAR_COUNT];
    int count = 0;
    if (info->loss != 0 || info->grad_norm != 0) // else the step had no target, and has no loss
        scalars[count++] = (zr_scalar){ZR_SCALAR_train_loss, info->loss};
    scalars[count++] = (zr_scalar){ZR_SCALAR_lr, zr_schedule_lr(&config->schedule, seen->updates)};
    if (config->loss_scale.kind != ZR_SCALE_NONE)
        scalars[count++] = (zr_scalar){ZR_SCALAR_loss_scale, progress.scale.scale};
    if (shows_times(config))
        count += add_times(seen, &scalars[count]);
    write_scalars(own, samples_until_step(seen, info->step), config->train_batch, scalars, count);
    return ZERO_OK;
}

static void evaluated(void *own, const zr_observed *seen, int64_t step, double loss)
{
    const zr_scalar scalar = {ZR_SCALAR_eval_loss, loss};
    write_scalars(own, samples_until_step(seen, step), 0, &scalar, 1);
}

static void owes(void *own)
{
    monitors *m = own;
    m->owes = true;
}

static void close_monitors(void *own, const zr_observed *seen)
{
    monitors *m = own;
    if (!m)
        return;
    zr_event_file_close(m->events);
    zr_csv_files_close(m->tables);
    zr_free(m);
}

const zr_observe_sink zr_observe_monitors = {
    .is_asked = monitors_is_asked,
    .wants = monitors_wants,
    .open = open_monitors,
    .step = monitors_step_done,
    .evaluated = evaluated,
    .owes = owes,
    .close = close_monitors,
};
