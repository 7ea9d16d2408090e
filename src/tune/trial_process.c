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

// Runs in the child, between fork and exec. It makes system calls and nothing else.
static void become_trial(const char *const *argv, int log, pid_t parent)
{
    static const int ours[] = {SIGINT, SIGTERM, SIGUSR1};
    int nothing = open("/dev/null", O_RDONLY);
    setpgid(0, 0);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent)
        _exit(NOT_STARTED);
    for (int i = 0; i < ZR_COUNT(ours); i++)
        signal(ours[i], SIG_DFL);
    if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0 || dup2(log, STDOUT_FILENO) < 0 ||
        dup2(log, STDERR_FILENO) < 0)
        _exit(NOT_STARTED);
    execv(argv[0], (char *const *)argv);
    _exit(NOT_STARTED);
}

zero_status zr_trial_start(const char *const *argv, const char *log, zr_trial_process *out,
                           zero_error *error)
{
    pid_t self = getpid();
    int fd = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0)
        return zr_fail_errno(error, ZERO_ERR_IO, errno, "cannot create \"%s\"", log);
    pid_t pid = fork();
    if (pid == 0)
        become_trial(argv, fd, self);
    int reason = errno;
    close(fd);
    if (pid < 0)
        return zr_fail_errno(error, ZERO_ERR_MEMORY, reason, "cannot start a process for a trial");
    setpgid(pid, pid); // the child does so, too: whoever comes first
    *out = (zr_trial_process){.pid = pid};
    return ZERO_OK;
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
