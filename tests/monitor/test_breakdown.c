// The breakdowns of a step whose times are known: every number in the lines, the table of units,
// and the tables of messages.
#include "made_records.h"
#include "monitor/breakdown.h"

#include <string.h>

static const int64_t MS = 1000000;

static void test_times(void **state)
{
    zr_recorder *r = records_step();
    zr_step_times times = zr_step_times_of(r, 0);
    assert_int_equal(times.total, 30 * MS);
    assert_int_equal(times.forward, 10 * MS);
    assert_int_equal(times.backward, 12 * MS);
    assert_int_equal(times.reduce, 2 * MS); // its wait is not its own
    assert_int_equal(times.step, 6 * MS);
    assert_int_equal(times.norm, 2 * MS);
    assert_int_equal(times.update, 3 * MS);
    assert_int_equal(times.gather, MS / 2);
    assert_int_equal(times.wait, MS);
    zr_buffer text = {0};
    zr_breakdown_time(7, 7, "", &times, &text);
    assert_string_equal(text.data,
                        "step 7: 30.00 ms; forward 10.00, backward 12.00 (reduce 2.00), step 6.00 "
                        "(norm 2.00, update 3.00, gather 0.50); waiting for other ranks 1.00\n");
    zr_buffer_free(&text);
    zr_recorder_destroy(r);
}

static void test_times_of_several_micro_batches(void **state)
{
    zr_recorder *r = records_step();
    records_put(r, ZR_ACTIVITY_wait, 0, 141, 142);
    records_put(r, ZR_ACTIVITY_forward, -1, 140, 145);
    zr_step_times all = zr_step_times_of(r, 0), last = zr_step_times_of(r, 15);
    assert_int_equal(all.forward, 15 * MS);
    assert_int_equal(all.total, 45 * MS);
    assert_int_equal(all.wait, 2 * MS);
    assert_int_equal(last.forward, 5 * MS); // of the records from `first` on alone
    assert_int_equal(last.total, 5 * MS);
    assert_int_equal(last.backward, 0);
    zr_recorder_clear(r);
    assert_int_equal(zr_step_times_of(r, 0).total, 0);
    zr_recorder_destroy(r);
}

static void test_memory(void **state)
{
    zero_memory memory = {0};
    zr_buffer text = {0};
    memory.planned[ZERO_TIER_device][ZERO_MEM_parameters] =
        memory.held[ZERO_TIER_device][ZERO_MEM_parameters] = 1660000;
    memory.planned[ZERO_TIER_device][ZERO_MEM_workspace] = 4000000;
    zr_breakdown_memory(0, "", &memory, 81234567, &text);
    zr_breakdown_memory(3, "", &memory, 0, &text);
    assert_string_equal(text.data, "at start, planned/held MB: parameters 1.66/1.66, workspace "
                                   "4.00/0.00, total 5.66/1.66; resident at most 81.23\n"
                                   "step 3, planned/held MB: parameters 1.66/1.66, workspace "
                                   "4.00/0.00, total 5.66/1.66; resident at most 0.00\n");
    zr_buffer_free(&text);
}

static const zr_unit_facts units[] = {{.name = "embedding", .parameters = 100},
                                      {.name = "h.0", .parameters = 200},
                                      {.name = "head", .parameters = 3, .fused = true}};

static zr_buffer flops_table(bool detailed, double recompute)
{
    zr_recorder *r = records_step();
    zr_buffer text = {0};
    zr_flops_facts facts = {.step = 7,
                            .of = "",
                            .units = units,
                            .unit_count = 3,
                            .ranks = 2,
                            .detailed = detailed,
                            .recompute_factor = recompute};
    assert_int_equal(zr_breakdown_flops(&facts, r, 0, &text, NULL), ZERO_OK);
    zr_recorder_destroy(r);
    return text;
}

static void test_flops(void **state)
{
    zr_buffer text = flops_table(true, 0);
    assert_non_null(strstr(text.data, "step 7 of rank 0 of 2: 303 parameters in 3 units; 30.00 ms: "
                                      "forward 10.00, backward 12.00, step 6.00\n"));
    // head: 60 MFLOP of forward and gradient in one, a third of them forward's. 180 MFLOP in 22 ms,
    // and in 30.
    assert_non_null(strstr(text.data, "forward 0.0600 GFLOP, backward 0.1200 GFLOP; 8.2 GFLOP/s in "
                                      "forward and backward, 6.0 in the whole step\n"));
    assert_non_null(strstr(text.data, "embedding                 100        1.000        2.000     "
                                      "   0.0000         0.0000       0.0   13.6%\n"));
    assert_non_null(strstr(text.data, "h.0                       200        4.000        9.000     "
                                      "   0.0400         0.0800       9.2   59.1%\n"));
    assert_non_null(strstr(text.data, "head                        3        4.000   in forward     "
                                      "   0.0200         0.0400      15.0   18.2%\n"));
    assert_non_null(strstr(text.data, "between units                                     2.000"));
    assert_null(strstr(text.data, "recomputed"));
    zr_buffer_free(&text);
}

