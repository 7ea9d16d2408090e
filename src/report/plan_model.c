// The plan of a model at every stage and at several numbers of ranks, by the same functions that
// plan a run (contract 5).
#include "base/cpu.h"
#include "config/config_ranks.h"
#include "plan/settings_fields.h"
#include "setup/backend_choice.h"
#include "setup/machine_facts.h"
#include "setup/placement.h"
#include "setup/resolve.h"
#include "setup/run_setup.h"
#include "setup/pipeline_stages.h"
#include "setup/model_lora.h"
#include "setup/model_part.h"
#include "setup/model_preference.h"
#include "setup/model_task.h"
#include "report/plan_show.h"
#include "report/plan_time.h"

int zr_planner_job(const zr_planner *p)
{
    return p->options->ranks > 0 ? p->options->ranks : zr_config_model_ranks(p->config);
}

int zr_planner_threads(const zr_planner *p)
{
    return p->config->offload.automatic ? ZR_MAX(zr_cpu_budget_get().allowed / zr_planner_job(p), 1)
                                        : 1;
}

int zr_planner_together(const zr_planner *p, int ranks)
{
    return p->machines ? p->machines->largest : ranks;
}

int64_t zr_planner_memory(const zr_planner *p, int ranks)
{
    int64_t memory = p->options->memory;
    return memory > 0 ? ZR_MAX(memory / zr_planner_together(p, ranks), 1) : 0;
}

static zero_status read_model_shape(zr_planner *p, zero_error *error)
{
    const zero_plan_options *options = p->options;
    const zr_subject_question question = {.new_spec = options->new_spec,
                                          .model = options->model,
                                          .needs_no_weights = true,
                                          .seq = options->seq,
                                          .logger = &options->logger};
    ZERO_TRY(zr_model_choice_read(&question, &p->subject, error));
    return zr_lm_create(&p->subject.model, &p->model, error);
}

// Chooses the ranks of the job, if the options do not give them: the first number that elasticity
// allows, or those of one model.
static zero_status find_ranks(zr_resolution *how, zr_config *config, zero_error *error)
{
    ZERO_TRY(zr_config_find_elastic(config, error));
    bool elastic = config->elastic && config->elastic->count;
    if (!how->facts.world)
        how->facts.world =
            zr_config_model_ranks(config) * (elastic ? (int)config->elastic->ranks[0] : 1);
    return ZERO_OK;
}

static zero_status resolve_config(zr_planner *p, zero_error *error)
{
    const zero_plan_options *options = p->options;
    zr_resolution how = {
        .name = options->config_path,
        .flags = options->overrides,
        .flag_count = options->override_count,
        .quiet = true,
        .facts = zr_model_choice_facts(&p->subject, ZR_MAX(options->ranks, 0)),
        .logger = &options->logger,
        .amend = find_ranks,
    };
    return zr_resolve_file(&how, &p->config, error);
}

static zero_status read_machines(zr_planner *p, zero_error *error)
{
    const zero_plan_options *options = p->options;
    if (!options->machines)
        return ZERO_OK;
    if (p->config->offload.automatic)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "libzero.offload is auto, which is planned for ranks of one machine: "
                       "--machines needs offload_optimizer and offload_param");
    ZERO_TRY(zr_plan_machines_read(options->machines, options->ranks, &p->machines, error));
    return zr_plan_machines_cut(p->machines, p->model, p->subject.name, p->config, error);
}

static zero_status read_model_config(zr_planner *p, zero_error *error)
{
    ZERO_TRY(resolve_config(p, error));
    bool adapts, prefers, classifies, tiled = zr_model_tiles_apply(p->config, &p->subject.model);
    ZERO_TRY(zr_model_lora_apply(p->config, &p->subject.model, &adapts, error));
    ZERO_TRY(zr_model_preference_apply(p->config, &p->subject.model, &prefers, error));
    ZERO_TRY(zr_model_task_apply(p->config, &p->subject.model, &classifies, error));
    if (tiled || adapts || prefers || classifies) {
        zr_lm_free(p->model);
        p->model = NULL;
        ZERO_TRY(zr_lm_create(&p->subject.model, &p->model, error));
    }
    ZERO_TRY(zr_model_part_check(&p->subject.model, p->subject.name, p->config, error));
    p->settings = zr_settings_of(p->config, false);
    return read_machines(p, error);
}

