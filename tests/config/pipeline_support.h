// What the tests of pipelines' keys share: texts, flags, and what must come of them.
#ifndef ZR_TESTS_PIPELINE_SUPPORT_H
#define ZR_TESTS_PIPELINE_SUPPORT_H

#include "config/config_ranks.h"
#include "config_support.h"

#define STAGES(p) "\"pipeline\": {\"stages\": " p "}"
#define SCHEDULE(name) "\"libzero\": {\"pipeline\": {\"schedule\": " name "}}"
#define SPLIT(list) "\"libzero\": {\"pipeline\": {\"split\": " list "}}"
#define TENSOR(p) "\"tensor_parallel\": {\"autotp_size\": " p "}"
#define STEPS(k) "\"gradient_accumulation_steps\": " #k

static const zr_config_facts eight = {.world = 8, .micro_batch = 2};
static const zr_config_facts two_stages = {
    .world = 8, .micro_batch = 2, .parallel = {.pipeline = 2}};

static inline zr_config *must_be(const char *text, const zr_config_facts *facts, int stages,
                                 recorder *log)
{
    zr_config *config = resolved_well(text, facts, log);
    assert_int_equal(config->world, facts->world);
    assert_int_equal(config->pipeline.stages, stages);
    assert_int_equal(config->ranks, facts->world / (config->tensor * stages));
    assert_int_equal(config->train_batch,
                     config->micro_batch * config->accumulation * config->ranks);
    return config;
}

static inline void must_have(const char *text, const zr_config_facts *facts, int stages)
{
    recorder log;
    zr_config_destroy(must_be(text, facts, stages, &log));
}

static inline void must_fail(const char *text, const zr_config_facts *facts, zero_status status,
                             const char *message)
{
    zero_error error;
    recorder log;
    zr_config *config = resolved(text, facts, &log, &error);
    if (config)
        fail_msg("%s was accepted", text);
    assert_string_equal(error.message, message);
    assert_int_equal(error.status, status);
}

#endif
