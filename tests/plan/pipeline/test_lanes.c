// Lanes: the lists of all pipeline stages, and lanes that are no schedule, all of which are found.
#include "plan/pipeline/simulate.h"
#include "base/alloc.h"
#include "lane_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static const zr_pipeline pipeline = {ZR_PIPELINE_ZB_H1, 3, 1, 5, 1};

static void each_lane_is_the_list_of_its_stage(void **state)
{
    zr_action list[3 * 5];
    zr_lane *lanes = zr_pipeline_lanes(&pipeline, NULL);
    assert_non_null(lanes);
    for (int s = 0; s < pipeline.stages; s++) {
        assert_int_equal(lanes[s].count, zr_pipeline_list(&pipeline, s, list));
        assert_memory_equal(lanes[s].at, list, (size_t)lanes[s].count * sizeof *list);
    }
    zr_free(lanes);
}

static void without_memory_there_are_none(void **state)
{
    zero_error error = {0};
    zr_alloc_fail_at(1);
    assert_null(zr_pipeline_lanes(&pipeline, &error));
    zr_alloc_fail_at(0);
    assert_int_equal(error.status, ZERO_ERR_MEMORY);
}

static const zr_pipeline changed[] = {
    {ZR_PIPELINE_1F1B, 3, 1, 4, 1},      {ZR_PIPELINE_GPIPE, 2, 1, 4, 1},
    {ZR_PIPELINE_ZB_H1, 3, 1, 5, 1},     {ZR_PIPELINE_INTERLEAVED, 2, 2, 4, 1},
    {ZR_PIPELINE_PIPEDREAM, 3, 1, 1, 4}, {ZR_PIPELINE_PIPEDREAM, 3, 1, 2, 3},
    {ZR_PIPELINE_2BW, 2, 1, 3, 2},       {ZR_PIPELINE_2BW, 3, 1, 3, 4},
    {ZR_PIPELINE_1F1B, 4, 1, 2, 1},
};

enum { MOST = 64, MODEL_CHUNKS = 4 }; // actions of a lane of `changed`, with one more; chunks

// The lanes of a pipeline, of which one is a copy that can be changed.
typedef struct copy {
    zr_pipeline pipeline;
    zr_lane *lanes;
    zr_action at[MOST];
    int stage;
} copy;

static void copy_lane(copy *c, const zr_pipeline *p, int stage)
{
    c->pipeline = *p;
    c->stage = stage;
    c->lanes = zr_pipeline_lanes(p, NULL);
    assert_true(c->lanes[stage].count < MOST);
    memcpy(c->at, c->lanes[stage].at, (size_t)c->lanes[stage].count * sizeof *c->at);
    c->lanes[stage].at = c->at;
}

static zero_status run_copy(const copy *c, zero_error *error)
{
    static const zr_chunk_cost costs[MODEL_CHUNKS];
    zr_simulation simulated;
    zero_status status = zr_simulate(&c->pipeline, c->lanes, costs, &simulated, error);
    zr_simulation_free(&simulated);
    return status;
}

static void assert_refused(const copy *c, const char *words)
{
    zero_error error = {0};
    assert_int_equal(run_copy(c, &error), ZERO_ERR_INTERNAL);
    if (!strstr(error.message, words))
        fail_msg("\"%s\" does not say \"%s\"", error.message, words);
}

static int position(const zr_lane *lane, zr_act act, int chunk, int k)
{
    for (int i = 0; i < lane->count; i++) {
        const zr_action *a = &lane->at[i];
        if (a->act == act && a->chunk == chunk && a->micro_batch == k)
            return i;
    }
    return -1;
}

