// The plan of a model at every stage and several rank counts, by the same functions that plan a run (contract 5).
#include "base/bytes_text.h"
#include "base/cpu.h"
#include "files/run_directory.h"
#include "layers/layers.h"
#include "model/unit.h"
#include "plan/settings_fields.h"
#include "setup/defaults.h"
#include "setup/machine_facts.h"
#include "setup/placement.h"
#include "setup/resolve.h"
#include "setup/tiling.h"
#include "tools/plan_report.h"
#include "tools/plan_views.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum { MOST_ROWS = 64, MOST_BATCH = 4096, USUAL = 6, BYTE_VOCABULARY = 256, ASSUMED_STEPS = 1000 };

typedef struct planner {
    const zero_plan_options *options;
    char *model_path; // of options.model itself
    zr_lm_config model_config;
    zr_lm_shape shape;
    zero_model *model;
    bool assumed_vocabulary;
    zr_config *config;
    zr_queue *queue;
    zr_machine machine;
    zr_settings settings;
    int64_t seq;
} planner;

static zero_status read_shape(planner *p, zero_error *error)
{
    const zero_plan_options *options = p->options;
    bool given = true;
    if (options->new_spec) {
        ZERO_TRY(zr_lm_parse_spec(options->new_spec, &p->model_config, &given, error));
    } else {
        size_t length = strlen(options->model);
        bool file = length > 5 && strcmp(options->model + length - 5, ".json") == 0;
        ZERO_TRY(zr_model_directory(options->model, &options->logger, &p->model_path, error));
        ZERO_TRY(file ? zr_lm_config_read(p->model_path, &p->model_config, error) : zr_lm_config_read_in(p->model_path, &p->model_config, error));
    }
    p->assumed_vocabulary = !given;
    if (!given)
        zr_lm_set_vocabulary(&p->model_config, BYTE_VOCABULARY);
    p->shape = zr_lm_shape_of(&p->model_config);
    p->seq = options->seq ? options->seq : p->shape.positions;
    ZERO_TRY(zr_window_check(p->seq, p->shape.positions, error));
    return zr_lm_create(&p->model_config, &p->model, error);
}

// Elasticity says which ranks there are, where the options do not.
static zero_status find_ranks(zr_resolution *how, zr_config *config, zero_error *error)
{
    const zero_plan_options *options = how->user;
    ZERO_TRY(zr_config_find_elastic(config, error));
    if (config->elastic && !options->ranks && config->elastic->count)
        how->facts.ranks = (int)config->elastic->ranks[0];
    return ZERO_OK;
}

static zero_status resolve(planner *p, zero_error *error)
{
    const zero_plan_options *options = p->options;
    int64_t parameters = zr_model_parameters(p->model), ranks = ZR_MAX(options->ranks, 1);
    char *text;
    zr_resolution how = {
        .name = options->config_path,
        .flags = options->overrides,
        .flag_count = options->override_count,
        .quiet = true,
        .facts = zr_resolve_facts((int)ranks, parameters, ASSUMED_STEPS),
        .logger = &options->logger,
        .amend = find_ranks,
        .user = (void *)options,
    };
    how.facts.micro_batch = (zr_default_batch(parameters, p->seq) + ranks - 1) / ranks;
    how.facts.hidden = p->shape.width;
    ZERO_TRY(zr_resolve_text(options->config_path, &text, &how.length, error));
    how.text = text;
    zero_status status = zr_resolve(&how, &p->config, error);
    zr_free(text);
    return status;
}

static zero_status read_config(planner *p, zero_error *error)
{
    ZERO_TRY(resolve(p, error));
    if (zr_tiling_apply(p->config, &p->model_config)) {
        zr_lm_free(p->model);
        p->model = NULL;
        ZERO_TRY(zr_lm_create(&p->model_config, &p->model, error));
    }
    p->settings = zr_settings_of(p->config, false);
    return ZERO_OK;
}

static zero_status open_machine(planner *p, zero_error *error)
{
    ZERO_TRY(zr_queue_open("cpu", NULL, 1, &p->queue, error));
    zr_machine_fill(p->queue, NULL, &p->machine);
    return ZERO_OK;
}

