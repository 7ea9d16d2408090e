// The lists of all schedules: small ones as text, all of them by what must hold of any, the buffers
// that they need against the formulas of their papers, and the numbers that are refused.
#include "sanitizers.h"
#include "lane_text.h"
#include "plan/pipeline/schedules.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { STAGES = 16, MICRO_BATCHES = 64, CHUNKS = 4, STEPS = 8 };
enum { MOST = 3 * MICRO_BATCHES * STEPS }; // actions of a stage, and more

static const int windows[] = {1, 2, 3, STEPS}; // steps of asynchronous schedules

static zr_pipeline pipeline_of(zr_pipeline_kind kind, int stages, int chunks, int micro_batches)
{
    return (zr_pipeline){kind, stages, chunks, micro_batches, 1};
}

static bool is_possible(const zr_pipeline *p) { return zr_pipeline_check(p, NULL) == ZERO_OK; }

// Calls `check` for a schedule with all stages, chunks, micro-batches and windows that go together.
static void for_kind(zr_pipeline_kind kind, void (*check)(const zr_pipeline *p))
{
    int between = SANITIZED ? 7 : 1; // micro-batches
    for (int p = 1; p <= STAGES; p++)
        for (int v = 1; v <= CHUNKS; v++)
            for (int m = 1; m <= MICRO_BATCHES; m += between)
                for (int w = 0; w < ZR_COUNT(windows); w++) {
                    const zr_pipeline of = {kind, p, v, m, windows[w]};
                    if (is_possible(&of))
                        check(&of);
                }
}

static void for_all(void (*check)(const zr_pipeline *p))
{
    for (int kind = 0; kind < ZR_PIPELINE_KIND_COUNT; kind++)
        for_kind((zr_pipeline_kind)kind, check);
}

static void assert_list(const zr_pipeline *p, int stage, const char *expected)
{
    zr_action list[MOST];
    int count = zr_pipeline_list(p, stage, list);
    assert_lane(list, count, expected);
}

static void lists_of_synchronous_schedules(void **state)
{
    const zr_pipeline gpipe = pipeline_of(ZR_PIPELINE_GPIPE, 2, 1, 3);
    assert_list(&gpipe, 0, "F0 F1 F2 B0 B1 B2");
    assert_list(&gpipe, 1, "F0 F1 F2 B0 B1 B2");
    const zr_pipeline one = pipeline_of(ZR_PIPELINE_1F1B, 3, 1, 4);
    assert_list(&one, 0, "F0 F1 F2 B0 F3 B1 B2 B3");
    assert_list(&one, 1, "F0 F1 B0 F2 B1 F3 B2 B3");
    assert_list(&one, 2, "F0 B0 F1 B1 F2 B2 F3 B3");
    const zr_pipeline bubbles = pipeline_of(ZR_PIPELINE_ZB_H1, 3, 1, 4);
    assert_list(&bubbles, 0, "F0 F1 F2 B0 W0 F3 B1 W1 B2 W2 B3 W3");
    assert_list(&bubbles, 1, "F0 F1 B0 F2 B1 W0 F3 B2 W1 B3 W2 W3");
    assert_list(&bubbles, 2, "F0 B0 F1 B1 F2 B2 W0 F3 B3 W1 W2 W3");
    const zr_pipeline turns = pipeline_of(ZR_PIPELINE_INTERLEAVED, 2, 2, 2);
    assert_list(&turns, 0, "F0 F1 F1.0 F1.1 B1.0 B1.1 B0 B1");
    assert_list(&turns, 1, "F0 F1 F1.0 B1.0 F1.1 B1.1 B0 B1");
}

static void fewer_micro_batches_than_stages(void **state)
{
    const zr_pipeline one = pipeline_of(ZR_PIPELINE_1F1B, 4, 1, 2);
    assert_list(&one, 0, "F0 F1 B0 B1");
    assert_list(&one, 2, "F0 F1 B0 B1");
    assert_list(&one, 3, "F0 B0 F1 B1");
    const zr_pipeline bubbles = pipeline_of(ZR_PIPELINE_ZB_H1, 4, 1, 1);
    assert_list(&bubbles, 0, "F0 B0 W0");
    assert_list(&bubbles, 3, "F0 B0 W0");
}

