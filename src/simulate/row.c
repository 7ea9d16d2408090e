// What cells mean, and what an empty one is taken for.
#include "simulate/row.h"

#include "simulate/row_reader.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MOST_DEVICES 10000000
// A batch of so many is one of tokens, whatever its cell calls it.
#define MANY_SAMPLES 1e6
// The longest sequence that a remark after a batch is taken for.
#define LONGEST (1 << 20)
// How far parameters may lie from those of the shape before the row is told so: |log|.
#define CONTRADICTS 0.15

typedef zr_sim_row_reader row_reader;

// Links of the row, where it says them.
static void read_links(row_reader *r)
{
    static const char in_node[] = "link_in_node_GBps",
                      between[] = "link_between_nodes_Gbps_per_node";
    zr_sim_machine *machine = &r->run->machine;
    zr_sim_link *rail = &machine->links[ZR_SIM_RAIL];
    double inside = zr_sim_row_number(r, in_node), outside = zr_sim_row_number(r, between);
    // A remark after a rate inside a node says that it is somebody's setting, not the sheet's.
    if (inside > 0 && strchr(zr_sim_row_cell(r, in_node), '(') == NULL)
        machine->links[ZR_SIM_IN_NODE].rate = inside * 1e9;
    else
        zr_sim_row_tell(r, "%s %g", in_node, machine->links[ZR_SIM_IN_NODE].rate / 1e9);
    if (outside <= 0) {
        double node = rail->rate / rail->sharers * machine->devices;
        zr_sim_row_tell(r, "%s %g", between, node * 8 / 1e9);
        return;
    }
    for (int i = ZR_SIM_RAIL; i <= ZR_SIM_SPINE; i++) {
        machine->links[i].rate = outside / 8 * 1e9 / machine->devices;
        machine->links[i].sharers = 1;
    }
}

static zero_status read_machine(row_reader *r, const zr_sim_catalogue *catalogue,
                                const zr_sim_machine *machine, zero_error *error)
{
    int devices = (int)zr_sim_row_whole(r, "gpus_per_node", 1e4);
    const char *device = zr_sim_row_cell(r, "gpu");
    if (machine != NULL) {
        r->run->machine = *machine;
        zr_sim_row_tell(r, "gpu, gpus_per_node and links of %s", machine->name);
        return ZERO_OK;
    }
    ZERO_TRY(zr_sim_machine_of_device(catalogue, device, devices, &r->run->machine, error));
    if (strcasecmp(device, r->run->machine.device) != 0)
        zr_sim_row_tell(r, "gpu %s, as in %s", r->run->machine.device, r->run->machine.name);
    if (devices <= 0)
        zr_sim_row_tell(r, "gpus_per_node %d", r->run->machine.devices);
    read_links(r);
    return ZERO_OK;
}

static void read_system(row_reader *r, const zr_sim_catalogue *catalogue)
{
    zr_sim_framework *framework = &r->run->framework;
    if (!zr_sim_framework_find(catalogue, r->system, framework))
        zr_sim_row_tell(r, "system %s", framework->name);
    zr_sim_run_set_attention(r->run);
}

static int64_t devices_of_model(const zr_sim_run *run)
{
    return (int64_t)run->tensor * run->pipeline * run->context;
}

// Returns the ranks of an axis: one where the row does not say.
static int read_axis(row_reader *r, const char *column)
{
    int ranks = (int)zr_sim_row_whole(r, column, 1e4);
    if (ranks > 0)
        return ranks;
    zr_sim_row_tell(r, "%s 1", column);
    return 1;
}

static void read_chunks(row_reader *r)
{
    zr_sim_run *run = r->run;
    run->chunks = (int)zr_sim_row_whole(r, "vpp", 1e5);
    if (run->chunks <= 0 && run->pipeline > 1) {
        bool looped = run->framework.interleaved || zr_sim_text_has(r->system, "interleaved");
        bool two = looped && run->layers >= 2 * run->pipeline;
        run->chunks = two ? 2 : 1;
        zr_sim_row_tell(r, "vpp %d", run->chunks);
    }
    if (run->chunks > 1)
        run->schedule = ZR_PIPELINE_INTERLEAVED;
    if (run->chunks > 1 && run->pipeline == 1)
        zr_sim_row_tell(r, "vpp 1, since there are no pipeline stages");
}

