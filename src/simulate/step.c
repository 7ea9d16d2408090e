// The time of a step, put together.
#include "simulate/step.h"

#include <math.h>

#include "simulate/costs.h"

// Bytes of a parameter that are copied before and after its exchange, and the time that the host
// spends on starting the exchange of a unit, in launches of a kernel.
#define COPIES 9
#define STARTED_EXCHANGE 6
// The large weights of a layer: of keys and values, of attention's output, and two of the MLP.
#define WEIGHTS 4
// Bytes of a parameter that an update in 16 bits moves, a pass for each of its steps: gradients to
// 32 bits and their norm, Adam, masters to 16 bits, and gradients set to zero.
#define UPDATED 44
// The time in which a micro-batch gets its samples, in launches of a kernel.
#define STARTED 60
// How much slower the slowest device is for each doubling of the nodes.
#define SLOWEST 0.012
// The part of the exchanges of tensor ranks that remains where they overlap with products.
#define LEFT 0.6
// |log(predicted / measured)| of four of five published runs, by constants fitted to other runs.
#define APART 0.13

const char *const zr_sim_part_names[ZR_SIM_PARTS] = {
    [ZR_SIM_PRODUCTS] = "products",   [ZR_SIM_ATTENTION] = "attention",
    [ZR_SIM_OTHER] = "other kernels", [ZR_SIM_RECOMPUTE] = "computed again",
    [ZR_SIM_TENSOR] = "tensor ranks", [ZR_SIM_DATA] = "data ranks",
    [ZR_SIM_PIPELINE] = "messages",   [ZR_SIM_BUBBLE] = "bubble",
    [ZR_SIM_UPDATE] = "update",       [ZR_SIM_OFFLOAD] = "offload",
};

const char *const zr_sim_reach_names[ZR_SIM_REACHES] = {
    [ZR_SIM_IN_NODE] = "node",
    [ZR_SIM_RAIL] = "rail",
    [ZR_SIM_SPINE] = "spine",
};

typedef struct stage_time { // seconds of one micro-batch in a stage
    double forward, backward;
} stage_time;

static double stage_seconds(const stage_time *stage) { return stage->forward + stage->backward; }

static void add_axis(zr_sim_step *step, zr_sim_axis axis, const zr_sim_group *group, double bytes,
                     double seconds)
{
    if (group->ranks <= 1)
        return;
    step->axes[step->axis_count++] = (zr_sim_axis_use){
        .axis = zr_sim_axis_names[axis],
        .ranks = group->ranks,
        .reach = group->reach,
        .bytes = bytes,
        .seconds = seconds,
    };
}

typedef struct exchanged { // by a device
    double bytes, seconds;
} exchanged;

// What tensor ranks exchange for a layer in forward or in backward of a micro-batch: two sums.
static exchanged tensor_exchange(const zr_sim_run *run, const zr_sim_group *tensor)
{
    double bytes = zr_sim_element(run) * zr_sim_tokens(run) * (double)run->width;
    if (tensor->ranks == 1)
        return (exchanged){0};
    return (exchanged){.bytes = 4 * bytes * (tensor->ranks - 1) / tensor->ranks,
                       .seconds = 2 * zr_sim_all_reduce(tensor, bytes)};
}

// The same for context ranks: the keys and values of all tokens.
static exchanged context_exchange(const zr_sim_run *run, const zr_sim_group *context)
{
    double kv = (double)run->width / (double)run->heads * (double)run->kv_heads;
    double bytes = 2 * zr_sim_element(run) * zr_sim_tokens(run) * kv / run->tensor * context->ranks;
    if (context->ranks == 1)
        return (exchanged){0};
    return (exchanged){.bytes = bytes, .seconds = zr_sim_all_gather(context, bytes)};
}

