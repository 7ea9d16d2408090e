// What flops_profiler and comms_logger say beyond plain numbers: a file's name, and a set of operations.
#include "config/settings.h"

#include <string.h>

#define NAME(op) #op,
static const char *const op_names[ZERO_COMM_OP_COUNT] = {ZERO_COMM_OPS(NAME)};
#undef NAME

static zero_status refuse_op(const zr_config *config, const zr_setting *ops, const json_t *found, zero_error *error)
{
    zr_buffer known = {0};
    for (int op = 0; op < ZERO_COMM_OP_COUNT; op++)
        zr_buffer_printf(&known, "%s%s", op ? ", " : "", op_names[op]);
    zero_status status =
        zr_fail(error, ZERO_ERR_CONFIG, "%s: comms_logger.prof_ops: found %s, expected operations: %s",
                zr_setting_where(config, ops).text, zr_value_shown(found).text, known.failed ? "known ones" : known.data);
    zr_buffer_free(&known);
    return status;
}

static int find_op(const json_t *name)
{
    for (int op = 0; op < ZERO_COMM_OP_COUNT && json_is_string(name); op++)
        if (!strcmp(op_names[op], json_string_value(name)))
            return op;
    return -1;
}

static zero_status fill_ops(zr_config *config, const zero_logger *logger, zero_error *error)
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
    if (all && json_array_size(ops->value))
        zr_log(logger, ZERO_LOG_WARNING, "%s: no effect here: comms_logger.prof_ops: comms_logger.prof_all is true",
               zr_setting_where(config, ops).text);
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

zero_status zr_config_fill_profilers(zr_config *config, const zero_logger *logger, zero_error *error)
{
    if (config->flops_profiler.enabled)
        ZERO_TRY(fill_output_file(config, error));
    return config->comms_logger.enabled ? fill_ops(config, logger, error) : ZERO_OK;
}
