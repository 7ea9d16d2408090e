#include "simulate/costs.h"

#include <math.h>

double zr_sim_pipeline_stage_layers(const zr_sim_run *run)
{
    double layers = ceil((double)run->layers / run->pipeline);
    if (!run->framework.balanced || run->pipeline == 1)
        return layers;
    // The head counts as many layers as have its parameters.
    double tables = (double)run->width * (double)run->vocab;
    double layer = (run->parameters - tables * (run->tied ? 1 : 2)) / (double)run->layers;
    double all = (double)run->layers + tables / layer;
    return fmax(1, fmin((double)run->layers, round(all / run->pipeline)));
}

double zr_sim_device_parameters(const zr_sim_run *run)
{
    double tables = (double)run->width * (double)run->vocab;
    double layers = run->parameters - tables * (run->tied ? 1 : 2);
    if (layers < 0)
        layers = run->parameters;
    double own = layers / (double)run->layers * zr_sim_pipeline_stage_layers(run);
    own += run->pipeline == 1 && !run->tied ? 2 * tables : tables;
    return own / run->tensor;
}

// Returns how many versions of its weights the first stage of a pipeline keeps.
static double weight_versions_of(const zr_sim_run *run)
{
    if (run->schedule == ZR_PIPELINE_PIPEDREAM)
        return run->pipeline;
    return run->schedule == ZR_PIPELINE_2BW ? 2 : 1;
}

double zr_sim_states(const zr_sim_run *run)
{
    double own = zr_sim_device_parameters(run), ranks = run->data * run->context;
    double element = zr_sim_element(run), masters = run->number == ZR_SIM_FP32 ? 0 : 4;
    double parameters = run->stage >= 3 ? element * own / ranks : element * own;
    double gradient = run->framework.wide_gradients ? 4 : element;
    double gradients = run->stage >= 2 ? gradient * own / ranks : gradient * own;
    double optimizer = (8 + masters) * (run->stage >= 1 ? own / ranks : own);
    // A second copy is divided among the ranks that share a node.
    double copy = run->stage >= 3 && run->fully_sharded_in_node
                      ? element * own / zr_sim_group_of_states(run).within
                      : 0;
    // Asynchronous schedules keep the weights of the micro-batches in flight.
    double versions = run->pipeline > 1 ? weight_versions_of(run) - 1 : 0;
    if (run->frozen)
        return parameters + copy;
    if (run->parameters_on_host || run->parameters_on_nvme)
        parameters = 0;
    if (run->optimizer_on_host || run->optimizer_on_nvme) {
        optimizer = 0;
        gradients = run->stage >= 2 ? 0 : gradients;
    }
    return parameters * (1 + versions) + copy + gradients + optimizer;
}

// Bytes that a layer keeps of a micro-batch (Korthikanti et al.: 34 t h + 5 scores in 16 bits).
static double layer_activations(const zr_sim_run *run, bool scores)
{
    double t = zr_sim_tokens(run) * zr_sim_element(run) / 2, h = (double)run->width;
    double p = run->tensor;
    double kv = h / (double)run->heads * (double)run->kv_heads, f = (double)run->ffn;
    double whole = 10 * t * h; // inputs of norms and dropout masks
    double divided = 2 * t * (2 * h + 2 * kv + (run->gated ? 3 : 2) * f) + 4 * t * h;
    if (run->attention == ZR_SIM_SCORES && scores)
        divided += 5 * t * (double)run->heads * (double)run->seq;
    // Megatron gathers the inputs of products again in backward; others keep them.
    double gathered = run->sequence_parallel && !run->framework.interleaved ? 5 * t * h : 0;
    return (run->sequence_parallel ? whole / p : whole) + divided / p + gathered;
}

double zr_sim_boundary(const zr_sim_run *run)
{
    bool divided = run->sequence_parallel || run->divided_checkpoints;
    double whole = zr_sim_element(run) * zr_sim_tokens(run) * (double)run->width;
    return whole / (divided ? run->tensor : 1);
}

// Returns the most micro-batches that the first pipeline stage keeps at one time.
static double most_waiting_micro_batches(const zr_sim_run *run)
{
    if (run->pipeline > 1 && run->schedule == ZR_PIPELINE_GPIPE)
        return (double)run->accumulation; // backward begins after all of them
    double waiting = (double)ZR_MIN(run->accumulation, run->pipeline);
    if (run->chunks > 1)
        waiting *= 1 + (run->pipeline - 1.0) / ((double)run->pipeline * run->chunks);
    return waiting;
}

double zr_sim_activations(const zr_sim_run *run)
{
    double t = zr_sim_tokens(run);
    double layers = zr_sim_pipeline_stage_layers(run), waiting = most_waiting_micro_batches(run);
    double whole = layer_activations(run, true);
    double kept = whole;
    if (run->recompute == ZR_SIM_SELECTIVE)
        kept = layer_activations(run, false);
    if (run->recompute == ZR_SIM_OPERATORS)
        kept = layer_activations(run, false) * 0.6;
    if (run->recompute == ZR_SIM_FULL) {
        double boundary = run->checkpoints_on_host ? 0 : zr_sim_boundary(run);
        kept = boundary + (1 - 1.0 / run->recompute_every) * whole;
    }
    double logits = 6 * t * (double)run->vocab / run->tensor;
    // Without scores in memory, selective recomputation has nothing to compute again.
    bool flash = run->attention == ZR_SIM_FLASH;
    bool again = run->recompute != ZR_SIM_KEEP && !(run->recompute == ZR_SIM_SELECTIVE && flash);
    double working = again ? whole : 0;
    // The first pipeline stage keeps the most micro-batches, and the last one has the logits.
    double first = waiting * layers * kept + (run->pipeline == 1 ? logits : 0);
    double last = layers * kept + logits;
    return ZR_MAX(first, last) + working;
}

double zr_sim_memory(const zr_sim_run *run)
{
    // Stage 3 gathers two units at a time.
    double own = zr_sim_device_parameters(run);
    double gathered = run->stage >= 3 ? 2 * zr_sim_element(run) * own /
                                            (double)ZR_MAX(1, run->layers / run->pipeline)
                                      : 0;
    return zr_sim_states(run) + zr_sim_activations(run) + gathered;
}

double zr_sim_host_memory(const zr_sim_run *run)
{
    double own = zr_sim_device_parameters(run), element = zr_sim_element(run), bytes = 0;
    double ranks = run->data * run->context;
    double part = own / (run->stage >= 1 ? ranks : 1);
    if (run->optimizer_on_host && !run->optimizer_on_nvme && !run->frozen)
        bytes += (12 + (run->stage >= 2 ? element : 0)) * part;
    if (run->parameters_on_host && !run->parameters_on_nvme)
        bytes += element * own / (run->stage >= 3 ? ranks : 1);
    if (run->checkpoints_on_host && run->recompute == ZR_SIM_FULL)
        bytes += most_waiting_micro_batches(run) * zr_sim_pipeline_stage_layers(run) *
                 zr_sim_boundary(run);
    return bytes * ZR_MIN(run->devices, run->machine.devices);
}
