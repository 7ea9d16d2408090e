#include "simulate/costs.h"

#include <math.h>

// The part of their rate that products keep if their rows are aligned to 16 bytes but not to the
// 128 of a cache line, and if they are not aligned at all.
#define HALF_ALIGNED 0.6
#define UNALIGNED 0.55
// The rate of attention's products with unaligned rows, as a multiple of the peak in 32 bits. It is
// low because libraries copy only large operands into aligned places.
#define BATCHED 1.4
// Bytes that forward moves for a logit, in 16 and in 32 bits: it is converted, the largest of its
// row is found, exponentials are summed and divided. Backward moves half as many.
#define LOGIT 9
// The fewest elements of k in a part, where tiles are computed in parts along k.
#define PART 256

// The least part of the peak that attention reaches with kernels made for the device, as on A100,
// B200 and GB300. Kernels made for A100 reach less of the peak of its successors.
#define NATIVE 0.33

// How late the later of two hosts starts an exchange, as a multiple of the time to launch a kernel.
#define LATE 2.2
// How much longer it takes to launch kernels where all devices of a node wait for each other.
#define LAG 0.4
// The part of the time to launch a kernel for which the device waits between two of them.
#define GAP 0.1

double zr_sim_element(const zr_sim_run *run) { return run->number == ZR_SIM_FP32 ? 4 : 2; }

double zr_sim_tokens(const zr_sim_run *run)
{
    return (double)run->micro_batch * (double)run->seq / run->context;
}

// Returns the number format of products: the wanted one, or the next wider one that the device has.
static zr_sim_number number_format_for(const zr_sim_machine *machine, zr_sim_number number)
{
    while (number > ZR_SIM_FP32 && machine->peak[number] <= 0)
        number--;
    return number;
}

double zr_sim_peak(const zr_sim_machine *machine, zr_sim_number number)
{
    return machine->peak[number_format_for(machine, number)];
}

// The rate that the largest products in a number reach.
static double product_rate(const zr_sim_machine *machine, zr_sim_number number)
{
    bool narrow = number_format_for(machine, number) > ZR_SIM_16_BIT;
    double part = machine->constants[narrow ? ZR_SIM_NARROW : ZR_SIM_REACHED];
    return zr_sim_peak(machine, number) * part;
}

// Returns the part of its rate that a product keeps, by the alignment of its rows of 16-bit
// elements.
static double alignment_efficiency(double elements)
{
    if (fmod(elements, 64) == 0)
        return 1;
    return fmod(elements, 8) == 0 ? HALF_ALIGNED : UNALIGNED;
}

// Returns how much longer a product takes because its last tiles leave processors idle or cross its
// edges: tiles of 128 x 256 elements, or smaller ones where they waste less. Few tiles are computed
// in parts along k.
static double tile_slowdown(const zr_sim_machine *machine, double m, double n, double k)
{
    static const double tiles[][2] = {{128, 256}, {256, 128}, {128, 128}};
    double least = INFINITY, processors = ZR_MAX(1, machine->processors);
    for (int i = 0; i < ZR_COUNT(tiles); i++) {
        double count = ceil(m / tiles[i][0]) * ceil(n / tiles[i][1]);
        double parts = fmax(1, fmin(floor(processors / count), floor(k / PART)));
        double waves = ceil(count * parts / processors) / parts;
        least = fmin(least, waves * processors * tiles[i][0] * tiles[i][1] / (m * n));
    }
    return fmax(1, least);
}

double zr_sim_product(const zr_sim_machine *machine, zr_sim_number number, double m, double n,
                      double k)
{
    double half = machine->constants[ZR_SIM_HALF];
    // Products in fewer bits take less time, but not less time to start.
    if (number > ZR_SIM_16_BIT && machine->peak[number] > 0)
        half *= machine->peak[number] / zr_sim_peak(machine, ZR_SIM_16_BIT);
    double rate = product_rate(machine, number);
    rate *= fmin(alignment_efficiency(m), fmin(alignment_efficiency(n), alignment_efficiency(k)));
    double small = half * (1 / m + 1 / n + 1 / k);
    return 2 * m * n * k * (tile_slowdown(machine, m, n, k) + small) / rate;
}

