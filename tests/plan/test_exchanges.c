// Exchanges of units with other tensor ranks: what is counted, what the windows hold, and what is
// refused.
#include "model/pipeline_stage_cut.h"
#include "plan/exchanges.h"

#include "base/traffic.h"
#include "fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

enum { SHARE = 96 }; // elements

// What every unit of a part says that it exchanges.
static const zero_unit_sizes *said;
static zero_status (*plain)(const zero_unit *unit, const zero_shape *shape, const zero_tensors *in,
                            zero_unit_sizes *out);

static zero_status with_exchanges(const zero_unit *unit, const zero_shape *shape,
                                  const zero_tensors *in, zero_unit_sizes *out)
{
    zero_status status = plain(unit, shape, in, out);
    out->exchange_count = said->exchange_count;
    out->exchange_bytes = said->exchange_bytes;
    memcpy(out->exchanges, said->exchanges, sizeof out->exchanges);
    return status;
}

typedef struct parts {
    fixture whole, part;
    zero_unit_ops ops;
} parts;

// Builds rank 1's part of a model, of which the block of number 1 exchanges what is said.
static void build(parts *p, int blocks, int ranks, const zero_unit_sizes *sizes)
{
    fixture_build(&p->whole, blocks, 1000, 96);
    fixture_cut(&p->part, &p->whole, 1, ranks);
    said = sizes;
    p->ops = *p->part.units[1].ops;
    plain = p->ops.sizes;
    p->ops.sizes = with_exchanges;
    p->part.units[1].ops = &p->ops;
}

// A sum of forward, two sums and one gather of backward, and a sum of those that share a flat
// parameter.
static const zero_unit_sizes usual = {
    .exchange_count = 4,
    .exchange_bytes = 4 * SHARE * sizeof(float) + 4,
    .exchanges = {{ZERO_EXCHANGE_SUM, 0, 0, SHARE, ZERO_F32, 1},
                  {ZERO_EXCHANGE_SUM, 1, 0, SHARE, ZERO_F32, 2},
                  {ZERO_EXCHANGE_GATHER, 1, 0, SHARE, ZERO_BF16, 1, ZERO_EXCHANGE_FOR_rows},
                  {ZERO_EXCHANGE_SUM, 1, 2, SHARE, ZERO_F32, 1, ZERO_EXCHANGE_FOR_shared}},
};

// What exchanges are for adds up to what all groups exchange.
static void assert_purposes_add_up(const zr_pass_traffic *pass)
{
    int64_t calls[ZERO_COMM_OP_COUNT] = {0}, bytes[ZERO_COMM_OP_COUNT] = {0};
    for (int p = 0; p < ZERO_EXCHANGE_PURPOSE_COUNT; p++)
        for (int k = 0; k < ZR_EXCHANGE_KINDS; k++) {
            calls[zr_exchange_op((zero_exchange_kind)k)] += pass->exchanges.calls[p][k];
            bytes[zr_exchange_op((zero_exchange_kind)k)] += pass->exchanges.bytes[p][k];
        }
    for (int op = 0; op < ZERO_COMM_OP_COUNT; op++) {
        assert_int_equal(calls[op], pass->tensor.calls[op] + pass->replicas.calls[op]);
        assert_int_equal(bytes[op], pass->tensor.bytes[op] + pass->replicas.bytes[op]);
    }
}

static void calls_are_counted_by_group(void **state)
{
    parts p;
    build(&p, 1, 4, &usual);
    p.part.flat_params[1].replicas = 2;
    zr_plan *plan = fixture_plan_cut(&p.part, 2, 2, 1, 4);
    const zr_pass_traffic *pass = &plan->traffic[ZR_PASS_MICRO_BATCH],
                          *evaluation = &plan->traffic[ZR_PASS_EVALUATION];
    assert_int_equal(plan->replicas, 2);
    assert_int_equal(pass->tensor.messages, 4);
    assert_int_equal(pass->tensor.calls[ZERO_COMM_all_reduce], 3);
    assert_int_equal(pass->tensor.bytes[ZERO_COMM_all_reduce], 3 * 2 * 3 * SHARE * 4);
    assert_int_equal(pass->tensor.bytes[ZERO_COMM_all_gather], 3 * SHARE * 2);
    assert_int_equal(pass->replicas.messages, 1);
    assert_int_equal(pass->replicas.bytes[ZERO_COMM_all_reduce], 2 * SHARE * 4);
    assert_int_equal(evaluation->tensor.messages, 1);
    assert_int_equal(evaluation->replicas.messages, 0);
    assert_int_equal(plan->traffic[ZR_PASS_UPDATE].tensor.messages, 0);
    assert_int_equal(zr_exchanged_bytes(plan),
                     3 * 2 * 3 * SHARE * 4 + 3 * SHARE * 2 + 2 * SHARE * 4);
    zr_plan_destroy(plan);
}

