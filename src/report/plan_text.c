// The answer of `zero plan` in words: what was planned, the table, and the command to run.
#include "base/cpu.h"
#include "base/text.h"
#include "config/config_ranks.h"
#include "report/plan_time.h"

#include <ctype.h>
#include <string.h>
#include <zero/comm.h>

static const zr_plan_row *row_of_stage(const zr_plan_row *rows, int count, int stage)
{
    for (int i = 0; i < count; i++)
        if (rows[i].stage == stage)
            return &rows[i];
    return &rows[0];
}

static bool is_key_of_row(const char *key)
{
    return !strcmp(key, "zero_optimization.stage") ||
           !strcmp(key, "train_micro_batch_size_per_gpu");
}

// Appends the flags as they were given: those that divide ranks, or the others. Without those that
// a row has numbers for, if `in_row`.
static void append_flags(const zero_plan_options *options, bool divide, bool in_row, zr_buffer *out)
{
    for (int i = 0; i < options->override_count; i++) {
        const zero_override *flag = &options->overrides[i];
        const zr_key *key = zr_key_at(zr_key_find(flag->key));
        if (key->agrees != divide || (in_row && is_key_of_row(flag->key)))
            continue;
        zr_buffer_printf(out, " %s%s%s", flag->flag, key->type == ZR_KEY_BOOL ? "" : " ",
                         key->type == ZR_KEY_BOOL ? "" : flag->value);
    }
}

static bool spans_machines(const zr_planner *p)
{
    return p->machines && p->machines->job.count > 1;
}

// Returns the card that stands for one that may be imagined ("cuda:h100-80gb").
static const char *real_card(const char *backend)
{
    static const char numbered[] = "cuda:";
    bool is_real = strncmp(backend, numbered, strlen(numbered)) == 0 &&
                   isdigit((unsigned char)backend[strlen(numbered)]);
    return is_real ? backend : "cuda";
}

void zr_planner_command(const zr_planner *p, const zr_plan_row *row, zr_buffer *out)
{
    const zero_plan_options *options = p->options;
    int ranks = row ? row->ranks : zr_planner_job(p);
    if (ranks > ZERO_MAX_RANKS) {
        zr_buffer_printf(out, "  none, because a training has at most %d ranks\n", ZERO_MAX_RANKS);
        return;
    }
    if (p->machine.far && ranks > 1) {
        zr_buffer_printf(out, "  none, because a card trains for one rank, so far\n");
        return;
    }
    zr_buffer_printf(out, "  ");
    if (spans_machines(p))
        zr_buffer_printf(out, "mpirun -n %d --hostfile hosts ", options->ranks);
    zr_buffer_printf(out, "zero train %s %s --data text.txt --out run",
                     options->new_spec ? "--new" : "--model", p->subject.name);
    if (options->config_path)
        zr_buffer_printf(out, " --config %s", options->config_path);
    if (options->seq)
        zr_buffer_printf(out, " --seq %lld", (long long)options->seq);
    if (p->machine.far) // of a card that is imagined, the first one
        zr_buffer_printf(out, " --backend %s", real_card(options->backend));
    append_flags(options, false, row, out);
    zr_buffer_printf(out, " --ranks %d", ranks);
    append_flags(options, true, row, out);
    if (row)
        zr_buffer_printf(out, " --stage %d", row->stage);
    if (row && !p->config->elastic)
        zr_buffer_printf(out, " --micro-batch %lld", (long long)row->micro_batch);
    zr_buffer_printf(out, "\n");
}

// Says what to try if no row fits.
static void append_way_out(const zr_planner *p, zr_buffer *out)
{
    const zero_plan_options *options = p->options;
    int ranks[ZR_PLANNER_USUAL];
    char advice[256];
    zr_planner_ranks(p, ranks);
    const zr_plan_point least = {p->settings.stage, ranks[0], zr_planner_batch(p, ranks[0])};
    if (zr_planner_advise(p, &least, advice, sizeof advice))
        zr_buffer_printf(out, "With --ranks %d, %s.\n", ranks[0], advice);
    zr_buffer_printf(
        out, "A shorter window (--seq) and a smaller micro-batch (--micro-batch) need less.\n");
    if (p->config->offload.optimizer != ZERO_TIER_device ||
        p->config->offload.parameters != ZERO_TIER_device)
        return;
    zr_buffer_printf(
        out,
        "States can lie on the host or on NVMe (docs/offload.md). With {\"libzero\": {\"offload\": "
        "\"auto\", \"nvme_path\": \"DIR\"}} in auto.json, this shows "
        "what goes where:\n  zero plan %s %s --config auto.json --device-memory BYTES\n",
        options->new_spec ? "--new" : "--model", p->subject.name);
}

