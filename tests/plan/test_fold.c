// The messages and bytes of a program: what the paper says of a step, and the share of each
// instruction, for passes written by hand.
#include "base/dtype.h"
#include "base/numbers.h"
#include "base/traffic.h"
#include "pipeline_fixture.h"
#include "plan/exchanges.h"
#include "plan/plan_parts.h"
#include "program_turns.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

// Elements that a rank exchanges in a step, as a multiple of the parameters: contract 4's K+1 at
// stages 0 to 2, and 3K at stage 3.
typedef struct step_volume {
    double reduce_scatter, all_gather;
} step_volume;

static step_volume volume_of_step(int stage, double accumulation)
{
    return (step_volume){.reduce_scatter = accumulation,
                         .all_gather = stage == 3 ? 2 * accumulation : 1};
}

// Elements exchanged a step against contract 4, the flat parameters that are needed once (the
// head's own) aside.
static void test_volume(void **state)
{
    fixture f;
    fixture_build(&f, 5, 4096, 1024);
    for (int stage = 0; stage < 4; stage++)
        for (int run = 0; run < 5; run++) {
            zero_dtype dtype = run < 3 ? ZERO_F32 : ZERO_BF16;
            int k = run < 3 ? run + 1 : run == 3 ? 1 : stage == 0 ? 1 : 4;
            zr_plan *plan = fixture_plan_in(&f, dtype, stage, 4, k, false);
            step_volume volume = volume_of_step(stage, k);
            const zr_pass_traffic *s = plan->traffic;
            double gathered = 0;
            double reduced =
                (double)k * (double)s[ZR_PASS_MICRO_BATCH].data.bytes[ZERO_COMM_reduce_scatter];
            gathered += (double)k * (double)s[ZR_PASS_MICRO_BATCH].data.bytes[ZERO_COMM_all_gather];
            gathered += (double)s[ZR_PASS_BOUNDARY].data.bytes[ZERO_COMM_all_gather];
            gathered += (double)s[ZR_PASS_PUBLISH].data.bytes[ZERO_COMM_all_gather];
            double size = dtype == ZERO_F32 ? 4 : 2, unit = size * (double)plan->elems * 3 / 4;
            assert_true(reduced == volume.reduce_scatter * unit);
            double head =
                size * 3 / 4 * (double)plan->flat_params[plan->flat_param_count - 1].padded;
            assert_true(gathered == volume.all_gather * unit - (stage == 3 ? k * head : 0));
            zr_plan_destroy(plan);
        }
}

static void test_mapped_moves_nothing(void **state)
{
    fixture f;
    fixture_build(&f, 3, 1000, 100);
    zr_plan *plan = fixture_plan(&f, 3, 4, 1, true);
    const zr_traffic_plan *micro = &plan->traffic[ZR_PASS_MICRO_BATCH].data;
    assert_true(micro->calls[ZERO_COMM_all_gather] > 0);
    assert_int_equal(micro->bytes[ZERO_COMM_all_gather], 0);
    zr_plan_destroy(plan);
}

enum { WRITTEN = 11 };

// One instruction of each kind that counts, and some that do not. Flat parameter 0 has its shard on
// NVMe.
static const zr_instruction written[WRITTEN] = {
    {.code = ZR_GATHER, .flat_param = 0, .from = {ZR_BUFFER_STAGED_PARAMETERS, 0}, .bytes = 1},
    {.code = ZR_GATHER, .flat_param = 0}, // it is here: a message all the same
    {.code = ZR_GATHER, .flat_param = 1, .when = ZR_FRESH, .bytes = 1000},
    {.code = ZR_GATHER, .flat_param = 1, .when = ZR_REWRITTEN, .bytes = 1000},
    {.code = ZR_REDUCE, .flat_param = 2, .bytes = 10},
    {.code = ZR_FETCH, .flat_param = 0, .slot = {ZR_SLOT_FETCHED, 0}, .bytes = 100},
    {.code = ZR_STORE, .flat_param = 2, .slot = {ZR_SLOT_TRAVELLED, 2}, .bytes = 200},
    {.code = ZR_FETCH,
     .flat_param = 2,
     .slot = {ZR_SLOT_TRAVELLED, 2},
     .when = ZR_LATER,
     .bytes = 300},
    {.code = ZR_STORE, .flat_param = -1, .slot = {ZR_SLOT_KEPT, 0}, .bytes = 400},
    {.code = ZR_FETCH,
     .flat_param = 1,
     .slot = {ZR_SLOT_FETCHED, 1},
     .when = ZR_OUTDATED,
     .bytes = 500},
    {.code = ZR_AWAIT, .flat_param = -1, .slot = {ZR_SLOT_FETCHED, 0}, .bytes = 1000},
};

