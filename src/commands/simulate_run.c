// zero_simulate: from options, or a file that describes a run, to its step, and what failures cost.
#include "base/errors.h"
#include "setup/model_choice.h"
#include "commands/simulate_report.h"

#include <math.h>
#include <string.h>

static zero_status set_model(const zero_simulate_options *options, zr_sim_run *run,
                             zero_error *error)
{
    const zr_subject_question question = {.new_spec = options->new_spec,
                                          .model = options->model,
                                          .needs_no_weights = true,
                                          .as_known = true,
                                          .seq = options->seq,
                                          .logger = &options->logger};
    zr_model_choice subject;
    zero_status status = zr_model_choice_read(&question, &subject, error);
    if (status == ZERO_OK) {
        zr_sim_run_set_model(&subject.model, subject.seq, run);
        run->parameters = (double)subject.parameters;
    }
    zr_model_choice_free(&subject);
    return status;
}

static zero_status read_recompute(const char *text, zr_sim_run *run, zero_error *error)
{
    static const struct {
        const char *name;
        zr_sim_recompute recompute;
    } rows[] = {{"none", ZR_SIM_KEEP}, {"selective", ZR_SIM_SELECTIVE}, {"full", ZR_SIM_FULL}};
    for (int i = 0; text && i < ZR_COUNT(rows); i++)
        if (!strcmp(rows[i].name, text)) {
            run->recompute = rows[i].recompute;
            return ZERO_OK;
        }
    return text ? zr_fail(error, ZERO_ERR_USAGE,
                          "recompute \"%s\": there are none, selective and full", text)
                : ZERO_OK;
}

static zero_status read_products(const char *text, zr_sim_run *run, zero_error *error)
{
    if (!text)
        return ZERO_OK;
    bool eight = !strcmp(text, "fp8");
    if (!eight && strcmp(text, "fp4"))
        return zr_fail(error, ZERO_ERR_USAGE, "products \"%s\": there are fp8 and fp4", text);
    run->number = eight ? ZR_SIM_8_BIT : ZR_SIM_4_BIT;
    if (run->machine.peak[run->number] > 0)
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_USAGE, "products %s: %s of %s has none", text,
                   run->machine.device, run->machine.name);
}

// Sets the options that override the configuration, which has been read.
static zero_status set_flags(const zero_simulate_options *options, zr_sim_run *run,
                             zero_error *error)
{
    const zero_parallel *parallel = &options->parallel;
    run->devices = options->ranks;
    run->tensor = parallel->tensor ? parallel->tensor : run->tensor;
    run->context = options->context;
    run->pipeline = parallel->pipeline ? parallel->pipeline : run->pipeline;
    run->sequence_parallel |= parallel->sequence_parallel != 0;
    run->global_batch = options->global_batch ? options->global_batch : run->global_batch;
    if (parallel->schedule &&
        !zr_pipeline_kind_read(parallel->schedule, &run->schedule, &run->chunks))
        return zr_fail(error, ZERO_ERR_USAGE, "schedule \"%s\": there are %s", parallel->schedule,
                       ZR_PIPELINE_KINDS);
    ZERO_TRY(read_recompute(options->recompute, run, error));
    return read_products(options->products, run, error);
}

static zero_status set_framework(const zr_sim_catalogue *catalogue, const char *name,
                                 zr_sim_run *run, zero_error *error)
{
    zr_buffer list = {0};
    if (zr_sim_framework_find(catalogue, name, &run->framework) || !name)
        return ZERO_OK;
    for (int i = 0; i < catalogue->framework_count; i++)
        zr_buffer_printf(&list, "%s%s", i ? ", " : "", catalogue->frameworks[i].name);
    zero_status status = zr_fail(error, ZERO_ERR_USAGE, "no framework \"%s\"; there are %s", name,
                                 list.failed ? "others" : list.data);
    zr_buffer_free(&list);
    return status;
}

static zero_status assemble_run(const zero_simulate_options *options,
                                const zr_sim_catalogue *catalogue, zr_sim_run *run,
                                zero_error *error)
{
    ZERO_TRY(zr_sim_machine_find(catalogue, options->machine, &run->machine, error));
    run->number = run->machine.peak[ZR_SIM_16_BIT] > 0 ? ZR_SIM_16_BIT : ZR_SIM_FP32;
    ZERO_TRY(set_framework(catalogue, options->framework, run, error));
    zr_sim_run_set_attention(run);
    if (options->run)
        return zr_sim_run_read(options->run, run, error);
    ZERO_TRY(set_model(options, run, error));
    ZERO_TRY(zr_simulate_configure(options, run, error));
    ZERO_TRY(set_flags(options, run, error));
    ZERO_TRY(zr_sim_run_complete(run, error));
    return zr_sim_run_check(run, error);
}

