// A model with its adapter, read as one: W + s B A for weights of both orientations, in any pieces,
// in the file's type or in fp32; what does not fit is refused by name.
#include "st_files.h"
#include "base/dtype.h"
#include "formats/source_merge.h"
#include "model/lm_table.h"

#include <math.h>
#include <stdio.h>

#define GPT2 "gpt2:layers=1,heads=1,width=4,context=4,vocab=3"
#define LLAMA "llama:layers=1,heads=2,kv_heads=1,width=4,inner=6,context=4,vocab=3"
enum { RANK = 2, MOST = 64 };

static float weight(int64_t i) { return (float)(i % 7) * 0.5f - 1; }
static float half(int of, int64_t i) { return (float)((i * (of ? 5 : 3)) % 11) * 0.25f - 1; }

typedef struct file_tensor {
    const char *name;
    zero_dtype dtype;
    int64_t rows, columns; // columns: 0 of a vector
    int half;              // 0: A; 1: B; 2: a magnitude; -1: a weight
} file_tensor;

static void write_file(scratch *made, const char *name, const file_tensor *tensors, int count)
{
    zr_st_entry entries[4];
    int64_t shapes[4][2];
    zr_st_layout layout;
    char data[4096] = {0};
    for (int t = 0; t < count; t++) {
        shapes[t][0] = tensors[t].rows;
        shapes[t][1] = tensors[t].columns;
        entries[t] =
            (zr_st_entry){tensors[t].name, tensors[t].dtype, tensors[t].columns ? 2 : 1, shapes[t]};
    }
    assert_int_equal(zr_st_layout_create(entries, count, "", &layout, NULL), ZERO_OK);
    memcpy(data, layout.header.data, layout.header.length);
    for (int t = 0; t < count; t++) {
        float values[MOST];
        int64_t elements = tensors[t].rows * ZR_MAX(tensors[t].columns, 1);
        for (int64_t i = 0; i < elements; i++)
            values[i] = tensors[t].half < 0 ? weight(i) : half(tensors[t].half, i);
        zr_narrow(tensors[t].dtype, values, elements, data + layout.begin[t]);
    }
    st_write_bytes(made, name, data, (size_t)layout.total);
    zr_st_layout_free(&layout);
}

typedef struct merge_case {
    const char *spec, *lora, *weight;
    zero_dtype dtype;
    int64_t outputs, inputs;
    bool outputs_first;
} merge_case;

static zero_status open_merged(scratch *made, const merge_case *c, bool widens, zr_source *out,
                               zero_error *error)
{
    zr_lm_config config;
    bool unused;
    assert_int_equal(zr_lm_parse_spec(c->spec, &config, &unused, NULL), ZERO_OK);
    assert_int_equal(zr_lora_parse(c->lora, "", &config, &config.lora, NULL), ZERO_OK);
    assert_int_equal(zr_source_open(scratch_path(made, "model.safetensors"), out, NULL), ZERO_OK);
    return zr_source_merge(out, scratch_path(made, "adapter.safetensors"), &config, widens, error);
}

static void write_both(scratch *made, const merge_case *c, int64_t inputs_of_adapter)
{
    char names[3][128];
    int layer = (int)strlen(c->weight) - (int)strlen(".weight");
    snprintf(names[0], sizeof names[0], "base_model.model.%.*s.lora_A.weight", layer, c->weight);
    snprintf(names[1], sizeof names[1], "base_model.model.%.*s.lora_B.weight", layer, c->weight);
    snprintf(names[2], sizeof names[2], "base_model.model.%.*s.lora_magnitude_vector", layer,
             c->weight);
    const file_tensor model[] = {{c->weight, c->dtype, c->outputs_first ? c->outputs : c->inputs,
                                  c->outputs_first ? c->inputs : c->outputs, -1}},
                      adapter[] = {{names[0], ZERO_F32, RANK, inputs_of_adapter, 0},
                                   {names[1], ZERO_F32, c->outputs, RANK, 1},
                                   {names[2], ZERO_BF16, c->outputs, 0, 2}};
    write_file(made, "model.safetensors", model, 1);
    write_file(made, "adapter.safetensors", adapter, strstr(c->lora, "dora") ? 3 : 2);
}

static double sum_of(const merge_case *c, double s, int64_t element)
{
    int64_t columns = c->outputs_first ? c->inputs : c->outputs, row = element / columns,
            column = element % columns, o = c->outputs_first ? row : column,
            i = c->outputs_first ? column : row;
    double sum = 0;
    for (int k = 0; k < RANK; k++)
        sum += (double)half(1, o * RANK + k) * (double)half(0, k * c->inputs + i);
    return (double)weight(element) + s * sum;
}

