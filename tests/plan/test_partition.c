// Shards, windows, reductions and bytes, checked against a replay of the schedule.
#include "fixture.h"
#include "plan/state_formulas.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static const int RANKS[] = {1, 2, 3, 4, 8, 64};

typedef void (*check)(const zr_plan *plan);

static void for_all(check check)
{
    fixture f;
    for (int blocks = 1; blocks <= 5; blocks += 2) {
        fixture_build(&f, blocks, 1000, 100);
        for (int stage = 0; stage < 4; stage++)
            for (int r = 0; r < ZR_COUNT(RANKS); r++)
                for (int k = 1; k <= 3; k += 2)
                    for (zero_dtype dtype = ZERO_F32; dtype <= ZERO_F16; dtype++) {
                        zr_plan *plan = fixture_plan_in(&f, dtype, stage, RANKS[r], k, k == 1);
                        check(plan);
                        zr_plan_destroy(plan);
                    }
    }
}

static void check_shards(const zr_plan *plan)
{
    int64_t full = 0, shards = 0, size = (int64_t)zero_dtype_bytes(plan->settings.precision.parameters);
    for (int p = 0; p < plan->piece_count; p++) {
        const zr_piece *piece = &plan->pieces[p];
        assert_int_equal(piece->shard % ZR_CHUNK, 0);
        assert_int_equal(piece->padded, piece->shard * plan->ranks);
        assert_true(piece->padded >= piece->elems && piece->padded - piece->elems < (int64_t)ZR_CHUNK * plan->ranks);
        assert_int_equal(piece->full_first, full);
        assert_int_equal(piece->shard_first, shards);
        for (int t = 0; t < piece->tensor_count; t++)
            assert_int_equal(piece->tensors[t].first % ZR_TENSOR_ALIGN, 0);
        full += piece->padded * size;
        shards += piece->shard * size;
    }
    assert_int_equal(full, plan->full_bytes);
    assert_int_equal(shards, plan->shard_bytes[ZERO_TIER_device]);
    assert_int_equal(shards * plan->ranks, plan->full_bytes);
}

typedef struct held { int64_t first, end; bool now; } held; // bytes of one region, during visit v

// Begin of the first visit that contributes.
static int opened_at(const zr_plan *plan, const zr_piece *piece)
{
    int v = 0;
    while (!plan->visits[v].backward || plan->visits[v].unit != piece->first_backward)
        v++;
    return v;
}

static held in_window(const zr_plan *plan, const zr_piece *piece, int v)
{
    int from = piece->open_first >= 0 ? piece->sealed_at : opened_at(plan, piece);
    int64_t bytes = piece->padded * (int64_t)zero_dtype_bytes(piece->gradient_dtype);
    return (held){piece->grad_first, piece->grad_first + bytes, from <= v && piece->reduced_after >= v};
}

static held in_open(const zr_plan *plan, const zr_piece *piece, int v)
{
    bool now = piece->open_first >= 0 && opened_at(plan, piece) <= v && piece->sealed_at >= v;
    return (held){piece->open_first, piece->open_first + piece->padded * 4, now};
}

static void check_apart(held a, held b)
{
    assert_true(!a.now || !b.now || a.first >= b.end || b.first >= a.end);
}

// Replays backward: no two live gradients overlap, each is reduced once and not before it is sealed, and the ceiling holds.
static void check_windows(const zr_plan *plan)
{
    for (int v = 0; v < plan->visit_count; v++) {
        int64_t waiting = 0;
        for (int p = 0; p < plan->piece_count; p++) {
            const zr_piece *a = &plan->pieces[p];
            assert_true(a->reduced_after >= a->sealed_at && a->reduced_after < plan->visit_count);
            assert_int_equal(plan->visits[a->sealed_at].unit, a->last_backward);
            assert_true((a->open_first >= 0) == (a->gradient_dtype != ZERO_F32));
            assert_true(in_window(plan, a, v).end <= plan->grad_bytes && (a->open_first < 0 || in_open(plan, a, v).end <= plan->open_bytes));
            if (a->sealed_at <= v && a->reduced_after > v)
                waiting += a->padded;
            for (int q = 0; q < p; q++) {
                check_apart(in_window(plan, a, v), in_window(plan, &plan->pieces[q], v));
                check_apart(in_open(plan, a, v), in_open(plan, &plan->pieces[q], v));
            }
        }
        assert_true(waiting <= plan->settings.reduce_bucket);
    }
}

