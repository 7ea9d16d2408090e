// The clock, how much of a core this thread had, and how busy other programs keep the machine.
#define _GNU_SOURCE
#include "base/clock.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// The threads that run are counted several times, because their number changes by the moment.
enum { LOOKS = 3 };
static const double BETWEEN_LOOKS = 5e-4; // seconds
// A smaller slowdown is not reported.
static const double LEAST_SLOWDOWN = 1.15;
// Seconds of turns below which they are no evidence.
static const double ENOUGH_TURNS = 0.1;

double zr_clock_seconds(void) { return 1e-9 * (double)zr_clock_nanoseconds(); }

int64_t zr_clock_nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void zr_sleep_seconds(double seconds)
{
    if (!(seconds > 0))
        return;
    struct timespec left = {.tv_sec = (time_t)seconds};
    left.tv_nsec = (long)((seconds - (double)left.tv_sec) * 1e9);
    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR)
        continue;
}

bool zr_busy_read_running(const char *stat, double *out)
{
    const char *line = strstr(stat, "\nprocs_running ");
    return line && sscanf(line, "\nprocs_running %lf", out) == 1 && *out >= 0;
}

bool zr_busy_read_load(const char *average, double *out)
{
    return sscanf(average, "%lf", out) == 1 && *out >= 0;
}

bool zr_busy_read_turns(const char *schedstat, zr_turns *out)
{
    if (sscanf(schedstat, "%lf %lf", &out->running, &out->waiting) != 2)
        return false;
    out->running *= 1e-9;
    out->waiting *= 1e-9;
    return out->running >= 0 && out->waiting >= 0;
}

// Returns the text of a file of the kernel, which the caller frees; NULL if it cannot be read.
static char *read_busy_text(const char *path)
{
    char *text = NULL;
    size_t room = 0;
    FILE *file = fopen(path, "re");
    if (!file)
        return NULL;
    bool read = getdelim(&text, &room, 0, file) > 0;
    fclose(file);
    if (read)
        return text;
    free(text);
    return NULL;
}

zr_turns zr_turns_now(void)
{
    zr_turns turns = {0};
    char *text = read_busy_text("/proc/thread-self/schedstat");
    if (!text || !zr_busy_read_turns(text, &turns))
        turns = (zr_turns){0};
    free(text);
    return turns;
}

double zr_turns_quiet(const zr_turns *since, const zr_turns *now)
{
    double running = now->running - since->running, waiting = now->waiting - since->waiting;
    return running > 0 && waiting > 0 ? running / (running + waiting) : 1;
}

static double value_of(const char *path, bool (*read)(const char *, double *))
{
    double value = 0;
    char *text = read_busy_text(path);
    bool known = text && read(text, &value);
    free(text);
    return known ? value : 0;
}

static double count_running(void)
{
    double sum = 0;
    for (int i = 0; i < LOOKS; i++) {
        if (i > 0)
            zr_sleep_seconds(BETWEEN_LOOKS);
        sum += value_of("/proc/stat", zr_busy_read_running);
    }
    return sum / LOOKS;
}

void zr_busy_judge(double load, double running, int threads, int own, int cores, zr_busy *out)
{
    double others = fmax(fmin(load, running - own), 0);
    *out = (zr_busy){.others = others, .cores = cores, .slowdown = 1};
    if (cores > 0)
        out->slowdown = fmax((threads + others) / cores, 1);
    if (threads > cores) // more threads than cores slow a job down without any other program
        out->slowdown = fmax((threads + others) / threads, 1);
}

void zr_busy_find(int threads, int own, const zr_turns *since, zr_busy *out)
{
    double load = value_of("/proc/loadavg", zr_busy_read_load);
    zr_busy_judge(load, count_running(), threads, own, (int)sysconf(_SC_NPROCESSORS_ONLN), out);
    if (!since)
        return;
    zr_turns now = zr_turns_now();
    double seen = now.running + now.waiting - since->running - since->waiting;
    double waited = seen >= ENOUGH_TURNS ? 1 / zr_turns_quiet(since, &now) : 1;
    if (waited <= out->slowdown)
        return;
    out->slowdown = waited;
    out->others = fmax(out->others, waited * fmax(threads, out->cores) - threads);
}

void zr_busy_text(const zr_busy *busy, char out[static ZR_BUSY_TEXT])
{
    out[0] = 0;
    if (busy->slowdown < LEAST_SLOWDOWN)
        return;
    snprintf(out, ZR_BUSY_TEXT,
             "this machine is busy (load %.1f on %d core%s): times will be longer", busy->others,
             busy->cores, busy->cores == 1 ? "" : "s");
}
