// What cells mean, and what an empty one is taken for.
#include "simulate/sim_row.h"

#include "simulate/sim_memory.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MOST_DEVICES 10000000

typedef struct row_reader {
    const zr_sim_csv *csv;
    int row;
    zr_sim_run *run;
    zr_buffer *why;
    const char *system, *model;
} row_reader;

static const char *skip_spaces(const char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    return text;
}

double zr_sim_text_number(const char *text)
{
    text = skip_spaces(text);
    if (!isdigit((unsigned char)*text) && *text != '.')
        return 0;
    char *end;
    double number = strtod(text, &end);
    const char *next = skip_spaces(end);
    bool times = (*next == 'x' || *next == 'X' || *next == '*') &&
                 isdigit((unsigned char)*skip_spaces(next + 1));
    if (times)
        number *= zr_sim_text_number(next + 1);
    return isfinite(number) ? number : 0;
}

bool zr_sim_text_has(const char *text, const char *part)
{
    size_t length = strlen(part);
    for (; *text != 0; text++)
        if (strncasecmp(text, part, length) == 0)
            return true;
    return false;
}

static const char *cell(const row_reader *r, const char *column)
{
    return zr_sim_csv_cell(r->csv, r->row, column);
}

static double number(const row_reader *r, const char *column)
{
    return zr_sim_text_number(cell(r, column));
}

static int64_t whole(const row_reader *r, const char *column, double most)
{
    return (int64_t)ZR_MIN(number(r, column), most);
}

