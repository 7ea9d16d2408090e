#include "simulate/sim_memory.h"

#include <math.h>

#include "simulate/sim_layer.h"

double zr_sim_stage_layers(const zr_sim_run *run)
{
    double layers = ceil((double)run->layers / run->pipeline);
    if (!run->framework.balanced || run->pipeline == 1)
        return layers;
    // The head counts as the layers that have as many parameters.
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
    double own = layers / (double)run->layers * zr_sim_stage_layers(run);
    own += run->pipeline == 1 && !run->tied ? 2 * tables : tables;
    return own / run->tensor;
}

double zr_sim_states(const zr_sim_run *run)
{
    double own = zr_sim_device_parameters(run), ranks = run->data * run->context;
    double parameters = run->stage >= 3 ? 2 * own / ranks : 2 * own;
    double gradient = run->framework.wide_gradients ? 4 : 2;
    double gradients = run->stage >= 2 ? gradient * own / ranks : gradient * own;
    double optimizer = run->stage >= 1 ? 12 * own / ranks : 12 * own;
    if (run->frozen)
        return parameters;
    if (run->parameters_on_host || run->parameters_on_nvme)
        parameters = 0;
    if (run->optimizer_on_host || run->optimizer_on_nvme) {
        optimizer = 0;
        gradients = run->stage >= 2 ? 0 : gradients;
    }
    return parameters + gradients + optimizer;
}

// Bytes that a layer keeps of a micro-batch (Korthikanti et al.: 34 t h + 5 scores in 16 bits).
static double layer_activations(const zr_sim_run *run, bool scores)
{
    double t = zr_sim_tokens(run), h = (double)run->width, p = run->tensor;
    double kv = h / (double)run->heads * (double)run->kv_heads, f = (double)run->ffn;
    double whole = 10 * t * h; // inputs of norms and dropout masks
    double divided = 2 * t * (2 * h + 2 * kv + (run->gated ? 3 : 2) * f) + 4 * t * h;
    if (run->attention == ZR_SIM_SCORES && scores)
        divided += 5 * t * (double)run->heads * (double)run->seq;
    // Megatron gathers the inputs of products again in backward; others keep them.
    double gathered = run->sequence_parallel && !run->framework.interleaved ? 5 * t * h : 0;
    return (run->sequence_parallel ? whole / p : whole) + divided / p + gathered;
}

double zr_sim_activations(const zr_sim_run *run)
{
    double t = zr_sim_tokens(run), h = (double)run->width;
    double layers = zr_sim_stage_layers(run);
    double waiting = ZR_MIN(run->accumulation, run->pipeline);
    if (run->chunks > 1)
        waiting *= 1 + (run->pipeline - 1.0) / ((double)run->pipeline * run->chunks);
    double whole = layer_activations(run, true);
    double kept = whole;
    if (run->recompute == ZR_SIM_SELECTIVE)
        kept = layer_activations(run, false);
    if (run->recompute == ZR_SIM_OPERATORS)
        kept = layer_activations(run, false) * 0.6;
    if (run->recompute == ZR_SIM_FULL) {
        bool divided = run->sequence_parallel || run->divided_checkpoints;
        double boundary = 2 * t * h / (divided ? run->tensor : 1);
        if (run->checkpoints_on_host)
            boundary = 0;
        kept = boundary + (1 - 1.0 / run->recompute_every) * whole;
    }
    double logits = 6 * t * (double)run->vocab / run->tensor;
    double working = run->recompute == ZR_SIM_KEEP ? 0 : whole;
    // The first stage has most micro-batches at one time, and the last one the logits.
    double first = waiting * layers * kept + (run->pipeline == 1 ? logits : 0);
    double last = layers * kept + logits;
    return ZR_MAX(first, last) + working;
}

double zr_sim_memory(const zr_sim_run *run)
{
    // What is gathered: two units at a time.
    double own = zr_sim_device_parameters(run);
    double gathered =
        run->stage >= 3 ? 4 * own / (double)ZR_MAX(1, run->layers / run->pipeline) : 0;
    return zr_sim_states(run) + zr_sim_activations(run) + gathered;
}
