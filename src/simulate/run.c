// Completes runs: fills in fields that follow from others, and refuses contradictions.
#include "simulate/run.h"

#include "config/config_offload.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST_DEVICES (1 << 30)

double zr_sim_run_parameters(const zr_sim_run *run)
{
    double h = (double)run->width, kv = h / (double)run->heads * (double)run->kv_heads;
    double attention = 2 * h * h + 2 * h * kv;
    double mlp = (run->gated ? 3.0 : 2.0) * h * (double)run->ffn;
    double tables = (run->tied ? 1.0 : 2.0) * h * (double)run->vocab;
    return (double)run->layers * (attention + mlp + 4 * h) + tables;
}

void zr_sim_run_set_model(const zr_lm_config *model, int64_t seq, zr_sim_run *run)
{
    zr_lm_shape shape = zr_lm_shape_of(model);
    run->layers = shape.layers;
    run->width = shape.width;
    run->heads = shape.heads;
    run->kv_heads = shape.kv_heads;
    run->ffn = shape.inner;
    run->vocab = shape.vocab;
    run->seq = seq > 0 ? seq : shape.positions;
    run->gated = shape.gated;
    run->tied = shape.tied;
    run->parameters = zr_sim_run_parameters(run);
}

static void set_if_none(int *number, int value)
{
    if (*number <= 0)
        *number = value;
}

static void set_if_none64(int64_t *number, int64_t value)
{
    if (*number <= 0)
        *number = value;
}

// Returns the usual number of heads: the size of a head is aligned, divides the width of a tensor
// rank, and is nearest to 128.
static int64_t usual_heads(const zr_sim_run *run)
{
    int64_t best = 0;
    for (int64_t head = 64; head <= 256; head += 8) {
        bool divides = run->width % (head * ZR_MAX(1, run->tensor)) == 0;
        if (divides && (best == 0 || llabs(head - 128) < llabs(best - 128)))
            best = head;
    }
    return best > 0 ? run->width / best : ZR_MAX(1, run->width / 128);
}

static void complete_model(zr_sim_run *run)
{
    set_if_none64(&run->heads, usual_heads(run));
    set_if_none64(&run->kv_heads, run->heads);
    set_if_none64(&run->ffn, run->gated ? ZR_ROUND_UP(run->width * 8 / 3, 256) : 4 * run->width);
    set_if_none64(&run->vocab, 50304);
    set_if_none64(&run->seq, 2048);
    if (run->parameters <= 0)
        run->parameters = zr_sim_run_parameters(run);
}

// More than one chunk means interleaving, and interleaving means two chunks by default.
static void complete_schedule(zr_sim_run *run)
{
    if (run->pipeline == 1)
        run->chunks = 1;
    else if (run->chunks > 1)
        run->schedule = ZR_PIPELINE_INTERLEAVED;
    else if (run->schedule == ZR_PIPELINE_INTERLEAVED)
        run->chunks = 2;
}

static zero_status complete_grid(zr_sim_run *run, zero_error *error)
{
    set_if_none(&run->tensor, 1);
    set_if_none(&run->pipeline, 1);
    set_if_none(&run->context, 1);
    set_if_none(&run->chunks, 1);
    set_if_none(&run->recompute_every, 1);
    int64_t model = (int64_t)run->tensor * run->pipeline;
    if (model <= MOST_DEVICES)
        model *= run->context;
    if (model > MOST_DEVICES)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "tensor %d x pipeline %d x context %d are more than %d devices", run->tensor,
                       run->pipeline, run->context, MOST_DEVICES);
    if (run->devices <= 0)
        run->devices = (int)ZR_MIN(model * ZR_MAX(1, run->data), MOST_DEVICES);
    if (run->devices % model != 0)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "%d devices cannot be divided into tensor %d x pipeline %d x context %d = "
                       "%lld; their number has to be a multiple of it",
                       run->devices, run->tensor, run->pipeline, run->context, (long long)model);
    int data = (int)(run->devices / model);
    set_if_none(&run->data, data);
    if (run->data != data)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "tensor %d x pipeline %d x context %d x data %d is %lld, and there are %d "
                       "devices; data %d would do",
                       run->tensor, run->pipeline, run->context, run->data,
                       (long long)(model * run->data), run->devices, data);
    if (run->pipeline > run->layers)
        return zr_fail(error, ZERO_ERR_USAGE, "%d pipeline stages have only %lld layers",
                       run->pipeline, (long long)run->layers);
    complete_schedule(run);
    return ZERO_OK;
}

static zero_status complete_batch(zr_sim_run *run, zero_error *error)
{
    int64_t ranks = run->data;
    if (run->global_batch > 0 && run->micro_batch <= 0 && run->accumulation > 0)
        run->micro_batch = run->global_batch / (run->accumulation * ranks);
    set_if_none64(&run->micro_batch, 1);
    if (run->global_batch > 0 && run->accumulation <= 0)
        run->accumulation = ZR_MAX(1, run->global_batch / (run->micro_batch * ranks));
    set_if_none64(&run->accumulation, run->pipeline > 1 ? 4 * run->pipeline : 1);
    int64_t global = run->micro_batch * run->accumulation * ranks;
    set_if_none64(&run->global_batch, global);
    if (run->global_batch != global)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "a step has %lld samples, and micro-batch %lld x accumulation %lld x data "
                       "%lld is %lld",
                       (long long)run->global_batch, (long long)run->micro_batch,
                       (long long)run->accumulation, (long long)ranks, (long long)global);
    return ZERO_OK;
}

