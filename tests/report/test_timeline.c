// A timeline drawn as letters and as SVG, and that both fail without memory.
#include "report/timeline.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

typedef void drawer(const zr_timeline *t, zr_buffer *out);

// Two lanes of 20 columns, a band from 5 to 10, and a line at 12.
static void fill(zr_timeline *t)
{
    *t = (zr_timeline){.title = "a<b", .columns = 20, .gap = 6, .name_width = 6};
    t->heading = zr_timeline_say(t, "%d lanes", 2);
    t->entries[0] = (zr_timeline_entry){"work", -1, "what works", false};
    t->entries[1] = (zr_timeline_entry){"shade", 3, "from light to dark", false};
    t->entries[2] = (zr_timeline_entry){"idle", -1, "what nobody has", false};
    int one = zr_timeline_add_lane(
        t,
        &(zr_timeline_lane){
            .name = "one", .caption = "100%", .height = 20, .row_height = 20, .background = '.'});
    int other = zr_timeline_add_lane(
        t, &(zr_timeline_lane){.name = "other", .height = 8, .background = ' ', .trimmed = true});
    zr_timeline_add(t, &(zr_timeline_interval){one, 0, 14, 0, 20, 0, 0, false, "xy", "long", 'x'});
    zr_timeline_add(t, &(zr_timeline_interval){one, 8, 10, 0, 20, 1, 2, true, "xy", "short", 'y'});
    zr_timeline_add(t, &(zr_timeline_interval){other, 3, 4, 2, 6, 0, 0, false, NULL, "mark", '*'});
    zr_timeline_add(
        t, &(zr_timeline_interval){.lane = ZR_ALL_LANES, .begin = 5, .end = 10, .words = "band"});
    zr_timeline_add(
        t, &(zr_timeline_interval){.lane = ZR_ALL_LANES, .begin = 12, .end = 12, .words = "cut"});
    zr_buffer_printf(&t->style, ".work{}\n");
    zr_buffer_printf(&t->facts, "fact\t1 > 0\n");
    zr_buffer_printf(&t->notes, "note\n");
}

static zr_buffer drawn(drawer *draw)
{
    zr_timeline t;
    zr_buffer out = {0};
    fill(&t);
    draw(&t, &out);
    zr_timeline_free(&t);
    return out;
}

static int count_of(const char *text, const char *words)
{
    int count = 0;
    for (; (text = strstr(text, words)); text++)
        count++;
    return count;
}

static void letters_are_lines_of_lanes(void **state)
{
    zr_buffer out = drawn(zr_timeline_draw_letters);
    assert_string_equal(out.data, "a<b\n"
                                  "2 lanes\n"
                                  "\n"
                                  "one   xxxxxxxxyyxx|xx......  100%\n"
                                  "other    *\n"
                                  "\n"
                                  "note\n");
    zr_buffer_free(&out);
}

static void an_svg_has_boxes(void **state)
{
    static const struct {
        int count;
        const char *words;
    } parts[] = {
        {1, " width=\"160\" height="}, // 128 before time, 20 of time, a margin
        {1, ".box{stroke:#15181c}}\n.work{}\n</style>"},
        {1, "class=\"title\">a&lt;b</text>"},
        {1, "<rect x=\"128\" y=\"54\" width=\"14\" height=\"20\" class=\"box work\"><title>long<"},
        {1, "<rect x=\"136\" y=\"54\" width=\"2\" height=\"20\" class=\"box shade2 "
            "if\"><title>short<"},
        {1, "<rect x=\"131\" y=\"82\" width=\"1\" height=\"6\" class=\"box work\"><title>mark<"},
        {1, "class=\"on\">xy<"}, // one box has room for its label
        {1, "<rect x=\"133\" y=\"36\" width=\"5\" height=\"55\" class=\"fold\"/>"},
        {1, "class=\"middle\">band<"},
        {1, "<path d=\"M140 36V91\" class=\"line seam\"/>\n<text x=\"143\" y=\"47\">cut<"},
        {1, "<text x=\"12\" y=\"105\">fact</text>\n<text x=\"128\" y=\"105\">1 &gt; 0</text>"},
        {1, "class=\"box work\"><title>what works<"},
        {1, "class=\"box shade0\"><title>from light to dark<"},
        {1, "class=\"box shade3\"><title>from light to dark<"},
        {0, "what nobody has"},
        {1, ">note</text>\n</svg>\n"},
    };
    zr_buffer out = drawn(zr_timeline_draw);
    for (int i = 0; i < ZR_COUNT(parts); i++)
        if (count_of(out.data, parts[i].words) != parts[i].count)
            fail_msg("not %d times %s in\n%s", parts[i].count, parts[i].words, out.data);
    assert_true(strstr(out.data, "\"fold\"") <
                strstr(out.data, "\"title\"")); // the band lies behind
    zr_buffer_free(&out);
}

static void without_memory_a_drawing_has_failed(void **state)
{
    static drawer *const drawers[] = {zr_timeline_draw_letters, zr_timeline_draw};
    for (int i = 0; i < ZR_COUNT(drawers); i++) {
        int64_t before = zr_alloc_count();
        zr_buffer whole = drawn(drawers[i]);
        int64_t count = zr_alloc_count() - before;
        int64_t failed = 0;
        assert_false(whole.failed);
        for (int64_t nth = 1; nth <= count; nth++) {
            zr_alloc_fail_at(nth);
            zr_buffer out = drawn(drawers[i]);
            zr_alloc_fail_at(0);
            if (!out.failed) // of letters, which need neither style nor facts
                assert_string_equal(out.data, whole.data);
            failed += out.failed;
            zr_buffer_free(&out);
        }
        assert_true(failed >= count - (drawers[i] == zr_timeline_draw_letters ? 2 : 0));
        zr_buffer_free(&whole);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(letters_are_lines_of_lanes),
        cmocka_unit_test(an_svg_has_boxes),
        cmocka_unit_test(without_memory_a_drawing_has_failed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