static void calls_are_counted_by_purpose(void **state)
{
    parts p;
    build(&p, 1, 4, &usual);
    p.part.flat_params[1].replicas = 2;
    zr_plan *plan = fixture_plan_cut(&p.part, 2, 2, 1, 4);
    const zr_pass_traffic *pass = &plan->traffic[ZR_PASS_MICRO_BATCH];
    const zr_exchange_table *table = &pass->exchanges;
    assert_int_equal(table->calls[ZERO_EXCHANGE_FOR_other][ZERO_EXCHANGE_SUM], 3);
    assert_int_equal(table->calls[ZERO_EXCHANGE_FOR_rows][ZERO_EXCHANGE_GATHER], 1);
    assert_int_equal(table->bytes[ZERO_EXCHANGE_FOR_rows][ZERO_EXCHANGE_GATHER], 3 * SHARE * 2);
    assert_int_equal(table->calls[ZERO_EXCHANGE_FOR_shared][ZERO_EXCHANGE_SUM], 1);
    assert_int_equal(table->bytes[ZERO_EXCHANGE_FOR_shared][ZERO_EXCHANGE_SUM], 2 * SHARE * 4);
    assert_purposes_add_up(pass);
    assert_purposes_add_up(&plan->traffic[ZR_PASS_EVALUATION]);
    zr_plan_destroy(plan);
}

// In the order of the calls: forward's, then backward's.
static void the_hash_is_that_of_the_messages(void **state)
{
    parts p;
    uint64_t hash = ZR_MESSAGE_SEED;
    build(&p, 1, 4, &usual);
    p.part.flat_params[1].replicas = 2;
    zr_plan *plan = fixture_plan_cut(&p.part, 0, 1, 1, 4);
    for (int i = 0; i < 3; i++)
        hash = zr_message_fold(hash, ZERO_COMM_all_reduce, ZERO_EXCHANGE_SUM, SHARE);
    hash = zr_message_fold(hash, ZERO_COMM_all_gather, ZERO_EXCHANGE_GATHER, SHARE);
    assert_true(plan->traffic[ZR_PASS_MICRO_BATCH].tensor.hash == hash);
    zr_plan_destroy(plan);
}

// The parts of a backward make each exchange of it once, as one backward does.
static void each_part_of_a_split_backward_has_its_own(void **state)
{
    parts p;
    zero_unit_sizes sizes = usual;
    sizes.exchanges[2].in_weight = 1;
    sizes.exchanges[0].in_weight = 1; // of forward: says nothing
    build(&p, 1, 4, &sizes);
    p.part.flat_params[1].replicas = 2;
    zr_plan *plan = fixture_plan_cut(&p.part, 0, 1, 1, 4);
    zr_pass_traffic input = zr_traffic_none(), weight = zr_traffic_none(),
                    forward = zr_traffic_none(), whole = zr_traffic_none();
    zr_exchanges_fold(plan, &sizes, ZR_CALL_FORWARD, &forward);
    zr_exchanges_fold(plan, &sizes, ZR_CALL_BACKWARD, &whole);
    zr_exchanges_fold(plan, &sizes, ZR_CALL_INPUT, &input);
    zr_exchanges_fold(plan, &sizes, ZR_CALL_WEIGHT, &weight);
    assert_int_equal(forward.tensor.messages, 1);
    assert_int_equal(whole.tensor.messages, 3);
    assert_int_equal(whole.replicas.messages, 1);
    assert_int_equal(input.tensor.messages, 2);
    assert_int_equal(input.tensor.calls[ZERO_COMM_all_reduce], 2);
    assert_int_equal(input.replicas.messages, 1);
    assert_int_equal(weight.tensor.messages, 1);
    assert_int_equal(weight.tensor.calls[ZERO_COMM_all_gather], 1);
    assert_int_equal(weight.replicas.messages, 0);
    assert_int_equal(whole.tensor.bytes[ZERO_COMM_all_gather],
                     weight.tensor.bytes[ZERO_COMM_all_gather]);
    zr_plan_destroy(plan);
}