// Adds the product to forward, and those of its two gradients to backward.
static void add_product(const zr_sim_run *run, zr_sim_layer *layer, double m, double n, double k)
{
    const zr_sim_machine *machine = &run->machine;
    layer->forward.products += zr_sim_product(machine, run->number, m, n, k);
    layer->forward.flops += 2 * m * n * k;
    layer->forward.kernels++;
    layer->backward.products += zr_sim_product(machine, run->number, m, k, n);
    layer->backward.flops += 2 * m * n * k;
    layer->backward.kernels++;
    if (run->frozen)
        return;
    layer->backward.products += zr_sim_product(machine, run->number, k, n, m);
    layer->backward.flops += 2 * m * n * k;
    layer->backward.kernels++;
}

// Adds kernels that move these bytes, for elements of 16 bits; backward moves 1.5 times as many.
static void add_bytes(const zr_sim_run *run, zr_sim_layer *layer, double bytes, double kernels)
{
    const zr_sim_machine *machine = &run->machine;
    double rate = machine->memory_rate * machine->constants[ZR_SIM_STREAMED];
    bytes *= run->framework.constants[ZR_SIM_KERNELS] * zr_sim_element(run) / 2;
    kernels *= run->framework.constants[ZR_SIM_KERNELS];
    layer->forward.other += bytes / rate;
    layer->forward.kernels += kernels;
    layer->backward.other += 1.5 * bytes / rate;
    layer->backward.kernels += 1.5 * kernels;
}

// The part of the peak that attention without scores in memory reaches.
static double attention_peak_part(const zr_sim_run *run)
{
    double common = run->machine.constants[ZR_SIM_ATTENDED];
    return run->framework.native_attention ? fmax(common, NATIVE) : common;
}

static void add_attention(const zr_sim_run *run, zr_sim_layer *layer)
{
    const zr_sim_machine *machine = &run->machine;
    double heads = (double)run->heads / run->tensor, d = (double)run->width / (double)run->heads;
    double s = (double)run->seq, rows = zr_sim_tokens(run) * heads;
    double flops = 4 * rows * s * d;                           // of all scores, masked or not
    zr_sim_number number = ZR_MIN(run->number, ZR_SIM_16_BIT); // never in fewer bits
    layer->forward.flops += flops;
    layer->backward.flops += 2 * flops;
    if (run->attention == ZR_SIM_FLASH) {
        double peak = zr_sim_peak(machine, number);
        double rate = peak * attention_peak_part(run) * 1.25 * d / (d + 32);
        // Half of the scores are masked. Each context rank has an early and a late part of the
        // tokens, so that all ranks have equal work.
        double part = 0.5;
        layer->forward.attention += flops * part / rate;
        layer->forward.kernels += 2;
        layer->backward.attention += 2.5 * flops * part / rate;
        layer->backward.kernels += 3;
        return;
    }
    // Two products over all scores, a head at a time.
    double rate = product_rate(machine, number);
    double half = machine->constants[ZR_SIM_HALF];
    if (fmod(d, 8) != 0 && machine->peak[ZR_SIM_FP32] > 0)
        rate = fmin(rate, BATCHED * machine->peak[ZR_SIM_FP32]);
    double seconds = flops / rate * (1 + half * (1 / s + 1 / s + 1 / d));
    layer->forward.attention += seconds;
    layer->backward.attention += 2 * seconds;
    layer->forward.kernels += 2;
    layer->backward.kernels += 4;
    // Scores are written, read and written by the softmax, dropped out, and read.
    zr_sim_layer scores = {0};
    add_bytes(run, &scores, 11 * rows * s, 4);
    layer->forward.attention += scores.forward.other;
    layer->backward.attention += scores.backward.other;
    layer->forward.kernels += scores.forward.kernels;
    layer->backward.kernels += scores.backward.kernels;
}

