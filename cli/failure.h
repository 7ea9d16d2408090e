// How every subcommand ends that fails: one line on stderr, and the exit code that reliability
// calls for.
#ifndef CLI_FAILURE_H
#define CLI_FAILURE_H

#include "options.h"

enum { CLI_DIFFERS = 1 }; // exit code: no failure, but the answer that two things are not the same

// Prints "zero train: message" and returns the status' exit code.
int cli_fail(const cli_command *command, const zero_error *error);
int cli_fail_usage(const cli_command *command, const char *format, ...) ZERO_PRINTF(2, 3); // 64

// Of a job with ranks: one rank alone speaks. Under zero_run it is the supervisor, which gets the
// message through `comm`.
int cli_fail_rank(const cli_command *command, zero_comm *comm, const zero_error *error);

void cli_print(void *user, const char *text); // to stdout; a `write` callback
// errors and warnings, and with --explain reasons; a logger. user: the cli_arguments, or NULL
void cli_log_stderr(void *user, zero_log_level level, const char *message);

#endif
