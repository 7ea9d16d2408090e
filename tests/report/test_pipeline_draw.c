// Drawings of pipelines: what the letters are, that each action has its box where it ran, and that
// large ones have a bound.
#include "plan/pipeline/simulate.h"
#include "report/pipeline_timeline.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

enum { MODEL_CHUNKS = 64, LEFT = 128 }; // LEFT: where time begins

typedef void drawer(const zr_pipeline_picture *picture, zr_buffer *out);

// Draws a pipeline whose forward takes `forward` seconds and its backward twice as many.
static zr_buffer drawn_with(drawer *draw, const zr_pipeline *p, double forward, double update)
{
    zr_chunk_cost costs[MODEL_CHUNKS];
    zr_simulation simulated;
    zr_buffer out = {0};
    bool weights = zr_pipeline_has_weights(p->kind);
    for (int g = 0; g < p->stages * p->chunks; g++)
        costs[g] = (zr_chunk_cost){.act = {forward, weights ? forward : 2 * forward,
                                           weights ? forward : 0, [ZR_ACT_UPDATE] = update}};
    zr_lane *lanes = zr_pipeline_lanes(p, NULL);
    assert_int_equal(zr_simulate(p, lanes, costs, &simulated, NULL), ZERO_OK);
    draw(&(zr_pipeline_picture){"a<b&c", p, &simulated, lanes}, &out);
    zr_simulation_free(&simulated);
    zr_free(lanes);
    return out;
}

static zr_buffer drawn(drawer *draw, const zr_pipeline *p, double forward)
{
    return drawn_with(draw, p, forward, 0);
}

static int count_of(const char *text, const char *words)
{
    int count = 0;
    for (; (text = strstr(text, words)); text++)
        count++;
    return count;
}

static void assert_letters(const zr_pipeline *p, const char *expected)
{
    zr_buffer out = drawn(zr_pipeline_draw_letters, p, 0.001);
    if (!strstr(out.data, expected))
        fail_msg("there is no\n%s\nin\n%s", expected, out.data);
    zr_buffer_free(&out);
}

static void letters_are_what_runs_when(void **state)
{
    const zr_pipeline one = {ZR_PIPELINE_1F1B, 4, 1, 8, 1};
    assert_letters(
        &one,
        "a<b&c\n"
        "1f1b, 4 pipeline stages, 8 micro-batches: 33 ms, bubble 27.3%\n"
        "\n"
        "pipeline stage 0  0123......aa4bb5cc6dd7ee.ff.gg.hh  27.3% bubble, holds 4 micro-batches\n"
        "pipeline stage 1  .012....aa3bb4cc5dd6ee7ff.gg.hh..  27.3% bubble, holds 3 micro-batches\n"
        "pipeline stage 2  ..01..aa2bb3cc4dd5ee6ff7gg.hh....  27.3% bubble, holds 2 micro-batches\n"
        "pipeline stage 3  ...0aa1bb2cc3dd4ee5ff6gg7hh......  27.3% bubble, holds 1 micro-batch\n"
        "\n"
        "A column is 1 ms. 0 1 2: forward of these micro-batches, and so on.\n");
    const zr_pipeline bubbles = {ZR_PIPELINE_ZB_H1, 2, 1, 3, 1};
    assert_letters(&bubbles, "pipeline stage 0  01.aA2bBcC  10.0% bubble, holds 2 micro-batches\n"
                             "pipeline stage 1  .0a1bA2cBC  10.0% bubble, holds 2 micro-batches\n");
    assert_letters(&bubbles, "A B C: the weights' part of backward.\n");
}

static void letters_of_chunks_have_a_line(void **state)
{
    const zr_pipeline turns = {ZR_PIPELINE_INTERLEAVED, 2, 2, 2, 1};
    assert_letters(&turns, "interleaved:2, 2 pipeline stages, 2 micro-batches: 15 ms");
    assert_letters(
        &turns,
        "pipeline stage 0  0101..aa.bbaabb  20.0% bubble, holds 4 micro-batches of a chunk\n");
    assert_letters(&turns, "\n         chunk    0011  11 110000\n");
}