// Finds how long the whole training takes, with failures and saving if the options have them.
static void find_length(const zero_simulate_options *options, zr_simulate_answer *answer)
{
    zr_simulate_length *length = &answer->length;
    const zr_sim_run *run = &answer->run;
    double tokens = (double)run->global_batch * (double)run->seq, // of a step
        goodput = answer->saving.asked ? answer->saving.survival.goodput : 1;
    *length = (zr_simulate_length){.asked = options->tokens || options->steps};
    if (!length->asked)
        return;
    length->steps =
        options->steps ? (double)options->steps : ceil((double)options->tokens / tokens);
    length->tokens = length->steps * tokens;
    length->seconds = length->steps * answer->step.seconds / goodput;
    length->low = length->steps * answer->step.low / goodput;
    length->high = length->steps * answer->step.high / goodput;
    length->device_hours = length->seconds / 3600 * run->devices;
}

static void find_remedies(zr_simulate_answer *answer)
{
    answer->remedy.changes[0] = answer->remedy_of_length.changes[0] = 0;
    if (answer->fits)
        return;
    if (!zr_sim_remedy_find(&answer->run, false, &answer->remedy_of_length))
        answer->remedy_of_length.changes[0] = 0;
    if (!zr_sim_remedy_find(&answer->run, true, &answer->remedy))
        answer->remedy.changes[0] = 0;
}

static zero_status answer_question(const zero_simulate_options *options,
                                   const zr_sim_catalogue *catalogue, zr_buffer *out,
                                   zero_error *error)
{
    zr_simulate_answer answer = {.model = options->new_spec ? options->new_spec
                                          : options->model  ? options->model
                                                            : options->run};
    bool best = options->order && !strcmp(options->order, "best");
    ZERO_TRY(
        zr_sim_order_read(options->order && !best ? options->order : "tensor", &answer.run, error));
    ZERO_TRY(assemble_run(options, catalogue, &answer.run, error));
    zero_status status = best ? zr_sim_best_order(&answer.run, &answer.step, error)
                              : zr_sim_step_find(&answer.run, &answer.step, error);
    if (status != ZERO_OK && status != ZERO_ERR_LIMIT)
        return status;
    answer.fits = status == ZERO_OK;
    find_remedies(&answer);
    ZERO_TRY(zr_simulate_save(options, &answer, error));
    find_length(options, &answer);
    if (options->json)
        zr_simulate_json(&answer, out);
    else
        zr_simulate_text(&answer, out);
    return ZERO_OK;
}

static zero_status check_numbers(const zero_simulate_options *options, zero_error *error)
{
    int64_t numbers[] = {options->parallel.tensor,
                         options->context,
                         options->parallel.pipeline,
                         options->global_batch,
                         options->seq,
                         options->tokens,
                         options->steps};
    double reals[] = {options->mtbf_hours, options->checkpoint_rate, options->restart};
    for (int i = 0; i < ZR_COUNT(numbers); i++)
        if (numbers[i] < 0)
            return zr_fail(error, ZERO_ERR_USAGE, "zero_simulate: %lld in options, below 0",
                           (long long)numbers[i]);
    for (int i = 0; i < ZR_COUNT(reals); i++)
        if (!(reals[i] >= 0))
            return zr_fail(error, ZERO_ERR_USAGE, "zero_simulate: %g in options, below 0",
                           reals[i]);
    return ZERO_OK;
}

static bool asks_for_list(const zero_simulate_options *options)
{
    return !options->run && !options->new_spec && !options->model && options->machine &&
           !strcmp(options->machine, "list");
}

static void list_machines(const zero_simulate_options *options, const zr_sim_catalogue *catalogue,
                          zr_buffer *out)
{
    if (options->json)
        zr_sim_machine_list_json(catalogue, out);
    else
        zr_sim_machine_list(catalogue, options->explain, out);
}

static zero_status check_question(const zero_simulate_options *options, zero_error *error)
{
    if (options->tokens && options->steps)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "zero_simulate: options.tokens and options.steps are both given");
    if (asks_for_list(options))
        return ZERO_OK;
    if (!!options->new_spec + !!options->model + !!options->run != 1)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "zero_simulate: exactly one of options.new_spec, options.model and "
                       "options.run must be given");
    if (!options->machine || (!options->run && options->ranks <= 0))
        return zr_fail(error, ZERO_ERR_USAGE,
                       "zero_simulate: options.machine and options.ranks must be given%s",
                       options->run ? "; options.run says the ranks" : "");
    return check_numbers(options, error);
}

zero_status zero_simulate(const zero_simulate_options *options,
                          void (*write)(void *user, const char *text), void *user,
                          zero_error *error)
{
    ZR_NEED(error, options);
    ZR_NEED(error, write);
    zr_buffer text = {0};
    zr_sim_catalogue catalogue;
    ZERO_TRY(check_question(options, error));
    zero_status status = zr_sim_catalogue_open(&catalogue, error);
    if (status == ZERO_OK && asks_for_list(options))
        list_machines(options, &catalogue, &text);
    else if (status == ZERO_OK)
        status = answer_question(options, &catalogue, &text, error);
    zr_sim_catalogue_close(&catalogue);
    if (status == ZERO_OK && text.failed)
        status = zr_fail(error, ZERO_ERR_MEMORY, "no memory for the text of the simulation");
    if (status == ZERO_OK)
        write(user, text.data);
    zr_buffer_free(&text);
    return status;
}
