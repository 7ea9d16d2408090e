#define _GNU_SOURCE
#include "tune/trial_process.h"

#include "base/alloc.h"
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_LOG = 1 << 20, NOT_STARTED = 127 };

typedef struct start { // what the child needs between vfork and exec
    const char *const *argv;
    int input, log;
    pid_t parent;
    sigset_t signals; // the caller's mask
} start;

// Runs between vfork and exec. It shares the parent's memory, so it makes system calls and nothing
// else. Returns why exec failed.
static int become_trial(const start *s)
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
    *reason = become_trial(s);
    _exit(NOT_STARTED);
}

// No handler of the caller may run in the child, so signals wait meanwhile.
static zero_status start_process(start *s, zr_trial_process *out, zero_error *error)
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

zero_status zr_trial_start(const char *const *argv, const char *log, zr_trial_process *out,
                           zero_error *error)
{
    start s = {.argv = argv,
               .input = open("/dev/null", O_RDONLY | O_CLOEXEC),
               .log = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600),
               .parent = getpid()};
    zero_status status = s.input < 0 || s.log < 0
                             ? zr_fail_errno(error, ZERO_ERR_IO, errno, "cannot create \"%s\"", log)
                             : start_process(&s, out, error);
    if (s.input >= 0)
        close(s.input);
    if (s.log >= 0)
        close(s.log);
    return status;
}

// Kills what is left of the group and reaps its leader. The group's number stays taken until then,
// so nobody else is killed.
static void end_group(zr_trial_process *process)
{
    kill(-process->pid, SIGKILL);
    while (waitpid(process->pid, &process->wait_status, 0) < 0 && errno == EINTR)
        ;
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

void zr_trial_tell_end(const zr_trial_process *process, const char *log, char *out, size_t size)
{
    char *text = NULL;
    size_t length = 0;
    const char *line = "";
    if (zr_file_read(log, MOST_LOG, &text, &length, NULL) == ZERO_OK)
        length = last_line(text, length, &line);
    int used;
    if (WIFSIGNALED(process->wait_status))
        used = snprintf(out, size, "killed by signal %d (%s)", WTERMSIG(process->wait_status),
                        strsignal(WTERMSIG(process->wait_status)));
    else
        used = snprintf(out, size, "exit code %d", WEXITSTATUS(process->wait_status));
    if (length && (size_t)used < size)
        snprintf(out + used, size - (size_t)used, ": %.*s", (int)ZR_MIN(length, size), line);
    zr_free(text);
}
