// After the first steps, a step allocates nothing and calls the kernel only to wait. It runs in a
// child process whose threads are all under a seccomp filter, and whose allocator ends the process.
#define _GNU_SOURCE
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "../sanitizers.h"
#include "window_runs.h"

#include "base/errors.h"
#include "engine/engine_api.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    FIRST_QUIET_STEP = 2,
    EXIT_ALLOCATED = 100,
    EXIT_NO_FILTER = 101,
    EXIT_SYSTEM_CALL = 102,
    EXIT_UNFINISHED = 103
};
// Under a sanitizer stages 0 and 3 are enough: which calls a step makes, the release build sees.
#define EACH (SANITIZED ? 3 : 1)

static atomic_bool quiet; // in the child, from the first quiet step on

static void end_if_quiet(void)
{
    if (atomic_load(&quiet))
        syscall(SYS_exit_group, EXIT_ALLOCATED);
}

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
void *__real_aligned_alloc(size_t align, size_t bytes);
int __real_posix_memalign(void **out, size_t align, size_t bytes);
void __real_free(void *p);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
void *__wrap_aligned_alloc(size_t align, size_t bytes);
int __wrap_posix_memalign(void **out, size_t align, size_t bytes);
void __wrap_free(void *p);

void *__wrap_malloc(size_t bytes)
{
    end_if_quiet();
    return __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    end_if_quiet();
    return __real_calloc(count, bytes);
}

void *__wrap_realloc(void *old, size_t bytes)
{
    end_if_quiet();
    return __real_realloc(old, bytes);
}

void *__wrap_aligned_alloc(size_t align, size_t bytes)
{
    end_if_quiet();
    return __real_aligned_alloc(align, bytes);
}

int __wrap_posix_memalign(void **out, size_t align, size_t bytes)
{
    end_if_quiet();
    return __real_posix_memalign(out, align, bytes);
}

void __wrap_free(void *p)
{
    end_if_quiet();
    __real_free(p);
}

static void on_system_call(int signal_number, siginfo_t *info, void *context)
{
    (void)signal_number;
    (void)context;
    syscall(SYS_exit_group, info->si_syscall > 0 && info->si_syscall < EXIT_ALLOCATED
                                ? info->si_syscall
                                : EXIT_SYSTEM_CALL);
}

// clock_gettime: a plain read where the kernel offers it, a system call on machines whose clock it
// does not trust. The last two are of the address sanitizer, for its own tables and locks.
static const long allowed[] = {SYS_futex, SYS_clock_gettime, SYS_exit_group, SYS_mmap,
                               SYS_sched_yield};
#define ALLOWED ((int)(sizeof allowed / sizeof *allowed) - 2 * !UNDER_ASAN)