// Says whether micro-batches are in an order that is right by itself.
static bool has_micro_batches_in_order(const zr_pipeline *p, int stage, const zr_lane *lane)
{
    zr_act last = zr_pipeline_has_weights(p->kind) ? ZR_ACT_WEIGHT : ZR_ACT_BACKWARD;
    int window = zr_pipeline_window(p);
    for (int c = 0; c < p->chunks; c++) {
        int sets = zr_pipeline_buffers(p, stage, c).sets;
        for (int k = 0; k < window; k++) {
            int forward = position(lane, ZR_ACT_FORWARD, c, k);
            for (zr_act act = ZR_ACT_FORWARD; act <= last; act++) {
                int at = position(lane, act, c, k);
                if (k && position(lane, act, c, k - 1) > at)
                    return false;
                if (act && position(lane, act - 1, c, k) > at)
                    return false;
            }
            if (k >= sets && position(lane, last, c, k - sets) > forward)
                return false;
        }
    }
    return true;
}

static bool is_between(int at, int first, int end) { return at > first && (end < 0 || at < end); }

// Says whether norms and updates are in an order that is right by itself.
static bool has_steps_in_order(const zr_pipeline *p, const zr_lane *lane)
{
    bool waits = p->kind == ZR_PIPELINE_2BW;
    int m = p->micro_batches, before = -1;
    for (int next = m; next <= zr_pipeline_window(p); next += m) { // of the next step, the first
        int last = position(lane, ZR_ACT_BACKWARD, 0, next - 1);
        int after = position(lane, ZR_ACT_BACKWARD, 0, next);
        int norm = position(lane, ZR_ACT_NORM, 0, next - 1);
        int update = position(lane, ZR_ACT_UPDATE, 0, next - 1);
        if (!is_between(waits ? norm : update, last, after) || update < before)
            return false;
        if (waits && !is_between(update, norm, position(lane, ZR_ACT_FORWARD, 0, next + m)))
            return false;
        before = update;
    }
    return true;
}

// Says whether each forward of PipeDream reads what the updates before it have made.
static bool has_newest_versions(const zr_lane *lane)
{
    int newest = 0;
    for (int i = 0; i < lane->count; i++) {
        const zr_action *a = &lane->at[i];
        newest += a->act == ZR_ACT_UPDATE;
        if (a->act == ZR_ACT_FORWARD && a->version != newest)
            return false;
    }
    return true;
}

// Says whether a lane that has everything once has it in an order that is right by itself: it
// compares positions, micro-batch by micro-batch.
static bool is_in_order(const zr_pipeline *p, int stage, const zr_lane *lane)
{
    if (!has_micro_batches_in_order(p, stage, lane))
        return false;
    if (zr_pipeline_is_asynchronous(p->kind) && !has_steps_in_order(p, lane))
        return false;
    return p->kind != ZR_PIPELINE_PIPEDREAM || has_newest_versions(lane);
}

// Changes each lane of each pipeline of `changed` with `change`.
static void for_lanes(void (*change)(copy *c))
{
    for (int i = 0; i < ZR_COUNT(changed); i++)
        for (int s = 0; s < changed[i].stages; s++) {
            copy c;
            copy_lane(&c, &changed[i], s);
            change(&c);
            zr_free(c.lanes);
        }
}

// Swaps any two actions. What is out of order by itself is refused as that; what is in order may be
// another schedule, or lets stages wait for ever.
static void swap_all(copy *c)
{
    zr_lane *lane = &c->lanes[c->stage];
    for (int i = 0; i < lane->count; i++)
        for (int j = i + 1; j < lane->count; j++) {
            zr_action one = c->at[i], two = c->at[j];
            zero_error error = {0};
            c->at[i] = two;
            c->at[j] = one;
            bool ordered = is_in_order(&c->pipeline, c->stage, lane);
            zero_status status = run_copy(c, &error);
            bool waits = strstr(error.message, "wait for each other for ever") != NULL;
            if (ordered ? status != ZERO_OK && !waits : status == ZERO_OK || waits)
                fail_msg("%d and %d of stage %d swapped: %s", i, j, c->stage, error.message);
            c->at[i] = one;
            c->at[j] = two;
        }
}

static void swapped_actions_are_found(void **state) { for_lanes(swap_all); }

static void drop_each(copy *c)
{
    zr_lane *lane = &c->lanes[c->stage];
    const zr_lane whole = *lane;
    zr_action kept[MOST];
    memcpy(kept, c->at, sizeof kept);
    for (int i = 0; i < whole.count; i++) {
        lane->count = whole.count - 1;
        memmove(c->at + i, c->at + i + 1, (size_t)(lane->count - i) * sizeof *c->at);
        assert_refused(c, "");
        memcpy(c->at, kept, sizeof kept);
    }
    *lane = whole;
}

