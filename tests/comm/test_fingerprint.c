// What the ranks have read is compared with what rank 0 has, and every rank learns which rank
// differs first, and in what.
#include "exercise.h"

#include "comm/agreement.h"

#include <stdio.h>
#include <string.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

enum { RANKS = 4, THINGS = 100 };

typedef struct oddity { // of one rank
    int rank;
    int thing;         // which has another hash
    int missing, more; // things
    int texts;         // things that are texts to it and weights to the others
} oddity;

static zero_status compare(zero_comm *comm, void *user, zero_error *error)
{
    const oddity *odd = user;
    bool own = comm->rank >= odd->rank;
    zr_fingerprints list = {0};
    for (int i = 0; i < THINGS - (own ? odd->missing : 0) + (own ? odd->more : 0); i++) {
        char name[300], value[32];
        snprintf(name, sizeof name, "%0*d.bin", i == 7 ? 280 : 3, i);
        snprintf(value, sizeof value, "%d tokens", own && i == odd->thing ? i + comm->rank : i);
        zr_fingerprints_add(&list, i < 50 + (own ? odd->texts : 0) ? "text" : "weights", name,
                            i == 60 ? "" : value, (uint64_t)i + (own && i == odd->thing));
    }
    return zr_comm_compare_fingerprints(comm, &list, error);
}

static void all_told(const oddity *odd, const char *words)
{
    rank_result results[RANKS];
    char told[32];
    run_threads(RANKS, 30, compare, (void *)odd, results);
    snprintf(told, sizeof told, "rank %d has another ", odd->rank);
    for (int r = 0; r < RANKS; r++)
        if (results[r].status != ZERO_ERR_USAGE || !strstr(results[r].error.message, told) ||
            !strstr(results[r].error.message, words))
            fail_msg("rank %d: status %d, \"%s\", not \"%s%s\"", r, results[r].status,
                     results[r].error.message, told, words);
}

static void who_has_the_same_goes_on(void **state)
{
    rank_result results[RANKS];
    for (int ranks = 1; ranks <= RANKS; ranks += 3) {
        run_threads(ranks, 30, compare, &(oddity){.rank = RANKS}, results);
        expect_all_ok(results, ranks);
    }
}

static void who_differs_is_named(void **state)
{
    all_told(&(oddity){.rank = 1, .thing = 3},
             "text than rank 0: \"003.bin\" (4 tokens), where rank 0 has \"003.bin\" (3 tokens)");
    all_told(&(oddity){.rank = 3, .thing = 60},
             "weights than rank 0: \"060.bin\", where rank 0 has \"060.bin\"");
    all_told(&(oddity){.rank = 2, .thing = 7}, "0007.bin\""); // the end of a long name
    all_told(&(oddity){.rank = 2, .thing = -1, .missing = 1},
             "weights than rank 0: nothing, where rank 0 has \"099.bin\" (99 tokens)");
    all_told(&(oddity){.rank = 2, .thing = -1, .more = 30},
             "weights than rank 0: \"100.bin\" (100 tokens), where rank 0 has nothing");
    all_told(&(oddity){.rank = 1, .thing = -1, .missing = THINGS}, "text than rank 0: nothing");
    all_told(&(oddity){.rank = 1, .thing = -1, .texts = 1},
             "text than rank 0: \"050.bin\" (50 tokens), where rank 0 has \"050.bin\" (50 tokens)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(who_has_the_same_goes_on),
                                       cmocka_unit_test(who_differs_is_named)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
