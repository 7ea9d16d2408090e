// Lists of rows: which of them race, and which waits are needed. Some are written by hand, some are
// what far queues recorded.
#include "far_harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MOST = 4096, PAGE = 1 << 12 };

static struct {
    far_row rows[MOST];
    far_range ranges[MOST][3];
    int count;
    uint64_t given[8];
} list;

static void begin(void) { memset(&list, 0, sizeof list); }

static far_row *add(far_row_kind kind, int host)
{
    assert_true(list.count < MOST);
    far_row *row = &list.rows[list.count++];
    row->kind = kind;
    row->host = host;
    return row;
}

// An operation that reads page `reads` and writes page `writes`; 0: none. Returns its number.
static uint64_t run(int host, int queue, int reads, int writes)
{
    far_row *row = add(FAR_OPERATION, host);
    far_range *ranges = list.ranges[list.count - 1];
    row->queue = queue;
    row->number = ++list.given[queue];
    row->op = ZR_OP_copy;
    row->ranges = ranges;
    if (reads)
        ranges[row->range_count++] =
            (far_range){(uintptr_t)reads * PAGE, (uintptr_t)(reads + 1) * PAGE, false};
    if (writes)
        ranges[row->range_count++] =
            (far_range){(uintptr_t)writes * PAGE, (uintptr_t)(writes + 1) * PAGE, true};
    return row->number;
}

static void wait_for(int host, int queue, int mark_queue, uint64_t number)
{
    far_row *row = add(FAR_AFTER, host);
    row->queue = queue;
    row->number = ++list.given[queue];
    row->mark_queue = mark_queue;
    row->mark_number = number;
}

static void finish(int host, int mark_queue, uint64_t number)
{
    far_row *row = add(FAR_FINISH, host);
    row->mark_queue = mark_queue;
    row->mark_number = number;
}

static void word(far_row_kind kind, int host, const void *at, uint64_t value)
{
    far_row *row = add(kind, host);
    row->word = at;
    row->value = value;
}

static void assert_ordered(void)
{
    far_race race;
    char text[200];
    if (!far_races(list.rows, list.count, &race))
        return;
    far_race_write(list.rows, &race, text, sizeof text);
    fail_msg("%s", text);
}

static void assert_races(int first, int second)
{
    far_race race;
    assert_true(far_races(list.rows, list.count, &race));
    assert_int_equal(race.first, first);
    assert_int_equal(race.second, second);
}

// ---- by hand ----

static void nothing_races_in_an_empty_list(void **state)
{
    begin();
    assert_ordered();
}

static void rows_of_one_queue_are_ordered(void **state)
{
    begin();
    run(0, 0, 0, 1);
    run(0, 0, 1, 2);
    run(0, 0, 2, 1);
    assert_ordered();
}

static void rows_of_two_queues_race(void **state)
{
    char text[200];
    far_race race;
    begin();
    run(0, 0, 0, 1);
    run(0, 1, 2, 3);
    run(0, 1, 1, 4);
    assert_races(0, 2);
    assert_true(far_races(list.rows, list.count, &race));
    assert_int_equal(race.at, PAGE);
    far_race_write(list.rows, &race, text, sizeof text);
    assert_string_equal(text, "copy, number 1 of queue 0, and copy, number 2 of queue 1, meet at "
                              "0x1000");
    begin();
    run(0, 0, 1, 2);
    run(0, 1, 3, 1);
    assert_races(0, 1);
}

static void rows_meet_in_single_bytes(void **state)
{
    begin();
    run(0, 0, 0, 1);
    run(0, 1, 0, 2);
    assert_ordered(); // side by side
    list.ranges[0][0].end++;
    assert_races(0, 1);
}

static void readers_do_not_race(void **state)
{
    begin();
    run(0, 0, 1, 2);
    run(0, 1, 1, 3);
    assert_ordered();
}

static void a_wait_orders(void **state)
{
    begin();
    uint64_t number = run(0, 0, 0, 1);
    wait_for(0, 1, 0, number);
    run(0, 1, 1, 2);
    assert_ordered();
    run(0, 0, 0, 1); // after the mark
    assert_races(2, 3);
}