// An update of unknown time stands below what begins then, or at the end; a norm is not drawn.
static void letters_of_updates_have_a_line(void **state)
{
    const zr_pipeline dream = {ZR_PIPELINE_PIPEDREAM, 2, 1, 1, 3};
    assert_letters(&dream, "pipedream, 2 pipeline stages, 1 micro-batch in each of 3 steps: 12 ms");
    assert_letters(
        &dream, "pipeline stage 0  01..aa2bb.cc  25.0% bubble, holds 2 micro-batches, 2 versions\n"
                "         update         *  *  *\n"
                "pipeline stage 1  .0aa1bb2cc..  25.0% bubble, holds 1 micro-batch, 1 version\n"
                "         update       *  *  *\n"
                "\n");
    assert_letters(&dream, "*: an update (+: several), made before what begins above it. Its time");
    assert_letters(&dream, "at most at one time; versions, of the parameters.\n");
    const zr_pipeline two = {ZR_PIPELINE_2BW, 2, 1, 2, 3};
    assert_letters(
        &two,
        "pipeline stage 0  01..aa2bb3cc4dd5ee.ff  14.3% bubble, holds 2 micro-batches, 2 versions\n"
        "         update               *        +\n"
        "pipeline stage 1  .0aa1bb2cc3dd4ee5ff..  14.3% bubble, holds 1 micro-batch, 2 versions\n"
        "         update                *     * *\n"
        "\n");
}

static void letters_of_updates_that_take_time(void **state)
{
    const zr_pipeline dream = {ZR_PIPELINE_PIPEDREAM, 2, 1, 1, 2};
    zr_buffer out = drawn_with(zr_pipeline_draw_letters, &dream, 1, 1);
    assert_non_null(strstr(out.data, "pipeline stage 1  .0aa*1bb*"));
    assert_non_null(strstr(out.data, "*: update.\n"));
    assert_null(strstr(out.data, "         update"));
    zr_buffer_free(&out);
}

static void many_micro_batches_are_told(void **state)
{
    const zr_pipeline p = {ZR_PIPELINE_GPIPE, 1, 1, 30, 1};
    assert_letters(&p, "pipeline stage 0  012345678901234567890123456789aabb");
    assert_letters(&p, "yyzzaabbccdd  0.0% bubble, holds 30 micro-batches\n");
    assert_letters(&p, " with the last digit.\n");
    assert_letters(&p, ", from a again after z.\n");
}

static void each_action_has_its_box(void **state)
{
    const zr_pipeline p = {ZR_PIPELINE_INTERLEAVED, 4, 2, 8, 1};
    zr_buffer out = drawn(zr_pipeline_draw, &p, 0.001);
    assert_int_equal(count_of(out.data, "class=\"box forward0\""), 32 + 1); // and in the legend
    assert_int_equal(count_of(out.data, "class=\"box forward1\""), 32 + 1);
    assert_int_equal(count_of(out.data, "class=\"box backward0\""), 32 + 1);
    assert_int_equal(count_of(out.data, "class=\"box backward1\""), 32 + 1);
    assert_int_equal(count_of(out.data, "class=\"idle\""), 4);
    assert_int_equal(count_of(out.data, "15.8% bubble, holds 11 micro-batches of a chunk"), 1);
    assert_int_equal(count_of(out.data, "bubble 15.8%<"), 1);
    assert_int_equal(count_of(out.data, ">a&lt;b&amp;c<"), 1);
    assert_int_equal(count_of(out.data, ">Light to dark: chunks 0 to 1 of a pipeline stage.<"), 1);
    assert_int_equal(count_of(out.data, "><title>forward</title>"), 2); // both colors, one meaning
    for (int c = 0; c < 2; c++)
        for (int act = 0; act < ZR_ACT_COUNT; act++) {
            char rule[64];
            snprintf(rule, sizeof rule, ".%s%d{fill:#", zr_act_name((zr_act)act), c);
            assert_int_equal(count_of(out.data, rule), 1);
        }
    zr_buffer_free(&out);
}

// Of one second each: a forward on stage 0, one on stage 1, and so on; 640 pixels are 6 seconds.
static void boxes_lie_where_actions_ran(void **state)
{
    const zr_pipeline p = {ZR_PIPELINE_1F1B, 2, 1, 1, 1};
    static const struct {
        int from, to; // seconds
        const char *class, *told;
    } boxes[] = {
        {0, 1, "forward0", "forward of micro-batch 0, chunk 0"},
        {4, 6, "backward0", "backward of micro-batch 0, chunk 0"},
        {1, 2, "forward0", "forward of micro-batch 0, chunk 0"},
        {2, 4, "backward0", "backward of micro-batch 0, chunk 0"},
    };
    zr_buffer out = drawn(zr_pipeline_draw, &p, 1);
    const char *at = out.data;
    for (int i = 0; i < ZR_COUNT(boxes); i++) {
        int x = 0, y = 0, width = 0, height = 0, from = boxes[i].from, to = boxes[i].to;
        char class[32] = "", told[64] = "";
        at = strstr(at + 1, "class=\"box ");
        while (strncmp(at, "<rect", 5))
            at--;
        assert_int_equal(sscanf(at,
                                "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" class=\"box "
                                "%31[a-z0-9]\"><title>%63[^<]",
                                &x, &y, &width, &height, class, told),
                         6);
        at = strchr(at, '>');
        assert_in_range(x, LEFT + 640 * from / 6, LEFT + 640 * from / 6 + 1);
        assert_in_range(x + width, LEFT + 640 * to / 6, LEFT + 640 * to / 6 + 1);
        assert_string_equal(class, boxes[i].class);
        assert_string_equal(told, boxes[i].told);
    }
    zr_buffer_free(&out);
}

