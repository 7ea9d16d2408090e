// Ranks as processes: this program starts itself, as `zero run` and as a foreign launcher would,
// and checks how each rank ends when one of them is killed, stopped, gives up or leaves.
#define _GNU_SOURCE
#include "exercise.h"
#include "comm_grid.h"
#include "scenarios.h"

#include "base/clock.h"
#include "comm/local.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#define MAX_RANKS 8

typedef struct child {
    pid_t pid;
    int output; // read end
    int wait_status;
    bool ended;
    char text[2048];
} child;

typedef struct job {
    zr_local_host host; // control NULL: no parent of ours supervises
    int ranks;
    int input; // write end of the children's standard input
    child children[MAX_RANKS];
} job;

static char *program;

static void start_child(job *job, int rank, char *scenario, char *timeout, int input)
{
    child *child = &job->children[rank];
    int pipes[2];
    posix_spawn_file_actions_t actions;
    char own[6][64],
        *variables[] = {own[0],
                        own[1],
                        own[2],
                        own[3],
                        own[4],
                        own[5],
                        getenv("ASAN_OPTIONS") ? getenv("ASAN_OPTIONS") - strlen("ASAN_OPTIONS=")
                                               : NULL,
                        NULL};
    char *arguments[] = {program, "child", scenario, timeout, NULL};
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    snprintf(own[0], sizeof own[0], "RANK=%d", rank);
    snprintf(own[1], sizeof own[1], "WORLD_SIZE=%d", job->ranks);
    snprintf(own[2], sizeof own[2], "MASTER_PORT=%d", getpid()); // names the job
    snprintf(own[3], sizeof own[3], "OMP_NUM_THREADS=1");
    snprintf(own[4], sizeof own[4], "LOCAL_RANK=%d", rank);
    if (job->host.control)
        snprintf(own[5], sizeof own[5], "%s=%d", ZR_MEMFD_VARIABLE, job->host.memfd);
    else
        snprintf(own[5], sizeof own[5], "LOCAL_WORLD_SIZE=%d", job->ranks);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, pipes[1], STDOUT_FILENO);
    if (job->host.control)
        posix_spawn_file_actions_adddup2(&actions, job->host.memfd, job->host.memfd);
    assert_int_equal(posix_spawn(&child->pid, program, &actions, NULL, arguments, variables), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(pipes[1]);
    child->output = pipes[0];
}

