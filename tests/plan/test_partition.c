// Flat parameters, shards and units: who owns what, and which descriptions of a unit are refused.
#include "fixture.h"

#include "model/pipeline_stage_cut.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static void check_shards(const zr_plan *plan)
{
    int64_t full = 0, shards = 0,
            size = (int64_t)zero_dtype_bytes(plan->settings.precision.parameters);
    for (int p = 0; p < plan->flat_param_count; p++) {
        const zr_flat_param *flat_param = &plan->flat_params[p];
        assert_int_equal(flat_param->shard % ZR_CHUNK, 0);
        assert_int_equal(flat_param->padded, flat_param->shard * plan->ranks);
        assert_true(flat_param->padded >= flat_param->elems &&
                    flat_param->padded - flat_param->elems < (int64_t)ZR_CHUNK * plan->ranks);
        assert_int_equal(flat_param->full_first, full);
        assert_int_equal(flat_param->shard_first, shards);
        for (int t = 0; t < flat_param->tensor_count; t++)
            assert_int_equal(flat_param->tensors[t].first % ZR_TENSOR_ALIGN, 0);
        full += flat_param->padded * size;
        shards += flat_param->shard * size;
    }
    assert_int_equal(full, plan->full_bytes);
    assert_int_equal(shards, plan->shard_bytes[ZERO_TIER_device]);
    assert_int_equal(shards * plan->ranks, plan->full_bytes);
}

static void test_shards(void **state) { fixture_for_stages(check_shards); }

// Checks that flat parameters that lie once on a machine follow each other there, and the others in
// a replica.
static void check_frozen(const fixture *f, const zr_plan *plan, bool once)
{
    int64_t full = 0, frozen = 0, shards = 0;
    for (int p = 0; p < plan->flat_param_count; p++) {
        const zr_flat_param *flat_param = &plan->flat_params[p];
        int64_t *first = once && f->flat_params[p].kind != ZERO_TRAINABLE ? &frozen : &full;
        assert_int_equal(flat_param->shared, first == &frozen);
        assert_int_equal(flat_param->full_first, *first);
        *first += plan->ranks * zr_flat_param_shard_bytes(flat_param);
        shards += zr_flat_param_shard_bytes(flat_param);
    }
    assert_int_equal(plan->full_bytes, full);
    assert_int_equal(plan->frozen_bytes, frozen);
    assert_int_equal(plan->shard_bytes[ZERO_TIER_device], shards);
    assert_int_equal(frozen > 0, once);
}

// What is frozen lies once on a machine whose ranks share memory, at stages 0 to 2; stage 3 divides
// all flat parameters. Nothing that may be written does.
static void test_frozen_once(void **state)
{
    enum { ALONE, MACHINES, MAPPED, WAYS };
    fixture f;
    fixture_build(&f, 3, 1000, 100);
    f.flat_params[1].kind = ZERO_CODES;
    f.flat_params[3].kind = ZERO_FROZEN;
    for (int stage = 0; stage < 4; stage++)
        for (int way = ALONE; way < WAYS; way++) {
            const zr_settings settings = fixture_settings(ZERO_BF16, stage, 1);
            zr_plan *plan = way == MACHINES ? fixture_plan_shared(&f, &settings, 4, 2)
                                            : fixture_plan_of(&f, &settings, 4, way == MAPPED);
            check_frozen(&f, plan, stage < 3 && way != ALONE);
            zr_plan_destroy(plan);
        }
}

static void test_borrowed_flat_param(void **state)
{
    fixture f;
    fixture_build(&f, 3, 1000, 100);
    zr_plan *plan = fixture_plan(&f, 2, 2, 1, true);
    assert_int_equal(plan->flat_params[0].first_backward, 4);
    assert_int_equal(plan->flat_params[0].last_backward, 0);
    assert_int_equal(plan->flat_params[2].first_backward, 2);
    assert_int_equal(plan->flat_params[2].last_backward, 2);
    zr_plan_destroy(plan);
}

