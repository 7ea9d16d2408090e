// zero_run: starts and supervises the ranks of one machine.
#ifndef ZERO_RUN_H
#define ZERO_RUN_H

#include <zero/comm.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zero_run_options {
    size_t struct_size;
    int ranks;
    const char *const *argv; // NULL-terminated; argv[0] is looked up in PATH
    // The caller sets it to a signal number to end the ranks: they are sent that signal (SIGTERM in
    // place of SIGINT). May be NULL.
    const volatile int *stop;
    // Seconds that the ranks then have before they are killed; 0: 30; negative: no limit.
    double grace_seconds;
    // The number of SIGUSR1 received: each change is passed on to the ranks, and ends nothing. May
    // be NULL.
    const volatile int *notes;
    // The most restarts: all ranks are started again after a rank has died, or has failed because
    // of a disk or another rank.
    int restarts;
    // A restart uses the ranks that remain, but at least this many; 0: as many as before. Where
    // several ranks compute a model, it uses a multiple of them.
    int min_ranks;
    zero_logger logger; // of restarts
    // The tensor ranks of a model, where the caller knows them; 0, 1: a restart knows of those that
    // the ranks have reported, which they do once they have read their configuration.
    int tensor;
    int reserved; // not read: it was padding, in which older programs have anything
    int pipeline; // the same for the pipeline stages of a model
} zero_run_options;
// Starts argv on `ranks` ranks of this machine and supervises them: if one fails, the others are
// ended within two seconds. *exit_code is that of the rank that failed first (128+n for signal n),
// or 0. The message names rank, cause and step. Once *stop is set, the exit codes of ranks that end
// by themselves decide (75: saved); if a signal ended them, the result is ZERO_ERR_CANCELLED and
// 128+n.
ZERO_API zero_status zero_run(const zero_run_options *options, int *exit_code, zero_error *error);

// Returns how often zero_run has restarted the ranks: 0 in the first attempt, and without a
// supervisor. A program that finds more than 0 continues from its last checkpoint.
ZERO_API int zero_restart_count(void);
// Returns a name that is common to all ranks and attempts of one zero_run, and unique to it; NULL
// without a supervisor. A restarted program recognizes its own files by it
// (zero_train_options.job).
ZERO_API const char *zero_run_job(void);

// Gives the number of ranks of the job that a launcher (zero run, mpirun, srun, torchrun) describes
// in the environment; 0: there is none.
ZERO_API zero_status zero_launched_ranks(int *ranks, zero_error *error);
// Whether zero_run started this process; if so, the supervisor reports what ends the job.
ZERO_API int zero_supervised(void);

#ifdef __cplusplus
}
#endif
#endif
