// Schedules on virtual time: bubbles and sets against the formulas of the papers, times against
// what every action waits for, and lanes that wait for ever.
#include "plan/pipeline/simulate.h"
#include "sanitizers.h"
#include "base/alloc.h"
#include "lane_text.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

enum { STAGES = 16, MICRO_BATCHES = 64, CHUNKS = 4 };
enum { MODEL_CHUNKS = STAGES * CHUNKS };

// Writes costs of a forward of one second, and a backward of two: one of the input alone and one
// of the weights, where lists have them.
static void usual_costs(const zr_pipeline *p, zr_chunk_cost *out)
{
    bool weights = zr_pipeline_has_weights(p->kind);
    for (int g = 0; g < p->stages * p->chunks; g++)
        out[g] = (zr_chunk_cost){.act = {1, weights ? 1 : 2, weights ? 1 : 0}};
}

static zr_simulation simulate(const zr_pipeline *p)
{
    zr_chunk_cost costs[MODEL_CHUNKS];
    zr_simulation out;
    zero_error error = {0};
    usual_costs(p, costs);
    zero_status status = zr_simulate(p, NULL, costs, &out, &error);
    if (status != ZERO_OK)
        fail_msg("%s, %d stages, %d micro-batches: %s", zr_pipeline_kind_name(p->kind), p->stages,
                 p->micro_batches, error.message);
    return out;
}

static void for_stages_and_micro_batches(zr_pipeline_kind kind, int chunks,
                                         void (*check)(const zr_pipeline *p,
                                                       const zr_simulation *simulated))
{
    for (int stages = 1; stages <= STAGES; stages++)
        for (int m = 1; m <= MICRO_BATCHES; m++) {
            const zr_pipeline p = {kind, stages, chunks, m, 1};
            if (zr_pipeline_check(&p, NULL) != ZERO_OK)
                continue;
            zr_simulation simulated = simulate(&p);
            check(&p, &simulated);
            zr_simulation_free(&simulated);
        }
}

static void assert_near(double found, double expected)
{
    if (!(fabs(found - expected) <= 1e-9 * ZR_MAX(1, fabs(expected))))
        fail_msg("%.17g is not %.17g", found, expected);
}

// A bubble is the same on all stages, since all are busy for as long.
static void assert_bubble(const zr_simulation *simulated, double expected)
{
    assert_near(simulated->bubble, expected);
    for (int s = 0; s < simulated->stages; s++)
        assert_near(simulated->stage[s].bubble, expected);
}

static void check_gpipe(const zr_pipeline *p, const zr_simulation *simulated)
{
    double m = p->micro_batches, after = p->stages - 1;
    assert_near(simulated->total, 3 * (m + after));
    assert_bubble(simulated, after / (m + after));
    for (int s = 0; s < p->stages; s++)
        assert_int_equal(simulated->stage[s].sets, p->micro_batches);
}

static void gpipe_has_the_bubble_of_its_paper(void **state)
{
    for_stages_and_micro_batches(ZR_PIPELINE_GPIPE, 1, check_gpipe);
}

static void check_1f1b(const zr_pipeline *p, const zr_simulation *simulated)
{
    double m = p->micro_batches, after = p->stages - 1;
    assert_near(simulated->total, 3 * (m + after));
    assert_bubble(simulated, after / (m + after));
    for (int s = 0; s < p->stages; s++)
        assert_int_equal(simulated->stage[s].sets, ZR_MIN(p->stages - s, p->micro_batches));
}

static void one_forward_one_backward_lasts_as_long_and_holds_less(void **state)
{
    for_stages_and_micro_batches(ZR_PIPELINE_1F1B, 1, check_1f1b);
}

static void check_interleaved(const zr_pipeline *p, const zr_simulation *simulated)
{
    double m = p->micro_batches, after = (p->stages - 1) / (double)p->chunks;
    assert_near(simulated->total, 3 * p->chunks * (m + after));
    assert_bubble(simulated, after / (m + after));
    for (int s = 0; s < p->stages; s++) {
        int ahead = 2 * (p->stages - s - 1) + (p->chunks - 1) * p->stages;
        assert_int_equal(simulated->stage[s].sets, ZR_MIN(ahead + 1, p->chunks * p->micro_batches));
    }
}

