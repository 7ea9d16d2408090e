// What signals do to the program: a first SIGINT, SIGTERM or SIGUSR1 ends a job in an orderly way,
// a second one ends the program at once.
// Only the program installs handlers, never the library.
#ifndef CLI_SIGNALS_H
#define CLI_SIGNALS_H

typedef enum cli_signals_role {
    CLI_SIGNALS_ALONE, // of a job without a supervisor, or the supervisor
    // a rank under `zero run`: it hears from the supervisor alone, as often as that likes
    CLI_SIGNALS_SUPERVISED,
    // the supervisor of a program that is not ours: SIGUSR1 is for that program
    CLI_SIGNALS_RUNNER,
} cli_signals_role;

typedef struct cli_signals {
    const volatile int *stop;  // the signal that asked for the end, 0: none
    const volatile int *notes; // RUNNER: how often SIGUSR1 came
} cli_signals;

cli_signals cli_signals_install(cli_signals_role role);

#endif
