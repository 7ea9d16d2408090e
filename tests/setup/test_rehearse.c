// A rehearsal divides the units of a pipeline, unless a run has divided them already.
#include "layers/layers.h"
#include "setup/rehearse.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { STAGES = 2, LAYERS = 4, UNITS = LAYERS + 2 };

static zr_config *resolved(void)
{
    static const char text[] =
        "{\"train_micro_batch_size_per_gpu\": 2, \"gradient_accumulation_steps\": 2, \"pipeline\": "
        "{\"stages\": 2}}";
    const zr_config_facts facts = {
        .world = STAGES, .total_steps = 10, .lr = 1e-3, .auto_dtype = ZERO_F32};
    zr_config *config;
    zero_error error = {0};
    if (zr_config_parse(text, strlen(text), "test", &config, &error) != ZERO_OK ||
        zr_config_resolve(config, &facts, NULL, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    return config;
}

static void rehearse(const zr_rehearsal_question *question, zr_rehearsal *out)
{
    zero_error error = {0};
    if (zr_rehearse(question, out, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    assert_int_equal(out->stages, STAGES);
}

static void a_run_s_own_division_stays(void **state)
{
    zr_config *config = resolved();
    zr_lm_config shape;
    zr_rehearsal first, second;
    bool given;
    assert_int_equal(zr_lm_parse_spec("gpt2:layers=4,heads=4,width=128,context=64,vocab=300",
                                      &shape, &given, NULL),
                     ZERO_OK);
    zr_rehearsal_question question = {.shape = &shape,
                                      .name = "a model",
                                      .config = config,
                                      .seq = 64,
                                      .ranks = STAGES,
                                      .threads = 1};
    rehearse(&question, &first);
    int units = first.at[0].plan->unit_count, other = units == 2 ? 3 : 2;
    assert_int_equal(units + first.at[1].plan->unit_count, UNITS);
    const int first_unit[STAGES + 1] = {0, other, UNITS};
    zr_pipeline_part division = *first.division;
    division.first_unit = first_unit;
    question.division = &division;
    rehearse(&question, &second);
    assert_int_equal(second.at[0].plan->unit_count, other);
    assert_int_equal(second.at[1].plan->unit_count, UNITS - other);
    zr_rehearsal_free(&second);
    zr_rehearsal_free(&first);
    zr_config_destroy(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_run_s_own_division_stays)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
