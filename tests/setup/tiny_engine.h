// An engine of one rank on a tiny GPT-2, for tests of what is built on engines.
#ifndef TESTS_TINY_ENGINE_H
#define TESTS_TINY_ENGINE_H

#include <zero/comm.h>
#include <zero/engine.h>
#include <zero/gpt2.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

enum { TINY_VOCABULARY = 32, TINY_SEQ = 8, TINY_BATCH = 2 };

typedef struct tiny {
    zero_comm *comm;
    zero_model *model;
    zero_engine *engine;
} tiny;

static inline tiny tiny_create_with(const char *configuration)
{
    tiny t = {0};
    zero_gpt2_config config = {.struct_size = sizeof config};
    zero_error error = {0};
    zero_gpt2_defaults(&config);
    config.vocab_size = TINY_VOCABULARY;
    config.n_positions = TINY_SEQ;
    config.n_embd = 16;
    config.n_layer = 1;
    config.n_head = 2;
    assert_int_equal(zero_comm_self(&t.comm, &error), ZERO_OK);
    assert_int_equal(zero_gpt2_create(&config, &t.model, &error), ZERO_OK);
    zero_options options = {.struct_size = sizeof options,
                            .model = t.model,
                            .comm = t.comm,
                            .config_text = configuration,
                            .shape = {.batch = TINY_BATCH, .seq = TINY_SEQ},
                            .threads = 1,
                            .total_steps = 10};
    if (zero_initialize(&options, &t.engine, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    return t;
}

static inline tiny tiny_create(void)
{
    return tiny_create_with("{\"train_micro_batch_size_per_gpu\": 2}");
}

static inline void tiny_destroy(tiny *t)
{
    zero_destroy(t->engine);
    zero_gpt2_destroy(t->model);
    zero_comm_destroy(t->comm);
}

#endif
