// Plans whose weights and contributions are blocks of codes: where tensors begin, what is kept,
// sent and held, and that the program of such a plan is as sound as any.
#include "fixture.h"
#include "program_checks.h"

#include "plan/accumulators.h"
#include "plan/groups.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

// Returns the bytes of whole blocks, as base/blocks.h draws them.
static int64_t coded(int bits, int64_t elems) { return elems / 256 * (4 + 256 * bits / 8); }

static zr_settings settings_of(zero_dtype dtype, int stage, int weight_bits, int gradient_bits)
{
    zr_settings settings = fixture_settings(dtype, stage, 1);
    settings.weight_bits = weight_bits;
    settings.gradient_bits = gradient_bits;
    return settings;
}

// Calls a check for stages, ranks, types, micro-batches and codes; the plan without codes is next
// to it.
typedef void (*coded_check)(const zr_plan *plan, const zr_plan *plain);

static void check_plans(const fixture *f, zr_settings settings, coded_check check)
{
    static const int ranks[] = {1, 2, 3, 8};
    zr_settings plain = settings;
    plain.weight_bits = plain.gradient_bits = 0;
    for (int r = 0; r < ZR_COUNT(ranks); r++)
        for (int mapped = 0; mapped < 2; mapped++) {
            zr_plan *with = fixture_plan_of(f, &settings, ranks[r], mapped),
                    *without = fixture_plan_of(f, &plain, ranks[r], mapped);
            check(with, without);
            zr_plan_destroy(with);
            zr_plan_destroy(without);
        }
}

static void for_codes(coded_check check)
{
    static const struct {
        int weight_bits, gradient_bits;
    } codes[] = {{8, 0}, {0, 4}, {0, 8}, {8, 4}, {8, 8}};
    fixture f;
    fixture_build(&f, 3, 1000, 100);
    for (int stage = 1; stage < 4; stage++)
        for (int c = 0; c < ZR_COUNT(codes); c++)
            for (zero_dtype dtype = ZERO_F32; dtype <= ZERO_F16; dtype++)
                for (int64_t k = 1; k <= 2; k++) {
                    zr_settings settings =
                        settings_of(dtype, stage, codes[c].weight_bits, codes[c].gradient_bits);
                    settings.accumulation = k;
                    if (stage == 3 || !codes[c].weight_bits)
                        check_plans(&f, settings, check);
                }
}

static int tensors_between_blocks(const zr_plan *plan)
{
    int between = 0;
    for (int p = 0; p < plan->flat_param_count; p++)
        for (int t = 0; t < plan->flat_params[p].tensor_count; t++)
            between += plan->flat_params[p].tensors[t].first % 256 != 0;
    return between;
}

static void check_tensors(const zr_plan *plan, const zr_plan *plain)
{
    assert_int_equal(tensors_between_blocks(plan), 0);
    assert_true(tensors_between_blocks(plain) > 0); // else this could not fail
    for (int p = 0; p < plan->flat_param_count; p++)
        assert_int_equal(plan->flat_params[p].shard % 256, 0);
}

static void tensors_begin_at_blocks(void **state) { for_codes(check_tensors); }

// One multiple for frozen codes alone, too.
static void so_they_do_for_frozen_codes(void **state)
{
    fixture f;
    zr_settings settings = settings_of(ZERO_BF16, 3, 0, 0);
    fixture_build(&f, 3, 1000, 100);
    settings.frozen_bits = 8;
    zr_plan *plan = fixture_plan_of(&f, &settings, 2, false);
    assert_int_equal(tensors_between_blocks(plan), 0);
    zr_plan_destroy(plan);
}

static void check_own(const zr_plan *plan, const zr_plan *plain)
{
    bool shards = plan->settings.stage == 3 && !plan->mapped;
    int64_t bytes = 0;
    for (int p = 0; p < plan->flat_param_count; p++) {
        const zr_flat_param *flat_param = &plan->flat_params[p];
        int64_t elems = flat_param->shard, size = (int64_t)zero_dtype_bytes(flat_param->dtype);
        int64_t own = shards && plan->settings.weight_bits ? coded(8, elems) : elems * size;
        assert_int_equal(flat_param->weight_bits, plan->settings.weight_bits);
        assert_int_equal(flat_param->coded, shards && plan->settings.weight_bits);
        assert_int_equal(zr_flat_param_own_bytes(flat_param, elems), own);
        assert_int_equal(zr_flat_param_shard_bytes(flat_param), elems * size);
        assert_int_equal(flat_param->shard_first, bytes);
        bytes += own;
    }
    assert_int_equal(plan->shard_bytes[ZERO_TIER_device], bytes);
    assert_int_equal(zr_plan_codes_weights(plan), shards && plan->settings.weight_bits);
    assert_int_equal(plan->holding, plain->holding);
}

static void own_shards_are_codes_where_they_are_gathered(void **state) { for_codes(check_own); }

