// States on tiers: portions of the update cover every element once, nothing that is in a buffer at one time overlaps, and the bytes that
// move are those of ZeRO-Offload and ZeRO-Infinity.
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include "fixture.h"
#include "setup/resolve.h"

#include <stdio.h>
#include <string.h>

static const zr_tiering on_nvme = {.parameters = ZERO_TIER_nvme, .optimizer = ZERO_TIER_nvme, .sub_group = 10000, .read_ahead = true, .write_behind = true, .visits_ahead = 2,
                                   .block = 1 << 20};
static const zr_tiering on_host = {.parameters = ZERO_TIER_host, .optimizer = ZERO_TIER_host};

static void check_slices(const zr_plan *plan)
{
    int64_t limit = ZR_MAX(plan->settings.tiering.sub_group, 0) / ZR_CHUNK * ZR_CHUNK, covered[ZERO_TIER_COUNT] = {0};
    int next = 0;
    for (int p = 0; p < plan->piece_count; p++) {
        const zr_piece *piece = &plan->pieces[p];
        int64_t at = 0;
        assert_int_equal(piece->slice_first, next);
        for (; next < piece->slice_first + piece->slice_count; next++) {
            const zr_slice *slice = &plan->slices[next];
            assert_true(slice->piece == p && slice->first == at && slice->count > 0 && slice->count % ZR_CHUNK == 0);
            at += slice->count;
        }
        assert_int_equal(at, piece->shard);
    }
    assert_int_equal(next, plan->slice_count);
    for (int g = 0; g < plan->group_count; g++) {
        const zr_group *group = &plan->groups[g];
        int64_t count = 0;
        for (int s = group->slice_first; s < group->slice_first + group->slice_count; s++) {
            const zr_slice *slice = &plan->slices[s];
            assert_int_equal(slice->group, g);
            assert_int_equal(plan->pieces[slice->piece].state_first + slice->first, group->first + count); // one after another in every vector
            count += slice->count;
        }
        assert_int_equal(count, group->count);
        assert_true(limit == 0 || count <= limit);
        assert_int_equal(group->first, covered[group->state_tier]);
        covered[group->state_tier] += count;
        assert_true(group->state_tier != ZERO_TIER_nvme || count <= plan->tile.elems);
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
            zr_tiering tiering = on_nvme;
            tiering.sub_group = sub_group;
            tiering.on_device = ranks == 2 ? 0.4 : 0;
            zr_plan *plan = fixture_plan_on_tiers(&f, 3, ranks, 1, &tiering);
            check_slices(plan);
            if (ranks == 2) { // the last pieces' states stay, as many as make up that part
                int64_t all = plan->state_elems[ZERO_TIER_device] + plan->state_elems[ZERO_TIER_nvme];
                assert_true(plan->state_elems[ZERO_TIER_device] > 0 && plan->state_elems[ZERO_TIER_device] * 10 <= all * 4);
                assert_int_equal(plan->pieces[plan->piece_count - 1].state_tier, ZERO_TIER_device);
            }
            zr_plan_destroy(plan);
        }
}

// Of all ranks' shards, at every border between two parameters a slice ends, to a chunk; and a group has one slice.
static void check_alone(const zr_plan *plan)
{
    for (int s = 0; s < plan->slice_count; s++) {
        const zr_slice *slice = &plan->slices[s];
        const zr_piece *piece = &plan->pieces[slice->piece];
        for (int r = 0; r < plan->ranks; r++)
            for (int t = 1; t < piece->tensor_count; t++) {
                int64_t begin = piece->tensors[t].first / ZR_CHUNK * ZR_CHUNK, first = r * piece->shard + slice->first;
                assert_false(begin > first && begin < first + slice->count);
            }
    }
    for (int g = 0; g < plan->group_count; g++)
        assert_int_equal(plan->groups[g].slice_count, 1);
}

static void each_parameter_by_itself(void **state)
{
    fixture f;
    fixture_build(&f, 5, 1000, 96);
    for (int ranks = 1; ranks <= 8; ranks++)
        for (int tier = 0; tier < 2; tier++) {
            zr_tiering tiering = tier ? on_nvme : on_host;
            zr_plan *whole, *plan;
            tiering.sub_group = 0;
            whole = fixture_plan_on_tiers(&f, 3, ranks, 1, &tiering);
            tiering.sub_group = ZR_EACH_PARAMETER;
            plan = fixture_plan_on_tiers(&f, 3, ranks, 1, &tiering);
            check_slices(plan);
            check_alone(plan);
            assert_true(plan->group_count > whole->group_count);
            zr_plan_destroy(whole);
            zr_plan_destroy(plan);
        }
}