// A stage's update follows the last backward of its step, while later forwards have run.
static void lists_of_pipedream(void **state)
{
    const zr_pipeline dream = {ZR_PIPELINE_PIPEDREAM, 2, 1, 1, 3};
    assert_list(&dream, 0, "F0 F1 B0 U0@1 F2@1 B1 U1@2 B2@1 U2@3");
    assert_list(&dream, 1, "F0 B0 U0@1 F1@1 B1@1 U1@2 F2@2 B2@2 U2@3");
    const zr_pipeline summed = {ZR_PIPELINE_PIPEDREAM, 3, 1, 2, 2};
    assert_list(&summed, 0, "F0 F1 F2 B0 F3 B1 U1@1 B2 B3 U3@2");
    assert_list(&summed, 1, "F0 F1 B0 F2 B1 U1@1 F3@1 B2 B3@1 U3@2");
    assert_list(&summed, 2, "F0 B0 F1 B1 U1@1 F2@1 B2@1 F3@1 B3@1 U3@2");
    const zr_pipeline alone = {ZR_PIPELINE_PIPEDREAM, 2, 1, 2, 1};
    assert_list(&alone, 0, "F0 F1 B0 B1 U1@1");
}

// A step's norm follows its last backward, its update comes before the next step but one; what is
// left of both comes at the end.
static void lists_of_2bw(void **state)
{
    const zr_pipeline two = {ZR_PIPELINE_2BW, 2, 1, 2, 3};
    assert_list(&two, 0,
                "F0 F1 B0 F2@1 B1 N1 F3@1 B2@1 U1@2 F4@2 B3@1 N3@1 F5@2 B4@2 B5@2 N5@2 U3@3 U5@4");
    assert_list(&two, 1,
                "F0 B0 F1 B1 N1 F2@1 B2@1 F3@1 B3@1 N3@1 U1@2 F4@2 B4@2 F5@2 B5@2 N5@2 U3@3 U5@4");
    const zr_pipeline alone = {ZR_PIPELINE_2BW, 2, 1, 2, 1};
    assert_list(&alone, 0, "F0 F1 B0 B1 N1 U1@2");
    assert_list(&alone, 1, "F0 B0 F1 B1 N1 U1@2");
}

// A norm and an update end a step: after its last backward, and the norm, which the update waits
// for, before any other. A step of 2bw finds the update of all steps before but one.
static void check_end_of_step(const zr_pipeline *p, const zr_action *a, int done[ZR_ACT_COUNT])
{
    bool waits = p->kind == ZR_PIPELINE_2BW;
    int step = done[a->act];
    assert_int_equal(a->chunk, 0);
    assert_int_equal(a->micro_batch, (step + 1) * p->micro_batches - 1);
    if (a->act == ZR_ACT_NORM || !waits) {
        assert_int_equal(done[ZR_ACT_BACKWARD], a->micro_batch + 1);
        return;
    }
    assert_true(done[ZR_ACT_NORM] > step);
    assert_true(done[ZR_ACT_FORWARD] <= (step + 2) * p->micro_batches);
}

