// One trial: a child process trains a configuration for some steps and is ended as soon as it has
// made them, so nothing but steps is paid for. The child is the program `zero` itself, in a scratch
// directory of its own that is removed afterwards; it dies with the caller. A training that fails,
// is killed, or is not done by its deadline is an answer, not an error. zero tune and zero compare
// use trials.
#ifndef ZR_TUNE_TRIAL_H
#define ZR_TUNE_TRIAL_H

#include "base/errors.h"
#include <jansson.h>
#include <zero/grid.h>
#include <sys/types.h>

enum { ZR_TRIAL_STEPS = 256, ZR_TRIAL_WHY = 320 };

typedef struct zr_trial_question {
    const char *program; // NULL: zr_trial_program's
    // What every trial has: the model, the data, flags; NULL-terminated.
    const char *const *arguments;
    const char *config; // the configuration as JSON, given as --config; NULL: none
    int ranks;          // of the job; 1: a single process
    int threads;        // of a rank; 0: train's own choice
    int64_t steps;      // to make, at most ZR_TRIAL_STEPS
    int64_t skipped;    // the first of them, which are not measured; at least one has to be left
    // Seconds of measured steps, of three at least, that are enough: it ends then. 0: all steps.
    double enough;
    double deadline; // seconds of the whole trial
    // Seconds after the end of its first step when it is over, too, because reading data and a
    // model tells nothing of steps. 0: the deadline alone counts.
    double after_first;
    const char *parent; // of the scratch directory; NULL: $TMPDIR or /tmp
    // The caller sets it to a signal number to end the trial. May be NULL.
    const volatile int *stop;
} zr_trial_question;

typedef struct zr_trial_answer {
    bool good;
    char why[ZR_TRIAL_WHY]; // if not `good`: one line
    double at[ZR_TRIAL_STEPS];
    int count;         // of `at`: seconds of the measured steps, in their order
    double seconds;    // median of a step
    double low, high;  // quartiles of a step
    int64_t tokens;    // of a step, on all ranks
    double token_rate; // tokens a second
    int64_t memory;    // bytes that rank 0 held, at most
    // Bytes that rank 0 fetched from other ranks of an axis in a step, or sent in a pipeline, at
    // most.
    int64_t exchanged[ZERO_AXIS_COUNT];
    double until_first; // seconds from the start of the process to the end of its first step
    double wall;        // seconds of the whole trial
} zr_trial_answer;

// Runs it. Steps made before the deadline count, if at least two were measured.
// ZERO_ERR_CANCELLED: *stop was set; ZERO_ERR_IO: no scratch directory; ZERO_ERR_USAGE: no program.
// In every case no process and no file of the trial is left. Not collective.
zero_status zr_trial_run(const zr_trial_question *question, zr_trial_answer *out,
                         zero_error *error);

// Removes from a configuration what costs time or writes files without being part of a step.
void zr_trial_quiet(json_t *root);

// Makes a directory of its own in `parent` (NULL: $TMPDIR or /tmp), which the caller removes;
// zr_free. ZERO_ERR_IO, ZERO_ERR_MEMORY.
zero_status zr_trial_scratch(const char *parent, char **out, zero_error *error);

// Fills in median, quartiles and rate from at[0..count), which stay in their order.
void zr_trial_summarize(zr_trial_answer *trial);

// Refuses (ZERO_ERR_USAGE) to run trials in a process that is itself a rank of a job. `command` is
// named in the message: "zero tune".
zero_status zr_trial_check_alone(const char *command, zero_error *error);

// Finds the program: `requested`, this very program if it is zero, or the zero in PATH.
zero_status zr_trial_program(const char *requested, char out[static 4096], zero_error *error);

// trial_process.c: how the process of a trial starts and ends.
typedef struct zr_trial_process {
    pid_t pid;       // also of its process group, in which its ranks are
    int wait_status; // once it has ended
    int adopted;     // whether this process was a subreaper before
} zr_trial_process;

// Starts argv[0], a path, in a process group of its own: no input, its output into the file `log`.
// It is killed if this thread ends. Until it has ended, this process adopts orphans of its
// descendants (PR_SET_CHILD_SUBREAPER), so that it can wait for the ranks.
zero_status zr_trial_start(const char *const *argv, const char *log, zr_trial_process *out,
                           zero_error *error);
// Returns whether it has ended by itself. If so, the rest of its ranks are killed and all are
// reaped, so their memory and cores are free.
bool zr_trial_ended(zr_trial_process *process);
// Kills and reaps it and all its ranks. Not called once zr_trial_ended has returned true.
void zr_trial_kill(zr_trial_process *process);
// Writes in one line how it ended: "killed by signal 9 (Killed)", or "exit code 65: ..." with the
// last line of its log.
void zr_trial_tell_end(const zr_trial_process *process, const char *log, char *out, size_t size);

#endif