// Seconds in which tensor ranks gather what full recomputation of a layer begins with, and the
// bytes that each sends meanwhile.
static double checkpoint_gather(const zr_sim_run *run, const zr_sim_group *tensor, double *bytes)
{
    double whole = zr_sim_element(run) * zr_sim_tokens(run) * (double)run->width;
    *bytes = 0;
    if (run->recompute != ZR_SIM_FULL || !run->divided_checkpoints || run->sequence_parallel)
        return 0;
    *bytes = whole * (tensor->ranks - 1) / tensor->ranks / run->recompute_every;
    return zr_sim_all_gather(tensor, whole) / run->recompute_every;
}

// The time of two activities that overlap; hidden: the part of the shorter one that costs nothing.
static double seconds_of_overlapped(double a, double b, double hidden)
{
    return ZR_MAX(a, b) + (1 - hidden) * ZR_MIN(a, b);
}

static double share_in_proportion(double part, double all, double of)
{
    return all > 0 ? of * part / all : 0;
}

// Adds the time of work to the parts of a step.
static void add_work(const zr_sim_run *run, zr_sim_step *step, const zr_sim_work *work,
                     double times)
{
    double all = work->products + work->attention + work->other;
    double seconds = zr_sim_work_seconds(run, work, 0, 0) * times;
    step->parts[ZR_SIM_PRODUCTS] += share_in_proportion(work->products, all, seconds);
    step->parts[ZR_SIM_ATTENTION] += share_in_proportion(work->attention, all, seconds);
    step->parts[ZR_SIM_OTHER] += share_in_proportion(work->other, all, seconds);
}

typedef struct folding { // a step while it is computed
    const zr_sim_run *run;
    zr_sim_layer layer, head;
    zr_sim_group tensor, context, data,
        pipeline;          // data: the ranks that divide states, context ranks included
    double layers;         // of a stage
    stage_time stage;      // of a middle pipeline stage, with exchanges
    double head_seconds;   // of the last pipeline stage, in addition
    double head_exchange;  // the part of head_seconds in which tensor ranks exchange
    double tensor_seconds; // exchanges of tensor ranks in `stage`
    zr_sim_step *step;
} folding;

// Adds the transfers of each micro-batch from and to the host or NVMe: parameters before forward
// and before backward, and the inputs of layers for full recomputation.
static void fold_fetches(folding *f)
{
    const zr_sim_run *run = f->run;
    const zr_sim_machine *machine = &run->machine;
    double fetched = 0, kept = 0;
    double part =
        zr_sim_device_parameters(run) * zr_sim_element(run) / (run->stage >= 3 ? f->data.ranks : 1);
    if (run->parameters_on_host || run->parameters_on_nvme)
        fetched = part / machine->host_link;
    if (run->parameters_on_nvme)
        fetched = fmax(fetched, part * machine->devices / machine->nvme_read);
    if (run->checkpoints_on_host && run->recompute == ZR_SIM_FULL)
        kept = f->layers * zr_sim_boundary(run) / machine->host_link;
    double before = stage_seconds(&f->stage), hidden = run->framework.constants[ZR_SIM_HIDDEN];
    f->stage.forward = seconds_of_overlapped(f->stage.forward, fetched + kept, hidden);
    f->stage.backward = seconds_of_overlapped(f->stage.backward, fetched + kept, hidden);
    f->step->parts[ZR_SIM_OFFLOAD] +=
        (stage_seconds(&f->stage) - before) * (double)run->accumulation;
}

