// zero convert, inspect, diff and verify: checkpoints, runs and models on disk.
#include "commands.h"
#include "running.h"

#include <string.h>
#include <unistd.h>

// ---- zero convert: writes checkpoints and models as a model directory or a GGUF file, and a
// checkpoint of DeepSpeed as one of libzero.

// The percentage that was shown last.
typedef struct bar {
    int percent;
} bar;

static void progress(void *user, int64_t done, int64_t total)
{
    bar *shown = user;
    int percent = total > 0 ? (int)(100 * ((double)done / (double)total)) : 100;
    if (percent == shown->percent)
        return;
    shown->percent = percent;
    fprintf(stderr, "\r\033[K%d%%", percent);
    fflush(stderr);
}

static void say_convert(void *user, zero_log_level level, const char *message)
{
    const cli_arguments *a = user;
    if (level <= ZERO_LOG_WARNING)
        fprintf(stderr, "%s%s\n", isatty(STDERR_FILENO) ? "\r\033[K" : "", message);
    else if (level == ZERO_LOG_INFO && !a->given[OPT_QUIET])
        printf("%s%s\n", isatty(STDERR_FILENO) ? "\r\033[K" : "", message);
}

static const char *converted_name(const cli_arguments *a)
{
    bool gguf = a->given[OPT_FORMAT] && !strcmp(a->text[OPT_FORMAT], "gguf");
    return gguf && !a->given[OPT_TO] ? "converted.gguf" : cli_out(a);
}

int cli_convert(const cli_arguments *a)
{
    if (!a->given[OPT_FROM])
        return cli_fail_usage(a->command,
                              "convert what? --from PATH is missing; usage: zero convert %s",
                              a->command->usage);
    bar shown = {-1};
    bool shows = isatty(STDERR_FILENO) && !a->given[OPT_QUIET];
    zero_convert_options options = {.from = a->text[OPT_FROM],
                                    .to = converted_name(a),
                                    .format = a->text[OPT_FORMAT],
                                    .dtype = a->text[OPT_DTYPE],
                                    .shard_bytes = a->integer[OPT_SHARD_SIZE],
                                    .model_dir = a->text[OPT_MODEL],
                                    .overwrite = a->given[OPT_OVERWRITE],
                                    .type = a->text[OPT_TYPE],
                                    .base_dir = a->text[OPT_BASE],
                                    .adapter = a->text[OPT_ADAPTER],
                                    .logger = {.write = say_convert, .user = (void *)a},
                                    .progress = shows ? progress : NULL,
                                    .progress_user = &shown};
    zero_error error = {0};
    zero_status status = zero_convert(&options, &error);
    if (shows)
        fputs("\r\033[K", stderr);
    return status == ZERO_OK ? 0 : cli_fail(a->command, &error);
}

// ---- zero inspect: writes what checkpoints, runs and models hold, for one PATH after another.

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

// ---- zero diff: whether two runs, or two sets of tensors, are the same. If not, its exit code is
// 1, like that of diff and cmp.

int cli_diff(const cli_arguments *a)
{
    if (a->data_count != 2)
        return cli_fail_usage(a->command, "two paths are compared; usage: zero diff %s",
                              a->command->usage);
    const zero_diff_options options = {
        .a = a->data[0], .b = a->data[1], .json = a->given[OPT_JSON]};
    zero_diff_result result;
    zero_error error = {0};
    if (zero_diff(&options, cli_print, NULL, &result, &error) != ZERO_OK)
        return cli_fail(a->command, &error);
    return result.identical ? 0 : CLI_DIFFERS;
}

// ---- zero verify: whether a run is what its checkpoints say it is. If not, its exit code is 1.

static int verify_rank(const cli_arguments *a, zero_comm *comm)
{
    const zero_verify_options options = {.run = a->operand,
                                         .from = a->integer[OPT_FROM_STEP],
                                         .to = a->integer[OPT_TO_STEP],
                                         .data = a->data_count ? a->data : NULL,
                                         .data_count = a->data_count,
                                         .threads = (int)a->integer[OPT_THREADS],
                                         .json = a->given[OPT_JSON],
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
