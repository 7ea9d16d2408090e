// Finds in /proc whether a process still lives, and how it ended, for ranks that no parent of ours
// supervises.
#define _GNU_SOURCE
#include "comm/local_control.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define FIELD_START 22 // of /proc/PID/stat, counted from 1
#define FIELD_EXIT 52

typedef struct stat_line {
    char state;
    uint64_t start;
    long wait_status;
} stat_line;

// Reads /proc/PID/stat. The name, field 2, is in parentheses and may contain anything.
static bool read_stat(int pid, stat_line *out)
{
    char path[48], text[2048];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t length = read(fd, text, sizeof text - 1);
    close(fd);
    text[ZR_MAX(length, 0)] = 0;
    char *rest = strrchr(text, ')'), *save = NULL;
    if (!rest)
        return false;
    *out = (stat_line){.wait_status = -1};
    int field = 3;
    for (char *word = strtok_r(rest + 1, " \n", &save); word;
         word = strtok_r(NULL, " \n", &save), field++) {
        if (field == 3)
            out->state = word[0];
        else if (field == FIELD_START)
            out->start = strtoull(word, NULL, 10);
        else if (field == FIELD_EXIT)
            out->wait_status = strtol(word, NULL, 10);
    }
    return true;
}

static uint64_t own_pid_namespace(void)
{
    struct stat found;
    return stat("/proc/self/ns/pid", &found) ? 0 : found.st_ino;
}

zr_process zr_process_self(void)
{
    stat_line line = {0};
    read_stat(getpid(), &line);
    return (zr_process){.pid = getpid(), .start = line.start, .name_space = own_pid_namespace()};
}

zr_process_look zr_process_look_at(const zr_process *process)
{
    zr_process_look unknown = {.state = '?'};
    if (process->pid <= 0 || process->name_space != own_pid_namespace())
        return unknown;
    stat_line line;
    if (!read_stat(process->pid, &line))
        return kill(process->pid, 0) && errno == ESRCH ? (zr_process_look){0} : unknown;
    if (process->start && line.start != process->start)
        return (zr_process_look){0};
    if (line.state == 'Z' || line.state == 'X')
        return (zr_process_look){.wait_status = (int)line.wait_status,
                                 .known = line.wait_status >= 0};
    return (zr_process_look){.state = line.state};
}

static void describe_end(int wait_status, char *out, size_t size)
{
    if (wait_status < 0)
        snprintf(out, size, "has ended");
    else if (WIFSIGNALED(wait_status))
        snprintf(out, size, "was killed by signal %d (%s)", WTERMSIG(wait_status),
                 strsignal(WTERMSIG(wait_status)));
    else
        snprintf(out, size, "ended with exit code %d", WEXITSTATUS(wait_status));
}

void zr_local_failure_of_end(zr_control *control, int rank, int wait_status, zr_local_failure *out)
{
    char end[96], work[ZR_WORK_TEXT];
    bool known = wait_status >= 0;
    describe_end(wait_status, end, sizeof end);
    zr_work_text(atomic_load(&control->records[rank].work), work);
    *out = (zr_local_failure){
        .rank = rank, .status = ZERO_ERR_PEER, .step = atomic_load(&control->records[rank].step)};
    out->signal = known && WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : 0;
    out->code = known && WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 0;
    snprintf(out->message, sizeof out->message, "rank %d %s at step %lld%s", rank, end,
             (long long)out->step, work);
}
