// A language model of one's own, written as rows: which values a block computes, and from which
// tensors. Backward, memory, ZeRO's stages, tensor and pipeline ranks follow from the table.
//
//   build/examples/rows [STEPS]      build/zero run --ranks 4 build/examples/rows 100 2
//
// The second argument is the number of tensor ranks. The block: both halves read its input, heads
// turn by half, the MLP is gated, and nothing has a bias. It learns to count: digit d is followed
// by (d + 3) mod 10.
#include <stdio.h>
#include <stdlib.h>
#include <zero/zero.h>

enum { BATCH = 4, SEQ = 16, DIGITS = 10 };
enum { NORM, QKV, O, MLP_NORM, GATE, UP, DOWN, TENSORS };

static const zero_tensor_row tensors[TENSORS] = {
    [NORM] = {"attention.norm", ZERO_WIDE_STREAM, .flags = ZERO_GAIN},
    [QKV] = {"attention.qkv", ZERO_WIDE_PACKED, ZERO_WIDE_STREAM},
    [O] = {"attention.out", ZERO_WIDE_STREAM, ZERO_WIDE_QUERIES, ZERO_DEPTH},
    [MLP_NORM] = {"mlp.norm", ZERO_WIDE_STREAM, .flags = ZERO_GAIN},
    [GATE] = {"mlp.gate", ZERO_WIDE_INNER, ZERO_WIDE_STREAM},
    [UP] = {"mlp.up", ZERO_WIDE_INNER, ZERO_WIDE_STREAM},
    [DOWN] = {"mlp.down", ZERO_WIDE_STREAM, ZERO_WIDE_INNER, ZERO_DEPTH},
};

#define LINEAR(in, width, weight) ZERO_ROW_LINEAR, {in}, ZERO_WIDE_##width, weight, ZERO_NO_TENSOR
static const zero_block_table block = {
    .parallel = 1,
    .halves = {{.count = 5,
                .rows = {{ZERO_ROW_NORM, .weight = NORM},
                         {LINEAR(0, PACKED, QKV), ZERO_KEPT},
                         {ZERO_ROW_ROTATE_HEADS, {1}},
                         {ZERO_ROW_ATTENTION, {2}, .kept = ZERO_KEPT},
                         {LINEAR(3, STREAM, O)}}},
               {.count = 5,
                .rows = {{ZERO_ROW_NORM, .weight = MLP_NORM},
                         {LINEAR(0, INNER, GATE), ZERO_KEPT},
                         {LINEAR(0, INNER, UP), ZERO_KEPT},
                         {ZERO_ROW_SILU_GATE, {1, 2}},
                         {LINEAR(3, STREAM, DOWN)}}}}};

static zero_status one_step(zero_engine *engine, zero_step_info *info, zero_error *error)
{
    int32_t tokens[BATCH * SEQ], targets[BATCH * SEQ];
    int64_t step, number;
    zero_position(engine, &step, &number);
    for (int i = 0; i < BATCH * SEQ; i++) {
        tokens[i] = (int32_t)((step * 31 + number * 7 + i / SEQ + 3 * (i % SEQ)) % DIGITS);
        targets[i] = (tokens[i] + 3) % DIGITS;
    }
    const zero_tensors batch = {
        2, {{tokens, ZERO_I32, 2, {BATCH, SEQ}}, {targets, ZERO_I32, 2, {BATCH, SEQ}}}};
    return zero_train_batch(engine, &batch, 1, info, error);
}

int main(int argc, char **argv)
{
    int steps = argc > 1 ? atoi(argv[1]) : 100, tensor = argc > 2 ? atoi(argv[2]) : 1;
    const zero_rows_config model = {
        .struct_size = sizeof model,
        .name = "counter",
        .vocab_size = DIGITS,
        .n_positions = SEQ,
        .width = 32,
        .inner = 64,
        .n_layer = 2,
        .n_head = 4,
        .norm_epsilon = 1e-5f,
        .initializer_range = 0.1f,
        .rms_norm = 1,
        .outputs_first = 1,
        .tied = 1,
        .rotated = 0.5,
        .rope = {.theta = 10000},
        .tensors = tensors,
        .tensor_count = TENSORS,
        .block = &block,
    };
    char config[160];
    snprintf(config, sizeof config,
             "{\"zero_optimization\": {\"stage\": 3}, \"tensor_parallel\": {\"autotp_size\": %d}, "
             "\"optimizer\": {\"type\": \"AdamW\", \"params\": {\"lr\": 0.003}}}",
             tensor);
    zero_options options = {.struct_size = sizeof options, .config_text = config, .seed = 1};
    options.shape = (zero_shape){.batch = BATCH, .seq = SEQ};
    zero_comm *comm = NULL;
    zero_model *made = NULL;
    zero_engine *engine = NULL;
    zero_step_info info;
    zero_error error = {0};
    zero_status status = zero_comm_open(NULL, &comm, &error);
    if (status == ZERO_OK)
        status = zero_rows_create(&model, &made, &error);
    options.comm = comm;
    options.model = made;
    if (status == ZERO_OK)
        status = zero_initialize(&options, &engine, &error);
    for (int s = 0; s < steps && status == ZERO_OK; s++) {
        status = one_step(engine, &info, &error);
        if (status == ZERO_OK && zero_comm_rank(comm) == 0 && info.step % 20 == 0)
            printf("step %3lld  loss %.5f\n", (long long)info.step, info.loss);
    }
    if (status != ZERO_OK)
        fprintf(stderr, "rows: %s\n", error.message);
    zero_destroy(engine);
    zero_rows_destroy(made);
    zero_comm_destroy(comm);
    return zero_status_exit_code(status);
}
