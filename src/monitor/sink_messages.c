// comms_logger: a table of the messages of all steps at the end. If verbose, also the messages of
// the first step, one by one.
#include "monitor/breakdown.h"
#include "monitor/sinks.h"

static bool sink_messages_is_asked(const zr_config *config) { return config->comms_logger.enabled; }

static zr_wanted sink_messages_wants(const zr_config *config, int64_t step)
{
    return ZR_WANTS_RECORDS;
}

static zero_status open_table(const zr_observed *seen, void **own, zero_error *error)
{
    *own = zr_alloc(sizeof(zr_messages), error);
    return *own ? ZERO_OK : ZERO_ERR_MEMORY;
}

static zero_status sink_messages_step_done(void *own, const zr_observed *seen,
                                           const zero_step_info *info, zero_error *error)
{
    const zr_comms_logger *logger = &seen->config->comms_logger;
    zr_buffer text = {0};
    int64_t steps = seen->steps.last - seen->steps.first + 1;
    ZERO_TRY(zr_messages_add(own, seen->recorder, seen->begun, steps, logger->ops, error));
    if (logger->verbose && seen->steps.first == 1)
        zr_breakdown_message_list(seen->recorder, seen->begun, logger->ops, seen->flat_params,
                                  zr_engine_plan(seen->engine)->flat_param_count, &text);
    return zr_observed_log(seen, "comm", &text, error);
}

static void close_table(void *own, const zr_observed *seen)
{
    zr_messages *messages = own;
    zr_buffer text = {0};
    if (!messages)
        return;
    if (messages->steps > 0)
        zr_breakdown_messages(messages, seen->of, &text);
    zr_observed_log(seen, "comm", &text, NULL);
    zr_messages_free(messages);
    zr_free(messages);
}

const zr_observe_sink zr_observe_messages = {
    .is_asked = sink_messages_is_asked,
    .reads_records = true,
    .wants = sink_messages_wants,
    .open = open_table,
    .step = sink_messages_step_done,
    .close = close_table,
};
