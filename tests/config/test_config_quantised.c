// The keys of ZeRO++: what they say, and that each thing they cannot mean is refused by name.
#include "config_support.h"

static const zr_config_facts facts = {FACTS};

static void the_keys_are_read(void **state)
{
    recorder log;
    zr_config *c = resolved_well("{\"zero_optimization\": {\"stage\": 3, "
                                 "\"zero_quantized_weights\": true, "
                                 "\"zero_quantized_gradients\": true}}",
                                 &facts, &log);
    assert_true(c->quantised_weights && c->quantised_gradients && !c->quantised_frozen);
    assert_int_equal(c->gradient_bits, 4); // as DeepSpeed has it
    assert_int_equal(c->carry_reset, 0);
    zr_config_destroy(c);
    c = resolved_well("{\"zero_optimization\": {\"stage\": 1, \"zero_quantized_gradients\": true, "
                      "\"zeropp_loco_param\": {\"err_beta\": 0.75, \"reset_T\": 64}}, "
                      "\"libzero\": {\"quantized_gradient_bits\": 8}}",
                      &facts, &log);
    assert_true(!c->quantised_weights && c->quantised_gradients);
    assert_int_equal(c->gradient_bits, 8);
    assert_true(c->carry_beta == 0.75);
    assert_int_equal(c->carry_reset, 64);
    zr_config_destroy(c);
    c = resolved_well("{\"zero_optimization\": {\"stage\": 3, "
                      "\"zero_quantized_nontrainable_weights\": true}}",
                      &facts, &log);
    assert_true(c->quantised_frozen && !c->quantised_weights && !c->quantised_gradients);
    zr_config_destroy(c);
    c = resolved_well("{}", &facts, &log);
    assert_false(c->quantised_frozen || c->quantised_weights || c->quantised_gradients);
    zr_config_destroy(c);
}

// What says nothing is refused nowhere.
static void keys_that_are_off_go_with_everything(void **state)
{
    static const char *const texts[] = {
        "{\"zero_optimization\": {\"stage\": 0, \"zero_quantized_weights\": false, "
        "\"zero_quantized_gradients\": false, \"zero_quantized_nontrainable_weights\": false}}",
        "{\"zero_optimization\": {\"stage\": 2, \"zero_quantized_weights\": false, "
        "\"zeropp_loco_param\": {\"err_beta\": null, \"reset_T\": null}}}",
    };
    for (int i = 0; i < ZR_COUNT(texts); i++) {
        recorder log;
        zr_config *c = resolved_well(texts[i], &facts, &log);
        assert_false(c->quantised_weights || c->quantised_gradients || c->carry_reset);
        zr_config_destroy(c);
    }
}

static void gradients_have_them_from_stage_1_on(void **state)
{
    for (int stage = 1; stage < 4; stage++) {
        char text[128];
        recorder log;
        snprintf(text, sizeof text,
                 "{\"zero_optimization\": {\"stage\": %d, \"zero_quantized_gradients\": true}}",
                 stage);
        zr_config *c = resolved_well(text, &facts, &log);
        assert_true(c->quantised_gradients);
        zr_config_destroy(c);
    }
}

#define Z "zero_optimization."
#define WEIGHTS "\"zero_quantized_weights\": true"
#define FROZEN "\"zero_quantized_nontrainable_weights\": true"
#define GRADIENTS "\"zero_quantized_gradients\": true"
#define TENSOR                                                                                     \
    "but libzero.exact_tensor promises the same bits on any number of tensor ranks, and blocks "   \
    "lie in slices of theirs; keep one of them"

