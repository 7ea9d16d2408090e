// Members that work together: each operation gets one sample with the usual time, and a failure of
// one member ends the task for all, without anybody waiting for it.
#include "predict/concurrent_timing.h"

#include "compute/compute.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

enum { MEMBERS = 3, BYTES = 4096 };

typedef struct task { // which member fails, where; -1: none
    int fails_open, fails_round;
    int opened[MEMBERS], rounds[MEMBERS], closed[MEMBERS];
} task;

typedef struct state {
    task *task;
    const zr_member *member;
} state;

static zero_status open_task(const void *of, const zr_member *member, void **out, zero_error *error)
{
    static state states[MEMBERS];
    state *s = &states[member->number];
    *s = (state){(task *)of, member};
    if (s->task->fails_open == member->number)
        return zr_fail(error, ZERO_ERR_LIMIT, "member %d cannot begin", member->number);
    s->task->opened[member->number]++;
    *out = s;
    return ZERO_OK;
}

static zero_status run_round(void *opened, zero_error *error)
{
    state *s = opened;
    const zr_member *m = s->member;
    if (s->task->fails_round == m->number && s->task->rounds[m->number] == 1)
        return zr_fail(error, ZERO_ERR_DATA, "member %d cannot go on", m->number);
    s->task->rounds[m->number]++;
    // A member that counts has no memory; who touches the first page ends.
    void *at = m->counts ? (void *)(uintptr_t)64 : m->memory;
    zr_run(m->queue, zr_op_fill(&(zr_bytes){BYTES}, at));
    zr_run(m->queue, zr_op_fill(&(zr_bytes){BYTES / 2}, at));
    return ZERO_OK;
}

static void close_task(void *opened)
{
    state *s = opened;
    s->task->closed[s->member->number]++;
}

static const zr_common_work work = {.open = open_task, .round = run_round, .close = close_task};
static const zr_members members = {
    .backend = "ref", .count = MEMBERS, .threads = 1, .bytes = BYTES};

static zero_status run(task *of, zr_rates *rates, zero_error *error)
{
    const zr_common_task tasks[] = {{.work = &work, .task = of, .seconds = 10}};
    return zr_concurrent_run(&members, tasks, 1, rates, error);
}

static void each_operation_has_one_sample(void **state)
{
    static zr_rates rates;
    task t = {.fails_open = -1, .fails_round = -1};
    zero_error error = {0};
    assert_int_equal(run(&t, &rates, &error), ZERO_OK);
    assert_int_equal(rates.count[ZR_ACTIVITY_element], 2);
    for (int i = 0; i < 2; i++) {
        const zr_rate_sample *s = &rates.at[ZR_ACTIVITY_element][i];
        assert_true(s->seconds > 0 && s->seconds < 1);
        // The first round does not count where there is time for more.
        assert_int_equal(s->seen, MEMBERS * (t.rounds[0] - 1));
    }
    for (int m = 0; m < MEMBERS; m++)
        assert_true(t.rounds[m] == t.rounds[0] && t.opened[m] == 1 && t.closed[m] == 1);
    assert_int_equal(rates.count[ZR_ACTIVITY_all_reduce], 0); // how members agree is none of it
}

static void what_takes_long_runs_once(void **state)
{
    static zr_rates rates;
    task t = {.fails_open = -1, .fails_round = -1};
    const zr_common_task tasks[] = {{.work = &work, .task = &t, .seconds = 0}};
    zero_error error = {0};
    assert_int_equal(zr_concurrent_run(&members, tasks, 1, &rates, &error), ZERO_OK);
    assert_int_equal(t.rounds[0], 1);
    assert_int_equal(rates.at[ZR_ACTIVITY_element][0].seen, MEMBERS);
}

static void a_failure_ends_it_for_all(void **state)
{
    static zr_rates rates;
    zero_error error = {0};
    task begins = {.fails_open = 1, .fails_round = -1};
    assert_int_equal(run(&begins, &rates, &error), ZERO_ERR_LIMIT);
    assert_non_null(strstr(error.message, "member 1 cannot begin"));
    assert_true(begins.opened[0] == begins.closed[0] && begins.closed[1] == 0);
    task goes_on = {.fails_open = -1, .fails_round = 2};
    assert_int_equal(run(&goes_on, &rates, &error), ZERO_ERR_DATA);
    assert_non_null(strstr(error.message, "member 2 cannot go on"));
    assert_true(goes_on.closed[0] == 1 && goes_on.closed[2] == 1);
    assert_int_equal(rates.count[ZR_ACTIVITY_element], 0);
}

static void counting_touches_no_memory(void **state)
{
    task t = {.fails_open = -1, .fails_round = -1};
    const zr_common_task one = {.work = &work, .task = &t};
    zr_recorder *recorder;
    zero_error error = {0};
    assert_int_equal(zr_recorder_create(8, &recorder, &error), ZERO_OK);
    assert_int_equal(zr_concurrent_count(&members, &one, recorder, &error), ZERO_OK);
    assert_int_equal(recorder->count, 2);
    assert_int_equal(recorder->records[0].bytes, BYTES);
    assert_int_equal(t.closed[0], 1);
    t.fails_open = 0;
    assert_int_equal(zr_concurrent_count(&members, &one, recorder, &error), ZERO_ERR_LIMIT);
    zr_recorder_destroy(recorder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_operation_has_one_sample),
        cmocka_unit_test(what_takes_long_runs_once),
        cmocka_unit_test(a_failure_ends_it_for_all),
        cmocka_unit_test(counting_touches_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
