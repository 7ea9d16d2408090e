// Planning as a whole: equal input gives an equal plan, and what cannot be planned is refused.
#include "pipeline_fixture.h"

#include "model/pipeline_stage_cut.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static void test_pure(void **state)
{
    fixture f;
    fixture_build(&f, 3, 1000, 100);
    zr_plan *a = fixture_plan(&f, 2, 4, 1, true), *b = fixture_plan(&f, 2, 4, 1, true);
    zr_plan *c = fixture_plan(&f, 3, 4, 1, true);
    assert_true(a->hash == b->hash && a->hash != c->hash);
    zr_plan_destroy(a);
    zr_plan_destroy(b);
    zr_plan_destroy(c);
}

static void what_is_not_partitioned_is_not_offloaded(void **state)
{
    fixture f;
    fixture_build(&f, 2, 100, 64);
    const struct {
        int stage;
        zr_tiering tiering;
    } wrong[] = {{0, {.optimizer = ZERO_TIER_host}}, {2, {.parameters = ZERO_TIER_nvme}}};
    for (int i = 0; i < ZR_COUNT(wrong); i++) {
        zr_settings settings = {.stage = wrong[i].stage,
                                .precision = zr_precision_of(ZERO_F32, 1),
                                .accumulation = 1,
                                .tiering = wrong[i].tiering};
        zr_plan *plan = NULL;
        zero_error error;
        assert_int_equal(zr_plan_create(&f.model, &(zero_shape){.batch = 1, .seq = 1}, &settings,
                                        &(zr_machine){.ranks = 2, .mapped = true}, &plan, &error),
                         ZERO_ERR_CONFIG);
        assert_non_null(strstr(error.message, "they are partitioned at stage"));
    }
}

static uint64_t hash_of(const fixture *f, const zero_shape *shape, int ranks, bool mapped)
{
    const zr_settings settings = fixture_settings(ZERO_F32, 2, 1);
    const zr_machine machine = {.ranks = ranks, .threads = 1, .mapped = mapped};
    zr_plan *plan = NULL;
    assert_int_equal(zr_plan_create(&f->model, shape, &settings, &machine, &plan, NULL), ZERO_OK);
    uint64_t hash = plan->hash;
    zr_plan_destroy(plan);
    return hash;
}

static void what_ranks_have_to_agree_on_is_in_the_hash(void **state)
{
    const zero_shape shape = {.batch = 2, .seq = 8};
    fixture f;
    fixture_build(&f, 2, 1000, 100);
    uint64_t hash = hash_of(&f, &shape, 2, true);
    assert_true(hash == hash_of(&f, &shape, 2, true));
    assert_true(hash != hash_of(&f, &shape, 3, true));
    assert_true(hash != hash_of(&f, &shape, 2, false));
    assert_true(hash != hash_of(&f, &(zero_shape){.batch = 3, .seq = 8}, 2, true));
    assert_true(hash != hash_of(&f, &(zero_shape){.batch = 2, .seq = 9}, 2, true));
    assert_true(hash != hash_of(&f, &(zero_shape){.batch = 2, .seq = 8, .threads = 1}, 2, true));
    f.tensors[1].name = "another";
    assert_true(hash != hash_of(&f, &shape, 2, true));
    f.tensors[1].name = f.names[1];
    f.flat_params[1].kind = ZERO_FROZEN;
    assert_true(hash != hash_of(&f, &shape, 2, true));
}

static zr_plan *part_plan(int rank, int ranks, int64_t vocab, const char *name)
{
    static fixture whole, part;
    fixture_build(&whole, 2, vocab, 100);
    if (name)
        whole.tensors[3].name = name;
    fixture_cut(&part, &whole, rank, ranks);
    return fixture_plan_cut(&part, 1, 2, rank, ranks);
}

// Tensor ranks hold other tiles, and agree on the model, the settings and their number.
static void tensor_ranks_agree_on_the_whole(void **state)
{
    zr_plan *first = part_plan(0, 4, 1000, NULL), *last = part_plan(3, 4, 1000, NULL);
    zr_plan *fewer = part_plan(0, 2, 1000, NULL), *other = part_plan(3, 4, 1000, "another");
    zr_plan *larger = part_plan(0, 4, 1001, NULL);
    assert_true(first->job_hash == last->job_hash);
    assert_true(first->hash != last->hash);
    assert_true(first->job_hash != fewer->job_hash);
    assert_true(first->job_hash != other->job_hash);
    assert_true(first->job_hash != larger->job_hash);
    zr_plan_destroy(first);
    zr_plan_destroy(last);
    zr_plan_destroy(fewer);
    zr_plan_destroy(other);
    zr_plan_destroy(larger);
}

static void stages_say_what_a_rank_holds(void **state)
{
    fixture f;
    fixture_build(&f, 1, 1000, 96);
    for (int stage = 0; stage < 4; stage++)
        for (int mapped = 0; mapped < 2; mapped++) {
            zr_plan *plan = fixture_plan(&f, stage, 2, 1, mapped);
            assert_int_equal(plan->holding, stage < 3 ? ZR_HOLDS_TIED_COPIES
                                            : mapped  ? ZR_HOLDS_A_MAP
                                                      : ZR_HOLDS_SHARDS);
            assert_int_equal(plan->updates_whole, stage == 0);
            zr_plan_destroy(plan);
        }
    // each its own shards
    zr_plan *offloaded = fixture_plan_on_tiers(&f, 3, 2, 1, &fixture_on_host);
    assert_int_equal(offloaded->holding, ZR_HOLDS_SHARDS);
    zr_plan_destroy(offloaded);
}