// Adds the exchanges of parameters and gradients of each micro-batch (stage 3).
static void fold_gathers(folding *f)
{
    const zr_sim_run *run = f->run;
    if (run->stage < 3 || f->data.ranks <= 1)
        return;
    double own = zr_sim_device_parameters(run);
    double element = zr_sim_element(run);
    double bits = run->wire_bits_parameters > 0 ? run->wire_bits_parameters : 8 * element;
    double back_bits = run->wire_bits_gradients > 0 ? run->wire_bits_gradients : 8 * element;
    zr_sim_group again = f->data;
    if (run->fully_sharded_in_node) // those of the group that share a node
        again = zr_sim_group_make(&run->machine, f->data.within, 1);
    double layers = f->layers, units = layers * (run->framework.by_weight ? WEIGHTS : 1);
    double forward = units * zr_sim_all_gather(&f->data, own / units * bits / 8);
    double backward = units * zr_sim_all_gather(&again, own / units * element);
    backward += units * zr_sim_all_gather(&f->data, own / units * back_bits / 8);
    double hidden = run->framework.constants[ZR_SIM_HIDDEN];
    double before = stage_seconds(&f->stage);
    f->stage.forward = seconds_of_overlapped(f->stage.forward, forward, hidden);
    f->stage.backward = seconds_of_overlapped(f->stage.backward, backward, hidden);
    // Gathered parameters are copied into place, and gradients out of it; no kernel runs meanwhile.
    const zr_sim_machine *machine = &run->machine;
    double copied = own / (machine->memory_rate * machine->constants[ZR_SIM_STREAMED]);
    double started = layers * STARTED_EXCHANGE * machine->constants[ZR_SIM_LAUNCH];
    f->stage.forward += COPIES * copied + started;
    f->stage.backward += 2 * (COPIES * copied + started);
    f->step->parts[ZR_SIM_DATA] += (stage_seconds(&f->stage) - before) * (double)run->accumulation;
    add_axis(f->step, ZR_SIM_AXIS_DATA, &f->data,
             own * (bits / 8 + element + back_bits / 8) * (double)run->accumulation,
             (forward + backward) * (double)run->accumulation);
}

// The reduction of gradients at the end of a step (stages 0 to 2).
static double reduction_seconds(folding *f)
{
    const zr_sim_run *run = f->run;
    if (run->stage >= 3 || f->data.ranks <= 1 || run->frozen)
        return 0;
    double bytes = zr_sim_device_parameters(run) * zr_sim_element(run);
    double seconds = zr_sim_all_reduce(&f->data, bytes);
    add_axis(f->step, ZR_SIM_AXIS_DATA, &f->data, 2 * bytes, seconds);
    double room = f->stage.backward; // of the last micro-batch
    return seconds_of_overlapped(room, seconds, run->framework.constants[ZR_SIM_HIDDEN]) - room;
}

static double update_seconds(const zr_sim_run *run, double *offload)
{
    double own = zr_sim_device_parameters(run);
    double ranks = run->stage >= 1 ? run->data * run->context : 1;
    const zr_sim_machine *machine = &run->machine;
    if (run->frozen)
        return 0;
    if (!run->optimizer_on_host && !run->optimizer_on_nvme)
        return UPDATED * own / ranks / (machine->memory_rate * machine->constants[ZR_SIM_STREAMED]);
    double host = machine->host_rate / machine->devices * 0.6;
    *offload = 28 * own / ranks / host + 4 * own / ranks / machine->host_link;
    if (run->optimizer_on_nvme && machine->nvme_read > 0)
        *offload += 12 * own / ranks * machine->devices *
                    (1 / machine->nvme_read + 1 / machine->nvme_write);
    return 0;
}

// Seconds until a micro-batch has its samples.
static double sample_wait_seconds(const zr_sim_run *run)
{
    return STARTED * run->machine.constants[ZR_SIM_LAUNCH];
}