static void test_flops_of_a_part(void **state)
{
    zr_recorder *r = records_step();
    zr_buffer text = {0};
    zr_flops_facts facts = {
        .of = "", .step = 7, .units = units, .unit_count = 3, .ranks = 2, .parameters = 500};
    assert_int_equal(zr_breakdown_flops(&facts, r, 0, &text, NULL), ZERO_OK);
    assert_non_null(strstr(text.data, "step 7 of rank 0 of 2: 500 parameters, 303 of them in this "
                                      "rank's part, in 3 units; 30.00 ms: "));
    zr_recorder_destroy(r);
    zr_buffer_free(&text);
}

// Steps of a pipeline that overlap have one table.
static void test_steps_recorded_together(void **state)
{
    zr_recorder *r = records_step();
    zr_step_times times = zr_step_times_of(r, 0);
    zr_buffer text = {0};
    zr_messages messages = {0};
    zr_flops_facts facts = {
        .of = "", .step = 5, .last_step = 8, .units = units, .unit_count = 3, .ranks = 2};
    assert_int_equal(zr_breakdown_flops(&facts, r, 0, &text, NULL), ZERO_OK);
    zr_breakdown_time(5, 8, " of pipeline stage 0", &times, &text);
    assert_int_equal(zr_messages_add(&messages, r, 0, 4, 0, NULL), ZERO_OK);
    zr_breakdown_messages(&messages, "", &text);
    assert_non_null(strstr(text.data, "steps 5 to 8 of rank 0 of 2: 303 parameters in 3 units; "));
    assert_non_null(strstr(text.data, "6.0 in the whole time\n"));
    assert_non_null(strstr(text.data, "steps 5 to 8 of pipeline stage 0: 30.00 ms; forward 10.00"));
    assert_non_null(strstr(text.data, "messages of 4 steps of rank 0"));
    zr_messages_free(&messages);
    zr_buffer_free(&text);
    zr_recorder_destroy(r);
}

static void test_flops_sums_alone(void **state)
{
    zr_buffer text = flops_table(false, 0);
    assert_non_null(strstr(text.data, "backward 0.1200 GFLOP"));
    assert_null(strstr(text.data, "embedding"));
    zr_buffer_free(&text);
}

static void test_flops_recomputed(void **state)
{
    zr_buffer text = flops_table(true, 0.5);
    assert_non_null(
        strstr(text.data,
               "forward 0.0600 GFLOP, backward 0.1500 GFLOP (0.0300 of it counted as recomputed)"));
    assert_non_null(strstr(text.data, "0.0400         0.1000")); // h.0: half of 40 MFLOP once more
    zr_buffer_free(&text);
}

static void test_flops_without_memory(void **state)
{
    zr_recorder *r = records_step();
    zr_buffer text = {0};
    zr_flops_facts facts = {.step = 1, .of = "", .units = units, .unit_count = 3, .ranks = 1};
    zr_alloc_fail_at(1);
    assert_int_equal(zr_breakdown_flops(&facts, r, 0, &text, NULL), ZERO_ERR_MEMORY);
    zr_alloc_fail_at(0);
    zr_buffer_free(&text);
    zr_recorder_destroy(r);
}

static const uint32_t ALL = (1u << ZERO_COMM_OP_COUNT) - 1;

static void test_messages(void **state)
{
    zr_recorder *r = records_step();
    zr_messages messages = {0};
    zr_buffer text = {0};
    // before the larger one, though it came after
    records_put(r, ZR_ACTIVITY_reduce_scatter, 0, 131, 132)->bytes = 512;
    for (int i = 0; i < 2; i++)
        assert_int_equal(zr_messages_add(&messages, r, 0, 1, ALL, NULL), ZERO_OK);
    assert_int_equal(messages.count, 4);
    assert_int_equal(messages.rows[0].what, ZR_ACTIVITY_reduce_scatter);
    assert_int_equal(messages.rows[0].bytes, 512);
    assert_int_equal(messages.rows[1].bytes, 1048576);
    assert_int_equal(messages.rows[1].calls, 2);
    assert_int_equal(messages.rows[1].nanoseconds, 4 * MS);
    assert_int_equal(messages.waits, 2);
    zr_breakdown_messages(&messages, "", &text);
    assert_non_null(strstr(text.data, "messages of 2 steps"));
    assert_non_null(strstr(text.data, "reduce_scatter          1048576          2        4.000     "
                                      "  2.0000          2097152      0.524\n"));
    assert_non_null(strstr(text.data, "waited for other ranks 2 times, 2.000 ms\n"));
    zr_buffer_free(&text);
    zr_messages_free(&messages);
    zr_recorder_destroy(r);
}

