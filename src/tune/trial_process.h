// The process of a trial: how it is started, and how it ends (trial.c).
#ifndef ZR_TUNE_TRIAL_PROCESS_H
#define ZR_TUNE_TRIAL_PROCESS_H

#include "base/errors.h"
#include <sys/types.h>

typedef struct zr_trial_process {
    pid_t pid;       // also of its process group, in which its ranks are
    int wait_status; // once it has ended
    int adopted;     // whether this process had orphans of its descendants given to it before
} zr_trial_process;

// Starts argv[0], a path, in a process group of its own: no input, its output into the file `log`.
// It is killed if this thread ends. Until it has ended, orphans of this process's descendants
// become its children (PR_SET_CHILD_SUBREAPER), so that ranks can be waited for.
zero_status zr_trial_start(const char *const *argv, const char *log, zr_trial_process *out,
                           zero_error *error);
// Returns whether it has ended by itself; what is left of its ranks is then killed, and all have
// been reaped: their memory and cores are free.
bool zr_trial_ended(zr_trial_process *process);
// Kills it and all its ranks, and reaps them. It must not have ended by zr_trial_ended.
void zr_trial_kill(zr_trial_process *process);
// Says in one line how it ended: "killed by signal 9 (Killed)", "exit code 65: ..." with the last
// line of its log.
void zr_trial_tell_end(const zr_trial_process *process, const char *log, char *out, size_t size);

#endif
