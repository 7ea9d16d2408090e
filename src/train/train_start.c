// The lines that a training says of itself before its first step, on rank 0.
#include "base/cpu.h"
#include "engine/engine_inner.h"
#include "memory/ledger.h"
#include "train/training.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void say(const zr_train *train, const char *format, ...) ZERO_PRINTF(2, 3);

static void say(const zr_train *train, const char *format, ...)
{
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    zr_log(&train->logger, ZERO_LOG_INFO, "%s", line);
}

// Where there is more to say than how much there is: shares of a mixture, what is masked.
static void describe_data(const zr_train *train)
{
    const zr_dataset *data = &train->subject.data;
    double sum = 0;
    for (int i = 0; i < data->stream_count; i++)
        sum += data->weights[i];
    for (int i = 0; i < data->stream_count && data->stream_count > 1; i++)
        say(train, "         %s: %lld tokens, %.2f%% of the samples", data->streams[i].name, (long long)data->streams[i].count, 100 * data->weights[i] / sum);
    if (data->masked)
        say(train, "         %lld of the tokens are prompt, which the loss does not count%s%s", (long long)data->masked,
            zr_chat_format_name(&train->subject.chat) ? "; messages as " : "", zr_chat_format_name(&train->subject.chat) ? zr_chat_format_name(&train->subject.chat) : "");
}

// The first line: which model, and its vocabulary.
void zr_train_describe_model(const zr_train *train)
{
    const zero_train_options *options = train->asked.options;
    const zr_lm_shape *shape = &train->subject.shape;
    if (options->new_spec)
        say(train, "model    new random weights, %s; vocabulary %lld (%s)", options->new_spec, (long long)shape->vocab, zr_tokenizer_name(train->subject.tokenizer));
    else
        say(train, "model    from %s; vocabulary %lld (%s)", options->model_dir, (long long)shape->vocab, zr_tokenizer_name(train->subject.tokenizer));
    char sharing[48] = "";
    if (shape->kv_heads != shape->heads)
        snprintf(sharing, sizeof sharing, " (%lld of keys and values)", (long long)shape->kv_heads);
    say(train, "         %.3f M parameters: %lld layers, %lld heads%s, width %lld, context %lld", (double)train->subject.parameters / 1e6, (long long)shape->layers,
        (long long)shape->heads, sharing, (long long)shape->width, (long long)shape->positions);
    say(train, "text     %s%s: %lld bytes, %lld tokens to train on", options->data[0], options->data_count > 1 ? " and others" : "",
        (long long)zr_corpus_bytes(train->subject.corpus), (long long)train->subject.data.count);
    describe_data(train);
    if (!train->subject.val.count)
        say(train, "         nothing is held out%s", options->val ? "" : ": a tenth of this text is shorter than a window");
    else
        say(train, "         held out: %s, %lld tokens", train->subject.val_is_tenth ? "the last tenth" : options->val, (long long)train->subject.val.count);
}

static void describe_tier(const zr_train *train, zero_tier tier, const char *heading)
{
    const zr_plan *plan = zr_engine_plan(train->run.engine);
    char line[512];
    int at = 0;
    for (int c = 0; c < ZERO_MEM_COUNT; c++)
        if (plan->bytes[tier][c] > 0 && at < (int)sizeof line)
            at += snprintf(line + at, sizeof line - (size_t)at, "%s %.2f, ", zr_memory_category_name((zero_memory_category)c), (double)plan->bytes[tier][c] / 1e6);
    if (at > 0)
        say(train, "%s: %stotal %.2f", heading, line, (double)zr_plan_tier_bytes(plan, tier) / 1e6);
}

static void describe_memory(const zr_train *train)
{
    const char *io = zr_engine_io_description(train->run.engine);
    describe_tier(train, ZERO_TIER_device, "memory   of a rank, planned, MB");
    describe_tier(train, ZERO_TIER_host, "         on the host");
    describe_tier(train, ZERO_TIER_nvme, "         on NVMe");
    if (io)
        say(train, "         to and from NVMe: %s", io);
}

// What comes on top of the plan: the program, its libraries and the text. Said before anything of the plan is there.
void zr_train_describe_runtime(const zr_train *train)
{
    say(train, "runtime  %.1f MB resident before the plan's memory is reserved", (double)zr_memory_resident() / 1e6);
}