static void dropped_actions_are_found(void **state) { for_lanes(drop_each); }

// Puts each action a second time at each place after the first.
static void double_each(copy *c)
{
    zr_lane *lane = &c->lanes[c->stage];
    const zr_lane whole = *lane;
    zr_action kept[MOST];
    memcpy(kept, c->at, sizeof kept);
    lane->count = whole.count + 1;
    for (int i = 0; i < whole.count; i++)
        for (int at = i + 1; at < lane->count; at++) {
            memmove(c->at + at + 1, c->at + at, (size_t)(whole.count - at) * sizeof *c->at);
            c->at[at] = kept[i];
            assert_refused(c, "it is there twice");
            memcpy(c->at, kept, sizeof kept);
        }
    *lane = whole;
}

static void doubled_actions_are_found(void **state) { for_lanes(double_each); }

// A lane, and what is said of it; NULL: it is another schedule.
typedef struct wrong_lane {
    int stage;
    const char *lane, *words;
} wrong_lane;

static void assert_said(const zr_pipeline *p, const wrong_lane *wrong)
{
    copy c;
    copy_lane(&c, p, wrong->stage);
    c.lanes[c.stage].count = lane_read(wrong->lane, c.at);
    if (wrong->words)
        assert_refused(&c, wrong->words);
    else
        assert_int_equal(run_copy(&c, NULL), ZERO_OK);
    zr_free(c.lanes);
}

// Each way to be no schedule.
static void what_is_wrong_is_said(void **state)
{
    static const zr_pipeline gpipe = {ZR_PIPELINE_GPIPE, 2, 1, 2, 1};
    static const zr_pipeline one = {ZR_PIPELINE_1F1B, 2, 1, 3, 1};
    static const zr_pipeline bubbles = {ZR_PIPELINE_ZB_H1, 2, 1, 2, 1};
    static const struct {
        const zr_pipeline *pipeline;
        wrong_lane lane;
    } cases[] = {
        {&gpipe, {1, "F0 B0 F1 B1", NULL}},
        {&gpipe,
         {1, "F0 B0 B1 F1",
          "pipeline stage 1: backward of micro-batch 1, chunk 0: what it follows from is missing"}},
        {&gpipe,
         {1, "F0 F1 B1 B0",
          "backward of micro-batch 1, chunk 0: one before it is missing, or comes later: sums "
          "are"}},
        {&gpipe,
         {0, "F0 F1 B0", "pipeline stage 0: backward of micro-batch 1, chunk 0: it is missing"}},
        {&gpipe, {0, "F0 F1 B0 B1 B1", "backward of micro-batch 1, chunk 0: it is there twice"}},
        {&gpipe, {0, "F0 F1 B0 B2", "there is no such micro-batch"}},
        {&gpipe, {0, "F0 F1 B0 B-1", "there is no such micro-batch"}},
        {&gpipe, {0, "F0 F1 B1.0 B1", "there is no such chunk"}},
        {&gpipe, {0, "F0 F1 B-1.0 B1", "there is no such chunk"}},
        {&gpipe, {0, "F0 F1 B0 W0 B1", "gpipe has no weight"}},
        {&gpipe, {0, "F0 F1 B0 B1 U1", "gpipe has no update"}},
        {&one,
         {1, "F0 F1 B0 B1 F2 B2",
          "forward of micro-batch 1, chunk 0: micro-batch 0 still has its set, one of 1"}},
        {&one, {0, "F0 F1 F2 B0 B1 B2", "micro-batch 0 still has its set, one of 2"}},
        {&bubbles, {1, "F0 W0 B0 F1 B1 W1", "weight of micro-batch 0, chunk 0: what it follows"}},
    };
    for (int i = 0; i < ZR_COUNT(cases); i++)
        assert_said(cases[i].pipeline, &cases[i].lane);
}

