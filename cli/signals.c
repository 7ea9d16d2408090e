#define _GNU_SOURCE
#include "running.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

// Global, because a handler can write nowhere else.
static volatile int stop, notes, announces;

// Writes a line over a progress bar, by what a handler may call.
static void put_line(const char *line)
{
    static const char clear[] = "\r\033[K";
    bool kept = (!isatty(STDERR_FILENO) || write(STDERR_FILENO, clear, sizeof clear - 1) >= 0) &&
                write(STDERR_FILENO, line, strlen(line)) >= 0;
    (void)kept; // nobody is left to inform
}

static void announce_end(int number, bool asked_before)
{
    if (asked_before)
        put_line("stopped at once, without saving: steps since the last checkpoint are lost\n");
    else
        put_line(number == SIGINT
                     ? "ending after this step, then saving (in the start-up: before the first "
                       "step); Ctrl-C again stops at once, without saving\n"
                     : "asked to end: ending after this step, then saving (in the start-up: before "
                       "the first step); a second signal stops at once, without saving\n");
}

static void remember_signal(int number) { stop = number; }

// Two signals may run this at the same time, one inside of the other or on another thread: one of
// them is the first.
static void remember_or_exit(int number)
{
    int before = errno;
    const bool asked_before = __atomic_exchange_n(&stop, number, __ATOMIC_SEQ_CST) != 0;
    if (announces)
        announce_end(number, asked_before);
    errno = before;
    if (asked_before)
        _exit(128 + number);
}

static void count_note(int number) { notes++; }

static void install_handler(int number, void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, NULL);
}

cli_signals cli_signals_install(cli_signals_role role)
{
    void (*handler)(int) = role == CLI_SIGNALS_SUPERVISED ? remember_signal : remember_or_exit;
    // A terminal sends SIGINT to all of its processes, so a supervised rank ignores it.
    install_handler(SIGINT, role == CLI_SIGNALS_SUPERVISED ? SIG_IGN : handler);
    install_handler(SIGTERM, handler);
    install_handler(SIGUSR1, role == CLI_SIGNALS_RUNNER ? count_note : handler);
    return (cli_signals){&stop, &notes};
}

void cli_signals_announce(void) { announces = 1; }