// From two ranks on each stage plans less than the one before, unless the borrowed embedding is most of the model.
static void test_higher_stage_holds_less(void **state)
{
    fixture f;
    fixture_build(&f, 12, 8000, 512);
    for (int ranks = 2; ranks <= 8; ranks *= 2)
        for (int k = 1; k <= 2; k++) {
            int64_t before = INT64_MAX;
            for (int stage = 0; stage < 4; stage++) {
                zr_plan *plan = fixture_plan(&f, stage, ranks, k, true);
                assert_true(zr_plan_total_bytes(plan) < before);
                before = zr_plan_total_bytes(plan);
                zr_plan_destroy(plan);
            }
        }
}

static void test_shards(void **state) { for_all(check_shards); }
static void test_windows(void **state) { for_all(check_windows); }

static void test_borrowed_piece(void **state)
{
    fixture f;
    fixture_build(&f, 3, 1000, 100);
    zr_plan *plan = fixture_plan(&f, 2, 2, 1, true);
    assert_int_equal(plan->pieces[0].first_backward, 4);
    assert_int_equal(plan->pieces[0].last_backward, 0);
    assert_int_equal(plan->pieces[2].first_backward, 2);
    assert_int_equal(plan->pieces[2].last_backward, 2);
    zr_plan_destroy(plan);
}

static void check_bytes(int64_t planned, double paper)
{
    assert_true((double)planned >= paper && (double)planned < paper * 1.001 + 1e6);
}

// Padding aside, bytes are the paper's: 4 + 4 + 8 in fp32, 2 + 2 + 12 in 16 bits.
static void test_paper_bytes(void **state)
{
    fixture f;
    fixture_build(&f, 4, 4096, 2048);
    for (int stage = 0; stage < 4; stage++)
        for (zero_dtype dtype = ZERO_F32; dtype <= ZERO_F16; dtype++) {
            zr_plan *plan = fixture_plan_in(&f, dtype, stage, 8, 1, true);
            const zr_state_policy *policy = dtype == ZERO_F32 ? &zr_state_fp32 : &zr_state_mixed;
            zr_state_bytes paper = zr_states_of_rank(policy, (double)plan->parameters, stage, 8);
            check_bytes(plan->bytes[ZERO_TIER_device][ZERO_MEM_parameters], paper.parameters);
            check_bytes(plan->bytes[ZERO_TIER_device][ZERO_MEM_gradients], paper.gradients);
            check_bytes(plan->bytes[ZERO_TIER_device][ZERO_MEM_optimizer], paper.optimizer);
            zr_plan_destroy(plan);
        }
}

// Several micro-batches meet in fp32; stage 0 gathers their sum, which is then wider than the window that it came through.
static void test_accumulators(void **state)
{
    fixture f;
    fixture_build(&f, 3, 1000, 100);
    zr_plan *one = fixture_plan_in(&f, ZERO_BF16, 0, 2, 1, true), *many = fixture_plan_in(&f, ZERO_BF16, 0, 2, 4, true);
    assert_int_equal(one->accumulator_bytes[ZERO_TIER_device], 0);
    assert_int_equal(one->whole_bytes, 0);
    assert_int_equal(many->whole_bytes, 2 * many->grad_bytes);
    assert_int_equal(many->accumulator_bytes[ZERO_TIER_device] * 2, many->whole_bytes);
    assert_int_equal(one->traffic[ZR_PASS_BOUNDARY].bytes[ZERO_COMM_all_gather] * 2, many->traffic[ZR_PASS_BOUNDARY].bytes[ZERO_COMM_all_gather]);
    zr_plan_destroy(one);
    zr_plan_destroy(many);
}

