// The lines that a training prints about itself before its first step, on rank 0: at most eight of
// ZERO_LOG_INFO, and the details, of ZERO_LOG_DEBUG.
#include "base/alloc.h"
#include "base/cpu.h"
#include "base/dtype.h"
#include "base/text.h"
#include "comm/agreement.h"
#include "comm/environment.h"
#include "config/config_ranks.h"
#include "engine/engine_api.h"
#include "engine/step_schedules.h"
#include "memory/arena.h"
#include "model/lm_build.h"
#include "model/lm_slices.h"
#include "train/training.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SAY(level)                                                                                 \
    char line[1024];                                                                               \
    va_list arguments;                                                                             \
    va_start(arguments, format);                                                                   \
    vsnprintf(line, sizeof line, format, arguments);                                               \
    va_end(arguments);                                                                             \
    zr_log(logger, level, "%s", line)

static void log_info(const zero_logger *logger, const char *format, ...) ZERO_PRINTF(2, 3);
static void log_detail(const zero_logger *logger, const char *format, ...) ZERO_PRINTF(2, 3);

static void log_info(const zero_logger *logger, const char *format, ...) { SAY(ZERO_LOG_INFO); }

static void log_detail(const zero_logger *logger, const char *format, ...) { SAY(ZERO_LOG_DEBUG); }

static void describe_shares(const zr_train_subject *subject, const zero_logger *logger)
{
    const zr_dataset *data = &subject->data;
    double sum = 0;
    for (int i = 0; i < data->stream_count; i++)
        sum += data->weights[i];
    for (int i = 0; i < data->stream_count && data->stream_count > 1; i++)
        log_detail(logger, "         %s: %lld tokens, %.2f%% of the samples", data->streams[i].name,
                   (long long)data->streams[i].count, 100 * data->weights[i] / sum);
}

static void describe_masked(const zr_train_subject *subject, char *out, size_t size)
{
    const char *format = zr_chat_format_name(&subject->chat);
    *out = 0;
    if (subject->data.masked && !subject->data.prompt_loss)
        snprintf(out, size, "; %lld of the tokens are prompt, which the loss does not count%s%s",
                 (long long)subject->data.masked, format ? "; messages as " : "",
                 format ? format : "");
}

static void warn_of_bare_windows(const zr_dataset *data, const zero_logger *logger)
{
    if (data->bare)
        zr_log(
            logger, ZERO_LOG_WARNING,
            "%lld of %lld windows of %lld tokens have no target, only prompt: steps of such "
            "windows alone learn nothing, while weight decay goes on; a larger --seq, or shorter "
            "prompts, would leave targets in them",
            (long long)data->bare, (long long)zr_dataset_eval_windows(data), (long long)data->seq);
}

static void describe_shape(const zr_train_subject *subject, const zero_logger *logger)
{
    const zr_lm_shape *shape = &subject->shape;
    char sharing[48] = "";
    if (shape->kv_heads != shape->heads)
        snprintf(sharing, sizeof sharing, " (%lld of keys and values)", (long long)shape->kv_heads);
    log_detail(logger, "         %lld layers, %lld heads%s, width %lld", (long long)shape->layers,
               (long long)shape->heads, sharing, (long long)shape->width);
}

// `val` is the option's value; NULL: a part of the text.
static void describe_held_out(const zr_train_subject *subject, const char *val, char *out,
                              size_t size)
{
    if (!subject->val.count)
        snprintf(out, size, "nothing is held out%s",
                 val ? "" : ": a tenth of this text is shorter than a window");
    else
        snprintf(out, size, "held out: %s, %lld tokens",
                 subject->val_is_tenth ? "the last tenth" : val, (long long)subject->val.count);
}