static void start_ranks(job *job, int ranks, int missing, bool supervised, char *scenario,
                        char *timeout)
{
    int input[2];
    zero_error error;
    *job = (struct job){.ranks = ranks, .host.memfd = -1};
    if (supervised && zr_local_host_create(ranks, &job->host, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    assert_int_equal(pipe2(input, O_CLOEXEC), 0);
    for (int r = 0; r < ranks; r++)
        if (r != missing)
            start_child(job, r, scenario, timeout, input[0]);
    close(input[0]);
    job->input = input[1];
    if (missing >= 0)
        job->children[missing].ended = true;
}

static void start_job(job *job, int ranks, bool supervised, char *scenario, char *timeout)
{
    start_ranks(job, ranks, -1, supervised, scenario, timeout);
}

static void collect(job *job, int rank)
{
    child *child = &job->children[rank];
    size_t length = strlen(child->text);
    ssize_t got;
    while ((got = read(child->output, child->text + length, sizeof child->text - 1 - length)) > 0)
        length += (size_t)got;
    close(child->output);
    child->ended = true;
    if (job->host.control)
        zr_local_host_note_death(&job->host, rank, child->wait_status);
}

// Waits until `expected` children have ended, at most 20 s; the rest is killed.
static void wait_for(job *job, int expected)
{
    int ended = 0;
    for (int i = 0; i < 4000 && ended < expected; i++) {
        ended = 0;
        for (int r = 0; r < job->ranks; r++) {
            child *child = &job->children[r];
            if (!child->ended && waitpid(child->pid, &child->wait_status, WNOHANG) == child->pid)
                collect(job, r);
            ended += child->ended;
        }
        zr_sleep_seconds(0.005);
    }
    for (int r = 0; r < job->ranks; r++)
        if (!job->children[r].ended) {
            kill(job->children[r].pid, SIGKILL);
            waitpid(job->children[r].pid, &job->children[r].wait_status, 0);
            close(job->children[r].output);
        }
    close(job->input);
}

static void expect_text(const job *job, int rank, const char *words)
{
    if (!strstr(job->children[rank].text, words))
        fail_msg("rank %d should say \"%s\" and says: %s", rank, words, job->children[rank].text);
}

static zero_status digest_of_threads(zero_comm *comm, void *user, zero_error *error)
{
    return exercise(comm, &((uint64_t *)user)[comm->rank], error);
}

static void every_operation_agrees_with_threads(void **state)
{
    static const int counts[] = {2, 3, 4, 8};
    for (int i = 0; i < ZR_COUNT(counts); i++)
        for (int supervised = 0; supervised < 2; supervised++) {
            job job;
            char want[64];
            rank_result results[MAX_RANKS];
            uint64_t digests[MAX_RANKS];
            run_threads(counts[i], 30, digest_of_threads, digests, results);
            snprintf(want, sizeof want, "digest %016llx as local processesOK",
                     (unsigned long long)digests[0]);
            start_job(&job, counts[i], supervised, "exercise", "20");
            wait_for(&job, counts[i]);
            for (int r = 0; r < counts[i]; r++)
                expect_text(&job, r, want);
            zr_local_host_destroy(&job.host);
        }
}

static void end_job(job *job) { zr_local_host_destroy(&job->host); }

static void a_killed_rank_is_named_with_its_signal(void **state)
{
    for (int supervised = 0; supervised < 2; supervised++) {
        job job;
        zr_local_failure failure;
        start_job(&job, 3, supervised, "killed", "60");
        wait_for(&job, 3);
        if (!supervised) // reaped by a parent that does not tell: how it ended is lost
            expect_text(&job, 0, "ERR_PEER: rank 0, barrier, step 41: rank 1 ");
        if (supervised) {
            expect_text(&job, 0,
                        "ERR_PEER: rank 0, barrier, step 41: rank 1 was killed by signal 9 "
                        "(Killed) at step 41");
            expect_text(&job, 2, "rank 1 was killed by signal 9 (Killed) at step 41");
            assert_true(zr_local_host_failure(&job.host, &failure));
            assert_int_equal(failure.rank, 1);
            assert_int_equal(failure.signal, SIGKILL);
            assert_int_equal(failure.step, 41);
            assert_int_equal(zr_local_host_status(&job.host, 1).step, 41);
        }
        end_job(&job);
    }
}

// A dead child that nobody waits for stays a zombie: the others must see through it.
static void a_zombie_counts_as_dead(void **state)
{
    job job;
    start_job(&job, 2, false, "killed", "60");
    child *other = &job.children[0];
    for (int i = 0; i < 4000 && !other->ended; i++) {
        if (waitpid(other->pid, &other->wait_status, WNOHANG) == other->pid)
            collect(&job, 0);
        zr_sleep_seconds(0.005);
    }
    assert_true(other->ended);
    expect_text(&job, 0, "rank 1 was killed by signal 9 (Killed) at step 41");
    wait_for(&job, 2);
}

static void a_stopped_rank_ends_the_others_at_the_deadline(void **state)
{
    job job;
    start_job(&job, 3, true, "stopped", "1.5");
    wait_for(&job, 2);
    expect_text(&job, 0,
                "ERR_TIMEOUT: rank 0, barrier, step 41: rank 1 (stopped) made no progress for 1.5 "
                "s; it was last seen at step 41");
    expect_text(&job, 2, "ERR_TIMEOUT: rank 2, barrier, step 41: rank 1 (stopped)");
    end_job(&job);
}

static void an_exit_is_named_with_its_code(void **state)
{
    job job;
    zr_local_failure failure;
    start_job(&job, 3, true, "exit", "60");
    wait_for(&job, 3);
    expect_text(&job, 0, "rank 1 ended with exit code 3 at step 41");
    assert_true(zr_local_host_failure(&job.host, &failure));
    assert_int_equal(failure.code, 3);
    end_job(&job);
}

static void a_rank_that_left_is_not_waited_for(void **state)
{
    job job;
    start_job(&job, 2, false, "leave", "60");
    wait_for(&job, 2);
    expect_text(&job, 0, "rank 1 has destroyed its communicator and will not come");
}

static void an_abort_reaches_all_and_the_parent(void **state)
{
    job job;
    zr_local_failure failure;
    start_job(&job, 3, true, "give up", "60");
    wait_for(&job, 3);
    expect_text(&job, 1, "ERR_DATA: token file is truncated");
    expect_text(
        &job, 0,
        "ERR_PEER: rank 0, barrier, step 41: rank 1 gave up at step 41: token file is truncated");
    expect_text(&job, 2, "rank 1 gave up at step 41: token file is truncated");
    assert_true(zr_local_host_failure(&job.host, &failure));
    assert_int_equal(failure.rank, 1);
    assert_non_null(strstr(failure.message, "token file is truncated"));
    end_job(&job);
}

static void a_job_stopped_as_a_whole_goes_on(void **state)
{
    job job;
    start_job(&job, 3, true, "paused", "1.5");
    zr_sleep_seconds(0.15);
    for (int r = 0; r < 3; r++)
        kill(job.children[r].pid, SIGSTOP);
    zr_sleep_seconds(2.1);
    for (int r = 0; r < 3; r++)
        kill(job.children[r].pid, SIGCONT);
    assert_int_equal(write(job.input, "x", 1), 1);
    wait_for(&job, 3);
    for (int r = 0; r < 3; r++)
        expect_text(&job, r, "ready OK");
    end_job(&job);
}

static void a_missing_rank_is_named(void **state)
{
    for (int supervised = 0; supervised < 2; supervised++) {
        job job;
        start_ranks(&job, 3, 1, supervised, "exercise", "1.2");
        wait_for(&job, 3);
        expect_text(
            &job, 0,
            supervised
                ? "rank 1 (has not joined) made no progress for 1.2 s"
                : "rank 1 has not joined the 3 ranks of this machine within 1.2 s (2 are here)");
        expect_text(&job, 2, "ERR_");
        end_job(&job);
    }
}

static void a_rank_that_ends_before_it_joined_is_named(void **state)
{
    job job;
    start_job(&job, 3, true, "refuse", "60");
    wait_for(&job, 3);
    expect_text(&job, 0,
                "ERR_PEER opening: rank 0, barrier, step 0: rank 1 ended with exit code 78");
    expect_text(&job, 2, "rank 1 ended with exit code 78");
    end_job(&job);
}

// Another process of this program starts two ranks and is killed; all of them hold `pipes[1]` as
// standard error.
static void ranks_die_with_their_parent(void **state)
{
    int pipes[2];
    pid_t parent;
    posix_spawn_file_actions_t actions;
    char *arguments[] = {program, "parent", NULL}, text[64] = "", byte;
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pipes[1], STDERR_FILENO);
    assert_int_equal(posix_spawn(&parent, program, &actions, NULL, arguments, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(pipes[1]);
    assert_true(read(pipes[0], text, sizeof text - 1) > 0);
    assert_string_equal(text, "joined");
    kill(parent, SIGKILL);
    waitpid(parent, NULL, 0);
    double start = zr_clock_seconds();
    assert_int_equal(read(pipes[0], &byte, 1), 0); // end of file: nobody holds it any more
    assert_true(zr_clock_seconds() - start < 10);  // else they lingered to their own end
    close(pipes[0]);
}

static int run_parent(void)
{
    job job;
    start_job(&job, 2, true, "linger", "60");
    for (int i = 0; i < 2000 && !(zr_local_host_status(&job.host, 0).joined &&
                                  zr_local_host_status(&job.host, 1).joined);
         i++)
        zr_sleep_seconds(0.005);
    zr_sleep_seconds(0.1); // until both have passed their first barrier
    fprintf(stderr, "joined");
    zr_sleep_seconds(30);
    return 1;
}

static void a_memory_limit_of_one_rank_fails_all(void **state)
{
    job job;
    start_job(&job, 3, true, "limit", "60");
    wait_for(&job, 3);
    for (int r = 0; r < 3; r++) {
        expect_text(&job, r, "ERR_MEMORY: rank 1: shared memory of");
        expect_text(&job, r, "ulimit -f");
    }
    end_job(&job);
}

static void a_second_opening_is_refused(void **state)
{
    job job;
    start_job(&job, 2, true, "twice", "60");
    wait_for(&job, 2);
    expect_text(&job, 0, "ERR_USAGE: rank 0 has opened its communicator before");
    end_job(&job);
}

static void windows_give_their_pages_back(void **state)
{
    job job;
    start_job(&job, 3, true, "windows", "60");
    wait_for(&job, 3);
    for (int r = 0; r < 3; r++)
        expect_text(&job, r, "OK");
    char path[64];
    struct stat found;
    snprintf(path, sizeof path, "/proc/self/fd/%d", job.host.memfd);
    assert_int_equal(stat(path, &found), 0);
    assert_true(found.st_blocks * 512 < 4 << 20); // of 3 ranks x 80 windows x 3 MiB
    end_job(&job);
}

static void every_operation_over_groups(void **state)
{
    rank_result results[MAX_RANKS];
    uint64_t digests[MAX_RANKS];
    char want[GRID_RANKS + 1][64];
    job job;
    for (int ranks = 1; ranks <= GRID_RANKS; ranks++) {
        run_threads(ranks, 30, digest_of_threads, digests, results);
        snprintf(want[ranks], sizeof want[ranks], "%d: %016llx ", ranks,
                 (unsigned long long)digests[0]);
    }
    start_job(&job, GRID_RANKS, true, "groups", "30");
    wait_for(&job, GRID_RANKS);
    for (int r = 0; r < GRID_RANKS; r++) {
        for (int ranks = 1; ranks <= GRID_RANKS; ranks++)
            if (ranks != (r == 2 ? 3 : 0)) // which is in no group of 3
                expect_text(&job, r, want[ranks]);
        expect_text(&job, r, " OK");
    }
    end_job(&job);
}

static void three_groups_at_once(void **state)
{
    job job;
    start_job(&job, GRID_RANKS, true, "interleaved", "30");
    wait_for(&job, GRID_RANKS);
    for (int r = 0; r < GRID_RANKS; r++)
        expect_text(&job, r, "OK");
    end_job(&job);
}

// Rank 0 has no group with rank 3: it waits for rank 1, which waits for that one.
static void a_killed_rank_ends_the_waits_in_other_groups(void **state)
{
    job job;
    zr_local_failure failure;
    start_job(&job, GRID_RANKS, true, "killed in groups", "60");
    wait_for(&job, GRID_RANKS);
    for (int r = 0; r < 3; r++) {
        char wait[64];
        snprintf(wait, sizeof wait, "ERR_PEER: rank %d, barrier (", r);
        expect_text(&job, r, wait);
        expect_text(&job, r,
                    "group of 2), step 41: rank 3 was killed by signal 9 (Killed) at step 41");
    }
    expect_text(&job, 1, "(data group"); // the others' step may have ended at either barrier
    assert_true(zr_local_host_failure(&job.host, &failure));
    assert_int_equal(failure.rank, 3);
    assert_int_equal(zr_local_host_status(&job.host, 0).step, 41);
    end_job(&job);
}

static void groups_give_their_pages_back(void **state)
{
    job job;
    char path[64];
    struct stat found;
    start_job(&job, GRID_RANKS, true, "groups in turn", "60");
    snprintf(path, sizeof path, "/proc/self/fd/%d", job.host.memfd);
    wait_for(&job, GRID_RANKS);
    for (int r = 0; r < GRID_RANKS; r++)
        expect_text(&job, r, "OK");
    assert_int_equal(stat(path, &found), 0);
    assert_true(found.st_blocks * 512 < 4 << 20); // of 160 x 800 KiB
    end_job(&job);
}

static void messages_over_channels(void **state)
{
    job job;
    start_job(&job, GRID_RANKS, true, "channels", "30");
    wait_for(&job, GRID_RANKS);
    for (int r = 0; r < GRID_RANKS; r++)
        expect_text(&job, r, "OK");
    end_job(&job);
}

static void a_killed_rank_ends_the_waits_of_channels(void **state)
{
    job job;
    start_job(&job, 3, true, "killed in a chain", "60");
    wait_for(&job, 3);
    expect_text(&job, 0, "rank 0, take of h.0 to h.1, slot 0, step 41: rank 1 was killed by sig");
    expect_text(&job, 2, "rank 2, receive of h.1 to h.2, slot 0, step 41: rank 1 was killed by");
    end_job(&job);
}

int main(int count, char **arguments)
{
    if (count == 4 && !strcmp(arguments[1], "child"))
        return run_scenario(arguments[2], arguments[3]);
    program = arguments[0];
    if (count == 2 && !strcmp(arguments[1], "parent"))
        return run_parent();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operation_agrees_with_threads),
        cmocka_unit_test(a_killed_rank_is_named_with_its_signal),
        cmocka_unit_test(a_zombie_counts_as_dead),
        cmocka_unit_test(a_stopped_rank_ends_the_others_at_the_deadline),
        cmocka_unit_test(an_exit_is_named_with_its_code),
        cmocka_unit_test(a_rank_that_left_is_not_waited_for),
        cmocka_unit_test(an_abort_reaches_all_and_the_parent),
        cmocka_unit_test(a_job_stopped_as_a_whole_goes_on),
        cmocka_unit_test(a_missing_rank_is_named),
        cmocka_unit_test(a_rank_that_ends_before_it_joined_is_named),
        cmocka_unit_test(ranks_die_with_their_parent),
        cmocka_unit_test(a_memory_limit_of_one_rank_fails_all),
        cmocka_unit_test(a_second_opening_is_refused),
        cmocka_unit_test(windows_give_their_pages_back),
        cmocka_unit_test(every_operation_over_groups),
        cmocka_unit_test(three_groups_at_once),
        cmocka_unit_test(a_killed_rank_ends_the_waits_in_other_groups),
        cmocka_unit_test(groups_give_their_pages_back),
        cmocka_unit_test(messages_over_channels),
        cmocka_unit_test(a_killed_rank_ends_the_waits_of_channels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