// A unit that only knows fp32 is refused in 16 bits, by name.
static void test_units_say_what_they_compute(void **state)
{
    fixture f;
    zero_error error = {0};
    zr_plan *plan = NULL;
    zr_settings settings = {.precision = zr_precision_of(ZERO_F16, 1), .accumulation = 1, .reduce_bucket = 1};
    fixture_build(&f, 1, 1000, 100);
    zero_unit_ops ops = *f.units[1].ops;
    ops.dtypes = 0;
    f.units[1].ops = &ops;
    assert_int_equal(zr_plan_create(&f.model, &(zero_shape){.batch = 1, .seq = 1}, &settings, &(zr_machine){.ranks = 1}, &plan, &error), ZERO_ERR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "\"h.0\" in fp16"));
}

// Elements exchanged a step against contract 4, the pieces that are needed once (the head's own) aside.
static void test_volume(void **state)
{
    fixture f;
    fixture_build(&f, 5, 4096, 1024);
    for (int stage = 0; stage < 4; stage++)
        for (int run = 0; run < 5; run++) {
            zero_dtype dtype = run < 3 ? ZERO_F32 : ZERO_BF16;
            int k = run < 3 ? run + 1 : run == 3 ? 1 : stage == 0 ? 1 : 4;
            zr_plan *plan = fixture_plan_in(&f, dtype, stage, 4, k, false);
            zr_volume volume = zr_volume_of_step(stage, k);
            const zr_traffic_plan *s = plan->traffic;
            double gathered = 0, reduced = (double)k * (double)s[ZR_PASS_MICRO_BATCH].bytes[ZERO_COMM_reduce_scatter];
            gathered += (double)k * (double)s[ZR_PASS_MICRO_BATCH].bytes[ZERO_COMM_all_gather];
            gathered += (double)s[ZR_PASS_BOUNDARY].bytes[ZERO_COMM_all_gather] + (double)s[ZR_PASS_PUBLISH].bytes[ZERO_COMM_all_gather];
            double size = dtype == ZERO_F32 ? 4 : 2, unit = size * (double)plan->elems * 3 / 4;
            assert_true(reduced == volume.reduce_scatter * unit);
            double head = size * 3 / 4 * (double)plan->pieces[plan->piece_count - 1].padded;
            assert_true(gathered == volume.all_gather * unit - (stage == 3 ? k * head : 0));
            zr_plan_destroy(plan);
        }
}

static void test_mapped_moves_nothing(void **state)
{
    fixture f;
    fixture_build(&f, 3, 1000, 100);
    zr_plan *plan = fixture_plan(&f, 3, 4, 1, true);
    const zr_traffic_plan *micro = &plan->traffic[ZR_PASS_MICRO_BATCH];
    assert_true(micro->calls[ZERO_COMM_all_gather] > 0);
    assert_int_equal(micro->bytes[ZERO_COMM_all_gather], 0);
    zr_plan_destroy(plan);
}

// The messages are the same on any machines; what a rank fetches and holds of them is not.
static void test_machines_share_what_they_gather(void **state)
{
    fixture f;
    fixture_build(&f, 3, 1000, 100);
    zr_plan *alone = fixture_plan(&f, 3, 8, 1, false);
    zr_plan *shared = fixture_plan_on_machines(&f, 8, 4, false), *kept = fixture_plan_on_machines(&f, 8, 4, true);
    const zr_traffic_plan *a = &alone->traffic[ZR_PASS_MICRO_BATCH], *s = &shared->traffic[ZR_PASS_MICRO_BATCH], *k = &kept->traffic[ZR_PASS_MICRO_BATCH];
    assert_true(a->hash == s->hash && a->hash == k->hash && a->messages == k->messages);
    assert_int_equal(a->bytes[ZERO_COMM_all_gather], 7 * s->bytes[ZERO_COMM_all_gather]);
    assert_int_equal(k->bytes[ZERO_COMM_all_gather], kept->full_bytes / 8);
    assert_true(s->bytes[ZERO_COMM_all_gather] > k->bytes[ZERO_COMM_all_gather]);
    assert_int_equal(alone->gather_share, alone->gather_bytes);
    assert_int_equal(shared->gather_share, alone->gather_share / 4);
    assert_int_equal(kept->gather_share, kept->full_bytes / 4);
    assert_int_equal(zr_plan_total_bytes(alone) - zr_plan_total_bytes(shared), alone->gather_share - shared->gather_share);
    assert_true(alone->hash != shared->hash && shared->hash != kept->hash);
    zr_plan_destroy(alone);
    zr_plan_destroy(shared);
    zr_plan_destroy(kept);
}

