// Runs as JSON: what a file sets, what follows from it, and what is refused, with its place.
#include "example.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static zero_status read_text(const char *text, zr_sim_run *run, zero_error *error)
{
    const zr_sim_text file = {"run.json", text, strlen(text)};
    const zr_sim_run example = sim_example_run();
    *run = (zr_sim_run){.machine = example.machine,
                        .framework = example.framework,
                        .attention = ZR_SIM_FLASH,
                        .number = ZR_SIM_16_BIT};
    return zr_sim_run_parse(&file, run, error);
}

static void refused(const char *text, zero_status wanted, const char *part)
{
    zr_sim_run run;
    zero_error error = {0};
    assert_int_equal(read_text(text, &run, &error), wanted);
    assert_int_equal(run.layers, 0); // as it was
    if (!strstr(error.message, part))
        fail_msg("\"%s\" does not say \"%s\"", error.message, part);
}

static void every_key_sets_its_field(void **state)
{
    static const char text[] =
        "{\"layers\": 24, \"width\": 2048, \"heads\": 16, \"kv_heads\": 8, \"ffn\": 5632,\n"
        " \"vocab\": 32000, \"seq\": 4096, \"gated\": true, \"tied\": true, \"parameters\": "
        "1.5e9,\n"
        " \"devices\": 64, \"tensor\": 2, \"context\": 2, \"pipeline\": 4, \"chunks\": 3,\n"
        " \"sequence_parallel\": true, \"overlaps_tensor\": true, \"global_batch\": 256,\n"
        " \"micro_batch\": 2, \"stage\": 2, \"fully_sharded_in_node\": true,\n"
        " \"wire_bits_parameters\": 8, \"wire_bits_gradients\": 4, \"products\": \"fp8\",\n"
        " \"block_scales\": true, \"recompute\": \"operators\", \"recompute_every\": 3,\n"
        " \"frozen\": true, \"checkpoints_on_host\": true, \"optimizer_on_host\": true,\n"
        " \"unchecked\": true}";
    zr_sim_run run;
    zero_error error = {0};
    if (read_text(text, &run, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    const int64_t model[] = {run.layers, run.width, run.heads, run.kv_heads,
                             run.ffn,    run.vocab, run.seq};
    const int64_t wanted[] = {24, 2048, 16, 8, 5632, 32000, 4096};
    assert_memory_equal(model, wanted, sizeof wanted);
    assert_true(run.gated && run.tied && run.parameters == 1.5e9);
    const int grid[] = {run.devices, run.tensor, run.context, run.pipeline, run.chunks, run.data};
    const int ranks[] = {64, 2, 2, 4, 3, 4};
    assert_memory_equal(grid, ranks, sizeof ranks);
    assert_int_equal(run.schedule, ZR_PIPELINE_INTERLEAVED); // there are several chunks
    assert_true(run.sequence_parallel && run.framework.overlaps_tensor);
    assert_true(run.global_batch == 256 && run.micro_batch == 2 && run.accumulation == 32);
    assert_true(run.stage == 2 && run.fully_sharded_in_node);
    assert_true(run.wire_bits_parameters == 8 && run.wire_bits_gradients == 4);
    assert_true(run.number == ZR_SIM_8_BIT && run.block_scales && run.frozen);
    assert_true(run.recompute == ZR_SIM_OPERATORS && run.recompute_every == 3);
    assert_true(run.checkpoints_on_host && run.optimizer_on_host);
    assert_false(run.optimizer_on_nvme || run.parameters_on_host || run.parameters_on_nvme);
}

static void rest_follows(void **state)
{
    zr_sim_run run;
    zero_error error = {0};
    if (read_text("{\"layers\": 24, \"width\": 2048, \"devices\": 8}", &run, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    assert_true(run.heads == 16 && run.ffn == 8192 && run.data == 8 && run.global_batch == 8);
    assert_int_equal(run.number, ZR_SIM_16_BIT); // as it was
    assert_int_equal(run.recompute, ZR_SIM_KEEP);
    assert_true(run.parameters == zr_sim_run_parameters(&run));
}

static void unchecked_grids_are_simulated(void **state)
{
    static const char odd[] = "{\"layers\": 24, \"width\": 3072, \"heads\": 12, \"tensor\": 8%s}";
    char text[128];
    zr_sim_run run;
    snprintf(text, sizeof text, odd, "");
    refused(text, ZERO_ERR_USAGE, "12 heads of attention cannot be divided among 8 tensor ranks");
    snprintf(text, sizeof text, odd, ", \"unchecked\": true");
    assert_int_equal(read_text(text, &run, NULL), ZERO_OK);
    assert_int_equal(run.tensor, 8);
}

static void wrong_keys_are_named_with_their_place(void **state)
{
    refused("{\"layers\": 24,\n \"depth\": 3}", ZERO_ERR_CONFIG,
            "run.json:2:11: \"depth\" is no key of a run: docs/scale.md lists them");
    refused("{\"layers\": 2.5}", ZERO_ERR_CONFIG, "\"layers\" is not a whole number: layers of");
    refused("{\"layers\": -1}", ZERO_ERR_CONFIG, "\"layers\" is -1: ");
    refused("{\"layers\": 100001}", ZERO_ERR_CONFIG, "\"layers\" is 100001: ");
    refused("{\"stage\": 4}", ZERO_ERR_CONFIG, "\"stage\" is 4: the stage of ZeRO, 0 to 3");
    refused("{\"parameters\": \"7B\"}", ZERO_ERR_CONFIG, "\"parameters\" is not a number");
    refused("{\"gated\": 1}", ZERO_ERR_CONFIG, "\"gated\" is neither true nor false");
    refused("{\"products\": \"int8\"}", ZERO_ERR_CONFIG, "is none of its words: fp32, bf16, fp8");
    refused("{\"recompute\": 1}", ZERO_ERR_CONFIG, "\"recompute\" is none of its words: none, ");
    refused("[1]", ZERO_ERR_CONFIG, "not an object");
    refused("{\"layers\": 24", ZERO_ERR_DATA, "run.json:1:");
    refused("{}", ZERO_ERR_USAGE, "a model needs layers and a width: 0 and 0");
    refused("{\"layers\": 24, \"width\": 64, \"devices\": 9, \"tensor\": 2}", ZERO_ERR_USAGE,
            "9 devices cannot be divided into tensor 2");
}

static void files_are_read(void **state)
{
    char path[64];
    zr_sim_run run = sim_example_run();
    zero_error error = {0};
    snprintf(path, sizeof path, "run-%ld.json", (long)getpid());
    assert_int_equal(zr_sim_run_read(path, &run, &error), ZERO_ERR_IO);
    assert_non_null(strstr(error.message, path));
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("{\"layers\": 12}", file);
    fclose(file);
    assert_int_equal(zr_sim_run_read(path, &run, &error), ZERO_OK);
    assert_true(run.layers == 12 && run.width == 4096);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_key_sets_its_field),
        cmocka_unit_test(rest_follows),
        cmocka_unit_test(unchecked_grids_are_simulated),
        cmocka_unit_test(wrong_keys_are_named_with_their_place),
        cmocka_unit_test(files_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