// Writes "; adapters r=16,alpha=32,targets=all-linear: 1.234 M parameters train".
static void describe_adapters(const zr_train_subject *subject, char *out, size_t size)
{
    char adapters[ZR_LORA_TEXT];
    const zr_lm_config *config = &subject->model_config;
    *out = 0;
    if (!config->lora.rank)
        return;
    zr_lora_write(&config->lora, config, adapters, sizeof adapters);
    const char *base = zr_weight_format_name(config->base);
    snprintf(out, size, "; adapters %s: %.3f M parameters train%s%s", adapters,
             (double)zr_lm_trained(config) / 1e6, base ? ", of a base in " : "", base ? base : "");
}

// Writes "; 3 labels, with a new head" or "; preferences by dpo,beta=0.1,smoothing=0".
static void describe_task(const zr_train_subject *subject, char *out, size_t size)
{
    char text[ZR_PREFERENCE_TEXT];
    *out = 0;
    if (subject->model_config.labels.count)
        snprintf(out, size, "; %d labels%s", subject->model_config.labels.count,
                 subject->model_config.labels.drawn ? ", with a new head" : "");
    if (!subject->model_config.preference.kind)
        return;
    zr_preference_write(&subject->model_config.preference, text);
    snprintf(out, size, "; preferences by %s", text);
}

void zr_train_describe_model(const zr_train *train)
{
    const zero_train_options *options = train->asked.options;
    const zr_train_subject *subject = &train->subject;
    const zero_logger *logger = &train->logger;
    char held_out[512], masked[192], adapters[ZR_LORA_TEXT + 64], task[ZR_PREFERENCE_TEXT + 32];
    describe_adapters(subject, adapters, sizeof adapters);
    describe_task(subject, task, sizeof task);
    log_info(logger, "model    %s%s; vocabulary %lld (%s); %.3f M parameters, context %lld%s%s",
             options->new_spec ? "new random weights, " : "from ",
             options->new_spec ? options->new_spec : options->model_dir,
             (long long)subject->shape.vocab, zr_tokenizer_name(subject->tokenizer),
             (double)subject->parameters / 1e6, (long long)subject->shape.positions, adapters,
             task);
    describe_shape(subject, logger);
    describe_held_out(subject, options->val, held_out, sizeof held_out);
    describe_masked(subject, masked, sizeof masked);
    log_info(logger, "text     %s%s: %lld bytes, %lld tokens to train on%s; %s", options->data[0],
             options->data_count > 1 ? " and others" : "",
             (long long)zr_corpus_bytes(subject->corpus), (long long)subject->data.count, masked,
             held_out);
    describe_shares(subject, logger);
    warn_of_bare_windows(&subject->data, logger);
}

static void describe_tier(const int64_t bytes[ZERO_MEM_COUNT], const char *heading,
                          const zero_logger *logger)
{
    char line[512];
    int at = 0;
    int64_t total = 0;
    for (int c = 0; c < ZERO_MEM_COUNT; c++) {
        total += bytes[c];
        if (bytes[c] > 0 && at < (int)sizeof line)
            at +=
                snprintf(line + at, sizeof line - (size_t)at, "%s %.2f, ",
                         zr_memory_category_name((zero_memory_category)c), (double)bytes[c] / 1e6);
    }
    if (at > 0)
        log_detail(logger, "%s, MB: %stotal %.2f", heading, line, (double)total / 1e6);
}

static void add_tier(const zr_train_memory *memory, zero_tier tier, const char *where,
                     zr_buffer *line)
{
    int64_t total = 0;
    char text[ZR_BYTES_TEXT];
    for (int c = 0; c < ZERO_MEM_COUNT; c++)
        total += memory->bytes[tier][c];
    if (total == 0)
        return;
    zr_bytes_text((double)total, text);
    zr_buffer_printf(line, "%s%s%s", line->length ? ", " : "", text, where);
}

