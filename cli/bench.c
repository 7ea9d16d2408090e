// zero bench: one rank of a benchmark, or the parent that starts its ranks.
#include "failure.h"
#include "ranks.h"

static int bench_rank(const cli_arguments *a, zero_comm *comm)
{
    zero_bench_options options = {.struct_size = sizeof options, .what = a->operand, .threads = (int)a->integer[OPT_THREADS],
                                  .seconds = a->real[OPT_SECONDS], .logger = {.write = cli_log_stderr}};
    zero_error error = {0};
    return zero_bench(comm, &options, cli_print, NULL, &error) == ZERO_OK ? 0 : cli_fail_rank(a->command, comm, &error);
}

int cli_bench(const cli_arguments *a)
{
    int code;
    if (!a->operand)
        return cli_fail_usage(a->command, "what? usage: zero bench %s", a->command->usage);
    if (cli_is_parent(a, &code))
        return cli_supervise(a);
    zero_comm *comm = code ? NULL : cli_open_comm(a, &code);
    if (!comm)
        return code;
    code = bench_rank(a, comm);
    zero_comm_destroy(comm);
    return code;
}