static const struct {
    const char *zero, *more, *words;
} refused[] = {
    {"\"stage\": 2, " WEIGHTS, "",
     Z "zero_quantized_weights is true, but the stage is 2, where ranks do not "
       "exchange them so; expected stage 3"},
    {"\"stage\": 0, " WEIGHTS, "", "the stage is 0, where ranks do not exchange them so"},
    {"\"stage\": 0, " GRADIENTS, "",
     Z "zero_quantized_gradients is true, but the stage is 0, where ranks do not "
       "exchange them so; expected stage 1, 2 or 3"},
    {"\"stage\": 3, \"offload_param\": {\"device\": \"nvme\", \"nvme_path\": \"/tmp\"}, " WEIGHTS,
     "",
     Z "zero_quantized_weights is true, but parameters are on NVMe (offload_param.device), whose "
       "blocks of 4096 bytes codes do not fill; expected them on \"cpu\" or \"none\""},
    {"\"stage\": 3, " WEIGHTS, ", \"libzero\": {\"exact_tensor\": 2}",
     Z "zero_quantized_weights is true, " TENSOR},
    {"\"stage\": 1, " GRADIENTS, ", \"libzero\": {\"exact_tensor\": 2}",
     Z "zero_quantized_gradients is true, " TENSOR},
    {"\"stage\": 1, " GRADIENTS, ", \"libzero\": {\"quantized_gradient_bits\": 6}",
     "libzero.quantized_gradient_bits is 6, but codes have 4 bits or 8"},
    {"\"stage\": 1, " GRADIENTS, ", \"libzero\": {\"quantized_gradient_bits\": 16}",
     "libzero.quantized_gradient_bits: found 16, expected an integer from 4 to 8"},
    {"\"stage\": 1, " GRADIENTS, ", \"libzero\": {\"quantized_gradient_bits\": 3}",
     "libzero.quantized_gradient_bits: found 3, expected"},
    {"\"stage\": 1, " FROZEN, "",
     Z "zero_quantized_nontrainable_weights is true, but the stage is 1, where ranks do not "
       "exchange them so; expected stage 3"},
    {"\"stage\": 3, \"offload_param\": {\"device\": \"nvme\", \"nvme_path\": \"/tmp\"}, " FROZEN,
     "", Z "zero_quantized_nontrainable_weights is true, but parameters are on NVMe"},
    {"\"stage\": 3, " FROZEN, ", \"libzero\": {\"exact_tensor\": 2}",
     Z "zero_quantized_nontrainable_weights is true, " TENSOR},
    {"\"stage\": 2, " GRADIENTS ", \"zeropp_loco_param\": {\"err_beta\": 0.5}", "",
     Z "zeropp_loco_param.err_beta is 0.5, but the other of err_beta and reset_T is not there; "
       "expected both"},
    {"\"stage\": 2, " GRADIENTS ", \"zeropp_loco_param\": {\"reset_T\": 5}", "",
     Z "zeropp_loco_param.reset_T is 5, but the other of err_beta and reset_T is not there"},
    {"\"stage\": 2, \"zeropp_loco_param\": {\"err_beta\": 0.5, \"reset_T\": 5}", "",
     Z "zeropp_loco_param.err_beta is 0.5, but gradients are not quantised; expected " Z
       "zero_quantized_gradients: true"},
    {"\"stage\": 2, " GRADIENTS ", \"zeropp_loco_param\": {\"err_beta\": 1, \"reset_T\": 5}", "",
     Z "zeropp_loco_param.err_beta is 1, but such a carry never takes anything; expected at least "
       "0 and below 1"},
    {"\"stage\": 2, " GRADIENTS, ", \"libzero\": {\"exact_world\": true}",
     Z "zero_quantized_gradients is true, but libzero.exact_world promises the same bits on any "
       "number of ranks, and ranks of one machine round their sums together; keep one of them"},
    {"\"stage\": 2, " GRADIENTS ", \"zeropp_loco_param\": {\"err_beta\": -0.5, \"reset_T\": 5}", "",
     Z "zeropp_loco_param.err_beta"},
    {"\"stage\": 2, " GRADIENTS ", \"zeropp_loco_param\": {\"err_beta\": 0.5, \"reset_T\": 0}", "",
     Z "zeropp_loco_param.reset_T"},
    {"\"stage\": 2, " GRADIENTS ", \"zeropp_loco_param\": {\"err_betas\": 0.5}", "",
     "zeropp_loco_param.err_betas"},
    {"\"stage\": 3, \"zero_quantized_weights\": \"yes\"", "", Z "zero_quantized_weights"},
};

static void what_they_cannot_mean_is_refused_by_name(void **state)
{
    for (int i = 0; i < ZR_COUNT(refused); i++) {
        char text[512];
        recorder log;
        zero_error error;
        snprintf(text, sizeof text, "{\"zero_optimization\": {%s}%s}", refused[i].zero,
                 refused[i].more);
        zr_config *c = resolved(text, &facts, &log, &error);
        if (c)
            fail_msg("%s is not refused", text);
        assert_int_equal(error.status, ZERO_ERR_CONFIG);
        assert_contains(error.message, refused[i].words);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_keys_are_read),
        cmocka_unit_test(keys_that_are_off_go_with_everything),
        cmocka_unit_test(gradients_have_them_from_stage_1_on),
        cmocka_unit_test(what_they_cannot_mean_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