static void interleaved_divides_the_bubble_by_its_chunks(void **state)
{
    for (int chunks = 2; chunks <= CHUNKS; chunks++)
        for_stages_and_micro_batches(ZR_PIPELINE_INTERLEAVED, chunks, check_interleaved);
}

static void check_zb_h1(const zr_pipeline *p, const zr_simulation *simulated)
{
    double m = p->micro_batches, after = p->stages - 1;
    if (p->micro_batches >= p->stages) {
        assert_near(simulated->total, 3 * m + after);
        assert_bubble(simulated, after / (3 * m + after));
    } else
        assert_true(simulated->total <= 3 * (m + after));
    for (int s = 0; s < p->stages; s++)
        assert_int_equal(simulated->stage[s].sets, ZR_MIN(p->stages, p->micro_batches));
}

static void zero_bubble_leaves_a_third(void **state)
{
    for_stages_and_micro_batches(ZR_PIPELINE_ZB_H1, 1, check_zb_h1);
}

static void bubbles_of_four_stages_and_eight_micro_batches(void **state)
{
    static const struct {
        zr_pipeline_kind kind;
        int chunks, thousandths;
    } cases[] = {
        {ZR_PIPELINE_GPIPE, 1, 273},
        {ZR_PIPELINE_1F1B, 1, 273},
        {ZR_PIPELINE_INTERLEAVED, 2, 158},
        {ZR_PIPELINE_ZB_H1, 1, 111},
    };
    for (int i = 0; i < ZR_COUNT(cases); i++) {
        const zr_pipeline p = {cases[i].kind, 4, cases[i].chunks, 8, 1};
        zr_simulation simulated = simulate(&p);
        assert_int_equal(lround(1000 * simulated.bubble), cases[i].thousandths);
        zr_simulation_free(&simulated);
    }
}

// Checks that forwards and backwards run when those of 1f1b do, in one step of as many
// micro-batches: nothing drains in between, and nobody waits for an update or what it needs.
static void assert_flushes_once(const zr_pipeline *p)
{
    const zr_pipeline one = {ZR_PIPELINE_1F1B, p->stages, 1, zr_pipeline_window(p), 1};
    zr_lane *lanes = zr_pipeline_lanes(p, NULL);
    zr_simulation found = simulate(p), expected = simulate(&one);
    assert_near(found.total, expected.total);
    assert_near(found.bubble, expected.bubble);
    for (int s = 0; s < p->stages; s++) {
        const zr_slot_of_time *at = expected.stage[s].at;
        assert_int_equal(found.stage[s].sets, expected.stage[s].sets);
        for (int i = 0; i < lanes[s].count; i++)
            if (lanes[s].at[i].act < ZR_ACT_NORM) {
                assert_near(found.stage[s].at[i].begin, at->begin);
                assert_near(found.stage[s].at[i].end, at++->end);
            }
    }
    zr_simulation_free(&found);
    zr_simulation_free(&expected);
    zr_free(lanes);
}

static void asynchronous_windows_flush_once(void **state)
{
    static const zr_pipeline_kind kinds[] = {ZR_PIPELINE_PIPEDREAM, ZR_PIPELINE_2BW};
    static const int windows[] = {1, 2, 3, 8}; // steps
    int between = SANITIZED ? 9 : 1;           // micro-batches
    for (int kind = 0; kind < ZR_COUNT(kinds); kind++)
        for (int stages = 1; stages <= STAGES; stages++)
            for (int m = 1; m <= MICRO_BATCHES; m += between)
                for (int w = 0; w < ZR_COUNT(windows); w++) {
                    const zr_pipeline p = {kinds[kind], stages, 1, m, windows[w]};
                    if (zr_pipeline_check(&p, NULL) == ZERO_OK)
                        assert_flushes_once(&p);
                }
}

// Times, found a second way.

static const zr_slot_of_time *time_of(const zr_pipeline *p, const zr_lane *lanes,
                                      const zr_simulation *simulated, int g, zr_act act, int k)
{
    int s = g % p->stages;
    for (int i = 0; i < lanes[s].count; i++) {
        const zr_action *a = &lanes[s].at[i];
        if (a->act == act && a->chunk == g / p->stages && a->micro_batch == k)
            return &simulated->stage[s].at[i];
    }
    fail();
    return NULL;
}

