#ifndef ZR_BASE_CLOCK_H
#define ZR_BASE_CLOCK_H

#include "base/errors.h"

double zr_clock_seconds(void);      // monotonic; for differences only
int64_t zr_clock_nanoseconds(void); // the same clock
void zr_sleep_seconds(double seconds);

#endif