static void a_wait_orders_what_follows_only(void **state)
{
    begin();
    uint64_t number = run(0, 0, 0, 1);
    run(0, 1, 1, 2);
    wait_for(0, 1, 0, number);
    assert_races(0, 1);
}

static void a_third_queue_hands_on(void **state)
{
    begin();
    uint64_t number = run(0, 0, 0, 1);
    wait_for(0, 1, 0, number);
    wait_for(0, 2, 1, list.given[1]); // a queue that waited only
    run(0, 2, 1, 2);
    assert_ordered();
}

static void a_finish_orders_what_is_submitted_later(void **state)
{
    begin();
    uint64_t number = run(0, 0, 0, 1);
    finish(0, 0, number);
    run(0, 1, 1, 2);
    assert_ordered();
    run(1, 2, 1, 3); // by a thread that knows nothing
    assert_races(0, 3);
}

static void a_finish_tells_what_the_row_knew(void **state)
{
    begin();
    uint64_t number = run(0, 0, 0, 1);
    wait_for(0, 1, 0, number);
    number = run(0, 1, 2, 3);
    finish(0, 1, number);
    run(0, 2, 1, 4);
    assert_ordered();
}

static void words_hand_on_what_a_thread_knows(void **state)
{
    static const char a, b;
    begin();
    uint64_t number = run(0, 0, 0, 1);
    finish(0, 0, number);
    word(FAR_POST, 0, &a, 3);
    word(FAR_AWAIT, 1, &a, 3);
    run(1, 1, 1, 2);
    assert_ordered();
    list.rows[3].value = 4; // was not posted
    assert_races(0, 4);
    list.rows[3].value = 2; // 3 is enough
    assert_ordered();
    list.rows[3].word = &b;
    assert_races(0, 4);
}

static void a_word_tells_what_was_known_when_it_was_posted(void **state)
{
    static const char a;
    begin();
    word(FAR_POST, 0, &a, 1);
    uint64_t number = run(0, 0, 0, 1);
    finish(0, 0, number);
    word(FAR_POST, 0, &a, 2);
    word(FAR_AWAIT, 1, &a, 1); // it may have gone on at 1
    run(1, 1, 1, 2);
    assert_races(1, 5);
    list.rows[4].value = 2;
    assert_ordered();
}

static void threads_that_count_a_word_up_hand_on_all(void **state)
{
    static const char a;
    begin();
    finish(0, 0, run(0, 0, 0, 1));
    word(FAR_POST, 0, &a, 1);
    word(FAR_POST, 1, &a, 2); // it has seen 1, since it made 2 of it
    word(FAR_AWAIT, 2, &a, 2);
    run(2, 1, 1, 2);
    assert_ordered();
}

static void a_word_that_begins_anew_tells_nothing_old(void **state)
{
    static const char a;
    begin();
    finish(0, 0, run(0, 0, 0, 1));
    word(FAR_POST, 0, &a, 1);
    finish(0, 0, run(0, 0, 0, 1));
    word(FAR_POST, 0, &a, 1);
    word(FAR_AWAIT, 1, &a, 1);
    run(1, 1, 1, 2);
    assert_ordered();
    begin();
    word(FAR_POST, 0, &a, 1);
    word(FAR_POST, 0, &a, 2);
    finish(0, 0, run(0, 0, 0, 1));
    word(FAR_POST, 0, &a, 2);
    word(FAR_AWAIT, 1, &a, 1); // 1 was of before
    run(1, 1, 1, 2);
    assert_ordered();
}

// A greater value does not make the first word of other memory look like the one before.
static void memory_that_is_unmapped_takes_its_words_along(void **state)
{
    static const char words[2];
    begin();
    word(FAR_POST, 0, &words[1], 16);
    int gone = list.count;
    word(FAR_UNMAP, 0, words, sizeof words);
    finish(0, 0, run(0, 0, 0, 1));
    word(FAR_POST, 0, &words[1], 17);
    word(FAR_AWAIT, 1, &words[1], 16);
    run(1, 1, 1, 2);
    assert_ordered();
    list.rows[gone].value = 1; // without the word
    assert_races(2, list.count - 1);
}

// ---- leaving out ----

static int needed[MOST], told[MOST]; // by row

