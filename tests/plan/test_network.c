// What crosses the network: reaches of ranks against machines that are walked rank by rank, and the
// bytes of a step against formulas.
#include "plan/network.h"

#include "pipeline_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

enum { RANKS = 24, MOST_MACHINES = 6 };

typedef struct job {
    int first[MOST_MACHINES + 1], of[RANKS];
    zr_job_machines machines;
} job;

// Machines with these numbers of ranks; 0 ends the list.
static void fill(job *j, const int *ranks)
{
    int at = 0, m = 0;
    for (; ranks[m]; m++) {
        j->first[m] = at;
        for (int i = 0; i < ranks[m]; i++)
            j->of[at++] = m;
    }
    assert_int_equal(at, RANKS);
    j->first[m] = at;
    j->machines = (zr_job_machines){.count = m, .first = j->first, .of = j->of};
}

// Counts what zr_reach says: strangers take turns among the group's ranks on a machine.
static zr_reach reach_by_walk(const job *j, const int *members, int count, int rank)
{
    int here[RANKS] = {0}, locals = 0, own = -1, turn = 0;
    zr_reach out = {.size = count};
    for (int i = 0; i < count; i++) {
        if (j->of[members[i]] != j->of[rank])
            continue;
        own = members[i] == rank ? locals : own;
        here[locals++] = members[i];
    }
    for (int i = 0; i < count; i++) {
        if (j->of[members[i]] == j->of[rank])
            continue;
        out.strangers++;
        out.fetches += here[turn++ % locals] == here[own];
    }
    return out;
}

// Says whether all machines of a group have equal numbers of its ranks.
static bool is_even_by_walk(const job *j, const int *members, int count)
{
    int ranks[MOST_MACHINES] = {0};
    for (int i = 0; i < count; i++)
        ranks[j->of[members[i]]]++;
    for (int m = 0; m < MOST_MACHINES; m++)
        if (ranks[m] && ranks[m] != ranks[j->of[members[0]]])
            return false;
    return true;
}

static int machines_by_walk(const job *j, const int *members, int count)
{
    int machines = 0;
    for (int i = 0; i < count; i++)
        machines += i == 0 || j->of[members[i]] != j->of[members[i - 1]];
    return machines;
}

// Codes of 1000 bytes a shard: machines of equal size sum first.
static void check_coded(const job *j, const zr_reach *reach, const int *members, int count)
{
    bool even = is_even_by_walk(j, members, count);
    int64_t shards = even ? machines_by_walk(j, members, count) - 1 : reach->strangers;
    assert_int_equal(reach->even, even);
    assert_int_equal(zr_reach_coded_bytes(reach, (int64_t)1000 * (count - 1), count - 1),
                     count > 1 ? 1000 * shards : 0);
}

static int kv_replicas_by_walk(const job *j, const int *members, int count)
{
    int least = count;
    for (int i = 0; i < count; i++) {
        int together = 0;
        for (int k = 0; k < count; k++)
            together += j->of[members[k]] == j->of[members[i]];
        least = ZR_MIN(least, together);
    }
    return least;
}

static void assert_reach(zr_reach found, zr_reach expected)
{
    assert_int_equal(found.size, expected.size);
    assert_int_equal(found.strangers, expected.strangers);
    assert_int_equal(found.fetches, expected.fetches);
}

static void check_rank(const job *j, const zr_mesh *mesh, int rank)
{
    int members[RANKS];
    for (zero_axis axis = 0; axis < ZERO_AXIS_COUNT; axis++) {
        int count = zr_mesh_group(mesh, axis, members);
        assert_reach(zr_job_reach(&j->machines, mesh, axis),
                     reach_by_walk(j, members, count, rank));
        zr_reach reach = zr_job_reach(&j->machines, mesh, axis);
        check_coded(j, &reach, members, count);
        assert_int_equal(zr_job_kv_replicas(&j->machines, mesh, axis),
                         kv_replicas_by_walk(j, members, count));
    }
    for (int i = 0; i < 2; i++)
        members[i] = rank / 2 * 2 + i;
    assert_reach(zr_job_reach_replicas(&j->machines, mesh, 2), reach_by_walk(j, members, 2, rank));
    assert_int_equal(zr_job_reach_replicas(&j->machines, mesh, 0).size, 0);
}

