// wall_clock_breakdown and memory_breakdown: one line each for the steps that are printed.
#include "monitor/breakdown.h"
#include "monitor/sinks.h"

#include <sys/resource.h>

// Whether a step is printed. If the configuration does not say how often: every step up to 10,
// every tenth up to 100, and so on.
static bool prints_at_step(const zr_config *config, int64_t step)
{
    int64_t every = config->steps_per_print;
    if (every == 0)
        for (every = 1; every * 10 < step;)
            every *= 10;
    return step % every == 0;
}

static bool time_is_asked(const zr_config *config) { return config->wall_clock_breakdown; }

static zr_wanted time_wants(const zr_config *config, int64_t step)
{
    return prints_at_step(config, step) ? ZR_WANTS_RECORDS : ZR_WANTS_NOTHING;
}

static zero_status time_step(void *own, const zr_observed *seen, const zero_step_info *info,
                             zero_error *error)
{
    zr_buffer text = {0};
    zr_step_times times = zr_step_times_of(seen->recorder, seen->begun);
    zr_breakdown_time(seen->steps.first, seen->steps.last, seen->of, &times, &text);
    return zr_observed_log(seen, "time", &text, error);
}

static bool memory_is_asked(const zr_config *config) { return config->memory_breakdown; }

static zr_wanted memory_wants(const zr_config *config, int64_t step)
{
    return prints_at_step(config, step) ? ZR_WANTS_STEP : ZR_WANTS_NOTHING;
}

// step: 0 means at the start.
static zero_status log_memory(const zr_observed *seen, int64_t step, zero_error *error)
{
    zr_buffer text = {0};
    zero_memory memory;
    struct rusage usage = {0};
    zero_memory_report(seen->engine, &memory);
    getrusage(RUSAGE_SELF, &usage);
    zr_breakdown_memory(step, seen->of, &memory, (int64_t)usage.ru_maxrss * 1024, &text);
    return zr_observed_log(seen, "memory", &text, error);
}

static zero_status memory_open(const zr_observed *seen, void **own, zero_error *error)
{
    return log_memory(seen, 0, error);
}

static zero_status memory_step(void *own, const zr_observed *seen, const zero_step_info *info,
                               zero_error *error)
{
    return log_memory(seen, info->step, error);
}

const zr_observe_sink zr_observe_time = {
    .is_asked = time_is_asked,
    .reads_records = true,
    .wants = time_wants,
    .step = time_step,
};

const zr_observe_sink zr_observe_memory = {
    .is_asked = memory_is_asked,
    .wants = memory_wants,
    .open = memory_open,
    .step = memory_step,
};
