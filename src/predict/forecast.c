#include "predict/forecast.h"

#include "compute/attention_ops.h"
#include "layers/layers.h"
#include "predict/virtual_rank.h"

#include <math.h>

// How far predictions are assumed to be off (standard deviation of the logarithm) before any run
// has shown it, and for how many runs that assumption counts. Operations that were never measured
// add to it.
static const double UNLEARNT_SPREAD = 0.08, UNLEARNT_RUNS = 3, UNKNOWN_SPREAD = 0.3;
// 80% of a normal distribution lie within this many standard deviations.
static const double OF_80_PERCENT = 1.2816;

// Steps that a rank runs; only the last one counts, because the first finds nothing under way.
enum { ROUNDS = 2 };

static double sum_of_parts(const double parts[ZR_TIME_PARTS])
{
    double sum = 0;
    for (int part = 0; part < ZR_TIME_PARTS; part++)
        sum += parts[part];
    return sum;
}

static void run_step(zr_virtual_rank *rank)
{
    for (int64_t k = 0; k < rank->plan->settings.accumulation; k++)
        zr_virtual_rank_micro_batch(rank, ZR_PASS_MICRO_BATCH, k, k == 0);
    zr_virtual_rank_run(rank, ZR_PASS_BOUNDARY, 0);
    zr_virtual_rank_end_step(rank, 0);
}

static void run_virtual_steps(zr_virtual_rank *rank, zr_forecast *out, double *unknown)
{
    for (int round = 0; round < ROUNDS; round++) {
        for (int part = 0; part < ZR_TIME_PARTS; part++)
            rank->parts[part] = 0;
        rank->unknown = 0;
        run_step(rank);
    }
    for (int part = 0; part < ZR_TIME_PARTS; part++)
        out->plain[part] = rank->parts[part];
    *unknown = rank->unknown;
}

// Adds how long equal ranks wait for each other, as measured by runs, because no rank is as fast as
// the others all the time.
static void wait_for_others(zr_virtual_rank *rank, zr_forecast *out)
{
    int64_t busy = (int64_t)(sum_of_parts(out->plain) * 1e9); // nanoseconds
    if (rank->plan->world > 1)
        out->plain[ZR_TIME_EXCHANGE] +=
            zr_virtual_rank_cost(rank, ZR_ACTIVITY_wait, busy, 0, 1).seconds;
}

static zero_status run_without_pipeline(const zr_forecast_question *question, zr_forecast *out,
                                        double *unknown, zero_error *error)
{
    zr_virtual_rank rank;
    zero_status status = zr_virtual_rank_open(question, 0, &rank, error);
    if (status == ZERO_OK) {
        run_virtual_steps(&rank, out, unknown);
        wait_for_others(&rank, out);
    }
    zr_virtual_rank_close(&rank);
    return status;
}

static zero_status run_pipeline(const zr_forecast_question *question, zr_forecast *out,
                                double *unknown, zero_error *error)
{
    double seconds;
    ZERO_TRY(zr_virtual_pipeline_run(question, out->plain, &out->bubble, &seconds, unknown, error));
    out->plain[ZR_TIME_EXCHANGE] += out->bubble;
    return ZERO_OK;
}

static bool crosses_machines(const zr_forecast_question *question)
{
    return question->data.reach.strangers > 0 || question->tensor.reach.strangers > 0 ||
           question->pipeline.reach.strangers > 0;
}

// The parts' corrections, then that of the whole, which the parts share so that they add up. Those
// of exchanges are of what goes through memory.
static void apply_corrections(const zr_forecast_question *question, zr_forecast *f)
{
    const zr_rate_book *book = question->book;
    double whole = zr_correction_factor(&book->whole);
    for (int part = 0; part < ZR_TIME_PARTS; part++) {
        bool of_network = part == ZR_TIME_EXCHANGE && crosses_machines(question);
        double factor = of_network ? 1 : zr_correction_factor(&book->corrections[part]) * whole;
        f->parts[part] = f->plain[part] * factor;
    }
    f->seconds = sum_of_parts(f->parts);
    double plain = f->plain[ZR_TIME_EXCHANGE];
    f->bubble *= plain > 0 ? f->parts[ZR_TIME_EXCHANGE] / plain : 1;
}

static void find_interval(const zr_rate_book *book, zr_forecast *f)
{
    double runs = (double)book->whole.runs, learnt = book->whole.spread,
           variance = (runs * learnt * learnt + UNLEARNT_RUNS * UNLEARNT_SPREAD * UNLEARNT_SPREAD) /
                      (runs + UNLEARNT_RUNS),
           unknown = f->unknown * UNKNOWN_SPREAD,
           spread = OF_80_PERCENT * sqrt(variance + unknown * unknown);
    f->low = f->seconds * exp(-spread);
    f->high = f->seconds * exp(spread);
}

static double tokens_of_step(const zr_plan *plan)
{
    return (double)(plan->shape.batch * plan->shape.seq * plan->settings.accumulation) *
           plan->ranks;
}

