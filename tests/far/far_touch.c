// What happens when the host touches memory that it must not: one message, and the process ends.
#define _GNU_SOURCE
#include "far_state.h"

#include <execinfo.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

static const int signals[] = {SIGSEGV, SIGBUS, SIGTRAP};
static struct sigaction before[ZR_COUNT(signals)]; // what stood there before

// The pages that the instruction under way may touch although others are under way in them.
enum { MOST_PAGES = 16 };
static _Thread_local struct {
    const void *at[MOST_PAGES];
    int count;
} opened;

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

static void take_back(int signal)
{
    for (int i = 0; i < ZR_COUNT(signals); i++)
        if (signals[i] == signal)
            sigaction(signal, &before[i], NULL);
}

// Makes the thread stop after its next instruction, or no longer. Elsewhere pages stay open until
// more is under way in them.
static void step(void *context, bool stops)
{
#ifdef __x86_64__
    enum { TRAP_FLAG = 0x100 };
    greg_t *flags = &((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL];
    *flags = stops ? *flags | TRAP_FLAG : *flags & ~TRAP_FLAG;
#else
    opened.count = 0;
#endif
}

// Allows the touch of a byte that merely shares its page with bytes under way.
static bool allow(const far_allocation *touched, const void *at, bool *writes)
{
    bool pinned = touched->live && touched->kind == ZR_MEMORY_PINNED;
    if (!pinned || far_is_under_way(at, writes) || opened.count == MOST_PAGES)
        return false;
    far_memory_open_page(touched, at, true);
    opened.at[opened.count++] = at;
    return true;
}

// Elsewhere each touch counts as one that writes.
static bool is_write(void *context)
{
#ifdef __x86_64__
    enum { WRITES = 2 };
    return ((ucontext_t *)context)->uc_mcontext.gregs[REG_ERR] & WRITES;
#else
    return true;
#endif
}

static void on_touch(int signal, siginfo_t *info, void *context)
{
    const void *at = info->si_addr;
    bool locks = !far_is_locked_here(), writes = false;
    if (locks)
        far_lock();
    far_allocation *touched = far_allocation_at(at);
    bool kept = touched && far_memory_keep_touch(touched, at, is_write(context));
    bool allowed = kept || (touched && allow(touched, at, &writes));
    if (touched && !allowed)
        end(touched, at, writes);
    if (locks)
        far_unlock();
    if (kept)
        return;
    if (touched)
        step(context, true);
    else // it comes again, to whoever handled it before
        take_back(signal);
}

static void on_step(int signal, siginfo_t *info, void *context)
{
    if (!opened.count) {
        take_back(signal);
        return;
    }
    far_lock();
    for (int i = 0; i < opened.count; i++) {
        const far_allocation *touched = far_allocation_at(opened.at[i]);
        if (touched && touched->live && touched->kind == ZR_MEMORY_PINNED)
            far_memory_open_page(touched, opened.at[i], false);
    }
    opened.count = 0;
    far_unlock();
    step(context, false);
}

void far_touch_begin(void)
{
    void *loaded[1];
    struct sigaction action = {.sa_flags = SA_SIGINFO | SA_NODEFER};
    backtrace(loaded, 1); // its first call allocates
    for (int i = 0; i < ZR_COUNT(signals); i++) {
        action.sa_sigaction = signals[i] == SIGTRAP ? on_step : on_touch;
        sigaction(signals[i], &action, &before[i]);
    }
}

void far_touch_end(void)
{
    for (int i = 0; i < ZR_COUNT(signals); i++)
        sigaction(signals[i], &before[i], NULL);
}