// The plan with these instructions as its micro-batch and nothing else, folded.
static zr_plan folded(const zr_plan *plan, zr_instruction *at)
{
    zr_plan other = *plan;
    memcpy(at, written, sizeof written);
    memset(&other.program, 0, sizeof other.program);
    memset(&other.moves, 0, sizeof other.moves);
    other.program.passes[ZR_PASS_MICRO_BATCH] = (zr_pass){.at = at, .count = WRITTEN};
    zr_plan_fold(&other);
    return other;
}

static zr_plan *on_nvme(fixture *f)
{
    zr_settings settings = fixture_settings(ZERO_BF16, 3, 2);
    settings.tiering = fixture_on_nvme;
    settings.activation_checkpoint_tier = ZERO_TIER_host;
    fixture_build(f, 1, 1000, 96);
    return fixture_plan_of(f, &settings, 2, true);
}

static void messages_are_folded_in_order(void **state)
{
    fixture f;
    zr_instruction at[WRITTEN];
    zr_plan *plan = on_nvme(&f), other = folded(plan, at);
    const zr_traffic_plan *traffic = &other.traffic[ZR_PASS_MICRO_BATCH].data;
    uint64_t hash = ZR_MESSAGE_SEED;
    hash = zr_message_fold(hash, ZERO_COMM_all_gather, 0, plan->flat_params[0].shard);
    hash = zr_message_fold(hash, ZERO_COMM_all_gather, 0, plan->flat_params[0].shard);
    hash = zr_message_fold(hash, ZERO_COMM_reduce_scatter, 2, plan->flat_params[2].shard);
    assert_true(traffic->hash == hash);
    assert_int_equal(traffic->messages, 3);
    assert_int_equal(traffic->calls[ZERO_COMM_all_gather], 2);
    assert_int_equal(traffic->bytes[ZERO_COMM_all_gather], 1);
    assert_int_equal(traffic->calls[ZERO_COMM_reduce_scatter], 1);
    assert_int_equal(traffic->bytes[ZERO_COMM_reduce_scatter], 10);
    for (int s = 0; s < ZR_PASS_COUNT; s++) {
        if (s == ZR_PASS_MICRO_BATCH)
            continue;
        assert_int_equal(other.traffic[s].data.messages, 0);
        assert_true(other.traffic[s].data.hash == ZR_MESSAGE_SEED);
    }
    zr_plan_destroy(plan);
}

// Parameters and sums pass through the host: to the device as they are gathered, from it as they
// are reduced.
static void bytes_between_tiers_are_counted_once(void **state)
{
    fixture f;
    zr_instruction at[WRITTEN];
    zr_plan *plan = on_nvme(&f), other = folded(plan, at);
    const zr_moves *moves = &other.moves;
    assert_int_equal(moves->micro_batch.to_device,
                     zr_flat_param_shard_bytes(&plan->flat_params[0]));
    assert_int_equal(moves->micro_batch.to_host, plan->flat_params[2].shard * 4 + 400);
    assert_int_equal(moves->micro_batch.nvme_read, 100);
    assert_int_equal(moves->micro_batch.nvme_written, 200);
    assert_int_equal(moves->earlier_sum.nvme_read, 300);
    assert_int_equal(moves->earlier_sum.to_host + moves->earlier_sum.to_device, 0);
    // of the last pass that gathers them: the evaluation's
    assert_int_equal(moves->kept.nvme_read, 0);
    zr_plan_destroy(plan);
}