// Returns the bytes of a micro-batch that come from each other rank, for each element of a shard.
static double bytes_an_element(const zr_plan *plan, zero_comm_op op)
{
    int64_t elems = 0;
    for (int p = 0; p < plan->flat_param_count; p++)
        elems += plan->flat_params[p].shard;
    return (double)plan->traffic[ZR_PASS_MICRO_BATCH].data.bytes[op] / (double)elems /
           (plan->ranks - 1);
}

static void check_sent(const zr_plan *plan, const zr_plan *plain)
{
    const int weights = plan->settings.weight_bits, gradients = plan->settings.gradient_bits;
    if (plan->ranks == 1)
        return;
    double gathered = bytes_an_element(plan, ZERO_COMM_all_gather),
           gathered_plain = bytes_an_element(plain, ZERO_COMM_all_gather),
           summed = bytes_an_element(plan, ZERO_COMM_reduce_scatter),
           summed_plain = bytes_an_element(plain, ZERO_COMM_reduce_scatter),
           size = (double)zero_dtype_bytes(plan->settings.precision.parameters),
           of_gradients = (double)zero_dtype_bytes(plan->settings.precision.gradients);
    if (plan->holding == ZR_HOLDS_SHARDS && weights)
        assert_true(gathered < 0.26 * 4 / size * gathered_plain && gathered > 0);
    if (gradients)
        assert_true(summed < (gradients == 4 ? 0.13 : 0.26) * 4 / of_gradients * summed_plain &&
                    summed > 0);
}

static void codes_are_a_quarter_of_what_is_sent(void **state) { for_codes(check_sent); }

// The gradient window has codes, and units add up in fp32 next to it.
static void check_gradients(const zr_plan *plan, const zr_plan *plain)
{
    int bits = plan->settings.gradient_bits;
    int64_t shards = 0, sums = 0;
    for (int p = 0; p < plan->flat_param_count; p++) {
        const zr_flat_param *flat_param = &plan->flat_params[p];
        int64_t shard = zr_flat_param_gradient_shard_bytes(flat_param), elems = flat_param->shard;
        assert_int_equal(flat_param->gradient_bits, bits);
        assert_int_equal(shard,
                         bits ? coded(bits, elems)
                              : elems * (int64_t)zero_dtype_bytes(flat_param->gradient_dtype));
        if (flat_param->first_backward < 0)
            continue;
        shards += plan->ranks * shard;
        sums += zr_flat_param_accumulator_bytes(&plan->settings, flat_param);
        assert_true(!bits || zr_flat_param_collects_apart(flat_param));
        assert_true(!bits || flat_param->accumulator_first >= 0);
    }
    if (!bits)
        return;
    assert_true(plan->grad_bytes > 0 && plan->grad_bytes <= shards);
    if (plan->settings.stage == 1)
        assert_int_equal(plan->grad_bytes, shards);
    assert_true(plan->grad_bytes < (plain->settings.precision.gradients == ZERO_F32 ? 0.27 : 0.54) *
                                       (double)plain->grad_bytes * 1.05);
    assert_int_equal(plan->accumulator_bytes[ZERO_TIER_device], plan->step_sums * sums);
    assert_true(plan->open_bytes > 0);
}

static void contributions_are_codes_and_sums_lie_apart(void **state) { for_codes(check_gradients); }

static int64_t rows_of(const zr_plan *plan, zero_memory_category category)
{
    int64_t bytes = 0;
    for (int t = 0; t < ZERO_TIER_COUNT; t++)
        bytes += plan->bytes[t][category];
    return bytes;
}

// LoCo: what rounding has lost is there for all elements of what trains, in fp32.
static void carries_have_all_elements(void **state)
{
    fixture f;
    fixture_build(&f, 3, 1000, 100);
    for (int stage = 1; stage < 4; stage++) {
        zr_settings settings = settings_of(ZERO_BF16, stage, 0, 4);
        settings.carries = true;
        zr_plan *plan = fixture_plan_of(&f, &settings, 3, false);
        int64_t bytes = 0, before = rows_of(plan, ZERO_MEM_gradients);
        for (int p = 0; p < plan->flat_param_count; p++) {
            if (plan->flat_params[p].first_backward < 0)
                continue;
            assert_int_equal(plan->flat_params[p].carry_first, bytes);
            bytes += plan->flat_params[p].padded * 4;
        }
        assert_int_equal(plan->carry_bytes, bytes);
        assert_int_equal(plan->spaces[ZR_SPACE_CARRIES].bytes, bytes);
        zr_plan_destroy(plan);
        settings.carries = false;
        plan = fixture_plan_of(&f, &settings, 3, false);
        assert_int_equal(before - rows_of(plan, ZERO_MEM_gradients), bytes);
        assert_int_equal(plan->flat_params[0].carry_first, -1);
        zr_plan_destroy(plan);
    }
}