// Appends "2.00 GB a rank and 512 MB on a rank's device".
static void append_limits(const zr_planner *p, zr_buffer *out)
{
    const struct {
        int64_t bytes;
        const char *of;
    } limits[] = {
        {p->options->memory, spans_machines(p) ? "a machine" : "of one machine"},
        {p->config->offload.device_memory, "on a rank's device"},
        {p->config->offload.host_memory,
         spans_machines(p) ? "on a machine's host" : "on the machine's host"},
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

static const char *tier_words(int tier)
{
    static const char *const places[] = {[ZERO_TIER_device] = "the device",
                                         [ZERO_TIER_host] = "the host",
                                         [ZERO_TIER_nvme] = "NVMe"};
    return places[tier];
}

static void append_elastic(const zr_planner *p, zr_buffer *out)
{
    char list[2048];
    const zr_elastic *elastic = p->config->elastic;
    zr_elastic_list(elastic, list, sizeof list);
    zr_buffer_printf(
        out, "elasticity: batches of %lld samples; %d numbers of %sranks can share them: %s\n",
        (long long)elastic->batch, elastic->count,
        zr_config_model_ranks(p->config) > 1 ? "data " : "", list);
}

static void append_rank_places(const zr_planner *p, zr_buffer *out)
{
    if (spans_machines(p))
        zr_buffer_printf(out, "ranks on %d machines\n", p->machines->job.count);
    else
        zr_buffer_printf(out, "all ranks on one machine\n");
}

static const char *states_words(zero_dtype states)
{
    return states == ZERO_U8     ? " with states in 8 bits"
           : states == ZERO_BF16 ? " with states in bf16"
                                 : "";
}

void zr_planner_title(const zr_planner *p, zr_buffer *out)
{
    int threads = zr_planner_threads(p);
    const zr_offload_config *offload = &p->config->offload;
    zr_buffer_printf(
        out,
        "%s: %.3f M parameters%s; %s, %s%s; windows of %lld tokens; bytes of %s, "
        "%d thread%s, ",
        p->subject.name, (double)zr_model_parameters(p->model) / 1e6,
        p->subject.assumed_vocabulary ? " (with the 256 tokens of the tokenizer bytes)" : "",
        p->settings.precision.name, zr_optimizer_traits_of(p->config->optimizer.kind)->name,
        states_words(p->config->states_dtype), (long long)p->subject.seq,
        p->config->pipeline.stages > 1 ? "the rank that needs most" : "one rank", threads,
        threads == 1 ? "" : "s");
    append_rank_places(p, out);
    if (offload->parameters != ZERO_TIER_device || offload->optimizer != ZERO_TIER_device)
        zr_buffer_printf(out, "parameters on %s, gradients and optimizer states on %s%s\n",
                         tier_words(offload->parameters), tier_words(offload->optimizer),
                         zr_planner_has_stage(p, 0)    ? ""
                         : !zr_planner_has_stage(p, 3) ? ": stages 1 and 2"
                         : zr_planner_has_stage(p, 1)  ? ": stages 1 to 3"
                                                       : ": stage 3 alone");
    if (p->settings.exact_world)
        zr_buffer_printf(out,
                         "exact_world: gradients in fp32 until they are summed; %lld micro-batches "
                         "a rank and step in %d accumulator%s of a shard\n",
                         (long long)p->settings.accumulation, zr_accumulators(&p->settings),
                         zr_accumulators(&p->settings) == 1 ? "" : "s");
    if (p->config->elastic)
        append_elastic(p, out);
    zr_buffer_printf(out, "\n");
}

// Appends what each pipeline stage has in one of the rows, what micro-batches are too few, and what
// crosses the network.
static void append_row_details(const zr_planner *p, const zr_plan_row *row, zr_buffer *out)
{
    char hint[256];
    zr_plan_pipeline_stages_text(row, p->options->columns, out);
    if (zr_config_pipeline_hint(p->config, hint, sizeof hint))
        zr_buffer_printf(out, "%s\n", hint);
    zr_plan_network_text(row, p->options->columns, out);
    zr_plan_time_text(p, row, out);
}

void zr_planner_text(const zr_planner *p, const zr_plan_row *rows, int count, zr_buffer *out)
{
    bool limited = zr_planner_is_limited(p);
    const zr_plan_row *choice =
        limited ? zr_planner_least(p, rows, count) : row_of_stage(rows, count, p->settings.stage);
    zr_planner_title(p, out);
    zr_plan_table(rows, count, p->options->columns, out);
    append_row_details(p, choice ? choice : &rows[count - 1], out);
    if (!limited) {
        zr_buffer_printf(out, "\nThe plan of the configuration:\n");
        zr_planner_command(p, choice, out);
        return;
    }
    zr_buffer_printf(out, choice ? "\nThe least that fits into " : "\nNothing of this fits into ");
    append_limits(p, out);
    zr_buffer_printf(out, choice ? ":\n" : ".\n");
    if (!choice) {
        append_way_out(p, out);
        return;
    }
    zr_plan_row command = *choice;
    command.micro_batch = ZR_MIN(command.micro_batch, command.largest);
    zr_planner_command(p, &command, out);
}