static zero_status describe_memory(const zr_train *train, zero_error *error)
{
    const zero_logger *logger = &train->logger;
    const char *io = zr_engine_io_description(train->run.engine);
    char stage[64] = "";
    zr_train_memory memory;
    zr_buffer line = {0};
    ZERO_TRY(zr_train_find_largest(train, &memory, error));
    if (memory.stage >= 0)
        snprintf(stage, sizeof stage, " of pipeline stage %d, which needs most", memory.stage);
    add_tier(&memory, ZERO_TIER_device, "", &line);
    add_tier(&memory, ZERO_TIER_host, " on the host", &line);
    add_tier(&memory, ZERO_TIER_nvme, " on NVMe", &line);
    if (!line.failed)
        log_info(logger, "memory   of a rank%s, planned: %s", stage,
                 line.length ? line.data : "none");
    zr_buffer_free(&line);
    describe_tier(memory.bytes[ZERO_TIER_device], "         on the device", logger);
    describe_tier(memory.bytes[ZERO_TIER_host], "         on the host", logger);
    describe_tier(memory.bytes[ZERO_TIER_nvme], "         on NVMe", logger);
    if (io)
        log_detail(logger, "         to and from NVMe: %s", io);
    return ZERO_OK;
}

// Prints what comes on top of the plan: the program, its libraries and the text. It is called
// before any memory of the plan is reserved.
void zr_train_describe_runtime(const zero_logger *logger)
{
    log_detail(logger, "runtime  %.1f MB resident before the plan's memory is reserved",
               (double)zr_memory_resident() / 1e6);
}

// Returns over how many updates a schedule changes the rate; INT64_MAX: it has no end.
static int64_t schedule_length(const zr_lr_schedule *schedule)
{
    switch (schedule->kind) {
    case ZR_SCHEDULE_ONE_CYCLE: return schedule->first_steps + schedule->second_steps;
    case ZR_SCHEDULE_WARMUP_DECAY:
    case ZR_SCHEDULE_WARMUP_COSINE: return schedule->total_steps;
    default: return INT64_MAX;
    }
}

// Warns if the schedule ends before the run does, because the rate is constant from there on.
static void warn_of_end(const zr_lr_schedule *schedule, int64_t steps, const zero_logger *logger)
{
    int64_t length = schedule_length(schedule);
    double last = zr_schedule_lr(schedule, steps - 1);
    if (length >= steps || zr_schedule_lr(schedule, steps) != last)
        return;
    int64_t n = length; // updates before the first one with this rate
    while (zr_schedule_lr(schedule, n) != last)
        n++;
    zr_log(logger, ZERO_LOG_WARNING,
           "%s %lld, this run has %lld steps: from step %lld on the rate of %s stays at %.3g",
           schedule->kind == ZR_SCHEDULE_ONE_CYCLE
               ? "scheduler.params.cycle_first_step_size and cycle_second_step_size make a cycle of"
               : "scheduler.params.total_num_steps is",
           (long long)length, (long long)steps, (long long)n + 1, zr_schedule_name(schedule->kind),
           last);
}

static void describe_rate(const zr_lr_schedule *schedule, int64_t steps, const zero_logger *logger)
{
    double first = zr_schedule_lr(schedule, 0), last = zr_schedule_lr(schedule, steps - 1),
           most = first;
    for (int64_t n = 1; n < ZR_MIN(steps, 100000); n++) {
        double lr = zr_schedule_lr(schedule, n);
        most = lr > most ? lr : most;
    }
    log_info(logger, "rate     %.3g at first, at most %.3g, %.3g at the end", first, most, last);
    if (most == 0)
        zr_log(logger, ZERO_LOG_WARNING,
               "the rate of every step of this run is 0, so nothing is learnt: %s",
               schedule->kind == ZR_SCHEDULE_CONSTANT
                   ? "optimizer.params.lr (--lr) is 0"
                   : "the first two updates of DeepSpeed's warm-ups have their least rate "
                     "(scheduler.params.warmup_min_lr); more steps, or a file without a "
                     "scheduler, have others");
    warn_of_end(schedule, steps, logger);
}

static const char *plural(int64_t count) { return count == 1 ? "" : "s"; }