// Vectors, which are biases and gains, decay only where all do.
static void test_matrices_decay(void **state)
{
    fixture f;
    zr_settings settings = fixture_settings(ZERO_F32, 1, 1);
    fixture_build(&f, 2, 1000, 100);
    for (int all = 0; all < 2; all++) {
        settings.decay_all = all;
        zr_plan *plan = fixture_plan_of(&f, &settings, 2, true);
        int vectors = 0;
        for (int p = 0; p < plan->flat_param_count; p++)
            for (int t = 0; t < plan->flat_params[p].tensor_count; t++) {
                const zr_plan_tensor *tensor = &plan->flat_params[p].tensors[t];
                assert_int_equal(tensor->decays, all || tensor->desc->dims >= 2);
                vectors += tensor->desc->dims == 1;
            }
        assert_int_equal(vectors, 3);
        zr_plan_destroy(plan);
    }
}

// A unit that only knows fp32 is refused in 16 bits, by name.
static void test_units_say_what_they_compute(void **state)
{
    fixture f;
    zero_error error = {0};
    zr_plan *plan = NULL;
    zr_settings settings = {
        .precision = zr_precision_of(ZERO_F16, 1), .accumulation = 1, .reduce_bucket = 1};
    fixture_build(&f, 1, 1000, 100);
    zero_unit_ops ops = *f.units[1].ops;
    ops.dtypes = 0;
    f.units[1].ops = &ops;
    assert_int_equal(zr_plan_create(&f.model, &(zero_shape){.batch = 1, .seq = 1}, &settings,
                                    &(zr_machine){.ranks = 1}, &plan, &error),
                     ZERO_ERR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "\"h.0\" in fp16"));
}

static zero_status sizes_beyond(const zero_unit *unit, const zero_shape *shape,
                                const zero_tensors *in, zero_unit_sizes *out)
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

