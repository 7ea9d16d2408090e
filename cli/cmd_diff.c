// zero diff: whether two runs, or two sets of tensors, are the same. If not, its exit code is 1,
// like that of diff and cmp.
#include "commands.h"
#include "failure.h"

int cli_diff(const cli_arguments *a)
{
    if (a->data_count != 2)
        return cli_fail_usage(a->command, "two paths are compared; usage: zero diff %s",
                              a->command->usage);
    const zero_diff_options options = {.a = a->data[0], .b = a->data[1]};
    zero_diff_result result;
    zero_error error = {0};
    if (zero_diff(&options, cli_print, NULL, &result, &error) != ZERO_OK)
        return cli_fail(a->command, &error);
    return result.identical ? 0 : CLI_DIFFERS;
}