static void read_grid(row_reader *r)
{
    zr_sim_run *run = r->run;
    run->devices = (int)zr_sim_row_whole(r, "gpus", MOST_DEVICES);
    run->tensor = read_axis(r, "tp");
    run->pipeline = read_axis(r, "pp");
    run->context = read_axis(r, "cp");
    int64_t model = devices_of_model(run), data = zr_sim_row_whole(r, "dp", 1e6);
    if (run->devices <= 0) {
        int64_t usual = 8 * (int64_t)run->machine.devices;
        int64_t devices = data > 0 ? data * model : ZR_MAX(model, usual);
        run->devices = (int)ZR_MIN(devices, MOST_DEVICES);
        zr_sim_row_tell(r, "gpus %d", run->devices);
    }
    // The columns of a row may contradict each other; the number of devices is the surest.
    if (data != run->devices / model)
        zr_sim_row_tell(r, "dp %lld", (long long)(run->devices / model));
    read_chunks(r);
}

// Returns whether products are in 32 bits: not where these are those of something else beside
// products in 16, as in "bf16 (fp32 gradients)".
static bool is_wide(const char *precision)
{
    static const char *const names[] = {"fp32", "float32", "tf32"};
    bool sixteen = zr_sim_text_has(precision, "16") || zr_sim_text_has(precision, "amp");
    for (int i = 0; i < ZR_COUNT(names); i++) {
        const char *after = zr_sim_skip_spaces(precision);
        bool alone = zr_sim_text_begins(after, names[i]);
        after = zr_sim_skip_spaces(after + (alone ? strlen(names[i]) : 0));
        alone &= *after == 0 || *after == '(' || *after == ',';
        if (alone || (!sixteen && zr_sim_text_has(precision, names[i])))
            return true;
    }
    return false;
}

static void read_precision(row_reader *r)
{
    const char *precision = zr_sim_row_cell(r, "precision");
    zr_sim_run *run = r->run;
    double *peak = run->machine.peak;
    run->number = ZR_SIM_16_BIT;
    run->block_scales = zr_sim_text_has(precision, "mx") || zr_sim_text_has(precision, "fp4");
    if (zr_sim_text_has(precision, "fp4")) {
        run->number = ZR_SIM_4_BIT;
    } else if (zr_sim_text_has(precision, "rowwise")) {
        run->number = ZR_SIM_16_BIT; // what its products gain, its scales cost
    } else if (zr_sim_text_has(precision, "fp8") || zr_sim_text_has(precision, "float8") ||
               zr_sim_text_has(r->system, "float8")) {
        run->number = ZR_SIM_8_BIT;
    } else if (is_wide(precision)) {
        run->number = ZR_SIM_FP32;
        if (zr_sim_text_has(precision, "tf32")) // half the rate of 16 bits, where there is such
            peak[ZR_SIM_FP32] = ZR_MAX(peak[ZR_SIM_FP32], peak[ZR_SIM_16_BIT] / 2);
    } else if (!zr_sim_text_has(precision, "16") && !zr_sim_text_has(precision, "half")) {
        zr_sim_row_tell(r, "precision bf16");
    }
}

static bool says_no_offload(row_reader *r, const char *text)
{
    if (*text == 0)
        zr_sim_row_tell(r, "offload none");
    else if (zr_sim_text_has(text, "where needed"))
        zr_sim_row_tell(r, "offload none, as if it were not needed");
    else
        return zr_sim_text_begins(text, "none") || zr_sim_text_begins(text, "no");
    return true;
}

