// `zero bench step`: how close a training step is to the time of its matrix products alone, and
// where the rest goes.
//
//   product time  the step's products, alone, at their shapes (the median of their own measurement
//                 in this run)
//   efficiency    product time / step time
//   floor         products at the best rate measured for their shapes, and the bytes of everything
//                 else at memory's bandwidth
//
// Of a pipeline both are those of the rank that has most to compute.
//
// Attention's own products count as "everything else". Steps are timed without recording; a few
// more steps are recorded.
#include "base/clock.h"
#include "base/numbers.h"
#include "base/random.h"
#include "base/recorder.h"
#include "comm/agreement.h"
#include "commands/bench_engine.h"
#include "engine/engine_api.h"
#include "engine/rank_grid.h"
#include "predict/meter.h"
#include "setup/pipeline_stages.h"
#include "report/pipeline_times.h"

#include <stdio.h>
#include <string.h>

enum { WARM_UP = 2, WARM_UP_MOST = 24, TIMED = 10, RECORDED = 3, RECORDS = 1 << 16 };

enum { TIMED_WINDOWS = 3 }; // least, of an asynchronous pipeline

typedef struct step_bench {
    const zr_bench *bench;
    zr_bench_engine made;
    int32_t *tokens, *targets; // (micro_batch, seq)
    // Steps that are made together, because they overlap: of an asynchronous pipeline; else 1.
    int64_t window;
    zero_tensors *batches; // (window, accumulation) all of them those tokens and targets
    zero_step_info *infos; // (window)
    double seconds;        // of a step: the median over the times of the slowest rank
} step_bench;

static zero_tensor batch_tensor(const step_bench *s, int32_t *values)
{
    return (zero_tensor){.data = values,
                         .dtype = ZERO_I32,
                         .dims = 2,
                         .shape = {s->made.micro_batch, s->made.subject.seq}};
}

static zero_status draw_batch(step_bench *s, zero_error *error)
{
    size_t bytes = (size_t)(s->made.micro_batch * s->made.subject.seq) * sizeof *s->tokens;
    s->window = zero_window(s->made.engine);
    int64_t count = s->window * zero_accumulation(s->made.engine);
    s->tokens = zr_alloc(bytes, error);
    s->targets = zr_alloc(bytes, error);
    s->batches = zr_alloc((size_t)count * sizeof *s->batches, error);
    s->infos = zr_alloc((size_t)s->window * sizeof *s->infos, error);
    if (!s->tokens || !s->targets || !s->batches || !s->infos)
        return ZERO_ERR_MEMORY;
    for (int64_t k = 0; k < count; k++)
        s->batches[k] =
            (zero_tensors){2, {batch_tensor(s, s->tokens), batch_tensor(s, s->targets)}};
    // Tensor ranks and pipeline stages compute the same samples: their data rank draws them.
    int data_rank = zr_engine_grid(s->made.engine)->data->rank;
    for (int64_t i = 0; i < s->made.micro_batch * s->made.subject.seq; i++) {
        zr_philox drawn = zr_philox4x32((uint64_t)data_rank, 0, (uint64_t)i);
        s->tokens[i] = (int32_t)(drawn.v[0] % (uint32_t)s->made.subject.shape.vocab);
        s->targets[i] = (int32_t)(drawn.v[1] % (uint32_t)s->made.subject.shape.vocab);
    }
    return ZERO_OK;
}

// Makes a step, or the steps of a window.
static zero_status make_steps(step_bench *s, zero_error *error)
{
    return zero_train_window(s->made.engine, s->batches, s->window, s->infos, error);
}

// Returns how many windows have at least `steps` steps.
static int windows_for_steps(const step_bench *s, int64_t steps)
{
    return (int)((steps + s->window - 1) / s->window);
}

// Runs steps until some have updated: in fp16 the first steps search for a loss scale and update
// nothing.
static zero_status warm_up(step_bench *s, zero_error *error)
{
    int updates = 0;
    for (int i = 0; i < windows_for_steps(s, WARM_UP_MOST) && updates < WARM_UP; i++) {
        ZERO_TRY(make_steps(s, error));
        for (int64_t t = 0; t < s->window; t++)
            updates += !s->infos[t].skipped;
    }
    return ZERO_OK;
}

