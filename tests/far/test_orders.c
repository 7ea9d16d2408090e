// Each order that the list of a training has is needed: without one AFTER or FINISH, left out in
// turn, two rows meet, or the host touches what a row has to do with. Where another wait of the
// same waiter stands in for it, all of the waiter's from the same place are left out; and what is
// not needed even then is listed with its reason.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/numbers.h"
#include "far_places.h"
#include "far_training.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_GROUPS = 512 };

typedef struct listed {
    const char *place;
    const char *replaced;    // why others like it stand in for one; NULL: none do
    const char *superfluous; // why a list can do without all of a waiter's; NULL: none can
} listed;

static const listed places[] = {
    {"await_operation",
     "the comm thread's queue works in order, and an exchange that was started later is awaited "
     "before the first is used"},
    {"carry_out", "an exchange that was started before it has the same mark: nothing was submitted "
                  "between them"},
    {"end_late_operation",
     "the end of a later exchange is waited for before the peers write the operand again",
     "its operand is written once a step, and before that all ranks have come to the norm"},
    {"zr_far_clear_stores", NULL, "it brings the failure of the fills, which the queue orders"},
    {"zr_far_bring_loss",
     "tensor ranks exchange what comes after the loss, and their words say that this has ended"},
    {"await_copy", "nothing in the strip was asked for, so that the host does not look",
     "the same: of the rank nothing was"},
    {"take_strips", "as below",
     "the next portion comes down, and is waited for, before the host writes the strip"},
    {"zr_vector_broadcast 2", NULL, "the same: the vector is no longer than a strip"},
    {"end_queue", NULL, "all ranks have finished their last step; it is for those that fail"},
};

static struct {
    const far_row *rows;
    int count;
    int waits, alone, replaced; // of all lists; the waits that are needed, and those together
    bool *left_out;
    struct { // waits that are alike
        int first;
        bool needed;
    } groups[MOST_GROUPS];
    int group_count;
    bool used[ZR_COUNT(places)][2]; // replaced, superfluous
    const char *what;
    int wrong;
} test;

static bool is_like(const far_row *a, const far_row *b)
{
    return a->place == b->place && a->host == b->host && a->queue == b->queue && a->kind == b->kind;
}

static bool is_needed_with_its_like(int row)
{
    far_race race;
    for (int g = 0; g < test.group_count; g++)
        if (is_like(&test.rows[test.groups[g].first], &test.rows[row]))
            return test.groups[g].needed;
    assert_true(test.group_count < MOST_GROUPS);
    for (int i = 0; i < test.count; i++)
        test.left_out[i] = is_like(&test.rows[i], &test.rows[row]);
    bool needed = far_races_without(test.rows, test.count, test.left_out, &race);
    test.groups[test.group_count].first = row;
    test.groups[test.group_count++].needed = needed;
    return needed;
}

static void look_up(const char *place, bool superfluous)
{
    for (int i = 0; i < ZR_COUNT(places); i++) {
        if (strcmp(places[i].place, place) != 0)
            continue;
        test.used[i][superfluous] = true;
        if (superfluous ? places[i].superfluous : places[i].replaced)
            return;
    }
    print_error("%s: a wait of %s is %s, and that is not on the list\n", test.what, place,
                superfluous ? "superfluous" : "replaced by others like it");
    test.wrong++;
}

static void told(void *user, int row, const far_race *race)
{
    test.waits++;
    if (race) {
        test.alone++;
        return;
    }
    bool needed = is_needed_with_its_like(row);
    test.replaced += needed;
    look_up(far_place_name(test.rows[row].place), !needed);
}

static void thin(const far_case *c, int stage, int ranks)
{
    static harness_result got;
    harness_case run = far_case_at(c, stage, ranks);
    far_race race;
    run.backend = "far";
    far_begin(&(far_options){
        .order = FAR_LAZY, .keeps_rows = true, .keeps_touches = true, .place = far_place_now});
    harness_run(&run, &got);
    test.rows = far_rows(&test.count);
    test.what = c->name;
    test.group_count = 0;
    assert_false(far_races(test.rows, test.count, &race));
    test.left_out = calloc((size_t)test.count, sizeof *test.left_out);
    assert_non_null(test.left_out);
    far_thin(test.rows, test.count, told, NULL);
    free(test.left_out);
    far_end(NULL);
}

static bool runs_all;

static void thin_plain_cases(int ranks)
{
    for (int i = 0; i < far_plain_case_count; i++)
        for (int stage = 0; stage <= 3; stage++)
            if (runs_all || stage == (ranks == 1 ? i % 4 : 3 * (i % 2)))
                thin(&far_plain_cases[i], stage, ranks);
}

static void thin_other_cases(void)
{
    for (int i = 0; i < far_other_case_count; i++)
        for (int stage = 1; stage <= 3; stage += 2)
            if (runs_all || (stage == 1 + 2 * (i % 2) && i % 3 == 1))
                thin(&far_other_cases[i], stage, 0);
}

static void each_order_is_needed_or_listed(void **state)
{
    thin_plain_cases(1);
    thin_plain_cases(2);
    thin_other_cases();
    print_message("%d waits: %d needed, %d with others like it\n", test.waits, test.alone,
                  test.replaced);
    assert_int_equal(test.wrong, 0);
    assert_true(10 * (test.alone + test.replaced) >= 9 * test.waits);
    for (int i = 0; i < ZR_COUNT(places) && runs_all; i++)
        if ((places[i].replaced && !test.used[i][0]) || (places[i].superfluous && !test.used[i][1]))
            fail_msg("no list has what is listed of %s", places[i].place);
}

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_order_is_needed_or_listed)};
    runs_all = far_runs_all(count, arguments);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