// Everything is there once, in ascending order, and each after what it follows from.
static void check_order(const zr_pipeline *p)
{
    static zr_action list[MOST];
    bool weights = zr_pipeline_has_weights(p->kind), norms = p->kind == ZR_PIPELINE_2BW;
    int window = zr_pipeline_window(p), acts = weights ? 3 : 2;
    int ends = !zr_pipeline_is_asynchronous(p->kind) ? 0 : norms ? 2 : 1;
    for (int s = 0; s < p->stages; s++) {
        int done[CHUNKS][ZR_ACT_COUNT] = {{0}}, count = zr_pipeline_list(p, s, list);
        assert_int_equal(count, window * p->chunks * acts + p->steps * ends);
        assert_int_equal(zr_pipeline_list(p, s, NULL), count);
        for (int i = 0; i < count; i++) {
            const zr_action *a = &list[i];
            int *mine = done[a->chunk];
            if (a->act >= ZR_ACT_NORM)
                check_end_of_step(p, a, mine);
            else
                assert_int_equal(a->micro_batch, mine[a->act]);
            if (a->act == ZR_ACT_BACKWARD || a->act == ZR_ACT_WEIGHT)
                assert_true(mine[a->act - 1] > mine[a->act]);
            mine[a->act]++;
        }
        for (int c = 0; c < p->chunks; c++)
            for (int act = 0; act < acts; act++)
                assert_int_equal(done[c][act], window);
        assert_int_equal(done[0][ZR_ACT_UPDATE], ends ? p->steps : 0);
        assert_int_equal(done[0][ZR_ACT_NORM], norms ? p->steps : 0);
    }
}

static void all_lists_keep_the_order_of_sums(void **state) { for_all(check_order); }

static void check_pure(const zr_pipeline *p)
{
    static zr_action one[MOST], two[MOST];
    for (int s = 0; s < p->stages; s++) {
        int count = zr_pipeline_list(p, s, one);
        assert_int_equal(zr_pipeline_list(p, s, two), count);
        assert_memory_equal(one, two, (size_t)count * sizeof *one);
    }
}

static void lists_are_the_same_twice(void **state) { for_all(check_pure); }

static void check_sets(const zr_pipeline *p)
{
    int window = zr_pipeline_window(p);
    for (int s = 0; s < p->stages; s++)
        for (int c = 0; c < p->chunks; c++) {
            int sets = zr_pipeline_buffers(p, s, c).sets;
            int in_flight = ZR_MIN(p->stages - s, window);
            if (p->kind == ZR_PIPELINE_GPIPE)
                assert_int_equal(sets, p->micro_batches);
            else if (p->kind == ZR_PIPELINE_ZB_H1)
                assert_int_equal(sets, ZR_MIN(p->stages, window));
            else if (p->kind != ZR_PIPELINE_INTERLEAVED)
                assert_int_equal(sets, in_flight);
            else
                assert_in_range(sets, 1, ZR_MIN(2 * p->stages, window));
        }
}

static void sets_are_those_of_the_papers(void **state) { for_all(check_sets); }

// The channel of the first chunk's input and of the last chunk's gradient are not there.
static void check_slots(const zr_pipeline *p)
{
    int window = zr_pipeline_window(p);
    for (int s = 0; s < p->stages; s++)
        for (int c = 0; c < p->chunks; c++) {
            const zr_chunk_buffers b = zr_pipeline_buffers(p, s, c);
            bool first = s == 0 && c == 0, last = s == p->stages - 1 && c == p->chunks - 1;
            assert_int_equal(b.input_slots, first ? 0 : ZR_MIN(b.sets + 1, window));
            assert_int_equal(b.gradient_slots, last ? 0 : ZR_MIN(2, window));
        }
}

static void slots_follow_from_sets(void **state) { for_all(check_slots); }

// The copies of the parameters that a stage has, as the updates that each of them contains, counted
// from the window's first step; -1: under 2bw that of the step before it is missing.
typedef struct replay {
    const zr_pipeline *pipeline;
    int copies, updates[STAGES + 1];
    int latest;                      // number of updates made
    int read[MICRO_BATCHES * STEPS]; // updates in what a micro-batch's forward has read
} replay;

// Returns the updates that the forward of a micro-batch has to read: those of all steps but the one
// before, or all that the stage has made.
static int updates_due(const replay *r, int micro_batch)
{
    bool waits = r->pipeline->kind == ZR_PIPELINE_2BW;
    return waits ? micro_batch / r->pipeline->micro_batches - 1 : r->latest;
}