static int count_timings(const step_bench *s)
{
    return s->window > 1 ? ZR_MAX(windows_for_steps(s, TIMED), TIMED_WINDOWS) : TIMED;
}

static zero_status time_steps(step_bench *s, zero_error *error)
{
    double seconds[TIMED];
    int count = count_timings(s);
    ZERO_TRY(warm_up(s, error));
    for (int i = 0; i < count; i++) {
        ZERO_TRY(zr_comm_barrier(s->bench->meter.comm, error));
        double begin = zr_clock_seconds();
        ZERO_TRY(make_steps(s, error));
        int64_t nanoseconds = (int64_t)((zr_clock_seconds() - begin) * 1e9);
        ZERO_TRY(zr_comm_agree_on_largest(s->bench->meter.comm, &nanoseconds, error));
        seconds[i] = (double)nanoseconds * 1e-9 / (double)s->window;
    }
    s->seconds = zr_median(seconds, count);
    return ZERO_OK;
}

// Computes the sums of one step as the mean of a few recorded steps.
static zero_status record_steps(step_bench *s, zr_activity_sum sums[ZR_ACTIVITY_COUNT],
                                zero_error *error)
{
    zr_recorder *recorder;
    int64_t windows = windows_for_steps(s, RECORDED), steps = windows * s->window,
            room = RECORDS * steps;
    ZERO_TRY(zr_recorder_create(room, &recorder, error));
    zero_status status = zr_engine_record(s->made.engine, recorder, error);
    for (int64_t i = 0; i < windows && status == ZERO_OK; i++)
        status = make_steps(s, error);
    if (status == ZERO_OK)
        status = zr_engine_record(s->made.engine, NULL, error);
    zr_recorder_sum(recorder, 0, sums);
    if (status == ZERO_OK && recorder->dropped > 0)
        status = zr_fail(
            error, ZERO_ERR_LIMIT, "recording %lld steps: %lld records, there is room for %lld",
            (long long)steps, (long long)(recorder->count + recorder->dropped), (long long)room);
    for (int a = 0; a < ZR_ACTIVITY_COUNT; a++)
        sums[a] = (zr_activity_sum){sums[a].calls / steps, sums[a].nanoseconds / steps,
                                    sums[a].bytes / steps, sums[a].flops / steps};
    zr_recorder_destroy(recorder);
    return status;
}

static void say_activity(const zr_bench *bench, const char *name, const zr_activity_sum *sum,
                         double step, double bandwidth)
{
    double seconds = (double)sum->nanoseconds * 1e-9;
    zr_bench_say(bench, "  %-32s %6lld %10.3f %6.1f%%", name, (long long)sum->calls, seconds * 1e3,
                 100 * seconds / step);
    if (sum->bytes > 0 && seconds > 0)
        zr_bench_say(bench, " %10.1f %8.2f %8.2f", (double)sum->bytes * 1e-6,
                     (double)sum->bytes / seconds * 1e-9, (double)sum->bytes / seconds / bandwidth);
    if (sum->flops > 0 && seconds > 0)
        zr_bench_say(bench, "%s %8.1f", sum->bytes > 0 ? "" : "                            ",
                     (double)sum->flops / seconds * 1e-9);
    zr_bench_say(bench, "\n");
}

