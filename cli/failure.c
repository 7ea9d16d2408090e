#include "commands.h"
#include "running.h"

#include <stdarg.h>
#include <stdlib.h>

int cli_fail(const cli_command *command, const zero_error *error)
{
    fflush(stdout);
    fprintf(stderr, "zero %s: %s\n", command->name,
            error->message[0] ? error->message : zero_status_text(error->status));
    return zero_status_exit_code(error->status);
}

int cli_fail_usage(const cli_command *command, const char *format, ...)
{
    zero_error error = {.status = ZERO_ERR_USAGE};
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error.message, sizeof error.message, format, arguments);
    va_end(arguments);
    return cli_fail(command, &error);
}

int cli_fail_rank(const cli_command *command, zero_comm *comm, const zero_error *error)
{
    if (zero_comm_size(comm) == 1) // a supervisor hears of ranks that have peers alone
        return cli_fail(command, error);
    zero_comm_abort(comm, error->message);
    if (zero_supervised() || (zero_comm_rank(comm) > 0 && error->status == ZERO_ERR_PEER))
        return zero_status_exit_code(error->status);
    return cli_fail(command, error);
}

void cli_print(void *user, const char *text) { fputs(text, stdout); }

void cli_log_stderr(void *user, zero_log_level level, const char *message)
{
    const cli_arguments *arguments = user;
    bool explains = arguments && arguments->given[OPT_EXPLAIN];
    if (level <= ZERO_LOG_WARNING || (explains && level == ZERO_LOG_DEBUG))
        fprintf(stderr, "%s\n", message);
}