static void fold_stage(folding *f)
{
    const zr_sim_run *run = f->run;
    double m = (double)run->accumulation, n = f->layers;
    double gathered;
    const exchanged tensor = tensor_exchange(run, &f->tensor),
                    context = context_exchange(run, &f->context);
    double left = run->framework.overlaps_tensor ? LEFT : 1;
    double exchange = (left * tensor.seconds + context.seconds) / 2; // of two in each direction
    double times = 2;                                                // forward and backward
    if (run->recompute == ZR_SIM_FULL)
        times += 1.0 / run->recompute_every;
    const zr_sim_layer *layer = &f->layer;
    double forward = zr_sim_work_seconds(run, &layer->forward, 2, exchange);
    double backward = zr_sim_work_seconds(run, &layer->backward, 2, exchange);
    double again = zr_sim_work_seconds(run, &layer->again, 0, 0);
    f->tensor_seconds = n * (forward - zr_sim_work_seconds(run, &layer->forward, 0, 0) + backward -
                             zr_sim_work_seconds(run, &layer->backward, 0, 0));
    if (run->recompute == ZR_SIM_FULL) {
        double with = zr_sim_work_seconds(run, &layer->again, 2.0 / run->recompute_every, exchange);
        f->tensor_seconds += n * (with - again);
        backward += with - again;
    }
    double gather = checkpoint_gather(run, &f->tensor, &gathered);
    f->tensor_seconds += n * gather;
    f->stage.forward = n * forward;
    f->stage.backward = n * (backward + again + gather);
    // The sums of the embedding and of the gradient of the head's input are exchanges, too.
    f->head_seconds = zr_sim_work_seconds(run, &f->head.forward, 1, exchange) +
                      zr_sim_work_seconds(run, &f->head.backward, 1, exchange);
    f->head_exchange = f->head_seconds - zr_sim_work_seconds(run, &f->head.forward, 0, 0) -
                       zr_sim_work_seconds(run, &f->head.backward, 0, 0);
    f->head_seconds += sample_wait_seconds(run);
    add_work(run, f->step, &f->layer.forward, n * m);
    add_work(run, f->step, &f->layer.backward, n * m);
    f->step->parts[ZR_SIM_RECOMPUTE] = n * m * again;
    f->step->parts[ZR_SIM_TENSOR] = m * f->tensor_seconds;
    add_axis(f->step, ZR_SIM_AXIS_TENSOR, &f->tensor, (tensor.bytes * times + gathered) * n * m,
             (tensor.seconds * times + gather) * n * m);
    add_axis(f->step, ZR_SIM_AXIS_CONTEXT, &f->context, context.bytes * times * n * m,
             context.seconds * times * n * m);
}

// Seconds in which a pipeline stage sends and receives the activations and gradients of a
// micro-batch; it waits meanwhile.
static double message_seconds(folding *f)
{
    const zr_sim_run *run = f->run;
    double m = (double)run->accumulation, v = run->chunks;
    if (run->pipeline == 1)
        return 0;
    // Each tensor rank sends its part, and the receivers gather it.
    double bytes = zr_sim_element(run) * zr_sim_tokens(run) * (double)run->width / run->tensor;
    double sends = 2 * v * zr_sim_message(&f->pipeline, bytes);
    add_axis(f->step, ZR_SIM_AXIS_PIPELINE, &f->pipeline, 2 * bytes * v * m, sends * m);
    f->step->parts[ZR_SIM_PIPELINE] = m * sends;
    return sends;
}

// Makes the parts those of the slowest pipeline stage: the last one, which has the head and may
// have fewer layers, or one of those with most layers. Returns its seconds for a micro-batch.
static double find_slowest(folding *f, double stage)
{
    const zr_sim_run *run = f->run;
    double *parts = f->step->parts, mean = f->layers, m = (double)run->accumulation;
    double most = zr_sim_pipeline_stage_layers(run),
           least = floor((double)run->layers / run->pipeline);
    if (run->framework.balanced && run->pipeline > 1)
        least = fmax(0, (double)run->layers - most * (run->pipeline - 1));
    bool last = stage * least / mean + f->head_seconds >= stage * most / mean;
    double layers = last ? least : most;
    for (int i = 0; i < ZR_SIM_PARTS; i++)
        parts[i] *= layers / mean;
    if (!last)
        return stage * layers / mean;
    parts[ZR_SIM_TENSOR] += m * f->head_exchange;
    parts[ZR_SIM_OTHER] += m * sample_wait_seconds(run);
    add_work(run, f->step, &f->head.forward, m);
    add_work(run, f->step, &f->head.backward, m);
    return stage * layers / mean + f->head_seconds;
}

