// Ranks that are in four groups at once: the job, its data ranks, its tensor ranks, and those of
// them that share heads of keys and values. A comm thread reduces gradients among data ranks while
// the units exchange among tensor ranks. Then a unit of one rank fails in the middle of all that.
#include "harness.h"

#include "base/errors.h"
#include "base/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

enum { DATA = 2, TENSOR = 4, WORLD = DATA * TENSOR, FAILING = 5 };

static zero_llama_config config;

static harness_case case_of(int stage)
{
    config = harness_llama();
    config.n_layer = 3;
    config.attention_dropout = 0.1f;
    return (harness_case){.stage = stage,
                          .ranks = DATA,
                          .accumulation = 2,
                          .batch = 2,
                          .llama = &config,
                          .slices = TENSOR,
                          .tensor = TENSOR,
                          .by_rows = stage % 2};
}

// Exchanges of all groups go on at once, a checkpoint is saved beside a step, and the bits are
// those of a job that does one thing after another.
static void all_groups_work_at_once(void **state)
{
    static harness_result plain, overlapped;
    char directory[64];
    snprintf(directory, sizeof directory, "%s/zero-groups-XXXXXX", harness_scratch());
    assert_non_null(mkdtemp(directory));
    for (int stage = 0; stage <= 3; stage++) {
        harness_case c = case_of(stage);
        harness_run(&c, &plain);
        c.overlap = true;
        if (stage == 2) {
            c.save = directory;
            c.save_at = 1;
            c.overlapped = true;
        }
        harness_run(&c, &overlapped);
        harness_expect_held(&overlapped);
        assert_true(plain.norm[0] > 0 && plain.loss[0] != plain.loss[1]);
        assert_int_equal(overlapped.saved, ZERO_OK);
        if (!harness_equal(&plain, &overlapped))
            fail_msg("stage %d: other bits with overlap", stage);
    }
    assert_int_equal(zr_directory_remove(directory, NULL), ZERO_OK);
}

static const zero_unit_ops *real; // of the failing rank's second block
static zero_unit_ops failing;
static int calls_left; // until it fails

static zero_status fail_at_last(zero_context *context)
{
    return --calls_left ? ZERO_OK
                        : zr_fail(context->error, ZERO_ERR_DATA, "this unit fails on purpose");
}

static zero_status fail_in_forward(zero_context *context, const zero_tensors *in,
                                   const zero_tensors *out)
{
    ZERO_TRY(fail_at_last(context));
    return real->forward(context, in, out);
}

static zero_status fail_in_backward(zero_context *context, const zero_tensors *in,
                                    const zero_tensors *d_out, const zero_tensors *d_in)
{
    ZERO_TRY(real->backward(context, in, d_out, d_in));
    return fail_at_last(context);
}

static void make_fail(zero_model *part, zero_comm *comm, bool in_backward)
{
    if (zero_comm_rank(comm) != FAILING)
        return;
    zero_unit *block = (zero_unit *)&part->units[2]; // the harness made it, and it can be written
    real = block->ops;
    failing = *real;
    if (in_backward)
        failing.backward = fail_in_backward;
    else
        failing.forward = fail_in_forward;
    block->ops = &failing;
}

static void make_forward_fail(zero_model *part, zero_comm *comm) { make_fail(part, comm, false); }
static void make_backward_fail(zero_model *part, zero_comm *comm) { make_fail(part, comm, true); }

// Nobody waits for the deadline: neither its tensor ranks, nor its data rank, nor the ranks that
// are in no group with it but the job.
static void one_rank_fails(harness_case c)
{
    static harness_result out;
    harness_failure ranks[WORLD];
    struct timespec before, after;
    calls_left = 4; // the second micro-batch of the second step
    clock_gettime(CLOCK_MONOTONIC, &before);
    harness_try(&c, &out, ranks);
    clock_gettime(CLOCK_MONOTONIC, &after);
    assert_int_equal(calls_left, 0);
    for (int r = 0; r < WORLD; r++) {
        zero_status wanted = r == FAILING ? ZERO_ERR_DATA : ZERO_ERR_PEER;
        const char *said = ranks[r].error.message;
        if (ranks[r].status != wanted || !strstr(said, "this unit fails on purpose") ||
            (r != FAILING && !strstr(said, "rank 5")))
            fail_msg("stage %d, rank %d: %s: %s", c.stage, r, zero_status_name(ranks[r].status),
                     said);
    }
    assert_true(after.tv_sec - before.tv_sec < HARNESS_TIMEOUT / 2);
    assert_true(out.loss[0] > 0 && out.loss[2] == 0);
}

static void all_end_where_a_unit_fails(void **state)
{
    for (int stage = 0; stage <= 3; stage++) {
        harness_case c = case_of(stage);
        c.overlap = true;
        c.changes_part = make_forward_fail;
        one_rank_fails(c);
        c.changes_part = make_backward_fail;
        one_rank_fails(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_groups_work_at_once),
        cmocka_unit_test(all_end_where_a_unit_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
