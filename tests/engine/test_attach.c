// A communicator has one engine at a time: a second one is refused, and the first is not affected.
#include "harness.h"
#include "base/alloc.h"
#include "comm/communicator.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

enum { RANKS = 2, BATCH = 2, WIDTH = 8, STEPS = 2 };

static zero_model *model_of(void)
{
    zero_gpt2_config config;
    zero_model *model = NULL;
    zero_gpt2_defaults(&config);
    config.vocab_size = HARNESS_VOCAB;
    config.n_positions = HARNESS_SEQ;
    config.n_embd = WIDTH;
    config.n_head = 2;
    config.n_layer = 1;
    assert_int_equal(zero_gpt2_create(&config, &model, NULL), ZERO_OK);
    return model;
}

static zero_status make(const zero_model *model, zero_comm *comm, const char *config,
                        zero_engine **out, zero_error *error)
{
    const zero_options options = {.struct_size = sizeof options,
                                  .model = model,
                                  .comm = comm,
                                  .config_text = config,
                                  .seed = 3,
                                  .backend = "ref",
                                  .shape = {.batch = BATCH, .seq = HARNESS_SEQ}};
    return zero_initialize(&options, out, error);
}

typedef struct rank {
    const zero_model *model;
    zero_comm *comm;
    bool disturbed; // by somebody who wants another engine, whenever he can
    int refused;
    double losses[STEPS];
    zero_status status;
    zero_error error;
} rank;

static void try_another(rank *self)
{
    zero_engine *other = NULL;
    zero_error error = {0};
    if (!self->disturbed)
        return;
    zero_status status = make(self->model, self->comm, "{}", &other, &error);
    self->refused +=
        status == ZERO_ERR_USAGE && strstr(error.message, "has an engine already") && !other;
}

static zero_status steps(rank *self, zero_engine *engine)
{
    int32_t tokens[BATCH * HARNESS_SEQ], targets[BATCH * HARNESS_SEQ];
    for (int s = 0; s < STEPS; s++) {
        zero_step_info info;
        double loss;
        harness_batch(s, zero_comm_rank(self->comm), BATCH, tokens, targets);
        const zero_tensors batch = harness_tensors(BATCH, tokens, targets);
        try_another(self);
        ZERO_TRY(zero_forward(engine, &batch, &loss, &self->error));
        try_another(self);
        ZERO_TRY(zero_backward(engine, &self->error));
        try_another(self);
        ZERO_TRY(zero_step(engine, &info, &self->error));
        self->losses[s] = info.loss;
    }
    return ZERO_OK;
}

static void *train(void *argument)
{
    rank *self = argument;
    zero_engine *engine = NULL;
    self->status = make(self->model, self->comm, "{\"zero_optimization\": {\"stage\": 3}}", &engine,
                        &self->error);
    if (self->status == ZERO_OK)
        self->status = steps(self, engine);
    zero_destroy(engine);
    return NULL;
}

static void train_all(const zero_model *model, bool disturbed, rank out[RANKS])
{
    zero_comm *comms[RANKS];
    pthread_t threads[RANKS];
    const zero_comm_options options = {.struct_size = sizeof options, .timeout_seconds = 20};
    assert_int_equal(zero_comm_threads(RANKS, &options, comms, NULL), ZERO_OK);
    for (int r = 0; r < RANKS; r++) {
        out[r] = (rank){.model = model, .comm = comms[r], .disturbed = disturbed};
        assert_int_equal(pthread_create(&threads[r], NULL, train, &out[r]), 0);
    }
    for (int r = 0; r < RANKS; r++)
        pthread_join(threads[r], NULL);
    for (int r = 0; r < RANKS; r++)
        zero_comm_destroy(comms[r]);
}

static void the_first_does_not_notice(void **state)
{
    rank alone[RANKS], disturbed[RANKS];
    zero_model *model = model_of();
    train_all(model, false, alone);
    train_all(model, true, disturbed);
    for (int r = 0; r < RANKS; r++) {
        if (disturbed[r].status != ZERO_OK)
            fail_msg("%s", disturbed[r].error.message);
        assert_int_equal(disturbed[r].refused, 3 * STEPS);
        assert_memory_equal(disturbed[r].losses, alone[r].losses, sizeof alone[r].losses);
    }
    zero_gpt2_destroy(model);
}

static void one_after_another_is_fine(void **state)
{
    zero_model *model = model_of();
    zero_comm *comm = NULL, *own = NULL;
    zero_engine *engine = NULL, *other = NULL;
    assert_int_equal(zero_comm_self(&comm, NULL), ZERO_OK);
    assert_int_equal(zero_comm_self(&own, NULL), ZERO_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(make(model, comm, "{}", &engine, NULL), ZERO_OK);
        assert_int_equal(make(model, comm, "{}", &other, NULL), ZERO_ERR_USAGE);
        assert_int_equal(make(model, own, "{}", &other, NULL), ZERO_OK); // of its own communicator
        zero_destroy(other);
        zero_destroy(engine);
    }
    zero_comm_destroy(own);
    zero_comm_destroy(comm);
    zero_gpt2_destroy(model);
}

// However far it got, one that was not made does not keep the communicator.
static void one_that_fails_leaves_it_free(void **state)
{
    zero_model *model = model_of();
    zero_engine *engine = NULL;
    zero_status status = ZERO_ERR_MEMORY;
    for (int64_t nth = 1; status != ZERO_OK; nth++) {
        zero_comm *comm = NULL;
        assert_int_equal(zero_comm_self(&comm, NULL), ZERO_OK);
        zr_alloc_fail_at(nth);
        status = make(model, comm, "{}", &engine, NULL);
        zr_alloc_fail_at(0);
        assert_int_equal(comm->attached, status == ZERO_OK);
        zero_destroy(engine);
        engine = NULL;
        assert_false(comm->attached);
        zero_comm_destroy(comm);
    }
    zero_gpt2_destroy(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_does_not_notice),
        cmocka_unit_test(one_after_another_is_fine),
        cmocka_unit_test(one_that_fails_leaves_it_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