// Returns what attention takes of a token: 12 C T of each layer, as PaLM counts it; of one with a
// window, the part of that which the pairs of positions it sees are of all causal pairs.
static double flops_of_attention(const zr_lm_config *config, int64_t seq)
{
    const zr_lm_shape shape = zr_lm_shape_of(config);
    double whole = (double)zr_attention_seen(&(zr_attention){.window = 0}, 0, seq), layers = 0;
    for (int layer = 0; layer < shape.layers; layer++) {
        const zr_attention of = {.window = zr_lm_window(config, layer)};
        layers += (double)zr_attention_seen(&of, 0, seq) / whole;
    }
    return 12 * layers * (double)(shape.heads * shape.head_dim) * (double)seq;
}

double zr_flops_of_token(const zr_plan *plan)
{
    const zero_model *model = plan->model->whole ? plan->model->whole : plan->model;
    const zr_lm_config *config = zr_lm_config_of(model);
    double flops = 6 * (double)plan->parameters;
    if (!config)
        return flops;
    if (config->lora.rank) // what is frozen has no product for a gradient of its own
        flops -= 2 * (double)(zr_lm_parameters(config) - zr_lm_trained(config));
    return flops + flops_of_attention(config, plan->shape.seq);
}

static const char *name_of_largest_part(const double parts[ZR_TIME_PARTS])
{
    int most = 0;
    for (int part = 1; part < ZR_TIME_PARTS; part++)
        if (parts[part] > parts[most])
            most = part;
    return zr_time_part_names[most];
}

zero_status zr_forecast_find(const zr_forecast_question *question, zr_forecast *out,
                             zero_error *error)
{
    double unknown = 0;
    *out = (zr_forecast){0};
    ZERO_TRY(question->stages > 1 ? run_pipeline(question, out, &unknown, error)
                                  : run_without_pipeline(question, out, &unknown, error));
    double plain = sum_of_parts(out->plain), tokens = tokens_of_step(question->plans[0]);
    out->unknown = plain > 0 ? fmin(unknown / plain, 1) : 0;
    apply_corrections(question, out);
    find_interval(question->book, out);
    out->tokens = out->seconds > 0 ? tokens / out->seconds : 0;
    out->flops = tokens * zr_flops_of_token(question->plans[0]);
    out->bound = name_of_largest_part(out->parts);
    return ZERO_OK;
}

// Of more guesses than these no figure is shown, or only one digit of it.
static const double MOST_GUESSED = 0.5, ROUGH = 0.3;

bool zr_forecast_is_unknown(const zr_forecast *f)
{
    return !(f->seconds > 0) || f->unknown > MOST_GUESSED;
}

bool zr_forecast_is_rough(const zr_forecast *f)
{
    return !zr_forecast_is_unknown(f) && f->unknown > ROUGH;
}

void zr_forecast_slow(zr_forecast *f, double slowdown)
{
    if (!(slowdown > 1))
        return;
    for (int part = 0; part < ZR_TIME_PARTS; part++)
        f->parts[part] *= slowdown;
    f->bubble *= slowdown;
    f->seconds *= slowdown;
    f->high *= slowdown * slowdown;
    f->tokens /= slowdown;
}

// Runs the evaluation of one micro-batch by a stage. Flat parameters that stay gathered are there.
static zr_cost evaluate_micro_batch(zr_virtual_rank *rank)
{
    const uint32_t fresh = 1u << ZR_FRESH;
    double begin = rank->now;
    rank->unknown = 0;
    if (!rank->plan->pipeline)
        zr_virtual_rank_run(rank, ZR_PASS_EVALUATION, fresh);
    for (int c = 0; rank->plan->pipeline && c < rank->plan->chunk_count; c++)
        zr_virtual_rank_run(rank, zr_chunk_pass(ZR_CHUNK_EVALUATION, c), fresh);
    return (zr_cost){rank->now - begin, rank->unknown};
}

static zero_status evaluate_on_stage(const zr_forecast_question *question, int stage, zr_cost *out,
                                     zero_error *error)
{
    zr_virtual_rank rank;
    zero_status status = zr_virtual_rank_open(question, stage, &rank, error);
    for (int round = 0; round < ROUNDS && status == ZERO_OK; round++)
        *out = evaluate_micro_batch(&rank);
    zr_virtual_rank_close(&rank);
    return status;
}

// In a pipeline the first micro-batch goes through all stages, and each later one comes after the
// time of the slowest.
zero_status zr_forecast_evaluation(const zr_forecast_question *question, int64_t micro_batches,
                                   double *out, double *unknown, zero_error *error)
{
    zr_cost first = {0};
    double slowest = 0;
    *out = 0;
    for (int s = 0; s < question->stages; s++) {
        zr_cost taken = {0};
        ZERO_TRY(evaluate_on_stage(question, s, &taken, error));
        zr_cost_add(&first, taken);
        slowest = fmax(slowest, taken.seconds);
    }
    if (micro_batches > 0)
        *out = first.seconds + (double)(micro_batches - 1) * slowest;
    if (unknown)
        *unknown = first.seconds > 0 ? fmin(first.unknown / first.seconds, 1) : 0;
    return ZERO_OK;
}
