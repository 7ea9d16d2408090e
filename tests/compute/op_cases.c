#include "op_cases.h"
#include "base/random.h"

#include <stdlib.h>
#include <string.h>

operands *operands_new(void)
{
    operands *o = aligned_alloc(64, sizeof *o);
    assert_non_null(o);
    memset(o, 0, sizeof *o);
    float *const arrays[] = {o->a, o->b, o->c, o->d, o->e};
    for (int k = 0; k < ZR_COUNT(arrays); k++)
        for (int i = 0; i < FLOATS; i++)
            arrays[k][i] =
                (float)(zr_philox4x32((uint64_t)k, 1, (uint64_t)i).v[0] % 1000) * 1e-3f + 0.01f;
    for (int i = 0; i < 64; i++)
        o->ids[i] = i * 5 % WIDTH;
    o->ids[50] = -1;
    o->e[7 * ELEMS] = INFINITY;
    o->factor = 0.5f;
    o->step = (zr_step_values){.seed = 42, .step = 7, .targets = 3};
    o->update = (zr_update_values){.lr = 0.1,
                                   .beta1 = 0.9,
                                   .beta2 = 0.99,
                                   .correction1 = 0.1,
                                   .correction2 = 0.01,
                                   .gradient_scale = 1};
    o->run = (zr_attention_run){.first = 3, .rows = 1};
    return o;
}

// The types differ, so that bytes of the one are not taken for bytes of the other.
static const zr_norm norm = {
    .dtype = ZERO_BF16,
    .stream = ZERO_F32,
    .rows = ROWS,
    .width = WIDTH,
    .epsilon = 1e-5f,
};

static zr_norm rms_norm(bool add)
{
    zr_norm rms = norm;
    rms.rms = true;
    rms.add_parameters = add;
    return rms;
}

static zr_op norm_forward(operands *o)
{
    return zr_op_norm_forward(&norm, o->a, NULL, NULL, o->b, o->c, o->d, o->e, o->e + 64);
}

static zr_op residual_norm_forward(operands *o)
{
    float *y = o->e, *mean = o->e + ELEMS, *rstd = o->e + ELEMS + 64;
    return zr_op_norm_forward(&norm, o->a, o->b, o->c, o->d, o->d + 64, y, mean, rstd);
}

static zr_op norm_backward(operands *o)
{
    float *mean = o->c + 64, *rstd = o->c + 128, *dbeta = o->e + 64;
    return zr_op_norm_backward(&norm, o->a, o->b, o->c, mean, rstd, o->d, o->d, o->e, dbeta,
                               o->scratch);
}

static zr_op rms_forward(operands *o)
{
    const zr_norm rms = rms_norm(false);
    return zr_op_norm_forward(&rms, o->a, NULL, NULL, o->b, NULL, o->c, NULL, o->d);
}

static zr_op residual_rms_forward(operands *o)
{
    const zr_norm rms = rms_norm(false);
    return zr_op_norm_forward(&rms, o->a, o->b, o->c, o->d, NULL, o->e, NULL, o->e + ELEMS);
}

static zr_op rms_backward(operands *o)
{
    const zr_norm rms = rms_norm(false);
    return zr_op_norm_backward(&rms, o->a, o->b, o->c, NULL, o->c + 64, o->d, o->d, o->e, NULL,
                               o->scratch);
}

static zr_op rms_backward_of_no_past(operands *o)
{
    const zr_norm rms = rms_norm(true);
    return zr_op_norm_backward(&rms, o->a, o->b, o->c, NULL, o->c + 64, NULL, o->d, o->e, NULL,
                               o->scratch);
}

static const zr_attention attention = {.batch = 1,
                                       .seq = ROWS,
                                       .heads = HEADS,
                                       .kv_heads = HEADS,
                                       .head_dim = WIDTH / HEADS,
                                       .scale = 0.2f,
                                       .dropout = 0.3f,
                                       .mask = {.micro_batch = 1, .unit = 2, .site = 3}};

