// The judge, of a small model: what cannot be planned is refused, and where kernels cannot be
// timed, a candidate keeps what is guessed of it.
#define _GNU_SOURCE
#include "base/file.h"
#include "tune/tuning_judge.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct judging {
    zero_tune_options options;
    zr_tuning_file file;
    zr_tuning_settings settings;
    zr_model_choice subject;
    zr_tuning_asked asked;
    zr_tuning_judge judge;
} judging;

// The book of rates is empty, so that everything is a guess.
static void begin(judging *j, const char *config)
{
    static const zr_tuning_flags none = {0};
    zero_error error = {0};
    char path[] = "/tmp/test-judge-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, config, strlen(config)), strlen(config));
    close(fd);
    *j = (judging){.options = {.new_spec = "gpt2:layers=1,heads=2,width=32,context=16,vocab=64"}};
    assert_int_equal(zr_tuning_file_read(path, &none, &j->file, &error), ZERO_OK);
    unlink(path);
    assert_int_equal(zr_tuning_settings_read(&j->file, NULL, &j->settings, &error), ZERO_OK);
    const zr_subject_question question = {.new_spec = j->options.new_spec};
    assert_int_equal(zr_model_choice_read(&question, &j->subject, &error), ZERO_OK);
    j->asked = (zr_tuning_asked){.options = &j->options,
                                 .file = &j->file,
                                 .settings = &j->settings,
                                 .subject = &j->subject,
                                 .cores = 1};
    zr_tuning_judge_open(&j->asked, &j->judge);
    j->judge.until = INFINITY;
}

static void end(judging *j)
{
    zr_tuning_judge_close(&j->judge);
    zr_model_choice_free(&j->subject);
    zr_tuning_file_free(&j->file);
}

static zr_run_candidate candidate(void)
{
    return (zr_run_candidate){.ranks = 1,
                              .threads = 1,
                              .tensor = 1,
                              .stages = 1,
                              .chunks = 1,
                              .micro_batch = 2,
                              .accumulation = 1};
}

static void test_timing_that_fails_leaves_a_guess(void **state)
{
    judging j;
    zr_run_candidate c = candidate();
    begin(&j, "{\"libzero\": {\"nvme_path\": \"/proc/nowhere\"}}");
    c.stage = 1;
    c.optimizer = ZERO_TIER_nvme;
    j.judge.measuring = 10;
    assert_int_equal(zr_tuning_judge_one(&j.judge, &c, NULL), ZERO_OK);
    if (c.state != ZR_CANDIDATE_FITS)
        fail_msg("%s", c.why);
    assert_true(c.step.seconds > 0 && c.memory > 0 && c.tokens == 32);
    assert_true(j.judge.measuring == 0 && j.judge.measured == 0);
    end(&j);
}

static void test_what_cannot_be_planned_is_refused(void **state)
{
    judging j;
    zr_run_candidate c = candidate();
    begin(&j, "{}");
    c.ranks = c.tensor = 3; // of two heads
    assert_int_equal(zr_tuning_judge_one(&j.judge, &c, NULL), ZERO_OK);
    assert_int_equal(c.state, ZR_CANDIDATE_REFUSED);
    assert_true(c.why[0]);
    end(&j);
}

// A run is refused whose units cannot be divided within the budget, whatever lies on which tier.
static void test_what_cannot_be_divided_does_not_fit(void **state)
{
    static const int64_t budgets[] = {440000, 600000}; // of which a stage needs 471 kB
    for (int i = 0; i < ZR_COUNT(budgets); i++) {
        char config[128];
        judging j;
        zr_run_candidate c = candidate();
        snprintf(config, sizeof config, "{\"libzero\": {\"device_memory\": %lld}}",
                 (long long)budgets[i]);
        begin(&j, config);
        c.ranks = c.stages = 2;
        c.stage = 1;
        c.optimizer = ZERO_TIER_host;
        assert_int_equal(zr_tuning_judge_one(&j.judge, &c, NULL), ZERO_OK);
        assert_int_equal(c.state, i ? ZR_CANDIDATE_FITS : ZR_CANDIDATE_TOO_LARGE);
        assert_true(i || strstr(c.why, "dividing 3 units among 2 pipeline stages"));
        end(&j);
    }
}

static void test_a_signal_ends_the_search(void **state)
{
    judging j;
    zr_run_candidate c = candidate();
    const volatile int stop = SIGINT;
    begin(&j, "{}");
    j.options.stop = &stop;
    assert_int_equal(zr_tuning_judge_one(&j.judge, &c, NULL), ZERO_ERR_CANCELLED);
    assert_int_equal(c.state, ZR_CANDIDATE_UNJUDGED);
    end(&j);
}

static char cache[] = "/tmp/test-judge-cache-XXXXXX";

static int make_cache(void **state)
{
    return !mkdtemp(cache) || setenv("XDG_CACHE_HOME", cache, 1) != 0;
}

static int remove_cache(void **state) { return zr_directory_remove(cache, NULL) != ZERO_OK; }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_timing_that_fails_leaves_a_guess),
        cmocka_unit_test(test_what_cannot_be_planned_is_refused),
        cmocka_unit_test(test_what_cannot_be_divided_does_not_fit),
        cmocka_unit_test(test_a_signal_ends_the_search),
    };
    return cmocka_run_group_tests(tests, make_cache, remove_cache);
}
