// The clock, and how much of their time threads get: what Linux tells about this thread and about
// other programs, read in a fraction of a millisecond.
#ifndef ZR_BASE_CLOCK_H
#define ZR_BASE_CLOCK_H

#include "base/errors.h"

double zr_clock_seconds(void);      // monotonic; for differences only
int64_t zr_clock_nanoseconds(void); // the same clock
void zr_sleep_seconds(double seconds);

typedef struct zr_turns { // of the calling thread so far, seconds; 0 if Linux does not tell
    double running;       // on a core
    double waiting;       // for a core that others had
} zr_turns;

typedef struct zr_busy {
    double others;   // threads of other programs that want a core; 0 if Linux does not tell
    int cores;       // of the machine
    double slowdown; // 1: others leave enough cores; 2: a job takes about twice as long
} zr_busy;

zr_turns zr_turns_now(void);
// Returns the part (0 to 1) of the time since then that the thread ran, of the time that it wanted
// to run; 1 if it never waited.
double zr_turns_quiet(const zr_turns *since, const zr_turns *now);
// Finds how busy the machine is for a job of `threads` threads here, with `own` of them running or
// ready to run now. since: turns at the job's begin, which are the better evidence once they are
// long enough; NULL: there are none.
void zr_busy_find(int threads, int own, const zr_turns *since, zr_busy *out);
// The same from numbers that are known. load: the mean of a minute; running: threads that run or
// want to run now.
void zr_busy_judge(double load, double running, int threads, int own, int cores, zr_busy *out);
#define ZR_BUSY_TEXT 96
// Writes "this machine is busy (load 5.2 on 2 cores): times will be longer", or "" if it is not.
void zr_busy_text(const zr_busy *busy, char out[static ZR_BUSY_TEXT]);
// Parse /proc/stat, /proc/loadavg, and the schedstat of a thread; false if the text is something
// else.
bool zr_busy_read_running(const char *stat, double *out);
bool zr_busy_read_load(const char *average, double *out);
bool zr_busy_read_turns(const char *schedstat, zr_turns *out);

#endif