static void say_breakdown(const step_bench *s, const zr_activity_sum sums[ZR_ACTIVITY_COUNT],
                          double bandwidth)
{
    const zr_bench *bench = s->bench;
    zr_activity_sum phases = {0}, rest;
    zr_bench_say(bench, "\n  %-32s %6s %10s %7s %10s %8s %8s %8s\n", "of a recorded step (rank 0)",
                 "calls", "ms", "share", "MB", "GB/s", "/memory", "GF/s");
    for (int a = 0; a < ZR_ACTIVITY_COUNT; a++)
        if (zr_activity_track(a) == ZR_TRACK_PHASE)
            phases.nanoseconds += sums[a].nanoseconds;
    double step = (double)phases.nanoseconds * 1e-9;
    rest = phases;
    for (int a = 0; a < ZR_ACTIVITY_COUNT; a++) {
        if (zr_activity_track(a) == ZR_TRACK_PHASE || sums[a].calls == 0)
            continue;
        say_activity(bench, zr_activity_text(a), &sums[a], step, bandwidth);
        rest.nanoseconds -= zr_activity_is_overlapped(a) ? 0 : sums[a].nanoseconds;
    }
    say_activity(bench, "everything else", &(zr_activity_sum){.nanoseconds = rest.nanoseconds},
                 step, bandwidth);
}

// Returns the bytes that kernels other than products move.
static int64_t bytes_outside_products(const zr_activity_sum sums[ZR_ACTIVITY_COUNT])
{
    int64_t bytes = 0;
    for (int a = 0; a < ZR_ACTIVITY_COUNT; a++)
        if (zr_activity_track(a) != ZR_TRACK_PHASE && a != ZR_ACTIVITY_product &&
            zr_activity_track(a) != ZR_TRACK_DISK && !zr_activity_is_overlapped(a))
            bytes += sums[a].bytes;
    return bytes;
}

static zero_status pipeline_step(void *user, zero_error *error) { return make_steps(user, error); }

static void say_pipeline(const zr_bench *bench, const zr_pipeline_times *times)
{
    zr_bench_say(bench, "\npipeline        %10.3f ms   bubble %.1f%%\n", times->step * 1e3,
                 100 * times->bubble);
    zr_bench_say(bench,
                 "simulated       %10.3f ms   bubble %.1f%%, from the times below (in %.3f ms); "
                 "step / simulated %.3f\n",
                 times->simulated * 1e3, 100 * times->simulated_bubble, times->simulating * 1e3,
                 times->step / times->simulated);
    for (int c = 0; c < times->chunks; c++)
        zr_bench_say(bench, "  chunk %-3d of a micro-batch: forward %.3f ms, backward %.3f ms\n", c,
                     times->cost[c].act[ZR_ACT_FORWARD] * 1e3,
                     (times->cost[c].act[ZR_ACT_BACKWARD] + times->cost[c].act[ZR_ACT_WEIGHT]) *
                         1e3);
    zr_bench_say(bench, "  update %.3f ms\n", times->update * 1e3);
}

// Compares recorded steps of a pipeline with a simulation of what its chunks took by themselves.
static zero_status report_pipeline(const step_bench *s, zero_error *error)
{
    const zr_pipeline_part *part = zr_engine_plan(s->made.engine)->pipeline;
    zr_pipeline_times times;
    if (!part)
        return ZERO_OK;
    zero_status status = zr_pipeline_times_measure(s->bench->meter.comm, s->made.engine,
                                                   windows_for_steps(s, RECORDED), pipeline_step,
                                                   (step_bench *)s, &times, error);
    if (status == ZERO_OK)
        say_pipeline(s->bench, &times);
    zr_pipeline_times_free(&times);
    return status;
}

// Sets *seconds to those of the rank that has most, because ranks of a pipeline differ.
static zero_status agree_if_pipeline(const step_bench *s, double *seconds, zero_error *error)
{
    int64_t nanoseconds = (int64_t)(*seconds * 1e9);
    if (!zr_engine_plan(s->made.engine)->pipeline)
        return ZERO_OK;
    ZERO_TRY(zr_comm_agree_on_largest(s->bench->meter.comm, &nanoseconds, error));
    *seconds = (double)nanoseconds * 1e-9;
    return ZERO_OK;
}

