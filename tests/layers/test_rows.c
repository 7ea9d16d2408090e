// Models that a program writes as rows: tables like GPT-2's and Llama's have the bits of these;
// what a table cannot mean is refused, with the half and the row; a value that is kept has the bits
// of one that is computed again.
#include "base/errors.h"
#include "layers_harness.h"
#include "model/llama_model.h"
#include "model/rows_model.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

enum {
    NORM_W,
    NORM_B,
    QKV_W,
    QKV_B,
    O_W,
    O_B,
    NORM2_W,
    NORM2_B,
    UP_W,
    UP_B,
    DOWN_W,
    DOWN_B,
    TENSORS
};

static const zero_tensor_row tensors[TENSORS] = {
    [NORM_W] = {"n1.w", ZERO_WIDE_STREAM, .flags = ZERO_GAIN},
    [NORM_B] = {"n1.b", ZERO_WIDE_STREAM},
    [QKV_W] = {"qkv.w", ZERO_WIDE_PACKED, ZERO_WIDE_STREAM, ZERO_THREE_PARTS},
    [QKV_B] = {"qkv.b", ZERO_WIDE_PACKED, .flags = ZERO_THREE_PARTS},
    [O_W] = {"o.w", ZERO_WIDE_STREAM, ZERO_WIDE_QUERIES, ZERO_DEPTH},
    [O_B] = {"o.b", ZERO_WIDE_STREAM},
    [NORM2_W] = {"n2.w", ZERO_WIDE_STREAM, .flags = ZERO_GAIN},
    [NORM2_B] = {"n2.b", ZERO_WIDE_STREAM},
    [UP_W] = {"up.w", ZERO_WIDE_INNER, ZERO_WIDE_STREAM},
    [UP_B] = {"up.b", ZERO_WIDE_INNER},
    [DOWN_W] = {"down.w", ZERO_WIDE_STREAM, ZERO_WIDE_INNER, ZERO_DEPTH},
    [DOWN_B] = {"down.b", ZERO_WIDE_STREAM},
};

static const zero_block_table block = {
    .halves = {{.count = 4,
                .rows = {{ZERO_ROW_NORM, .weight = NORM_W, .bias = NORM_B},
                         {ZERO_ROW_LINEAR, {0}, ZERO_WIDE_PACKED, QKV_W, QKV_B, ZERO_KEPT},
                         {ZERO_ROW_ATTENTION, {1}, .kept = ZERO_KEPT},
                         {ZERO_ROW_LINEAR, {2}, ZERO_WIDE_STREAM, O_W, O_B}}},
               {.count = 3,
                .rows = {{ZERO_ROW_NORM, .weight = NORM2_W, .bias = NORM2_B},
                         {ZERO_ROW_LINEAR, {0}, ZERO_WIDE_INNER, UP_W, UP_B, ZERO_KEPT},
                         {ZERO_ROW_GELU_LINEAR, {1}, ZERO_WIDE_STREAM, DOWN_W, DOWN_B}}}}};

// The sizes of harness_tiny.
static zero_rows_config tiny(void)
{
    return (zero_rows_config){
        .struct_size = sizeof(zero_rows_config),
        .name = "mine",
        .vocab_size = 29,
        .n_positions = 8,
        .width = 16,
        .inner = 64,
        .n_layer = 2,
        .n_head = 2,
        .norm_epsilon = 1e-5f,
        .initializer_range = 0.02f,
        .learned_positions = 1,
        .tied = 1,
        .tensors = tensors,
        .tensor_count = TENSORS,
        .block = &block,
    };
}

// Makes the network of a configuration, with the parameters of another, which has as many.
static void create_with(harness *net, const zr_lm_config *config, const zr_backend *backend,
                        zero_dtype dtype, const harness *parameters)
{
    harness_create_of(net, config, backend,
                      (zero_shape){.batch = 2, .seq = 7, .threads = 2, .dtype = dtype});
    if (!parameters)
        return;
    assert_int_equal(net->parameter_count, parameters->parameter_count);
    memcpy(net->parameters, parameters->parameters, sizeof(float) * (size_t)net->parameter_count);
}

