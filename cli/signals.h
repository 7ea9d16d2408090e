// What signals do to the program: a first SIGINT, SIGTERM or SIGUSR1 ends a job in an orderly way,
// a second one ends the program at once. Only the program installs handlers, never the library.
#ifndef CLI_SIGNALS_H
#define CLI_SIGNALS_H

typedef enum cli_signals_role {
    CLI_SIGNALS_ALONE, // a job without a supervisor, or the supervisor itself
    // A rank under `zero run`: only the supervisor sends it signals, and it may send several.
    CLI_SIGNALS_SUPERVISED,
    // The supervisor of a user's program: SIGUSR1 is meant for that program.
    CLI_SIGNALS_RUNNER,
} cli_signals_role;

typedef struct cli_signals {
    const volatile int *stop;  // the signal that asked for the end; 0: none
    const volatile int *notes; // RUNNER: the number of SIGUSR1 received
} cli_signals;

cli_signals cli_signals_install(cli_signals_role role);
// From now on a signal to this process is answered at once by a line on standard error that says
// what becomes of the training. One process of a job calls it.
void cli_signals_announce(void);

#endif
