// Resolving what is offloaded: where it may go, in which sizes, and what may be delayed.
#include "usual_run.h"
#include <zero/configuration.h>

static void must_be(const char *zero, zero_status status, const char *part)
{
    char text[1024];
    recorder log;
    snprintf(text, sizeof text, "{\"zero_optimization\": {%s}}", zero);
    if (status == ZERO_OK)
        zr_config_destroy(must_resolve(text, &log));
    else
        must_fail(text, status, part);
}

#define NVME "{\"device\": \"nvme\", \"nvme_path\": \"/nv\"}"

static void test_what_is_offloaded_is_partitioned(void **state)
{
    must_be("\"stage\": 0, \"offload_optimizer\": {\"device\": \"cpu\"}", ZERO_ERR_CONFIG,
            "the stage is 0: optimizer states are partitioned from stage 1 on");
    must_be("\"stage\": 1, \"cpu_offload\": true", ZERO_OK, NULL);
    must_be("\"stage\": 2, \"offload_param\": {\"device\": \"cpu\"}", ZERO_ERR_CONFIG,
            "the stage is 2: parameters are partitioned from stage 3 on");
    must_be("\"stage\": 3, \"offload_param\": " NVME ", \"offload_optimizer\": " NVME, ZERO_OK,
            NULL);
    must_be("\"stage\": 3, \"offload_param\": {\"device\": \"nvme\"}", ZERO_ERR_CONFIG,
            "offload_param.nvme_path: found null, expected a directory on NVMe");
    must_be(
        "\"stage\": 3, \"offload_optimizer\": {\"device\": \"nvme\", \"nvme_path\": [\"/a\", 3]}",
        ZERO_ERR_CONFIG, "nvme_path: found a list, expected a directory");
    must_be("\"stage\": 3, \"offload_optimizer\": {\"device\": \"nvme\", \"nvme_path\": []}",
            ZERO_ERR_CONFIG, "from 1 to 16 directories");
    must_be("\"stage\": 2, \"offload_optimizer\": {\"device\": \"cpu\", \"ratio\": 0.5}",
            ZERO_ERR_CONFIG, "ratio 0.5 is for stage 3, the stage is 2");
}

static void test_muon_stays_in_memory(void **state)
{
#define MUON(device)                                                                               \
    "{\"optimizer\": {\"type\": \"Muon\"}, \"zero_optimization\": {\"stage\": 3, "                 \
    "\"offload_optimizer\": {\"device\": \"" device "\", \"nvme_path\": \"/nv\"}, "                \
    "\"offload_param\": " NVME "}}"
    recorder log;
    zr_config_destroy(must_resolve(MUON("cpu"), &log));
    must_fail(MUON("nvme"), ZERO_ERR_CONFIG,
              "zero_optimization.offload_optimizer.device is nvme, but the optimizer is Muon: its "
              "directions stay in memory");
}

static void test_what_can_be_delayed(void **state)
{
#define FROM "\"libzero\": {\"delayed_update\": {\"start_step\": 5}}"
#define HOST "\"zero_optimization\": {\"stage\": 2, \"offload_optimizer\": {\"device\": \"cpu\"}}"
    recorder log;
    zr_config *c = must_resolve("{" HOST ", " FROM "}", &log);
    assert_int_equal(c->offload.delayed_from, 5);
    zr_config_destroy(c);
    must_fail("{" FROM "}", ZERO_ERR_CONFIG, "offload_optimizer.device is none");
    must_fail("{" HOST ", \"optimizer\": {\"type\": \"LAMB\"}, " FROM "}", ZERO_ERR_CONFIG,
              "the optimizer is LAMB: its update waits for parts of tensors that other ranks have");
    must_fail("{" HOST ", \"optimizer\": {\"type\": \"Muon\"}, " FROM "}", ZERO_ERR_CONFIG,
              "the optimizer is Muon: its update waits for parts of tensors that other ranks have");
    must_fail("{" HOST ", \"libzero\": {\"delayed_update\": {\"start_step\": 0}}}", ZERO_ERR_CONFIG,
              "start_step");
}

static void test_bytes(void **state)
{
    recorder log;
    zr_config *c = must_resolve(
        "{\"libzero\": {\"device_memory\": \"512MB\", \"host_memory\": \"1.5 GiB\"}}", &log);
    assert_int_equal(c->offload.device_memory, 512000000);
    assert_int_equal(c->offload.host_memory, (int64_t)3 << 29);
    zr_config_destroy(c);
    zero_error error;
    static const char *const wrong[] = {"\"512 apples\"", "\"GB\"", "-1",        "0",
                                        "\"\"",           "[1]",    "\"1e30GB\""};
    for (int i = 0; i < ZR_COUNT(wrong); i++) {
        char text[128];
        snprintf(text, sizeof text, "{\"libzero\": {\"host_memory\": %s}}", wrong[i]);
        assert_null(parsed(text, &error));
        assert_contains(error.message, "such as 2147483648, \"2GB\" or \"512MiB\"");
    }
}

static void test_offload_values(void **state)
{
    recorder log;
    zr_config *c =
        must_resolve("{\"zero_optimization\": {\"stage\": 3, \"offload_optimizer\": {\"device\": "
                     "\"nvme\", \"nvme_path\": [\"/a\", \"/b\"], \"pipeline_read\": false},"
                     " \"offload_param\": {\"device\": \"cpu\"}, \"sub_group_size\": 7e6}, "
                     "\"aio\": {\"block_size\": 5000, \"queue_depth\": 1e6}}",
                     &log);
    assert_int_equal(c->offload.optimizer, ZERO_TIER_nvme);
    assert_int_equal(c->offload.parameters, ZERO_TIER_host);
    assert_int_equal(c->offload.optimizer_paths.count, 2);
    assert_string_equal(c->offload.optimizer_paths.at[1], "/b");
    assert_true(!c->offload.read_ahead && c->offload.write_behind && c->offload.ratio == 1);
    assert_int_equal(c->offload.sub_group, 7000000);
    assert_int_equal(c->offload.block, 4096);
    assert_int_equal(c->offload.queue_depth, 256);
    assert_int_equal(c->offload.lanes, 1);
    zr_config_destroy(c);
}

// Options and keys read bytes by one function.
static void bytes_are_read_as_people_write_them(void **state)
{
    static const struct {
        const char *text;
        double bytes;
    } cases[] = {{"24GB", 24e9},
                 {"24gb", 24e9},
                 {"80 GB", 80e9},
                 {"80G", 80 * 0x1p30},
                 {"80g", 80 * 0x1p30},
                 {"1.5TiB", 1.5 * 0x1p40},
                 {"1.5 tib", 1.5 * 0x1p40},
                 {"512MiB", 512 * 0x1p20},
                 {"512", 512},
                 {"7 B", 7},
                 {"3kB", 3e3},
                 {"2PB", 2e15},
                 {"1e3MB", 1e9}};
    static const char *const none[] = {"",     "GB",  "12XB", "12 GBB", "1 G B", " 1GB",
                                       "-1GB", "inf", "nan",  "1Gi",    "1GB "};
    for (int i = 0; i < ZR_COUNT(cases); i++)
        assert_true(zero_bytes_read(cases[i].text) == cases[i].bytes);
    for (int i = 0; i < ZR_COUNT(none); i++)
        assert_true(zero_bytes_read(none[i]) == -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_read_as_people_write_them),
        cmocka_unit_test(test_what_is_offloaded_is_partitioned),
        cmocka_unit_test(test_what_can_be_delayed),
        cmocka_unit_test(test_muon_stays_in_memory),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_offload_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