static void train(harness *net)
{
    harness_forward(net, true);
    harness_forget(net);
    harness_backward(net, true);
}

static void check_same_bits(const zr_lm_config *ours, const zr_lm_config *theirs)
{
    for (const zr_backend *const *backend = zr_backends(); *backend; backend++)
        for (int d = 0; d < 2 && harness_offered(*backend); d++) {
            harness a, b;
            zero_dtype dtype = d ? ZERO_BF16 : ZERO_F32;
            create_with(&a, theirs, *backend, dtype, NULL);
            create_with(&b, ours, *backend, dtype, &a);
            train(&a);
            train(&b);
            assert_true(a.loss == b.loss && a.loss > 0);
            assert_memory_equal(a.gradients, b.gradients,
                                sizeof(float) * (size_t)a.parameter_count);
            harness_destroy(&a);
            harness_destroy(&b);
        }
}

static zr_lm_config made(const zero_rows_config *rows)
{
    zr_lm_config config;
    zero_error error;
    if (zr_rows_make(rows, &config, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    return config;
}

static void rows_like_gpt2s_have_its_bits(void **state)
{
    const zero_rows_config rows = tiny();
    const zr_lm_config gpt2 = {.kind = ZR_LM_GPT2, .gpt2 = harness_tiny()}, ours = made(&rows);
    check_same_bits(&ours, &gpt2);
    zr_rows_free(&ours);
}

// Llama's own tables, given by a program.
static zero_rows_config llama_rows(const zero_block_table *table)
{
    static zero_tensor_row without_options[ZR_LLAMA_TENSORS];
    zero_rows_config rows = tiny();
    for (int t = 0; t < ZR_LLAMA_TENSORS; t++) {
        without_options[t] = zr_llama_architecture.tensors.block[t];
        without_options[t].only_with = 0;
    }
    rows.learned_positions = 0;
    rows.rms_norm = 1;
    rows.outputs_first = 1;
    rows.n_head = 4;
    rows.n_kv_head = 2;
    rows.head_dim = 6;
    rows.rotated = 1;
    rows.rope.theta = 10000;
    rows.tensors = without_options;
    rows.tensor_count = ZR_LLAMA_TENSORS;
    rows.block = table;
    return rows;
}

static zr_lm_config llama(void)
{
    zr_lm_config config = {.kind = ZR_LM_LLAMA};
    zero_llama_config *c = &config.llama;
    zero_llama_defaults(c);
    c->vocab_size = 29;
    c->max_positions = 8;
    c->hidden_size = 16;
    c->intermediate_size = 64;
    c->n_layer = 2;
    c->n_head = 4;
    c->n_kv_head = 2;
    c->head_dim = 6;
    c->qkv_bias = c->output_bias = c->mlp_bias = c->qk_norm = 1;
    return config;
}

static void rows_like_llamas_have_its_bits(void **state)
{
    const zero_rows_config rows = llama_rows(zr_llama_architecture.block);
    const zr_lm_config theirs = llama(), ours = made(&rows);
    check_same_bits(&ours, &theirs);
    zr_rows_free(&ours);
}

static void what_is_kept_has_the_bits_of_what_is_computed_again(void **state)
{
    enum { PRODUCT = 3 };
    zero_block_table kept = *zr_llama_architecture.block;
    kept.halves[ZERO_MLP_HALF].rows[PRODUCT].kept = ZERO_KEPT;
    const zero_rows_config rows = llama_rows(&kept);
    const zr_lm_config theirs = llama(), ours = made(&rows);
    check_same_bits(&ours, &theirs);
    zr_rows_free(&ours);
}

// ---- refusals ----

typedef struct table { // that a test changes
    zero_rows_config rows;
    zero_tensor_row tensors[TENSORS];
    zero_block_table block;
} table;

#define ATTENTION(r) t->block.halves[ZERO_ATTENTION_HALF].rows[r]
#define MLP(r) t->block.halves[ZERO_MLP_HALF].rows[r]
#define WRONG(name, change)                                                                        \
    static void name(table *t) { change; }

WRONG(no_name, t->rows.name = NULL)
WRONG(no_tensors, t->rows.tensor_count = 0)
WRONG(many_tensors, t->rows.tensor_count = ZERO_NO_TENSOR)
WRONG(same_name, t->tensors[O_W].name = "qkv.w")
WRONG(empty_name, t->tensors[O_W].name = "")
WRONG(no_size, t->tensors[O_W].out = ZERO_WIDE_NONE)
WRONG(optional, t->tensors[O_W].only_with = 1)
WRONG(short_half, t->block.halves[1].count = 2)
WRONG(long_half, t->block.halves[1].count = ZERO_MOST_ROWS + 1)
WRONG(no_norm, MLP(0).kind = ZERO_ROW_LINEAR)
WRONG(second_norm, t->block.halves[1].count = 4; MLP(3) = MLP(2); MLP(2) = MLP(0))
WRONG(no_kind, MLP(1).kind = ZERO_ROW_KINDS)
WRONG(later, MLP(1).in[0] = 2)
WRONG(itself, MLP(1).in[0] = 1)
WRONG(below, MLP(1).in[0] = -1)
WRONG(gelu_of_norm, MLP(1).kind = ZERO_ROW_GELU_LINEAR)
WRONG(attention_of_norm, ATTENTION(2).in[0] = 0)
WRONG(wrong_width, ATTENTION(1).width = ZERO_WIDE_QUERIES;
      t->tensors[QKV_W].out = ZERO_WIDE_QUERIES; t->tensors[QKV_B].out = ZERO_WIDE_QUERIES)
WRONG(not_kept, MLP(1).kept = 0)
WRONG(attention_not_kept, ATTENTION(2).kept = 0)
WRONG(branch_kept, MLP(2).kept = ZERO_KEPT)
WRONG(norm_kept, MLP(0).kept = ZERO_KEPT)
WRONG(narrow_branch, MLP(2).width = ZERO_WIDE_INNER)
WRONG(no_weight, MLP(1).weight = TENSORS)
WRONG(weight_below, MLP(1).weight = -1)
WRONG(other_weight, MLP(1).weight = DOWN_W)
WRONG(other_bias, MLP(1).bias = DOWN_B)
WRONG(other_gain, MLP(0).weight = UP_B)
WRONG(no_norm_bias, MLP(0).bias = ZERO_NO_TENSOR)
WRONG(no_attention, ATTENTION(2).kind = ZERO_ROW_GELU_ERF)
WRONG(attention_in_mlp, MLP(1).kind = ZERO_ROW_ATTENTION)
WRONG(read_twice, t->block.halves[1].count = 4; MLP(3) = MLP(2); MLP(3).in[0] = 2;
      MLP(2) = ((zero_block_row){ZERO_ROW_SILU_GATE, {1, 1}}))
WRONG(gelu_of_torch, t->rows.outputs_first = 1)
WRONG(unused, MLP(1).bias = ZERO_NO_TENSOR)
WRONG(shared, MLP(2).bias = O_B)
WRONG(heads, t->rows.n_head = 3)
WRONG(no_width, t->rows.width = 0)
WRONG(epsilon, t->rows.norm_epsilon = 0)

#define CASE(name, text)                                                                           \
    {                                                                                              \
        name, text                                                                                 \
    }
static const struct {
    void (*change)(table *t);
    const char *message;
} wrong[] = {
    CASE(no_name, "name, block and tensors"),
    CASE(no_tensors, "1 to 18, are needed"),
    CASE(many_tensors, "1 to 18, are needed"),
    CASE(same_name, "two tensors have the name \"qkv.w\""),
    CASE(empty_name, "tensor 4 needs a name"),
    CASE(no_size, "\"o.w\" has no size"),
    CASE(optional, "only_with is not 0"),
    CASE(short_half, "mlp has 2 rows: 3 to 12"),
    CASE(long_half, "mlp has 13 rows: 3 to 12"),
    CASE(no_norm, "mlp, row 0: row 0 is a NORM"),
    CASE(second_norm, "mlp, row 2: row 0 is a NORM, and no other"),
    CASE(no_kind, "mlp, row 1: there is no such kind"),
    CASE(later, "mlp, row 1: it reads a row that does not come before it"),
    CASE(itself, "mlp, row 1: it reads a row that does not come before it"),
    CASE(below, "mlp, row 1: it reads a row that does not come before it"),
    CASE(gelu_of_norm, "mlp, row 1: only a LINEAR reads the norm"),
    CASE(attention_of_norm, "attention, row 2: only a LINEAR reads the norm"),
    CASE(wrong_width, "attention, row 2: it reads a value of another width"),
    CASE(not_kept, "mlp, row 1: its value must be kept"),
    CASE(attention_not_kept, "attention, row 2: its value must be kept"),
    CASE(branch_kept, "mlp, row 2: its value cannot be kept"),
    CASE(norm_kept, "mlp, row 0: its value cannot be kept"),
    CASE(narrow_branch, "mlp, row 2: the last row is a linear of the stream's width"),
    CASE(no_weight, "its weight is tensor 12, which does not exist"),
    CASE(weight_below, "its weight is tensor -1, which does not exist"),
    CASE(other_weight, "its weight is tensor 10, which has another size"),
    CASE(other_bias, "its bias is tensor 11, which has another size"),
    CASE(other_gain, "mlp, row 0: its gain is tensor 9, which has another size"),
    CASE(no_norm_bias, "mlp, row 0: its bias is tensor 19, which does not exist"),
    CASE(no_attention, "attention, row 2: it reads a value of another width"),
    CASE(attention_in_mlp, "mlp, row 1: its kind belongs to the attention half"),
    CASE(read_twice, "several rows read it"),
    CASE(gelu_of_torch, "a GELU_LINEAR has weights that lie as (in, out)"),
    CASE(unused, "tensor 9, \"up.b\", is used by 0 rows"),
    CASE(shared, "tensor 5, \"o.b\", is used by 2 rows"),
    CASE(heads, "width 16 (width) is not divisible by 3 heads (n_head)"),
    CASE(no_width, "mine: width is 0"),
    CASE(epsilon, "mine: norm_epsilon is 0"),
};

static void what_a_table_cannot_mean_is_refused(void **state)
{
    for (int i = 0; i < ZR_COUNT(wrong); i++) {
        table t = {.rows = tiny(), .block = block};
        zr_lm_config config;
        zero_error error = {.status = ZERO_OK};
        memcpy(t.tensors, tensors, sizeof tensors);
        t.rows.tensors = t.tensors;
        t.rows.block = &t.block;
        wrong[i].change(&t);
        assert_int_equal(zr_rows_make(&t.rows, &config, &error), ZERO_ERR_USAGE);
        if (!strstr(error.message, wrong[i].message))
            fail_msg("\"%s\" does not say \"%s\"", error.message, wrong[i].message);
        zr_rows_free(&config);
    }
}

// The library's own tables hold to what it asks of a program's.
static void our_tables_are_right(void **state)
{
    for (int kind = 0; kind < ZR_LM_KINDS; kind++) {
        const zr_architecture *of = zr_architecture_at(kind);
        zero_error error;
        if (zr_rows_check(of->block, of->tensors.block, of->tensors.count, of->rms,
                          of->outputs_first, of->title, &error) != ZERO_OK)
            fail_msg("%s", error.message);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_like_gpt2s_have_its_bits),
        cmocka_unit_test(rows_like_llamas_have_its_bits),
        cmocka_unit_test(what_is_kept_has_the_bits_of_what_is_computed_again),
        cmocka_unit_test(what_a_table_cannot_mean_is_refused),
        cmocka_unit_test(our_tables_are_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
