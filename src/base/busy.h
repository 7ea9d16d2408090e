// How busy other programs keep this machine: what Linux says of it, read in a fraction of a
// millisecond. 0 and 1 where it says nothing.
#ifndef ZR_BASE_BUSY_H
#define ZR_BASE_BUSY_H

#include "base/errors.h"

#define ZR_BUSY_TEXT 96

typedef struct zr_turns {    // of the calling thread so far, seconds
    double running, waiting; // on a core; for one that others had
} zr_turns;

typedef struct zr_busy {
    double others;   // threads of other programs that want a core
    int cores;       // of the machine
    double slowdown; // 1: others leave cores enough; 2: a job takes about twice as long
} zr_busy;

zr_turns zr_turns_now(void);
// Returns which part of what it could have run the thread has run since then: 1: it never waited.
double zr_turns_quiet(const zr_turns *since, const zr_turns *now);
// Finds how busy the machine is for a job of so many threads here, of which `own` run or want to
// run now. since: when the job's turns began, which tell better once there are enough of them;
// NULL: they do not.
void zr_busy_find(int threads, int own, const zr_turns *since, zr_busy *out);
// Is the same for numbers that are known. load: the mean of a minute; running: threads that run or
// want to, now.
void zr_busy_judge(double load, double running, int threads, int own, int cores, zr_busy *out);
// Writes "this machine is busy (load 5.2 on 2 cores): times will be longer"; "": it is not.
void zr_busy_text(const zr_busy *busy, char out[static ZR_BUSY_TEXT]);
// Reads what the kernel writes: of /proc/stat, of /proc/loadavg, and of a thread's schedstat.
// false: it is something else.
bool zr_busy_read_running(const char *stat, double *out);
bool zr_busy_read_load(const char *average, double *out);
bool zr_busy_read_turns(const char *schedstat, zr_turns *out);

#endif
