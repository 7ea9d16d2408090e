// The line of what a run takes besides its steps: what is not known is not in it, and a start of
// which a part is unknown is none.
#include "setup/estimate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void teach(zr_rate_book *book, zr_task task, double seconds)
{
    const zr_task_sample sample = {
        .together = 1, .amount = 1000, .element = 4, .seconds = seconds, .seen = 1};
    zr_task_rates_add(&book->tasks, task, &sample);
}

static void assert_says(const zr_overheads_question *question, const zr_rate_book *book,
                        const char *words)
{
    zr_overheads overheads;
    zr_buffer text = {0};
    zr_overheads_find(question, NULL, book, &overheads);
    zr_overheads_text(&overheads, &text);
    assert_string_equal(text.data ? text.data : "", words);
    zr_buffer_free(&text);
}

static void test_line(void **state)
{
    static const zero_unit unit = {.name = "unit"};
    static const zero_model model = {.unit_count = 1, .units = &unit};
    zr_plan plan = {.model = &model, .parameters = 1000, .elems = 1000, .ranks = 1};
    plan.bytes[ZERO_TIER_device][ZERO_MEM_workspace] = 1000;
    plan.grad_bytes = 500; // the other half of which is a rank's alone
    zr_rate_book book = {0};
    zr_overheads_question question = {.subject = {.plan = &plan, .together = 1}};
    assert_says(&question, &book, "");
    teach(&book, ZR_TASK_MODEL, 0.25);
    assert_says(&question, &book, "besides steps: 250 ms a model");
    teach(&book, ZR_TASK_BEGIN, 1);
    teach(&book, ZR_TASK_RESERVE, 2);
    teach(&book, ZR_TASK_SHARE, 4);
    assert_says(&question, &book, "besides steps: 250 ms a model");
    teach(&book, ZR_TASK_DRAW, 0.5);
    assert_says(&question, &book, "besides steps: 7.50 s before the first one, 250 ms a model");
    question.subject.text = 1000;
    assert_says(&question, &book, "besides steps: 250 ms a model");
    teach(&book, ZR_TASK_READ, 0.25);
    teach(&book, ZR_TASK_FORECAST, 0.25);
    question.loads = true;
    assert_says(&question, &book, "besides steps: 250 ms a model");
    teach(&book, ZR_TASK_LOAD, 2);
    plan.unit_count = 1000;
    assert_says(&question, &book, "besides steps: 10.0 s before the first one, 250 ms a model");
}

static void test_json(void **state)
{
    const zr_overheads overheads = {.start = 0.5, .token = 0.25};
    zr_buffer text = {0};
    assert_true(zr_overheads_are_known(&overheads));
    assert_false(zr_overheads_are_known(&(zr_overheads){0}));
    zr_json_writer w = zr_json_writer_on(&text, ZR_JSON_COMPACT);
    zr_overheads_json(&overheads, &w, NULL);
    assert_string_equal(text.data, "{\"before_first_step\":0.5,\"evaluated_micro_batch\":null,"
                                   "\"checkpoint\":null,\"model\":null,"
                                   "\"generated_token\":0.25}");
    zr_buffer_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_line), cmocka_unit_test(test_json)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