// Prints what must be the same in another run if its bits are to be the same: first the threads,
// unless --threads was `given`.
static void warn_of_threads(const zr_config *config, int threads, bool given,
                            const zero_logger *logger)
{
    bool slices = config->exact_tensor_said && config->exact_tensor > 1;
    const char *key = config->exact_world ? "libzero.exact_world"
                      : slices            ? "libzero.exact_tensor"
                                          : NULL;
    if (key && !given)
        zr_log(logger, ZERO_LOG_WARNING,
               "%s: %d thread%s of a rank follow from its cores, and would be others on other "
               "ranks; --threads says how many",
               key, threads, plural(threads));
}

static void describe_exact_world(const zr_config *config, int threads, const zero_logger *logger)
{
    long long micro_batches = config->train_batch / config->micro_batch;
    if (!config->exact_world)
        return;
    log_detail(
        logger,
        "exact    these bits on 1, 2, 4, ... %lld %sranks that make %lld micro-batches of %lld "
        "samples a step, with %d thread%s each",
        micro_batches, config->exact_tensor > 1 || config->pipeline.stages > 1 ? "data " : "",
        micro_batches, (long long)config->micro_batch, threads, plural(threads));
}

// Says the same of tensor ranks: a model of T slices is computed alike by any number of ranks that
// divides T.
static void describe_exact_tensor(const zr_config *config, int threads, const zero_logger *logger)
{
    int64_t slices = config->exact_tensor, least = ZR_MAX(slices / ZR_MOST_LOCAL_SLICES, 1);
    char numbers[64] = "";
    size_t used = 0;
    if (slices == 1)
        return;
    if (!config->exact_tensor_said) {
        log_detail(logger, "exact    these bits on %d tensor ranks%s", config->tensor,
                   ZR_IS_POWER_OF_TWO(slices)
                       ? "; libzero.exact_tensor makes them those of others, too"
                       : "");
        return;
    }
    for (int64_t n = least; n <= slices && used < sizeof numbers; n *= 2)
        used += (size_t)snprintf(numbers + used, sizeof numbers - used, "%s%lld",
                                 n == least    ? ""
                                 : n == slices ? " or "
                                               : ", ",
                                 (long long)n);
    log_detail(
        logger,
        "exact    these bits on %s tensor ranks, which compute %lld slices of every layer, with "
        "%d thread%s each, their rows divided (--sequence-parallel) or not",
        numbers, (long long)slices, threads, plural(threads));
}

// Logs which other pipelines give bit-identical results under an asynchronous schedule.
static void describe_exact_steps(const zr_config *config, const zr_plan *plan,
                                 const zero_logger *logger)
{
    if (config->pipeline.kind == ZR_PIPELINE_PIPEDREAM)
        log_detail(
            logger,
            "exact    these bits on these %d pipeline stages alone, drained every %lld steps: how "
            "old the weights of a unit are follows from its stage",
            config->pipeline.stages, (long long)config->pipeline.flush_every);
    else
        log_detail(
            logger, "exact    these bits at any number of pipeline stages under 2bw%s",
            plan->tied_weight_count && !config->pipeline.exact
                ? "; a table is shared by two of them, and libzero.exact_pipeline makes them those "
                  "of a delayed update without a pipeline, too"
                : ", and of a delayed update from step 1 on without a pipeline");
}

// Says whether these are the bits of any number of pipeline stages: always, unless a table is
// shared and it was not requested, or the schedule is asynchronous.
static void describe_exact_pipeline(const zr_config *config, const zr_plan *plan,
                                    const zero_logger *logger)
{
    if (zr_plan_is_asynchronous(plan)) {
        describe_exact_steps(config, plan, logger);
        return;
    }
    if (plan->tied_weight_count == 0)
        return;
    if (config->pipeline.exact)
        log_detail(logger,
                   "exact    these bits at any number of pipeline stages, and without a pipeline "
                   "with libzero.exact_pipeline, too");
    else
        log_detail(logger,
                   "exact    these bits on pipelines alone, because two of their stages share a "
                   "table; libzero.exact_pipeline makes them those without a pipeline, too");
}

