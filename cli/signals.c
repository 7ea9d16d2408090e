#define _GNU_SOURCE
#include "signals.h"

#include <signal.h>
#include <stddef.h>
#include <unistd.h>

static volatile int stop, notes; // global, because a handler can write nowhere else

static void remember(int number) { stop = number; }

static void remember_or_end(int number)
{
    if (stop)
        _exit(128 + number);
    stop = number;
}

static void count(int number) { notes++; }

static void handle(int number, void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, NULL);
}

cli_signals cli_signals_install(cli_signals_role role)
{
    void (*handler)(int) = role == CLI_SIGNALS_SUPERVISED ? remember : remember_or_end;
    // A terminal sends SIGINT to all of its processes, so a supervised rank ignores it.
    handle(SIGINT, role == CLI_SIGNALS_SUPERVISED ? SIG_IGN : handler);
    handle(SIGTERM, handler);
    handle(SIGUSR1, role == CLI_SIGNALS_RUNNER ? count : handler);
    return (cli_signals){&stop, &notes};
}
