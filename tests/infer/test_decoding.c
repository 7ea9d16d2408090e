// Decoding borrows an engine's parameters and queue and changes neither: while a generation is
// open, the engine computes in its own scratch.
#include "../setup/tiny_engine.h"
#include "infer/decoding.h"
#include "engine/engine_inner.h"

#include <string.h>

enum { PROMPT = 4 };

static double evaluate(zero_engine *engine)
{
    int32_t tokens[TINY_BATCH * TINY_SEQ] = {1, 2, 3}, targets[TINY_BATCH * TINY_SEQ] = {2, 3};
    const zero_tensors batch = {2,
                                {{tokens, ZERO_I32, 2, {TINY_BATCH, TINY_SEQ}},
                                 {targets, ZERO_I32, 2, {TINY_BATCH, TINY_SEQ}}}};
    double loss = 0;
    assert_int_equal(zero_evaluate(engine, &batch, &loss, NULL), ZERO_OK);
    return loss;
}

static void take_step(zr_decoding *decoding, float out[TINY_VOCABULARY])
{
    const int32_t prompt[PROMPT] = {5, 6, 7, 8};
    zero_error error = {0};
    memcpy(decoding->tokens, prompt, sizeof prompt);
    decoding->runs[0] = (zr_attention_run){.rows = PROMPT};
    decoding->wanted[0] = PROMPT - 1;
    const zr_decode_step step = {.runs = decoding->runs,
                                 .run_count = 1,
                                 .rows = PROMPT,
                                 .tokens = decoding->tokens,
                                 .wanted = decoding->wanted,
                                 .wanted_count = 1};
    if (zr_decoding_take_step(decoding, &step, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    memcpy(out, decoding->logits, TINY_VOCABULARY * sizeof *out);
}

static void the_engine_s_queue_stays_as_it_is(void **state)
{
    tiny t = tiny_create();
    const zr_queue *queue = zr_engine_queue(t.engine);
    const zr_queue before = *queue;
    const zr_decoding_limits limits = {.sequences = 1, .capacity = TINY_SEQ, .chunk = PROMPT};
    float first[TINY_VOCABULARY], second[TINY_VOCABULARY];
    zr_decoding decoding;
    zero_error error = {0};
    double loss = evaluate(t.engine);
    assert_int_equal(
        zr_decoding_open(t.engine, zr_lm_config_of(t.model), &limits, &decoding, &error), ZERO_OK);
    assert_memory_equal(queue, &before, sizeof before);
    take_step(&decoding, first);
    assert_memory_equal(queue, &before, sizeof before);
    assert_true(evaluate(t.engine) == loss);
    take_step(&decoding, second);
    assert_memory_equal(first, second, sizeof first);
    zr_decoding_close(&decoding);
    assert_memory_equal(queue, &before, sizeof before);
    assert_true(evaluate(t.engine) == loss);
    tiny_destroy(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_engine_s_queue_stays_as_it_is)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