static void note(void *user, int row, const far_race *race)
{
    told[row]++;
    needed[row] = race != NULL;
}

static void thin(void)
{
    memset(needed, 0, sizeof needed);
    memset(told, 0, sizeof told);
    far_thin(list.rows, list.count, note, NULL);
}

static void waits_are_needed_or_not(void **state)
{
    begin();
    uint64_t number = run(0, 0, 0, 1);
    wait_for(0, 1, 0, number); // row 1: needed by row 2
    run(0, 1, 1, 2);
    wait_for(0, 1, 0, number); // row 3: known already
    run(0, 1, 1, 2);
    number = run(0, 0, 3, 4);
    finish(0, 0, number); // row 6: needed by row 7
    run(0, 2, 4, 5);
    finish(0, 2, 1); // row 8: nothing follows
    assert_ordered();
    thin();
    for (int i = 0; i < list.count; i++) {
        assert_int_equal(needed[i], i == 1 || i == 6);
        assert_int_equal(told[i], i == 1 || i == 3 || i == 6 || i == 8);
    }
}

// A step of ZeRO-3: a queue gathers units into two slots, one computes, one reduces gradients.
static void make_step(int units, int operations)
{
    enum { COMPUTE, GATHER, REDUCE, SLOT = 1, GRADIENT = 3, SHARD = 100, KEPT = 1000 };
    uint64_t read_of[2] = {0}, reduced[2] = {0};
    begin();
    for (int visit = 0; visit < 2 * units; visit++) {
        bool back = visit >= units;
        int unit = back ? 2 * units - 1 - visit : visit, slot = visit % 2;
        if (read_of[slot])
            wait_for(0, GATHER, COMPUTE, read_of[slot]);
        uint64_t came = run(0, GATHER, SHARD + unit, SLOT + slot);
        wait_for(0, COMPUTE, GATHER, came);
        if (reduced[slot])
            wait_for(0, COMPUTE, REDUCE, reduced[slot]);
        for (int i = 0; i < operations; i++)
            read_of[slot] = run(0, COMPUTE, SLOT + slot, back ? GRADIENT + slot : KEPT + unit);
        if (back) {
            wait_for(0, REDUCE, COMPUTE, read_of[slot]);
            reduced[slot] = run(0, REDUCE, GRADIENT + slot, 2 * SHARD + unit);
        }
    }
}

static double seconds_since(clock_t begin) { return (double)(clock() - begin) / CLOCKS_PER_SEC; }

static void a_step_is_checked_fast(void **state)
{
    far_race race;
    int waits = 0, all = 0;
    make_step(24, 20);
    clock_t start = clock();
    bool races = far_races(list.rows, list.count, &race);
    double once = seconds_since(start);
    assert_false(races);
    start = clock();
    thin();
    for (int i = 0; i < list.count; i++) {
        waits += needed[i];
        all += told[i];
    }
    print_message("%d rows: checked in %.2f ms, %d waits left out in turn in %.2f s, %d needed\n",
                  list.count, once * 1e3, all, seconds_since(start), waits);
    assert_true(all > 100 && waits > all / 2);
}

// ---- recorded ----

