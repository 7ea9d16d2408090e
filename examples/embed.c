// Training inside a program of your own, with threads as ranks: no launcher, no file.
//
//   build/examples/embed [RANKS] [STEPS] [TENSOR]
//
// A tiny GPT-2 learns to count: digit d is followed by (d + 1) mod 10. Every thread is a rank of
// ZeRO stage 3. TENSOR of them at a time (1 or 2, because the model has 2 heads) compute one model
// together, each with its slices of every layer, so they take the same samples: those of the number
// that zero_position tells.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <zero/zero.h>

enum { BATCH = 4, SEQ = 16, DIGITS = 10, MAX_RANKS = 16 };

typedef struct rank {
    zero_comm *comm;
    const zero_model *model;
    int steps, tensor;
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
    int32_t tokens[BATCH * SEQ], targets[BATCH * SEQ];
    int64_t step, micro_batch;
    double loss;
    zero_position(engine, &step, &micro_batch);
    count_from((uint64_t)(step * 31 + micro_batch), tokens, targets);
    zero_tensors batch = {
        2, {{tokens, ZERO_I32, 2, {BATCH, SEQ}}, {targets, ZERO_I32, 2, {BATCH, SEQ}}}};
    zero_status status = zero_forward(engine, &batch, &loss, &self->error);
    if (status == ZERO_OK)
        status = zero_backward(engine, &self->error);
    if (status == ZERO_OK)
        status = zero_step(engine, info, &self->error);
    return status;
}

static void say_grid(const zero_engine *engine)
{
    int data, tensor;
    zero_grid_of(engine, ZERO_AXIS_data, NULL, &data);
    zero_grid_of(engine, ZERO_AXIS_tensor, NULL, &tensor);
    printf("%d data x %d tensor ranks\n", data, tensor);
}

static void *run_rank(void *argument)
{
    rank *self = argument;
    zero_engine *engine = NULL;
    char config[256];
    snprintf(config, sizeof config,
             "{\"zero_optimization\": {\"stage\": 3}, \"tensor_parallel\": {\"autotp_size\": %d}, "
             "\"optimizer\": {\"type\": \"AdamW\", \"params\": {\"lr\": 0.003}}}",
             self->tensor);
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

static int may_be(int ranks, int tensor)
{
    return ranks >= 1 && ranks <= MAX_RANKS && (tensor == 1 || tensor == 2);
}

int main(int argc, char **argv)
{
    int ranks = argc > 1 ? atoi(argv[1]) : 4, tensor = argc > 3 ? atoi(argv[3]) : 1, failed = 0;
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
    if (!may_be(ranks, tensor) || zero_gpt2_create(&gpt2, &model, &error) != ZERO_OK ||
        zero_comm_threads(ranks, &options, comms, &error) != ZERO_OK) {
        fprintf(stderr, "embed: %s\n",
                error.status ? error.message : "1 to 16 RANKS, TENSOR 1 or 2");
        return 64;
    }
    for (int r = 0; r < ranks; r++) {
        all[r] = (rank){.comm = comms[r],
                        .model = model,
                        .steps = argc > 2 ? atoi(argv[2]) : 100,
                        .tensor = tensor};
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
