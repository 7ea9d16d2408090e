// Calls that the linker wraps (-Wl,--wrap=NAME), so that the nth of them fails or ends the process.
#ifndef TESTS_WRAPPED_CALLS_H
#define TESTS_WRAPPED_CALLS_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

enum { DIED = 77 }; // the exit code of a process that was ended

static struct {
    atomic_int in; // number of calls, of any thread, until it happens: 1 = the next; 0: never
    int reason;    // errno; 0: the process ends, as by a kill
} fault;

static bool fails(void)
{
    int in = fault.in;
    while (in && !atomic_compare_exchange_weak(&fault.in, &in, in - 1))
        ;
    if (in != 1)
        return false;
    if (!fault.reason)
        _exit(DIED);
    errno = fault.reason;
    return true;
}

#define WRAP(type, name, parameters, arguments)                                                    \
    type __real_##name parameters;                                                                 \
    type __wrap_##name parameters;                                                                 \
    type __wrap_##name parameters { return fails() ? (type)-1 : __real_##name arguments; }

#endif
