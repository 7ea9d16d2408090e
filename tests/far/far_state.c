// The far device as a whole: its one lock, its options, what it counts, and the numbers of threads.
#include "far_state.h"

#include "base/random.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    pthread_mutex_t lock;
    bool begun, sealed;
    far_options options;
    far_report report;
    uint64_t drawn;
    int generation; // of numbers of threads: they begin anew with each far_begin
    int hosts;
    int64_t finishes[FAR_MOST_HOSTS];
} far = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local bool locked_here;
static _Thread_local struct {
    int generation, number;
} host_here;

void far_lock(void)
{
    pthread_mutex_lock(&far.lock);
    locked_here = true;
}

void far_unlock(void)
{
    locked_here = false;
    pthread_mutex_unlock(&far.lock);
}

bool far_is_locked_here(void) { return locked_here; }

bool far_has_begun(void)
{
    far_lock();
    bool begun = far.begun;
    far_unlock();
    return begun;
}

const far_options *far_options_now(void) { return &far.options; }

far_report *far_counts(void) { return &far.report; }

static void give_up(const char *why)
{
    fprintf(stderr, "far: %s\n", why);
    abort();
}

void *far_alloc(size_t bytes)
{
    void *p = calloc(1, ZR_MAX(bytes, 1));
    if (!p)
        give_up("no memory");
    return p;
}

void far_violate(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (far.report.violations++ == 0)
        vsnprintf(far.report.first, sizeof far.report.first, format, arguments);
    va_end(arguments);
}

uint64_t far_draw(uint64_t below)
{
    return zr_philox4x32(far.options.seed, 0, far.drawn++).v[0] % below;
}

void far_begin(const far_options *options)
{
    far_lock();
    if (far.begun)
        give_up("far_begin, but far_end did not end what was before");
    far.begun = true;
    far.sealed = false;
    far.options = *options;
    if (!far.options.device_bytes)
        far.options.device_bytes = 1LL << 40;
    far.report = (far_report){0};
    far.drawn = 0;
    far.hosts = 0;
    far.generation++;
    memset(far.finishes, 0, sizeof far.finishes);
    far_touch_begin();
    far_unlock();
}

void far_end(far_report *out)
{
    far_rows_forget();
    far_lock();
    for (int i = 0; i < FAR_MOST_QUEUES; i++) {
        if (far_progress_of(i)->queue)
            far_violate("queue %d was not closed", i);
        *far_progress_of(i) = (far_progress){0};
    }
    far_memory_end();
    far_touch_end();
    far.begun = false;
    if (out)
        *out = far.report;
    far_unlock();
}

void far_report_now(far_report *out)
{
    far_lock();
    *out = far.report;
    far_unlock();
}

static void set_sealed(bool sealed)
{
    far_lock();
    far.sealed = sealed;
    far_unlock();
}

void far_seal(void) { set_sealed(true); }
void far_unseal(void) { set_sealed(false); }
bool far_is_sealed(void) { return far.sealed; }

bool far_makes_wait(int *place)
{
    *place = far.options.place ? far.options.place() : 0;
    return !*place || *place != far.options.left_out;
}

int far_host(void)
{
    bool locks = !far_is_locked_here();
    if (locks)
        far_lock();
    if (host_here.generation != far.generation) {
        if (far.hosts == FAR_MOST_HOSTS)
            give_up("more threads than FAR_MOST_HOSTS");
        host_here.generation = far.generation;
        host_here.number = far.hosts++;
    }
    if (locks)
        far_unlock();
    return host_here.number;
}

void far_count_finish(int host)
{
    far.report.finishes++;
    far.finishes[host]++;
}

int64_t far_finishes_of(int host)
{
    far_lock();
    int64_t finishes = far.finishes[host];
    far_unlock();
    return finishes;
}
