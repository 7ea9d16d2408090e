// What a subcommand runs with: how it fails, its ranks, and what signals and file faults do to it.
#ifndef CLI_RUNNING_H
#define CLI_RUNNING_H

#include "options.h"
#include <zero/comm.h>

// ---- failure.c
// How a subcommand ends if it fails: it prints one line to stderr, and returns the exit code of the
// status.

enum { CLI_DIFFERS = 1 }; // exit code: not a failure, but the answer "they differ"

// Prints "zero train: message" and returns the status' exit code.
int cli_fail(const cli_command *command, const zero_error *error);
int cli_fail_usage(const cli_command *command, const char *format, ...) ZERO_PRINTF(2, 3); // 64

// Ends a job with ranks: only one rank prints. Under zero_run the supervisor prints, after it has
// received the message through `comm`; a rank that is alone prints itself, whoever has started it.
int cli_fail_rank(const cli_command *command, zero_comm *comm, const zero_error *error);

void cli_print(void *user, const char *text); // prints to stdout; a `write` callback
// A logger that prints errors and warnings, and with --explain also reasons. `user` is the
// cli_arguments, or NULL.
void cli_log_stderr(void *user, zero_log_level level, const char *message);

// The options that zero_eval_options and zero_generate_options both have, under the same names.
// Only one rank prints.
#define CLI_LOAD_OPTIONS(a, prints)                                                                \
    .model_dir = (a)->text[OPT_MODEL], .adapter = (a)->text[OPT_ADAPTER],                          \
    .threads = (int)(a)->integer[OPT_THREADS], .backend = (a)->text[OPT_BACKEND],                  \
    .base = (a)->text[OPT_BASE], .config_path = (a)->text[OPT_CONFIG],                             \
    .dtype = (a)->text[OPT_DTYPE], .device_memory = (a)->integer[OPT_DEVICE_MEMORY],               \
    .host_memory = (a)->integer[OPT_HOST_MEMORY], .ignore_unused = (a)->given[OPT_IGNORE_UNUSED],  \
    .tensor = (int)(a)->integer[OPT_TENSOR],                                                       \
    .logger = {.write = (prints) ? cli_log_stderr : NULL, .user = (void *)(a)}

// ---- ranks.c
// Starts the program again as N ranks and supervises them, for subcommands with --ranks.

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

// ---- signals.c
// What signals do to the program: a first SIGINT, SIGTERM or SIGUSR1 ends a job in an orderly way,
// a second one ends the program at once. Only the program installs handlers, never the library.

typedef enum cli_signals_role {
    CLI_SIGNALS_ALONE, // a job without a supervisor, or the supervisor itself
    // A rank under `zero run`: only the supervisor sends it signals, and it may send several.
    CLI_SIGNALS_SUPERVISED,
    // The supervisor of a user's program: SIGUSR1 is meant for that program.
    CLI_SIGNALS_RUNNER,
} cli_signals_role;

typedef struct cli_signals {
    const volatile int *stop;  // the signal that requested the end; 0 if none
    const volatile int *notes; // RUNNER: the number of SIGUSR1 received
} cli_signals;

cli_signals cli_signals_install(cli_signals_role role);
// From now on a signal to this process is answered at once by a line on standard error that says
// what becomes of the training. One process of a job calls it.
void cli_signals_announce(void);

// ---- faults.c
// How the program handles file faults that arrive as signals. If a mapped file has become shorter
// (SIGBUS), the program ends with one message; a write beyond the limit on file sizes (SIGXFSZ)
// becomes an error of that write. Only the program installs handlers, never the library.

void cli_faults_install(const cli_command *command);
// Sets the communicator whose ranks are informed of a fault; NULL: there are no other ranks.
void cli_faults_tell(zero_comm *comm);

#endif