static zero_status status_of(const zr_settings *settings, zero_shape shape, int ranks,
                             zero_error *error)
{
    zr_plan *plan = NULL;
    fixture f;
    fixture_build(&f, 1, 1000, 96);
    zero_status status =
        zr_plan_create(&f.model, &shape, settings, &(zr_machine){.ranks = ranks}, &plan, error);
    zr_plan_destroy(plan);
    return status;
}

// One tree over all micro-batches and ranks, none of whose sums is rounded.
static void exact_world_wants_powers_of_two_in_fp32(void **state)
{
    const zero_shape shape = {.batch = 2, .seq = 8};
    zr_settings settings = fixture_settings(ZERO_F32, 2, 4);
    zero_error error = {0};
    settings.exact_world = true;
    assert_int_equal(status_of(&settings, shape, 2, &error), ZERO_OK);
    assert_int_equal(status_of(&settings, shape, 3, &error), ZERO_ERR_CONFIG);
    assert_non_null(strstr(error.message, "powers of two"));
    settings.accumulation = 3;
    assert_int_equal(status_of(&settings, shape, 2, &error), ZERO_ERR_CONFIG);
    settings = fixture_settings(ZERO_BF16, 2, 4);
    settings.exact_world = true;
    assert_int_equal(status_of(&settings, shape, 2, &error), ZERO_ERR_CONFIG);
    assert_non_null(strstr(error.message, "they have to be fp32"));
}

// Plans the first of 3 pipeline stages of the fixture's model, and returns why that is refused.
static const char *said_of(const fixture *f, zr_pipeline_kind kind, const zr_settings *settings)
{
    static const int first[] = {0, 2, 4, 6};
    static const zr_unit_range range = {0, 2};
    static zero_error error;
    const zero_shape shape = {.batch = 2, .seq = 8};
    const zr_pipeline_part part = {.pipeline = pipeline_of(kind, 3, 1, 3), .first_unit = first};
    const zr_machine machine = {.ranks = 4, .machine_ranks = 2, .pipeline = &part};
    zero_model *stage = NULL;
    zr_plan *plan = NULL;
    error = (zero_error){0};
    assert_int_equal(zr_pipeline_stage_cut(&f->model, &range, 1, false, &stage, &error), ZERO_OK);
    assert_int_equal(zr_plan_create(stage, &shape, settings, &machine, &plan, &error),
                     ZERO_ERR_CONFIG);
    zr_pipeline_stage_free(stage);
    return error.message;
}

// All stages refuse alike, here the first one, which does not have the buffer.
static void what_has_no_meaning_in_several_versions_is_refused(void **state)
{
    zr_settings settings = fixture_settings(ZERO_F32, 2, 3);
    fixture f;
    fixture_build(&f, 4, 1000, 96);
    f.flat_params[3].kind = ZERO_BUFFER;
    assert_string_equal(
        said_of(&f, ZR_PIPELINE_PIPEDREAM, &settings),
        "planning fixture with schedule pipedream: unit \"h.2\" has a buffer, which every "
        "step reads and writes, and here steps overlap; a synchronous schedule "
        "would do (1f1b)");
    f.flat_params[3].kind = ZERO_TRAINABLE;
    settings = fixture_settings(ZERO_F32, 3, 3);
    settings.kept_by = 2;
    assert_string_equal(said_of(&f, ZR_PIPELINE_2BW, &settings),
                        "planning fixture with schedule 2bw: 2 ranks keep gathered parameters "
                        "(zero_hpz_partition_size) until they change, and here 2 versions are read "
                        "in turn: expected 1");
    settings = fixture_settings(ZERO_F32, 3, 3);
    settings.tiering.parameters = ZERO_TIER_host;
    assert_string_equal(said_of(&f, ZR_PIPELINE_2BW, &settings),
                        "planning fixture with schedule 2bw: 2 versions of the parameters stay on "
                        "the device: expected no offload_param");
}

static void an_empty_micro_batch_is_refused(void **state)
{
    const zr_settings settings = fixture_settings(ZERO_F32, 2, 1);
    zero_error error = {0};
    const zero_shape none = {.batch = 0, .seq = 8}, empty = {.batch = 2, .seq = 0};
    assert_int_equal(status_of(&settings, none, 2, &error), ZERO_ERR_USAGE);
    assert_non_null(strstr(error.message, "at least 1 x 1"));
    assert_int_equal(status_of(&settings, empty, 2, &error), ZERO_ERR_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pure),
        cmocka_unit_test(what_is_not_partitioned_is_not_offloaded),
        cmocka_unit_test(what_ranks_have_to_agree_on_is_in_the_hash),
        cmocka_unit_test(tensor_ranks_agree_on_the_whole),
        cmocka_unit_test(stages_say_what_a_rank_holds),
        cmocka_unit_test(exact_world_wants_powers_of_two_in_fp32),
        cmocka_unit_test(what_has_no_meaning_in_several_versions_is_refused),
        cmocka_unit_test(an_empty_micro_batch_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