static void what_queues_are_given_is_recorded(void **state)
{
    far_begin(&(far_options){.order = FAR_RANDOM, .seed = 1, .keeps_rows = true});
    zr_queue *up = far_queue_new(), *down = far_queue_new();
    char *device = take(ZR_MEMORY_DEVICE, 100), *pinned = take(ZR_MEMORY_PINNED, 100);
    int count;
    static const far_row_kind kinds[] = {FAR_OPERATION, FAR_MARK,   FAR_AFTER, FAR_OPERATION,
                                         FAR_MARK,      FAR_FINISH, FAR_POST,  FAR_AWAIT};
    far_fill(up, device, 100, 1);
    zr_queue_after(down, zr_queue_mark(up));
    far_copy(down, device + 10, pinned, 50);
    finish_all(down);
    far_note_post(pinned, 5);
    far_note_await(pinned, 4, 0);
    const far_row *rows = far_rows(&count);
    assert_int_equal(count, ZR_COUNT(kinds));
    for (int i = 0; i < count; i++) {
        assert_int_equal(rows[i].kind, kinds[i]);
        assert_int_equal(rows[i].host, far_host());
    }
    assert_true(rows[2].queue == 1 && rows[2].number == 1 && rows[2].mark_queue == 0 &&
                rows[2].mark_number == 1);
    assert_true(rows[3].op == ZR_OP_copy && rows[3].queue == 1 && rows[3].number == 2 &&
                rows[3].range_count == 2);
    assert_true(rows[3].ranges[0].first == (uintptr_t)device + 10 && !rows[3].ranges[0].writes);
    assert_true(rows[3].ranges[1].end == (uintptr_t)pinned + 50 && rows[3].ranges[1].writes);
    assert_true(rows[5].mark_queue == 1 && rows[5].mark_number == 2);
    assert_true(rows[6].word == pinned && rows[6].value == 5 && rows[7].value == 4);
    far_rows_forget();
    far_rows(&count);
    assert_int_equal(count, 0);
    zr_queue_close(up);
    zr_queue_close(down);
    give_back(ZR_MEMORY_DEVICE, device, 100);
    give_back(ZR_MEMORY_PINNED, pinned, 100);
    end_clean();
}

static void rows_are_kept_where_they_are_asked_for(void **state)
{
    int count;
    far_begin(&(far_options){.order = FAR_EAGER});
    far_note_post(&count, 1);
    far_rows(&count);
    assert_int_equal(count, 0);
    end_clean();
}

// The waits of three queues that hand data on are needed, each of them.
static void recorded_waits_are_needed(void **state)
{
    far_race race;
    int count;
    far_begin(&(far_options){.order = FAR_LAZY, .keeps_rows = true});
    zr_queue *queue[3] = {far_queue_new(), far_queue_new(), far_queue_new()};
    char *device = take(ZR_MEMORY_DEVICE, 200), *pinned = take(ZR_MEMORY_PINNED, 100);
    far_fill(queue[0], device, 100, 1);
    zr_queue_after(queue[1], zr_queue_mark(queue[0]));
    far_copy(queue[1], device, device + 100, 100);
    zr_queue_after(queue[2], zr_queue_mark(queue[1]));
    far_copy(queue[2], device + 100, pinned, 100);
    finish_all(queue[2]);
    far_fill(queue[0], device + 100, 100, 1); // the finish orders it
    const far_row *rows = far_rows(&count);
    assert_false(far_races(rows, count, &race));
    memset(needed, 0, sizeof needed);
    far_thin(rows, count, note, NULL);
    for (int i = 0; i < count; i++)
        assert_int_equal(needed[i], rows[i].kind == FAR_AFTER || rows[i].kind == FAR_FINISH);
    for (int i = 0; i < 3; i++)
        zr_queue_close(queue[i]);
    give_back(ZR_MEMORY_DEVICE, device, 200);
    give_back(ZR_MEMORY_PINNED, pinned, 100);
    end_clean();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_races_in_an_empty_list),
        cmocka_unit_test(rows_of_one_queue_are_ordered),
        cmocka_unit_test(rows_of_two_queues_race),
        cmocka_unit_test(rows_meet_in_single_bytes),
        cmocka_unit_test(readers_do_not_race),
        cmocka_unit_test(a_wait_orders),
        cmocka_unit_test(a_wait_orders_what_follows_only),
        cmocka_unit_test(a_third_queue_hands_on),
        cmocka_unit_test(a_finish_orders_what_is_submitted_later),
        cmocka_unit_test(a_finish_tells_what_the_row_knew),
        cmocka_unit_test(words_hand_on_what_a_thread_knows),
        cmocka_unit_test(a_word_tells_what_was_known_when_it_was_posted),
        cmocka_unit_test(threads_that_count_a_word_up_hand_on_all),
        cmocka_unit_test(a_word_that_begins_anew_tells_nothing_old),
        cmocka_unit_test(memory_that_is_unmapped_takes_its_words_along),
        cmocka_unit_test(waits_are_needed_or_not),
        cmocka_unit_test(a_step_is_checked_fast),
        cmocka_unit_test(what_queues_are_given_is_recorded),
        cmocka_unit_test(rows_are_kept_where_they_are_asked_for),
        cmocka_unit_test(recorded_waits_are_needed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
