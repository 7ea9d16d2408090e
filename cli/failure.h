// How a subcommand ends if it fails: it prints one line to stderr, and returns the exit code of the
// status.
#ifndef CLI_FAILURE_H
#define CLI_FAILURE_H

#include "options.h"

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

#endif
