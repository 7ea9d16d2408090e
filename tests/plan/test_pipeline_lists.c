// The lists of all schedules: small ones as text, all of them by what must hold of any, the buffers
// that they need against the formulas of their papers, and the numbers that are refused.
#include "lane_text.h"
#include "plan/pipeline.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { STAGES = 16, MICRO_BATCHES = 64, CHUNKS = 4, STEPS = 3 };
enum { MOST = 3 * CHUNKS * MICRO_BATCHES * STEPS }; // actions of a stage, and more

static zr_pipeline pipeline_of(zr_pipeline_kind kind, int stages, int chunks, int micro_batches)
{
    int steps = zr_pipeline_is_asynchronous(kind) ? STEPS : 1;
    return (zr_pipeline){kind, stages, chunks, micro_batches, steps};
}

static bool is_possible(const zr_pipeline *p) { return zr_pipeline_check(p, NULL) == ZERO_OK; }

// Calls `check` for all schedules, stages, chunks and micro-batches that go together.
static void for_all(void (*check)(const zr_pipeline *p))
{
    for (int kind = 0; kind < ZR_PIPELINE_KIND_COUNT; kind++)
        for (int p = 1; p <= STAGES; p++)
            for (int v = 1; v <= CHUNKS; v++)
                for (int m = 1; m <= MICRO_BATCHES; m++) {
                    const zr_pipeline of = pipeline_of((zr_pipeline_kind)kind, p, v, m);
                    if (is_possible(&of))
                        check(&of);
                }
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
static void lists_of_asynchronous_schedules(void **state)
{
    const zr_pipeline dream = {ZR_PIPELINE_PIPEDREAM, 2, 1, 1, 3};
    assert_list(&dream, 0, "F0 F1 B0 U0 F2 B1 U1 B2 U2");
    assert_list(&dream, 1, "F0 B0 U0 F1 B1 U1 F2 B2 U2");
    const zr_pipeline two = {ZR_PIPELINE_2BW, 2, 1, 2, 2};
    assert_list(&two, 0, "F0 F1 B0 F2 B1 U1 F3 B2 B3 U3");
    assert_list(&two, 1, "F0 B0 F1 B1 U1 F2 B2 F3 B3 U3");
}

// Everything is there once, in ascending order, and each after what it follows from.
static void check_order(const zr_pipeline *p)
{
    static zr_action list[MOST];
    bool weights = zr_pipeline_has_weights(p->kind);
    int window = zr_pipeline_window(p), acts = weights ? 3 : 2;
    bool updates = zr_pipeline_is_asynchronous(p->kind);
    for (int s = 0; s < p->stages; s++) {
        int done[ZR_ACT_COUNT][CHUNKS] = {{0}}, count = zr_pipeline_list(p, s, list);
        assert_int_equal(count, window * p->chunks * acts + (updates ? p->steps : 0));
        assert_int_equal(zr_pipeline_list(p, s, NULL), count);
        for (int i = 0; i < count; i++) {
            const zr_action *a = &list[i];
            int *mine = &done[a->act][a->chunk];
            if (a->act == ZR_ACT_UPDATE) {
                assert_int_equal(a->micro_batch, ++*mine * p->micro_batches - 1);
                assert_int_equal(done[ZR_ACT_BACKWARD][0], a->micro_batch + 1);
                continue;
            }
            assert_int_equal(a->micro_batch, *mine);
            if (a->act != ZR_ACT_FORWARD)
                assert_true(done[a->act - 1][a->chunk] > *mine);
            ++*mine;
        }
        for (int c = 0; c < p->chunks; c++)
            for (int act = 0; act < acts; act++)
                assert_int_equal(done[act][c], window);
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
        cmocka_unit_test(lists_of_asynchronous_schedules),
        cmocka_unit_test(all_lists_keep_the_order_of_sums),
        cmocka_unit_test(lists_are_the_same_twice),
        cmocka_unit_test(sets_are_those_of_the_papers),
        cmocka_unit_test(slots_follow_from_sets),
        cmocka_unit_test(chunks_of_the_model_go_round),
        cmocka_unit_test(acts_have_names),
        cmocka_unit_test(impossible_numbers_are_refused),
        cmocka_unit_test(what_is_refused_ends_at_the_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