// Parameters leave their devices in stage 3 alone.
static void read_host(row_reader *r, const char *text, bool optimizer, bool parameters)
{
    zr_sim_run *run = r->run;
    bool refused = zr_sim_text_has(text, "parameters N");
    run->optimizer_on_host = !zr_sim_text_has(text, "optimizer N");
    run->parameters_on_host = run->stage >= 3 && !refused && (parameters || !optimizer);
    if (parameters && run->stage < 3 && !refused)
        zr_sim_row_tell(r, "offload of the optimizer alone, since zero_stage is %d", run->stage);
}

// Reads what is kept outside of devices.
static void read_offload(row_reader *r)
{
    zr_sim_run *run = r->run;
    const char *text = zr_sim_skip_spaces(zr_sim_row_cell(r, "offload"));
    if (says_no_offload(r, text))
        return;
    bool cpu = zr_sim_text_has(text, "cpu"), optimizer = zr_sim_text_has(text, "optim"),
         parameters = zr_sim_text_has(text, "param");
    if (zr_sim_text_has(text, "activation") && !optimizer && !parameters) {
        run->checkpoints_on_host = cpu;
        if (!cpu)
            zr_sim_row_tell(r, "offload none, since activations go to the cpu alone");
        return;
    }
    run->optimizer_on_nvme = zr_sim_text_has(text, "nvme");
    if (run->optimizer_on_nvme && (run->machine.nvme_read <= 0 || run->machine.nvme_write <= 0)) {
        zr_sim_row_tell(r, "offload cpu, since %s is not known to have NVMe", run->machine.name);
        run->optimizer_on_nvme = false;
        cpu = true;
    }
    if (cpu)
        read_host(r, text, optimizer, parameters);
    else if (!run->optimizer_on_nvme)
        zr_sim_row_tell(r, "offload none, since the cell's words are not known");
}

// Returns the stage of ZeRO that a text says: "3", "ZeRO-3", "stage 3"; -1: none.
static int stage_of(const char *text)
{
    bool named = zr_sim_text_has(text, "zero") || zr_sim_text_has(text, "stage");
    text = zr_sim_skip_spaces(text);
    if (!isdigit((unsigned char)*text))
        text = named ? strpbrk(text, "0123") : NULL;
    return text == NULL ? -1 : (int)ZR_MIN(3, zr_sim_text_number(text));
}

// In torchtitan's pipelines, stages keep the parameters that they have gathered until the step
// ends, and reduce gradients then: exchanges and memory are those of stage 1.
static void keep_gathered(row_reader *r)
{
    zr_sim_run *run = r->run;
    if (run->pipeline < 2 || run->stage < 3 || !zr_sim_text_has(r->system, "torchtitan"))
        return;
    run->stage = 1;
    zr_sim_row_tell(r, "zero_stage 1, since stages of a pipeline keep what they have gathered");
}

static void read_states(row_reader *r)
{
    zr_sim_run *run = r->run;
    run->stage = stage_of(zr_sim_row_cell(r, "zero_stage"));
    if (run->stage < 0) {
        bool sharded = zr_sim_text_has(r->system, "fsdp") || zr_sim_text_has(r->system, "zero-3");
        run->stage = sharded ? 3 : run->framework.whole_states ? 0 : 1;
        zr_sim_row_tell(r, "zero_stage %d", run->stage);
    }
    keep_gathered(r);
    read_offload(r);
    run->frozen = zr_sim_text_has(r->system, "lora");
    if (zr_sim_text_has(r->system, "zero++")) {
        run->wire_bits_parameters = 8;
        run->wire_bits_gradients = 4;
        run->fully_sharded_in_node = true;
        zr_sim_row_tell(r, "parameters sent in 8 bits, gradients in 4, and a second copy of the "
                           "parameters in each node, as ZeRO++ has by default");
    }
    run->framework.overlaps_tensor |= zr_sim_text_has(r->system, "async tp");
    // Frameworks with flash attention divide tokens between tensor ranks, too.
    run->sequence_parallel = run->tensor > 1 && run->framework.flash;
}

// Takes so many tokens for a sample's where no cell says them.
static void set_seq(row_reader *r, int64_t tokens)
{
    if (r->run->seq > 0 || tokens <= 0)
        return;
    r->run->seq = tokens;
    zr_sim_row_tell(r, "seq %lld", (long long)tokens);
}

