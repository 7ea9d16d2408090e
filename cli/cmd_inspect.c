// zero inspect: writes what checkpoints, runs and models hold, for one PATH after another.
#include "commands.h"
#include "failure.h"

int cli_inspect(const cli_arguments *a)
{
    int code = 0;
    if (!a->data_count)
        return cli_fail_usage(a->command, "what? usage: zero inspect %s", a->command->usage);
    for (int i = 0; i < a->data_count; i++) {
        zero_inspect_options options = {.path = a->data[i],
                                        .sums = a->given[OPT_SUMS],
                                        .verify = a->given[OPT_VERIFY],
                                        .json = a->given[OPT_JSON]};
        zero_error error = {0};
        if (i && !a->given[OPT_JSON])
            putchar('\n');
        if (zero_inspect(&options, cli_print, NULL, &error) != ZERO_OK)
            code = cli_fail(a->command, &error);
    }
    return code;
}
