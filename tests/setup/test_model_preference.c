// Preferences in a configuration, as text and as an object; and a program that trains on them by
// zero_preference_create.
#include "setup/model_preference.h"

#include "tiny_engine.h"
#include <math.h>
#include <string.h>
#include <zero/preference.h>

static zero_status read_key(const char *value, zr_preference *out, zero_error *error)
{
    zr_config *config = NULL;
    char text[256];
    snprintf(text, sizeof text, "{\"libzero\": {\"preference\": %s}}", value);
    assert_int_equal(zr_config_parse(text, strlen(text), "ds.json", &config, NULL), ZERO_OK);
    zero_status status = zr_model_preference_read(config, out, error);
    zr_config_destroy(config);
    return status;
}

static void expect(const char *value, const char *written)
{
    char text[ZR_PREFERENCE_TEXT];
    zr_preference read, again;
    zero_error error = {0};
    if (read_key(value, &read, &error) != ZERO_OK)
        fail_msg("%s: %s", value, error.message);
    zr_preference_write(&read, text);
    assert_string_equal(text, written);
    assert_int_equal(zr_preference_parse(text, "", &again, NULL), ZERO_OK);
    assert_true(zr_preference_is_same(&read, &again));
}

// The usual values are those of trl; SimPO's those of its paper.
static void text_and_object_mean_the_same(void **state)
{
    expect("\"dpo\"", "dpo,beta=0.1,smoothing=0");
    expect("{\"loss\": \"dpo\", \"beta\": 0.25}", "dpo,beta=0.25,smoothing=0");
    expect("\"orpo\"", "orpo,beta=0.1,prompt_loss=true");
    expect("{\"prompt_loss\": false, \"loss\": \"orpo\"}", "orpo,beta=0.1,prompt_loss=false");
    expect("\"simpo,gamma=0.5\"", "simpo,beta=2,gamma=0.5,smoothing=0");
    expect("\"kto,undesirable=0.75\"", "kto,beta=0.1,desirable=1,undesirable=0.75");
    expect("null", "none");
    expect("\"none\"", "none");
}

static void what_is_wrong_is_refused(void **state)
{
    static const char *const wrong[][2] = {
        {"3", "expected text"},
        {"{\"beta\": 1}", "no \"loss\""},
        {"\"ppo\"", "there are dpo, orpo, simpo, kto"},
        {"\"dpo,gamma=1\"", "\"gamma\" is no setting of dpo, which has beta, smoothing"},
        {"\"dpo,beta\"", "\"beta\" is no setting"},
        {"\"dpo,beta=0\"", "beta=0: a number from"},
        {"\"dpo,smoothing=0.5\"", "smoothing=0.5: a number from 0 to 0.499"},
        {"\"orpo,prompt_loss=maybe\"", "true or false"},
        {"{\"loss\": \"kto\", \"desirable\": []}", "desirable=?"},
        {"\"dpo,\"", "\"\" is no setting"}};
    for (int i = 0; i < ZR_COUNT(wrong); i++) {
        zr_preference preference;
        zero_error error = {0};
        assert_int_equal(read_key(wrong[i][0], &preference, &error), ZERO_ERR_CONFIG);
        assert_int_equal(strncmp(error.message, "ds.json: ", 9), 0);
        if (!strstr(error.message, wrong[i][1]))
            fail_msg("%s: \"%s\" lacks \"%s\"", wrong[i][0], error.message, wrong[i][1]);
    }
}

typedef struct rows { // of a micro-batch: each window is a pair
    int32_t tokens[TINY_BATCH * TINY_SEQ], targets[TINY_BATCH * TINY_SEQ],
        positions[TINY_BATCH * TINY_SEQ], roles[TINY_BATCH * TINY_SEQ];
    float reference[TINY_BATCH * TINY_SEQ], losses[TINY_BATCH * TINY_SEQ];
} rows;

