// Runs: what follows from what is given, and what cannot be.
#include "example.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void rest_follows(void **state)
{
    zr_sim_run run = sim_example_run();
    run.tensor = 2;
    assert_int_equal(zr_sim_run_complete(&run, NULL), ZERO_OK);
    assert_int_equal(run.data, 4);
    assert_int_equal(run.global_batch, 2 * 4 * 4);
    assert_int_equal(run.kv_heads, 32);
    assert_int_equal(run.ffn, 4 * 4096);
    // 12 L h^2, norms and the table.
    double h = 4096, expected = 32 * (12 * h * h + 4 * h) + 51200 * h;
    assert_true(run.parameters == expected);

    run = sim_example_run();
    run.global_batch = 256;
    run.accumulation = 0;
    assert_int_equal(zr_sim_run_complete(&run, NULL), ZERO_OK);
    assert_int_equal(run.accumulation, 256 / (2 * 8));
}

static void published_shapes_have_their_parameters(void **state)
{
    zr_sim_run llama = {.layers = 80,
                        .width = 8192,
                        .heads = 64,
                        .kv_heads = 8,
                        .ffn = 28672,
                        .vocab = 128256,
                        .gated = true};
    assert_true(zr_sim_run_parameters(&llama) > 70.5e9 && zr_sim_run_parameters(&llama) < 70.7e9);
    zr_sim_run gpt3 = {.layers = 96,
                       .width = 12288,
                       .heads = 96,
                       .kv_heads = 96,
                       .ffn = 49152,
                       .vocab = 50257,
                       .tied = true};
    assert_true(zr_sim_run_parameters(&gpt3) > 174e9 && zr_sim_run_parameters(&gpt3) < 175.5e9);
}

static void refused(zr_sim_run run, const char *part)
{
    zero_error error = {0};
    assert_int_equal(zr_sim_run_complete(&run, &error), ZERO_ERR_USAGE);
    if (strstr(error.message, part) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", error.message, part);
}

static void impossible_grids_are_refused_with_numbers(void **state)
{
    zr_sim_run run = sim_example_run();
    run.tensor = 3;
    refused(run, "8 devices cannot be divided into tensor 3 x pipeline 1 x context 1 = 3");
    run = sim_example_run();
    run.data = 4;
    refused(run, "data 8 would do");
    run = sim_example_run();
    run.devices = 64;
    run.pipeline = 64;
    refused(run, "64 pipeline stages have only 32 layers");
    run = sim_example_run();
    run.global_batch = 63;
    refused(run, "63 samples");
    run = sim_example_run();
    run.layers = 0;
    refused(run, "layers and a width");
    run = sim_example_run();
    run.machine = (zr_sim_machine){.name = "empty"};
    refused(run, "\"empty\"");
    run = sim_example_run();
    run.tensor = run.pipeline = run.context = 1 << 22;
    refused(run, "tensor 4194304 x pipeline 4194304 x context 4194304 are more than");
}

static void tiers_without_rates_are_refused(void **state)
{
    zr_sim_run run = sim_example_run();
    run.optimizer_on_nvme = true;
    refused(run, "machine \"example\" has no nvme.read_GB_s");
    run = sim_example_run();
    run.parameters_on_nvme = true;
    run.machine.nvme_read = 1e9;
    refused(run, "no nvme.write_GB_s");
    run = sim_example_run();
    run.optimizer_on_host = true;
    assert_int_equal(zr_sim_run_complete(&run, NULL), ZERO_OK);
    run.machine.host_link = 0;
    refused(run, "something is offloaded");
    run = sim_example_run();
    run.number = ZR_SIM_FP32;
    run.machine.peak[ZR_SIM_FP32] = 0;
    refused(run, "no rate of products in the numbers of the run");
}

static void odd(zr_sim_run run, const char *part)
{
    zero_error error = {0};
    assert_int_equal(zr_sim_run_complete(&run, NULL), ZERO_OK);
    assert_int_equal(zr_sim_run_check(&run, &error), ZERO_ERR_USAGE);
    if (strstr(error.message, part) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", error.message, part);
}

static void grids_divide_the_model(void **state)
{
    zr_sim_run run = sim_example_run();
    assert_int_equal(zr_sim_run_complete(&run, NULL), ZERO_OK);
    assert_int_equal(zr_sim_run_check(&run, NULL), ZERO_OK);
    run = sim_example_run();
    run.heads = 12;
    run.tensor = 8;
    odd(run, "12 heads of attention cannot be divided among 8 tensor ranks");
    run = sim_example_run();
    run.seq = 2047;
    run.context = 2;
    odd(run, "samples of 2047 tokens cannot be divided among 2 context ranks");
    run = sim_example_run();
    run.pipeline = 8;
    run.chunks = 8;
    odd(run, "8 pipeline stages of 8 chunks are 64 chunks of 32 layers");
}

// Heads nobody tells have about 128 elements, are aligned, and are divided among tensor ranks.
static void usual_heads_are_aligned(void **state)
{
    static const int64_t widths[] = {13824, 14400, 13312, 4096};
    for (int i = 0; i < ZR_COUNT(widths); i++) {
        zr_sim_run run = sim_example_run();
        run.width = widths[i];
        run.heads = 0;
        run.tensor = 8;
        assert_int_equal(zr_sim_run_complete(&run, NULL), ZERO_OK);
        assert_int_equal(run.width % (8 * run.heads), 0);
        assert_int_equal(run.heads % 8, 0);
    }
}

// What a framework writes depends on the device, too.
static void scores_are_written_where_there_is_no_kernel_against_it(void **state)
{
    static const struct {
        const char *device;
        bool flash, eight_bits; // the framework's; the device's
        zr_sim_attention want;
    } cases[] = {
        {"A100", false, false, ZR_SIM_SCORES},
        {"A100", true, false, ZR_SIM_FLASH},
        {"H100-80GB", false, true, ZR_SIM_FLASH},
        {"V100-32GB", true, false, ZR_SIM_SCORES},
    };
    for (int i = 0; i < ZR_COUNT(cases); i++) {
        zr_sim_run run = sim_example_run();
        snprintf(run.machine.device, sizeof run.machine.device, "%s", cases[i].device);
        run.machine.peak[ZR_SIM_8_BIT] = cases[i].eight_bits ? 2e15 : 0;
        run.framework.flash = cases[i].flash;
        zr_sim_run_set_attention(&run);
        assert_int_equal(run.attention, cases[i].want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_are_written_where_there_is_no_kernel_against_it),
        cmocka_unit_test(rest_follows),
        cmocka_unit_test(published_shapes_have_their_parameters),
        cmocka_unit_test(impossible_grids_are_refused_with_numbers),
        cmocka_unit_test(tiers_without_rates_are_refused),
        cmocka_unit_test(grids_divide_the_model),
        cmocka_unit_test(usual_heads_are_aligned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