static zr_sim_work scale_work(const zr_sim_work *work, double part)
{
    return (zr_sim_work){
        .products = work->products * part,
        .attention = work->attention * part,
        .other = work->other * part,
        .flops = work->flops * part,
        .kernels = work->kernels * part,
    };
}

// Sets the part of a layer's forward work that backward repeats.
static zr_sim_work recomputed_work(const zr_sim_run *run, const zr_sim_work *forward)
{
    zr_sim_work none = {0};
    switch (run->recompute) {
    case ZR_SIM_KEEP: return none;
    case ZR_SIM_SELECTIVE: {
        // Flash attention always computes its scores again.
        if (run->attention == ZR_SIM_FLASH)
            return none;
        zr_sim_work scores = {.attention = forward->attention, .kernels = 6};
        return scores;
    }
    case ZR_SIM_OPERATORS: {
        zr_sim_work part = *forward;
        part.products *= 0.5;
        part.attention = 0;
        part.flops *= 0.5;
        return scale_work(&part, 1.0 / run->recompute_every);
    }
    case ZR_SIM_FULL: return scale_work(forward, 1.0 / run->recompute_every);
    }
    return none;
}

zr_sim_layer zr_sim_layer_find(const zr_sim_run *run)
{
    zr_sim_layer layer = {0};
    double t = zr_sim_tokens(run), h = (double)run->width, p = run->tensor;
    double kv = h / (double)run->heads * (double)run->kv_heads, f = (double)run->ffn;
    double gates = run->gated ? 2 : 1;
    add_product(run, &layer, t, (h + 2 * kv) / p, h);
    add_attention(run, &layer);
    add_product(run, &layer, t, h, h / p);
    add_product(run, &layer, t, gates * f / p, h);
    add_product(run, &layer, t, h, f / p);
    // Norms and residuals of all tokens, or of a part of them.
    double norms = 2 * t * 6 * h;
    add_bytes(run, &layer, run->sequence_parallel ? norms / p : norms, 6);
    // Biases, rotation and the activation function.
    add_bytes(run, &layer, 2 * t * (h + 2 * kv + (1 + gates) * f) / p, 6);
    if (run->number > ZR_SIM_16_BIT) // inputs of products are made narrow
        add_bytes(run, &layer, (run->block_scales ? 8 : 4) * t * (2 * h + (h + f) / p), 0);
    if (p > 1) { // exchanges are kernels, too
        layer.forward.kernels += 2;
        layer.backward.kernels += 2;
    }
    layer.again = recomputed_work(run, &layer.forward);
    return layer;
}

zr_sim_layer zr_sim_head_find(const zr_sim_run *run)
{
    zr_sim_layer head = {0};
    double t = zr_sim_tokens(run), v = (double)run->vocab;
    if (run->tensor > 1) // each rank has a multiple of 128
        v = ceil(v / run->tensor / 128) * 128;
    zr_sim_run wide = *run; // logits are never in fewer than 16 bits
    if (wide.number > ZR_SIM_16_BIT)
        wide.number = ZR_SIM_16_BIT;
    add_product(&wide, &head, t, v, (double)run->width);
    add_bytes(&wide, &head, t * v * LOGIT, 4);
    return head;
}

double zr_sim_work_seconds(const zr_sim_run *run, const zr_sim_work *work, double exchanges,
                           double exchange)
{
    double device = work->products + work->attention + work->other;
    double kernel = run->machine.constants[ZR_SIM_LAUNCH];
    double launch = work->kernels * kernel;
    if (device <= 0)
        return 0;
    // Where hosts are ahead of their devices, no exchange waits for one.
    double late = LATE * kernel * log2(run->tensor) * fmin(1, launch / device);
    double crowd = fmin(1, (double)run->tensor / ZR_MAX(1, run->machine.devices));
    double on_device = device + GAP * launch + exchanges * (exchange + late);
    return fmax(on_device, launch * (1 + LAG * pow(crowd, 4)));
}
