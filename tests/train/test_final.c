// The end of a training with a full disk: its result is not lost, and a message says what cannot be
// written.
//
// The linker wraps the calls that name files and that ask for free space, so that the chosen ones
// fail.
#define _GNU_SOURCE
#include "base/alloc.h"
#include "base/file.h"
#include "checkpoint/receipt.h"
#include "train_ranks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

static char directory[64], text[96], out[96];
static const char *full_for[2]; // names that no file gets, NULL: none
static bool every_second;       // of the files that get the first of these names
static int count_of_those;
static int64_t room; // bytes that the disk has free; 0: as many as it has

int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to)
{
    for (int i = 0; i < 2; i++)
        if (full_for[i] && strstr(to, full_for[i]) && (!every_second || (count_of_those++ & 1))) {
            errno = ENOSPC;
            return -1;
        }
    return __real_rename(from, to);
}

int __real_renameat2(int a, const char *from, int b, const char *to, unsigned flags);
int __wrap_renameat2(int a, const char *from, int b, const char *to, unsigned flags);
int __wrap_renameat2(int a, const char *from, int b, const char *to, unsigned flags)
{
    if (full_for[1] && strstr(to, full_for[1])) {
        errno = ENOSPC;
        return -1;
    }
    return __real_renameat2(a, from, b, to, flags);
}

int __real_statvfs64(const char *path, struct statvfs *info);
int __wrap_statvfs64(const char *path, struct statvfs *info);
int __wrap_statvfs64(const char *path, struct statvfs *info)
{
    int result = __real_statvfs64(path, info);
    if (room) {
        info->f_bavail = (fsblkcnt_t)room;
        info->f_frsize = 1;
    }
    return result;
}

// of rank 0
typedef struct said {
    char lines[8192];
} said;

static void keep_line(void *user, zero_log_level level, const char *message)
{
    said *s = user;
    size_t length = strlen(s->lines);
    if (level <= ZERO_LOG_WARNING)
        snprintf(s->lines + length, sizeof s->lines - length, "%s\n", message);
}

static int clear_best(void *user, const zero_event *event)
{
    if (event->kind == ZERO_EVENT_STEP && event->step == 6)
        full_for[0] = NULL; // there is room again
    return 0;
}

static int lose_receipts(void *user, const zero_event *event)
{
    if (event->kind == ZERO_EVENT_STEP && event->step == 3)
        full_for[0] = "best/receipt.json"; // the whole one: the one that is begun has room
    return 0;
}

static zero_train_options usual_options(said *s)
{
    static const char *data[1];
    data[0] = text;
    *s = (said){0};
    return (zero_train_options){.struct_size = sizeof(zero_train_options),
                                .new_spec = TINY_MODEL,
                                .data = data,
                                .data_count = 1,
                                .out_dir = out,
                                .steps = 8,
                                .seed = 3,
                                .threads = 1,
                                .eval_every = 1,
                                .lr = 1e-2,
                                .overwrite = 1,
                                .keep = 2,
                                .logger = {.write = keep_line, .user = s}};
}

static bool lies(const char *name) { return zr_path_has(out, name); }

static int count(const char *lines, const char *part)
{
    int found = 0;
    for (const char *at = lines; (at = strstr(at, part)); at++)
        found++;
    return found;
}

static void best_that_cannot_be_written_is_told_once(void **state)
{
    char best[128];
    json_t *receipt;
    said s;
    rank_job jobs[MOST_RANKS];
    zero_train_options options = usual_options(&s);
    full_for[0] = "best/model.safetensors";
    train_ranks(2, &options, jobs);
    for (int r = 0; r < 2; r++)
        assert_int_equal(jobs[r].status, ZERO_OK);
    assert_int_equal(count(s.lines, "the best model so far is not written, the run goes on: "), 1);
    assert_non_null(strstr(s.lines, "No space left on device"));
    assert_true(lies("model/model.safetensors") && !lies("best/model.safetensors"));
    // where it has room again, it is written, whatever would have been best before
    options = usual_options(&s);
    options.progress = clear_best;
    options.lr = 3; // no step after the first comes to a loss as low as that one's
    full_for[0] = "best/model.safetensors";
    train_ranks(2, &options, jobs);
    assert_int_equal(jobs[0].status, ZERO_OK);
    assert_true(lies("best/model.safetensors") && lies("best/receipt.json"));
    options = usual_options(&s); // a receipt of other weights would call these damaged
    options.progress = lose_receipts;
    every_second = true;
    train_ranks(2, &options, jobs);
    every_second = false;
    full_for[0] = NULL;
    assert_int_equal(jobs[0].status, ZERO_OK);
    assert_true(count_of_those > 1 && lies("best/model.safetensors") && lies("best/receipt.json"));
    snprintf(best, sizeof best, "%s/best", out);
    assert_int_equal(zr_receipt_check(best, &receipt, NULL), ZERO_OK);
    assert_null(receipt);
}