static bool install_filter(void)
{
    struct sock_filter code[2 + 2 * ALLOWED + 1] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
    int length = 1;
    for (int i = 0; i < ALLOWED; i++) {
        code[length++] =
            (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)allowed[i], 0, 1);
        code[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    code[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP);
    struct sock_fprog program = {(unsigned short)length, code};
    struct sigaction action = {.sa_sigaction = on_system_call, .sa_flags = SA_SIGINFO};
    return sigaction(SIGSYS, &action, NULL) == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
}

static void become_quiet(zero_comm *comm, int step)
{
    zero_error error;
    if (step != FIRST_QUIET_STEP && step != HARNESS_STEPS)
        return;
    if (zero_comm_barrier(comm, &error) != ZERO_OK)
        abort();
    if (zero_comm_rank(comm) == 0) {
        if (step == HARNESS_STEPS)
            syscall(SYS_exit_group, 0);
        if (!install_filter())
            syscall(SYS_exit_group, EXIT_NO_FILTER);
        atomic_store(&quiet, true);
    }
    if (zero_comm_barrier(comm, &error) != ZERO_OK)
        abort();
}

// Returns how a child ended that runs the case, quiet from its third step on.
static int run_in_child(harness_case c, void (*at_step)(zero_comm *comm, int step))
{
    static harness_result result;
    c.at_step = at_step;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        harness_run(&c, &result);
        _exit(EXIT_UNFINISHED); // at_step ends it before
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void assert_quiet(harness_case c)
{
    int code = run_in_child(c, become_quiet);
    if (code == EXIT_NO_FILTER) {
        printf("SKIPPED: this kernel or container refuses seccomp filters\n");
        skip();
    }
    if (code)
        fail_msg("stage %d, %d x %d x %d ranks, %s, %s: %s %d", c.stage, ZR_MAX(c.stages, 1),
                 c.ranks, ZR_MAX(c.tensor, 1), c.schedule ? c.schedule : "no pipeline",
                 c.precision ? c.precision : "fp32",
                 code == EXIT_ALLOCATED    ? "the step allocated; exit"
                 : code == EXIT_UNFINISHED ? "it never came to its last step; exit"
                                           : "the step made system call",
                 code);
}

static void a_step_asks_for_nothing(void **state)
{
    static const char *const precisions[] = {NULL, "\"bf16\": {\"enabled\": true}",
                                             "\"fp16\": {\"enabled\": true}"};
    (void)state;
    for (int stage = 0; stage <= 3; stage += EACH)
        for (int i = 0; i < 3; i++)
            assert_quiet((harness_case){.stage = stage,
                                        .ranks = 2,
                                        .accumulation = 1 + i % 2,
                                        .batch = 2,
                                        .backend = "cpu",
                                        .precision = precisions[i],
                                        .clipping = 1,
                                        .overlap = i > 0,
                                        .dropout = 0.1f});
    assert_quiet((harness_case){.stage = 2,
                                .ranks = 1,
                                .accumulation = 2,
                                .batch = 2,
                                .backend = "cpu",
                                .optimizer = "LAMB"});
}

// Two data ranks of two tensor ranks each: whole activations, then divided activation checkpoints
// on the device and on the host.
static void tensor_ranks_ask_for_nothing(void **state)
{
    static const char *const checkpoints[] = {
        NULL,
        "\"activation_checkpointing\": {\"number_checkpoints\": 4, \"partition_activations\": "
        "true}",
        "\"activation_checkpointing\": {\"cpu_checkpointing\": true, "
        "\"partition_activations\": true}"};
    (void)state;
    for (int stage = 0; stage <= 3; stage += EACH)
        for (int i = 0; i < 3; i++)
            assert_quiet((harness_case){.stage = stage,
                                        .ranks = 2,
                                        .accumulation = 1 + i % 2,
                                        .batch = 2,
                                        .layers = 4,
                                        .backend = "cpu",
                                        .precision = checkpoints[i],
                                        .overlap = stage % 2,
                                        .dropout = 0.1f,
                                        .slices = 2,
                                        .tensor = 2,
                                        .by_rows = !i && stage > 1});
}

// Keys and values that two of four tensor ranks share; then two ranks that compute two slices each,
// with rows divided.
static void kv_replicas_and_ranks_of_several_slices_ask_for_nothing(void **state)
{
    zero_llama_config config = harness_llama();
    (void)state;
    config.qk_norm = 1;
    for (int stage = 0; stage <= 3; stage += EACH)
        for (int tensor = 2; tensor <= 4; tensor *= 2)
            for (int by_rows = tensor == 2; by_rows < 2; by_rows++)
                assert_quiet(
                    (harness_case){.stage = stage,
                                   .ranks = 1 + stage / 2,
                                   .accumulation = 2,
                                   .batch = 2,
                                   .backend = "cpu",
                                   .precision = stage == 3 ? "\"bf16\": {\"enabled\": true}" : NULL,
                                   .overlap = stage % 2,
                                   .llama = &config,
                                   .slices = 4,
                                   .tensor = tensor,
                                   .by_rows = by_rows});
}

// Every schedule, with two and with four ranks: pipelines of two and of four stages, of two stages
// and two data ranks, and of two stages and two tensor ranks.
static void pipelines_ask_for_nothing(void **state)
{
    static const char *const schedules[] = {"gpipe", "1f1b", "interleaved:2", "zb-h1"};
    static const struct {
        int stages, data, tensor;
    } grids[] = {{2, 1, 0}, {2, 2, 0}, {4, 1, 0}, {2, 1, 2}};
    zero_llama_config config = harness_llama();
    (void)state;
    config.n_layer = 6;
    config.tied = 0;
    for (int s = 0; s < 4; s++)
        for (int g = 0; g < 4; g++)
            assert_quiet((harness_case){.stage = (s + g) % 4,
                                        .ranks = grids[g].data,
                                        .accumulation = 4,
                                        .batch = 1,
                                        .backend = "cpu",
                                        .precision = g % 2 ? "\"bf16\": {\"enabled\": true}" : NULL,
                                        .clipping = 1,
                                        .overlap = s % 2,
                                        .llama = &config,
                                        .slices = grids[g].tensor,
                                        .tensor = grids[g].tensor,
                                        .by_rows = grids[g].tensor && s % 2,
                                        .stages = grids[g].stages,
                                        .schedule = schedules[s]});
}

static harness_case windowed; // what ranks of the child train

// Trains windows of two steps and of one.
static zero_status train_windows(zero_engine *engine, zero_error *error)
{
    zero_step_info infos[2];
    zero_comm *comm = zr_engine_comm(engine);
    for (int w = 0; w < HARNESS_STEPS; w++) {
        become_quiet(comm, w);
        ZERO_TRY(windows_train(engine, &windowed, 2 - w % 2, infos, error));
    }
    become_quiet(comm, HARNESS_STEPS);
    return ZERO_OK;
}

// Asynchronous schedules, each also with states on the host and with LAMB; 2bw with a table that
// the first and the last stage share.
static void windows_ask_for_nothing(void **state)
{
    static const char *const schedules[] = {"2bw", "pipedream"};
#define FLUSH "\"pipeline\": {\"flush_every\": 2}"
    zero_llama_config config = harness_llama();
    (void)state;
    config.n_layer = 4;
    config.tied = 0;
    for (int s = 0; s < 2; s++)
        for (int stage = 0; stage <= 3 - s; stage++) {
            bool alike = s == 0 && stage % 2;
            windowed = (harness_case){
                .stage = stage,
                .ranks = 1 + stage % 2,
                .accumulation = 4 - 2 * s,
                .batch = 1,
                .layers = 4,
                .backend = "cpu",
                .precision = alike ? "\"bf16\": {\"enabled\": true}, \"libzero\": "
                                     "{\"exact_pipeline\": true, " FLUSH "}"
                                   : "\"libzero\": {" FLUSH "}",
                .tiers = stage == 2 ? "\"offload_optimizer\": {\"device\": \"cpu\"}" : NULL,
                .optimizer = stage == 0 ? "LAMB" : NULL,
                .clipping = 1 - s,
                .overlap = stage == 1,
                .llama = alike ? NULL : &config,
                .stages = 2 + 2 * (stage == 2),
                .schedule = schedules[s],
                .drive = train_windows};
            assert_quiet(windowed);
        }
}

static void allocate_when_quiet(zero_comm *comm, int step)
{
    become_quiet(comm, step);
    if (step == FIRST_QUIET_STEP) {
        // volatile: a compiler may leave out a pair that nobody sees
        void *volatile small = malloc(8);
        free(small);
    }
}

static void ask_when_quiet(zero_comm *comm, int step)
{
    become_quiet(comm, step);
    if (step == FIRST_QUIET_STEP)
        (void)getppid();
}

static void the_trap_closes(void **state) // or the test above could not fail
{
    (void)state;
    harness_case c = {.stage = 0, .ranks = 2, .accumulation = 1, .batch = 1};
    int code = run_in_child(c, ask_when_quiet);
    if (code == EXIT_NO_FILTER)
        skip();
    assert_int_equal(code, EXIT_SYSTEM_CALL);
    assert_int_equal(run_in_child(c, allocate_when_quiet), EXIT_ALLOCATED);
}

int main(void)
{
    if (UNDER_TSAN) {
        printf("SKIPPED: the thread sanitizer makes system calls of its own\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_trap_closes),
        cmocka_unit_test(a_step_asks_for_nothing),
        cmocka_unit_test(tensor_ranks_ask_for_nothing),
        cmocka_unit_test(kv_replicas_and_ranks_of_several_slices_ask_for_nothing),
        cmocka_unit_test(pipelines_ask_for_nothing),
        cmocka_unit_test(windows_ask_for_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
