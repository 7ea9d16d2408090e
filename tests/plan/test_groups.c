// The portions of the update cover every element once, and the bytes that move are those of
// ZeRO-Offload and ZeRO-Infinity.
#include "pipeline_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static void check_shard_slices(const zr_plan *plan)
{
    int64_t limit = ZR_MAX(plan->settings.tiering.sub_group, 0) / ZR_CHUNK * ZR_CHUNK,
            covered[ZERO_TIER_COUNT] = {0};
    int next = 0;
    for (int p = 0; p < plan->flat_param_count; p++) {
        const zr_flat_param *flat_param = &plan->flat_params[p];
        int64_t at = 0;
        assert_int_equal(flat_param->shard_slice_first, next);
        for (; next < flat_param->shard_slice_first + flat_param->shard_slice_count; next++) {
            const zr_shard_slice *shard_slice = &plan->shard_slices[next];
            assert_true(shard_slice->flat_param == p && shard_slice->first == at &&
                        shard_slice->count > 0 && shard_slice->count % ZR_CHUNK == 0);
            at += shard_slice->count;
        }
        assert_int_equal(at, flat_param->shard);
    }
    assert_int_equal(next, plan->shard_slice_count);
    for (int g = 0; g < plan->group_count; g++) {
        const zr_group *group = &plan->groups[g];
        int64_t count = 0;
        for (int s = group->shard_slice_first;
             s < group->shard_slice_first + group->shard_slice_count; s++) {
            const zr_shard_slice *shard_slice = &plan->shard_slices[s];
            assert_int_equal(shard_slice->group, g);
            // one after another in every vector
            assert_int_equal(plan->flat_params[shard_slice->flat_param].state_first +
                                 shard_slice->first,
                             group->first + count);
            count += shard_slice->count;
        }
        assert_int_equal(count, group->count);
        assert_true(limit == 0 || count <= limit);
        assert_int_equal(group->first, covered[group->state_tier]);
        covered[group->state_tier] += count;
        assert_true(group->state_tier != ZERO_TIER_nvme || count <= plan->staging_buffer.elems);
    }
    for (int t = 0; t < ZERO_TIER_COUNT; t++)
        assert_int_equal(covered[t], plan->state_elems[t]);
}

static void portions_cover_every_element_once(void **state)
{
    fixture f;
    fixture_build(&f, 5, 1000, 96);
    for (int ranks = 1; ranks <= 8; ranks *= 2)
        for (int64_t sub_group = 2048; sub_group <= 1 << 22; sub_group *= 5) {
            zr_tiering tiering = fixture_on_nvme;
            tiering.sub_group = sub_group;
            tiering.on_device = ranks == 2 ? 0.4 : 0;
            zr_plan *plan = fixture_plan_on_tiers(&f, 3, ranks, 1, &tiering);
            check_shard_slices(plan);
            if (ranks == 2) { // the last flat parameters' states stay, as many as make up that part
                int64_t all =
                    plan->state_elems[ZERO_TIER_device] + plan->state_elems[ZERO_TIER_nvme];
                assert_true(plan->state_elems[ZERO_TIER_device] > 0 &&
                            plan->state_elems[ZERO_TIER_device] * 10 <= all * 4);
                assert_int_equal(plan->flat_params[plan->flat_param_count - 1].state_tier,
                                 ZERO_TIER_device);
            }
            zr_plan_destroy(plan);
        }
}

// Of all ranks' shards, at every border between two parameters a shard slice ends, to a chunk; and
// a group has one shard slice.
static void check_alone(const zr_plan *plan)
{
    for (int s = 0; s < plan->shard_slice_count; s++) {
        const zr_shard_slice *shard_slice = &plan->shard_slices[s];
        const zr_flat_param *flat_param = &plan->flat_params[shard_slice->flat_param];
        for (int r = 0; r < plan->ranks; r++)
            for (int t = 1; t < flat_param->tensor_count; t++) {
                int64_t begin = flat_param->tensors[t].first / ZR_CHUNK * ZR_CHUNK,
                        first = r * flat_param->shard + shard_slice->first;
                assert_false(begin > first && begin < first + shard_slice->count);
            }
    }
    for (int g = 0; g < plan->group_count; g++)
        assert_int_equal(plan->groups[g].shard_slice_count, 1);
}

