// An estimate divides the units of a pipeline, unless a run has divided them already; what it
// measures, its forecasts know, and the user's book of rates keeps.
#include "../base/scratch_directory.h"

#include "layers/layers.h"
#include "setup/estimate.h"
#include <math.h>

enum { STAGES = 2, LAYERS = 4, UNITS = LAYERS + 2 };

// Returns the configuration of two pipeline stages of so many tensor ranks.
static zr_config *resolved(int tensor)
{
    char text[256];
    snprintf(text, sizeof text,
             "{\"train_micro_batch_size_per_gpu\": 2, \"gradient_accumulation_steps\": 2, "
             "\"pipeline\": {\"stages\": 2}, \"tensor_parallel\": {\"autotp_size\": %d}}",
             tensor);
    const zr_config_facts facts = {
        .world = STAGES * tensor, .total_steps = 10, .lr = 1e-3, .auto_dtype = ZERO_F32};
    zr_config *config;
    zero_error error = {0};
    if (zr_config_parse(text, strlen(text), "test", &config, &error) != ZERO_OK ||
        zr_config_resolve(config, &facts, NULL, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    return config;
}

static void make_estimate(const zr_estimate_question *question, zr_estimate *out)
{
    zero_error error = {0};
    if (zr_estimate_make(question, out, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    assert_int_equal(out->stages, STAGES);
}

// Returns a question about two pipeline stages; *shape gets their model.
static zr_estimate_question question_of(zr_lm_config *shape, const zr_config *config)
{
    bool given;
    assert_int_equal(zr_lm_parse_spec("gpt2:layers=4,heads=4,width=128,context=64,vocab=300", shape,
                                      &given, NULL),
                     ZERO_OK);
    return (zr_estimate_question){.shape = shape,
                                  .name = "a model",
                                  .config = config,
                                  .seq = 64,
                                  .ranks = STAGES,
                                  .threads = 1};
}

static void a_run_s_own_division_stays(void **state)
{
    zr_config *config = resolved(1);
    zr_lm_config shape;
    zr_estimate first, second;
    zr_estimate_question question = question_of(&shape, config);
    make_estimate(&question, &first);
    int units = first.at[0].plan->unit_count, other = units == 2 ? 3 : 2;
    assert_int_equal(units + first.at[1].plan->unit_count, UNITS);
    const int first_unit[STAGES + 1] = {0, other, UNITS};
    zr_pipeline_part division = *first.run.division;
    division.first_unit = first_unit;
    question.division = &division;
    make_estimate(&question, &second);
    assert_int_equal(second.at[0].plan->unit_count, other);
    assert_int_equal(second.at[1].plan->unit_count, UNITS - other);
    zr_estimate_free(&second);
    zr_estimate_free(&first);
    zr_config_destroy(config);
}

// Memory for the largest plan is enough to divide the units, of whatever axes the ranks are.
static void a_rank_s_slices_are_held_to_its_memory(void **state)
{
    for (int tensor = 1; tensor <= 4; tensor *= 2) {
        zr_config *config = resolved(tensor);
        zr_lm_config shape;
        zr_estimate roomy, close, short_of;
        zr_estimate_question question = question_of(&shape, config);
        question.ranks = STAGES * tensor;
        make_estimate(&question, &roomy);
        assert_true(roomy.fits);
        int64_t most =
            ZR_MAX(zr_plan_total_bytes(roomy.at[0].plan), zr_plan_total_bytes(roomy.at[1].plan));
        question.machine.memory_limit = most;
        make_estimate(&question, &close);
        if (!close.fits)
            fail_msg("tensor %d: %s", tensor, close.excess);
        for (int u = 0; u <= STAGES; u++)
            assert_int_equal(close.run.division->first_unit[u], roomy.run.division->first_unit[u]);
        question.machine.memory_limit = most / 4;
        make_estimate(&question, &short_of);
        assert_false(short_of.fits);
        zr_estimate_free(&short_of);
        zr_estimate_free(&close);
        zr_estimate_free(&roomy);
        zr_config_destroy(config);
    }
}

static zr_forecast forecast(zr_estimate *estimate, const zr_rate_book *book)
{
    zr_forecast found;
    zero_error error = {0};
    double sum = 0;
    if (zr_estimate_forecast(estimate, book, &found, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    for (int part = 0; part < ZR_TIME_PARTS; part++)
        sum += found.parts[part];
    assert_true(found.seconds > 0 && fabs(sum / found.seconds - 1) < 1e-6);
    assert_true(found.low < found.seconds && found.seconds < found.high);
    return found;
}

static void what_is_measured_is_known_and_kept(void **state)
{
    scratch *d = *state;
    assert_int_equal(setenv("XDG_CACHE_HOME", d->directory, 1), 0);
    zr_config *config = resolved(1);
    zr_lm_config shape;
    zr_estimate estimate;
    zr_estimate_question question = question_of(&shape, config);
    zr_rate_book book = {0}, kept = {0};
    zero_logger silent = {0};
    zero_error error = {0};
    make_estimate(&question, &estimate);
    zr_forecast guessed = forecast(&estimate, &book);
    assert_true(guessed.unknown > 0.5); // the rest are waits for the other stage
    if (zr_estimate_measure(&estimate, &silent, &book, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    zr_forecast known = forecast(&estimate, &book);
    assert_true(known.unknown < 0.01);
    assert_true(known.flops == guessed.flops && known.parts[ZR_TIME_COMPUTE] > 0);
    zr_rate_book_read(&silent, &kept);
    assert_true(forecast(&estimate, &kept).seconds == known.seconds);
    double one, three;
    assert_int_equal(zr_estimate_evaluation(&estimate, &kept, 1, &one, &error), ZERO_OK);
    assert_int_equal(zr_estimate_evaluation(&estimate, &kept, 3, &three, &error), ZERO_OK);
    assert_true(one > 0 && three > one && three < 3.1 * one);
    zr_rate_book_free(&kept);
    zr_rate_book_free(&book);
    zr_estimate_free(&estimate);
    zr_config_destroy(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_s_own_division_stays),
        cmocka_unit_test(a_rank_s_slices_are_held_to_its_memory),
        cmocka_unit_test_setup_teardown(what_is_measured_is_known_and_kept, scratch_open,
                                        scratch_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
