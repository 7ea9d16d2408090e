// Adapters in a configuration, as text and as an object; and a program that trains them by
// zero_lora_create: the base is loaded and never written, what is saved is the adapter, which a new
// engine loads again.
#include "setup/model_lora.h"

#include "tiny_engine.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zero/lora.h>
#include <zero/weights.h>

static zero_status read_key(const char *value, zr_lora *out, zero_error *error)
{
    zr_lm_config model;
    zr_config *config = NULL;
    char text[256];
    bool given;
    assert_int_equal(zr_lm_parse_spec("llama", &model, &given, NULL), ZERO_OK);
    snprintf(text, sizeof text, "{\"libzero\": {\"lora\": %s}}", value);
    assert_int_equal(zr_config_parse(text, strlen(text), "ds.json", &config, NULL), ZERO_OK);
    zero_status status = zr_model_lora_read(config, &model, out, error);
    zr_config_destroy(config);
    return status;
}

static void text_and_object_mean_the_same(void **state)
{
    static const char *const same[] = {"\"r=4,alpha=6,targets=q_proj+v_proj,dropout=0.1,rslora\"",
                                       "{\"r\": 4, \"alpha\": 6, \"targets\": \"q_proj,v_proj\", "
                                       "\"dropout\": 0.1, \"rslora\": true}",
                                       "{\"r\": 4, \"lora_alpha\": 6, \"target_modules\": "
                                       "[\"q_proj\", \"v_proj\"], \"lora_dropout\": "
                                       "0.1, \"use_rslora\": true}"};
    zr_lora first, lora;
    for (int i = 0; i < ZR_COUNT(same); i++) {
        zero_error error = {0};
        if (read_key(same[i], &lora, &error) != ZERO_OK)
            fail_msg("%s: %s", same[i], error.message);
        first = i ? first : lora;
        assert_true(lora.rank == 4 && lora.alpha == 6 && lora.rank_root &&
                    lora.targets == first.targets && lora.dropout == first.dropout);
    }
    assert_int_equal(read_key("null", &lora, NULL), ZERO_OK);
    assert_int_equal(lora.rank, 0);
}

static void what_is_wrong_is_refused(void **state)
{
    static const char *const wrong[] = {"3",
                                        "true",
                                        "[]",
                                        "{}",
                                        "{\"r\": 4, \"bias\": 1}",
                                        "{\"r\": \"x\"}",
                                        "{\"r\": 4, \"targets\": [1]}"};
    for (int i = 0; i < ZR_COUNT(wrong); i++) {
        zr_lora lora;
        zero_error error = {0};
        assert_int_equal(read_key(wrong[i], &lora, &error), ZERO_ERR_CONFIG);
        assert_int_equal(strncmp(error.message, "ds.json: ", 9), 0);
    }
}

static zero_engine *engine_of(tiny *t, zero_model *model, zero_error *error)
{
    const zero_options options = {.struct_size = sizeof options,
                                  .model = model,
                                  .comm = t->comm,
                                  .config_text = "{\"train_micro_batch_size_per_gpu\": 2}",
                                  .shape = {.batch = TINY_BATCH, .seq = TINY_SEQ},
                                  .threads = 1,
                                  .seed = 3,
                                  .total_steps = 10};
    zero_engine *engine;
    if (zero_initialize(&options, &engine, error) != ZERO_OK)
        fail_msg("%s", error->message);
    return engine;
}

static float loss_of(zero_engine *engine)
{
    static int32_t tokens[TINY_BATCH * TINY_SEQ], targets[TINY_BATCH * TINY_SEQ];
    zero_error error = {0};
    zero_step_info info;
    for (int i = 0; i < TINY_BATCH * TINY_SEQ; i++) {
        tokens[i] = i * 7 % TINY_VOCABULARY;
        targets[i] = (i * 7 + 7) % TINY_VOCABULARY;
    }
    const zero_tensors batch = {.count = 2,
                                .at = {{tokens, ZERO_I32, 2, {TINY_BATCH, TINY_SEQ}},
                                       {targets, ZERO_I32, 2, {TINY_BATCH, TINY_SEQ}}}};
    if (zero_train_batch(engine, &batch, 1, &info, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    return info.loss;
}

static void a_program_trains_adapters(void **state)
{
    zero_error error = {0};
    char folder[] = "/tmp/zero-adapters-XXXXXX", base[64], path[80], command[96];
    tiny t = tiny_create();
    zero_model *adapted;
    assert_non_null(mkdtemp(folder));
    snprintf(base, sizeof base, "%s/base.safetensors", folder);
    snprintf(path, sizeof path, "%s/adapter_model.safetensors", folder);
    assert_int_equal(zero_save_weights(t.engine, base, &error), ZERO_OK);
    assert_int_equal(zero_lora_create(t.model, "r=2,targets=c_attn+c_fc", &adapted, &error),
                     ZERO_OK);
    float of_base = loss_of(t.engine);
    zero_destroy(t.engine); // a communicator has one engine at a time
    t.engine = NULL;
    zero_engine *engine = engine_of(&t, adapted, &error);
    assert_int_equal(zero_load_weights(engine, base, &error), ZERO_OK);
    assert_true(loss_of(engine) == of_base); // B is zero
    for (int i = 0; i < 4; i++)
        loss_of(engine);
    assert_int_equal(zero_save_weights(engine, path, &error), ZERO_OK);
    float after = loss_of(engine);
    zero_destroy(engine);
    engine = engine_of(&t, adapted, &error);
    assert_int_equal(zero_load_weights(engine, base, &error), ZERO_OK);
    assert_int_equal(zero_load_weights(engine, folder, &error), ZERO_OK);
    assert_true(loss_of(engine) == after);
    zero_destroy(engine);
    zero_lora_destroy(adapted);
    tiny_destroy(&t);
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

static void a_configuration_alone_adds_none(void **state)
{
    zero_error error = {0};
    zero_engine *engine;
    tiny t = tiny_create();
    const zero_options options = {.struct_size = sizeof options,
                                  .model = t.model,
                                  .comm = t.comm,
                                  .config_text = "{\"libzero\": {\"lora\": \"r=2\"}}",
                                  .shape = {.batch = 1, .seq = TINY_SEQ},
                                  .total_steps = 10};
    zero_destroy(t.engine);
    t.engine = NULL;
    assert_int_equal(zero_initialize(&options, &engine, &error), ZERO_ERR_CONFIG);
    assert_non_null(strstr(error.message, "a program makes them by zero_lora_create"));
    tiny_destroy(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(text_and_object_mean_the_same),
                                       cmocka_unit_test(what_is_wrong_is_refused),
                                       cmocka_unit_test(a_program_trains_adapters),
                                       cmocka_unit_test(a_configuration_alone_adds_none)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
