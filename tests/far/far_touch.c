// What happens when the host touches memory that it must not: one message, and the process ends.
#define _GNU_SOURCE
#include "far_state.h"

#include <execinfo.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct sigaction before[2]; // what stood there before, of SIGSEGV and of SIGBUS
static const int signals[2] = {SIGSEGV, SIGBUS};

static _Thread_local int last_kind = -1; // zr_op_kind

void far_touch_note(zr_op_kind kind) { last_kind = (int)kind; }

static const char *what_it_is(const far_allocation *touched, bool writes)
{
    if (!touched->live)
        return "released memory";
    if (touched->kind == ZR_MEMORY_DEVICE)
        return "device memory";
    return writes ? "pinned memory that an operation writes"
                  : "pinned memory that an operation reads, to write it";
}

static void end(const far_allocation *touched, const void *at, bool writes)
{
    enum { DEPTH = 32 };
    void *where[DEPTH];
    char text[512];
    int bytes = snprintf(
        text, sizeof text,
        "far: the host touches %s (%s): byte %zu of allocation %d, %zu bytes; the last operation "
        "that this thread submitted: %s\n",
        what_it_is(touched, writes), zr_memory_name(touched->kind),
        (size_t)((const unsigned char *)at - touched->at), touched->number, touched->bytes,
        last_kind < 0 ? "none" : zr_op_kind_name((zr_op_kind)last_kind));
    (void)!write(STDERR_FILENO, text, (size_t)bytes);
    backtrace_symbols_fd(where, backtrace(where, DEPTH), STDERR_FILENO);
    _exit(FAR_TOUCHED);
}

// Returns whether the touch is of a byte that merely shares its page with bytes under way.
static bool allow(const far_allocation *touched, const void *at, bool *writes)
{
    bool pinned = touched->live && touched->kind == ZR_MEMORY_PINNED;
    if (!pinned || far_is_under_way(at, writes))
        return false;
    far_memory_open_page(touched, (size_t)((const unsigned char *)at - touched->at));
    return true;
}

static void on_touch(int signal, siginfo_t *info, void *context)
{
    const void *at = info->si_addr;
    bool locks = !far_is_locked_here(), writes = false;
    if (locks)
        far_lock();
    const far_allocation *touched = far_allocation_at(at);
    bool allowed = touched && allow(touched, at, &writes);
    if (touched && !allowed)
        end(touched, at, writes);
    if (locks)
        far_unlock();
    if (!touched) // it comes again, to whoever handled it before
        sigaction(signal, &before[signal == SIGBUS], NULL);
}

void far_touch_begin(void)
{
    void *loaded[1];
    struct sigaction action = {.sa_sigaction = on_touch, .sa_flags = SA_SIGINFO | SA_NODEFER};
    backtrace(loaded, 1); // its first call allocates
    for (int i = 0; i < ZR_COUNT(signals); i++)
        sigaction(signals[i], &action, &before[i]);
}

void far_touch_end(void)
{
    for (int i = 0; i < ZR_COUNT(signals); i++)
        sigaction(signals[i], &before[i], NULL);
}