// Returns, in words, whose variables of the environment say that this is a rank; "": none, or those
// of this program's own parent.
static const char *launcher_words(void)
{
    zr_launch launch;
    if (zr_launch_read_process(&launch, NULL) != ZERO_OK || !launch.family || launch.memfd >= 0)
        return "";
    static const struct {
        const char *family, *words;
    } of[] = {{"RANK", ", by RANK and WORLD_SIZE"},
              {"Open MPI", ", by OMPI_COMM_WORLD_RANK"},
              {"PMI", ", by PMI_RANK"},
              {"Slurm", ", by SLURM_PROCID"}};
    for (int i = 0; i < ZR_COUNT(of); i++)
        if (!strcmp(launch.family, of[i].family))
            return of[i].words;
    return ", by a launcher";
}

static void describe_ranks(const zero_comm *comm, const zero_engine *engine,
                           const zr_rank_threads *threads, const zero_logger *logger)
{
    char grid[128] = "";
    const zr_config *config = zr_engine_config(engine);
    const zr_plan *plan = zr_engine_plan(engine);
    const zr_backend *backend = zr_engine_queue(engine)->backend;
    bool shares = plan->checkpoint_shares > 1 && plan->activation_checkpoint_bytes > 0;
    if (zr_config_model_ranks(config) > 1)
        snprintf(grid, sizeof grid, ", %s%s", zr_grid_in_words(zr_config_grid(config)).text,
                 config->sequence_parallel ? ", rows divided"
                 : shares                  ? ", activation checkpoints divided"
                                           : "");
    log_info(logger,
             "ranks    %d (%s%s%s), %d thread%s each (%s); ZeRO stage %lld; %s, backend %s, %s",
             comm->size, zero_comm_name(comm), launcher_words(), grid, threads->count,
             plural(threads->count), threads->reason, (long long)config->stage,
             zr_dtype_name(config->dtype), backend->name, backend->path());
    if (threads->wanted > threads->cores)
        zr_log(logger, ZERO_LOG_WARNING,
               "%d threads of the ranks share %d core%s: they take turns, and every step waits for "
               "the last of them (--threads, --ranks)",
               threads->wanted, threads->cores, plural(threads->cores));
}

zero_status zr_train_describe_run(zr_train *train, zero_error *error)
{
    const zr_train_resolved *resolved = &train->resolved;
    const zero_logger *logger = &train->logger;
    const zr_config *config = zr_engine_config(train->run.engine);
    const char *out = train->asked.options->dry_run ? NULL : train->asked.options->out_dir;
    int64_t tokens = config->train_batch * resolved->seq;
    describe_ranks(train->comm, train->run.engine, &resolved->threads, logger);
    ZERO_TRY(zr_comm_agree(train->comm, zr_train_describe_pipeline(train, error), error));
    zr_train_warn_left_out_samples(train);
    warn_of_threads(config, resolved->threads.count, train->asked.options->threads, logger);
    describe_exact_world(config, resolved->threads.count, logger);
    describe_exact_tensor(config, resolved->threads.count, logger);
    describe_exact_pipeline(config, zr_engine_plan(train->run.engine), logger);
    describe_rate(&config->schedule, resolved->steps, logger);
    ZERO_TRY(describe_memory(train, error));
    log_info(logger,
             "length   %lld step%s of %lld x %lld tokens, %.2f passes over the text; seed %lld%s%s",
             (long long)resolved->steps, plural(resolved->steps), (long long)config->train_batch,
             (long long)resolved->seq,
             (double)(resolved->steps * tokens) / (double)train->subject.data.count,
             (long long)resolved->seed, out ? "; into " : "", out ? out : "");
    zr_train_foretell(train);
    return ZERO_OK;
}