static double wanted(const merge_case *c, double s, int64_t element)
{
    int64_t columns = c->outputs_first ? c->inputs : c->outputs,
            first = c->outputs_first ? element / columns * columns : element % columns,
            step = c->outputs_first ? 1 : columns;
    double squares = 0;
    for (int64_t i = 0; i < c->inputs; i++)
        squares += pow(sum_of(c, s, first + i * step), 2);
    double by = half(2, c->outputs_first ? element / columns : element % columns) / sqrt(squares);
    return sum_of(c, s, element) * (strstr(c->lora, "dora") ? by : 1);
}

static void check_values(zr_source *source, const merge_case *c, double s, double error)
{
    const zr_source_tensor *tensor = &source->vectors[0].tensors[0];
    int64_t elements = c->outputs * c->inputs, width = tensor->bytes / elements;
    for (int64_t piece = 1; piece <= elements; piece += 5)
        for (int64_t at = 0, n; at < elements; at += n) {
            char raw[MOST * sizeof(float)];
            float values[MOST];
            n = ZR_MIN(piece, elements - at);
            assert_int_equal(zr_source_read(source, 0, 0, at * width, n * width, raw, NULL),
                             ZERO_OK);
            zr_source_widen(tensor->dtype, raw, n, values);
            for (int64_t i = 0; i < n; i++) {
                double right = wanted(c, s, at + i);
                assert_true(fabs((double)values[i] - right) <= error * fmax(1, fabs(right)));
            }
        }
}

static const merge_case cases[] = {
    {GPT2, "r=2,alpha=3", "transformer.h.0.attn.c_attn.weight", ZERO_F32, 12, 4, false},
    {GPT2, "r=2,alpha=3", "h.0.attn.c_attn.weight", ZERO_BF16, 12, 4, false},
    {LLAMA, "r=2,alpha=3", "model.layers.0.mlp.down_proj.weight", ZERO_BF16, 4, 6, true},
    {LLAMA, "r=2,alpha=3,rslora", "model.layers.0.self_attn.k_proj.weight", ZERO_F16, 2, 4, true},
    {GPT2, "r=2,alpha=3,dora", "transformer.h.0.attn.c_attn.weight", ZERO_F32, 12, 4, false},
    {LLAMA, "r=2,alpha=3,dora", "model.layers.0.mlp.down_proj.weight", ZERO_BF16, 4, 6, true},
};

static void weights_have_their_products(void **state)
{
    scratch *made = *state;
    for (int i = 0; i < ZR_COUNT(cases); i++)
        for (int widens = 0; widens < 2; widens++) {
            const merge_case *c = &cases[i];
            bool rounds = !widens && c->dtype != ZERO_F32;
            zr_source source;
            write_both(made, c, c->inputs);
            assert_int_equal(open_merged(made, c, widens, &source, NULL), ZERO_OK);
            const zr_source_tensor *tensor = &source.vectors[0].tensors[0];
            assert_string_equal(tensor->dtype, zr_st_dtype_of(rounds ? c->dtype : ZERO_F32)->name);
            check_values(&source, c, strstr(c->lora, "rslora") ? 3 / sqrt(2) : 1.5,
                         rounds ? 1.0 / 256 : 1e-6);
            zr_source_close(&source);
        }
}

static void refuse(scratch *made, const merge_case *c, const char *words)
{
    zr_source source;
    zero_error error = {0};
    assert_int_equal(open_merged(made, c, false, &source, &error), ZERO_ERR_DATA);
    if (!strstr(error.message, words))
        fail_msg("%s", error.message);
    zr_source_close(&source);
}

static void what_does_not_fit_is_refused(void **state)
{
    scratch *made = *state;
    merge_case c = cases[2];
    write_both(made, &c, c.inputs + 1);
    refuse(made, &c, "it would be 2 x 6");
    write_both(made, &c, c.inputs);
    c.lora = "r=3";
    refuse(made, &c, "it would be 3 x 6");
    c = cases[2];
    write_both(made, &c, c.inputs);
    c.lora = "r=2,dora";
    refuse(made, &c,
           "the lora_magnitude_vector of \"model.layers.0.mlp.down_proj.weight\" is missing");
    write_both(made, &c, c.inputs);
    c.lora = "r=2";
    refuse(made, &c, "lora_magnitude_vector\" belongs to no weight");
    c = cases[2];
    const file_tensor one = {"base_model.model.model.layers.0.mlp.down_proj.lora_A.weight",
                             ZERO_F32, RANK, 6, 0};
    write_file(made, "adapter.safetensors", &one, 1);
    refuse(made, &c, "only one of lora_A and lora_B of \"model.layers.0.mlp.down_proj.weight\"");
    const file_tensor other = {"base_model.model.lm_head.lora_A.weight", ZERO_F32, RANK, 6, 0};
    write_file(made, "adapter.safetensors", &other, 1);
    refuse(made, &c, "\"base_model.model.lm_head.lora_A.weight\" belongs to no weight");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(weights_have_their_products, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(what_does_not_fit_is_refused, scratch_open, scratch_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