// The plan of what a configuration says of stage 3 with states and parameters on the host.
static zr_plan *plan_as_said(const fixture *f, const char *said)
{
    const zr_config_facts facts = {.ranks = 2, .micro_batch = 2, .auto_dtype = ZERO_BF16};
    char text[512];
    zr_config *config = NULL;
    zero_error error = {0};
    snprintf(text, sizeof text,
             "{\"zero_optimization\": {\"stage\": 3, \"offload_optimizer\": {\"device\": \"cpu\"}, \"offload_param\": {\"device\": \"cpu\"}, %s}}",
             said);
    if (zr_config_parse(text, strlen(text), "test", &config, &error) != ZERO_OK
        || zr_config_resolve(config, &facts, NULL, &error) != ZERO_OK)
        fail_msg("%s: %s", text, error.message);
    zr_tiering tiering = zr_settings_of(config, false).tiering;
    zr_config_destroy(config);
    return fixture_plan_on_tiers(f, 3, 2, 1, &tiering);
}

static void a_sub_group_size_of_0_is_each_parameter(void **state)
{
    fixture f;
    fixture_build(&f, 5, 1000, 96);
    zr_plan *whole = plan_as_said(&f, "\"sub_group_size\": 1e9"), *plan = plan_as_said(&f, "\"sub_group_size\": 0");
    check_alone(plan);
    assert_true(plan->group_count > whole->group_count);
    zr_plan_destroy(whole);
    zr_plan_destroy(plan);
}

typedef struct bytes { int64_t first, end; } bytes;

static void check_apart(bytes a, bytes b)
{
    assert_true(a.first >= b.end || b.first >= a.end);
}

// Own shards in the host's buffers, from the fetch to the gather.
static void check_staged(const zr_plan *plan)
{
    int fetched = plan->first_fetches;
    for (int v = 0; v < plan->visit_count; v++) {
        assert_true(fetched >= v && plan->visits[v].fetches_visit >= fetched && plan->visits[v].fetches_visit >= ZR_MIN(v + 1, plan->visit_count - 1));
        for (int phase = 0; phase < 2; phase++) { // before visit v is gathered, and after, when more is fetched
            int from = phase ? v + 1 : v, to = phase ? plan->visits[v].fetches_visit : fetched;
            bytes live[64];
            int count = 0;
            for (int w = from; w <= to; w++)
                for (int i = 0; i < plan->visits[w].piece_count; i++) {
                    if (plan->visits[w].staged_first[i] < 0)
                        continue;
                    int64_t first = plan->visits[w].staged_first[i];
                    live[count] = (bytes){first, first + zr_piece_shard_bytes(&plan->pieces[plan->visits[w].pieces[i]])};
                    assert_true(live[count].end <= plan->staged_parameter_bytes);
                    for (int k = 0; k < count; k++)
                        check_apart(live[k], live[count]);
                    count++;
                }
        }
        fetched = plan->visits[v].fetches_visit;
    }
}

static void check_gathered(const zr_plan *plan)
{
    for (int v = 0; v + 1 < plan->visit_count; v++) {
        const zr_visit *now = &plan->visits[v], *next = &plan->visits[v + 1];
        for (int i = 0; i < now->piece_count; i++)
            for (int k = 0; k < next->piece_count && next->ahead; k++) {
                const zr_piece *a = &plan->pieces[now->pieces[i]], *b = &plan->pieces[next->pieces[k]];
                if (a == b && a->kept_first >= 0)
                    continue;
                check_apart((bytes){now->gather_first[i], now->gather_first[i] + plan->ranks * zr_piece_shard_bytes(a)},
                            (bytes){next->gather_first[k], next->gather_first[k] + plan->ranks * zr_piece_shard_bytes(b)});
                assert_true(next->gather_first[k] + plan->ranks * zr_piece_shard_bytes(b) <= plan->gather_bytes);
            }
    }
}

