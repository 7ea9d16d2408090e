// A training with saves dies in, or fails because of, each of its system calls on files, on
// whichever rank and thread that happens. The next run continues and reaches the same bytes as a
// run that was not disturbed, and nothing is left over.
//
// The linker wraps the calls, so that the nth of them fails or ends the process.
#define _GNU_SOURCE
#include "../sanitizers.h"
#include "../wrapped_calls.h"
#include "base/file.h"
#include "train_ranks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS = 2, STEPS = 2, FAILED = 1, MOST_CALLS = 1000, STRIDE = UNDER_ASAN ? 9 : 5 };

WRAP(int, open64, (const char *path, int flags, mode_t mode), (path, flags, mode))
WRAP(ssize_t, write, (int fd, const void *data, size_t bytes), (fd, data, bytes))
WRAP(ssize_t, pwrite64, (int fd, const void *data, size_t bytes, off64_t offset),
     (fd, data, bytes, offset))
WRAP(int, fsync, (int fd), (fd))
WRAP(int, ftruncate64, (int fd, off64_t length), (fd, length))
WRAP(int, fallocate64, (int fd, int mode, off64_t offset, off64_t length),
     (fd, mode, offset, length))
WRAP(int, mkdir, (const char *path, mode_t mode), (path, mode))
WRAP(int, rename, (const char *from, const char *to), (from, to))
WRAP(int, renameat2, (int a, const char *from, int b, const char *to, unsigned flags),
     (a, from, b, to, flags))
WRAP(int, unlink, (const char *path), (path))
WRAP(int, unlinkat, (int at, const char *path, int flags), (at, path, flags))
WRAP(int, rmdir, (const char *path), (path))

static char directory[64], text[96];

// One run on threads of this process; faults begin with it. Portable: each of the many processes
// would wait for oneDNN to set itself up.
static zero_status train(const char *out, int in, int reason, zero_error *error)
{
    const char *data[] = {text};
    const zero_train_options options = {.struct_size = sizeof options,
                                        .new_spec = TINY_MODEL,
                                        .data = data,
                                        .data_count = 1,
                                        .val = "none",
                                        .tokenizer = "bytes",
                                        .out_dir = out,
                                        .steps = STEPS,
                                        .seed = 3,
                                        .threads = 1,
                                        .resume = 1,
                                        .save_every = 1,
                                        .keep = 1,
                                        .backend = "cpu:portable"};
    rank_job jobs[RANKS];
    fault.reason = reason;
    fault.in = in;
    train_ranks(RANKS, &options, jobs);
    fault.in = fault.in > 0 ? -1 : 0; // -1: it was not met
    *error = jobs[0].error;
    return jobs[0].status;
}

// As the process of a run ends: 0, FAILED or DIED; *met: whether the call came.
static int run(const char *out, int in, int reason, bool *met)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        zero_error error = {0};
        zero_status ended = train(out, in, reason, &error);
        _exit((fault.in ? 0 : 16) + (ended == ZERO_OK ? 0 : error.message[0] ? FAILED : 2));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status))
        fail_msg("call %d, %s: signal %d", in, reason ? strerror(reason) : "killed",
                 WTERMSIG(status));
    int code = WEXITSTATUS(status);
    *met = code == DIED || code >= 16;
    return code == DIED ? code : code & 15;
}

static char *model_of(const char *out, size_t *length)
{
    char path[200], *bytes;
    snprintf(path, sizeof path, "%s/model/model.safetensors", out);
    assert_int_equal(zr_file_read(path, SIZE_MAX / 2, &bytes, length, NULL), ZERO_OK);
    return bytes;
}

static int left_overs(const char *out)
{
    char command[300];
    snprintf(command, sizeof command, "test -z \"$(find %s -name '*.tmp*' -o -name '.step-*')\"",
             out);
    return system(command);
}

typedef struct trial {  // of one call that ends a run
    int in, reason;     // the call's number; 0: it is killed there, else the error that it returns
    const char *wanted; // weights of a run that nothing ended
    size_t length;
} trial;

static void fail_trial(const trial *t, const char *what)
{
    fail_msg("call %d, %s: %s", t->in, t->reason ? strerror(t->reason) : "killed", what);
}

// A run that has ended goes on to the weights of one that has not.
static void expect_same_end(const trial *t, const char *out)
{
    bool unused;
    size_t length;
    if (run(out, 0, 0, &unused) != 0)
        fail_trial(t, "does not go on");
    char *found = model_of(out, &length);
    if (length != t->length || memcmp(found, t->wanted, length))
        fail_trial(t, "other weights");
    if (left_overs(out))
        fail_trial(t, "something is left over");
    free(found);
}

static void try_call(const trial *t, const char *out, bool *met)
{
    assert_int_equal(zr_directory_remove(out, NULL), ZERO_OK);
    int ended = run(out, t->in, t->reason, met);
    if (ended != 0 && ended != (t->reason ? FAILED : DIED))
        fail_msg("call %d, %s: ended with %d", t->in, t->reason ? strerror(t->reason) : "killed",
                 ended);
    expect_same_end(t, out);
}

static void every_call(int reason)
{
    char whole[100], out[100];
    bool met = true;
    snprintf(whole, sizeof whole, "%s/whole", directory);
    snprintf(out, sizeof out, "%s/out", directory);
    assert_int_equal(run(whole, 0, 0, &met), 0);
    trial t = {.reason = reason};
    char *wanted = model_of(whole, &t.length);
    t.wanted = wanted;
    int met_calls = 0;
    met = true;
    // how threads meet differs from run to run, so the others have their turn too
    for (t.in = reason ? 2 : 1; met && t.in < MOST_CALLS; t.in += STRIDE) {
        try_call(&t, out, &met);
        met_calls += met;
    }
    assert_true(!met && met_calls > 10);
    free(wanted);
    zr_directory_remove(whole, NULL);
}

static void dies_in_each(void **state) { every_call(0); }
static void fails_in_each(void **state) { every_call(EIO); }

static int set_up(void **state)
{
    return make_text(access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", directory, text);
}

static int tear_down(void **state)
{
    return zr_directory_remove(directory, NULL) == ZERO_OK ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dies_in_each),
        cmocka_unit_test(fails_in_each),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