static zr_op attention_forward(operands *o)
{
    return zr_op_attention_forward(&attention, o->a, o->b, o->c, o->starts, &o->step, o->scratch);
}

static zr_op attention_backward(operands *o)
{
    return zr_op_attention_backward(&attention, o->a, o->b, o->c, o->d, o->e, NULL, o->starts,
                                    &o->step, o->scratch);
}

static zr_op attention_backward_shared(operands *o)
{
    zr_attention shared = attention;
    shared.kv_heads = 1;
    return zr_op_attention_backward(&shared, o->a, o->b, o->c, o->d, o->e, o->e + 4 * ELEMS, NULL,
                                    &o->step, o->scratch);
}

static zr_op attention_decode(operands *o)
{
    zr_attention decode = attention;
    decode.dropout = 0;
    decode.seq = o->run.rows;
    decode.sequences = 1;
    decode.capacity = o->run.first + o->run.rows;
    decode.run_count = 1;
    return zr_op_attention_decode(&decode, &o->run, o->b, o->c, o->a, o->d, o->scratch);
}

static const zr_rotary rotary = {
    .from = ZERO_F32,
    .to = ZERO_BF16,
    .batch = 1,
    .seq = ROWS,
    .rotated = WIDTH / HEADS,
    .factor = 1.5f,
    .heads = HEADS,
    .x_step = WIDTH,
    .y_step = WIDTH,
    .x_head = WIDTH / HEADS,
    .y_head = WIDTH / HEADS,
};

static zr_op rotary_table(operands *o) { return zr_op_rotary_table(&rotary, o->a, o->b); }

static zr_op rotate(operands *o) { return zr_op_rotate(&rotary, o->c, o->a, o->b); }

static zr_op rotate_columns(operands *o)
{
    zr_rotary columns = rotary;
    columns.heads = 1;
    columns.y_step = WIDTH + 3;
    columns.back = true;
    return zr_op_rotate(&columns, o->c, o->a, o->b);
}

static const zr_elements elements = {ZERO_F32, ELEMS};

static zr_op gelu_forward(operands *o) { return zr_op_gelu_forward(&elements, o->a, o->b); }
static zr_op gelu_backward(operands *o) { return zr_op_gelu_backward(&elements, o->a, o->b); }
static zr_op gelu_erf_forward(operands *o) { return zr_op_gelu_erf_forward(&elements, o->a, o->b); }
static zr_op gelu_erf_backward(operands *o)
{
    return zr_op_gelu_erf_backward(&elements, o->a, o->b, o->c);
}

static zr_op silu_gate_forward(operands *o)
{
    return zr_op_silu_gate_forward(&elements, o->a, o->b, o->c);
}

static zr_op silu_gate_backward(operands *o)
{
    return zr_op_silu_gate_backward(&elements, o->a, o->b, o->c, o->d, o->e);
}

static zr_op add(operands *o)
{
    return zr_op_add(&(zr_sum){ZERO_F32, ZERO_BF16, ELEMS}, o->a, o->b, o->c);
}

static zr_op dropout(operands *o)
{
    const zr_dropout s = {
        .from = ZERO_F32, .to = ZERO_F16, .n = ELEMS, .p = 0.3f, .mask = {.unit = 2}, .first = 3};
    return zr_op_dropout(&s, &o->step, o->a, o->b);
}

static zr_op add_bias(operands *o)
{
    const zr_matrix s = {.dtype = ZERO_BF16, .rows = ROWS, .width = WIDTH};
    return zr_op_add_bias(&s, o->a, o->b, o->c);
}

static zr_op add_positions(operands *o)
{
    const zr_embedding s = {
        .dtype = ZERO_BF16, .rows = ROWS, .seq = SEQ, .first = 2, .width = WIDTH};
    return zr_op_add_positions(&s, o->b, o->a);
}

