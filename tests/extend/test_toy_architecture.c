// The model of bag_of_words.c learns, and all stages train it to the same bits.
#include "bag_of_words.h"
#include "toy.h"

enum { STEPS = 30, BATCH = 4 };

static const zero_model *take_bag_of_words(const zero_model *usual) { return &bag_of_words; }

static void stages_train_it_to_the_same_bits(void **state)
{
    assert_int_equal(HARNESS_VOCAB, BAG_VOCABULARY);
    for (int ranks = 1; ranks <= 2; ranks++)
        harness_stages_agree((harness_case){
            .ranks = ranks, .accumulation = 2, .batch = BATCH, .tuned = take_bag_of_words});
}

static void it_learns(void **state)
{
    int32_t tokens[BATCH * HARNESS_SEQ], targets[BATCH * HARNESS_SEQ];
    zero_comm *comm;
    zero_engine *engine;
    zero_step_info info;
    double loss, first = 0;
    harness_batch(0, 0, BATCH, tokens, targets);
    const zero_tensors batch = harness_tensors(BATCH, tokens, targets);
    assert_int_equal(zero_comm_self(&comm, NULL), ZERO_OK);
    const zero_options options = {.struct_size = sizeof options,
                                  .model = &bag_of_words,
                                  .comm = comm,
                                  .shape = {.batch = BATCH, .seq = HARNESS_SEQ},
                                  .config_text = "{\"optimizer\": {\"type\": \"AdamW\","
                                                 " \"params\": {\"lr\": 0.1}}}"};
    assert_int_equal(zero_initialize(&options, &engine, NULL), ZERO_OK);
    for (int s = 0; s < STEPS; s++) {
        assert_int_equal(zero_forward(engine, &batch, &loss, NULL), ZERO_OK);
        assert_int_equal(zero_backward(engine, NULL), ZERO_OK);
        assert_int_equal(zero_step(engine, &info, NULL), ZERO_OK);
        first = s ? first : loss;
    }
    assert_float_equal(first, 0.5, 0.05); // of scores that are almost 0
    assert_true(loss < 0.01);
    zero_destroy(engine);
    zero_comm_destroy(comm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_train_it_to_the_same_bits),
        cmocka_unit_test(it_learns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