// A schedule that has come to its end before the run has: from there on the rate is one and the same.
static void warn_of_end(const zr_train *train, const zr_schedule *schedule)
{
    bool cycle = schedule->kind == ZR_SCHEDULE_ONE_CYCLE, decays = schedule->kind == ZR_SCHEDULE_WARMUP_DECAY || schedule->kind == ZR_SCHEDULE_WARMUP_COSINE;
    int64_t length = cycle ? schedule->first_steps + schedule->second_steps : schedule->total_steps;
    double last = zr_schedule_lr(schedule, train->resolved.steps - 1);
    if ((!cycle && !decays) || length >= train->resolved.steps || zr_schedule_lr(schedule, train->resolved.steps) != last)
        return;
    int64_t n = length; // updates before the first that has this rate
    while (zr_schedule_lr(schedule, n) != last)
        n++;
    zr_log(&train->logger, ZERO_LOG_WARNING, "%s %lld, this run has %lld steps: from step %lld on the rate of %s stays at %.3g",
           cycle ? "scheduler.params.cycle_first_step_size and cycle_second_step_size make a cycle of" : "scheduler.params.total_num_steps is", (long long)length,
           (long long)train->resolved.steps, (long long)n + 1, zr_schedule_name(schedule->kind), last);
}

static void describe_rate(const zr_train *train, const zr_config *config)
{
    const zr_schedule *schedule = &config->schedule;
    double first = zr_schedule_lr(schedule, 0), last = zr_schedule_lr(schedule, train->resolved.steps - 1), most = first;
    for (int64_t n = 1; n < ZR_MIN(train->resolved.steps, 100000); n++) {
        double lr = zr_schedule_lr(schedule, n);
        most = lr > most ? lr : most;
    }
    say(train, "rate     %.3g at first, at most %.3g, %.3g at the end", first, most, last);
    warn_of_end(train, schedule);
}

// What has to be the same in another run, for its bits to be.
static void describe_exact_world(const zr_train *train, const zr_config *config)
{
    if (!config->exact_world)
        return;
    if (!train->asked.options->threads)
        zr_log(&train->logger, ZERO_LOG_WARNING, "libzero.exact_world: %d thread%s of a rank follow from its cores, and would be others on other ranks; --threads says how many", train->resolved.threads.count,
               train->resolved.threads.count == 1 ? "" : "s");
    say(train, "exact    these bits on 1, 2, 4, ... %lld ranks that make %lld micro-batches of %lld samples a step, with %d thread%s each", (long long)(config->train_batch / config->micro_batch),
        (long long)(config->train_batch / config->micro_batch), (long long)config->micro_batch, train->resolved.threads.count, train->resolved.threads.count == 1 ? "" : "s");
}

void zr_train_describe_run(const zr_train *train)
{
    const zr_config *config = zr_engine_config(train->run.engine);
    const zr_queue *queue = zr_engine_queue(train->run.engine);
    int64_t tokens = config->train_batch * train->resolved.seq;
    say(train, "ranks    %d (%s), %d thread%s each (%s)", train->comm->size, zero_comm_name(train->comm), train->resolved.threads.count,
        train->resolved.threads.count == 1 ? "" : "s", train->resolved.threads.reason);
    if (train->resolved.threads.wanted > train->resolved.threads.cores)
        zr_log(&train->logger, ZERO_LOG_WARNING, "%d threads of the ranks share %d core%s: they take turns, and every step waits for the last of them (--threads, --ranks)",
               train->resolved.threads.wanted, train->resolved.threads.cores, train->resolved.threads.cores == 1 ? "" : "s");
    say(train, "compute  backend %s, %s", queue->backend->name, queue->backend->path());
    say(train, "ZeRO     stage %lld; %lld tokens a step", (long long)config->stage, (long long)tokens);
    describe_exact_world(train, config);
    describe_rate(train, config);
    describe_memory(train);
    say(train, "length   %lld steps, %.2f passes over the text; seed %lld", (long long)train->resolved.steps,
        (double)(train->resolved.steps * tokens) / (double)train->subject.data.count, (long long)train->resolved.seed);
}