static void what_is_wrong_with_pipedream_is_said(void **state)
{
    static const zr_pipeline dream = {ZR_PIPELINE_PIPEDREAM, 2, 1, 2, 2};
    static const wrong_lane cases[] = {
        {1, "F0 B0 F1 B1 U1@1 F2@1 B2@1 F3@1 B3@1 U3@2", NULL},
        {1, "F0 B0 F1 B1 U1@1 F2@1 B2@1 F3@1 B3@1",
         "update of micro-batch 3, chunk 0: it is missing"},
        {1, "F0 B0 U0@1 F1 B1 U1@1 F2@1 B2@1 F3@1 B3@1 U3@2", "it is there twice, or ends no step"},
        {1, "F0 B0 F1 B1 F2 B2 F3 B3 U3@1",
         "backward of micro-batch 2, chunk 0: it is of version 0"},
        {1, "F0 B0 F1 B1 U3@1", "one before it is missing, or it ends no step"},
        {1, "F0 B0 F1 U1@1 B1 F2@1 B2@1 F3@1 B3@1 U3@2", "it is not between the last backward of"},
        {1, "F0 B0 F1 B1 N1 U1@1 F2@1 B2@1 F3@1 B3@1 U3@2", "pipedream has no norm"},
        {1, "F0 B0 F1 B1 U1@2 F2@1 B2@1 F3@1 B3@1 U3@2",
         "update of micro-batch 1, chunk 0: it is of version 2 of the parameters instead of 1"},
        {1, "F0 B0 F1 B1 U1@1 F2 B2 F3@1 B3@1 U3@2",
         "forward of micro-batch 2, chunk 0: it is of version 0 of the parameters instead of 1"},
        {1, "F0 B0 F1 B1 U1@1 F2@1 B2@2 F3@1 B3@1 U3@2",
         "backward of micro-batch 2, chunk 0: it is of version 2 of the parameters instead of 1"},
        {0, "F0 F1 B0 F2 B1 U1@1 F3@1 B2 B3@1 U3@2", NULL},
        {0, "F0 F1 B0 F2 B1 U1@1 F3@1 B2@1 B3@1 U3@2",
         "backward of micro-batch 2, chunk 0: it is of version 1 of the parameters instead of 0"},
        {0, "F0 F1 B0 F2@-1 B1 U1@1 F3@1 B2 B3@1 U3@2", "it is of version -1 of the parameters"},
    };
    for (int i = 0; i < ZR_COUNT(cases); i++)
        assert_said(&dream, &cases[i]);
}