static void each_parameter_by_itself(void **state)
{
    fixture f;
    fixture_build(&f, 5, 1000, 96);
    for (int ranks = 1; ranks <= 8; ranks++)
        for (int tier = 0; tier < 2; tier++) {
            zr_tiering tiering = tier ? fixture_on_nvme : fixture_on_host;
            zr_plan *whole, *plan;
            tiering.sub_group = 0;
            whole = fixture_plan_on_tiers(&f, 3, ranks, 1, &tiering);
            tiering.sub_group = ZR_EACH_PARAMETER;
            plan = fixture_plan_on_tiers(&f, 3, ranks, 1, &tiering);
            check_shard_slices(plan);
            check_alone(plan);
            assert_true(plan->group_count > whole->group_count);
            zr_plan_destroy(whole);
            zr_plan_destroy(plan);
        }
}

static void a_sub_group_size_of_0_is_each_parameter(void **state)
{
    fixture f;
    fixture_build(&f, 5, 1000, 96);
    zr_plan *whole = fixture_plan_as_said(&f, "\"sub_group_size\": 1e9"),
            *plan = fixture_plan_as_said(&f, "\"sub_group_size\": 0");
    check_alone(plan);
    assert_true(plan->group_count > whole->group_count);
    zr_plan_destroy(whole);
    zr_plan_destroy(plan);
}

static int64_t elems_of(const zr_plan *plan, zero_tier tier) { return plan->state_elems[tier]; }

static void what_moves_is_what_the_papers_say(void **state)
{
    fixture f;
    fixture_build(&f, 4, 1000, 96);
    zr_tiering tiering = {.optimizer = ZERO_TIER_host};
    for (int stage = 1; stage <= 3; stage++) { // ZeRO-Offload: 2 bytes a parameter down, 2 up
        zr_plan *plan = fixture_plan_on_tiers(&f, stage, 2, 1, &tiering);
        int64_t n = elems_of(plan, ZERO_TIER_host);
        assert_true(n > 0 && elems_of(plan, ZERO_TIER_device) == 0);
        assert_int_equal(plan->moves.micro_batch.to_host, 2 * n);
        assert_int_equal(plan->moves.update[0].to_device, 2 * n);
        assert_int_equal(plan->moves.update[0].to_host + plan->moves.micro_batch.to_device +
                             plan->moves.update[0].nvme_read,
                         0);
        assert_int_equal(plan->bytes[ZERO_TIER_host][ZERO_MEM_optimizer], 12 * n);
        zr_plan_destroy(plan);
    }
    zr_plan *plan = fixture_plan_on_tiers(&f, 3, 2, 1, &fixture_on_nvme);
    int64_t n = elems_of(plan, ZERO_TIER_nvme);
    assert_int_equal(plan->moves.update[0].nvme_read, 14 * n); // gradient, master, moments
    assert_int_equal(plan->moves.update_first_unread, 8 * n);  // moments that are zeros still
    // master, moments, parameters
    assert_int_equal(plan->moves.update[0].nvme_written, 14 * n);
    assert_int_equal(plan->moves.micro_batch.nvme_written, 2 * n); // gradients
    assert_int_equal(plan->bytes[ZERO_TIER_nvme][ZERO_MEM_optimizer] +
                         plan->bytes[ZERO_TIER_nvme][ZERO_MEM_gradients] +
                         plan->bytes[ZERO_TIER_nvme][ZERO_MEM_parameters],
                     16 * n);
    zr_plan_destroy(plan);
    // sums of several micro-batches are fp32, and come back for the next
    plan = fixture_plan_on_tiers(&f, 3, 2, 3, &fixture_on_nvme);
    assert_int_equal(plan->moves.micro_batch.nvme_written, 4 * n);
    assert_int_equal(plan->moves.earlier_sum.nvme_read, 4 * n);
    zr_plan_destroy(plan);
}

// A walk's vectors, as bits.
static void assert_walk(const zr_walk_vectors *walk, uint32_t reads, uint32_t writes)
{
    assert_int_equal(walk->reads, reads);
    assert_int_equal(walk->writes, writes);
}

