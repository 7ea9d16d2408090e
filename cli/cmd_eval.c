// zero eval: runs one rank, or starts its ranks as their parent. Rank 0 writes the measures of a
// text to standard output, and everything else to stderr.
#include "commands.h"
#include "running.h"

#include <zero/commands.h>

// `first`: this is the one rank that prints.
static zero_eval_options eval_options_of(const cli_arguments *a, bool first)
{
    return (zero_eval_options){
        .struct_size = sizeof(zero_eval_options),
        CLI_LOAD_OPTIONS(a, first),
        .data = a->data,
        .data_count = a->data_count,
        .field = cli_field(a),
        .chat = a->text[OPT_CHAT],
        .chat_date = a->text[OPT_CHAT_DATE],
        .attention = a->text[OPT_ATTENTION],
        .seq = a->integer[OPT_SEQ],
        .sequence_parallel = a->given[OPT_SEQUENCE_PARALLEL],
        .tokenizer = a->text[OPT_TOKENIZER],
        .preference = a->text[OPT_PREFERENCE],
        .task = a->text[OPT_TASK],
        .reference = a->text[OPT_REFERENCE],
    };
}

typedef struct labelling { // sticky: after a failure nothing more is printed
    zero_status status;
    zero_error *error;
} labelling;

static void print_label(void *user, const zero_labelled_text *text)
{
    labelling *l = user;
    if (l->status == ZERO_OK)
        l->status = zero_labelled_text_report(text, cli_print, NULL, l->error);
}

static int eval_rank(const cli_arguments *a, zero_comm *comm)
{
    bool first = zero_comm_rank(comm) == 0;
    zero_eval_options options = eval_options_of(a, first);
    zero_eval_result result;
    zero_preference_result preferred = {0};
    options.preferred = &preferred;
    zero_error error = {0};
    labelling labels = {.error = &error};
    options.labelled = first && a->given[OPT_JSON] ? print_label : NULL;
    options.labelled_user = &labels;
    if (zero_eval(comm, &options, &result, &error) != ZERO_OK || labels.status != ZERO_OK)
        return cli_fail_rank(a->command, comm, &error);
    if (first && zero_evaluation_report(&result, preferred.pairs ? &preferred : NULL,
                                        a->given[OPT_JSON], cli_print, NULL, &error))
        return cli_fail_rank(a->command, comm, &error);
    return 0;
}

int cli_eval(const cli_arguments *a)
{
    if (!a->given[OPT_MODEL])
        return cli_fail_usage(a->command, "no model: --model DIR names one");
    if (!a->data_count)
        return cli_fail_usage(a->command, "no text: --data FILE names what to evaluate");
    return cli_run_ranks(a, eval_rank);
}