// Returns the time before which the stages' sums of a step let no norm or update begin.
static double sums_known(const zr_pipeline *p, const zr_lane *lanes, const zr_simulation *simulated,
                         int s, const zr_action *a)
{
    double known = 0;
    bool adds = a->act == ZR_ACT_NORM && s == 0, takes = a->act == ZR_ACT_UPDATE && s > 0;
    if (p->kind != ZR_PIPELINE_2BW || !(adds || takes))
        return 0;
    for (int other = takes ? 0 : 1; other < (takes ? 1 : p->stages); other++) {
        const zr_slot_of_time *norm =
            time_of(p, lanes, simulated, other, ZR_ACT_NORM, a->micro_batch);
        known = fmax(known, norm->end);
    }
    return known;
}

// Returns the earliest time at which an action may begin, from what all other actions ended at.
static double earliest(const zr_pipeline *p, const zr_lane *lanes, const zr_chunk_cost *costs,
                       const zr_simulation *simulated, int s, int i)
{
    const zr_action *a = &lanes[s].at[i];
    int g = zr_pipeline_chunk(p, s, a->chunk), k = a->micro_batch, chunks = p->stages * p->chunks;
    zr_act last = zr_pipeline_has_weights(p->kind) ? ZR_ACT_WEIGHT : ZR_ACT_BACKWARD;
    double begin = i ? simulated->stage[s].at[i - 1].end : 0;
    bool forward = a->act == ZR_ACT_FORWARD;
    if (!forward && a->act != ZR_ACT_BACKWARD)
        return fmax(begin, sums_known(p, lanes, simulated, s, a));
    int from = forward ? g - 1 : g + 1, to = forward ? g + 1 : g - 1;
    if (from >= 0 && from < chunks) {
        double sent = forward ? costs[from].send : costs[from].send_back;
        begin = fmax(begin, time_of(p, lanes, simulated, from, a->act, k)->end + sent);
    }
    if (to < 0 || to >= chunks)
        return begin;
    const zr_chunk_buffers there = zr_pipeline_buffers(p, to % p->stages, to / p->stages);
    int before = k - (forward ? there.input_slots : there.gradient_slots);
    if (before < 0)
        return begin;
    zr_act reads = forward ? last : ZR_ACT_BACKWARD;
    return fmax(begin, time_of(p, lanes, simulated, to, reads, before)->end);
}

static void assert_times(const zr_pipeline *p, const zr_lane *lanes, const zr_chunk_cost *costs,
                         const zr_simulation *simulated)
{
    double total = 0;
    for (int s = 0; s < p->stages; s++) {
        double busy = 0;
        for (int i = 0; i < lanes[s].count; i++) {
            const zr_action *a = &lanes[s].at[i];
            const zr_slot_of_time *at = &simulated->stage[s].at[i];
            double cost = costs[zr_pipeline_chunk(p, s, a->chunk)].act[a->act];
            assert_near(at->begin, earliest(p, lanes, costs, simulated, s, i));
            assert_near(at->end, at->begin + cost);
            busy += cost;
            total = fmax(total, at->end);
        }
        assert_near(simulated->stage[s].busy, busy);
        assert_near(simulated->stage[s].bubble, 1 - busy / simulated->total);
    }
    assert_near(simulated->total, total);
}

static double some(unsigned *state) // from 0 to 1
{
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 8) / 16777216.0;
}

static zr_chunk_cost some_cost(unsigned *random)
{
    zr_chunk_cost cost = {.send = some(random), .send_back = some(random)};
    for (int act = 0; act < ZR_ACT_COUNT; act++)
        cost.act[act] = some(random);
    return cost;
}

