// Stages 1 and 2: tied copies are read, the rank's own shards are updated, and they are gathered
// from all ranks after the update.
#include "fixture.h"
#include "pass_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

enum { RANKS = 3 };

static const pass_concern exchange = {
    .codes = BIT(ZR_GATHER) | BIT(ZR_RELEASE) | BIT(ZR_PUBLISH) | BIT(ZR_AWAIT) | BIT(ZR_UPDATE),
    .slots =
        BIT(ZR_SLOT_GATHER) | BIT(ZR_SLOT_READERS) | BIT(ZR_SLOT_PUBLISHED) | BIT(ZR_SLOT_RELEASED),
};

static void check_reads(const zr_plan *plan)
{
    const pass_concern reads = {
        .codes = BIT(ZR_BIND) | BIT(ZR_CALL) | BIT(ZR_GATHER),
        .buffers = BIT(ZR_BUFFER_PARAMETERS),
    };
    const zr_pass *pass = &plan->program.passes[ZR_PASS_MICRO_BATCH];
    expect_pass(pass, &reads,
                "BIND 0 parameters | CALL forward 0 | BIND 1 parameters | CALL forward 1"
                " | BIND 2 parameters | BIND 0 parameters | CALL forward_backward 2"
                " | BIND 1 parameters | CALL backward 1 | CALL backward 0");
    for (int p = 0; p < 3; p++)
        assert_int_equal(pass->at[find_instruction(pass, ZR_BIND, p, 0)].place.first,
                         plan->flat_params[p].full_first);
}

static void check_publish(const zr_plan *plan)
{
    const zr_pass *pass = &plan->program.passes[ZR_PASS_PUBLISH];
    expect_pass(pass, &exchange,
                "GATHER 0 | GATHER 1 | GATHER 2 | AWAIT gather 0 | AWAIT gather 1"
                " | AWAIT gather 2");
    for (int p = 0; p < 3; p++) {
        const zr_instruction *gather = &pass->at[find_instruction(pass, ZR_GATHER, p, 0)];
        assert_int_equal(gather->place.buffer, ZR_BUFFER_PARAMETERS);
        assert_int_equal(gather->place.first, plan->flat_params[p].full_first);
        assert_int_equal(gather->bytes,
                         (RANKS - 1) * zr_flat_param_shard_bytes(&plan->flat_params[p]));
    }
}

static void a_step_reads_updates_and_gathers(void **state)
{
    fixture f;
    fixture_build(&f, 1, 1000, 96);
    for (int stage = 1; stage <= 2; stage++) {
        zr_plan *plan = fixture_plan(&f, stage, RANKS, 1, true);
        check_reads(plan);
        expect_pass(&plan->program.passes[ZR_PASS_BOUNDARY], &exchange, "");
        expect_pass(&plan->program.passes[ZR_PASS_UPDATE], &exchange,
                    "AWAIT readers 0 if changed | AWAIT readers 1 if changed"
                    " | AWAIT readers 2 if changed"
                    " | UPDATE groups if at once");
        check_publish(plan);
        zr_plan_destroy(plan);
    }
}

// Nobody updates it: it is neither waited for nor gathered, unless weights were loaded.
static void what_is_frozen_is_gathered_when_it_was_rewritten(void **state)
{
    fixture f;
    fixture_build(&f, 1, 1000, 96);
    f.flat_params[1].kind = ZERO_FROZEN;
    zr_plan *plan = fixture_plan(&f, 2, RANKS, 1, true);
    expect_pass(&plan->program.passes[ZR_PASS_UPDATE], &exchange,
                "AWAIT readers 0 if changed | AWAIT readers 2 if changed"
                " | UPDATE groups if at once");
    expect_pass(&plan->program.passes[ZR_PASS_PUBLISH], &exchange,
                "GATHER 0 | GATHER 1 if rewritten | GATHER 2"
                " | AWAIT gather 0 | AWAIT gather 1 if rewritten | AWAIT gather 2");
    zr_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_reads_updates_and_gathers),
        cmocka_unit_test(what_is_frozen_is_gathered_when_it_was_rewritten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
