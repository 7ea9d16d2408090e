// A run of 200 steps on the usual number of ranks, and what a configuration becomes for it.
#ifndef ZR_TESTS_CONFIG_USUAL_RUN_H
#define ZR_TESTS_CONFIG_USUAL_RUN_H

#include "config_support.h"

static const zr_config_facts facts = {FACTS, .total_steps = 200, .warmup_steps = 10, .hidden = 32,
                                      .lr = 3e-4};

static inline zr_config *must_resolve(const char *text, recorder *log)
{
    return resolved_well(text, &facts, log);
}

static inline void must_fail(const char *text, zero_status status, const char *part)
{
    zero_error error;
    recorder log;
    zr_config *config = resolved(text, &facts, &log, &error);
    if (config)
        fail_msg("%s was accepted", text);
    assert_contains(error.message, part);
    assert_int_equal(error.status, status);
}

static inline zr_config *with_defaults(const char *text, const zr_config_facts *of, recorder *log)
{
    zero_error error;
    zr_config *config = parsed(text, &error);
    assert_non_null(config);
    recorder_begin(log);
    assert_int_equal(zr_config_defaults_apply(config, of, &log->logger, &error), ZERO_OK);
    if (zr_config_resolve(config, of, &log->logger, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    return config;
}

#endif
