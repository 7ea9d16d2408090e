// zero tokenize and zero tokenizer train: make token files and tokenizers from text and records.
#include "commands.h"
#include "failure.h"

#include <unistd.h>

// Rewrites one line on a terminal; writes nothing elsewhere.
static void show(void *user, int64_t done, int64_t total)
{
    int *shown = user;
    int percent = total > 0 ? (int)((double)done / (double)total * 100) : 0;
    if (isatty(STDERR_FILENO) && percent != *shown)
        fprintf(stderr, "\r%3d%%", percent);
    *shown = percent;
}

static void clear(int shown)
{
    if (isatty(STDERR_FILENO) && shown >= 0)
        fputs("\r     \r", stderr);
}

static zero_tokenize_options tokenize_options(const cli_arguments *a, int *shown)
{
    return (zero_tokenize_options){
        .struct_size = sizeof(zero_tokenize_options),
        .tokenizer = a->text[OPT_TOKENIZER],
        .data = a->data,
        .data_count = a->data_count,
        .out = cli_out(a),
        .field = a->text[OPT_FIELD],
        .chat = a->text[OPT_CHAT],
        .logger = {.write = cli_log_stderr},
        .special = a->given[OPT_SPECIAL],
        .threads = (int)a->integer[OPT_THREADS],
        .overwrite = a->given[OPT_OVERWRITE],
        .progress = show,
        .user = shown,
    };
}

int cli_tokenize(const cli_arguments *a)
{
    int shown = -1;
    zero_error error = {0};
    zero_tokenize_result result;
    if (!a->given[OPT_TOKENIZER] || !a->data_count)
        return cli_fail_usage(a->command, "%s is missing; usage: zero tokenize %s",
                              a->given[OPT_TOKENIZER] ? "--data" : "--tokenizer",
                              a->command->usage);
    const zero_tokenize_options options = tokenize_options(a, &shown);
    zero_status status = zero_tokenize(&options, &result, &error);
    clear(shown);
    if (status != ZERO_OK)
        return cli_fail(a->command, &error);
    fprintf(stderr, "%s: %lld tokens of %d bytes, from %lld bytes in %lld %s; %.1f MB/s\n",
            options.out, (long long)result.tokens, result.token_bytes, (long long)result.bytes,
            (long long)result.documents, result.documents == 1 ? "document" : "documents",
            (double)result.bytes / 1e6 / result.seconds);
    return 0;
}

static zero_tokenizer_train_options learning_options(const cli_arguments *a, int *shown)
{
    return (zero_tokenizer_train_options){
        .struct_size = sizeof(zero_tokenizer_train_options),
        .data = a->data,
        .data_count = a->data_count,
        .field = a->text[OPT_FIELD],
        .vocabulary = (int32_t)a->integer[OPT_VOCAB],
        .out_dir = cli_out(a),
        .overwrite = a->given[OPT_OVERWRITE],
        .progress = show,
        .user = shown,
    };
}

int cli_tokenizer(const cli_arguments *a)
{
    int shown = -1;
    zero_error error = {0};
    zero_tokenizer_train_result result;
    if (!a->operand || !a->data_count)
        return cli_fail_usage(a->command, "%s is missing; usage: zero tokenizer %s",
                              a->operand ? "--data" : "the word train", a->command->usage);
    const zero_tokenizer_train_options options = learning_options(a, &shown);
    zero_status status = zero_tokenizer_train(&options, &result, &error);
    clear(shown);
    if (status != ZERO_OK)
        return cli_fail(a->command, &error);
    fprintf(stderr, "%s/tokenizer.json: %d tokens learnt from %lld bytes in %.1f s%s\n",
            options.out_dir, result.vocabulary, (long long)result.bytes, result.seconds,
            result.vocabulary < options.vocabulary ? "; no other pair occurs twice" : "");
    return 0;
}
