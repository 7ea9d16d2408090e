// zero verify: whether a run is what its checkpoints say it is. If not, its exit code is 1.
#include "commands.h"
#include "failure.h"
#include "ranks.h"

static int verify_rank(const cli_arguments *a, zero_comm *comm)
{
    const zero_verify_options options = {.run = a->operand,
                                         .from = a->integer[OPT_FROM_STEP],
                                         .to = a->integer[OPT_TO_STEP],
                                         .data = a->data_count ? a->data : NULL,
                                         .data_count = a->data_count,
                                         .threads = (int)a->integer[OPT_THREADS],
                                         .logger = {.write = cli_log_stderr}};
    zero_verify_result result;
    zero_error error = {0};
    if (zero_verify(comm, &options, cli_print, NULL, &result, &error) != ZERO_OK)
        return cli_fail_rank(a->command, comm, &error);
    return result.confirmed || zero_comm_rank(comm) > 0 ? 0 : CLI_DIFFERS;
}

int cli_verify(const cli_arguments *a)
{
    int ranks = 1;
    zero_error error = {0};
    cli_arguments own = *a;
    if (!a->operand)
        return cli_fail_usage(a->command, "which run? usage: zero verify %s", a->command->usage);
    if (zero_verify_ranks(a->operand, &ranks, &error) != ZERO_OK)
        return cli_fail(a->command, &error);
    own.given[OPT_RANKS] = true;
    own.integer[OPT_RANKS] = ranks;
    return cli_run_ranks(&own, verify_rank);
}
