// Tensor ranks compute one model together, so they have to be given the same samples: where a
// program gives them others, the step ends before its update, and names two of them.
#include "base/errors.h"
#include <zero/zero.h>

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { RANKS = 4, BATCH = 2, SEQ = 8, VOCABULARY = 16, ACCUMULATION = 2, STEPS = 3 };

// What a rank does to its samples.
typedef struct mistake {
    int rank, step, micro_batch; // rank -1: nothing
    bool evaluates;              // in an evaluation before its first step
    bool exchanges;              // ranks 1 and 3 have each other's in place of their own
} mistake;

typedef struct rank {
    zero_comm *comm;
    const zero_model *model;
    mistake mistake;
    int64_t updates;
    zero_status status;
    zero_error error;
} rank;

static void fill(int64_t start, int32_t *tokens, int32_t *targets)
{
    for (int i = 0; i < BATCH * SEQ; i++) {
        tokens[i] = (int32_t)((start + i) % VOCABULARY);
        targets[i] = (tokens[i] + 1) % VOCABULARY;
    }
}

static zero_status micro_batch(rank *self, zero_engine *engine, int k, zero_step_info *info)
{
    int32_t tokens[BATCH * SEQ], targets[BATCH * SEQ];
    int64_t step, number;
    double loss;
    zero_position(engine, &step, &number);
    int self_rank = zero_comm_rank(self->comm);
    if (self->mistake.exchanges && self_rank % 2)
        number ^= 1;
    fill(step * 31 + number * 7, tokens, targets);
    if (self->mistake.rank == zero_comm_rank(self->comm) && self->mistake.step == step &&
        self->mistake.micro_batch == k)
        targets[BATCH * SEQ - 1] ^= 1;
    const zero_tensors batch = {
        2, {{tokens, ZERO_I32, 2, {BATCH, SEQ}}, {targets, ZERO_I32, 2, {BATCH, SEQ}}}};
    if (self->mistake.evaluates && k == 0)
        ZERO_TRY(zero_evaluate(engine, &batch, &loss, &self->error));
    ZERO_TRY(zero_forward(engine, &batch, &loss, &self->error));
    ZERO_TRY(zero_backward(engine, &self->error));
    return zero_step(engine, info, &self->error);
}

static zero_status train(rank *self, zero_engine *engine)
{
    for (int n = 0; n < STEPS * ACCUMULATION; n++) {
        zero_step_info info;
        ZERO_TRY(micro_batch(self, engine, n % ACCUMULATION, &info));
        self->updates += info.updated;
    }
    return ZERO_OK;
}

static void *run(void *argument)
{
    rank *self = argument;
    zero_engine *engine = NULL;
    const zero_options options = {
        .struct_size = sizeof options,
        .model = self->model,
        .comm = self->comm,
        .shape = {.batch = BATCH, .seq = SEQ},
        .backend = "ref",
        .config_text = "{\"tensor_parallel\": {\"autotp_size\": 2}, \"gradient_accumulation_steps\""
                       ": 2, \"optimizer\": {\"type\": \"AdamW\", \"params\": {\"lr\": 0.01}}}"};
    self->status = zero_initialize(&options, &engine, &self->error);
    if (self->status == ZERO_OK)
        self->status = train(self, engine);
    zero_destroy(engine);
    return NULL;
}

static void run_all(mistake mistake, rank all[RANKS])
{
    zero_gpt2_config config;
    zero_model *model;
    zero_comm *comms[RANKS];
    pthread_t threads[RANKS];
    zero_error error = {0};
    const zero_comm_options options = {.struct_size = sizeof options, .timeout_seconds = 20};
    zero_gpt2_defaults(&config);
    config.vocab_size = VOCABULARY;
    config.n_positions = SEQ;
    config.n_embd = 8;
    config.n_head = 2;
    config.n_layer = 1;
    assert_int_equal(zero_gpt2_create(&config, &model, &error), ZERO_OK);
    assert_int_equal(zero_comm_threads(RANKS, &options, comms, &error), ZERO_OK);
    for (int r = 0; r < RANKS; r++) {
        all[r] = (rank){.comm = comms[r], .model = model, .mistake = mistake};
        assert_int_equal(pthread_create(&threads[r], NULL, run, &all[r]), 0);
    }
    for (int r = 0; r < RANKS; r++)
        pthread_join(threads[r], NULL);
    for (int r = 0; r < RANKS; r++)
        zero_comm_destroy(comms[r]);
    zero_gpt2_destroy(model);
}

static void the_same_samples_are_fine(void **state)
{
    rank all[RANKS];
    run_all((mistake){.rank = -1}, all);
    for (int r = 0; r < RANKS; r++)
        if (all[r].status != ZERO_OK || all[r].updates != STEPS)
            fail_msg("rank %d: %s", r, all[r].error.message);
}

// first: the tensor rank 0 of the model to which the mistaken rank belongs.
static void refused(mistake mistake, int first)
{
    rank all[RANKS];
    char words[96];
    run_all(mistake, all);
    snprintf(words, sizeof words, "step %d: ranks %d and %d compute one model's layers together",
             mistake.step, first, first + 1);
    for (int r = 0; r < RANKS; r++) {
        if (all[r].status == ZERO_OK || !strstr(all[r].error.message, words))
            fail_msg("rank %d (%s) says \"%s\", not \"%s\"", r, zero_status_name(all[r].status),
                     all[r].error.message, words);
        assert_int_equal(all[r].updates, mistake.step);
    }
    assert_int_equal(all[mistake.rank].status, ZERO_ERR_USAGE);
}

static void others_are_refused_before_the_update(void **state)
{
    refused((mistake){.rank = 1, .step = 0, .micro_batch = 0}, 0);
    refused((mistake){.rank = 0, .step = 1, .micro_batch = 1}, 0);
    refused((mistake){.rank = 3, .step = 2, .micro_batch = 0}, 2);
}

// Both models are given the same samples as before, but one rank of each has the other's.
static void exchanged_ones_are_refused(void **state)
{
    rank all[RANKS];
    run_all((mistake){.rank = -1, .exchanges = true}, all);
    for (int r = 0; r < RANKS; r++) {
        assert_int_not_equal(all[r].status, ZERO_OK);
        assert_int_equal(all[r].updates, 0);
        assert_non_null(strstr(all[r].error.message, "compute one model's layers together"));
    }
}

static void others_are_refused_in_an_evaluation(void **state)
{
    refused((mistake){.rank = 2, .step = 0, .micro_batch = 0, .evaluates = true}, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_samples_are_fine),
        cmocka_unit_test(others_are_refused_before_the_update),
        cmocka_unit_test(exchanged_ones_are_refused),
        cmocka_unit_test(others_are_refused_in_an_evaluation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
