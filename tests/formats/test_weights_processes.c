// Weights are written by ranks that are processes, started as a foreign launcher would: the file is
// the same as one rank writes, all ranks get one answer, and nothing of the file is left when a
// rank is killed while it writes.
#define _GNU_SOURCE
#include "st_files.h"
#include "base/clock.h"
#include "array_view.h"

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#define RANKS 3
#define TOTAL 10007

static const zero_tensor_desc tensor = {.name = "weight", .dims = 1, .shape = {TOTAL}};
static const zero_tensor_desc *const tensors[] = {&tensor};
static char program[] = "/proc/self/exe";
static bool die_in_pwrite;

ssize_t __real_pwrite64(int fd, const void *data, size_t bytes, off64_t offset);
ssize_t __wrap_pwrite64(int fd, const void *data, size_t bytes, off64_t offset);

ssize_t __wrap_pwrite64(int fd, const void *data, size_t bytes, off64_t offset)
{
    if (die_in_pwrite)
        raise(SIGKILL);
    return __real_pwrite64(fd, data, bytes, offset);
}

static zero_status save_part(zero_comm *comm, const char *path, zero_error *error)
{
    static float data[TOTAL];
    int64_t first = TOTAL * zero_comm_rank(comm) / zero_comm_size(comm),
            end = TOTAL * (zero_comm_rank(comm) + 1) / zero_comm_size(comm);
    zr_weight_range range = {
        .tensor = &tensor, .at = zr_rectangle_of_stretch(first, end - first), .data = data + first};
    array_view view;
    array_view_fill(&view, tensors, 1, &range, 1);
    for (int64_t i = first; i < end; i++)
        data[i] = (float)i;
    return zr_weights_save(comm, path, "", &view.view, error);
}

// A rank: exits with its status.
static int run_child(const char *path, int dying)
{
    zero_comm *comm = NULL;
    zero_error error = {0};
    zero_comm_options options = {
        .struct_size = sizeof options, .timeout_seconds = 20, .kind = "local"};
    zero_status status = zero_comm_open(&options, &comm, &error);
    if (status == ZERO_OK) {
        die_in_pwrite = zero_comm_rank(comm) == dying;
        status = save_part(comm, path, &error);
    }
    if (status != ZERO_OK)
        fprintf(stderr, "rank %s: %s\n", getenv("RANK"), error.message);
    zero_comm_destroy(comm);
    return (int)status;
}

static pid_t start_rank(int rank, const char *path, const char *dying)
{
    char own[5][64];
    char *variables[] = {own[0], own[1], own[2], own[3], own[4], NULL};
    char *arguments[] = {program, (char *)path, (char *)dying, NULL};
    pid_t child;
    snprintf(own[0], sizeof own[0], "RANK=%d", rank);
    snprintf(own[1], sizeof own[1], "WORLD_SIZE=%d", RANKS);
    snprintf(own[2], sizeof own[2], "LOCAL_RANK=%d", rank);
    snprintf(own[3], sizeof own[3], "LOCAL_WORLD_SIZE=%d", RANKS);
    snprintf(own[4], sizeof own[4], "MASTER_PORT=%d", getpid()); // names the job
    assert_int_equal(posix_spawn(&child, program, NULL, NULL, arguments, variables), 0);
    return child;
}

// Runs the ranks, at most 30 s, and gives their wait statuses.
static void run_ranks(const char *path, const char *dying, int *wait_status)
{
    pid_t children[RANKS];
    int left = RANKS;
    for (int r = 0; r < RANKS; r++)
        children[r] = start_rank(r, path, dying);
    for (int i = 0; i < 6000 && left > 0; i++) {
        for (int r = 0; r < RANKS; r++) {
            if (children[r] && waitpid(children[r], &wait_status[r], WNOHANG) == children[r]) {
                children[r] = 0;
                left--;
            }
        }
        zr_sleep_seconds(0.005);
    }
    for (int r = 0; r < RANKS; r++) {
        if (children[r]) {
            kill(children[r], SIGKILL);
            waitpid(children[r], &wait_status[r], 0);
        }
    }
    assert_int_equal(left, 0);
}

static void test_the_file_of_one_rank(void **state)
{
    scratch *made = *state;
    zero_comm *comm;
    int wait_status[RANKS];
    char *data[2];
    size_t length[2];
    assert_int_equal(zero_comm_self(&comm, NULL), ZERO_OK);
    assert_int_equal(save_part(comm, scratch_path(made, "one.safetensors"), NULL), ZERO_OK);
    zero_comm_destroy(comm);
    assert_int_equal(zr_file_read(made->path, 1 << 20, &data[0], &length[0], NULL), ZERO_OK);
    run_ranks(scratch_path(made, "many.safetensors"), "-1", wait_status);
    for (int r = 0; r < RANKS; r++)
        assert_true(WIFEXITED(wait_status[r]) && WEXITSTATUS(wait_status[r]) == ZERO_OK);
    assert_int_equal(zr_file_read(made->path, 1 << 20, &data[1], &length[1], NULL), ZERO_OK);
    assert_int_equal(length[0], length[1]);
    assert_memory_equal(data[0], data[1], length[0]);
    assert_int_equal(scratch_entries(made->directory), 2);
    zr_free(data[0]);
    zr_free(data[1]);
}

static void test_one_failure_is_everybodys(void **state)
{
    int wait_status[RANKS];
    run_ranks(scratch_path(*state, "absent/model.safetensors"), "-1", wait_status);
    for (int r = 0; r < RANKS; r++)
        assert_true(WIFEXITED(wait_status[r]) && WEXITSTATUS(wait_status[r]) == ZERO_ERR_IO);
}

static void test_a_rank_killed_while_it_writes(void **state)
{
    scratch *made = *state;
    int wait_status[RANKS];
    run_ranks(scratch_path(made, "model.safetensors"), "1", wait_status);
    assert_true(WIFSIGNALED(wait_status[1]) && WTERMSIG(wait_status[1]) == SIGKILL);
    assert_true(WIFEXITED(wait_status[0]) && WEXITSTATUS(wait_status[0]) == ZERO_ERR_PEER);
    assert_true(WIFEXITED(wait_status[2]) && WEXITSTATUS(wait_status[2]) == ZERO_ERR_PEER);
    assert_int_equal(scratch_entries(made->directory), 0);
}

int main(int count, char **arguments)
{
    if (count == 3)
        return run_child(arguments[1], atoi(arguments[2]));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_file_of_one_rank, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(test_one_failure_is_everybodys, scratch_open,
                                        scratch_close),
        cmocka_unit_test_setup_teardown(test_a_rank_killed_while_it_writes, scratch_open,
                                        scratch_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
