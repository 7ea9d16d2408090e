// zero eval: the measures of a text on standard output, everything else on stderr.
#include "commands.h"
#include "failure.h"
#include "faults.h"
#include "ranks.h"

#include <math.h>
#include <stdlib.h>

int cli_eval(const cli_arguments *a)
{
    if (!a->given[OPT_MODEL])
        return cli_fail_usage(a->command, "no model: --model DIR names one");
    if (!a->data_count)
        return cli_fail_usage(a->command, "no text: --data FILE names what to evaluate");
    zero_error error = {0};
    zero_comm *comm = NULL;
    zero_comm_options comm_options = {.struct_size = sizeof comm_options};
    if (zero_comm_open(&comm_options, &comm, &error) != ZERO_OK)
        return cli_fail(a->command, &error);
    cli_faults_tell(comm);
    bool first = zero_comm_rank(comm) == 0;
    zero_eval_options options = {.struct_size = sizeof options, .model_dir = a->text[OPT_MODEL], .data = a->data, .data_count = a->data_count,
                                 .field = a->text[OPT_FIELD], .chat = a->text[OPT_CHAT], .seq = a->integer[OPT_SEQ],
                                 .threads = (int)a->integer[OPT_THREADS], .backend = a->text[OPT_BACKEND], .config_path = a->text[OPT_CONFIG],
                                 .dtype = a->text[OPT_DTYPE], .device_memory = a->integer[OPT_DEVICE_MEMORY],
                                 .host_memory = a->integer[OPT_HOST_MEMORY],
                                 .ignore_unused = a->given[OPT_IGNORE_UNUSED],
                                 .logger = {.write = first ? cli_log_stderr : NULL, .user = (void *)a}};
    zero_eval_result result;
    int code = 0;
    if (zero_eval(comm, &options, &result, &error) != ZERO_OK)
        code = cli_fail_rank(a->command, comm, &error);
    else if (first)
        printf("loss %.9g\nperplexity %.9g\nbits_per_byte %.9g\n", result.loss, exp(result.loss),
               result.loss * (double)result.tokens / (double)result.bytes / log(2));
    cli_close_comm(comm);
    return code;
}
