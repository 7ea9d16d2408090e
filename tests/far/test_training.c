// Training on a device whose memory the host cannot read gives the bits of "ref": in each order in
// which its queues may work, with no touch of the host, no race in the list of what was submitted,
// no byte that was not planned, and no wait more than the loss and the norm need.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "far_training.h"

#include <stdio.h>
#include <string.h>

static void check_ways(const far_case *c, int stage, int ranks)
{
    static harness_result want;
    const harness_case run = far_case_at(c, stage, ranks);
    harness_run(&run, &want);
    for (int w = 0; w < FAR_WAYS; w++) {
        char what[160];
        snprintf(what, sizeof what, "%s, stage %d, %d ranks, %s", c->name, stage, run.ranks,
                 far_ways[w].name);
        far_train(&run, &far_ways[w].options, &want, what);
    }
}

static void other_cases_have_the_bits_of_ref(void **state)
{
    for (int i = 0; i < far_other_case_count; i++)
        for (int stage = 1; stage <= 3; stage += 2)
            check_ways(&far_other_cases[i], stage, 0);
}

static void check_ranks(int ranks)
{
    for (int i = 0; i < far_plain_case_count; i++)
        for (int stage = 0; stage <= 3; stage++)
            check_ways(&far_plain_cases[i], stage, ranks);
}

static void one_rank_has_the_bits_of_ref(void **state) { check_ranks(1); }

static void two_ranks_have_the_bits_of_ref(void **state) { check_ranks(2); }

static void four_ranks_have_the_bits_of_ref(void **state) { check_ranks(4); }

// ---- what is refused ----

static void what_the_host_does_itself_is_refused(void **state)
{
    static const struct {
        const char *words;
        harness_case run;
    } asked[] = {
        {"Muon's exchange of matrices", {.optimizer = "Muon"}},
        {"Adafactor's averages", {.optimizer = "Adafactor"}},
    };
    for (int i = 0; i < ZR_COUNT(asked); i++) {
        harness_case run = asked[i].run;
        far_report report;
        run.stage = 2;
        run.ranks = 1;
        run.batch = run.accumulation = 2;
        run.backend = "far";
        far_begin(&(far_options){.order = FAR_LAZY});
        harness_refused(&run, ZERO_ERR_UNSUPPORTED, asked[i].words);
        far_end(&report);
        assert_int_equal(report.allocations, 0);
        assert_string_equal(report.first, "");
    }
}

// A unit of a program's own that says nothing about it reads memory itself.
static zero_unit_ops undeclared_ops;

static const zero_model *without_the_flag(const zero_model *model)
{
    static zero_unit units[8];
    static zero_model copy;
    copy = *model;
    memcpy(units, model->units, (size_t)model->unit_count * sizeof *units);
    undeclared_ops = *units[1].ops;
    undeclared_ops.dtypes &= ~ZERO_UNIT_DEVICE;
    units[1].ops = &undeclared_ops;
    copy.units = units;
    return &copy;
}

static void a_unit_without_the_flag_is_refused(void **state)
{
    const harness_case run = {
        .ranks = 1, .batch = 1, .accumulation = 1, .backend = "far", .tuned = without_the_flag};
    far_begin(&(far_options){.order = FAR_LAZY});
    harness_refused(&run, ZERO_ERR_UNSUPPORTED,
                    "unit \"h.0\" (block) reads and writes memory itself");
    far_end(NULL);
}

// ---- how often the host waits ----

static int64_t finishes_before[HARNESS_STEPS + 1]; // each step, and the end

static void note_finishes(zero_comm *comm, int step)
{
    far_report report;
    far_report_now(&report);
    if (step <= HARNESS_STEPS)
        finishes_before[step] = report.finishes;
}

static zero_status seal(zero_engine *engine, int step, zero_error *error)
{
    if (step == -1)
        far_seal(); // nothing is reserved in a step
    if (step == HARNESS_STEPS - 1)
        far_unseal();
    return ZERO_OK;
}

// One wait for the loss of each micro-batch, one for the norm, and one more for LAMB's norms.
static void the_host_waits_for_losses_and_norms_alone(void **state)
{
    static harness_result got;
    static const struct {
        const char *optimizer;
        int64_t accumulation, waits;
    } asked[] = {{"AdamW", 1, 2}, {"SGD", 3, 4}, {"LAMB", 1, 3}};
    for (int i = 0; i < ZR_COUNT(asked); i++)
        for (int stage = 0; stage <= 3; stage++) {
            const harness_case run = {.stage = stage,
                                      .ranks = 1,
                                      .batch = 2,
                                      .accumulation = (int)asked[i].accumulation,
                                      .optimizer = asked[i].optimizer,
                                      .backend = "far",
                                      .at_step = note_finishes,
                                      .after = seal};
            far_report report;
            far_begin(&(far_options){.order = FAR_LAZY});
            harness_run(&run, &got);
            far_end(&report);
            assert_string_equal(report.first, "");
            for (int s = 0; s + 1 < HARNESS_STEPS; s++)
                if (finishes_before[s + 1] - finishes_before[s] != asked[i].waits)
                    fail_msg("%s, stage %d, step %d: %lld waits, not %lld", asked[i].optimizer,
                             stage, s, (long long)(finishes_before[s + 1] - finishes_before[s]),
                             (long long)asked[i].waits);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_rank_has_the_bits_of_ref),
                                       cmocka_unit_test(two_ranks_have_the_bits_of_ref),
                                       cmocka_unit_test(four_ranks_have_the_bits_of_ref),
                                       cmocka_unit_test(other_cases_have_the_bits_of_ref),
                                       cmocka_unit_test(what_the_host_does_itself_is_refused),
                                       cmocka_unit_test(a_unit_without_the_flag_is_refused),
                                       cmocka_unit_test(the_host_waits_for_losses_and_norms_alone)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