// Refuses work for which the machine has no rate: it would take no time, or never end.
static zero_status check_machine(const zr_sim_run *run, zero_error *error)
{
    const zr_sim_machine *machine = &run->machine;
    bool optimizer = run->optimizer_on_host || run->optimizer_on_nvme,
         host = optimizer || run->parameters_on_host || run->parameters_on_nvme ||
                run->checkpoints_on_host,
         nvme = run->optimizer_on_nvme || run->parameters_on_nvme, products = false;
    for (int i = ZR_SIM_FP32; i <= (int)run->number; i++)
        products |= machine->peak[i] > 0;
    if (!products)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "machine \"%s\" has no rate of products in the numbers of the run, or wider",
                       machine->name);
    if ((optimizer && machine->host_rate <= 0) || (host && machine->host_link <= 0))
        return zr_fail(error, ZERO_ERR_USAGE,
                       "something is offloaded, and machine \"%s\" has no host.GB_s or no "
                       "host.link_GB_s",
                       machine->name);
    if (nvme && (machine->nvme_read <= 0 || machine->nvme_write <= 0))
        return zr_fail(error, ZERO_ERR_USAGE,
                       "states are offloaded to NVMe, and machine \"%s\" has no nvme.read_GB_s or "
                       "no nvme.write_GB_s",
                       machine->name);
    return ZERO_OK;
}

void zr_sim_run_set_attention(zr_sim_run *run)
{
    bool older = strncmp(run->machine.device, "V100", 4) == 0; // than flash attention
    run->framework.flash |= run->machine.peak[ZR_SIM_8_BIT] > 0;
    run->attention = run->framework.flash && !older ? ZR_SIM_FLASH : ZR_SIM_SCORES;
}

zero_status zr_sim_run_complete(zr_sim_run *run, zero_error *error)
{
    if (run->layers <= 0 || run->width <= 0)
        return zr_fail(error, ZERO_ERR_USAGE, "a model needs layers and a width: %lld and %lld",
                       (long long)run->layers, (long long)run->width);
    complete_model(run);
    ZERO_TRY(complete_grid(run, error));
    ZERO_TRY(complete_batch(run, error));
    return check_machine(run, error);
}

// Refuses what a training's configuration refuses for this schedule.
static zero_status check_schedule(const zr_sim_run *run, zero_error *error)
{
    char why[ZR_PIPELINE_WHY];
    const char *name = zr_pipeline_kind_name(run->schedule);
    if (zr_pipeline_refuses_count(run->schedule, run->pipeline, run->accumulation, why))
        return zr_fail(error, ZERO_ERR_USAGE, "schedule %s: a step has %lld micro-batch%s, %s",
                       name, (long long)run->accumulation, run->accumulation == 1 ? "" : "es", why);
    if (zr_pipeline_refuses_zero(run->schedule, run->pipeline, run->stage, why))
        return zr_fail(error, ZERO_ERR_USAGE, "schedule %s %s", name, why);
    return ZERO_OK;
}

// Refuses what a training's configuration refuses for offloaded states.
static zero_status check_offload(const zr_sim_run *run, zero_error *error)
{
    bool parameters = run->parameters_on_host || run->parameters_on_nvme,
         optimizer = run->optimizer_on_host || run->optimizer_on_nvme;
    int least = zr_offload_least_stage(parameters, optimizer, false);
    if (run->stage < least)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "%s are offloaded, but the stage is %d: they are partitioned from stage %d "
                       "on, and every rank would keep a copy there",
                       parameters ? "parameters" : "optimizer states", run->stage, least);
    if (parameters && run->pipeline > 1 && zr_pipeline_is_asynchronous(run->schedule))
        return zr_fail(error, ZERO_ERR_USAGE,
                       "schedule %s keeps several versions of the parameters, all of them on the "
                       "device, and they are offloaded: a synchronous schedule (1f1b) would do",
                       zr_pipeline_kind_name(run->schedule));
    return ZERO_OK;
}

zero_status zr_sim_run_check(const zr_sim_run *run, zero_error *error)
{
    int64_t chunks = (int64_t)run->pipeline * run->chunks;
    if (run->heads % run->tensor != 0)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "%lld heads of attention cannot be divided among %d tensor ranks",
                       (long long)run->heads, run->tensor);
    if (run->seq % run->context != 0)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "samples of %lld tokens cannot be divided among %d context ranks",
                       (long long)run->seq, run->context);
    // The embedding and the head may be chunks of their own.
    if (chunks > run->layers + 2)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "%d pipeline stages of %d chunks are %lld chunks of %lld layers, the "
                       "embedding and the head",
                       run->pipeline, run->chunks, (long long)chunks, (long long)run->layers);
    ZERO_TRY(check_offload(run, error));
    return check_schedule(run, error);
}