static zr_op add_no_positions(operands *o)
{
    const zr_embedding s = {.dtype = ZERO_BF16, .rows = ROWS, .seq = SEQ, .width = WIDTH};
    return zr_op_add_positions(&s, NULL, o->a);
}

static zr_op convert(operands *o)
{
    return zr_op_convert(&(zr_conversion){ZERO_F32, ZERO_BF16, ELEMS}, o->a, o->b);
}

static const zr_scaling scaling = {ZERO_BF16, ELEMS, 0.5f};
static zr_op scale(operands *o) { return zr_op_scale(&scaling, o->a, o->b); }

static zr_op column_sum(operands *o)
{
    const zr_matrix s = {.rows = ROWS, .width = WIDTH, .add = true};
    return zr_op_column_sum(&s, o->a, o->b, o->scratch);
}

static zr_op embedding_forward(operands *o)
{
    const zr_embedding s = {.dtype = ZERO_BF16,
                            .stream = ZERO_F32,
                            .rows = ROWS,
                            .seq = SEQ,
                            .width = WIDTH,
                            .vocab = VOCAB};
    return zr_op_embedding_forward(&s, o->ids, o->a, o->b, o->c);
}

static zr_op embedding_backward(operands *o)
{
    const zr_embedding s = {.stream = ZERO_F32,
                            .rows = ROWS,
                            .seq = SEQ,
                            .width = WIDTH,
                            .vocab = VOCAB,
                            .add_tokens = true,
                            .positions = SEQ};
    return zr_op_embedding_backward(&s, o->ids, o->a, o->b, o->c);
}

static zr_op embedding_backward_of_tokens(operands *o)
{
    const zr_embedding s = {
        .stream = ZERO_BF16, .rows = ROWS, .seq = SEQ, .width = WIDTH, .vocab = VOCAB};
    return zr_op_embedding_backward(&s, o->ids, o->a, o->b, NULL);
}

static zr_op copy(operands *o) { return zr_op_copy(&(zr_bytes){ELEMS}, o->a, o->b); }

static zr_op copy_rows(operands *o)
{
    const zr_strided s = {
        .rows = ROWS, .bytes = WIDTH, .from_stride = 2 * WIDTH, .to_stride = 3 * WIDTH};
    return zr_op_copy_rows(&s, o->a, o->b);
}

static zr_op copy_rows_together(operands *o)
{
    const zr_strided s = {
        .rows = ROWS, .bytes = WIDTH, .from_stride = 2 * WIDTH, .to_stride = WIDTH};
    return zr_op_copy_rows(&s, o->a, o->b);
}

static zr_op fill(operands *o) { return zr_op_fill(&(zr_bytes){ELEMS, 7}, o->b); }

#define CASE(function, activity, operands, ...)                                                    \
    {                                                                                              \
#function, operands, function, ZR_ACTIVITY_##activity, __VA_ARGS__                         \
    }
enum { PAIRS = ROWS * (ROWS + 1) }; // twice the scores up to the diagonal, a head

#define LOSS_TEXT(logits) "ra target, ra factor, ra weight, " logits " logits, wa row_loss"
static const char norm_backward_text[] =
    "r dy, r x, ra gamma, ra mean, ra rstd, r past, w dx, rwa dgamma, rwa dbeta, scratch";
static const char norm_forward_text[] =
    "r x, r branch, w sum, ra gamma, ra beta, w y, wa mean, wa rstd";
static const char product_text[] = "r a, r b, ra operand, w d";
static const char quantised_text[] = "r a, r b, r scales, ra operand, w d";
static const char squares_text[] = "r weight, r scales, w squares";
static const char adapted_text[] = "r across, ra gram, r b, rw squares";
static const char factors_text[] = "r squares, r magnitude, w factors, w inverse";
static const char columns_text[] = "ra factors, r x, r past, ra bias, w out";
static const char backward_text[] =
    "r qkv, r out, ra lse, r dout, w dqkv, wa d_shared, ra starts, ra values, scratch";
