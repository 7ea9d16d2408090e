// Starts one rank. This is posix_spawn's own mechanism, vfork followed at once by exec, written
// out: posix_spawn can neither bind the child to cores nor make it die with its parent, and both
// must be in effect before the first instruction of a program that is not ours.
#define _GNU_SOURCE
#include "launch/run_ranks.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

// Runs between vfork and exec. It shares the parent's memory, so it makes system calls and nothing
// else. Returns why exec failed.
static int become_rank(const zr_spawn *spawn, pid_t parent, const sigset_t *signals)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent)
        return ESRCH;
    // A rank that cannot be bound runs all the same, so failure is ignored.
    if (spawn->mask)
        sched_setaffinity(0, sizeof *spawn->mask, spawn->mask);
    if (fcntl(spawn->memfd, F_SETFD, 0))
        return errno;
    sigprocmask(SIG_SETMASK, signals, NULL);
    execve(spawn->path, (char *const *)spawn->argv, spawn->environment);
    return errno;
}

static __attribute__((noinline)) pid_t fork_and_exec(const zr_spawn *spawn, pid_t parent,
                                                     const sigset_t *signals, volatile int *reason)
{
    pid_t pid = vfork();
    if (pid != 0)
        return pid;
    *reason = become_rank(spawn, parent, signals);
    _exit(127);
}

zero_status zr_run_spawn(const zr_spawn *spawn, zr_child *out, zero_error *error)
{
    sigset_t all, before;
    volatile int reason = 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); // no handler of the parent may run in the child
    pid_t pid = fork_and_exec(spawn, getpid(), &before, &reason);
    int fork_reason = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (pid < 0)
        return zr_fail_errno(error, ZERO_ERR_MEMORY, fork_reason, "cannot start a process for %s",
                             spawn->argv[0]);
    if (reason) {
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            ;
        return zr_fail_errno(error, ZERO_ERR_USAGE, reason, "cannot execute %s", spawn->path);
    }
    *out = (zr_child){.pid = pid, .pidfd = (int)syscall(SYS_pidfd_open, pid, 0)};
    if (out->pidfd >= 0)
        fcntl(out->pidfd, F_SETFD, FD_CLOEXEC);
    return ZERO_OK;
}
