// Each place in src/ that waits for a mark, or for a word of another rank, is needed: without it,
// left out wherever a training comes to it, bits change, rows race, the host touches what it must
// not, or a rank fails; or the place is listed with its reason. A place that nobody has listed
// is tried, too.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/numbers.h"
#include "far_places.h"
#include "far_trial.h"

#include <string.h>

enum { MOST_PLACES = 256 };

typedef struct listed {
    const char *place, *because;
} listed;

// Trainings do without these.
static const listed superfluous[] = {
    {"zr_far_clear_stores", "it brings the failure of the fills, which the queue orders"},
    {"await_published", "a gather awaits the seal of what it reads, which comes after its mark"},
    {"await_released",
     "all ranks came to the scalars after their last micro-batch, which releases"},
    {"zr_vector_broadcast 2",
     "the vector is no longer than a strip, which others bring down first"},
    {"zr_far_states_settle", "between steps nothing is under way that reads what is on the host"},
    {"end_queue", "all ranks have finished their last step; it is for those that fail"},
};

static const far_options orders[] = {
    {.order = FAR_LAZY}, {.order = FAR_RANDOM, .seed = 1}, {.order = FAR_EAGER}};

static const far_case offloaded = {
    "states on the host",
    {.accumulation = 2,
     .precision = "\"bf16\": {\"enabled\": true}",
     .tiers = "\"offload_optimizer\": {\"device\": \"cpu\"}, \"sub_group_size\": 3000"}};
static const far_case pipelined = {"pipeline stages", {.accumulation = 4, .stages = 2}};

static const struct {
    const far_case *of;
    int stage, ranks;
} cases[] = {
    {&far_plain_cases[2], 0, 1}, {&far_plain_cases[1], 0, 2}, {&far_plain_cases[1], 3, 2},
    {&far_plain_cases[2], 3, 2}, {&far_plain_cases[3], 1, 2}, {&far_plain_cases[4], 0, 2},
    {&offloaded, 2, 1},          {&pipelined, 1, 1},          {&far_other_cases[1], 1, 0},
    {&far_other_cases[3], 3, 0}, {&far_other_cases[4], 3, 0},
};

static struct {
    bool occurs[MOST_PLACES][ZR_COUNT(cases)];
    harness_result want[ZR_COUNT(cases)];
    int wrong;
} test;

static harness_case case_of(int i)
{
    return far_case_at(cases[i].of, cases[i].stage, cases[i].ranks);
}

static void find_places(int i)
{
    int count;
    harness_case run = case_of(i);
    static harness_result got;
    harness_run(&run, &test.want[i]);
    run.backend = "far";
    far_begin(&(far_options){.order = FAR_LAZY, .keeps_rows = true, .place = far_place_now});
    harness_run(&run, &got);
    const far_row *rows = far_rows(&count);
    for (int r = 0; r < count; r++)
        if (rows[r].place)
            test.occurs[rows[r].place][i] = true;
    far_end(NULL);
}

static far_outcome leave_out(int place, int i)
{
    static far_trial trial;
    const harness_case run = case_of(i);
    trial.outcome = FAR_SAME;
    for (int o = 0; o < ZR_COUNT(orders) && trial.outcome == FAR_SAME; o++) {
        far_options options = orders[o];
        options.keeps_rows = true;
        options.place = far_place_now;
        options.left_out = place;
        far_try(&run, &options, &test.want[i], &trial);
    }
    if (trial.outcome != FAR_SAME)
        print_message("%s: %s: %.*s\n", far_place_name(place), far_outcome_name(trial.outcome),
                      (int)strcspn(trial.said, "\n"), trial.said);
    return trial.outcome;
}

static const char *reason_of(int place)
{
    for (int i = 0; i < ZR_COUNT(superfluous); i++)
        if (strcmp(superfluous[i].place, far_place_name(place)) == 0)
            return superfluous[i].because;
    return NULL;
}

static void check_place(int place)
{
    far_outcome outcome = FAR_SAME;
    for (int i = 0; i < ZR_COUNT(cases) && outcome == FAR_SAME; i++)
        if (test.occurs[place][i])
            outcome = leave_out(place, i);
    if ((outcome == FAR_SAME) == (reason_of(place) != NULL))
        return;
    print_error("%s: without it %s, and it is %s the list\n", far_place_name(place),
                far_outcome_name(outcome), outcome == FAR_SAME ? "not on" : "on");
    test.wrong++;
}

static void each_place_is_needed_or_listed(void **state)
{
    for (int i = 0; i < ZR_COUNT(cases); i++)
        find_places(i);
    assert_in_range(far_place_count(), 10, MOST_PLACES - 1);
    for (int place = 1; place <= far_place_count(); place++)
        check_place(place);
    assert_int_equal(test.wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_place_is_needed_or_listed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
