// zero plan: writes the bytes of every rank, or the program of a step, without a run.
#include "commands.h"
#include "console.h"
#include "option_table.h"
#include "running.h"

#include <string.h>

// Checks whether --program or --draw agrees with the other options. Returns 0 if so; otherwise
// prints a message and returns the exit code.
static int check_view(const cli_arguments *a)
{
    const char *view = a->given[OPT_PROGRAM] ? "--program" : "--draw";
    if (a->given[OPT_PROGRAM] && a->given[OPT_DRAW])
        return cli_fail_usage(a->command,
                              "--program and --draw are both given: one of them at a time");
    if (a->given[OPT_JSON])
        return cli_fail_usage(
            a->command, "--json and %s are both given: a program is not written as JSON", view);
    if (a->given[OPT_PREDICT])
        return cli_fail_usage(a->command, "--predict belongs to the table of bytes, not to %s",
                              view);
    if (a->given[OPT_PARAMS])
        return cli_fail_usage(
            a->command,
            "--params plans by formulas, which have no program: %s needs --new or "
            "--model",
            view);
    if (a->given[OPT_MEMORY])
        return cli_fail_usage(
            a->command,
            "--memory asks what fits, and %s shows one plan: --ranks and --stage say "
            "which",
            view);
    return 0;
}

static zero_plan_view choose_view(const cli_arguments *a)
{
    if (a->given[OPT_DRAW])
        return strcmp(a->text[OPT_DRAW], "-") == 0 ? ZERO_PLAN_LETTERS : ZERO_PLAN_DRAWING;
    return a->given[OPT_PROGRAM] ? ZERO_PLAN_PROGRAM : ZERO_PLAN_TABLE;
}

// Returns the name of the first of these options that is given; NULL if none is.
static const char *first_given(const cli_arguments *a, const cli_option_id *ids, int count)
{
    for (int i = 0; i < count; i++)
        if (a->given[ids[i]])
            return cli_option_row(ids[i])->name;
    return NULL;
}

// Checks whether --params is given with what its formulas do not know. Returns 0, or the exit code
// after a message.
static int check_params(const cli_arguments *a)
{
    static const cli_option_id tensor[] = {OPT_TENSOR, OPT_SEQUENCE_PARALLEL},
                               pipeline[] = {OPT_PIPELINE, OPT_SCHEDULE, OPT_SPLIT};
    const char *of_tensor = first_given(a, tensor, 2), *of_pipeline = first_given(a, pipeline, 3);
    if (a->given[OPT_DEVICE_MEMORY] || a->given[OPT_HOST_MEMORY])
        return cli_fail_usage(a->command, "--params plans by formulas that know of one memory: "
                                          "--memory BYTES says how large it is");
    if (a->given[OPT_MACHINES])
        return cli_fail_usage(a->command, "--params plans by formulas that know no messages: "
                                          "--machines needs --new or --model");
    if (a->given[OPT_PREDICT])
        return cli_fail_usage(a->command, "--params plans by formulas that know no kernels: "
                                          "--predict needs --new or --model");
    if (of_tensor)
        return cli_fail_usage(a->command,
                              "--params plans by formulas that know no tensor parallelism: %s "
                              "needs --new or --model",
                              of_tensor);
    if (of_pipeline)
        return cli_fail_usage(a->command,
                              "--params plans by formulas that know no pipelines: %s needs --new "
                              "or --model",
                              of_pipeline);
    return 0;
}

// Checks what only this command knows about its options. Returns 0, or the exit code after a
// message.
static int check_plan_usage(const cli_arguments *a)
{
    int models = a->given[OPT_NEW] + a->given[OPT_MODEL] + a->given[OPT_PARAMS];
    if (models != 1)
        return cli_fail_usage(a->command, "%s of --new, --model and --params; usage: zero plan %s",
                              models ? "more than one" : "none", a->command->usage);
    if (a->given[OPT_MACHINES] && !a->given[OPT_RANKS])
        return cli_fail_usage(a->command,
                              "--machines %s says where the ranks of one plan are: it "
                              "needs --ranks N",
                              a->text[OPT_MACHINES]);
    int refused = choose_view(a) == ZERO_PLAN_TABLE ? 0 : check_view(a);
    if (refused)
        return refused;
    return a->given[OPT_PARAMS] ? check_params(a) : 0;
}

static zero_plan_options plan_options(const cli_arguments *a, const cli_overrides *overrides)
{
    zero_plan_view view = choose_view(a);
    return (zero_plan_options){
        .struct_size = sizeof(zero_plan_options),
        .new_spec = a->text[OPT_NEW],
        .model = a->text[OPT_MODEL],
        .parameters = a->real[OPT_PARAMS],
        .config_path = a->text[OPT_CONFIG],
        .overrides = overrides->at,
        .override_count = overrides->count,
        .seq = a->integer[OPT_SEQ],
        .ranks = (int)a->integer[OPT_RANKS],
        .memory = a->integer[OPT_MEMORY],
        .json = a->given[OPT_JSON],
        .logger = {.write = cli_log_stderr, .user = (void *)a},
        .backend = a->text[OPT_BACKEND],
        .view = view,
        .path = view == ZERO_PLAN_DRAWING ? a->text[OPT_DRAW] : NULL,
        .machines = a->text[OPT_MACHINES],
        .predict = a->given[OPT_PREDICT],
        .columns = cli_columns(),
    };
}

int cli_plan(const cli_arguments *a)
{
    int code = check_plan_usage(a);
    if (code)
        return code;
    cli_overrides overrides;
    cli_overrides_fill(a, &overrides);
    const zero_plan_options options = plan_options(a, &overrides);
    zero_error error = {0};
    if (zero_plan(&options, cli_print, NULL, &error) != ZERO_OK)
        return cli_fail(a->command, &error);
    if (options.path)
        fprintf(stderr, "%s: a drawing of the program\n", options.path);
    return 0;
}