static void test_messages_selected(void **state)
{
    static const char *const slots[] = {"wte", "h.0"};
    zr_recorder *r = records_step();
    zr_messages messages = {0};
    zr_buffer text = {0};
    assert_int_equal(zr_messages_add(&messages, r, 0, 1, 1u << ZERO_COMM_all_gather, NULL),
                     ZERO_OK);
    assert_int_equal(messages.count, 1);
    assert_int_equal(messages.rows[0].what, ZR_ACTIVITY_all_gather);
    zr_breakdown_message_list(r, 0, ALL & ~(1u << ZERO_COMM_all_gather), slots, 2, &text);
    assert_string_equal(text.data,
                        "reduce_scatter h.0: 1048576 bytes, 2.0000 ms, waited 1.0000 ms\n"
                        "all_reduce: 16 bytes, 1.0000 ms, waited 0.0000 ms\n");
    zr_buffer_free(&text);
    zr_messages_free(&messages);
    zr_recorder_destroy(r);
}

static void test_many_sizes(void **state)
{
    zr_messages messages = {0};
    for (int i = 0; i < 100; i++) {
        zr_recorder *r = records_new();
        records_put(r, ZR_ACTIVITY_broadcast, -1, i, i + 1)->bytes = i * 37 % 100;
        assert_int_equal(zr_messages_add(&messages, r, 0, 1, ALL, NULL), ZERO_OK);
        zr_recorder_destroy(r);
    }
    assert_int_equal(messages.count, 100);
    for (int i = 0; i < 100; i++)
        assert_true(messages.rows[i].bytes == i && messages.rows[i].calls == 1);
    zr_messages_free(&messages);
}

// What rank 0 of a pipeline says is of its stage; backward of weights is part of backward.
static void test_a_pipeline_stage_is_named(void **state)
{
    static const zero_memory none;
    static const char of[] = " of pipeline stage 0";
    zr_recorder *r = records_new();
    zr_buffer text = {0};
    zr_messages messages = {0};
    records_put(r, ZR_ACTIVITY_send, 1, 11, 12)->bytes = 4096;
    records_put(r, ZR_ACTIVITY_forward, -1, 10, 12)->slot = zr_record_action(0, 0);
    records_put(r, ZR_ACTIVITY_wait, 1, 12, 13);
    records_put(r, ZR_ACTIVITY_backward, -1, 12, 15)->slot = zr_record_action(0, 0);
    records_put(r, ZR_ACTIVITY_weight, -1, 15, 17)->slot = zr_record_action(0, 0);
    zr_step_times times = zr_step_times_of(r, 0);
    assert_int_equal(times.forward, 2000000);
    assert_int_equal(times.backward, 5000000);
    assert_int_equal(times.wait, 1000000);
    zr_breakdown_time(2, 2, of, &times, &text);
    zr_breakdown_memory(0, of, &none, 0, &text);
    assert_int_equal(zr_messages_add(&messages, r, 0, 1, 1u << ZERO_COMM_send, NULL), ZERO_OK);
    assert_int_equal(messages.count, 1);
    zr_breakdown_messages(&messages, of, &text);
    assert_non_null(strstr(text.data, "step 2 of pipeline stage 0: "));
    assert_non_null(strstr(text.data, "at start of pipeline stage 0, planned"));
    assert_non_null(strstr(text.data,
                           "messages of 1 steps of rank 0 of pipeline stage 0; bytes are "
                           "those fetched from other ranks or sent to pipeline stages,"));
    assert_non_null(strstr(text.data, "\nsend  "));
    zr_messages_free(&messages);
    zr_buffer_free(&text);
    zr_recorder_destroy(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_pipeline_stage_is_named),
        cmocka_unit_test(test_times),
        cmocka_unit_test(test_times_of_several_micro_batches),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_flops),
        cmocka_unit_test(test_flops_of_a_part),
        cmocka_unit_test(test_steps_recorded_together),
        cmocka_unit_test(test_flops_sums_alone),
        cmocka_unit_test(test_flops_recomputed),
        cmocka_unit_test(test_flops_without_memory),
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_messages_selected),
        cmocka_unit_test(test_many_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
