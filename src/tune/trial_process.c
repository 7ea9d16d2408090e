#define _GNU_SOURCE
#include "tune/trial.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { END_OF_LOG = 8192, NOT_STARTED = 127 };

// How long the ranks of a killed trial may take to give their memory back, and how often they are
// looked at.
#define END_SECONDS 10.0
#define LOOK_SECONDS 0.002

typedef struct start { // what the child needs between vfork and exec
    const char *const *argv;
    int input, log;
    pid_t parent;
    sigset_t signals; // the caller's mask
} start;

// Runs between vfork and exec. It shares the parent's memory, so it makes system calls and nothing
// else. Returns why exec failed.
static int exec_program(const start *s)
{
    if (setpgid(0, 0) || prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != s->parent)
        return ESRCH;
    if (dup2(s->input, STDIN_FILENO) < 0 || dup2(s->log, STDOUT_FILENO) < 0 ||
        dup2(s->log, STDERR_FILENO) < 0)
        return errno;
    sigprocmask(SIG_SETMASK, &s->signals, NULL);
    execv(s->argv[0], (char *const *)s->argv);
    return errno;
}

static __attribute__((noinline)) pid_t vfork_and_exec(const start *s, volatile int *reason)
{
    pid_t pid = vfork();
    if (pid != 0)
        return pid;
    *reason = exec_program(s);
    _exit(NOT_STARTED);
}

// Signals wait until just before exec, because a handler of the caller would run in memory that the
// child shares.
static zero_status launch_program(start *s, zr_trial_process *out, zero_error *error)
{
    volatile int reason = 0;
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &s->signals);
    pid_t pid = vfork_and_exec(s, &reason);
    int fork_reason = errno;
    pthread_sigmask(SIG_SETMASK, &s->signals, NULL);
    if (pid < 0)
        return zr_fail_errno(error, ZERO_ERR_MEMORY, fork_reason,
                             "cannot start a process for a trial");
    *out = (zr_trial_process){.pid = pid};
    if (reason == 0)
        return ZERO_OK;
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    return zr_fail_errno(error, ZERO_ERR_USAGE, reason, "cannot execute %s", s->argv[0]);
}

// Returns whether orphans came to this process before.
static int adopt_orphans(void)
{
    int before = 0;
    prctl(PR_GET_CHILD_SUBREAPER, &before);
    prctl(PR_SET_CHILD_SUBREAPER, 1ul);
    return before;
}

static void stop_adopting(int before) { prctl(PR_SET_CHILD_SUBREAPER, (unsigned long)before); }

zero_status zr_trial_start(const char *const *argv, const char *log, zr_trial_process *out,
                           zero_error *error)
{
    start s = {.argv = argv,
               .input = open("/dev/null", O_RDONLY | O_CLOEXEC),
               .log = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600),
               .parent = getpid()};
    int before = adopt_orphans();
    zero_status status = s.input < 0 || s.log < 0
                             ? zr_fail_errno(error, ZERO_ERR_IO, errno, "cannot create \"%s\"", log)
                             : launch_program(&s, out, error);
    if (s.input >= 0)
        close(s.input);
    if (s.log >= 0)
        close(s.log);
    if (status != ZERO_OK)
        stop_adopting(before);
    out->adopted = before;
    return status;
}

// Reaps the ranks, which became this process's children when their leader died. One that cannot die
// is not waited for without end.
static void reap_ranks(pid_t group)
{
    double until = zr_clock_seconds() + END_SECONDS;
    while (zr_clock_seconds() < until) {
        pid_t reaped = waitpid(-group, NULL, WNOHANG);
        if (reaped < 0 && errno != EINTR)
            return; // ECHILD: there are none
        if (reaped == 0)
            zr_sleep_seconds(LOOK_SECONDS);
    }
}

// Kills what is left of the group and reaps its leader. The group's number stays taken until then,
// so nobody else is killed. Then it waits for the ranks, because the next trial needs their cores
// and their memory.
static void end_group(zr_trial_process *process)
{
    kill(-process->pid, SIGKILL);
    while (waitpid(process->pid, &process->wait_status, 0) < 0 && errno == EINTR)
        ;
    reap_ranks(process->pid);
    stop_adopting(process->adopted);
}

bool zr_trial_ended(zr_trial_process *process)
{
    siginfo_t info = {0};
    int failed = waitid(P_PID, (id_t)process->pid, &info, WEXITED | WNOHANG | WNOWAIT);
    if (failed || info.si_pid == 0)
        return false;
    end_group(process);
    return true;
}

void zr_trial_kill(zr_trial_process *process) { end_group(process); }

// Finds the last line of a text that is not empty. Returns its length.
static size_t last_line(const char *text, size_t length, const char **line)
{
    while (length > 0 && (text[length - 1] == '\n' || text[length - 1] == ' '))
        length--;
    size_t begin = length;
    while (begin > 0 && text[begin - 1] != '\n')
        begin--;
    *line = text + begin;
    return length - begin;
}

// Reads the last bytes of a log. Returns their number.
static size_t read_end(const char *log, char out[END_OF_LOG])
{
    int fd;
    if (zr_file_open(log, &fd, NULL) != ZERO_OK)
        return 0;
    int64_t size = ZR_MAX(lseek(fd, 0, SEEK_END), 0);
    size_t length = (size_t)ZR_MIN(size, END_OF_LOG);
    bool good = zr_file_pread(fd, out, length, size - (int64_t)length, log, NULL) == ZERO_OK;
    close(fd);
    return good ? length : 0;
}

void zr_trial_tell_end(const zr_trial_process *process, const char *log, char *out, size_t size)
{
    char text[END_OF_LOG];
    const char *line;
    size_t length = last_line(text, read_end(log, text), &line);
    int used;
    if (WIFSIGNALED(process->wait_status))
        used = snprintf(out, size, "killed by signal %d (%s)", WTERMSIG(process->wait_status),
                        strsignal(WTERMSIG(process->wait_status)));
    else
        used = snprintf(out, size, "exit code %d", WEXITSTATUS(process->wait_status));
    if (length && (size_t)used < size)
        snprintf(out + used, size - (size_t)used, ": %.*s", (int)ZR_MIN(length, size), line);
}
