// Training inside a program of your own, with threads as ranks: no launcher, no file.
//
//   build/examples/embed [RANKS] [STEPS] [TENSOR] [PIPELINE]
//
// A tiny GPT-2 learns to count: digit d is followed by (d + 1) mod 10. Every thread is a rank of
// ZeRO stage 3. TENSOR of them at a time (1 or 2, because the model has 2 heads) compute one model
// together, each with its slices of every layer; and PIPELINE of these (1 to 4, because the model
// has 4 units) have different layers. All of them take the same samples: those of the numbers that
// begin with zero_position's.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <zero/zero.h>

enum { BATCH = 2, ACCUMULATION = 4, SEQ = 16, DIGITS = 10, MAX_RANKS = 16 };

typedef struct rank {
    zero_comm *comm;
    const zero_model *model;
    int steps, tensor, pipeline;
    zero_status status;
    zero_error error;
} rank;

static void count_from(uint64_t start, int32_t *tokens, int32_t *targets)
{
    for (int i = 0; i < BATCH * SEQ; i++) {
        tokens[i] = (int32_t)((start + (uint64_t)(i / SEQ) * 7 + (uint64_t)(i % SEQ)) % DIGITS);
        targets[i] = (tokens[i] + 1) % DIGITS;
    }
}

static zero_status one_step(rank *self, zero_engine *engine, zero_step_info *info)
{
    int32_t tokens[ACCUMULATION][BATCH * SEQ], targets[ACCUMULATION][BATCH * SEQ];
    zero_tensors batches[ACCUMULATION];
    int64_t step, first;
    int data;
    zero_position(engine, &step, &first);
    zero_grid_of(engine, ZERO_AXIS_data, NULL, &data);
    for (int k = 0; k < ACCUMULATION; k++) {
        count_from((uint64_t)(step * 31 + first + (int64_t)k * data), tokens[k], targets[k]);
        batches[k] = (zero_tensors){
            2, {{tokens[k], ZERO_I32, 2, {BATCH, SEQ}}, {targets[k], ZERO_I32, 2, {BATCH, SEQ}}}};
    }
    return zero_train_batch(engine, batches, ACCUMULATION, info, &self->error);
}

static void say_grid(const zero_engine *engine)
{
    int data, tensor, pipeline;
    zero_grid_of(engine, ZERO_AXIS_data, NULL, &data);
    zero_grid_of(engine, ZERO_AXIS_tensor, NULL, &tensor);
    zero_grid_of(engine, ZERO_AXIS_pipeline, NULL, &pipeline);
    printf("%d pipeline stages x %d data x %d tensor ranks\n", pipeline, data, tensor);
}

static void *run_rank(void *argument)
{
    rank *self = argument;
    zero_engine *engine = NULL;
    char config[384];
    snprintf(config, sizeof config,
             "{\"zero_optimization\": {\"stage\": 3}, \"gradient_accumulation_steps\": %d, "
             "\"tensor_parallel\": {\"autotp_size\": %d}, \"pipeline\": {\"stages\": %d}, "
             "\"optimizer\": {\"type\": \"AdamW\", \"params\": {\"lr\": 0.003}}}",
             ACCUMULATION, self->tensor, self->pipeline);
    zero_options options = {.struct_size = sizeof options,
                            .model = self->model,
                            .comm = self->comm,
                            .shape = {.batch = BATCH, .seq = SEQ},
                            .seed = 1,
                            .config_text = config};
    self->status = zero_initialize(&options, &engine, &self->error);
    if (self->status == ZERO_OK && zero_comm_rank(self->comm) == 0)
        say_grid(engine);
    for (int s = 0; s < self->steps && self->status == ZERO_OK; s++) {
        zero_step_info info;
        self->status = one_step(self, engine, &info);
        if (self->status == ZERO_OK && zero_comm_rank(self->comm) == 0 && info.step % 20 == 0)
            printf("step %3lld  loss %.4f\n", (long long)info.step, info.loss);
    }
    if (self->status != ZERO_OK)
        zero_comm_abort(self->comm, self->error.message);
    zero_destroy(engine);
    return NULL;
}

static int argument(int argc, char **argv, int number, int otherwise)
{
    return argc > number ? atoi(argv[number]) : otherwise;
}

static int may_be(int ranks, int tensor, int pipeline)
{
    return ranks >= 1 && ranks <= MAX_RANKS && (tensor == 1 || tensor == 2) && pipeline >= 1 &&
           pipeline <= 4;
}

int main(int argc, char **argv)
{
    int ranks = argument(argc, argv, 1, 4), steps = argument(argc, argv, 2, 100);
    int tensor = argument(argc, argv, 3, 1), pipeline = argument(argc, argv, 4, 1), failed = 0;
    zero_gpt2_config gpt2;
    zero_model *model = NULL;
    zero_comm *comms[MAX_RANKS] = {0};
    rank all[MAX_RANKS] = {0};
    pthread_t threads[MAX_RANKS];
    zero_error error = {0};
    zero_comm_options options = {.struct_size = sizeof options};
    zero_gpt2_defaults(&gpt2);
    gpt2.vocab_size = DIGITS;
    gpt2.n_positions = SEQ;
    gpt2.n_embd = 32;
    gpt2.n_head = 2;
    gpt2.n_layer = 2;
    if (!may_be(ranks, tensor, pipeline) || zero_gpt2_create(&gpt2, &model, &error) != ZERO_OK ||
        zero_comm_threads(ranks, &options, comms, &error) != ZERO_OK) {
        fprintf(stderr, "embed: %s\n",
                error.status ? error.message : "1 to 16 RANKS, TENSOR 1 or 2, PIPELINE 1 to 4");
        return 64;
    }
    for (int r = 0; r < ranks; r++) {
        all[r] = (rank){.comm = comms[r],
                        .model = model,
                        .steps = steps,
                        .tensor = tensor,
                        .pipeline = pipeline};
        if (pthread_create(&threads[r], NULL, run_rank, &all[r]) != 0)
            abort();
    }
    for (int r = 0; r < ranks; r++)
        pthread_join(threads[r], NULL);
    for (int r = 0; r < ranks; r++) {
        if (all[r].status != ZERO_OK && !failed++)
            fprintf(stderr, "embed: rank %d: %s\n", r, all[r].error.message);
        zero_comm_destroy(comms[r]);
    }
    zero_gpt2_destroy(model);
    return failed ? 1 : 0;
}