// What the codes of weights are made of is kept in fp32, whatever the type; without them only 16
// bits need it.
static void check_master(const zr_plan *plan, const zr_plan *plain)
{
    bool sixteen = plan->settings.precision.parameters != ZERO_F32;
    assert_int_equal(zr_plan_has_vector(plain, ZR_VECTOR_MASTER), sixteen);
    assert_int_equal(zr_plan_has_vector(plan, ZR_VECTOR_MASTER),
                     sixteen || plan->settings.weight_bits);
    if (zr_plan_has_vector(plan, ZR_VECTOR_MASTER))
        assert_int_equal(zr_vector_bytes(&plan->settings, ZR_VECTOR_MASTER, 1024), 4096);
}

static void a_master_is_in_fp32(void **state) { for_codes(check_master); }

// Parameters: the copies and the shards as they lie, and the values between steps. The total is
// that of all rows.
static void check_rows(const zr_plan *plan, const zr_plan *plain)
{
    int64_t rows = 0;
    for (int c = 0; c < ZERO_MEM_COUNT; c++)
        rows += rows_of(plan, (zero_memory_category)c);
    assert_int_equal(zr_plan_total_bytes(plan), rows);
    if (zr_plan_codes_weights(plan)) {
        int64_t values = plan->spaces[ZR_SPACE_WEIGHT_VALUES].bytes,
                shards = plan->shard_bytes[ZERO_TIER_device];
        assert_int_equal(rows_of(plan, ZERO_MEM_parameters), shards + values);
        assert_true(shards < plain->shard_bytes[ZERO_TIER_device]);
        assert_true(values <= ZR_STAGING_BUFFER_ELEMS * 4);
    }
    assert_true(plan->hash != plain->hash);
}

static void rows_add_up(void **state) { for_codes(check_rows); }

// On the host an own shard travels as it is kept, and what is gathered is as wide as ever.
static void shards_on_the_host_travel_as_codes(void **state)
{
    fixture f;
    zr_settings settings = settings_of(ZERO_BF16, 3, 8, 4);
    fixture_build(&f, 5, 1000, 96);
    settings.tiering = fixture_on_host;
    zr_plan *plan = fixture_plan_of(&f, &settings, 2, false);
    settings.weight_bits = settings.gradient_bits = 0;
    zr_plan *plain = fixture_plan_of(&f, &settings, 2, false);
    double codes = (double)plan->moves.micro_batch.to_device,
           elements = (double)plain->moves.micro_batch.to_device;
    assert_true(codes > 0.5 * elements && codes < 0.52 * elements); // 260 bytes for 512
    assert_int_equal(plan->gather_bytes, plain->gather_bytes);
    zr_plan_destroy(plan);
    zr_plan_destroy(plain);
}

// Over machines: what crosses the network is codes, and the copy that a machine keeps is wide.
static void machines_gather_codes(void **state)
{
    fixture f;
    zr_settings settings = settings_of(ZERO_F32, 3, 8, 4);
    fixture_build(&f, 5, 1000, 96);
    for (int kept = 0; kept < 2; kept++) {
        settings.weight_bits = 8;
        settings.gradient_bits = 4;
        settings.kept_by = kept ? 2 : 1;
        zr_plan *plan = fixture_plan_shared(&f, &settings, 4, 2);
        settings.weight_bits = settings.gradient_bits = 0;
        zr_plan *plain = fixture_plan_shared(&f, &settings, 4, 2);
        const zr_pass_traffic *with = &plan->traffic[ZR_PASS_MICRO_BATCH],
                              *without = &plain->traffic[ZR_PASS_MICRO_BATCH];
        for (int e = 0; e < 2; e++) {
            zero_comm_op op = e ? ZERO_COMM_all_gather : ZERO_COMM_reduce_scatter;
            assert_true(without->data.bytes[op] > 0);
            assert_true((double)with->data.bytes[op] <
                        (e ? 0.26 : 0.13) * (double)without->data.bytes[op]);
        }
        assert_int_equal(plan->gather_bytes, plain->gather_bytes);
        zr_plan_destroy(plan);
        zr_plan_destroy(plain);
    }
}

static void check_program(const zr_plan *plan)
{
    program_check_live_ranges(plan);
    program_check_replay(plan);
    program_check_readers(plan);
    program_check_transfers(plan);
    program_check_calls(plan);
}

static void programs_of_codes_are_sound(void **state) { program_for_all_codes(check_program); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_begin_at_blocks),
        cmocka_unit_test(so_they_do_for_frozen_codes),
        cmocka_unit_test(own_shards_are_codes_where_they_are_gathered),
        cmocka_unit_test(codes_are_a_quarter_of_what_is_sent),
        cmocka_unit_test(contributions_are_codes_and_sums_lie_apart),
        cmocka_unit_test(carries_have_all_elements),
        cmocka_unit_test(a_master_is_in_fp32),
        cmocka_unit_test(rows_add_up),
        cmocka_unit_test(shards_on_the_host_travel_as_codes),
        cmocka_unit_test(machines_gather_codes),
        cmocka_unit_test(programs_of_codes_are_sound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