// Finds the seconds of all micro-batches by the lists of the schedule. What exceeds the work of the
// slowest pipeline stage is the bubble.
static zero_status fold_pipeline(folding *f, double *seconds, zero_error *error)
{
    const zr_sim_run *run = f->run;
    double sends = message_seconds(f), stage = stage_seconds(&f->stage) + sends;
    double slowest = find_slowest(f, stage), work = slowest * (double)run->accumulation;
    *seconds = work;
    if (run->pipeline == 1)
        return ZERO_OK;
    const zr_sim_pipeline pipeline = {
        .kind = run->schedule,
        .stages = run->pipeline,
        .chunks = run->chunks,
        .micro_batches = run->accumulation,
        .flush_every = run->flush_every,
        .forward = f->stage.forward + sends / 2,
        .backward = f->stage.backward + sends / 2,
        .last = slowest - stage,
    };
    ZERO_TRY(zr_sim_pipeline_find(&pipeline, seconds, error));
    f->step->parts[ZR_SIM_BUBBLE] = fmax(*seconds - work, 0);
    return ZERO_OK;
}

static void find_rates(const zr_sim_run *run, const folding *f, zr_sim_step *step)
{
    double tokens = (double)run->global_batch * (double)run->seq;
    double attention = 12 * (double)run->layers * (double)run->width * (double)run->seq;
    double model = (6 * run->parameters + attention) * tokens / run->devices;
    double done = f->layer.forward.flops + f->layer.backward.flops + f->layer.again.flops;
    done = done * f->layers * (double)run->accumulation;
    done += (f->head.forward.flops + f->head.backward.flops) * (double)run->accumulation /
            run->pipeline;
    step->tokens = tokens / step->seconds;
    step->model_flops = model / step->seconds;
    step->hardware_flops = done / step->seconds;
    step->utilization = step->model_flops / zr_sim_peak(&run->machine, run->number);
}

zero_status zr_sim_step_find(const zr_sim_run *run, zr_sim_step *out, zero_error *error)
{
    *out = (zr_sim_step){0};
    folding f = {.run = run, .step = out};
    f.layer = zr_sim_layer_find(run);
    f.head = zr_sim_head_find(run);
    f.tensor = zr_sim_group_of_axis(run, ZR_SIM_AXIS_TENSOR);
    f.context = zr_sim_group_of_axis(run, ZR_SIM_AXIS_CONTEXT);
    f.data = zr_sim_group_of_states(run);
    f.pipeline = zr_sim_group_of_axis(run, ZR_SIM_AXIS_PIPELINE);
    f.layers = (double)run->layers / run->pipeline;
    fold_stage(&f);
    fold_fetches(&f);
    fold_gathers(&f);
    // All devices wait for the slowest one, and of more nodes the slowest one is slower.
    double wait = 1 + SLOWEST * log2(fmax(1, (double)run->devices / run->machine.devices));
    ZERO_TRY(fold_pipeline(&f, &out->seconds, error));
    out->seconds *= wait;
    for (int i = 0; i < ZR_SIM_PARTS; i++)
        out->parts[i] *= wait;
    double reduction = reduction_seconds(&f);
    out->parts[ZR_SIM_DATA] += reduction;
    double offload = 0;
    out->parts[ZR_SIM_UPDATE] = update_seconds(run, &offload);
    out->parts[ZR_SIM_OFFLOAD] += offload;
    out->seconds += reduction + out->parts[ZR_SIM_UPDATE] + offload;
    if (!isfinite(out->seconds) || out->seconds <= 0)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "a step takes %g s by the rates of machine \"%s\", one of which must be "
                       "wrong",
                       out->seconds, run->machine.name);
    find_rates(run, &f, out);
    out->low = out->seconds * exp(-APART);
    out->high = out->seconds * exp(APART);
    out->memory = zr_sim_memory(run);
    out->host_memory = zr_sim_host_memory(run);
    if (out->memory > run->machine.memory)
        return zr_fail(error, ZERO_ERR_LIMIT, "a device needs %.1f GB, and has %.1f GB",
                       out->memory / 1e9, run->machine.memory / 1e9);
    if (out->host_memory > run->machine.host_memory)
        return zr_fail(error, ZERO_ERR_LIMIT,
                       "what a node's devices keep on their host takes %.1f GB, and it has %.1f GB",
                       out->host_memory / 1e9, run->machine.host_memory / 1e9);
    return ZERO_OK;
}