// Runs an action; returns whether it finds what it reads.
static bool run(replay *r, const zr_action *a)
{
    int *copy = &r->updates[a->version % r->copies];
    if (a->act == ZR_ACT_UPDATE)
        *copy = ++r->latest;
    if (a->act == ZR_ACT_FORWARD)
        r->read[a->micro_batch] = *copy;
    return (a->act != ZR_ACT_FORWARD || *copy == updates_due(r, a->micro_batch)) &&
           (a->act != ZR_ACT_BACKWARD || *copy == r->read[a->micro_batch]);
}

// Says whether every micro-batch reads in both directions what it has to, if a stage has so many
// copies, of which a version has that of its number, modulo copies.
static bool copies_do(const zr_pipeline *p, int stage, int copies)
{
    static zr_action list[MOST];
    replay r = {.pipeline = p, .copies = copies};
    int count = zr_pipeline_list(p, stage, list);
    if (p->kind == ZR_PIPELINE_2BW) {
        r.updates[0] = -1;
        r.updates[1 % copies] = 0;
    }
    for (int i = 0; i < count; i++)
        if (!run(&r, &list[i]))
            return false;
    return true;
}

static void check_versions(const zr_pipeline *p)
{
    for (int s = 0; s < p->stages; s++) {
        int versions = zr_pipeline_versions(p, s), after = p->stages - s;
        assert_in_range(versions, 1, STAGES);
        if (!copies_do(p, s, versions))
            fail_msg("%s, %d micro-batches, %d steps: stage %d of %d has too few versions: %d",
                     zr_pipeline_kind_name(p->kind), p->micro_batches, p->steps, s, p->stages,
                     versions);
        if (versions > 1 && copies_do(p, s, versions - 1))
            fail_msg("%s, %d micro-batches, %d steps: stage %d of %d does with fewer than %d",
                     zr_pipeline_kind_name(p->kind), p->micro_batches, p->steps, s, p->stages,
                     versions);
        if (p->kind == ZR_PIPELINE_2BW)
            assert_int_equal(versions, 2);
        else if (p->micro_batches == 1)
            assert_int_equal(versions, ZR_MIN(after, p->steps));
    }
}

static void no_version_is_overwritten_that_is_read_later(void **state)
{
    for_kind(ZR_PIPELINE_PIPEDREAM, check_versions);
    for_kind(ZR_PIPELINE_2BW, check_versions);
}

static void check_one_version(const zr_pipeline *p)
{
    static zr_action list[MOST];
    for (int s = 0; s < p->stages; s++) {
        int count = zr_pipeline_list(p, s, list);
        assert_int_equal(zr_pipeline_versions(p, s), 1);
        for (int i = 0; i < count; i++)
            assert_int_equal(list[i].version, 0);
    }
}

static void other_schedules_have_one_version(void **state)
{
    for (int kind = 0; kind < ZR_PIPELINE_KIND_COUNT; kind++)
        if (!zr_pipeline_is_asynchronous((zr_pipeline_kind)kind))
            for_kind((zr_pipeline_kind)kind, check_one_version);
}

static void chunks_of_the_model_go_round(void **state)
{
    const zr_pipeline p = pipeline_of(ZR_PIPELINE_INTERLEAVED, 2, 2, 2);
    assert_int_equal(zr_pipeline_chunk(&p, 0, 0), 0);
    assert_int_equal(zr_pipeline_chunk(&p, 1, 0), 1);
    assert_int_equal(zr_pipeline_chunk(&p, 0, 1), 2);
    assert_int_equal(zr_pipeline_chunk(&p, 1, 1), 3);
}

static void acts_have_names(void **state)
{
    assert_string_equal(zr_act_name(ZR_ACT_FORWARD), "forward");
    assert_string_equal(zr_act_name(ZR_ACT_BACKWARD), "backward");
    assert_string_equal(zr_act_name(ZR_ACT_WEIGHT), "weight");
    assert_string_equal(zr_act_name(ZR_ACT_NORM), "norm");
    assert_string_equal(zr_act_name(ZR_ACT_UPDATE), "update");
}