// Reads the samples of a micro-batch, or its tokens: of one sample where seq is not said.
static void read_micro_batch(row_reader *r)
{
    zr_sim_run *run = r->run;
    const char *text = zr_sim_row_cell(r, "micro_batch");
    int64_t count = zr_sim_row_length(r, "micro_batch", 1e9);
    if (zr_sim_text_tokens(text) > 0) {
        set_seq(r, count);
        count = ZR_MAX(1, count / run->seq);
        zr_sim_row_tell(r, "micro_batch %lld", (long long)count);
    }
    run->micro_batch = ZR_MIN(count, 100000);
}

// torchtitan's local batch is that of a pipeline, which divides it into as many micro-batches as
// the axis has ranks, unless accumulation is said.
static void divide_local_batch(row_reader *r)
{
    zr_sim_run *run = r->run;
    if (run->pipeline < 2 || run->micro_batch <= 0 || run->accumulation > 0 ||
        !zr_sim_text_has(r->system, "torchtitan"))
        return;
    if (zr_sim_text_length(zr_sim_row_cell(r, "global_batch")) <= 0)
        run->accumulation = ZR_MIN(run->micro_batch, run->pipeline);
    if (run->micro_batch < 2)
        return;
    run->micro_batch = ZR_MAX(1, run->micro_batch / run->pipeline);
    zr_sim_row_tell(r, "micro_batch %lld, of a local batch divided by pp",
                    (long long)run->micro_batch);
}

// Reads the sequence's length off a batch of samples whose tokens stand in parentheses.
static void read_seq(row_reader *r, double samples)
{
    double tokens = zr_sim_row_batch_tokens(r);
    double seq = samples > 0 ? round(tokens / samples / 256) * 256 : 0;
    int64_t usual = zr_sim_text_has(r->model, "llama 2") ? 4096 : 2048;
    set_seq(r, seq >= 1 && seq <= LONGEST ? (int64_t)seq : usual);
}

// The samples of a step of which a row says nothing.
static int64_t usual_batch(const zr_sim_run *run, int64_t ranks)
{
    if (run->micro_batch > 0 && run->accumulation > 0)
        return run->micro_batch * run->accumulation * ranks;
    if (run->micro_batch > 0)
        return run->micro_batch * ranks * (run->pipeline > 1 ? 64 : 1);
    return ZR_MAX(1, (4 << 20) / run->seq / ranks) * ranks;
}

// Samples of a step and of a micro-batch.
static void read_batch(row_reader *r)
{
    zr_sim_run *run = r->run;
    const char *batch = zr_sim_row_cell(r, "global_batch");
    double global = zr_sim_text_length(batch);
    int64_t ranks = ZR_MAX(1, run->devices / devices_of_model(run));
    read_micro_batch(r);
    run->accumulation = zr_sim_row_whole(r, "grad_accum", 1e6);
    divide_local_batch(r);
    bool tokens = global >= MANY_SAMPLES || zr_sim_text_tokens(batch) > 0;
    bool of_gpu = tokens && (zr_sim_text_has(batch, "tokens a gpu") ||
                             zr_sim_text_has(batch, "tokens per gpu"));
    if (of_gpu) {
        if (run->micro_batch <= 0)
            zr_sim_row_tell(r, "micro_batch 1");
        zr_sim_row_set_none(&run->micro_batch, 1);
        set_seq(r, (int64_t)(global / (double)run->micro_batch));
        global = (double)run->micro_batch * (double)ranks;
        run->accumulation = 1;
    }
    read_seq(r, tokens && !of_gpu ? 0 : global);
    if (tokens && !of_gpu)
        global = ZR_MAX(1, round(global / (double)run->seq));
    run->global_batch = (int64_t)ZR_MIN(global, 1e12);
    if (run->global_batch <= 0) {
        run->global_batch = usual_batch(run, ranks);
        tokens = true;
    }
    if (tokens)
        zr_sim_row_tell(r, "global_batch %lld", (long long)run->global_batch);
}

