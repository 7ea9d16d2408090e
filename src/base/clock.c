#define _GNU_SOURCE
#include "base/clock.h"

#include <errno.h>
#include <time.h>

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