enum {
    MASTER = 1 << ZR_VECTOR_MASTER,
    MOMENTS = 1 << ZR_VECTOR_STATE0 | 1 << ZR_VECTOR_STATE1 | 1 << ZR_VECTOR_SCALES0 |
              1 << ZR_VECTOR_SCALES1,
    AVERAGE = 1 << ZR_VECTOR_AVERAGE,
    DIRECTION = 1 << ZR_VECTOR_DIRECTION,
    GRADIENT = 1 << ZR_VECTOR_GRADIENT,
    PARAMETERS = 1 << ZR_VECTOR_PARAMETERS
};

// asynchronous: parameters are not written by the update, which starts from the master, but come
// out of it by a walk of their own.
static void check_walks(const zr_plan *plan, bool lamb, bool asynchronous)
{
    zr_walk_vectors walks[ZR_MOST_WALKS];
    uint32_t weights = asynchronous ? MASTER : PARAMETERS;
    uint32_t written = asynchronous ? MASTER : MASTER | PARAMETERS;
    assert_int_equal(zr_plan_has_vector(plan, ZR_VECTOR_MASTER), asynchronous);
    assert_int_equal(zr_plan_updates_copies(plan), !asynchronous);
    assert_int_equal(zr_plan_walks(plan, walks), lamb ? 2 : 1);
    assert_walk(&walks[0], weights | MOMENTS | GRADIENT | (lamb ? 0 : AVERAGE),
                lamb ? MOMENTS | DIRECTION : MOMENTS | AVERAGE | written);
    if (lamb)
        assert_walk(&walks[1], weights | AVERAGE | DIRECTION, AVERAGE | written);
}

static void an_asynchronous_update_changes_the_master_alone(void **state)
{
    static const zr_pipeline_kind kinds[] = {ZR_PIPELINE_1F1B, ZR_PIPELINE_PIPEDREAM,
                                             ZR_PIPELINE_2BW};
    pipeline_model model;
    pipeline_build(&model, 3, (pipeline_style){0});
    for (int k = 0; k < ZR_COUNT(kinds); k++)
        for (int lamb = 0; lamb < 2; lamb++) {
            static pipeline_plans stages;
            const zr_pipeline pipeline = pipeline_of(kinds[k], 2, 1, 2);
            zr_settings settings = fixture_settings(ZERO_F32, 1, 2);
            settings.per_tensor_norms = lamb;
            pipeline_plans_make(&model.f.model, &pipeline, &settings, &(zr_machine){.ranks = 2},
                                &stages);
            for (int s = 0; s < 2; s++)
                check_walks(stages.plans[s], lamb, zr_pipeline_is_asynchronous(kinds[k]));
            pipeline_plans_free(&stages);
        }
}

// The walk reads each master once; with states on NVMe, from there.
static void a_copy_moves_the_master(void **state)
{
    static pipeline_plans stages;
    pipeline_model model;
    const zr_pipeline pipeline = pipeline_of(ZR_PIPELINE_2BW, 2, 1, 2);
    zr_settings settings = fixture_settings(ZERO_F32, 2, 2);
    pipeline_build(&model, 3, (pipeline_style){0});
    settings.tiering = (zr_tiering){.optimizer = ZERO_TIER_nvme, .block = 1 << 20};
    pipeline_plans_make(&model.f.model, &pipeline, &settings, &(zr_machine){.ranks = 2}, &stages);
    for (int s = 0; s < 2; s++) {
        const zr_plan *plan = stages.plans[s];
        int64_t masters = plan->state_elems[ZERO_TIER_nvme] * (int64_t)sizeof(float);
        assert_true(masters > 0);
        assert_int_equal(plan->moves.copy.nvme_read, masters);
        assert_int_equal(plan->moves.copy.nvme_written, 0);
        assert_int_equal(plan->moves.copy.to_device, masters);
        assert_int_equal(plan->moves.update[0].to_device, 0);
    }
    pipeline_plans_free(&stages);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(portions_cover_every_element_once),
        cmocka_unit_test(each_parameter_by_itself),
        cmocka_unit_test(a_sub_group_size_of_0_is_each_parameter),
        cmocka_unit_test(what_moves_is_what_the_papers_say),
        cmocka_unit_test(an_asynchronous_update_changes_the_master_alone),
        cmocka_unit_test(a_copy_moves_the_master),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