static void ranks_reach_as_machines_say(void **state)
{
    static const int lists[][MOST_MACHINES + 1] = {
        {24},       {12, 12},    {4, 4, 4, 4, 4, 4}, {1, 23},  {5, 1, 7, 2, 9},
        {3, 3, 18}, {10, 10, 4}, {1, 1, 1, 1, 20},   {7, 9, 8}};
    static const int grids[][2] = {{1, 1}, {2, 1}, {1, 2}, {4, 3}, {2, 4}, {6, 2}, {24, 1}};
    for (int l = 0; l < ZR_COUNT(lists); l++)
        for (int g = 0; g < ZR_COUNT(grids); g++)
            for (int rank = 0; rank < RANKS; rank++) {
                job j;
                zr_mesh mesh;
                fill(&j, lists[l]);
                assert_int_equal(zr_mesh_create(RANKS, rank, grids[g][0], grids[g][1], &mesh, NULL),
                                 ZERO_OK);
                check_rank(&j, &mesh, rank);
            }
}

static int64_t shards_of(const zr_plan *plan)
{
    int64_t bytes = 0;
    for (int p = 0; p < plan->flat_param_count; p++)
        bytes += zr_flat_param_shard_bytes(&plan->flat_params[p]);
    return bytes;
}

static int64_t data_of(const zr_plan *plan, zr_reach reach)
{
    zr_step_traffic step;
    const zr_reaches at = {.data = reach};
    zr_step_traffic_find(plan, &step);
    const zr_network network = zr_network_of(&step, &at);
    assert_int_equal(network.bytes[ZR_NETWORK_TENSOR], 0);
    assert_int_equal(network.bytes[ZR_NETWORK_LINKS] + network.bytes[ZR_NETWORK_TIED_WEIGHTS], 0);
    return network.bytes[ZR_NETWORK_DATA];
}

// A rank takes the sums of all strangers' contributions, and its part of what is gathered.
static void data_ranks_take_shards(void **state)
{
    fixture f;
    fixture_build(&f, 3, 1000, 96);
    const zr_reach first = {8, 5, 2}, near = {8, 0, 0}; // 3 of 8 ranks are on its machine
    for (int stage = 0; stage <= 2; stage++) {
        zr_plan *plan = fixture_plan(&f, stage, 8, 4, false);
        assert_int_equal(data_of(plan, first), (4 * 5 + 2) * shards_of(plan));
        assert_int_equal(data_of(plan, near), 0);
        zr_plan_destroy(plan);
    }
}

// However the plan counts a gather, a rank brings its part of the shards; what stays is gathered in
// the first micro-batch alone.
static void what_is_gathered_is_shared(void **state)
{
    fixture f;
    fixture_build(&f, 3, 1000, 96);
    const zr_reach reach = {8, 4, 1};
    zr_plan *alone = fixture_plan(&f, 3, 8, 1, false),
            *shared = fixture_plan_on_machines(&f, 8, 4, false);
    zr_settings settings = fixture_settings(ZERO_F32, 3, 3);
    settings.kept_by = 4;
    zr_plan *kept = fixture_plan_shared(&f, &settings, 8, 4);
    assert_int_equal(zr_plan_gathered(alone), 7);
    assert_int_equal(zr_plan_gathered(shared), 1);
    assert_int_equal(data_of(alone, reach), data_of(shared, reach));
    assert_int_equal(data_of(kept, reach), (3 * 4 + 1) * shards_of(kept));
    zr_plan_destroy(alone);
    zr_plan_destroy(shared);
    zr_plan_destroy(kept);
}

