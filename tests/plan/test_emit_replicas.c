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
static const zr_pass *pass_of_frozen(const zr_plan *plan, bool comes)
{
    const zr_pass *publish = &plan->program.passes[ZR_PASS_PUBLISH];
    expect_pass(&plan->program.passes[ZR_PASS_UPDATE], &exchange,
                "AWAIT readers 0 if changed | AWAIT readers 2 if changed"
                " | UPDATE groups if at once");
    expect_pass(publish, &exchange,
                comes ? "GATHER 0 | GATHER 1 if rewritten | GATHER 2"
                        " | AWAIT gather 0 | AWAIT gather 1 if rewritten | AWAIT gather 2"
                      : "GATHER 0 | GATHER 2 | AWAIT gather 0 | AWAIT gather 2");
    return publish;
}

static void expect_gathered(const zr_plan *plan, zr_buffer_id buffer, int64_t shards)
{
    const zr_pass *publish = pass_of_frozen(plan, true);
    const zr_instruction *gather = &publish->at[find_instruction(publish, ZR_GATHER, 1, 0)];
    assert_int_equal(gather->place.buffer, buffer);
    assert_int_equal(gather->bytes, shards * zr_flat_param_shard_bytes(&plan->flat_params[1]));
}

// In a replica; or into a machine's copy, to which some shards of other machines come; or, where
// all ranks map the copy, not at all.
static void what_is_frozen_is_gathered_when_it_was_rewritten(void **state)
{
    fixture f;
    const zr_settings settings = fixture_settings(ZERO_F32, 2, 1);
    fixture_build(&f, 1, 1000, 96);
    for (int codes = 0; codes < 2; codes++) {
        f.flat_params[1].kind = codes ? ZERO_CODES : ZERO_FROZEN;
        zr_plan *alone = fixture_plan(&f, 2, 6, 1, false),
                *machines = fixture_plan_shared(&f, &settings, 6, 2),
                *mapped = fixture_plan(&f, 2, 6, 1, true);
        expect_gathered(alone, ZR_BUFFER_PARAMETERS, 5);
        expect_gathered(machines, ZR_BUFFER_FROZEN, 2);
        pass_of_frozen(mapped, false);
        zr_plan_destroy(alone);
        zr_plan_destroy(machines);
        zr_plan_destroy(mapped);
    }
}

// It is read where it lies once, next to flat parameters in replicas.
static void what_is_frozen_is_read_in_the_copy_of_the_machine(void **state)
{
    const pass_concern reads = {
        .codes = BIT(ZR_BIND) | BIT(ZR_CALL),
        .buffers = BIT(ZR_BUFFER_PARAMETERS) | BIT(ZR_BUFFER_FROZEN),
    };
    fixture f;
    fixture_build(&f, 1, 1000, 96);
    f.flat_params[0].kind = ZERO_FROZEN;
    for (int stage = 0; stage <= 2; stage++) {
        zr_plan *plan = fixture_plan(&f, stage, RANKS, 1, true);
        expect_pass(&plan->program.passes[ZR_PASS_MICRO_BATCH], &reads,
                    "BIND 0 frozen | CALL forward 0 | BIND 1 parameters | CALL forward 1"
                    " | BIND 2 parameters | BIND 0 frozen | CALL forward_backward 2"
                    " | BIND 1 parameters | CALL backward 1 | CALL backward 0");
        zr_plan_destroy(plan);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_reads_updates_and_gathers),
        cmocka_unit_test(what_is_frozen_is_gathered_when_it_was_rewritten),
        cmocka_unit_test(what_is_frozen_is_read_in_the_copy_of_the_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