static zero_status make_plan(const planner *p, int stage, int ranks, int64_t batch, zr_plan **out,
                             zero_error *error)
{
    zr_settings settings = p->settings;
    zr_machine machine = p->machine;
    zero_shape shape = {.batch = batch, .seq = p->seq, .threads = machine.threads};
    settings.stage = stage;
    machine.ranks = ranks;
    machine.mapped = ranks <= ZERO_MAX_RANKS; // more are not on one machine
    machine.machine_ranks = (int)settings.kept_by;
    return zr_plan_create(p->model, &shape, &settings, &machine, out, error);
}

static zero_status plan_row(const planner *p, int stage, int ranks, int64_t batch, zr_plan_row *row, zero_error *error)
{
    zr_plan *plan = NULL;
    ZERO_TRY(make_plan(p, stage, ranks, batch, &plan, error));
    *row = (zr_plan_row){.stage = stage, .ranks = ranks, .micro_batch = batch, .largest = -1};
    for (int c = 0; c < ZERO_MEM_COUNT; c++)
        row->bytes[c] = plan->bytes[ZERO_TIER_device][c] + plan->bytes[ZERO_TIER_host][c];
    for (int t = 0; t < ZERO_TIER_COUNT; t++)
        row->tiers[t] = zr_plan_tier_bytes(plan, (zero_tier)t);
    zr_plan_destroy(plan);
    return ZERO_OK;
}

// What is not divided at a stage cannot leave the device there.
static bool exists(const planner *p, int stage)
{
    const zr_offload_config *offload = &p->config->offload;
    bool part = offload->optimizer != ZERO_TIER_device && offload->ratio < 1;
    return stage >= (offload->parameters != ZERO_TIER_device || part ? 3 : offload->optimizer != ZERO_TIER_device ? 1 : 0);
}

static bool is_limited(const planner *p)
{
    return p->options->memory > 0 || p->config->offload.device_memory > 0 || p->config->offload.host_memory > 0;
}

// Whether a micro-batch of this size fits; a size that cannot even be planned does not.
static bool fits(const planner *p, int stage, int ranks, int64_t batch)
{
    zr_plan_row row;
    zr_machine machine = {.memory_limit = p->options->memory};
    zr_machine_limit(&machine, &p->config->offload, ranks);
    if (plan_row(p, stage, ranks, batch, &row, NULL) != ZERO_OK)
        return false;
    for (int t = 0; t < ZERO_TIER_COUNT; t++)
        if (machine.tier_limit[t] > 0 && row.tiers[t] > machine.tier_limit[t])
            return false;
    return machine.memory_limit <= 0 || zr_plan_row_total(&row) <= machine.memory_limit;
}

static int64_t largest_batch(const planner *p, int stage, int ranks)
{
    int64_t low = 0, high = 1;
    while (high <= MOST_BATCH && fits(p, stage, ranks, high)) {
        low = high;
        high *= 2;
    }
    high = ZR_MIN(high, MOST_BATCH + 1);
    while (high - low > 1) {
        int64_t middle = (low + high) / 2;
        if (fits(p, stage, ranks, middle))
            low = middle;
        else
            high = middle;
    }
    return low;
}

// The numbers of ranks to show: the one that is asked for, or usual ones; under elasticity the first that can share its batch.
static int choose_ranks(const planner *p, int out[USUAL])
{
    static const int usual[USUAL] = {1, 2, 4, 8, 16, 64};
    const zr_elastic *elastic = p->config->elastic;
    int count = is_limited(p) ? USUAL : 4;
    if (elastic && !p->options->ranks)
        count = ZR_MIN(count, elastic->count);
    for (int i = 0; i < count; i++)
        out[i] = p->options->ranks ? p->options->ranks : elastic ? (int)ZR_MIN(elastic->ranks[i], INT32_MAX) : usual[i];
    return p->options->ranks ? 1 : count;
}

// A rank's micro-batch, where the memory does not decide.
static int64_t batch_of(const planner *p, int ranks)
{
    zr_elastic_batch shared = {.micro = p->config->micro_batch};
    if (p->config->elastic)
        zr_elastic_share(p->config->elastic, ranks, &shared);
    return shared.micro;
}