static void a_model_that_cannot_be_written_is_in_a_checkpoint(void **state)
{
    said s;
    rank_job jobs[MOST_RANKS];
    for (int without = 0; without < 2; without++) {
        zero_train_options options = usual_options(&s);
        options.no_final_checkpoint = without;
        full_for[0] = "/model/model.safetensors";
        train_ranks(2, &options, jobs);
        for (int r = 0; r < 2; r++)
            assert_int_equal(jobs[r].status, ZERO_ERR_IO);
        assert_non_null(strstr(jobs[0].error.message, "/checkpoints/step-00000008\" holds it"));
        assert_non_null(strstr(jobs[0].error.message, "--resume"));
        assert_true(!lies("model/model.safetensors") &&
                    lies("checkpoints/step-00000008/manifest.json"));
        full_for[0] = NULL;
        options.overwrite = 0;
        options.resume = 1;
        train_ranks(2, &options, jobs);
        assert_int_equal(jobs[0].status, ZERO_OK);
        assert_true(lies("model/model.safetensors"));
    }
    zero_train_options options = usual_options(&s); // nor a checkpoint
    full_for[0] = "/model/model.safetensors";
    full_for[1] = "step-00000008";
    train_ranks(2, &options, jobs);
    full_for[0] = full_for[1] = NULL;
    assert_int_equal(jobs[0].status, ZERO_ERR_IO);
    assert_non_null(strstr(jobs[0].error.message, "neither its model nor a checkpoint"));
    assert_int_equal(count(s.lines, "step 8 was not saved"), 1); // nor tried again
}

static void a_disk_without_room_gets_no_last_checkpoint(void **state)
{
    // the weights and both moments of TINY_MODEL's parameters in fp32
    const int64_t twice = 2 * 3 * 4 * 7664;
    said s;
    rank_job jobs[MOST_RANKS];
    zero_train_options options = usual_options(&s);
    room = twice - 1;
    train_ranks(2, &options, jobs);
    assert_int_equal(jobs[0].status, ZERO_OK);
    assert_non_null(strstr(s.lines, "no checkpoint is written at the end: it takes "));
    assert_non_null(strstr(s.lines, " free, less than twice that"));
    assert_true(!lies("checkpoints") && lies("model/model.safetensors"));
    options = usual_options(&s);
    options.save_every = 4; // asked for: tried
    train_ranks(2, &options, jobs);
    assert_int_equal(jobs[0].status, ZERO_OK);
    assert_true(!s.lines[0] && lies("checkpoints/step-00000008/manifest.json"));
    options = usual_options(&s);
    room = twice;
    train_ranks(2, &options, jobs);
    room = 0;
    assert_int_equal(jobs[0].status, ZERO_OK);
    assert_true(!s.lines[0] && lies("checkpoints/step-00000008/manifest.json"));
}

static int set_up(void **state)
{
    int failed = make_text("/tmp", directory, text);
    snprintf(out, sizeof out, "%s/run", directory);
    return failed;
}

static int tear_down(void **state) { return zr_directory_remove(directory, NULL) != ZERO_OK; }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(best_that_cannot_be_written_is_told_once),
        cmocka_unit_test(a_model_that_cannot_be_written_is_in_a_checkpoint),
        cmocka_unit_test(a_disk_without_room_gets_no_last_checkpoint),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