static void test_pure(void **state)
{
    fixture f;
    fixture_build(&f, 3, 1000, 100);
    zr_plan *a = fixture_plan(&f, 2, 4, 1, true), *b = fixture_plan(&f, 2, 4, 1, true), *c = fixture_plan(&f, 3, 4, 1, true);
    assert_true(a->hash == b->hash && a->hash != c->hash);
    zr_plan_destroy(a);
    zr_plan_destroy(b);
    zr_plan_destroy(c);
}

static void test_limit(void **state)
{
    fixture f;
    fixture_build(&f, 4, 4096, 1024);
    zr_plan *plan = fixture_plan(&f, 0, 8, 1, true);
    zr_machine machine = {.ranks = 8, .threads = 1, .mapped = true, .memory_limit = zr_plan_total_bytes(plan) / 2, .memory_reason = "a test"};
    zero_error error = {0};
    assert_int_equal(zr_plan_check_memory(plan, &machine, &error), ZERO_ERR_LIMIT);
    assert_non_null(strstr(error.message, "would fit"));
    machine.memory_limit = zr_plan_total_bytes(plan);
    assert_int_equal(zr_plan_check_memory(plan, &machine, &error), ZERO_OK);
    zr_plan_destroy(plan);
}

static zero_status sizes_beyond(const zero_unit *unit, const zero_shape *shape, const zero_tensors *in, zero_unit_sizes *out)
{
    *out = *(const zero_unit_sizes *)unit->hyper;
    return ZERO_OK;
}

static zero_status plan_of(const zero_model *model, zero_shape shape)
{
    zr_settings settings = {.accumulation = 1, .reduce_bucket = 1};
    zr_machine machine = {.ranks = 1};
    zr_plan *plan = NULL;
    zero_status status = zr_plan_create(model, &shape, &settings, &machine, &plan, NULL);
    zr_plan_destroy(plan);
    return status;
}

// What cannot be counted in 64 bits, and what a unit says wrongly of itself, is refused and not wrapped or overrun.
static void test_sizes_are_checked(void **state)
{
    fixture f;
    zero_shape small = {.batch = 2, .seq = 8};
    const zero_unit_sizes wrong[] = {{.product_count = ZERO_MAX_PRODUCTS + 1}, {.out.count = ZERO_MAX_BOUNDARY + 1}, {.saved_bytes = SIZE_MAX},
                                     {.out = {1, {{.dims = ZERO_MAX_DIMS + 1}}}}, {.out = {1, {{.dims = 2, .shape = {INT64_MAX / 2, 3}}}}}};
    fixture_build(&f, 3, 1000, 100);
    assert_int_equal(plan_of(&f.model, small), ZERO_OK);
    assert_int_equal(plan_of(&f.model, (zero_shape){.batch = (int64_t)1 << 40, .seq = (int64_t)1 << 40}), ZERO_ERR_USAGE);
    zero_unit_ops ops = *f.units[1].ops;
    ops.sizes = sizes_beyond;
    f.units[1].ops = &ops;
    for (int i = 0; i < ZR_COUNT(wrong); i++) {
        f.units[1].hyper = &wrong[i];
        assert_int_equal(plan_of(&f.model, small), ZERO_ERR_USAGE);
    }
    fixture_build(&f, 3, (int64_t)1 << 40, (int64_t)1 << 18);
    assert_int_equal(plan_of(&f.model, small), ZERO_ERR_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shards), cmocka_unit_test(test_higher_stage_holds_less), cmocka_unit_test(test_windows), cmocka_unit_test(test_borrowed_piece),
        cmocka_unit_test(test_paper_bytes), cmocka_unit_test(test_volume), cmocka_unit_test(test_accumulators), cmocka_unit_test(test_units_say_what_they_compute), cmocka_unit_test(test_mapped_moves_nothing),
        cmocka_unit_test(test_machines_share_what_they_gather), cmocka_unit_test(test_pure), cmocka_unit_test(test_limit), cmocka_unit_test(test_sizes_are_checked)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