// An all-reduce takes the shares of all strangers, and those that the rank brings.
static void exchanges_take_shares(void **state)
{
    const zr_traffic_plan traffic = {.bytes = {[ZERO_COMM_all_reduce] = 2 * 3 * 100,
                                               [ZERO_COMM_reduce_scatter] = 3 * 10,
                                               [ZERO_COMM_all_gather] = 3 * 7}};
    const zr_reach reach = {4, 2, 1};
    assert_int_equal(zr_network_bytes(&traffic, &reach, 3), (2 + 1) * 100 + 2 * 10 + 7);
}

static void check_links(const pipeline_plans *stages, const int *machines)
{
    for (int s = 0; s < stages->count; s++) {
        zr_step_traffic step;
        int64_t from_afar = 0;
        const zr_plan *plan = stages->plans[s];
        const zr_reaches at = {.stages = machines};
        zr_step_traffic_find(plan, &step);
        for (int i = 0; i < plan->link_count; i++)
            if (plan->links[i].to == s && machines[plan->links[i].from] != machines[s])
                from_afar += plan->settings.accumulation * plan->links[i].message;
        assert_int_equal(zr_network_of(&step, &at).bytes[ZR_NETWORK_LINKS], from_afar);
        assert_int_equal(zr_network_of(&step, &at).bytes[ZR_NETWORK_TIED_WEIGHTS], 0);
    }
}

static void stages_receive_from_other_machines(void **state)
{
    const int apart[] = {0, 1, 2, 3}, halves[] = {0, 0, 1, 1}, one[] = {0, 0, 0, 0};
    const zr_pipeline kinds[] = {pipeline_of(ZR_PIPELINE_1F1B, 4, 1, 3),
                                 pipeline_of(ZR_PIPELINE_INTERLEAVED, 4, 2, 4),
                                 pipeline_of(ZR_PIPELINE_ZB_H1, 4, 1, 8)};
    for (int k = 0; k < ZR_COUNT(kinds); k++) {
        pipeline_plans stages;
        pipeline_plans_simple(&kinds[k], &stages);
        check_links(&stages, apart);
        check_links(&stages, halves);
        check_links(&stages, one);
        pipeline_plans_free(&stages);
    }
}

// The head's rank gets the parameters of its tied copy, the embedding's rank the sums, once a step.
static void tied_weights_are_told_apart(void **state)
{
    fixture f;
    pipeline_plans stages;
    const int apart[] = {0, 1};
    const zr_pipeline pipeline = pipeline_of(ZR_PIPELINE_1F1B, 2, 1, 4);
    zr_settings settings = fixture_settings(ZERO_BF16, 2, 4);
    fixture_build(&f, 4, 1000, 96);
    pipeline_plans_make(&f.model, &pipeline, &settings, &(zr_machine){.ranks = 2, .threads = 1},
                        &stages);
    for (int s = 0; s < 2; s++) {
        zr_step_traffic step;
        const zr_reaches at = {.stages = apart};
        zr_step_traffic_find(stages.plans[s], &step);
        const zr_tied_weight_plan *tied_weight = &stages.plans[s]->tied_weights[0];
        const zr_network network = zr_network_of(&step, &at);
        int link = s == 0 ? tied_weight->sum_link : tied_weight->parameter_link;
        assert_int_equal(network.bytes[ZR_NETWORK_TIED_WEIGHTS],
                         stages.plans[s]->links[link].message);
        assert_true(network.bytes[ZR_NETWORK_LINKS] > 0);
    }
    pipeline_plans_free(&stages);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_reach_as_machines_say),
        cmocka_unit_test(data_ranks_take_shards),
        cmocka_unit_test(what_is_gathered_is_shared),
        cmocka_unit_test(exchanges_take_shares),
        cmocka_unit_test(stages_receive_from_other_machines),
        cmocka_unit_test(tied_weights_are_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