// What cannot be counted in 64 bits, and what a unit says wrongly of itself, is refused and not
// wrapped or overrun.
static void test_sizes_are_checked(void **state)
{
    fixture f;
    zero_shape small = {.batch = 2, .seq = 8};
    const zero_unit_sizes wrong[] = {{.product_count = ZERO_MAX_PRODUCTS + 1},
                                     {.out.count = ZERO_MAX_BOUNDARY + 1},
                                     {.saved_bytes = SIZE_MAX},
                                     {.out = {1, {{.dims = ZERO_MAX_DIMS + 1}}}},
                                     {.out = {1, {{.dims = 2, .shape = {INT64_MAX / 2, 3}}}}}};
    fixture_build(&f, 3, 1000, 100);
    assert_int_equal(plan_of(&f.model, small), ZERO_OK);
    assert_int_equal(
        plan_of(&f.model, (zero_shape){.batch = (int64_t)1 << 40, .seq = (int64_t)1 << 40}),
        ZERO_ERR_USAGE);
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

// A flat parameter counts at the first of the tensor ranks that hold it: a tile at its own rank, a
// whole tensor, and every flat parameter of a whole model, at rank 0.
static void check_counted(const zero_model *model, int rank, bool tiles, bool whole)
{
    const zero_shape shape = {.batch = 2, .seq = 8};
    const zr_settings settings = fixture_settings(ZERO_F32, 1, 1);
    const zr_machine machine = {.ranks = 1, .tensor_ranks = 4, .tensor_rank = rank};
    zr_plan *plan = NULL;
    assert_int_equal(zr_plan_create(model, &shape, &settings, &machine, &plan, NULL), ZERO_OK);
    assert_int_equal(plan->world, 4);
    for (int p = 0; p < plan->flat_param_count; p++)
        assert_int_equal(plan->flat_params[p].counted,
                         p < plan->flat_param_count - 1 ? tiles : whole);
    zr_plan_destroy(plan);
}

static void test_flat_params_count_once(void **state)
{
    fixture f, part;
    for (int rank = 0; rank < 4; rank++) {
        fixture_build_streamed(&f, 1, 1000, 100);
        f.tensors[0].tile = (zero_tile){"embedding", 0, 0, 1000};
        check_counted(&f.model, rank, rank == 0, rank == 0);
        fixture_build(&f, 2, 1000, 100);
        check_counted(&f.model, rank, rank == 0, rank == 0);
        fixture_cut(&part, &f, rank, 4);
        check_counted(&part.model, rank, true, rank == 0);
        for (int p = 0; p < 3; p++)
            part.flat_params[p].replicas = 2;
        check_counted(&part.model, rank, rank % 2 == 0, rank == 0);
    }
}

static void test_replicas_divide_the_tensor_ranks(void **state)
{
    static const int wrong[] = {3, 8, -1};
    fixture f, part;
    const zero_shape shape = {.batch = 2, .seq = 8};
    const zr_settings settings = fixture_settings(ZERO_F32, 1, 1);
    fixture_build(&f, 1, 1000, 100);
    fixture_cut(&part, &f, 0, 4);
    for (int i = 0; i < ZR_COUNT(wrong); i++) {
        zero_error error = {0};
        zr_plan *plan = NULL;
        part.flat_params[1].replicas = wrong[i];
        assert_int_equal(zr_plan_create(&part.model, &shape, &settings,
                                        &(zr_machine){.ranks = 1, .tensor_ranks = 4}, &plan,
                                        &error),
                         ZERO_ERR_USAGE);
        assert_non_null(strstr(error.message, "flat parameter h.0 is held by"));
    }
}

// The last ranks may have no row of the embedding: such a flat parameter has shards of no elements.
static void test_empty_flat_params(void **state)
{
    fixture f, part;
    fixture_build(&f, 2, 5, 64);
    fixture_cut(&part, &f, 3, 4);
    for (int stage = 0; stage < 4; stage++) {
        zr_plan *plan = fixture_plan_cut(&part, stage, 2, 3, 4);
        const zr_flat_param *empty = &plan->flat_params[0];
        assert_int_equal(part.tensors[0].shape[0], 0);
        assert_int_equal(empty->elems, 0);
        assert_int_equal(empty->padded, 0);
        assert_int_equal(empty->shard_slice_count, 0);
        check_shards(plan);
        zr_plan_destroy(plan);
    }
}

static const zero_unit_ops *usual_ops;

// Each unit's boundary is one wider than the one that arrives.
static zero_status widening_sizes(const zero_unit *unit, const zero_shape *shape,
                                  const zero_tensors *in, zero_unit_sizes *out)
{
    zero_status status = usual_ops->sizes(unit, shape, in, out);
    out->out.at[0].shape[1] = in->count ? in->at[0].shape[1] + 1 : 1;
    return status;
}

// Of a pipeline stage, units are asked with the boundary that arrives, and as the whole model
// describes them: the fixture's last unit is the one that borrows.
static void test_stages_ask_as_the_whole(void **state)
{
    static const int first_unit[] = {0, 1, 2, 3, 5};
    static const zr_unit_range chunks[] = {{1, 2}, {3, 5}};
    const zr_pipeline_part part = {
        .pipeline = {ZR_PIPELINE_INTERLEAVED, 2, 2, 2, 1}, .stage = 1, .first_unit = first_unit};
    fixture f;
    zero_model *stage = NULL;
    zero_error error = {0};
    zr_plan *plan = NULL;
    const zero_shape shape = {.batch = 2, .seq = 8};
    const zr_settings settings = fixture_settings(ZERO_F32, 1, 2);
    const zr_machine machine = {.ranks = 1, .pipeline = &part};
    fixture_build(&f, 3, 1000, 100);
    usual_ops = f.units[0].ops;
    zero_unit_ops widening = *usual_ops;
    widening.sizes = widening_sizes;
    for (int u = 0; u < f.model.unit_count; u++)
        f.units[u].ops = &widening;
    zr_plan *whole = fixture_plan(&f, 1, 1, 2, false);
    assert_int_equal(zr_pipeline_stage_cut(&f.model, chunks, 2, false, &stage, &error), ZERO_OK);
    assert_int_equal(zr_plan_create(stage, &shape, &settings, &machine, &plan, &error), ZERO_OK);
    for (int u = 0; u < 3; u++)
        assert_memory_equal(&plan->units[u].sizes,
                            &whole->units[zr_pipeline_stage_unit(stage, u)].sizes,
                            sizeof(zero_unit_sizes));
    assert_int_equal(plan->units[1].sizes.out.at[0].shape[1], 4);
    assert_int_equal(plan->parameters, whole->parameters);
    zr_plan_destroy(plan);
    zr_plan_destroy(whole);
    zr_pipeline_stage_free(stage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shards),
        cmocka_unit_test(test_frozen_once),
        cmocka_unit_test(test_borrowed_flat_param),
        cmocka_unit_test(test_matrices_decay),
        cmocka_unit_test(test_units_say_what_they_compute),
        cmocka_unit_test(test_sizes_are_checked),
        cmocka_unit_test(test_flat_params_count_once),
        cmocka_unit_test(test_replicas_divide_the_tensor_ranks),
        cmocka_unit_test(test_empty_flat_params),
        cmocka_unit_test(test_stages_ask_as_the_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
