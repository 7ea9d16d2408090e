// Stage 0: everything is read, added up and updated whole; gradients are reduced to whole ones once
// per step.
#include "fixture.h"
#include "pass_text.h"
#include "base/dtype.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

enum { RANKS = 3 };

static const pass_concern exchange = {
    .codes = BIT(ZR_GATHER) | BIT(ZR_RELEASE) | BIT(ZR_PUBLISH) | BIT(ZR_AWAIT),
    .slots =
        BIT(ZR_SLOT_GATHER) | BIT(ZR_SLOT_READERS) | BIT(ZR_SLOT_PUBLISHED) | BIT(ZR_SLOT_RELEASED),
};

static zr_plan *planned(zero_dtype dtype, int64_t accumulation)
{
    static fixture f;
    fixture_build(&f, 1, 1000, 96);
    return fixture_plan_in(&f, dtype, 0, RANKS, accumulation, true);
}

static void units_read_tied_copies(void **state)
{
    const pass_concern reads = {BIT(ZR_BIND) | BIT(ZR_CALL) | BIT(ZR_GATHER), 0, ~0u};
    zr_plan *plan = planned(ZERO_F32, 1);
    const zr_pass *pass = &plan->program.passes[ZR_PASS_EVALUATION];
    expect_pass(pass, &reads,
                "BIND 0 parameters | CALL forward 0 | BIND 1 parameters | CALL forward 1"
                " | BIND 2 parameters | BIND 0 parameters | CALL forward 2");
    for (int p = 0; p < 3; p++)
        assert_int_equal(pass->at[find_instruction(pass, ZR_BIND, p, 0)].place.first,
                         plan->flat_params[p].full_first);
    expect_pass(&plan->program.passes[ZR_PASS_EVALUATION], &exchange, "");
    zr_plan_destroy(plan);
}

// All exchanges are begun before the first is awaited, each when the readers of what lay there have
// drained it.
static void gradients_become_whole_at_the_boundary(void **state)
{
    for (int64_t k = 1; k <= 2; k++) {
        zr_plan *plan = planned(ZERO_BF16, k);
        const zr_pass *pass = &plan->program.passes[ZR_PASS_BOUNDARY];
        expect_pass(pass, &exchange,
                    "AWAIT readers 0 | GATHER 0 | AWAIT readers 1 | GATHER 1 | AWAIT readers 2"
                    " | GATHER 2"
                    " | AWAIT gather 0 | AWAIT gather 1 | AWAIT gather 2");
        for (int p = 0; p < 3; p++) {
            const zr_flat_param *flat_param = &plan->flat_params[p];
            const zr_instruction *gather = &pass->at[find_instruction(pass, ZR_GATHER, p, 0)];
            int64_t shard =
                flat_param->shard * (int64_t)zero_dtype_bytes(flat_param->accumulator_dtype);
            assert_int_equal(gather->place.buffer,
                             k == 1 ? ZR_BUFFER_GRADIENTS : ZR_BUFFER_FULL_GRADS);
            assert_int_equal(gather->place.first, flat_param->whole.first);
            assert_int_equal(gather->bytes, (RANKS - 1) * shard);
            assert_int_equal(pass->at[find_instruction(pass, ZR_AWAIT, p, 0)].place.buffer,
                             gather->place.buffer);
        }
        int last = find_instruction(pass, ZR_GATHER, 2, 0);
        assert_true(find_instruction(pass, ZR_SQUARES, 0, 0) > last);
        zr_plan_destroy(plan);
    }
}

static void every_rank_updates_without_asking(void **state)
{
    const pass_concern all = {~0u, ~0u, ~0u};
    zr_plan *plan = planned(ZERO_F32, 1);
    expect_pass(&plan->program.passes[ZR_PASS_UPDATE], &all, "UPDATE groups if at once");
    zr_plan_destroy(plan);
}

static void tied_copies_are_gathered_when_somebody_else_wrote_them(void **state)
{
    zr_plan *plan = planned(ZERO_F32, 1);
    expect_pass(&plan->program.passes[ZR_PASS_PUBLISH], &exchange,
                "GATHER 0 if rewritten | GATHER 1 if rewritten | GATHER 2 if rewritten"
                " | AWAIT gather 0 if rewritten | AWAIT gather 1 if rewritten"
                " | AWAIT gather 2 if rewritten");
    zr_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(units_read_tied_copies),
        cmocka_unit_test(gradients_become_whole_at_the_boundary),
        cmocka_unit_test(every_rank_updates_without_asking),
        cmocka_unit_test(tied_copies_are_gathered_when_somebody_else_wrote_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
