// zero generate: text on standard output as it comes.
#include "failure.h"
#include "terminal.h"

static int emit(void *user, const char *text, size_t length)
{
    return !cli_put_text(text, length) || fflush(stdout) != 0;
}

int cli_generate(const cli_arguments *a)
{
    if (!a->given[OPT_MODEL])
        return cli_fail_usage(a->command, "no model: --model DIR names one");
    zero_generate_options options = {
        .struct_size = sizeof options, .model_dir = a->text[OPT_MODEL], .prompt = a->text[OPT_PROMPT], .tokens = a->integer[OPT_TOKENS],
        .temperature = a->real[OPT_TEMPERATURE], .top_k = (int)a->integer[OPT_TOP_K], .top_p = a->real[OPT_TOP_P],
        .seed = a->given[OPT_SEED] ? (uint64_t)a->integer[OPT_SEED] : 1337, .threads = (int)a->integer[OPT_THREADS], .backend = a->text[OPT_BACKEND],
        .config_path = a->text[OPT_CONFIG], .dtype = a->text[OPT_DTYPE],
        .device_memory = a->integer[OPT_DEVICE_MEMORY], .host_memory = a->integer[OPT_HOST_MEMORY],
        .emit = emit, .logger = {.write = cli_log_stderr},
    };
    zero_error error = {0};
    if (a->text[OPT_PROMPT])
        fputs(a->text[OPT_PROMPT], stdout);
    if (zero_generate(&options, &error) != ZERO_OK)
        return cli_fail(a->command, &error);
    putchar('\n');
    return 0;
}