static zero_status open_machine(zr_planner *p, zero_error *error)
{
    zr_backend_configure(p->config);
    ZERO_TRY(zr_said_queue_open(zr_planned_backend(p->options->backend), 1, &p->queue, error));
    zr_machine_fill(p->queue, NULL, &p->machine);
    if (p->machine.far && p->options->predict)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "--predict times the processor's kernels, and --backend %s is a card: zero "
                       "simulate predicts machines with cards",
                       p->options->backend);
    // What a card has bounds the plan as a budget that was given would.
    if (p->machine.unused_bytes > 0 && p->config->offload.device_memory == 0)
        return zr_config_choose(p->config, "libzero.device_memory", p->machine.unused_bytes, error);
    return ZERO_OK;
}

static zero_status choose_placement(const zr_planner *p, zr_placement_answer *answer,
                                    zero_error *error)
{
    const zero_plan_options *options = p->options;
    const zr_imagined_ranks ranks = {.count = zr_planner_job(p),
                                     .memory = zr_planner_memory(p, zr_planner_job(p))};
    zero_options engine = {
        .model = p->model,
        .shape = {.seq = p->subject.seq},
        .threads = zr_planner_threads(p),
        .backend = zr_planned_backend(options->backend),
        .logger = options->logger,
    };
    ZERO_TRY(zero_comm_self(&engine.comm, error));
    zero_status status =
        zr_placement_of_options(&engine, &ranks, &p->subject.model, p->config, answer, error);
    zero_comm_destroy(engine.comm);
    return status;
}

static zero_status measure_if_asked(const zr_planner *p, zero_error *error)
{
    zr_plan_time time;
    if (!p->options->predict)
        return ZERO_OK;
    zero_status status = zr_plan_time_open(p, &time, error);
    zr_plan_time_close(&time);
    return status;
}

static zero_status answer_with_placement(const zr_planner *p, zr_buffer *out, zero_error *error)
{
    zr_placement_answer answer;
    ZERO_TRY(measure_if_asked(p, error));
    ZERO_TRY(choose_placement(p, &answer, error));
    if (p->options->json) {
        zr_json_writer w = zr_json_writer_on(out, ZR_JSON_COMPACT);
        zr_json_begin_object(&w, NULL);
        zr_json_integer(&w, "parameters", zr_model_parameters(p->model));
        zr_json_integer(&w, "ranks", zr_planner_job(p));
        zr_json_integer(&w, "micro_batch", p->config->micro_batch);
        zr_placement_json(&answer, &w);
        zr_json_line(&w, 0);
        zr_settings_json(&p->settings, &w, "settings");
        zr_json_end(&w);
        zr_buffer_printf(out, "\n");
        return ZERO_OK;
    }
    zr_planner_title(p, out);
    zr_placement_table(&answer, p->options->columns, out);
    zr_buffer_printf(out, "\noffload  auto: ");
    zr_placement_describe(&answer, ZR_PLACEMENT_LINES, out);
    zr_buffer_printf(out, answer.chosen < 0 ? "\nA shorter window (--seq), a smaller micro-batch "
                                              "(--micro-batch) and more ranks need less.\n"
                                            : "\n\nThe command:\n");
    if (answer.chosen >= 0)
        zr_planner_command(p, NULL, out);
    return ZERO_OK;
}