static void what_is_wrong_with_2bw_is_said(void **state)
{
    static const zr_pipeline two = {ZR_PIPELINE_2BW, 2, 1, 2, 3};
    static const wrong_lane cases[] = {
        {1, "F0 B0 F1 B1 N1 F2@1 B2@1 F3@1 B3@1 N3@1 U1@2 F4@2 B4@2 F5@2 B5@2 N5@2 U3@3 U5@4",
         NULL},
        {1, "F0 B0 F1 B1 N1 F2@1 B2@1 U1@2 F3@1 B3@1 N3@1 F4@2 B4@2 F5@2 B5@2 U3@3 N5@2 U5@4",
         NULL},
        {1, "F0 B0 F1 B1 F2@1 B2@1 F3@1 B3@1 U1@2 F4@2 B4@2 F5@2 B5@2 U3@3 U5@4",
         "update of micro-batch 1, chunk 0: the norm of its step is missing, or comes later"},
        {1, "F0 B0 F1 B1 F2@1 B2@1 F3@1 B3@1 N3@1 U1@2 F4@2 B4@2 F5@2 B5@2 N5@2 U3@3 U5@4",
         "norm of micro-batch 3, chunk 0: one before it is missing, or it ends no step"},
        {1, "F0 B0 F1 N1 B1 F2@1 B2@1 F3@1 B3@1 N3@1 U1@2 F4@2 B4@2 F5@2 B5@2 N5@2 U3@3 U5@4",
         "norm of micro-batch 1, chunk 0: it is not between the last backward of its step and the"},
        {1, "F0 B0 F1 B1 F2@1 B2@1 N1 F3@1 B3@1 N3@1 U1@2 F4@2 B4@2 F5@2 B5@2 N5@2 U3@3 U5@4",
         "norm of micro-batch 1, chunk 0: it is not between the last backward of its step and the"},
        {1, "F0 B0 F1 B1 N1@1 F2@1 B2@1 F3@1 B3@1 N3@1 U1@2 F4@2 B4@2 F5@2 B5@2 N5@2 U3@3 U5@4",
         "norm of micro-batch 1, chunk 0: it is of version 1 of the parameters instead of 0"},
        {1, "F0 B0 F1 B1 U1@2 N1 F2@1 B2@1 F3@1 B3@1 N3@1 F4@2 B4@2 F5@2 B5@2 N5@2 U3@3 U5@4",
         "update of micro-batch 1, chunk 0: the norm of its step is missing, or comes later"},
        {1, "F0 B0 F1 B1 N1 F2@1 B2@1 F3@1 B3@1 N3@1 F4@2 U1@2 B4@2 F5@2 B5@2 N5@2 U3@3 U5@4",
         "update of micro-batch 1, chunk 0: the next step but one has begun without it"},
        {1, "F0 B0 F1 B1 N1 F2@1 B2@1 F3@1 B3@1 N3@1 F4@2 B4@2 F5@2 B5@2 N5@2 U3@3 U5@4",
         "update of micro-batch 3, chunk 0: one before it is missing, or it ends no step"},
        {1, "F0 B0 F1 B1 N1 F2@1 B2@1 F3@1 B3@1 N3@1 U1@2 F4@2 B4@2 F5@2 B5@2 N5@2 U3@3",
         "update of micro-batch 5, chunk 0: it is missing"},
        {1, "F0 B0 F1 B1 N1 F2@1 B2@1 F3@1 B3@1 N3@1 U1@1 F4@2 B4@2 F5@2 B5@2 N5@2 U3@3 U5@4",
         "update of micro-batch 1, chunk 0: it is of version 1 of the parameters instead of 2"},
        {0, "F0 F1 B0 F2 B1 N1 F3@1 B2@1 U1@2 F4@2 B3@1 N3@1 F5@2 B4@2 B5@2 N5@2 U3@3 U5@4",
         "forward of micro-batch 2, chunk 0: it is of version 0 of the parameters instead of 1"},
        {0, "F0 F1 B0 F2@1 B1@1 N1 F3@1 B2@1 U1@2 F4@2 B3@1 N3@1 F5@2 B4@2 B5@2 N5@2 U3@3 U5@4",
         "backward of micro-batch 1, chunk 0: it is of version 1 of the parameters instead of 0"},
    };
    for (int i = 0; i < ZR_COUNT(cases); i++)
        assert_said(&two, &cases[i]);
}

static void synchronous_schedules_have_one_version(void **state)
{
    static const zr_pipeline one = {ZR_PIPELINE_1F1B, 1, 1, 1, 1};
    assert_said(&one, &(wrong_lane){0, "F0@1 B0", "it is of version 1 of the parameters instead"});
}

static void acts_that_are_none_are_refused(void **state)
{
    static const zr_pipeline gpipe = {ZR_PIPELINE_GPIPE, 1, 1, 1, 1};
    copy c;
    copy_lane(&c, &gpipe, 0);
    c.at[0].act = ZR_ACT_COUNT;
    assert_refused(&c, "pipeline stage 0: there is no act 5");
    zr_free(c.lanes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_lane_is_the_list_of_its_stage),
        cmocka_unit_test(without_memory_there_are_none),
        cmocka_unit_test(swapped_actions_are_found),
        cmocka_unit_test(dropped_actions_are_found),
        cmocka_unit_test(doubled_actions_are_found),
        cmocka_unit_test(what_is_wrong_is_said),
        cmocka_unit_test(what_is_wrong_with_pipedream_is_said),
        cmocka_unit_test(what_is_wrong_with_2bw_is_said),
        cmocka_unit_test(synchronous_schedules_have_one_version),
        cmocka_unit_test(acts_that_are_none_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