ZERO_PRINTF(2, 3)
static void tell(row_reader *r, const char *format, ...)
{
    char text[200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    zr_buffer_printf(r->why, "%s%s", r->why->length > 0 ? "; " : "", text);
}

typedef struct known_shape { // of published models of which tables give a name alone
    const char *name;        // a part of it
    double billions;
    int64_t layers, width, heads, kv_heads, ffn, vocab, seq;
} known_shape;

static const known_shape known_shapes[] = {
    {"llama-1b", 1.1, 16, 2048, 32, 8, 8192, 131072, 4096},
    {"llama-3b", 3.2, 28, 3072, 24, 8, 8192, 131072, 4096},
    {"llama-8b", 8, 32, 4096, 32, 8, 14336, 131072, 4096},
    {"llama-70b", 70, 80, 8192, 64, 8, 28672, 131072, 4096},
    {"llama-80b", 80, 80, 8192, 64, 8, 28672, 131072, 4096},
    {"llama 3", 8, 32, 4096, 32, 8, 14336, 128256, 8192},
    {"llama 3", 70.6, 80, 8192, 64, 8, 28672, 128256, 8192},
    {"llama 3", 405, 126, 16384, 128, 8, 53248, 128256, 8192},
    {"llama", 6.7, 32, 4096, 32, 32, 11008, 32000, 2048},
    {"llama", 13, 40, 5120, 40, 40, 13824, 32000, 2048},
    {"llama", 32.5, 60, 6656, 52, 52, 17920, 32000, 2048},
    {"llama", 65.2, 80, 8192, 64, 64, 22016, 32000, 2048},
    {"llama", 69, 80, 8192, 64, 8, 28672, 32000, 4096},
    {"mpt", 6.7, 32, 4096, 32, 32, 16384, 50368, 2048},
    {"mpt", 30, 48, 7168, 56, 56, 28672, 50368, 8192},
};

// Returns the known model whose name has a part that the row's has, and whose size is near.
static const known_shape *find_known(const row_reader *r, double billions)
{
    for (int i = 0; i < ZR_COUNT(known_shapes); i++) {
        const known_shape *shape = &known_shapes[i];
        double apart = fabs(log(billions / shape->billions));
        if (zr_sim_text_has(r->model, shape->name) && (billions <= 0 || apart < 0.04))
            return shape;
    }
    return NULL;
}

// Chooses a shape of so many parameters: as wide as 128 times its layers, as GPT-3 is.
static void guess_shape(zr_sim_run *run, double parameters)
{
    double layers = cbrt(parameters / 12 / (128 * 128));
    double width = ceil(layers * 128 / 256) * 256;
    if (run->width > 0)
        width = (double)run->width;
    run->width = (int64_t)width;
    if (run->layers <= 0)
        run->layers = (int64_t)ZR_MAX(1, round(parameters / (12 * width * width)));
}

static void set_none(int64_t *out, int64_t value)
{
    if (*out <= 0)
        *out = value;
}

// Decides by the number of parameters whether the MLP has three products.
static bool is_gated(const zr_sim_run *run, const char *model)
{
    zr_sim_run one = *run, other = *run;
    set_none(&one.kv_heads, one.heads);
    other.kv_heads = one.kv_heads;
    one.gated = false;
    other.gated = true;
    one.tied = true;
    if (run->parameters <= 0 || run->ffn <= 0 || run->heads <= 0)
        return zr_sim_text_has(model, "llama");
    double plain = fabs(log(zr_sim_run_parameters(&one) / run->parameters));
    double gated = fabs(log(zr_sim_run_parameters(&other) / run->parameters));
    return gated < plain;
}

static zero_status read_model(row_reader *r, zero_error *error)
{
    zr_sim_run *run = r->run;
    double billions = number(r, "params_B");
    run->parameters = billions * 1e9;
    run->layers = whole(r, "layers", 1e5);
    run->width = whole(r, "hidden", 1e7);
    run->heads = whole(r, "heads", 1e5);
    run->kv_heads = whole(r, "kv_heads", 1e5);
    run->ffn = whole(r, "ffn", 1e8);
    run->vocab = whole(r, "vocab", 1e8);
    run->seq = whole(r, "seq", 1e9);
    if (run->layers <= 0 || run->width <= 0) {
        const known_shape *shape = find_known(r, billions);
        if (shape == NULL && billions <= 0)
            return zr_fail(error, ZERO_ERR_DATA,
                           "neither layers and hidden nor params_B are given");
        if (shape != NULL) {
            set_none(&run->layers, shape->layers);
            set_none(&run->width, shape->width);
            set_none(&run->heads, shape->heads);
            set_none(&run->kv_heads, shape->kv_heads);
            set_none(&run->ffn, shape->ffn);
            set_none(&run->vocab, shape->vocab);
            run->parameters = 0;
        } else {
            guess_shape(run, run->parameters);
        }
        tell(r, "layers %lld, hidden %lld", (long long)run->layers, (long long)run->width);
        const char *batch = cell(r, "global_batch");
        const char *tokens = strchr(batch, '(');
        if (run->seq <= 0 && tokens == NULL && shape != NULL) {
            run->seq = shape->seq;
            tell(r, "seq %lld", (long long)run->seq);
        }
    }
    if (run->vocab <= 0) {
        run->vocab = zr_sim_text_has(r->model, "llama") ? 32000 : 50257;
        tell(r, "vocab %lld", (long long)run->vocab);
    }
    run->gated = is_gated(run, r->model);
    run->tied = !run->gated;
    return ZERO_OK;
}

// Links of the row, where it says them.
static void read_links(row_reader *r)
{
    zr_sim_machine *machine = &r->run->machine;
    // A remark after a rate inside a node says that it is somebody's setting, not the sheet's.
    double in_node = number(r, "link_in_node_GBps");
    if (in_node > 0 && strchr(cell(r, "link_in_node_GBps"), '(') == NULL)
        machine->links[ZR_SIM_IN_NODE].rate = in_node * 1e9;
    double between = number(r, "link_between_nodes_Gbps_per_node");
    if (between <= 0)
        return;
    for (int i = ZR_SIM_RAIL; i <= ZR_SIM_SPINE; i++) {
        machine->links[i].rate = between / 8 * 1e9 / machine->devices;
        machine->links[i].sharers = 1;
    }
}

static zero_status read_machine(row_reader *r, const zr_sim_catalogue *catalogue,
                                const zr_sim_machine *machine, zero_error *error)
{
    int devices = (int)whole(r, "gpus_per_node", 1e4);
    if (machine != NULL) {
        r->run->machine = *machine;
        return ZERO_OK;
    }
    ZERO_TRY(zr_sim_machine_of_device(catalogue, cell(r, "gpu"), devices, &r->run->machine, error));
    read_links(r);
    return ZERO_OK;
}

static int64_t devices_of_model(const zr_sim_run *run)
{
    return (int64_t)run->tensor * run->pipeline * run->context;
}

static void read_grid(row_reader *r)
{
    zr_sim_run *run = r->run;
    run->devices = (int)whole(r, "gpus", MOST_DEVICES);
    run->tensor = (int)ZR_MAX(1, whole(r, "tp", 1e4));
    run->pipeline = (int)ZR_MAX(1, whole(r, "pp", 1e4));
    run->context = (int)ZR_MAX(1, whole(r, "cp", 1e4));
    run->data = (int)whole(r, "dp", 1e6);
    run->chunks = (int)whole(r, "vpp", 1e5);
    int64_t model = devices_of_model(run);
    if (run->devices <= 0) {
        int64_t usual = 8 * (int64_t)run->machine.devices;
        int64_t devices = run->data > 0 ? run->data * model : ZR_MAX(model, usual);
        run->devices = (int)ZR_MIN(devices, MOST_DEVICES);
        tell(r, "gpus %d", run->devices);
    }
    // The columns of a row may contradict each other; the number of devices is the surest.
    run->data = 0;
    if (run->chunks <= 0 && run->pipeline > 1 && run->framework.interleaved &&
        run->layers >= 2 * run->pipeline) {
        run->chunks = 2;
        tell(r, "vpp 2");
    }
    if (run->chunks > 1)
        run->schedule = ZR_PIPELINE_INTERLEAVED;
}

static void read_precision(row_reader *r)
{
    const char *precision = cell(r, "precision");
    zr_sim_run *run = r->run;
    run->number = ZR_SIM_16_BIT;
    run->block_scales = zr_sim_text_has(precision, "mx") || zr_sim_text_has(precision, "fp4");
    if (zr_sim_text_has(precision, "fp4"))
        run->number = ZR_SIM_4_BIT;
    else if (zr_sim_text_has(precision, "rowwise"))
        run->number = ZR_SIM_16_BIT; // what its products gain, its scales cost
    else if (zr_sim_text_has(precision, "fp8") || zr_sim_text_has(precision, "float8") ||
             zr_sim_text_has(r->system, "float8"))
        run->number = ZR_SIM_8_BIT;
    else if (zr_sim_text_has(precision, "fp32") && !zr_sim_text_has(precision, "amp"))
        run->number = ZR_SIM_FP32;
}

static void read_states(row_reader *r)
{
    zr_sim_run *run = r->run;
    const char *stage = cell(r, "zero_stage"), *offload = cell(r, "offload");
    run->stage = (int)ZR_MIN(3, zr_sim_text_number(stage));
    if (zr_sim_text_number(stage) == 0 && *skip_spaces(stage) != '0') {
        run->stage =
            zr_sim_text_has(r->system, "fsdp") || zr_sim_text_has(r->system, "zero-3") ? 3 : 1;
        tell(r, "zero_stage %d", run->stage);
    }
    if (zr_sim_text_has(offload, "cpu") && !zr_sim_text_has(offload, "where needed")) {
        run->optimizer_on_host = !zr_sim_text_has(offload, "optimizer N");
        run->parameters_on_host =
            run->stage >= 3 && !zr_sim_text_has(offload, "parameters N") &&
            (zr_sim_text_has(offload, "param") || !zr_sim_text_has(offload, "optimizer"));
    }
    run->optimizer_on_nvme = zr_sim_text_has(offload, "nvme");
    run->frozen = zr_sim_text_has(r->system, "lora");
    if (zr_sim_text_has(r->system, "zero++")) {
        run->wire_bits_parameters = 8;
        run->wire_bits_gradients = 4;
        run->fully_sharded_in_node = true;
    }
    run->attention = run->framework.flash ? ZR_SIM_FLASH : ZR_SIM_SCORES;
    if (strncmp(run->machine.device, "V100", 4) == 0)
        run->attention = ZR_SIM_SCORES; // flash attention came after it
    run->framework.overlaps_tensor |= zr_sim_text_has(r->system, "async tp");
    // Frameworks with flash attention divide tokens between tensor ranks, too.
    run->sequence_parallel = run->tensor > 1 && run->framework.flash;
}

static bool says_tokens(const char *text)
{
    return zr_sim_text_has(text, "tokens a gpu") || zr_sim_text_has(text, "tokens per gpu");
}

// Samples of a step and of a micro-batch.
static void read_batch(row_reader *r)
{
    zr_sim_run *run = r->run;
    const char *batch = cell(r, "global_batch");
    double global = zr_sim_text_number(batch);
    int64_t ranks = run->devices / devices_of_model(run);
    run->micro_batch = whole(r, "micro_batch", 1e5);
    run->accumulation = whole(r, "grad_accum", 1e6);
    const char *tokens = strchr(batch, '(');
    if (says_tokens(cell(r, "micro_batch"))) { // of one sample
        set_none(&run->seq, run->micro_batch);
        run->micro_batch = ZR_MAX(1, run->micro_batch / run->seq);
    }
    if (says_tokens(batch)) {
        set_none(&run->micro_batch, 1);
        set_none(&run->seq, (int64_t)(global / (double)run->micro_batch));
        global = (double)run->micro_batch * ranks;
        run->accumulation = 1;
    } else if (run->seq <= 0 && tokens != NULL && global > 0) {
        double millions = zr_sim_text_number(tokens + 1) * 1e6;
        run->seq = (int64_t)(round(millions / global / 256) * 256);
        tell(r, "seq %lld", (long long)run->seq);
    }
    if (run->seq <= 0) {
        run->seq = zr_sim_text_has(r->model, "llama 2") ? 4096 : 2048;
        tell(r, "seq %lld", (long long)run->seq);
    }
    run->global_batch = (int64_t)ZR_MIN(global, 1e12);
    if (run->global_batch <= 0 && run->micro_batch > 0 && run->accumulation > 0)
        run->global_batch = run->micro_batch * run->accumulation * ZR_MAX(1, ranks);
    if (run->global_batch <= 0) {
        int64_t samples = ZR_MAX(1, (4 << 20) / run->seq / ZR_MAX(1, ranks)) * ZR_MAX(1, ranks);
        run->global_batch = run->micro_batch > 0
                                ? run->micro_batch * ZR_MAX(1, ranks) * (run->pipeline > 1 ? 64 : 1)
                                : samples;
        tell(r, "global_batch %lld", (long long)run->global_batch);
    }
}

static bool fits(const zr_sim_run *run)
{
    zr_sim_run one = *run;
    zero_error error;
    return zr_sim_run_complete(&one, &error) == ZERO_OK &&
           zr_sim_memory(&one) < 0.9 * run->machine.memory;
}

// What a row does not say of memory is chosen so that it fits.
static void choose_recompute(row_reader *r)
{
    static const zr_sim_recompute from_least[] = {ZR_SIM_KEEP, ZR_SIM_SELECTIVE, ZR_SIM_FULL};
    static const char *const names[] = {"none", "selective", "full"};
    zr_sim_run one = *r->run;
    set_none(&one.micro_batch, 1);
    one.accumulation = 0;
    one.global_batch = 0;
    for (int i = 0; i < ZR_COUNT(from_least); i++) {
        one.recompute = from_least[i];
        r->run->recompute = from_least[i];
        if (fits(&one) || i == ZR_COUNT(from_least) - 1) {
            tell(r, "recompute %s", names[i]);
            return;
        }
    }
}

static void read_recompute(row_reader *r)
{
    zr_sim_run *run = r->run;
    const char *text = skip_spaces(cell(r, "recompute"));
    run->recompute_every = 1;
    if (zr_sim_text_has(text, "sequence parallel"))
        run->sequence_parallel = run->tensor > 1;
    if (strncasecmp(text, "none", 4) == 0) {
        run->recompute = ZR_SIM_KEEP;
    } else if (strncasecmp(text, "full", 4) == 0) {
        run->recompute = ZR_SIM_FULL;
    } else if (zr_sim_text_has(text, "every 2nd")) {
        run->recompute = ZR_SIM_FULL;
        run->recompute_every = 2;
    } else if (zr_sim_text_has(text, "operator") ||
               (zr_sim_text_has(text, "selective") && zr_sim_text_has(r->system, "titan"))) {
        run->recompute = ZR_SIM_OPERATORS;
    } else if (zr_sim_text_has(text, "selective")) {
        run->recompute = ZR_SIM_SELECTIVE;
    } else if (run->framework.flash) {
        run->recompute = ZR_SIM_KEEP;
        tell(r, "recompute none");
    } else {
        choose_recompute(r);
    }
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
        if (!fits(&one) || (run->pipeline > 1 && one.accumulation < 8 * run->pipeline))
            break;
        best = micro;
    }
    run->micro_batch = best;
    run->accumulation = 0;
    tell(r, "micro_batch %lld", (long long)best);
}

zero_status zr_sim_row_make(const zr_sim_catalogue *catalogue, const zr_sim_csv *csv, int row,
                            const zr_sim_machine *machine, zr_sim_run *out, zr_buffer *why,
                            zero_error *error)
{
    *out = (zr_sim_run){0};
    row_reader r = {.csv = csv, .row = row, .run = out, .why = why};
    r.system = cell(&r, "system");
    r.model = cell(&r, "model");
    zr_sim_framework_find(catalogue, r.system, &out->framework);
    ZERO_TRY(read_machine(&r, catalogue, machine, error));
    ZERO_TRY(read_model(&r, error));
    read_precision(&r);
    read_grid(&r);
    read_states(&r);
    read_batch(&r);
    read_recompute(&r);
    if (out->micro_batch <= 0)
        choose_micro_batch(&r);
    // Accumulation is what the samples of a step need, rounded where ranks do not divide them.
    int64_t ranks = out->devices / devices_of_model(out);
    double steps = (double)out->global_batch / (double)ZR_MAX(1, out->micro_batch * ranks);
    out->accumulation = ZR_MAX(1, (int64_t)(steps + 0.5));
    out->global_batch = 0;
    return zr_sim_run_complete(out, error);
}
