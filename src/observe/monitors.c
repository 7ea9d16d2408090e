// Scalars to the monitors that the configuration asks for. Called by observe/observe on rank 0.
#include "observe/monitors.h"

#include "base/file.h"
#include "files/own.h"

#include <errno.h>
#include <unistd.h>

bool zr_monitors_asked(const zr_config *config)
{
    return config->tensorboard.enabled || config->csv_monitor.enabled;
}

static zero_status prepare_one(const zr_monitor_config *monitor, const char *name, zero_error *error)
{
    if (!monitor->enabled)
        return ZERO_OK;
    zero_status status = zr_directory_create(monitor->directory, error);
    if (status == ZERO_OK && access(monitor->directory, W_OK | X_OK))
        status = zr_fail_errno(error, ZERO_ERR_IO, errno, "cannot write to \"%s\"", monitor->directory);
    if (status != ZERO_OK)
        zr_error_prefix(error, "%s", name);
    return status;
}

// Rows are appended to those of an earlier run, to nothing else.
static zero_status check_tables(const zr_monitor_config *monitor, zero_error *error)
{
    for (int name = 0; name < ZR_SCALAR_COUNT && monitor->enabled; name++) {
        char *path = zr_csv_files_path(monitor->directory, (zr_scalar_name)name, error);
        zero_status status = path ? zr_own_check_file(path, "file of csv_monitor", zr_csv_files_is_one, NULL, error) : ZERO_ERR_MEMORY;
        zr_free(path);
        ZERO_TRY(status);
    }
    return ZERO_OK;
}

zero_status zr_monitors_prepare(const zr_config *config, zero_error *error)
{
    ZERO_TRY(prepare_one(&config->tensorboard, "tensorboard", error));
    ZERO_TRY(prepare_one(&config->csv_monitor, "csv_monitor", error));
    return check_tables(&config->csv_monitor, error);
}

// One warning when it begins to fail, one line when it writes again.
static void tell(const zr_monitors *m, const char *name, int64_t samples, bool fails, bool *failed, const zero_error *error)
{
    if (fails && !*failed)
        zr_log(m->logger, ZERO_LOG_WARNING, "%s: %s: its points are missing from %lld samples on; the run goes on", name, error->message, (long long)samples);
    else if (!fails && *failed)
        zr_log(m->logger, ZERO_LOG_INFO, "%s: written again from %lld samples on", name, (long long)samples);
    *failed = fails;
}

static zero_status write_events(zr_monitors *m, int64_t samples, const zr_scalar *scalars, int count, zero_error *error)
{
    if (!m->events)
        ZERO_TRY(zr_event_file_open(m->config->tensorboard.directory, m->done, &m->events, error));
    return zr_event_file_write(m->events, samples, scalars, count, error);
}

static zero_status write_tables(zr_monitors *m, int64_t samples, const zr_scalar *scalars, int count, zero_error *error)
{
    if (!m->tables)
        ZERO_TRY(zr_csv_files_open(m->config->csv_monitor.directory, m->done, m->owes, &m->tables, error));
    return zr_csv_files_write(m->tables, samples, scalars, count, error);
}

void zr_monitors_write(zr_monitors *m, int64_t samples, int64_t fresh, const zr_scalar *scalars, int count)
{
    zero_error error = {0};
    if (!m->begun)
        m->done = samples - fresh;
    m->begun = true;
    if (m->config->tensorboard.enabled) {
        zero_status status = write_events(m, samples, scalars, count, &error);
        tell(m, "tensorboard", samples, status != ZERO_OK, &m->events_fail, &error);
    }
    if (m->config->csv_monitor.enabled) {
        zero_status status = write_tables(m, samples, scalars, count, &error);
        tell(m, "csv_monitor", samples, status != ZERO_OK, &m->tables_fail, &error);
    }
}

void zr_monitors_close(zr_monitors *monitors)
{
    zr_event_file_close(monitors->events);
    zr_csv_files_close(monitors->tables);
    monitors->events = NULL;
    monitors->tables = NULL;
}