// Both kinds of pass gather what is kept: it is counted once, whichever comes first.
static void what_is_kept_is_counted_apart(void **state)
{
    fixture f;
    zr_tiering tiering = fixture_on_nvme;
    tiering.persistent = tiering.persistent_most = 50000; // the block's and the head's
    fixture_build(&f, 1, 1000, 96);
    zr_plan *plan = fixture_plan_on_tiers(&f, 3, 2, 1, &tiering);
    int64_t small = zr_flat_param_shard_bytes(&plan->flat_params[2]);
    int64_t block = zr_flat_param_shard_bytes(&plan->flat_params[1]);
    int64_t embedding = zr_flat_param_shard_bytes(&plan->flat_params[0]);
    assert_int_equal(plan->moves.kept.nvme_read, small + block);
    assert_int_equal(plan->moves.kept.to_device, small + block);
    // for itself and for the head
    assert_int_equal(plan->moves.micro_batch.nvme_read, 2 * embedding);
    assert_int_equal(plan->moves.forward.nvme_read, 2 * embedding);
    zr_plan_destroy(plan);
}

// Checks what a pass sends and receives at the end of a step. mapped: what comes is not counted.
static void assert_traffic(const zr_plan *plan, zr_pass_kind pass, int sends, int receives)
{
    const zr_traffic_plan *found = &plan->traffic[pass].pipeline;
    const int64_t bytes = sizeof(zr_step_sums);
    assert_int_equal(found->messages, sends + receives);
    assert_int_equal(found->calls[ZERO_COMM_send], sends);
    assert_int_equal(found->calls[ZERO_COMM_recv], receives);
    assert_int_equal(found->bytes[ZERO_COMM_send], sends * bytes);
    assert_int_equal(found->bytes[ZERO_COMM_recv], plan->pipeline->mapped ? 0 : receives * bytes);
}

// Under 2bw each stage but the first sends its sums and receives the total; a step has what its
// micro-batches have, and this.
static void check_sums_traffic(const pipeline_plans *stages)
{
    const zr_pipeline *pipeline = &stages->plans[0]->pipeline->pipeline;
    int others = pipeline->kind == ZR_PIPELINE_2BW ? stages->count - 1 : 0;
    for (int s = 0; s < stages->count; s++) {
        const zr_plan *plan = stages->plans[s];
        const zr_pass_traffic step = zr_traffic_of_step(plan);
        int64_t messages = 0, own = s ? 2 * (others > 0) : 2 * others;
        for (int a = 0; a < plan->action_count; a++)
            if (program_has_pass(&plan->actions[a]))
                messages += plan->traffic[program_pass_of(&plan->actions[a])].pipeline.messages;
        assert_traffic(plan, ZR_PASS_BOUNDARY, s ? others > 0 : others, s ? 0 : others);
        assert_traffic(plan, ZR_PASS_TOTAL, 0, s ? others > 0 : 0);
        assert_traffic(plan, ZR_PASS_UPDATE, 0, 0);
        assert_traffic(plan, ZR_PASS_PUBLISH, 0, 0);
        assert_int_equal(step.pipeline.messages, messages / pipeline->steps + own);
    }
}

static void a_step_of_2bw_sends_its_sums(void **state) { pipeline_for_all(check_sums_traffic); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_volume),
        cmocka_unit_test(test_mapped_moves_nothing),
        cmocka_unit_test(messages_are_folded_in_order),
        cmocka_unit_test(bytes_between_tiers_are_counted_once),
        cmocka_unit_test(what_is_kept_is_counted_apart),
        cmocka_unit_test(a_step_of_2bw_sends_its_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