// Shows the program of one plan: with a pipeline, that of its first stage.
static zero_status show_program(const zr_planner *p, const zr_plan_point *at, zr_buffer *out,
                                zero_error *error)
{
    zr_plan_asked asked;
    zr_estimate estimate;
    zr_rank_plan of = {0};
    zr_planner_ask(p, at, p->machine.threads, &asked);
    asked.question.unlimited = true;
    zero_status status = zr_estimate_begin(&asked.question, &estimate, error);
    if (status == ZERO_OK)
        status = zr_estimate_plan(&estimate, 0, 0, NULL, &of, error);
    if (status == ZERO_OK)
        status = zr_plan_show(of.plan, p->options->view, p->subject.name, out, error);
    zr_rank_plan_free(&of);
    zr_estimate_free(&estimate);
    return status;
}

static zero_status show_pipeline(const zr_planner *p, const zr_plan_point *at, zr_buffer *out,
                                 zero_error *error)
{
    char hint[256];
    if (zr_config_pipeline_hint(p->config, hint, sizeof hint))
        zr_log(&p->options->logger, ZERO_LOG_WARNING, "%s", hint);
    return zr_planner_draw_pipeline(p, at, out, error);
}

// Shows the plan of the configuration, as the table's command would run it: at its stage, or at the
// first stage that can offload what it offloads.
static zero_status show_configured_plan(const zr_planner *p, zr_buffer *out, zero_error *error)
{
    int ranks[ZR_PLANNER_USUAL] = {1};
    zr_plan_point at = {.stage = p->settings.stage};
    if (p->config->offload.automatic)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "libzero.offload is auto: only one placement has a program; the plan's "
                       "table says which "
                       "would be chosen, and offload_optimizer and offload_param name one");
    zr_planner_ranks(p, ranks);
    while (at.stage < 3 && !zr_planner_has_stage(p, at.stage))
        at.stage++;
    at.ranks = ranks[0];
    at.batch = zr_planner_batch(p, at.ranks);
    bool draws = p->options->view != ZERO_PLAN_PROGRAM;
    return draws && p->config->pipeline.stages > 1 ? show_pipeline(p, &at, out, error)
                                                   : show_program(p, &at, out, error);
}

static zero_status write_plan_table(zr_planner *p, zr_buffer *out, zero_error *error)
{
    const zero_plan_options *options = p->options;
    zr_plan_row rows[ZR_PLANNER_MOST_ROWS];
    zr_plan_time time;
    int count = 0;
    zero_status status = zr_plan_time_open(p, &time, error);
    p->time = &time;
    if (status == ZERO_OK)
        status = zr_planner_rows(p, rows, &count, error);
    if (status == ZERO_OK && options->json)
        zr_plan_json(rows, count, p->subject.name, p->settings.precision.name,
                     (double)zr_model_parameters(p->model), &p->settings, p->config->elastic, out);
    else if (status == ZERO_OK)
        zr_planner_text(p, rows, count, out);
    zr_plan_rows_free(rows, count);
    zr_plan_time_close(&time);
    p->time = NULL;
    return status;
}

static zero_status answer_by_view(zr_planner *p, zr_buffer *out, zero_error *error)
{
    if (p->options->view != ZERO_PLAN_TABLE)
        return show_configured_plan(p, out, error);
    return p->config->offload.automatic ? answer_with_placement(p, out, error)
                                        : write_plan_table(p, out, error);
}

zero_status zr_plan_by_model(const zero_plan_options *options, zr_buffer *out, zero_error *error)
{
    zr_planner p = {.options = options};
    zero_status status = read_model_shape(&p, error);
    if (status == ZERO_OK)
        status = read_model_config(&p, error);
    if (status == ZERO_OK)
        status = open_machine(&p, error);
    if (status == ZERO_OK)
        status = answer_by_view(&p, out, error);
    zr_queue_close(p.queue);
    zr_config_destroy(p.config);
    zr_plan_machines_free(p.machines);
    zr_lm_free(p.model);
    zr_model_choice_free(&p.subject);
    return status;
}