static void impossible_numbers_are_refused(void **state)
{
    static const struct {
        zr_pipeline pipeline;
        const char *words;
    } cases[] = {
        {{ZR_PIPELINE_INTERLEAVED, 4, 2, 6, 1},
         "6 micro-batches, no multiple of 4 pipeline stages; 4 or 8 would do, or 1f1b"},
        {{ZR_PIPELINE_INTERLEAVED, 4, 2, 3, 1},
         "3 micro-batches, no multiple of 4 pipeline stages; 4 or 8 would"},
        {{ZR_PIPELINE_INTERLEAVED, 4, 2, 1, 1}, "a step has 1 micro-batch, no multiple"},
        {{ZR_PIPELINE_INTERLEAVED, 4, 1, 4, 1}, "2 to 8 chunks on each pipeline stage, not 1"},
        {{ZR_PIPELINE_INTERLEAVED, 4, 9, 4, 1}, "2 to 8 chunks on each pipeline stage, not 9"},
        {{ZR_PIPELINE_1F1B, 4, 2, 4, 1}, "1f1b has one chunk on each pipeline stage, not 2"},
        {{ZR_PIPELINE_ZB_H1, 4, 0, 4, 1}, "zb-h1 has one chunk on each pipeline stage, not 0"},
        {{ZR_PIPELINE_2BW, 4, 1, 3, 2}, "3 micro-batches, fewer than 4 pipeline stages"},
        {{ZR_PIPELINE_2BW, 4, 1, 1, 2}, "a step has 1 micro-batch, fewer"},
        {{ZR_PIPELINE_2BW, 4, 1, 3, 2}, "4 would do"},
        {{ZR_PIPELINE_1F1B, 0, 1, 4, 1}, "1 to 256 pipeline stages, not 0"},
        {{ZR_PIPELINE_1F1B, 257, 1, 4, 1}, "1 to 256 pipeline stages, not 257"},
        {{ZR_PIPELINE_GPIPE, 2, 1, 0, 1}, "1 and 0"},
        {{ZR_PIPELINE_PIPEDREAM, 2, 1, 4, 0}, "0 and 4"},
        {{ZR_PIPELINE_GPIPE, 2, 1, 4, 3}, "gpipe drains the pipeline at the end of each step"},
        {{ZR_PIPELINE_PIPEDREAM, 2, 1, 2, INT_MAX}, "2147483647 steps of 2 micro-batches"},
    };
    for (int i = 0; i < ZR_COUNT(cases); i++) {
        zero_error error = {0};
        assert_int_equal(zr_pipeline_check(&cases[i].pipeline, &error), ZERO_ERR_CONFIG);
        if (!strstr(error.message, cases[i].words))
            fail_msg("\"%s\" does not say \"%s\"", error.message, cases[i].words);
    }
}

static void what_is_refused_ends_at_the_bounds(void **state)
{
    static const zr_pipeline good[] = {
        {ZR_PIPELINE_INTERLEAVED, 4, 8, 4, 1}, {ZR_PIPELINE_2BW, 4, 1, 4, 1},
        {ZR_PIPELINE_PIPEDREAM, 4, 1, 1, 1},   {ZR_PIPELINE_1F1B, 256, 1, 1, 1},
        {ZR_PIPELINE_ZB_H1, 1, 1, 1, 1},
    };
    for (int i = 0; i < ZR_COUNT(good); i++)
        assert_true(is_possible(&good[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_of_synchronous_schedules),
        cmocka_unit_test(fewer_micro_batches_than_stages),
        cmocka_unit_test(lists_of_pipedream),
        cmocka_unit_test(lists_of_2bw),
        cmocka_unit_test(all_lists_keep_the_order_of_sums),
        cmocka_unit_test(lists_are_the_same_twice),
        cmocka_unit_test(sets_are_those_of_the_papers),
        cmocka_unit_test(slots_follow_from_sets),
        cmocka_unit_test(no_version_is_overwritten_that_is_read_later),
        cmocka_unit_test(other_schedules_have_one_version),
        cmocka_unit_test(chunks_of_the_model_go_round),
        cmocka_unit_test(acts_have_names),
        cmocka_unit_test(impossible_numbers_are_refused),
        cmocka_unit_test(what_is_refused_ends_at_the_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
