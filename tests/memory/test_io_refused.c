// If a seccomp filter refuses io_uring, as containers do, threads read and write, and the
// description says why. This is a program of its own, because a filter cannot be removed.
#include "io_harness.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#ifndef SYS_io_uring_setup
#define SYS_io_uring_setup 425
#endif

static bool refuse_io_uring(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = ZR_COUNT(filter), .filter = filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static void threads_take_over(void **state)
{
    vessel v;
    kind any = {.either = true};
    if (!refuse_io_uring()) {
        print_message("a refusal by seccomp is NOT tested here: %s\n", strerror(errno));
        skip();
    }
    OPEN_OR_SKIP(&v, (shape){.bytes = BLOCK_BYTES, .block = 8 * ZR_IO_ALIGN},
                 (zr_io_options){.queue_depth = 3, .overlap_events = true}, &any);
    assert_contains(zr_io_description(v.io), "3 threads with pread and pwrite");
    if (!strstr(zr_io_description(v.io), "no io_uring in this build"))
        assert_contains(zr_io_description(v.io), "(io_uring: Operation not permitted)");
    write_all(&v);
    read_all_back(&v);
    vessel_close(&v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(threads_take_over)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
