// The model of a row: from its cells, from what is known of its name, or as wide as such models
// are.
#include "simulate/row_reader.h"

#include <math.h>
#include <string.h>

// How far the size of a known model may lie from what a row says: |log|.
#define NEAR 0.1

#define MOST_BILLIONS 1e7

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

// Returns the known model whose name has a part that the row's has, and whose size is nearest.
static const known_shape *find_known(const zr_sim_row_reader *r, double billions)
{
    const known_shape *best = NULL;
    double nearest = NEAR;
    for (int i = 0; i < ZR_COUNT(known_shapes); i++) {
        const known_shape *shape = &known_shapes[i];
        double apart = fabs(log(billions / shape->billions));
        if (apart >= nearest || !zr_sim_name_has(r->model, shape->name))
            continue;
        nearest = apart;
        best = shape;
    }
    return best;
}

// Chooses a shape of so many parameters: as wide as 128 times its layers, as GPT-3 is, or what its
// layers or its width leave.
static void guess_shape(zr_sim_run *run, double parameters)
{
    double width = ceil(cbrt(parameters / 12 / (128 * 128)) * 128 / 256) * 256;
    if (run->width > 0)
        width = (double)run->width;
    else if (run->layers > 0)
        width = ZR_MAX(1, round(sqrt(parameters / 12 / (double)run->layers) / 128)) * 128;
    run->width = (int64_t)width;
    double layers = ZR_MAX(1, round(parameters / (12 * width * width)));
    zr_sim_row_set_none(&run->layers, (int64_t)ZR_MIN(layers, 1e5));
}

// Decides by the number of parameters whether the MLP has three products.
static bool is_gated(const zr_sim_run *run, const char *model)
{
    zr_sim_run one = *run, other = *run;
    zr_sim_row_set_none(&one.kv_heads, one.heads);
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

static void read_row_model_shape(const zr_sim_row_reader *r)
{
    zr_sim_run *run = r->run;
    run->layers = zr_sim_row_whole(r, "layers", 1e5);
    run->width = zr_sim_row_whole(r, "hidden", 1e7);
    run->heads = zr_sim_row_whole(r, "heads", 1e5);
    run->kv_heads = zr_sim_row_whole(r, "kv_heads", 1e5);
    run->ffn = zr_sim_row_whole(r, "ffn", 1e8);
    run->vocab = zr_sim_row_whole(r, "vocab", 1e8);
    run->seq = zr_sim_row_length(r, "seq", 1e9);
}

double zr_sim_row_batch_tokens(const zr_sim_row_reader *r)
{
    const char *remark = strchr(zr_sim_row_cell(r, "global_batch"), '(');
    return remark == NULL ? 0 : zr_sim_text_tokens(remark + 1);
}

// Sets what no cell says, and tells it.
static void take_row_model(zr_sim_row_reader *r, const char *column, int64_t *out, int64_t value)
{
    if (*out > 0)
        return;
    *out = value;
    zr_sim_row_tell(r, "%s %lld", column, (long long)value);
}

static void take_known(zr_sim_row_reader *r, const known_shape *shape)
{
    zr_sim_run *run = r->run;
    take_row_model(r, "layers", &run->layers, shape->layers);
    take_row_model(r, "hidden", &run->width, shape->width);
    take_row_model(r, "heads", &run->heads, shape->heads);
    take_row_model(r, "kv_heads", &run->kv_heads, shape->kv_heads);
    take_row_model(r, "ffn", &run->ffn, shape->ffn);
    take_row_model(r, "vocab", &run->vocab, shape->vocab);
}

// Fills in the shape that the cells do not say.
static zero_status find_shape(zr_sim_row_reader *r, double billions, zero_error *error)
{
    zr_sim_run *run = r->run;
    if (billions <= 0) {
        billions = ZR_MIN(zr_sim_name_billions(r->model), MOST_BILLIONS);
        if (billions <= 0)
            return zr_fail(error, ZERO_ERR_DATA,
                           "neither layers and hidden nor params_B are given, and the model's "
                           "name tells no size");
        run->parameters = billions * 1e9;
        zr_sim_row_tell(r, "params_B %g", billions);
    }
    const known_shape *shape = find_known(r, billions);
    if (shape == NULL) {
        guess_shape(run, run->parameters);
        zr_sim_row_tell(r, "layers %lld, hidden %lld", (long long)run->layers,
                        (long long)run->width);
        return ZERO_OK;
    }
    take_known(r, shape);
    run->parameters = 0;
    if (zr_sim_row_batch_tokens(r) <= 0)
        take_row_model(r, "seq", &run->seq, shape->seq);
    return ZERO_OK;
}

zero_status zr_sim_row_read_model(zr_sim_row_reader *r, zero_error *error)
{
    zr_sim_run *run = r->run;
    double billions = ZR_MIN(zr_sim_text_billions(zr_sim_row_cell(r, "params_B")), MOST_BILLIONS);
    run->parameters = billions * 1e9;
    read_row_model_shape(r);
    if (run->layers <= 0 || run->width <= 0)
        ZERO_TRY(find_shape(r, billions, error));
    take_row_model(r, "vocab", &run->vocab, zr_sim_text_has(r->model, "llama") ? 32000 : 50257);
    run->gated = is_gated(run, r->model);
    run->tied = !run->gated;
    return ZERO_OK;
}
