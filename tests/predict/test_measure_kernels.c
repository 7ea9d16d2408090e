// Measuring a plan leaves a sample of each of its operations in the book, and what is there is not
// measured again.
#include "predict/measure_kernels.h"

#include "lm_plan.h"
#include "base/alloc.h"
#include "fixture.h"
#include "predict/operations.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define SMALL "gpt2:layers=2,heads=2,width=32,context=16,vocab=61,dropout=0.1"
#define LLAMA "llama:layers=2,heads=4,kv_heads=2,width=32,inner=48,context=16,vocab=61"

static zr_unit_rates_question question_of(const lm_plan *p, int together)
{
    return (zr_unit_rates_question){
        .plan = p->plan, .backend = "cpu", .together = together, .seconds = 0.05};
}

static void measure(const zr_unit_rates_question *question, zr_rate_book *book)
{
    zr_rate_book found = {0};
    zero_error error = {0};
    if (zr_unit_rates_measure(question, book, &found, &error) != ZERO_OK ||
        zr_rate_book_merge(book, &found, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    zr_rate_book_free(&found);
}

static const zr_rate_sample *find(const zr_rates *rates, zr_activity what, int64_t bytes,
                                  int64_t flops)
{
    for (int i = 0; i < rates->count[what]; i++)
        if (rates->at[what][i].bytes == bytes && rates->at[what][i].flops == flops)
            return &rates->at[what][i];
    return NULL;
}

static void expect_list(const zr_rates *rates, const zr_operation_list *list)
{
    for (int i = 0; i < list->count; i++) {
        const zr_operation *o = &list->at[i];
        const zr_rate_sample *sample = find(rates, o->what, o->bytes, o->flops);
        if (!sample || sample->seconds <= 0 || sample->seen < 1)
            fail_msg("%s of %lld bytes and %lld flops has no sample", zr_activity_name(o->what),
                     (long long)o->bytes, (long long)o->flops);
    }
}

static void expect_every_operation(const zr_plan *plan, const zr_rates *rates)
{
    zr_plan_operations found;
    zero_error error = {0};
    assert_int_equal(zr_plan_operations_find(plan, "cpu", &found, &error), ZERO_OK);
    for (int u = 0; u < found.unit_count; u++)
        for (int c = 0; c < ZR_OPERATION_CALLS; c++)
            expect_list(rates, &found.units[u].calls[c]);
    zr_plan_operations_free(&found);
}

static void expect_positive(const zr_rates *rates)
{
    for (int a = 0; a < ZR_ACTIVITY_COUNT; a++)
        for (int i = 0; i < rates->count[a]; i++)
            assert_true(rates->at[a][i].seconds > 0);
}

// Measures again, and checks that nothing has been added.
static void expect_all_known(const zr_unit_rates_question *question, zr_rate_book *book)
{
    zr_rates *before = malloc(sizeof *before);
    *before = book->settings[0];
    measure(question, book);
    assert_int_equal(book->count, 1);
    assert_memory_equal(before->count, book->settings[0].count, sizeof before->count);
    assert_memory_equal(before->at, book->settings[0].at, sizeof before->at);
    free(before);
}

static void check(const lm_plan_case *c, int together)
{
    lm_plan p = lm_plan_create(c);
    zr_rate_book book = {0};
    zr_rate_setting setting;
    const zr_unit_rates_question question = question_of(&p, together);
    measure(&question, &book);
    assert_int_equal(book.count, 1);
    const zr_rates *rates = &book.settings[0];
    assert_int_equal(zr_unit_rates_setting("cpu", c->dtype, 1, together, &setting, NULL), ZERO_OK);
    assert_string_equal(rates->setting.path, setting.path);
    assert_int_equal(rates->setting.dtype, c->dtype);
    assert_int_equal(rates->setting.threads, 1);
    assert_int_equal(rates->setting.together, together);
    expect_every_operation(p.plan, rates);
    expect_positive(rates);
    assert_true(rates->count[ZR_ACTIVITY_optimizer] > 1);
    assert_true(rates->count[ZR_ACTIVITY_square_sum] > 1);
    assert_int_equal(rates->count[ZR_ACTIVITY_reduce_scatter] > 0, c->ranks > 1);
    assert_int_equal(rates->count[ZR_ACTIVITY_exchange] > 0, c->tensor > 1);
    assert_int_equal(rates->count[ZR_ACTIVITY_all_reduce] > 0, together > 1);
    assert_true(rates->count[ZR_ACTIVITY_forward] > 0 && rates->count[ZR_ACTIVITY_backward] > 0);
    assert_int_equal(rates->count[ZR_ACTIVITY_wait], 0);
    expect_all_known(&question, &book);
    zr_rate_book_free(&book);
    lm_plan_destroy(&p);
}

static void every_operation_has_a_sample(void **state)
{
    check(&(lm_plan_case){.spec = SMALL, .batch = 2, .seq = 8}, 1);
    check(&(lm_plan_case){.spec = LLAMA, .batch = 1, .seq = 16, .dtype = ZERO_BF16}, 2);
}

static void ranks_exchange_shards(void **state)
{
    check(
        &(lm_plan_case){
            .spec = SMALL, .batch = 2, .seq = 8, .stage = 2, .ranks = 2, .accumulation = 2},
        2);
    check(
        &(lm_plan_case){
            .spec = LLAMA, .batch = 2, .seq = 8, .stage = 3, .ranks = 3, .dtype = ZERO_BF16},
        3);
}

static void tensor_ranks_exchange_operands(void **state)
{
    check(&(lm_plan_case){.spec = SMALL, .batch = 2, .seq = 8, .tensor = 2}, 2);
}

static int64_t most_flops(const zr_rates *rates, zr_activity what)
{
    int64_t most = 0;
    for (int i = 0; i < rates->count[what]; i++)
        most = ZR_MAX(most, rates->at[what][i].flops);
    return most;
}

static int64_t most_planned(const zr_plan *plan)
{
    int64_t most = 0;
    for (int u = 0; u < plan->unit_count; u++)
        for (int i = 0; i < plan->units[u].sizes.product_count; i++) {
            const zero_product_shape *p = &plan->units[u].sizes.products[i];
            most = ZR_MAX(most, 2 * p->m * p->n * p->k);
        }
    return most;
}

static void what_takes_long_is_timed_in_part(void **state)
{
    lm_plan p = lm_plan_create(
        &(lm_plan_case){.spec = "gpt2:layers=1,heads=2,width=256,context=1024,vocab=512",
                        .batch = 16,
                        .seq = 1024});
    zr_rate_book book = {0};
    zr_unit_rates_question question = question_of(&p, 1);
    measure(&question, &book);
    const zr_rates *rates = &book.settings[0];
    int64_t flops = most_flops(rates, ZR_ACTIVITY_product);
    assert_true(flops > 0 && flops <= most_planned(p.plan) / 16);
    expect_positive(rates);
    expect_all_known(&question, &book);
    lm_plan_destroy(&p);
    zr_rate_book_free(&book);
}

static void disks_are_measured_for_nvme_alone(void **state)
{
    lm_plan_case c = {.spec = SMALL, .batch = 1, .seq = 8, .stage = 1};
    for (int nvme = 0; nvme < 2; nvme++) {
        c.optimizer = nvme ? ZERO_TIER_nvme : ZERO_TIER_device;
        lm_plan p = lm_plan_create(&c);
        zr_rate_book book = {0};
        zr_unit_rates_question question = question_of(&p, 1);
        question.directory = getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp";
        measure(&question, &book);
        assert_int_equal(book.checksum > 0, nvme);
        assert_int_equal(book.read > 0 && book.write > 0 && book.mix > 0, nvme);
        zr_rate_book_free(&book);
        lm_plan_destroy(&p);
    }
}

static void units_of_a_program_are_refused(void **state)
{
    static fixture f;
    fixture_build(&f, 2, 61, 32);
    lm_plan p = {.plan = fixture_plan(&f, 1, 1, 1, true)};
    const zr_unit_rates_question question = question_of(&p, 1);
    zr_rate_book book = {0};
    zero_error error = {0};
    assert_int_equal(zr_unit_rates_measure(&question, NULL, &book, &error), ZERO_ERR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "\"fixture\""));
    zr_rate_book_free(&book);
    zr_plan_destroy(p.plan);
}

static void an_unknown_backend_is_refused(void **state)
{
    lm_plan p = lm_plan_create(&(lm_plan_case){.spec = SMALL, .batch = 1, .seq = 8});
    zr_unit_rates_question question = question_of(&p, 1);
    zr_rate_book book = {0};
    zero_error error = {0};
    question.backend = "abacus";
    assert_int_equal(zr_unit_rates_measure(&question, NULL, &book, &error), ZERO_ERR_USAGE);
    zr_rate_book_free(&book);
    lm_plan_destroy(&p);
}

// Each allocation of the calling thread fails in turn; nothing hangs and nothing leaks.
static void no_memory_is_an_error(void **state)
{
    lm_plan p = lm_plan_create(&(lm_plan_case){.spec = SMALL, .batch = 1, .seq = 4});
    zr_unit_rates_question question = question_of(&p, 1);
    zero_status status = ZERO_ERR_MEMORY;
    question.seconds = 1e-3;
    for (int64_t nth = 1; status != ZERO_OK; nth++) {
        zr_rate_book book = {0};
        zero_error error = {0};
        zr_alloc_fail_at(nth);
        status = zr_unit_rates_measure(&question, NULL, &book, &error);
        zr_alloc_fail_at(0);
        assert_true(status == ZERO_OK || status == ZERO_ERR_MEMORY);
        zr_rate_book_free(&book);
    }
    lm_plan_destroy(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operation_has_a_sample),
        cmocka_unit_test(ranks_exchange_shards),
        cmocka_unit_test(tensor_ranks_exchange_operands),
        cmocka_unit_test(what_takes_long_is_timed_in_part),
        cmocka_unit_test(disks_are_measured_for_nvme_alone),
        cmocka_unit_test(units_of_a_program_are_refused),
        cmocka_unit_test(an_unknown_backend_is_refused),
        cmocka_unit_test(no_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
