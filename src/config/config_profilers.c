// Fills the parts of flops_profiler, comms_logger and the monitors that are not plain numbers:
// names of files and directories, and a set of operations.
#include "base/traffic.h"
#include "config/settings.h"

#include <string.h>

static zero_status refuse_op(const zr_config *config, const zr_setting *ops, const json_t *found,
                             zero_error *error)
{
    zr_buffer known = {0};
    for (int op = 0; op < ZERO_COMM_OP_COUNT; op++)
        zr_buffer_printf(&known, "%s%s", op ? ", " : "", zr_op_name((zero_comm_op)op));
    zero_status status = zr_fail(error, ZERO_ERR_CONFIG,
                                 "%s: comms_logger.prof_ops: found %s, expected operations: %s",
                                 zr_setting_where(config, ops).text, zr_value_shown(found).text,
                                 known.failed ? "known ones" : known.data);
    zr_buffer_free(&known);
    return status;
}

static int find_op(const json_t *name)
{
    for (int op = 0; op < ZERO_COMM_OP_COUNT && json_is_string(name); op++)
        if (!strcmp(zr_op_name((zero_comm_op)op), json_string_value(name)))
            return op;
    return -1;
}

static zero_status fill_ops(zr_config *config, zero_error *error)
{
    const zr_setting *ops = zr_config_at(config, "comms_logger.prof_ops");
    bool all = json_is_true(zr_config_value(config, "comms_logger.prof_all"));
    config->comms_logger.ops = all ? (1u << ZERO_COMM_OP_COUNT) - 1 : 0;
    for (size_t i = 0; i < json_array_size(ops->value); i++) {
        int op = find_op(json_array_get(ops->value, i));
        if (op < 0)
            return refuse_op(config, ops, json_array_get(ops->value, i), error);
        config->comms_logger.ops |= 1u << op;
    }
    return ZERO_OK;
}

static zero_status fill_output_file(zr_config *config, zero_error *error)
{
    const char *name = json_string_value(zr_config_value(config, "flops_profiler.output_file"));
    if (!name || !name[0])
        return ZERO_OK;
    config->flops_profiler.output_file = zr_strdup(name, error);
    return config->flops_profiler.output_file ? ZERO_OK : ZERO_ERR_MEMORY;
}

// Joins the two names as DeepSpeed does: a name that begins with "/" stands alone.
static zero_status fill_directory(const zr_config *config, const char *path_key,
                                  const char *name_key, zr_monitor_config *monitor,
                                  zero_error *error)
{
    const char *path = json_string_value(zr_config_value(config, path_key)),
               *name = json_string_value(zr_config_value(config, name_key));
    if (!monitor->enabled)
        return ZERO_OK;
    if (!path[0] && !name[0])
        return zr_fail(
            error, ZERO_ERR_CONFIG, "%s: %s and %s are both empty: they name no directory",
            zr_setting_where(config, zr_config_at(config, name_key)).text, path_key, name_key);
    bool alone = !path[0] || name[0] == '/', slash = !alone && path[strlen(path) - 1] != '/';
    monitor->directory = zr_sprintf(error, "%s%s%s", alone ? "" : path, slash ? "/" : "", name);
    return monitor->directory ? ZERO_OK : ZERO_ERR_MEMORY;
}

zero_status zr_config_fill_profilers(zr_config *config, zero_error *error)
{
    if (config->flops_profiler.enabled)
        ZERO_TRY(fill_output_file(config, error));
    ZERO_TRY(fill_directory(config, "tensorboard.output_path", "tensorboard.job_name",
                            &config->tensorboard, error));
    ZERO_TRY(fill_directory(config, "csv_monitor.output_path", "csv_monitor.job_name",
                            &config->csv_monitor, error));
    return config->comms_logger.enabled ? fill_ops(config, error) : ZERO_OK;
}
