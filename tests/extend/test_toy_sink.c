// A toy sink: it counts the steps of a run and the skipped ones among them, and reports both at the
// end.
#include "monitor/sinks.h"
#include "tiny_engine.h"

#include <stdio.h>
#include <string.h>

typedef struct tally {
    int64_t steps, skipped;
} tally;

static bool is_asked(const zr_config *config)
{
    return config->wall_clock_breakdown; // a key of its own, where it is more than a toy
}

static zr_wanted wants(const zr_config *config, int64_t step) { return ZR_WANTS_STEP; }

static zero_status open_tally(const zr_observed *seen, void **own, zero_error *error)
{
    *own = zr_alloc(sizeof(tally), error);
    return *own ? ZERO_OK : ZERO_ERR_MEMORY;
}

static zero_status add_step(void *own, const zr_observed *seen, const zero_step_info *info,
                            zero_error *error)
{
    tally *t = own;
    t->steps++;
    t->skipped += info->skipped;
    return ZERO_OK;
}

static void say_and_close(void *own, const zr_observed *seen)
{
    tally *t = own;
    if (t)
        zr_log(seen->logger, ZERO_LOG_INFO, "%lld steps, %lld of them skipped", (long long)t->steps,
               (long long)t->skipped);
    zr_free(t);
}

static const zr_observe_sink counter = {
    .is_asked = is_asked,
    .wants = wants,
    .open = open_tally,
    .step = add_step,
    .close = say_and_close,
};

static const zr_observe_sink *const list[] = {&zr_observe_messages, &counter};
static const zr_observe_sinks sinks = {list, ZR_COUNT(list)};

static void keep(void *user, zero_log_level level, const char *message)
{
    snprintf(user, 64, "%s", message);
}

static void make_steps(zero_engine *engine, int steps)
{
    int32_t tokens[TINY_BATCH * TINY_SEQ] = {1, 2, 3};
    const zero_tensor of = {tokens, ZERO_I32, 2, {TINY_BATCH, TINY_SEQ}};
    const zero_tensors batch = {2, {of, of}};
    zero_step_info info;
    double loss;
    for (int s = 0; s < steps; s++) {
        assert_int_equal(zero_forward(engine, &batch, &loss, NULL), ZERO_OK);
        assert_int_equal(zero_backward(engine, NULL), ZERO_OK);
        assert_int_equal(zero_step(engine, &info, NULL), ZERO_OK);
    }
}

static void it_counts_the_steps(void **state)
{
    char said[64] = "";
    const zero_logger logger = {.write = keep, .user = said};
    zr_observation *observation;
    tiny t = tiny_create_with("{\"wall_clock_breakdown\": true}");
    zero_status status =
        zr_observe_by(&sinks, t.engine, &logger, (zr_step_range){0}, NULL, &observation, NULL);
    assert_int_equal(status, ZERO_OK);
    make_steps(t.engine, 5);
    assert_string_equal(said, "");
    tiny_destroy(&t);
    assert_string_equal(said, "5 steps, 0 of them skipped");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(it_counts_the_steps)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