static zero_status make_rows(const planner *p, zr_plan_row *rows, int *count, zero_error *error)
{
    bool asks = is_limited(p) && !p->options->ranks && !p->config->elastic;
    int shown[USUAL], numbers = choose_ranks(p, shown);
    *count = 0;
    for (int i = 0; i < numbers; i++) {
        int ranks = shown[i];
        for (int stage = 0; stage <= 3; stage++) {
            if (!exists(p, stage))
                continue;
            int64_t largest = is_limited(p) ? largest_batch(p, stage, ranks) : -1;
            int64_t batch = asks && largest > 0 ? largest : asks ? 1 : batch_of(p, ranks);
            assert(*count < MOST_ROWS); // 4 stages of USUAL numbers of ranks
            ZERO_TRY(plan_row(p, stage, ranks, batch, &rows[*count], error));
            rows[*count].largest = largest;
            (*count)++;
        }
    }
    return ZERO_OK;
}

// The least that fits: fewest ranks, then the lowest stage; NULL where nothing does. The micro-batch of elasticity is not a matter of choice.
static const zr_plan_row *least(const planner *p, const zr_plan_row *rows, int count)
{
    for (int i = 0; i < count; i++)
        if (rows[i].largest >= (p->config->elastic ? rows[i].micro_batch : 1))
            return &rows[i];
    return NULL;
}

static const zr_plan_row *row_of_stage(const zr_plan_row *rows, int count, int stage)
{
    for (int i = 0; i < count; i++)
        if (rows[i].stage == stage)
            return &rows[i];
    return &rows[0];
}

static bool is_of_row(const char *key)
{
    return !strcmp(key, "zero_optimization.stage") || !strcmp(key, "train_micro_batch_size_per_gpu");
}

// The run that the options describe; row NULL: one whose stage is chosen when it starts.
static void append_train(const planner *p, const zr_plan_row *row, zr_buffer *out)
{
    const zero_plan_options *options = p->options;
    zr_buffer_printf(out, "  zero train %s %s --data text.txt --out run", options->new_spec ? "--new" : "--model", options->new_spec ? options->new_spec : p->model_path);
    if (options->config_path)
        zr_buffer_printf(out, " --config %s", options->config_path);
    if (options->seq)
        zr_buffer_printf(out, " --seq %lld", (long long)options->seq);
    for (int i = 0; i < options->override_count; i++)
        if (!row || !is_of_row(options->overrides[i].key))
            zr_buffer_printf(out, " %s %s", options->overrides[i].flag, options->overrides[i].value);
    zr_buffer_printf(out, " --ranks %d", row ? row->ranks : ZR_MAX(options->ranks, 1));
    if (row)
        zr_buffer_printf(out, " --stage %d", row->stage);
    if (row && !p->config->elastic)
        zr_buffer_printf(out, " --micro-batch %lld", (long long)row->micro_batch);
    zr_buffer_printf(out, "\n");
}

// A plan knows bytes, not seconds: what measures them, of a new model without offload, by ranks that this machine has cores for.
static void append_bench(const planner *p, const zr_plan_row *row, zr_buffer *out)
{
    const zero_plan_options *options = p->options;
    if (!options->new_spec || options->config_path || row->ranks > zr_cpu_budget_get().allowed)
        return;
    zr_buffer_printf(out, "How long its steps take on this machine:\n  zero bench step --new %s --seq %lld --dtype %s --ranks %d --stage %d --micro-batch %lld\n", options->new_spec,
                     (long long)p->seq, p->settings.precision.name, row->ranks, row->stage, (long long)row->micro_batch);
}

static void append_command(const planner *p, const zr_plan_row *row, zr_buffer *out)
{
    append_train(p, row, out);
    append_bench(p, row, out);
}

// Where no row fits.
static void append_way_out(const planner *p, zr_buffer *out)
{
    const zero_plan_options *options = p->options;
    zr_buffer_printf(out, "A shorter window (--seq) and a smaller micro-batch (--micro-batch) need less.\n");
    if (p->config->offload.optimizer != ZERO_TIER_device || p->config->offload.parameters != ZERO_TIER_device)
        return;
    zr_buffer_printf(out, "States can lie on the host or on NVMe (docs/offload.md). With {\"libzero\": {\"offload\": \"auto\", \"nvme_path\": \"DIR\"}} in auto.json, this shows "
                          "what goes where:\n  zero plan %s %s --config auto.json --device-memory BYTES\n", options->new_spec ? "--new" : "--model",
                     options->new_spec ? options->new_spec : p->model_path);
}

