// Starting and supervising the ranks of one machine.
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
    // a signal number once the caller wants the ranks to end: it is passed on to them (SIGINT as
    // SIGTERM); may be NULL
    const volatile int *stop;
    // that they have from then on, before they are killed; 0: 30; less: as long as they take
    double grace_seconds;
    // how often SIGUSR1 came: each change is passed on to the ranks, and ends nothing; may be NULL
    const volatile int *notes;
    // after a rank has died, or a disk or another rank failed it, all ranks are started again, at
    // most so often
    int restarts;
    // with as many ranks as remain, at least so many; 0: with as many as before
    int min_ranks;
    zero_logger logger; // of restarts
} zero_run_options;
// Starts argv on `ranks` ranks of this machine and supervises them: if one fails, the others are
// ended within two seconds.
// *exit_code: of the rank that failed first (128+n for a signal), else 0. The message names rank,
// cause and step. Once *stop is set, the exit codes of ranks that end by themselves are what counts
// (75: saved); ZERO_ERR_CANCELLED and 128+n where a signal ended them.
ZERO_API zero_status zero_run(const zero_run_options *options, int *exit_code, zero_error *error);

// How often zero_run had started the ranks before it started these: 0 in the first attempt and
// without a supervisor. A program that finds more goes on from its last checkpoint.
ZERO_API int zero_restart_count(void);
// A name that all ranks and attempts of one zero_run have, and those of no other: what a restart
// knows its own files by (zero_train_options.job).
// NULL without a supervisor.
ZERO_API const char *zero_run_job(void);

// Ranks of the job that a launcher (zero run, mpirun, srun, torchrun) describes in the environment;
// 0: there is none.
ZERO_API zero_status zero_launched_ranks(int *ranks, zero_error *error);
// Whether zero_run started this process: then it is the supervisor that reports what ends the job.
ZERO_API int zero_supervised(void);

#ifdef __cplusplus
}
#endif
#endif