static int reusing(const zr_plan *plan)
{
    int count = 0;
    for (int w = 0; w < plan->visit_count; w++) {
        const zr_visit *later = &plan->visits[w], *first = later->reuses >= 0 ? &plan->visits[later->reuses] : NULL;
        for (int i = 0; i < later->piece_count && first; i++) {
            const zr_piece *piece = &plan->pieces[later->pieces[i]];
            const bytes place = {later->gather_first[i], later->gather_first[i] + plan->ranks * zr_piece_shard_bytes(piece)};
            bool there = false;
            for (int k = 0; k < first->piece_count; k++)
                there |= first->pieces[k] == later->pieces[i] && first->gather_first[k] == place.first;
            assert_true(there && !later->gathers[i] && later->staged_first[i] < 0 && place.end <= plan->gather_bytes);
            for (int u = later->reuses + 1; u < w; u++) // whoever is gathered in between lies elsewhere
                for (int k = 0; k < plan->visits[u].piece_count && plan->visits[u].reuses != later->reuses; k++)
                    check_apart(place, (bytes){plan->visits[u].gather_first[k],
                                               plan->visits[u].gather_first[k] + plan->ranks * zr_piece_shard_bytes(&plan->pieces[plan->visits[u].pieces[k]])});
        }
        count += first != NULL;
    }
    return count;
}

static void what_is_needed_soon_stays(void **state)
{
    fixture f;
    fixture_build(&f, 5, 1000, 96);
    zr_tiering tiering = on_nvme;
    zr_plan *plan = fixture_plan_on_tiers(&f, 3, 2, 1, &tiering);
    int64_t none = plan->gather_bytes, read = plan->moves.micro_batch.nvme_read, block = plan->pieces[1].padded;
    assert_int_equal(reusing(plan), 0);
    zr_plan_destroy(plan);
    tiering.reuse = 1000000000;
    plan = fixture_plan_on_tiers(&f, 3, 2, 1, &tiering);
    assert_int_equal(reusing(plan), 6); // the backward of every block, and of the head
    assert_true(plan->gather_bytes > none && plan->moves.micro_batch.nvme_read < read);
    int64_t all = plan->moves.micro_batch.nvme_read;
    zr_plan_destroy(plan);
    tiering.reuse = 1000 * 96 + 96 + 2048 * 4 + 2 * block; // the head, and a block's forward and backward
    plan = fixture_plan_on_tiers(&f, 3, 2, 1, &tiering);
    int few = reusing(plan);
    assert_true(few > 0 && few < 6 && plan->moves.micro_batch.nvme_read > all);
    zr_plan_destroy(plan);
    tiering.live = 1; // one unit is always whole, and no other beside it
    plan = fixture_plan_on_tiers(&f, 3, 2, 1, &tiering);
    assert_int_equal(reusing(plan), 0);
    zr_plan_destroy(plan);
    for (int live = 0; live <= 1000000000; live += 1000000000) { // 0 is a limit too
        char said[128];
        snprintf(said, sizeof said,
                 "\"stage3_param_persistence_threshold\": 0, \"stage3_max_reuse_distance\": 1e9, \"stage3_max_live_parameters\": %d", live);
        plan = plan_as_said(&f, said);
        assert_int_equal(reusing(plan), live ? 6 : 0);
        zr_plan_destroy(plan);
    }
}

static void nothing_in_a_buffer_overlaps(void **state)
{
    fixture f;
    for (int blocks = 1; blocks <= 9; blocks += 4) {
        fixture_build(&f, blocks, 1000, 96);
        for (int persistent = 0; persistent <= 100000; persistent += 50000) {
            zr_tiering tiering = on_nvme;
            tiering.persistent = persistent;
            tiering.persistent_most = 200000;
            zr_plan *plan = fixture_plan_on_tiers(&f, 3, 4, 2, &tiering);
            check_staged(plan);
            check_gathered(plan);
            zr_plan_destroy(plan);
        }
    }
}

