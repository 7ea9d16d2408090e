// Starts the program again as N ranks and supervises them, for subcommands with --ranks.
#ifndef CLI_RANKS_H
#define CLI_RANKS_H

#include "options.h"

// Whether this process has to start ranks: --ranks asks for several, and no launcher has started
// it. *code is the exit code if the environment is invalid or --ranks contradicts it.
bool cli_is_parent(const cli_arguments *arguments, int *code);
// Starts the ranks with the same arguments and returns the exit code.
int cli_supervise(const cli_arguments *arguments);
// If `code` says that a training was saved, prints the command that continues it. Returns `code`.
int cli_say_resume(const cli_arguments *arguments, int code);
// Opens this rank's communicator by --comm and --timeout. If it returns NULL, *code is the exit
// code.
zero_comm *cli_open_comm(const cli_arguments *arguments, int *code);
void cli_close_comm(zero_comm *comm);

// What a subcommand does on each of its ranks; returns the rank's exit code.
typedef int (*cli_rank_fn)(const cli_arguments *arguments, zero_comm *comm);
// Runs it as the rank that this process is, between opening and closing its communicator. Returns
// the exit code.
int cli_run_rank(const cli_arguments *arguments, cli_rank_fn rank);
// The same, unless this process has to start the ranks: then it starts them.
int cli_run_ranks(const cli_arguments *arguments, cli_rank_fn rank);

#endif