static zero_status report_step(const step_bench *s, zero_error *error)
{
    const zr_bench *bench = s->bench;
    zr_activity_sum sums[ZR_ACTIVITY_COUNT];
    zr_products_time products;
    double bandwidth;
    ZERO_TRY(record_steps((step_bench *)s, sums, error));
    ZERO_TRY(zr_products_measure(&bench->meter, zr_engine_plan(s->made.engine), &products, error));
    ZERO_TRY(zr_memory_rate_of_copy(&bench->meter, &bandwidth, error));
    double accumulation = (double)zero_accumulation(s->made.engine),
           tokens = (double)(zr_engine_config(s->made.engine)->train_batch * s->made.subject.seq);
    double alone = products.median * accumulation,
           floor = products.best * accumulation + (double)bytes_outside_products(sums) / bandwidth;
    double rate = products.flops * accumulation / alone;
    ZERO_TRY(agree_if_pipeline(s, &alone, error));
    ZERO_TRY(agree_if_pipeline(s, &floor, error));
    zr_bench_say(
        bench,
        "step            %10.3f ms   %10.1f tokens/s   (median of %d%s, the slowest rank's)\n",
        s->seconds * 1e3, tokens / s->seconds, count_timings(s),
        s->window > 1 ? " windows, by their steps" : "");
    zr_bench_say(bench, "products alone  %10.3f ms   %10.1f GF/s a rank\n", alone * 1e3,
                 rate * 1e-9);
    zr_bench_say(
        bench,
        "memory          %10.2f GB/s a rank (a copy's reads and writes, all ranks at once)\n",
        bandwidth * 1e-9);
    zr_bench_say(bench, "efficiency      %10.3f      products alone / step\n", alone / s->seconds);
    zr_bench_say(bench, "step / floor    %10.3f      floor %.3f ms\n", s->seconds / floor,
                 floor * 1e3);
    say_breakdown(s, sums, bandwidth);
    return report_pipeline(s, error);
}

// Says what the pipeline is, of whose first stage the numbers of a rank are.
static zero_status say_division(const step_bench *s, zero_error *error)
{
    const zr_pipeline_part *part = zr_engine_plan(s->made.engine)->pipeline;
    zr_simulation simulation;
    zr_buffer text = {0};
    if (!part)
        return ZERO_OK;
    zero_status status = zr_pipeline_stages_simulate(part, &simulation, error);
    if (status == ZERO_OK) {
        zr_pipeline_stages_heading(part, simulation.bubble, &text);
        zr_bench_say(s->bench, "pipeline %s; numbers of a rank are of pipeline stage %d\n",
                     text.failed ? "" : text.data, part->stage);
    }
    zr_simulation_free(&simulation);
    zr_buffer_free(&text);
    return status;
}

static zero_status time_and_report(step_bench *s, zero_error *error)
{
    const zr_plan *plan = zr_engine_plan(s->made.engine);
    zr_bench_say(
        s->bench, "%s: %.3f M parameters; %lld x %lld a %srank, %s, stage %d; backend %s, %s\n",
        s->made.subject.name, (double)plan->parameters / 1e6, (long long)s->made.micro_batch,
        (long long)s->made.subject.seq, plan->tensor_ranks > 1 || plan->pipeline ? "data " : "",
        plan->settings.precision.name, plan->settings.stage,
        zr_engine_queue(s->made.engine)->backend->name,
        zr_engine_queue(s->made.engine)->backend->path());
    ZERO_TRY(zr_comm_agree(s->bench->meter.comm, say_division(s, error), error));
    ZERO_TRY(time_steps(s, error));
    return report_step(s, error);
}

zero_status zr_bench_step(const zr_bench *bench, const zero_bench_options *options,
                          zero_error *error)
{
    step_bench s = {.bench = bench};
    zero_status status = zr_bench_engine_open(bench, options, &s.made, error);
    if (status == ZERO_OK)
        status = zr_comm_agree(bench->meter.comm, draw_batch(&s, error), error);
    if (status == ZERO_OK)
        status = time_and_report(&s, error);
    zr_bench_engine_close(&s.made);
    zr_free(s.tokens);
    zr_free(s.targets);
    zr_free(s.batches);
    zr_free(s.infos);
    return status;
}