static int64_t elems_of(const zr_plan *plan, zero_tier tier)
{
    return plan->state_elems[tier];
}

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
        assert_int_equal(plan->moves.update[0].to_host + plan->moves.micro_batch.to_device + plan->moves.update[0].nvme_read, 0);
        assert_int_equal(plan->bytes[ZERO_TIER_host][ZERO_MEM_optimizer], 12 * n);
        zr_plan_destroy(plan);
    }
    zr_plan *plan = fixture_plan_on_tiers(&f, 3, 2, 1, &on_nvme);
    int64_t n = elems_of(plan, ZERO_TIER_nvme);
    assert_int_equal(plan->moves.update[0].nvme_read, 14 * n);         // gradient, master, moments
    assert_int_equal(plan->moves.update_first_unread, 8 * n);       // moments that are zeros still
    assert_int_equal(plan->moves.update[0].nvme_written, 14 * n);      // master, moments, parameters
    assert_int_equal(plan->moves.micro_batch.nvme_written, 2 * n); // gradients
    assert_int_equal(plan->bytes[ZERO_TIER_nvme][ZERO_MEM_optimizer] + plan->bytes[ZERO_TIER_nvme][ZERO_MEM_gradients] + plan->bytes[ZERO_TIER_nvme][ZERO_MEM_parameters], 16 * n);
    zr_plan_destroy(plan);
    plan = fixture_plan_on_tiers(&f, 3, 2, 3, &on_nvme); // sums of several micro-batches are fp32, and come back for the next
    assert_int_equal(plan->moves.micro_batch.nvme_written, 4 * n);
    assert_int_equal(plan->moves.earlier_sum.nvme_read, 4 * n);
    zr_plan_destroy(plan);
}

static void a_farther_tier_takes_less_of_the_nearer(void **state)
{
    fixture f;
    fixture_build(&f, 12, 1000, 96);
    zr_tiering nothing = {0};
    zr_plan *device = fixture_plan_on_tiers(&f, 3, 2, 1, &nothing), *host = fixture_plan_on_tiers(&f, 3, 2, 1, &on_host), *nvme = fixture_plan_on_tiers(&f, 3, 2, 1, &on_nvme);
    assert_true(zr_plan_tier_bytes(host, ZERO_TIER_device) < zr_plan_tier_bytes(device, ZERO_TIER_device));
    assert_true(zr_plan_tier_bytes(nvme, ZERO_TIER_host) < zr_plan_tier_bytes(host, ZERO_TIER_host));
    assert_int_equal(zr_plan_tier_bytes(device, ZERO_TIER_host), 0);
    assert_int_equal(zr_plan_tier_bytes(host, ZERO_TIER_nvme), 0);
    assert_int_equal(nvme->tile.count, 3);
    assert_true(device->hash != host->hash && host->hash != nvme->hash);
    zr_machine machine = {.tier_limit = {[ZERO_TIER_host] = zr_plan_tier_bytes(nvme, ZERO_TIER_host)}};
    assert_true(zr_plan_fits(nvme, &machine));
    machine.tier_limit[ZERO_TIER_host]--;
    assert_false(zr_plan_fits(nvme, &machine));
    zr_plan_destroy(device);
    zr_plan_destroy(host);
    zr_plan_destroy(nvme);
}

static void what_is_not_partitioned_is_not_offloaded(void **state)
{
    fixture f;
    fixture_build(&f, 2, 100, 64);
    const struct { int stage; zr_tiering tiering; } wrong[] = {{0, {.optimizer = ZERO_TIER_host}}, {2, {.parameters = ZERO_TIER_nvme}}};
    for (int i = 0; i < ZR_COUNT(wrong); i++) {
        zr_settings settings = {.stage = wrong[i].stage, .precision = zr_precision_of(ZERO_F32, 1), .accumulation = 1, .tiering = wrong[i].tiering};
        zr_plan *plan = NULL;
        zero_error error;
        assert_int_equal(zr_plan_create(&f.model, &(zero_shape){.batch = 1, .seq = 1}, &settings, &(zr_machine){.ranks = 2, .mapped = true}, &plan, &error), ZERO_ERR_CONFIG);
        assert_non_null(strstr(error.message, "they are partitioned at stage"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(portions_cover_every_element_once),
        cmocka_unit_test(each_parameter_by_itself),
        cmocka_unit_test(a_sub_group_size_of_0_is_each_parameter),
        cmocka_unit_test(what_is_needed_soon_stays),
        cmocka_unit_test(nothing_in_a_buffer_overlaps),
        cmocka_unit_test(what_moves_is_what_the_papers_say),
        cmocka_unit_test(a_farther_tier_takes_less_of_the_nearer),
        cmocka_unit_test(what_is_not_partitioned_is_not_offloaded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