// Updates and norms that take no time are marks: of 2 stages and 3 steps, of which the first stage
// makes the last two updates at one time.
static void what_ends_a_step_is_marked(void **state)
{
    const zr_pipeline two = {ZR_PIPELINE_2BW, 2, 1, 2, 3},
                      dream = {ZR_PIPELINE_PIPEDREAM, 2, 1, 1, 3};
    zr_buffer out = drawn(zr_pipeline_draw, &two, 0.001);
    assert_int_equal(count_of(out.data, "class=\"box update0\""), 2 + 3 + 1); // and in the legend
    assert_int_equal(count_of(out.data, "class=\"box norm0\""), 2 * 3 + 1);
    assert_int_equal(count_of(out.data, "width=\"3\""), 2 + 3 + 2 * 3);
    assert_int_equal(count_of(out.data, ">update of micro-batch 1, chunk 0, version 2 of the par"),
                     2);
    assert_int_equal(count_of(out.data, ">forward of micro-batch 4, chunk 0, version 2 of the p"),
                     2);
    assert_int_equal(count_of(out.data, ">norm of micro-batch 3, chunk 0<"), 2);
    assert_int_equal(count_of(out.data, "Thin marks, of one or several, take no time"), 1);
    assert_int_equal(count_of(out.data, ">14.3% bubble, holds 2 micro-batches, 2 versions<"), 1);
    zr_buffer_free(&out);
    out = drawn(zr_pipeline_draw, &dream, 0.001);
    assert_int_equal(count_of(out.data, "class=\"box update0\""), 2 * 3 + 1);
    assert_int_equal(count_of(out.data, "class=\"box norm0\""), 0);
    zr_buffer_free(&out);
    out = drawn_with(zr_pipeline_draw, &dream, 0.001, 0.001);
    assert_int_equal(count_of(out.data, "class=\"box update0\""), 2 * 3 + 1);
    assert_int_equal(count_of(out.data, "width=\"3\""), 0);
    assert_int_equal(count_of(out.data, "Thin marks"), 0);
    zr_buffer_free(&out);
}

static int width_of(const zr_buffer *out)
{
    int width = 0;
    assert_int_equal(sscanf(strstr(out->data, " width="), " width=\"%d\"", &width), 1);
    return width;
}

static void large_drawings_have_a_bound(void **state)
{
    static const zr_pipeline large[] = {
        {ZR_PIPELINE_INTERLEAVED, 8, 8, 256, 1},
        {ZR_PIPELINE_1F1B, 2, 1, 20000, 1},
        {ZR_PIPELINE_PIPEDREAM, 2, 1, 1, 20000},
    };
    for (int i = 0; i < ZR_COUNT(large); i++) {
        zr_buffer out = drawn(zr_pipeline_draw, &large[i], 0.001);
        assert_int_equal(width_of(&out), 4000);
        assert_true(count_of(out.data, "class=\"box ") <= 5000 * large[i].stages);
        zr_buffer_free(&out);
        out = drawn(zr_pipeline_draw_letters, &large[i], 0.001);
        assert_true(out.length < (size_t)(large[i].stages * 2 * 500 + 1000));
        zr_buffer_free(&out);
    }
}