// The largest micro-batch that fits, up to 32 samples, and leaves a pipeline what fills it.
static void choose_micro_batch(row_reader *r)
{
    zr_sim_run *run = r->run;
    int64_t ranks = ZR_MAX(1, run->devices / devices_of_model(run));
    int64_t samples = ZR_MAX(1, run->global_batch / ranks);
    int64_t best = 1;
    for (int64_t micro = 2; micro <= 32 && samples % micro == 0; micro *= 2) {
        zr_sim_run one = *run;
        one.micro_batch = micro;
        one.accumulation = samples / micro;
        one.global_batch = 0;
        if (!zr_sim_row_fits(&one) || (run->pipeline > 1 && one.accumulation < 8 * run->pipeline))
            break;
        best = micro;
    }
    run->micro_batch = best;
    run->accumulation = 0;
    zr_sim_row_tell(r, "micro_batch %lld", (long long)best);
}

// Tells what completing has filled in, and where cells contradict each other.
static void tell_completed(row_reader *r, const zr_sim_run *said)
{
    const zr_sim_run *run = r->run;
    double shape = zr_sim_run_parameters(run);
    if (said->heads <= 0)
        zr_sim_row_tell(r, "heads %lld", (long long)run->heads);
    if (said->kv_heads <= 0)
        zr_sim_row_tell(r, "kv_heads %lld", (long long)run->kv_heads);
    if (said->ffn <= 0)
        zr_sim_row_tell(r, "ffn %lld", (long long)run->ffn);
    bool shaped = zr_sim_row_number(r, "layers") > 0 && zr_sim_row_number(r, "hidden") > 0;
    if (zr_sim_row_number(r, "params_B") <= 0 && shaped)
        zr_sim_row_tell(r, "params_B %.4g", run->parameters / 1e9);
    if (zr_sim_row_whole(r, "grad_accum", 1e6) != run->accumulation)
        zr_sim_row_tell(r, "grad_accum %lld", (long long)run->accumulation);
    if (run->global_batch != said->global_batch)
        zr_sim_row_tell(r, "global_batch %lld, a multiple of micro_batch x dp",
                        (long long)run->global_batch);
    zero_error odd = {0};
    if (zr_sim_run_check(run, &odd) != ZERO_OK)
        zr_sim_row_tell(r, "%s; the row is simulated nevertheless", odd.message);
    if (fabs(log(run->parameters / shape)) > CONTRADICTS)
        zr_sim_row_tell(r, "params_B %.4g for states, and %.4g for products of the shape",
                        run->parameters / 1e9, shape / 1e9);
}

zero_status zr_sim_row_make(const zr_sim_catalogue *catalogue, const zr_sim_csv *csv, int row,
                            const zr_sim_machine *machine, zr_sim_run *out, zr_buffer *why,
                            zero_error *error)
{
    *out = (zr_sim_run){0};
    row_reader r = {.csv = csv, .row = row, .run = out, .why = why};
    r.system = zr_sim_row_cell(&r, "system");
    r.model = zr_sim_row_cell(&r, "model");
    ZERO_TRY(read_machine(&r, catalogue, machine, error));
    read_system(&r, catalogue);
    ZERO_TRY(zr_sim_row_read_model(&r, error));
    read_precision(&r);
    read_grid(&r);
    read_states(&r);
    read_batch(&r);
    zr_sim_row_read_recompute(&r);
    if (out->micro_batch <= 0)
        choose_micro_batch(&r);
    // Accumulation is what the samples of a step need, rounded where ranks do not divide them.
    const zr_sim_run said = *out;
    int64_t ranks = out->devices / devices_of_model(out);
    double steps = (double)out->global_batch / (double)ZR_MAX(1, out->micro_batch * ranks);
    out->accumulation = ZR_MAX(1, (int64_t)(steps + 0.5));
    out->global_batch = 0;
    ZERO_TRY(zr_sim_run_complete(out, error));
    tell_completed(&r, &said);
    return ZERO_OK;
}