static zero_tensors batch_of(rows *r, int count)
{
    zero_tensors batch = {.count = count};
    void *const at[] = {r->tokens, r->targets, r->positions, r->roles, r->reference, r->losses};
    for (int i = 0; i < TINY_BATCH * TINY_SEQ; i++) {
        int in = i % TINY_SEQ, half = TINY_SEQ / 2;
        r->tokens[i] = i * 7 % TINY_VOCABULARY;
        r->targets[i] = (i * 7 + 7) % TINY_VOCABULARY;
        r->positions[i] = in % half;
        r->roles[i] = in >= 2 * half ? 0 : in < half ? ZERO_ROLE_chosen : ZERO_ROLE_rejected;
    }
    for (int i = 0; i < count; i++)
        batch.at[i] = (zero_tensor){at[i], i < 4 ? ZERO_I32 : ZERO_F32, 2, {TINY_BATCH, TINY_SEQ}};
    return batch;
}

static void take_reference(rows *r)
{
    double sum = 0;
    for (int end = TINY_BATCH * TINY_SEQ, i = end - 1; i >= 0; i--) {
        sum -= r->roles[i] ? r->losses[i] : 0;
        for (int k = i; !r->positions[i] && k < end; k++)
            r->reference[k] = (float)sum;
        end = r->positions[i] ? end : i;
        sum = r->positions[i] ? sum : 0;
    }
}

// Against itself as the reference, a model has no preference: the loss of DPO is log 2.
static void a_program_trains_on_preferences(void **state)
{
    static rows r;
    zero_error error = {0};
    zero_model *preferring;
    zero_engine *engine;
    zero_step_info info;
    double loss;
    tiny t = tiny_create();
    assert_int_equal(zero_preference_create(t.model, "dpo", &preferring, &error), ZERO_OK);
    zero_destroy(t.engine); // a communicator has one engine at a time
    t.engine = NULL;
    const zero_options options = {.struct_size = sizeof options,
                                  .model = preferring,
                                  .comm = t.comm,
                                  .config_text = "{\"train_micro_batch_size_per_gpu\": 2, "
                                                 "\"libzero\": {\"preference\": \"dpo\"}}",
                                  .shape = {.batch = TINY_BATCH, .seq = TINY_SEQ},
                                  .threads = 1,
                                  .seed = 3,
                                  .total_steps = 10};
    if (zero_initialize(&options, &engine, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    zero_tensors batch = batch_of(&r, 6);
    assert_int_equal(zero_evaluate(engine, &batch, &loss, &error), ZERO_OK);
    take_reference(&r);
    batch = batch_of(&r, 5);
    double before = 1;
    for (int i = 0; i < 4; i++) {
        if (zero_train_batch(engine, &batch, 1, &info, &error) != ZERO_OK)
            fail_msg("%s", error.message);
        assert_true(i ? info.loss < before : fabs(info.loss - log(2)) < 1e-5);
        before = info.loss;
    }
    batch.count = 3;
    assert_int_equal(zero_evaluate(engine, &batch, &loss, &error), ZERO_ERR_USAGE);
    assert_non_null(strstr(error.message, "no tensor 3"));
    zero_destroy(engine);
    zero_preference_destroy(preferring);
    tiny_destroy(&t);
}

static void a_configuration_alone_sets_none(void **state)
{
    zero_error error = {0};
    zero_engine *engine;
    tiny t = tiny_create();
    const zero_options options = {.struct_size = sizeof options,
                                  .model = t.model,
                                  .comm = t.comm,
                                  .config_text = "{\"libzero\": {\"preference\": \"dpo\"}}",
                                  .shape = {.batch = 1, .seq = TINY_SEQ},
                                  .total_steps = 10};
    zero_destroy(t.engine);
    t.engine = NULL;
    assert_int_equal(zero_initialize(&options, &engine, &error), ZERO_ERR_CONFIG);
    assert_non_null(strstr(error.message, "a program makes it by zero_preference_create"));
    tiny_destroy(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_and_object_mean_the_same),
        cmocka_unit_test(what_is_wrong_is_refused),
        cmocka_unit_test(a_program_trains_on_preferences),
        cmocka_unit_test(a_configuration_alone_sets_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
