// The trainings of test_training.c in the random orders of ten seeds: each with each seed, at one
// stage on one number of ranks; or, of all, at each.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/numbers.h"
#include "far_training.h"

#include <stdio.h>

enum { SEEDS = 10, FIRST = 3 }; // test_training.c has those before

static bool runs_all;
static int runs;

typedef struct place { // in the matrix
    int number, stage, ranks;
} place;

// Whether the sample has it. The shift makes a seed meet all stages and ranks.
static bool is_sampled(const place *at, int seed, int stages, int ranks)
{
    int shifted = at->number + seed;
    return at->stage == shifted % stages && at->ranks == shifted / stages % ranks;
}

static void check_seeds(const far_case *c, const place *at, int stages, int ranks)
{
    static harness_result want;
    const harness_case run = far_case_at(c, stages == 2 ? 1 + 2 * at->stage : at->stage,
                                         ranks == 1 ? 0 : 1 << at->ranks);
    bool known = false;
    for (int seed = 0; seed < SEEDS; seed++) {
        char what[160];
        if (!runs_all && !is_sampled(at, seed, stages, ranks))
            continue;
        if (!known)
            harness_run(&run, &want);
        known = true;
        snprintf(what, sizeof what, "%s, stage %d, %d ranks, seed %d", c->name, run.stage,
                 run.ranks, FIRST + seed);
        const far_options options = {
            .order = FAR_RANDOM, .seed = (uint64_t)(FIRST + seed), .keeps_rows = true};
        far_train(&run, &options, &want, what);
        runs++;
    }
}

static void check_cases(const far_case *cases, int count, int stages, int ranks)
{
    place at;
    for (at.number = 0; at.number < count; at.number++)
        for (at.stage = 0; at.stage < stages; at.stage++)
            for (at.ranks = 0; at.ranks < ranks; at.ranks++)
                check_seeds(&cases[at.number], &at, stages, ranks);
}

static void each_seed_has_the_bits_of_ref(void **state)
{
    enum { STAGES = 4, RANKS = 3, OTHER_STAGES = 2 }; // 1, 2 and 4 ranks
    check_cases(far_plain_cases, far_plain_case_count, STAGES, RANKS);
    check_cases(far_other_cases, far_other_case_count, OTHER_STAGES, 1);
    // Each case meets each seed.
    assert_true(runs >= SEEDS * (far_plain_case_count + far_other_case_count));
    print_message("%d runs\n", runs);
}

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_seed_has_the_bits_of_ref)};
    runs_all = far_runs_all(count, arguments);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