// Of uneven stages some wait for slots, and all actions begin as early as they may, never earlier.
static void every_action_begins_as_soon_as_it_may(void **state)
{
    unsigned random = 1;
    for (int kind = 0; kind < ZR_PIPELINE_KIND_COUNT; kind++)
        for (int stages = 1; stages <= 5; stages++)
            for (int round = 0; round < 4; round++) {
                zr_chunk_cost costs[10];
                bool two = kind == ZR_PIPELINE_INTERLEAVED;
                int steps = zr_pipeline_is_asynchronous((zr_pipeline_kind)kind) ? 4 : 1;
                const zr_pipeline p = {(zr_pipeline_kind)kind, stages, two ? 2 : 1, 2 * stages,
                                       steps};
                for (int g = 0; g < ZR_COUNT(costs); g++)
                    costs[g] = some_cost(&random);
                zr_lane *lanes = zr_pipeline_lanes(&p, NULL);
                zr_simulation simulated;
                assert_int_equal(zr_simulate(&p, NULL, costs, &simulated, NULL), ZERO_OK);
                assert_times(&p, lanes, costs, &simulated);
                zr_simulation_free(&simulated);
                zr_free(lanes);
            }
}

// A fast stage that makes gradients has two slots for them, and then waits for the slow one.
static void a_sender_waits_for_a_free_slot(void **state)
{
    const zr_pipeline p = {ZR_PIPELINE_GPIPE, 2, 1, 5, 1};
    const zr_chunk_cost costs[] = {{.act = {1, 10}}, {.act = {1, 1}}};
    zr_simulation simulated;
    assert_int_equal(zr_simulate(&p, NULL, costs, &simulated, NULL), ZERO_OK);
    const zr_slot_of_time *slow = simulated.stage[0].at + 5, *fast = simulated.stage[1].at + 5;
    assert_near(fast[1].begin, fast[0].end);
    for (int k = 2; k < 5; k++)
        assert_near(fast[k].begin, slow[k - 2].end);
    zr_simulation_free(&simulated);
}

static void what_is_sent_takes_its_time(void **state)
{
    const zr_pipeline p = {ZR_PIPELINE_1F1B, 2, 1, 1, 1};
    const zr_chunk_cost costs[] = {{.act = {1, 2}, .send = 5}, {.act = {3, 4}, .send_back = 7}};
    zr_simulation simulated;
    assert_int_equal(zr_simulate(&p, NULL, costs, &simulated, NULL), ZERO_OK);
    assert_near(simulated.stage[1].at[0].begin, 1 + 5);
    assert_near(simulated.stage[0].at[1].begin, 1 + 5 + 3 + 4 + 7);
    assert_near(simulated.total, 1 + 5 + 3 + 4 + 7 + 2);
    assert_near(simulated.stage[0].busy, 3);
    assert_near(simulated.bubble, 1 - 10 / (2 * 22.0));
    zr_simulation_free(&simulated);
}

static void an_update_takes_its_time(void **state)
{
    const zr_pipeline p = {ZR_PIPELINE_PIPEDREAM, 1, 1, 1, 2};
    const zr_chunk_cost costs[] = {{.act = {1, 2, [ZR_ACT_UPDATE] = 4}}};
    zr_simulation simulated;
    assert_int_equal(zr_simulate(&p, NULL, costs, &simulated, NULL), ZERO_OK);
    assert_near(simulated.stage[0].at[3].begin, 7);
    assert_near(simulated.total, 14);
    zr_simulation_free(&simulated);
}

static void what_takes_no_time_has_no_bubble(void **state)
{
    const zr_pipeline p = {ZR_PIPELINE_1F1B, 2, 1, 3, 1};
    const zr_chunk_cost costs[2] = {{{0}}};
    zr_simulation simulated;
    assert_int_equal(zr_simulate(&p, NULL, costs, &simulated, NULL), ZERO_OK);
    assert_near(simulated.total, 0);
    assert_near(simulated.bubble, 0);
    zr_simulation_free(&simulated);
}

static void simulations_are_the_same_twice(void **state)
{
    const zr_pipeline p = {ZR_PIPELINE_INTERLEAVED, 4, 2, 8, 1};
    zr_simulation one = simulate(&p), two = simulate(&p);
    assert_true(one.total == two.total && one.bubble == two.bubble);
    for (int s = 0; s < p.stages; s++) {
        size_t bytes = (size_t)zr_pipeline_list(&p, s, NULL) * sizeof *one.stage[s].at;
        assert_memory_equal(one.stage[s].at, two.stage[s].at, bytes);
    }
    zr_simulation_free(&one);
    zr_simulation_free(&two);
}

// Lanes that wait for ever.

