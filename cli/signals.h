// SIGINT and SIGTERM end a job in an orderly way; the second one ends the program at once. Only the program installs
// handlers, never the library.
#ifndef CLI_SIGNALS_H
#define CLI_SIGNALS_H

// The signal that asked for the end, 0: none. Its address goes to zero_run.
const volatile int *cli_signals_install(void);

#endif