// A block that is computed again exchanges again what forward does. The last segment is not.
static void what_is_computed_again_exchanges_again(void **state)
{
    parts p;
    build(&p, 3, 4, &usual);
    p.part.flat_params[1].replicas = 2;
    const zero_shape shape = {.batch = 2, .seq = 8};
    const zr_machine machine = {.ranks = 1, .tensor_ranks = 4, .tensor_rank = 1, .mapped = true};
    zr_settings settings = fixture_settings(ZERO_F32, 1, 1);
    zr_plan *plan = NULL;
    settings.activation_checkpoints = 2;
    assert_int_equal(zr_plan_create(&p.part.model, &shape, &settings, &machine, &plan, NULL),
                     ZERO_OK);
    const zr_pass_traffic *pass = &plan->traffic[ZR_PASS_MICRO_BATCH];
    assert_int_equal(pass->tensor.calls[ZERO_COMM_all_reduce], 4);
    assert_int_equal(pass->tensor.calls[ZERO_COMM_all_gather], 1);
    zr_plan_destroy(plan);
}

// A JOIN is a gather, of a slot of its own, in the order of the program: each of the fixture's
// boundaries is 128 bytes, of which four ranks keep shares of 64.
static void shares_of_checkpoints_are_gathered(void **state)
{
    parts p;
    static const zero_unit_sizes none;
    build(&p, 3, 4, &none);
    zr_settings settings = fixture_settings(ZERO_F32, 1, 1);
    settings.activation_checkpoints = 4;
    settings.partition_activations = true;
    zr_plan *plan = fixture_plan_set(&p.part, &settings, 1, 1, 4);
    const zr_pass_traffic *pass = &plan->traffic[ZR_PASS_MICRO_BATCH];
    const zr_traffic_plan *tensor = &pass->tensor;
    uint64_t hash = ZR_MESSAGE_SEED;
    for (int i = 0; i < 2; i++)
        hash = zr_message_fold(hash, ZERO_COMM_all_gather, ZR_EXCHANGE_JOIN, 64 / 4);
    assert_int_equal(tensor->messages, 2);
    assert_int_equal(tensor->calls[ZERO_COMM_all_gather], 2);
    assert_int_equal(tensor->bytes[ZERO_COMM_all_gather], 2 * 3 * 64);
    assert_true(tensor->hash == hash);
    assert_int_equal(plan->traffic[ZR_PASS_EVALUATION].tensor.messages, 0);
    assert_int_equal(zr_exchanged_bytes(plan), 2 * 3 * 64);
    assert_int_equal(pass->exchanges.calls[ZERO_EXCHANGE_FOR_checkpoints][ZERO_EXCHANGE_GATHER], 2);
    assert_purposes_add_up(pass);
    zr_plan_destroy(plan);
}

// The windows are as large as the largest unit's operands, and count as communication.
static void windows_are_planned(void **state)
{
    parts p;
    build(&p, 1, 4, &usual);
    p.part.flat_params[1].replicas = 2;
    zr_plan *plan = fixture_plan_cut(&p.part, 0, 1, 1, 4);
    assert_int_equal(plan->exchange_bytes, 4 * SHARE * 4 + 64);
    assert_int_equal(plan->shared_exchange_bytes, 2 * SHARE * 4);
    int64_t with = plan->bytes[ZERO_TIER_device][ZERO_MEM_communication];
    zr_plan_destroy(plan);
    static const zero_unit_sizes none;
    build(&p, 1, 4, &none);
    plan = fixture_plan_cut(&p.part, 0, 1, 1, 4);
    assert_int_equal(plan->exchange_bytes + plan->shared_exchange_bytes, 0);
    assert_int_equal(plan->bytes[ZERO_TIER_device][ZERO_MEM_communication],
                     with - 4 * SHARE * 4 - 64 - 2 * SHARE * 4);
    zr_plan_destroy(plan);
}

// Alone, a rank exchanges nothing, whatever its units would with others.
static void one_tensor_rank_exchanges_nothing(void **state)
{
    parts p;
    build(&p, 1, 2, &usual);
    zr_plan *plan = fixture_plan_cut(&p.part, 0, 2, 0, 1);
    assert_int_equal(plan->traffic[ZR_PASS_MICRO_BATCH].tensor.messages, 0);
    assert_int_equal(plan->traffic[ZR_PASS_MICRO_BATCH].replicas.messages, 0);
    assert_int_equal(plan->exchange_bytes, 0);
    assert_int_equal(zr_exchanged_bytes(plan), 0);
    zr_plan_destroy(plan);
}

