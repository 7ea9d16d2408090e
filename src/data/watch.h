// Signs of life while data are read.
#ifndef ZR_DATA_WATCH_H
#define ZR_DATA_WATCH_H

#include <stddef.h>

// Called between pieces of work, so that a rank gives signs of life: `done` of `total` bytes or
// tokens of `name` have been read. beat may be NULL.
typedef struct zr_watch {
    void (*beat)(void *user, const char *name, size_t done, size_t total);
    void *user;
} zr_watch;

// watch may be NULL.
static inline void zr_watch_beat(const zr_watch *watch, const char *name, size_t done, size_t total)
{
    if (watch && watch->beat)
        watch->beat(watch->user, name, done, total);
}

#endif