// Of 16 micro-batches every box has its number; of 64 on 16 stages there is room for boxes alone.
static void drawings_fit_a_page(void **state)
{
    static const struct {
        zr_pipeline pipeline;
        int last, numbers; // micro-batch; boxes that show its number
    } pages[] = {
        {{ZR_PIPELINE_ZB_H1, 4, 1, 16, 1}, 15, 3 * 4},
        {{ZR_PIPELINE_INTERLEAVED, 4, 2, 8, 1}, 7, 2 * 2 * 4},
        {{ZR_PIPELINE_1F1B, 16, 1, 64, 1}, 63, 0},
    };
    for (int i = 0; i < ZR_COUNT(pages); i++) {
        const zr_pipeline *p = &pages[i].pipeline;
        zr_buffer out = drawn(zr_pipeline_draw, p, 0.001);
        char number[64], box[64];
        snprintf(number, sizeof number, "class=\"on middle\">%d<", pages[i].last);
        snprintf(box, sizeof box, ">forward of micro-batch %d, ", pages[i].last);
        assert_true(width_of(&out) <= 1200);
        assert_int_equal(count_of(out.data, number), pages[i].numbers);
        assert_int_equal(count_of(out.data, box), p->stages * p->chunks);
        zr_buffer_free(&out);
    }
}

static void what_takes_no_time_is_drawn_empty(void **state)
{
    const zr_pipeline p = {ZR_PIPELINE_1F1B, 2, 1, 3, 1};
    zr_buffer out = drawn(zr_pipeline_draw, &p, 0);
    assert_int_equal(count_of(out.data, "<title>forward of"), 0);
    assert_int_equal(count_of(out.data, "</svg>"), 1);
    zr_buffer_free(&out);
    out = drawn(zr_pipeline_draw_letters, &p, 0);
    assert_int_equal(count_of(out.data, "3 micro-batches: 0 s, bubble 0.0%"), 1);
    assert_int_equal(count_of(out.data, "pipeline stage 0"), 0);
    zr_buffer_free(&out);
}

static void draw_in_micro_batches(const zr_pipeline_picture *picture, zr_buffer *out)
{
    zr_pipeline_picture other = *picture;
    other.in_micro_batches = true;
    zr_pipeline_draw_letters(&other, out);
}

static void time_may_be_counted_in_micro_batches(void **state)
{
    const zr_pipeline p = {ZR_PIPELINE_1F1B, 4, 1, 8, 1};
    zr_buffer out = drawn(draw_in_micro_batches, &p, 1. / 12);
    assert_int_equal(count_of(out.data,
                              "8 micro-batches: 2.75 times as long as a micro-batch on one "
                              "rank, bubble 27.3%"),
                     1);
    assert_int_equal(count_of(out.data, "A column is 0.0833 times as long as a micro-batch."), 1);
    zr_buffer_free(&out);
}

static int64_t nth, allocations; // which fails while something is drawn; how many there were

static void draw_without_memory(const zr_pipeline_picture *picture, zr_buffer *out)
{
    int64_t before = zr_alloc_count();
    zr_alloc_fail_at(nth);
    zr_pipeline_draw(picture, out);
    zr_alloc_fail_at(0);
    allocations = zr_alloc_count() - before;
}

static void draw_letters_without_memory(const zr_pipeline_picture *picture, zr_buffer *out)
{
    int64_t before = zr_alloc_count();
    zr_alloc_fail_at(nth);
    zr_pipeline_draw_letters(picture, out);
    zr_alloc_fail_at(0);
    allocations = zr_alloc_count() - before;
}

static void without_memory_a_drawing_has_failed(void **state)
{
    static drawer *const drawers[] = {draw_without_memory, draw_letters_without_memory};
    const zr_pipeline p = {ZR_PIPELINE_1F1B, 4, 1, 8, 1};
    for (int i = 0; i < ZR_COUNT(drawers); i++) {
        nth = 0;
        zr_buffer whole = drawn(drawers[i], &p, 0.001);
        assert_false(whole.failed);
        zr_buffer_free(&whole);
        int64_t count = allocations;
        assert_true(count > 1);
        for (nth = 1; nth <= count; nth++) {
            zr_buffer out = drawn(drawers[i], &p, 0.001);
            assert_true(out.failed);
            zr_buffer_free(&out);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(letters_are_what_runs_when),
        cmocka_unit_test(letters_of_chunks_have_a_line),
        cmocka_unit_test(letters_of_updates_have_a_line),
        cmocka_unit_test(letters_of_updates_that_take_time),
        cmocka_unit_test(many_micro_batches_are_told),
        cmocka_unit_test(each_action_has_its_box),
        cmocka_unit_test(boxes_lie_where_actions_ran),
        cmocka_unit_test(what_ends_a_step_is_marked),
        cmocka_unit_test(large_drawings_have_a_bound),
        cmocka_unit_test(drawings_fit_a_page),
        cmocka_unit_test(what_takes_no_time_is_drawn_empty),
        cmocka_unit_test(time_may_be_counted_in_micro_batches),
        cmocka_unit_test(without_memory_a_drawing_has_failed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