static const char update_text[] =
    "ra values, rw master, rw state0, rw state1, rw scales0, rw scales1, r gradient, w parameters";
static const char factor_sums_text[] = "ra values, r gradient, rwa rows, rwa columns";
static const char subtract_text[] = "ra step, rw master, r direction, w parameters";
static const char blocks_text[] = "r source, rw carry, w encoded";
static const char embedded_text[] = "ra ids, r d, rwa d_tokens, rwa d_positions";

const op_case op_cases[ZR_OP_KINDS][MOST_VARIANTS] = {
    [ZR_OP_product] = {CASE(op_case_product, product, product_text,
                            WORD *(ELEMS + WIDTH * WIDTH + ELEMS), 2 * ELEMS * WIDTH),
                       CASE(op_case_product_bf16_added, product, "r a, r b, ra operand, rw d",
                            HALF *(2 * ELEMS) + 2 * WORD * WIDTH * WIDTH, 2 * WIDTH * WIDTH * ROWS),
                       CASE(op_case_product_sloped, product, product_text,
                            WORD *(ELEMS + WIDTH * WIDTH + ELEMS), 2 * ELEMS * WIDTH)},
    [ZR_OP_quantised_product] = {CASE(op_case_quantised_product, product, quantised_text,
                                      WORD *(ELEMS + WIDTH + ELEMS) + WIDTH * WIDTH / 2,
                                      2 * ELEMS * WIDTH),
                                 CASE(op_case_quantised_product_int8, product, quantised_text,
                                      WORD *(ELEMS + WIDTH + ELEMS) + WIDTH * WIDTH,
                                      2 * ELEMS * WIDTH)},
    [ZR_OP_decode_scales] = {CASE(op_case_decode_scales, element, "r codes, ra shared, w scales",
                                  (1 + WORD) * 4 * ROWS, 0)},
    [ZR_OP_weight_squares] =
        {CASE(op_case_weight_squares, element, squares_text, HALF *ELEMS + WORD * ROWS, 0),
         CASE(op_case_column_squares, element, squares_text, WORD *(ELEMS + WIDTH), 0),
         CASE(op_case_squares_of_codes, element, squares_text, ELEMS / 2 + 2 * WORD * ROWS, 0)},
    [ZR_OP_adapted_squares] = {CASE(op_case_adapted_squares, element, adapted_text,
                                    2 * WORD * (ELEMS + WIDTH), 0)},
    [ZR_OP_magnitude_factors] = {CASE(op_case_magnitude_factors, element, factors_text,
                                      (3 * WORD + HALF) * WIDTH, 0)},
    [ZR_OP_scale_columns] = {CASE(op_case_scale_columns, element, columns_text, 2 * HALF * ELEMS,
                                  0),
                             CASE(op_case_scale_columns_of_sum, element, columns_text,
                                  3 * WORD * ELEMS, 0)},
    [ZR_OP_column_products] = {CASE(op_case_column_products, column_sum,
                                    "ra factors, r a, r b, rwa out", (HALF + WORD) * ELEMS, 0)},
    [ZR_OP_neighbour_sum] = {CASE(op_case_neighbour_sum, element, NEIGHBOURS "w out", SUM_BYTES, 0),
                             CASE(op_case_sum_without_weights, element, NEIGHBOURS "w out",
                                  COUNTED_BYTES, 0)},
    [ZR_OP_norm_forward] = {CASE(norm_forward, norm, norm_forward_text, (WORD + HALF) * ELEMS, 0),
                            CASE(residual_norm_forward, norm, norm_forward_text,
                                 2 * (WORD + HALF) * ELEMS, 0),
                            CASE(rms_forward, norm, norm_forward_text, (WORD + HALF) * ELEMS, 0),
                            CASE(residual_rms_forward, norm, norm_forward_text,
                                 2 * (WORD + HALF) * ELEMS, 0)},
    [ZR_OP_norm_backward] =
        {CASE(norm_backward, norm, norm_backward_text, (3 * WORD + HALF) * ELEMS, 0),
         CASE(rms_backward, norm, norm_backward_text, (3 * WORD + HALF) * ELEMS, 0),
         CASE(rms_backward_of_no_past, norm, norm_backward_text, (2 * WORD + HALF) * ELEMS, 0)},
    [ZR_OP_loss] = {CASE(op_case_loss, loss, LOSS_TEXT("rw"), 2 * WORD * ELEMS, 0),
                    CASE(op_case_loss_without_gradient, loss, LOSS_TEXT("r"), (WORD * ELEMS), 0)},
    [ZR_OP_loss_parts] = {CASE(op_case_loss_parts, loss, "ra target, r logits, w parts",
                               16 * ROWS + WORD * ELEMS, 0)},
    [ZR_OP_loss_finish] = {CASE(op_case_loss_finish, loss, "r parts, " LOSS_TEXT("rw"),
                                2 * WORD * ELEMS + 2 * 16 * ROWS, 0),
                           CASE(op_case_loss_finish_without_gradient, loss,
                                "r parts, " LOSS_TEXT("ra"), 16 * (2 * ROWS + 2), 0)},
    [ZR_OP_softmax] = {CASE(op_case_softmax, loss, "rw x", 2 * WORD * ELEMS, 0)},
    [ZR_OP_local_ids] = {CASE(op_case_local_ids, loss, "ra ids, wa out", 0, 0)},
    [ZR_OP_sum_rows] = {CASE(op_case_sum_rows, loss, "ra divisor, ra x, wa out", 0, 0)},
    [ZR_OP_attention_forward] = {CASE(attention_forward, attention,
                                      "r qkv, w out, wa lse, ra starts, ra values, scratch",
                                      4 * WORD * ELEMS, 2 * PAIRS * WIDTH)},
    [ZR_OP_attention_backward] = {CASE(attention_backward, attention, backward_text,
                                       8 * WORD * ELEMS, 5 * PAIRS * WIDTH),
                                  CASE(attention_backward_shared, attention,
                                       backward_text, 6 * WORD * ELEMS, 5 * PAIRS * WIDTH)},
    [ZR_OP_attention_decode] = {CASE(attention_decode, attention,
                                     "ra runs, rwa k, rwa v, ra qkv, wa out, scratch",
                                     2 * WORD * 4 * WIDTH, 4 * 4 * WIDTH)},
    [ZR_OP_rotary_table] = {CASE(rotary_table, element, "ra frequency, w table",
                                 (WORD * ROWS * WIDTH / HEADS), 0)},
    [ZR_OP_rotate] = {CASE(rotate, element, "ra table, ra x, wa y", (WORD + HALF) * ELEMS, 0),
                      CASE(rotate_columns, element, "ra table, ra x, wa y",
                           (WORD + HALF) * ELEMS / HEADS, 0)},
    [ZR_OP_gelu_forward] = {CASE(gelu_forward, gelu, "r pre, w out", 2 * WORD * ELEMS, 0)},
    [ZR_OP_gelu_backward] = {CASE(gelu_backward, gelu, "r pre, rw d", 3 * WORD * ELEMS, 0)},
    [ZR_OP_gelu_erf_forward] = {CASE(gelu_erf_forward, element, "r pre, w out", 2 * WORD * ELEMS,
                                     0)},
    [ZR_OP_gelu_erf_backward] = {CASE(gelu_erf_backward, element, "r pre, r d, w d_pre",
                                      3 * WORD * ELEMS, 0)},
    [ZR_OP_silu_gate_forward] = {CASE(silu_gate_forward, element, "r gate, r up, w out",
                                      3 * WORD * ELEMS, 0)},
    [ZR_OP_silu_gate_backward] = {CASE(silu_gate_backward, element,
                                       "r gate, r up, r d, w d_gate, w d_up", 5 * WORD * ELEMS, 0)},
    [ZR_OP_add] = {CASE(add, element, "r x, r branch, w out", (2 * WORD + HALF) * ELEMS, 0)},
    [ZR_OP_dropout] = {CASE(dropout, element, "ra values, r x, w out", (WORD + HALF) * ELEMS, 0)},
    [ZR_OP_add_bias] = {CASE(add_bias, element, "r sum, ra bias, w out", (WORD + HALF) * ELEMS, 0)},
    [ZR_OP_add_positions] = {CASE(add_positions, embedding, "ra positions, rw x",
                                  (2 * WORD + HALF) * ELEMS, 0),
                             CASE(add_no_positions, embedding, "ra positions, rw x",
                                  2 * WORD * ELEMS, 0)},
    [ZR_OP_convert] = {CASE(convert, element, "r x, w out", (WORD + HALF) * ELEMS, 0)},
    [ZR_OP_scale] = {CASE(scale, element, "r x, w out", (WORD + HALF) * ELEMS, 0)},
    [ZR_OP_column_sum] = {CASE(column_sum, column_sum, "r x, rwa out, scratch", (WORD * ELEMS), 0)},
    [ZR_OP_embedding_forward] = {CASE(embedding_forward, embedding,
                                      "ra ids, ra tokens, ra positions, w out",
                                      (WORD + 2 * HALF) * ELEMS, 0)},
    [ZR_OP_embedding_backward] =
        {CASE(embedding_backward, embedding, embedded_text, WORD *(5 * ELEMS + 4 * WIDTH), 0),
         CASE(embedding_backward_of_tokens, embedding, embedded_text,
              (HALF * ELEMS) + WORD * (4 * ELEMS + VOCAB * WIDTH), 0)},
    [ZR_OP_copy] = {CASE(copy, element, "r from, w to", 2 * ELEMS, 0)},
    [ZR_OP_copy_rows] = {CASE(copy_rows, element, "ra from, wa to", 2 * ELEMS, 0),
                         CASE(copy_rows_together, element, "ra from, wa to", 2 * ELEMS, 0)},
    [ZR_OP_fill] = {CASE(fill, element, "w to", ELEMS, 0)},
    [ZR_OP_weighted_sum] = {CASE(op_case_weighted_sum, optimizer, "r sum, r x, w out",
                                 (WORD + 2 * HALF) * ELEMS, 0)},
    [ZR_OP_update] = {CASE(op_case_update, optimizer, update_text,
                           ELEMS *(3 * 2 * WORD + WORD + HALF), 0),
                      CASE(op_case_update_lion, optimizer, update_text,
                           ELEMS *(2 * 2 * WORD + HALF), 0),
                      CASE(op_case_update_halves, optimizer, update_text,
                           ELEMS *(2 * WORD + (2 * 2 + 1 + 1) * HALF), 0),
                      CASE(op_case_update_blocks, optimizer, update_text,
                           ELEMS *(2 * WORD + 2 * HALF + 2 * 2) + 2 * 2 * 2 * WORD, 0)},
    [ZR_OP_momentum_direction] = {CASE(op_case_momentum_direction, optimizer,
                                       "ra values, rw state0, r gradient, w direction",
                                       ELEMS *(3 * HALF + WORD), 0)},
    [ZR_OP_orthogonal_update] = {CASE(op_case_orthogonal_update, optimizer,
                                      "ra factors, rw master, r direction, w parameters",
                                      ELEMS *(2 * WORD + WORD + HALF), 0)},
    [ZR_OP_factor_sums] = {CASE(op_case_factor_sums, optimizer, factor_sums_text, ELEMS *HALF, 0),
                           CASE(op_case_factor_sums_of_vector, optimizer, factor_sums_text,
                                ELEMS *HALF, 0)},
    [ZR_OP_factored_squares] = {CASE(op_case_factored_squares, optimizer,
                                     "ra values, r gradient, ra rows, ra columns, wa sums",
                                     ELEMS *HALF, 0)},
    [ZR_OP_factored_update] = {CASE(op_case_factored_update, optimizer,
                                    "ra values, rw master, r gradient, ra rows, ra columns, "
                                    "w parameters",
                                    ELEMS *(2 * WORD + 2 * HALF), 0)},
    [ZR_OP_average] = {CASE(op_case_average, optimizer, "ra values, r master, rw average",
                            ELEMS * 3 * WORD, 0)},
    [ZR_OP_square_sums_exact] = {CASE(op_case_square_sums_exact, square_sum,
                                      "ra parts, ra g, rwa sums", WORD *(ELEMS - 7), 0),
                                 CASE(op_case_square_sums_exact_infinite, square_sum,
                                      "ra parts, ra g, rwa sums", WORD *(ELEMS - 7), 0)},
    [ZR_OP_square_sums] = {CASE(op_case_square_sums, square_sum, "r g, wa sums", WORD * 150, 0)},
    [ZR_OP_lamb_direction] = {CASE(op_case_lamb_direction, optimizer,
                                   "ra values, r master, rw state0, rw state1, r gradient, "
                                   "w direction",
                                   ELEMS * 7 * WORD, 0)},
    [ZR_OP_subtract_scaled] = {CASE(op_case_subtract_scaled, optimizer, subtract_text,
                                    ELEMS * 3 * WORD, 0),
                               CASE(op_case_subtract_scaled_with_copy, optimizer, subtract_text,
                                    ELEMS *(3 * WORD + HALF), 0)},
    [ZR_OP_blocks_encode] = {CASE(op_case_blocks_encode, element, blocks_text,
                                  BLOCK_ELEMS *HALF + BYTES_OF_8, 0),
                             CASE(op_case_blocks_encode_carried, element, blocks_text,
                                  BLOCK_ELEMS *(2 * WORD + HALF) + BYTES_OF_4, 0)},
    [ZR_OP_blocks_decode] = {CASE(op_case_blocks_decode, element, "r encoded, w out",
                                  BLOCK_ELEMS *HALF + BYTES_OF_8, 0),
                             CASE(op_case_blocks_decode_halves, element, "r encoded, w out",
                                  BLOCK_ELEMS *HALF + BYTES_OF_4, 0)},
    [ZR_OP_tree_sum] = {CASE(op_case_tree_sum, element, "ra sources, w out", 4 * HALF * ELEMS, 0),
                        CASE(op_case_tree_sum_added, element, "ra sources, rw out",
                             WORD *(3 * ELEMS + 2 * (2 * ELEMS + 3)), 0),
                        CASE(op_case_tree_sum_of_codes, element, "ra sources, w out",
                             3 * 2 * (ZR_BLOCK / 2 + WORD) + 2 * (ZR_BLOCK + WORD), 0)},
    [ZR_OP_blocks_add] = {CASE(op_case_blocks_add, element, "r encoded, rw sums",
                               BLOCK_ELEMS * 2 * WORD + BYTES_OF_4, 0)},
    [ZR_OP_blocks_round] = {CASE(op_case_blocks_round, element, "r source, w out",
                                 BLOCK_ELEMS *(WORD + HALF), 0)},
};

void check_every_kind_has_a_case(void)
{
    operands *o = operands_new();
    for (int kind = 0; kind < ZR_OP_KINDS; kind++) {
        if (!op_cases[kind][0].make)
            fail_msg("operation %s has no case", zr_op_kind_name(kind));
        for (int v = 0; v < MOST_VARIANTS && op_cases[kind][v].make; v++)
            assert_int_equal(op_cases[kind][v].make(o).kind, kind);
    }
    free(o);
}

const op_case *op_case_next(const op_case *before)
{
    const op_case *all = &op_cases[0][0];
    int i = before ? (int)(before - all) + 1 : 0;
    while (i < ZR_OP_KINDS * MOST_VARIANTS && !all[i].make)
        i++;
    return i < ZR_OP_KINDS * MOST_VARIANTS ? &all[i] : NULL;
}
