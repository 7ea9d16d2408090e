// Calls that the linker wraps (-Wl,--wrap=NAME), so that the nth of them ends the process, or
// fails.
#ifndef TESTS_WRAPPED_CALLS_H
#define TESTS_WRAPPED_CALLS_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

enum { DIED = 77 }; // how the process ends

static struct {
    atomic_int in; // the call that it happens in, of any thread, 1 = the next; 0: none
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