// "2.00 GB a rank and 512 MB on a rank's device"
static void append_limits(const planner *p, zr_buffer *out)
{
    const struct { int64_t bytes; const char *of; } limits[] = {
        {p->options->memory, "a rank"}, {p->config->offload.device_memory, "on a rank's device"},
        {p->config->offload.host_memory, "on the machine's host"},
    };
    const char *separator = "";
    char bytes[ZR_BYTES_TEXT];
    for (int i = 0; i < ZR_COUNT(limits); i++) {
        if (limits[i].bytes <= 0)
            continue;
        zr_bytes_text((double)limits[i].bytes, bytes);
        zr_buffer_printf(out, "%s%s %s", separator, bytes, limits[i].of);
        separator = " and ";
    }
}

static const char *place(int tier)
{
    static const char *const places[] = {[ZERO_TIER_device] = "the device", [ZERO_TIER_host] = "the host", [ZERO_TIER_nvme] = "NVMe"};
    return places[tier];
}

static int threads_of_a_rank(const planner *p)
{
    return p->config->offload.automatic ? ZR_MAX(zr_cpu_budget_get().allowed / ZR_MAX(p->options->ranks, 1), 1) : 1;
}

static void append_elastic(const planner *p, zr_buffer *out)
{
    char list[2048];
    const zr_elastic *elastic = p->config->elastic;
    zr_elastic_list(elastic, list, sizeof list);
    zr_buffer_printf(out, "elasticity: batches of %lld samples; %d numbers of ranks can share them: %s\n", (long long)elastic->batch, elastic->count, list);
}

static void append_title(const planner *p, zr_buffer *out)
{
    int threads = threads_of_a_rank(p);
    const zero_plan_options *options = p->options;
    const zr_offload_config *offload = &p->config->offload;
    zr_buffer_printf(out, "%s: %.3f M parameters%s; %s, %s; windows of %lld tokens; bytes of one rank, %d thread%s, all ranks on one machine\n",
                     options->new_spec ? options->new_spec : p->model_path, (double)zr_model_parameters(p->model) / 1e6,
                     p->assumed_vocabulary ? " (with the 256 tokens of the tokenizer bytes)" : "", p->settings.precision.name,
                     zr_optimizer_traits_of(p->config->optimizer.kind)->name, (long long)p->seq, threads, threads == 1 ? "" : "s");
    if (offload->parameters != ZERO_TIER_device || offload->optimizer != ZERO_TIER_device)
        zr_buffer_printf(out, "parameters on %s, gradients and optimizer states on %s%s\n", place(offload->parameters), place(offload->optimizer),
                         exists(p, 0) ? "" : exists(p, 1) ? ": stages 1 to 3" : ": stage 3 alone");
    if (p->settings.exact_world)
        zr_buffer_printf(out, "exact_world: gradients in fp32 until they are summed; %lld micro-batches a rank and step in %d accumulator%s of a shard\n", (long long)p->settings.accumulation,
                         zr_accumulators(&p->settings), zr_accumulators(&p->settings) == 1 ? "" : "s");
    if (p->config->elastic)
        append_elastic(p, out);
    zr_buffer_printf(out, "\n");
}

static void append_text(const planner *p, const zr_plan_row *rows, int count, zr_buffer *out)
{
    append_title(p, out);
    zr_plan_table(rows, count, out);
    if (!is_limited(p)) {
        zr_buffer_printf(out, "\nThe plan of the configuration:\n");
        append_command(p, row_of_stage(rows, count, p->settings.stage), out);
        return;
    }
    const zr_plan_row *choice = least(p, rows, count);
    zr_buffer_printf(out, choice ? "\nThe least that fits into " : "\nNothing of this fits into ");
    append_limits(p, out);
    zr_buffer_printf(out, choice ? ":\n" : ".\n");
    if (!choice) {
        append_way_out(p, out);
        return;
    }
    zr_plan_row command = *choice;
    command.micro_batch = ZR_MIN(command.micro_batch, command.largest);
    append_command(p, &command, out);
}