static void assert_waits(const zr_pipeline *p, const char *const *texts, const char *expected)
{
    enum { MOST_STAGES = 3, MOST_ACTIONS = 16 };
    static const zr_chunk_cost costs[MOST_STAGES];
    zr_action lists[MOST_STAGES][MOST_ACTIONS];
    zr_lane lanes[MOST_STAGES];
    zr_simulation simulated;
    zero_error error = {0};
    for (int s = 0; s < p->stages; s++)
        lanes[s] = (zr_lane){.at = lists[s], .count = lane_read(texts[s], lists[s])};
    assert_int_equal(zr_simulate(p, lanes, costs, &simulated, &error), ZERO_ERR_INTERNAL);
    zr_simulation_free(&simulated);
    assert_string_equal(error.message, expected);
}

// Each lane is in order. But stage 1 wants all forwards before it gives a gradient, and stage 0 a
// gradient before it makes its last output; stage 2 waits for them, and nobody for it.
static void stages_that_wait_for_ever_are_found(void **state)
{
    static const zr_pipeline p = {ZR_PIPELINE_GPIPE, 3, 1, 4, 1};
    static const char *const texts[] = {
        "F0 F1 F2 B0 F3 B1 B2 B3",
        "F0 F1 F2 F3 B0 B1 B2 B3",
        "F0 B0 F1 B1 F2 B2 F3 B3",
    };
    assert_waits(&p, texts,
                 "pipeline stages wait for each other for ever: forward of micro-batch 3, "
                 "chunk 0 on pipeline stage 1 waits for forward of micro-batch 3, chunk 0 "
                 "on pipeline stage 0");
}

// Each lane is in order. But stage 0 wants the sums of a step before the next one's first forward,
// and stage 1 ends the step after a forward that this is the input of.
static void a_norm_that_comes_too_early_waits_for_ever(void **state)
{
    static const zr_pipeline p = {ZR_PIPELINE_2BW, 2, 1, 2, 2};
    static const char *const texts[] = {
        "F0 F1 B0 B1 N1 F2@1 F3@1 B2@1 B3@1 N3@1 U1@2 U3@3",
        "F0 B0 F1 B1 F2@1 N1 B2@1 F3@1 B3@1 N3@1 U1@2 U3@3",
    };
    assert_waits(&p, texts,
                 "pipeline stages wait for each other for ever: forward of micro-batch 2, "
                 "chunk 0 on pipeline stage 1 waits for forward of micro-batch 2, chunk 0 "
                 "on pipeline stage 0");
}

static void without_memory_nothing_is_simulated(void **state)
{
    const zr_pipeline p = {ZR_PIPELINE_1F1B, 2, 1, 2, 1};
    const zr_chunk_cost costs[2] = {{{1, 2}}, {{1, 2}}};
    zr_simulation simulated;
    zero_status status = ZERO_ERR_MEMORY;
    int nth = 0;
    while (status != ZERO_OK) {
        zr_alloc_fail_at(++nth);
        status = zr_simulate(&p, NULL, costs, &simulated, NULL);
        zr_alloc_fail_at(0);
        assert_true(status == ZERO_OK || status == ZERO_ERR_MEMORY);
        zr_simulation_free(&simulated);
    }
    assert_int_equal(nth, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpipe_has_the_bubble_of_its_paper),
        cmocka_unit_test(one_forward_one_backward_lasts_as_long_and_holds_less),
        cmocka_unit_test(interleaved_divides_the_bubble_by_its_chunks),
        cmocka_unit_test(zero_bubble_leaves_a_third),
        cmocka_unit_test(bubbles_of_four_stages_and_eight_micro_batches),
        cmocka_unit_test(asynchronous_windows_flush_once),
        cmocka_unit_test(every_action_begins_as_soon_as_it_may),
        cmocka_unit_test(a_sender_waits_for_a_free_slot),
        cmocka_unit_test(what_is_sent_takes_its_time),
        cmocka_unit_test(an_update_takes_its_time),
        cmocka_unit_test(what_takes_no_time_has_no_bubble),
        cmocka_unit_test(simulations_are_the_same_twice),
        cmocka_unit_test(stages_that_wait_for_ever_are_found),
        cmocka_unit_test(a_norm_that_comes_too_early_waits_for_ever),
        cmocka_unit_test(without_memory_nothing_is_simulated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
