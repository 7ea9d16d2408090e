// The walk over groups whose states are on NVMe: while one is updated, the next has been asked for
// and none after it, or, without reading ahead, none at all; and the one before is being written.
#include "harness.h"

#include "engine/engine_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static const zr_store_ops *disk; // the functions of stores on NVMe
static struct {
    const zr_store *counted; // one vector of every group
    int fetched, committed;  // groups of which it has been asked to travel
    int ahead;               // groups that are read ahead
    int groups;              // that have been updated
} seen;
static int all_groups;

static zero_status fetch(zr_store *store, zr_range range, void *buffer, zr_transfer *out,
                         zero_error *error)
{
    seen.fetched += store == seen.counted;
    return disk->fetch(store, range, buffer, out, error);
}

static zero_status commit(zr_store *store, zr_range range, void *buffer, zr_transfer *out,
                          zero_error *error)
{
    seen.committed += store == seen.counted;
    return disk->commit(store, range, buffer, out, error);
}

static zero_status take(void *user, zero_engine *engine, const zr_shard_slice *shard_slice,
                        const zr_range_states *states, zero_error *error)
{
    const zr_plan *plan = engine->plan;
    int g = seen.groups,
        end = plan->groups[g].shard_slice_first + plan->groups[g].shard_slice_count;
    seen.groups += shard_slice == &plan->shard_slices[end - 1];
    if (shard_slice->group == g && seen.committed == g &&
        seen.fetched == ZR_MIN(g + 1 + seen.ahead, plan->group_count))
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_INTERNAL,
                   "group %d comes after %d, when %d have been asked for and %d are written",
                   shard_slice->group, g, seen.fetched, seen.committed);
}

static zero_status walk(zero_engine *engine, zero_error *error)
{
    const zr_plan *plan = engine->plan;
    zr_store *store = &engine->stores[zr_store_of_vector(ZERO_TIER_nvme, ZR_VECTOR_STATE0)];
    zr_walk_vectors walks[ZR_MOST_WALKS];
    disk = store->ops;
    zr_store_ops watched = *disk;
    watched.fetch = fetch;
    watched.commit = commit;
    seen.counted = store;
    seen.fetched = seen.committed = seen.groups = 0;
    zr_plan_walks(plan, walks);
    store->ops = &watched;
    zero_status status =
        zr_groups_walk(engine, &(zr_walk){.vectors = walks[0], .take = take}, error);
    store->ops = disk;
    all_groups = plan->group_count;
    return status;
}

static void the_next_group_is_read_while_one_is_updated(void **state)
{
    static harness_result out;
    for (int writes_stale = 0; writes_stale < 2; writes_stale++)
        for (seen.ahead = 0; seen.ahead < 2; seen.ahead++) {
            char tiers[256];
            snprintf(tiers, sizeof tiers,
                     "\"offload_optimizer\": {\"device\": \"nvme\", \"nvme_path\": \"%s\", "
                     "\"pipeline_read\": %s, \"pipeline_write\": %s}, \"sub_group_size\": 3000",
                     harness_scratch(), seen.ahead ? "true" : "false",
                     writes_stale ? "true" : "false");
            harness_run(&(harness_case){.stage = 2,
                                        .ranks = 1,
                                        .accumulation = 1,
                                        .batch = 1,
                                        .tiers = tiers,
                                        .drive = walk},
                        &out);
            assert_true(all_groups > 3);
            assert_int_equal(seen.groups, all_groups);
            assert_int_equal(seen.fetched, all_groups);
            assert_int_equal(seen.committed, all_groups);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_next_group_is_read_while_one_is_updated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
