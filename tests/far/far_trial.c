#define _GNU_SOURCE
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "far_trial.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_RANKS = 16, SECONDS = 60 };

const char *far_outcome_name(far_outcome outcome)
{
    static const char *const names[] = {[FAR_SAME] = "nothing is seen",
                                        [FAR_TOUCH_MESSAGE] = "a touch",
                                        [FAR_RANK_FAILED] = "a rank fails",
                                        [FAR_VIOLATION] = "a violation",
                                        [FAR_RACE] = "a race",
                                        [FAR_OTHER_BITS] = "other bits",
                                        [FAR_ENDED] = "it ends otherwise"};
    return names[outcome];
}

static bool a_rank_failed(const harness_failure *ranks)
{
    for (int r = 0; r < MOST_RANKS; r++)
        if (ranks[r].status != ZERO_OK) {
            fprintf(stderr, "rank %d: %s\n", r, ranks[r].error.message);
            return true;
        }
    return false;
}

static bool a_row_races(void)
{
    int count;
    far_race race;
    char text[200];
    const far_row *rows = far_rows(&count);
    if (!far_races(rows, count, &race))
        return false;
    far_race_write(rows, &race, text, sizeof text);
    fprintf(stderr, "%s\n", text);
    return true;
}

static far_outcome train(const harness_case *c, const far_options *options,
                         const harness_result *want)
{
    static harness_result got;
    harness_failure ranks[MOST_RANKS] = {{0}};
    far_report report;
    harness_case run = *c;
    run.backend = "far";
    far_begin(options);
    harness_try(&run, &got, ranks);
    bool races = a_row_races();
    far_end(&report);
    if (a_rank_failed(ranks))
        return FAR_RANK_FAILED;
    if (report.violations) {
        fprintf(stderr, "%s\n", report.first);
        return FAR_VIOLATION;
    }
    if (races)
        return FAR_RACE;
    bool other = want && (!harness_equal(&got, want) || got.evaluated != want->evaluated);
    return other ? FAR_OTHER_BITS : FAR_SAME;
}

static far_outcome outcome_of(int status)
{
    if (!WIFEXITED(status) ||
        (WEXITSTATUS(status) > FAR_OTHER_BITS && WEXITSTATUS(status) != FAR_TOUCHED))
        return FAR_ENDED;
    return WEXITSTATUS(status) == FAR_TOUCHED ? FAR_TOUCH_MESSAGE
                                              : (far_outcome)WEXITSTATUS(status);
}

void far_try(const harness_case *c, const far_options *options, const harness_result *want,
             far_trial *out)
{
    int ends[2], status = 0;
    size_t count = 0;
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        signal(SIGSEGV, SIG_DFL); // in place of cmocka's
        alarm(SECONDS);
        _exit(train(c, options, want));
    }
    close(ends[1]);
    for (ssize_t n = 1; n > 0 && count < sizeof out->said - 1; count += (size_t)ZR_MAX(n, 0))
        n = read(ends[0], out->said + count, sizeof out->said - 1 - count);
    out->said[count] = 0;
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    out->outcome = outcome_of(status);
}
