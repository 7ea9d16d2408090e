// The trace of two ranks: JSON that can be parsed, every record on its track, turns of units inside
// their phases, and exact times.
#include "base/json.h"
#include "made_records.h"
#include "monitor/trace.h"

#include <math.h>
#include <string.h>

static const char *const units[] = {"embedding", "h.0", "he\"ad"}, *const slots[] = {"wte", "h.0"};
static const zr_trace_names names = {
    .units = units, .slots = slots, .unit_count = 3, .slot_count = 2, .stage = -1, .chunks = 1};

static json_t *events_of(const zr_recorder *recorder, int ranks)
{
    zr_buffer text = {0};
    json_t *trace = NULL;
    zero_error error = {0};
    zr_trace_begin(&text);
    for (int r = 0; r < ranks; r++)
        zr_trace_rank(r, recorder, 100000000, &names, &text);
    zr_trace_end(&text);
    assert_false(text.failed);
    if (zr_json_parse(text.data, text.length, "trace", &trace, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    json_t *events = json_incref(json_object_get(trace, "traceEvents"));
    assert_true(json_is_array(events));
    json_decref(trace);
    zr_buffer_free(&text);
    return events;
}

static bool is(const json_t *event, const char *key, const char *text)
{
    const char *found = json_string_value(json_object_get(event, key));
    return found && !strcmp(found, text);
}

static double number(const json_t *event, const char *key)
{
    return json_number_value(json_object_get(event, key));
}

// The nth of rank's events of that kind.
static json_t *find(json_t *events, int rank, const char *phase, const char *name, int nth)
{
    for (size_t i = 0; i < json_array_size(events); i++) {
        json_t *event = json_array_get(events, i);
        if (is(event, "ph", phase) && is(event, "name", name) && number(event, "pid") == rank &&
            nth-- == 0)
            return event;
    }
    return NULL;
}

static void test_names(void **state)
{
    zr_recorder *r = records_step();
    json_t *events = events_of(r, 2);
    assert_true(
        is(json_object_get(find(events, 1, "M", "process_name", 0), "args"), "name", "rank 1"));
    const char *const tracks[] = {"phases", "compute", "communication", "NVMe"};
    for (int t = 0; t < 4; t++) {
        json_t *event = find(events, 1, "M", "thread_name", t);
        assert_true(number(event, "tid") == t &&
                    is(json_object_get(event, "args"), "name", tracks[t]));
    }
    json_decref(events);
    zr_recorder_destroy(r);
}

static void test_records(void **state)
{
    zr_recorder *r = records_step();
    r->records[2].begin += 1; // a nanosecond
    json_t *events = events_of(r, 2);
    json_t *product = find(events, 1, "X", "product", 1), *args = json_object_get(product, "args");
    assert_true(fabs(number(product, "ts") - 1000.001) < 1e-9 &&
                fabs(number(product, "dur") - 3999.999) < 1e-9);
    assert_true(number(product, "tid") == 1 && is(args, "unit", "h.0") &&
                number(args, "flops") == 40000000);
    json_t *before = find(events, 0, "X", "product", 0);
    assert_true(number(before, "ts") == -50000 && number(before, "dur") == 40000);
    json_t *reduce = find(events, 0, "X", "reduce_scatter", 0);
    args = json_object_get(reduce, "args");
    assert_true(number(reduce, "tid") == 2 && is(args, "slot", "h.0") &&
                number(args, "bytes") == 1048576 && !json_object_get(args, "flops"));
    assert_true(is(reduce, "cat", "communication"));
    json_t *forward = find(events, 0, "X", "forward", 0);
    assert_true(number(forward, "tid") == 0 && number(forward, "ts") == 0 &&
                number(forward, "dur") == 10000);
    assert_int_equal(json_object_size(json_object_get(forward, "args")), 0);
    json_decref(events);
    zr_recorder_destroy(r);
}

static void test_turns(void **state)
{
    zr_recorder *r = records_step();
    json_t *events = events_of(r, 1);
    json_t *first = find(events, 0, "X", "h.0", 0), *second = find(events, 0, "X", "h.0", 1);
    assert_true(number(first, "ts") == 1000 && number(first, "dur") == 4000 &&
                number(first, "tid") == 0);
    // its product and its reduction
    assert_true(number(second, "ts") == 12000 && number(second, "dur") == 9000);
    // the record before any phase is nobody's turn
    assert_null(find(events, 0, "X", "h.0", 2));
    assert_non_null(find(events, 0, "X", "he\"ad", 0));
    json_decref(events);
    zr_recorder_destroy(r);
}

// A turn that begins with a collective begins with it, and not with the wait that was written
// before it.
static void test_turn_that_begins_with_a_collective(void **state)
{
    zr_recorder *r = records_new();
    records_put(r, ZR_ACTIVITY_wait, 1, 102, 103);
    records_put(r, ZR_ACTIVITY_all_gather, 1, 101, 104);
    records_put(r, ZR_ACTIVITY_product, 1, 104, 106);
    records_put(r, ZR_ACTIVITY_forward, -1, 100, 107);
    json_t *events = events_of(r, 1), *turn = find(events, 0, "X", "h.0", 0);
    assert_true(number(turn, "ts") == 1000 && number(turn, "dur") == 5000);
    json_decref(events);
    zr_recorder_destroy(r);
}

// Transfers to and from NVMe overlap what the rank does and each other: they have begins and ends
// of their own, and no turn ends at them.
static void test_transfers_aside(void **state)
{
    zr_recorder *r = records_new();
    records_put(r, ZR_ACTIVITY_product, 1, 101, 103);
    // begun before the phase
    zr_recorder_add_overlapped(r, ZR_ACTIVITY_disk_read, 90000000, 104000000, 4096);
    zr_recorder_add_overlapped(r, ZR_ACTIVITY_disk_write, 102000000, 109000000, 8192);
    records_put(r, ZR_ACTIVITY_product, 1, 104, 106);
    records_put(r, ZR_ACTIVITY_forward, -1, 100, 107);
    json_t *events = events_of(r, 1), *turn = find(events, 0, "X", "h.0", 0);
    assert_true(number(turn, "ts") == 1000 && number(turn, "dur") == 5000);
    assert_null(find(events, 0, "X", "h.0", 1));
    json_t *begin = find(events, 0, "b", "disk_read", 0),
           *end = find(events, 0, "e", "disk_read", 0),
           *other = find(events, 0, "b", "disk_write", 0);
    assert_true(begin && end && other && number(begin, "id") == number(end, "id") &&
                number(begin, "id") != number(other, "id"));
    assert_true(number(begin, "ts") == -10000 && number(end, "ts") == 4000 &&
                number(other, "ts") == 2000);
    assert_true(number(json_object_get(other, "args"), "bytes") == 8192);
    json_decref(events);
    zr_recorder_destroy(r);
}

static void test_nothing_recorded(void **state)
{
    zr_recorder *r = records_new();
    json_t *events = events_of(r, 1);
    assert_null(find(events, 0, "X", "forward", 0));
    assert_int_equal(json_array_size(events), 2 + 2 * ZR_TRACK_COUNT);
    json_decref(events);
    assert_int_equal(json_array_size(events = events_of(r, 0)), 0);
    json_decref(events);
    zr_recorder_destroy(r);
}

// Actions begin after what they wait for first; waits in the middle belong to them.
static void test_a_pipeline_shows_its_bubble(void **state)
{
    zr_recorder *r = records_new();
    zr_trace_names of = names;
    zr_buffer text = {0};
    json_t *trace = NULL;
    zero_error error = {0};
    of.stage = 1;
    records_put(r, ZR_ACTIVITY_wait, 1, 100, 104);
    records_put(r, ZR_ACTIVITY_product, 1, 104, 105);
    records_put(r, ZR_ACTIVITY_wait, -1, 105, 106);
    records_put(r, ZR_ACTIVITY_forward, -1, 100, 107)->slot = zr_record_action(12, 1);
    records_put(r, ZR_ACTIVITY_weight, -1, 108, 109)->slot = zr_record_action(3, 0);
    zr_trace_begin(&text);
    zr_trace_rank(4, r, 100000000, &of, &text);
    of.chunks = 2;
    zr_trace_rank(5, r, 100000000, &of, &text);
    zr_trace_end(&text);
    assert_int_equal(zr_json_parse(text.data, text.length, "trace", &trace, &error), ZERO_OK);
    json_t *events = json_object_get(trace, "traceEvents");
    assert_true(is(json_object_get(find(events, 4, "M", "process_name", 0), "args"), "name",
                   "rank 4, pipeline stage 1"));
    json_t *forward = find(events, 4, "X", "forward 12", 0);
    assert_non_null(forward);
    assert_true(number(forward, "ts") == 4000 && number(forward, "dur") == 3000);
    assert_non_null(find(events, 4, "X", "weight 3", 0));
    assert_non_null(find(events, 5, "X", "forward 12, chunk 1", 0));
    assert_non_null(find(events, 5, "X", "weight 3, chunk 0", 0));
    assert_int_equal(json_object_size(json_object_get(forward, "args")), 0);
    assert_true(number(find(events, 4, "X", "h.0", 0), "ts") == 4000);
    json_decref(trace);
    zr_buffer_free(&text);
    zr_recorder_destroy(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_pipeline_shows_its_bubble),
                                       cmocka_unit_test(test_names),
                                       cmocka_unit_test(test_records),
                                       cmocka_unit_test(test_turns),
                                       cmocka_unit_test(test_turn_that_begins_with_a_collective),
                                       cmocka_unit_test(test_transfers_aside),
                                       cmocka_unit_test(test_nothing_recorded)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