static zero_status choose_placement(const planner *p, zr_placement_answer *answer, zero_error *error)
{
    const zero_plan_options *options = p->options;
    const zr_imagined_ranks ranks = {.count = ZR_MAX(options->ranks, 1), .memory = options->memory};
    zero_options engine = {
        .model = p->model,
        .shape = {.seq = p->seq},
        .threads = threads_of_a_rank(p),
        .logger = options->logger,
    };
    ZERO_TRY(zero_comm_self(&engine.comm, error));
    zero_status status = zr_placement_of(&engine, &ranks, &p->model_config, p->config, answer, error);
    zero_comm_destroy(engine.comm);
    return status;
}

static zero_status plan_automatic(const planner *p, zr_buffer *out, zero_error *error)
{
    zr_placement_answer answer;
    ZERO_TRY(choose_placement(p, &answer, error));
    if (p->options->json) {
        zr_buffer_printf(out, "{\"parameters\":%lld,\"ranks\":%d,\"micro_batch\":%lld,", (long long)zr_model_parameters(p->model), ZR_MAX(p->options->ranks, 1),
                         (long long)p->config->micro_batch);
        zr_placement_json(&answer, out);
        zr_buffer_printf(out, ",\n\"settings\":");
        zr_settings_json(&p->settings, out);
        zr_buffer_printf(out, "}\n");
        return ZERO_OK;
    }
    append_title(p, out);
    zr_placement_table(&answer, out);
    zr_buffer_printf(out, "\noffload  auto: ");
    zr_placement_describe(&answer, ZR_PLACEMENT_LINES, out);
    zr_buffer_printf(out, answer.chosen < 0 ? "\nA shorter window (--seq), a smaller micro-batch (--micro-batch) and more ranks need less.\n" : "\n\nThe command:\n");
    if (answer.chosen >= 0)
        append_train(p, NULL, out);
    return ZERO_OK;
}

// The plan of the configuration, as the table's command has it: its stage, or the first that can
// offload what it offloads.
static zero_status show(const planner *p, zr_buffer *out, zero_error *error)
{
    const zero_plan_options *options = p->options;
    zr_plan *plan = NULL;
    int ranks[USUAL] = {1}, stage = p->settings.stage;
    if (p->config->offload.automatic)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "libzero.offload is auto: only one placement has a program; the plan's table says which "
                       "would be chosen, and offload_optimizer and offload_param name one");
    choose_ranks(p, ranks);
    while (stage < 3 && !exists(p, stage))
        stage++;
    ZERO_TRY(make_plan(p, stage, ranks[0], batch_of(p, ranks[0]), &plan, error));
    const char *model = options->new_spec ? options->new_spec : p->model_path;
    zero_status status = zr_plan_show(plan, options->view, model, out, error);
    zr_plan_destroy(plan);
    return status;
}

static zero_status tabulate(const planner *p, zr_buffer *out, zero_error *error)
{
    const zero_plan_options *options = p->options;
    zr_plan_row rows[MOST_ROWS];
    int count = 0;
    ZERO_TRY(make_rows(p, rows, &count, error));
    if (options->json)
        zr_plan_json(rows, count, options->new_spec ? options->new_spec : p->model_path,
                     p->settings.precision.name, (double)zr_model_parameters(p->model), &p->settings,
                     p->config->elastic, out);
    else
        append_text(p, rows, count, out);
    return ZERO_OK;
}

static zero_status answer(const planner *p, zr_buffer *out, zero_error *error)
{
    if (p->options->view != ZERO_PLAN_TABLE)
        return show(p, out, error);
    return p->config->offload.automatic ? plan_automatic(p, out, error) : tabulate(p, out, error);
}

zero_status zr_plan_by_model(const zero_plan_options *options, zr_buffer *out, zero_error *error)
{
    planner p = {.options = options};
    zero_status status = read_shape(&p, error);
    if (status == ZERO_OK)
        status = read_config(&p, error);
    if (status == ZERO_OK)
        status = open_machine(&p, error);
    if (status == ZERO_OK)
        status = answer(&p, out, error);
    zr_queue_close(p.queue);
    zr_config_destroy(p.config);
    zr_lm_free(p.model);
    zr_free(p.model_path);
    return status;
}