static void refused(const zero_unit_sizes *sizes, const char *words)
{
    parts p;
    zero_error error = {0};
    zr_plan *plan = NULL;
    const zero_shape shape = {.batch = 2, .seq = 8};
    const zr_machine machine = {.ranks = 1, .tensor_ranks = 4, .tensor_rank = 1};
    const zr_settings settings = fixture_settings(ZERO_F32, 1, 1);
    build(&p, 1, 4, sizes);
    assert_int_equal(zr_plan_create(&p.part.model, &shape, &settings, &machine, &plan, &error),
                     ZERO_ERR_USAGE);
    if (!strstr(error.message, words))
        fail_msg("\"%s\" lacks \"%s\"", error.message, words);
}

static void wrong_exchanges_are_refused(void **state)
{
    zero_unit_sizes sizes = usual;
    sizes.exchange_count = ZERO_MAX_EXCHANGES + 1;
    refused(&sizes, "33 exchanges with other tensor ranks (at most 32)");
    refused(&usual, "its exchange 3: no flat parameter is held by that many tensor ranks");
    sizes = usual;
    sizes.exchange_bytes = 4 * SHARE * 4 - 1;
    refused(&sizes, "its exchange 0: its operand is larger than");
    sizes = usual;
    sizes.exchanges[0].dtype = ZERO_BF16;
    refused(&sizes, "its exchange 0: sums are of fp32");
    sizes = usual;
    sizes.exchanges[0].kind = (zero_exchange_kind)7;
    refused(&sizes, "its exchange 0: sums are of fp32");
    sizes = usual;
    sizes.exchanges[0].purpose = ZERO_EXCHANGE_PURPOSE_COUNT;
    refused(&sizes, "its exchange 0: its purpose is no zero_exchange_purpose");
    sizes = usual;
    sizes.exchanges[2].elements = -1;
    refused(&sizes, "its exchange 2: its operand is larger than");
    sizes = usual;
    sizes.exchanges[1].elements = INT64_MAX / 2;
    refused(&sizes, "its exchange 1: its operand is larger than");
}

static void flat_params_are_shared_by_one_number_of_ranks(void **state)
{
    fixture whole, part;
    zero_error error = {0};
    int replicas;
    fixture_build(&whole, 3, 1000, 96);
    fixture_cut(&part, &whole, 0, 8);
    assert_int_equal(zr_model_replicas(&part.model, 8, &replicas, NULL), ZERO_OK);
    assert_int_equal(replicas, 0);
    part.flat_params[0].replicas = 8;
    part.flat_params[1].replicas = 1;
    part.flat_params[2].replicas = part.flat_params[3].replicas = 4;
    assert_int_equal(zr_model_replicas(&part.model, 8, &replicas, NULL), ZERO_OK);
    assert_int_equal(replicas, 4);
    static const zr_unit_range first[] = {{0, 1}}; // none of its own flat parameters is shared by 4
    zero_model *stage = NULL;
    assert_int_equal(zr_pipeline_stage_cut(&part.model, first, 1, false, &stage, &error), ZERO_OK);
    assert_int_equal(zr_model_replicas(stage, 8, &replicas, NULL), ZERO_OK);
    assert_int_equal(replicas, 4);
    zr_pipeline_stage_free(stage);
    part.flat_params[3].replicas = 2;
    assert_int_equal(zr_model_replicas(&part.model, 8, &replicas, &error), ZERO_ERR_USAGE);
    assert_non_null(
        strstr(error.message, "2 tensor ranks share flat parameter 0 of unit \"h.2\", and 4"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_are_counted_by_group),
        cmocka_unit_test(calls_are_counted_by_purpose),
        cmocka_unit_test(the_hash_is_that_of_the_messages),
        cmocka_unit_test(each_part_of_a_split_backward_has_its_own),
        cmocka_unit_test(what_is_computed_again_exchanges_again),
        cmocka_unit_test(shares_of_checkpoints_are_gathered),
        cmocka_unit_test(windows_are_planned),
        cmocka_unit_test(one_tensor_rank_exchanges_nothing),
        cmocka_unit_test(wrong_exchanges_are_refused),
        cmocka_unit_test(flat_params_are_shared_by_one_number_of_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
