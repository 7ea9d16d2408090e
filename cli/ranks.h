// Starting the program again as N ranks, and supervising them: for subcommands with --ranks.
#ifndef CLI_RANKS_H
#define CLI_RANKS_H

#include "options.h"

// Whether this process is to start ranks: --ranks asks for several and no launcher has started it.
// *code: what to end with where the environment cannot be understood or --ranks contradicts it.
bool cli_is_parent(const cli_arguments *arguments, int *code);
// Starts them with the same arguments; returns the exit code.
int cli_supervise(const cli_arguments *arguments);
// Where `code` says that a training was saved: prints the command that goes on with it, as one
// would type it. Returns code.
int cli_say_resume(const cli_arguments *arguments, int code);
// Opens this rank's communicator as --comm and --timeout say. NULL: *code says how to end.
zero_comm *cli_open_comm(const cli_arguments *arguments, int *code);
void cli_close_comm(zero_comm *comm);

#endif
