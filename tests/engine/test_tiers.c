// Wherever model states are kept, a run has the same bits: on every tier, with every sub-group
// size, stage, number of ranks and kind of I/O. In every step of these runs the engine asserts that
// the bytes held and moved are those planned.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "harness.h"
#include "memory/scratch.h"
#include "../sanitizers.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define DEVICES 3

static const char *const devices[DEVICES] = {"none", "cpu", "nvme"};
// the first steps overflow
static const char *const fp16 =
    "\"fp16\": {\"enabled\": true, \"initial_scale_power\": 20, \"hysteresis\": 1}";
static const char *const bf16 = "\"bf16\": {\"enabled\": true}";

// Files in memory where there are any: it is the way of the bytes that is tested, not the disk.
typedef struct placement {
    int optimizer, parameters; // devices
    const char *more;          // of zero_optimization
} placement;

static void describe(const placement *p, char *out, size_t size)
{
    snprintf(out, size,
             "\"offload_optimizer\": {\"device\": \"%s\", \"nvme_path\": \"%s\"}, "
             "\"offload_param\": {\"device\": \"%s\", \"nvme_path\": \"%s\"}%s%s",
             devices[p->optimizer], harness_scratch(), devices[p->parameters], harness_scratch(),
             p->more ? ", " : "", p->more ? p->more : "");
}

static void expect_same(const harness_result *memory, harness_case c, const placement *p)
{
    static harness_result other;
    char tiers[512];
    describe(p, tiers, sizeof tiers);
    c.tiers = tiers;
    harness_run(&c, &other);
    if (!harness_equal(memory, &other))
        fail_msg("stage %d, %d ranks, K %d, %s: optimizer on %s, parameters on %s, %s: other bits "
                 "than in memory",
                 c.stage, c.ranks, c.accumulation, c.precision ? c.precision : "fp32",
                 devices[p->optimizer], devices[p->parameters], p->more ? p->more : "defaults");
    bool nvme = p->optimizer == 2 || p->parameters == 2;
    assert_true((other.io.nvme_read > 0) == nvme && (other.io.nvme_written > 0) == nvme);
    assert_int_equal(other.skipped, memory->skipped);
}

static void each_placement_of_a_stage(harness_case c, const char *more)
{
    static harness_result memory;
    harness_run(&c, &memory);
    for (int o = 0; o < DEVICES; o++)
        for (int p = 0; p < (c.stage == 3 ? DEVICES : 1); p++)
            if (o || p)
                expect_same(&memory, c, &(placement){o, p, more});
}

#define NOTHING_STAYS "\"stage3_param_persistence_threshold\": 0, \"sub_group_size\": 3000"

static void every_stage_and_placement(void **state)
{
    for (int stage = 1; stage <= 3; stage++)
        for (int ranks = SANITIZED ? 2 : 1; ranks <= (SANITIZED ? 2 : 4); ranks *= 2)
            for (int k = 1; k <= 3; k += 2)
                each_placement_of_a_stage((harness_case){.stage = stage,
                                                         .ranks = ranks,
                                                         .accumulation = k,
                                                         .batch = 2,
                                                         .precision = ranks == 2 ? NULL : bf16},
                                          NOTHING_STAYS);
}

static void skipped_steps_of_fp16(void **state)
{
    static harness_result memory;
    harness_run(
        &(harness_case){.stage = 3, .ranks = 2, .accumulation = 1, .batch = 2, .precision = fp16},
        &memory);
    assert_true(memory.skipped > 0 && memory.skipped < HARNESS_STEPS);
    for (int k = 1; k <= 3; k += 2)
        for (int stage = 1; stage <= 3; stage++)
            each_placement_of_a_stage(
                (harness_case){
                    .stage = stage, .ranks = 2, .accumulation = k, .batch = 2, .precision = fp16},
                NOTHING_STAYS);
}

static void keys_that_change_no_bits(void **state)
{
    static const char *const more[] = {
        NULL, // small flat parameters stay on the device
        "\"sub_group_size\": 0, \"stage3_param_persistence_threshold\": 0",
        "\"sub_group_size\": 2048, \"stage3_param_persistence_threshold\": 3000",
        "\"sub_group_size\": 7000, \"stage3_prefetch_bucket_size\": 0, "
        "\"stage3_max_live_parameters\": 1",
        NOTHING_STAYS ", \"stage3_max_reuse_distance\": 1e9",
        NOTHING_STAYS ", \"stage3_max_reuse_distance\": 8000, \"stage3_max_live_parameters\": "
                      "20000, \"stage3_prefetch_bucket_size\": 2000",
        "\"stage3_param_persistence_threshold\": 100000, \"stage3_model_persistence_threshold\": "
        "5000",
    };
    static harness_result memory;
    harness_case c = {.stage = 3, .ranks = 2, .accumulation = 2, .batch = 2, .precision = bf16};
    harness_run(&c, &memory);
    for (int i = 0; i < (int)(sizeof more / sizeof *more); i++)
        expect_same(&memory, c, &(placement){2, 2, more[i]});
    c.overlap = true;
    expect_same(&memory, c, &(placement){2, 2, NOTHING_STAYS});
}

static void sections_that_change_no_bits(void **state)
{
    static const char *const sections[] = {
        "\"offload_optimizer\": {\"device\": \"nvme\", \"nvme_path\": [\"%s\", \"%s\", \"%s\"], "
        "\"ratio\": 0.5}, \"sub_group_size\": 3000",
        "\"offload_optimizer\": {\"device\": \"cpu\", \"ratio\": 0.3}, \"offload_param\": "
        "{\"device\": \"cpu\"}",
        "\"offload_optimizer\": {\"device\": \"nvme\", \"nvme_path\": \"%s\", \"pipeline_read\": "
        "false, \"pipeline_write\": false}, \"sub_group_size\": 3000",
        "\"offload_optimizer\": {\"device\": \"nvme\", \"nvme_path\": \"%s\", \"pipeline_read\": "
        "false}, \"sub_group_size\": 3000",
        "\"offload_optimizer\": {\"device\": \"nvme\", \"nvme_path\": \"%s\", \"buffer_count\": "
        "2}, \"sub_group_size\": 3000",
        "\"offload_param\": {\"device\": \"nvme\", \"nvme_path\": \"%s\", \"max_in_cpu\": 9000, "
        "\"buffer_count\": 1, \"buffer_size\": 10}, \"stage3_param_persistence_threshold\": 0",
    };
    static harness_result memory, other;
    harness_case c = {.stage = 3, .ranks = 2, .accumulation = 2, .batch = 2, .precision = bf16};
    harness_run(&c, &memory);
    for (int i = 0; i < (int)(sizeof sections / sizeof *sections); i++) {
        char tiers[512];
        snprintf(tiers, sizeof tiers, sections[i], harness_scratch(), harness_scratch(),
                 harness_scratch());
        c.tiers = tiers;
        harness_run(&c, &other);
        if (!harness_equal(&memory, &other))
            fail_msg("%s: other bits than in memory", tiers);
    }
}

static void every_optimizer(void **state)
{
    static const char *const optimizers[] = {"Adam", "SGD", "Adagrad", "Lion", "LAMB"};
    for (int i = SANITIZED ? 4 : 0; i < (int)(sizeof optimizers / sizeof *optimizers); i++)
        for (int precision = 0; precision < 2; precision++) {
            harness_case c = {.stage = 3,
                              .ranks = 2,
                              .accumulation = 1,
                              .batch = 2,
                              .optimizer = optimizers[i],
                              .precision = precision ? bf16 : NULL};
            static harness_result memory;
            harness_run(&c, &memory);
            expect_same(&memory, c, &(placement){2, 2, NOTHING_STAYS});
            expect_same(&memory, c, &(placement){1, 2, NOTHING_STAYS});
            expect_same(&memory, c, &(placement){2, 0, NOTHING_STAYS});
        }
}

// Down and up between device and host: 4 bytes a parameter and step, the least there can be
// (ZeRO-Offload section 3).
static void four_bytes_a_parameter_cross(void **state)
{
    for (int stage = 1; stage <= 3; stage++) {
        static harness_result r;
        char tiers[512];
        describe(&(placement){1, 0, NULL}, tiers, sizeof tiers);
        harness_run(&(harness_case){.stage = stage,
                                    .ranks = 1,
                                    .accumulation = 1,
                                    .batch = 2,
                                    .precision = bf16,
                                    .tiers = tiers},
                    &r);
        int64_t padded = r.memory.held[ZERO_TIER_host][ZERO_MEM_optimizer] / 12;
        assert_true(padded > 0);
        assert_int_equal(r.io.to_host, 2 * padded * HARNESS_STEPS);
        assert_int_equal(r.io.to_device, 2 * padded * HARNESS_STEPS);
    }
}

static const char *const activation_checkpoint_counts[] = {"1", "2", "3", "5", "100", "null"};

// n: of activation_checkpoint_counts; kept: the run that computes nothing again.
static void expect_activation_checkpoints(harness_case c, const harness_result *kept, int n,
                                          int device)
{
    static harness_result other;
    char text[512], tiers[512];
    snprintf(text, sizeof text,
             "%s, \"activation_checkpointing\": {\"number_checkpoints\": %s}, \"libzero\": "
             "{\"checkpoints\": {\"device\": \"%s\", \"nvme_path\": \"%s\"}}",
             bf16, activation_checkpoint_counts[n], devices[device], harness_scratch());
    describe(&(placement){c.stage ? n % 3 : 0, c.stage ? device : 0, NOTHING_STAYS}, tiers,
             sizeof tiers);
    c.precision = text;
    c.tiers = tiers;
    harness_run(&c, &other);
    if (!harness_equal(kept, &other))
        fail_msg("stage %d, %s checkpoints on %s: other bits than without", c.stage,
                 activation_checkpoint_counts[n], devices[device]);
    int64_t before = kept->memory.held[ZERO_TIER_device][ZERO_MEM_activations],
            after = other.memory.held[ZERO_TIER_device][ZERO_MEM_activations];
    bool any = n > 0 && (n < 5 || device > 0) && (n != 1 || device == 0);
    assert_true(n == 0 || after < before || (n == 5 && device == 0));
    assert_int_equal(other.memory.held[device][ZERO_MEM_checkpoints] > 0, any);
}

// What is computed again has the same bits, wherever the activation checkpoints are.
static void activation_checkpoints(void **state)
{
    static harness_result kept;
    for (int stage = SANITIZED ? 3 : 0; stage <= 3; stage += 3) {
        const harness_case c = {.stage = stage,
                                .ranks = 2,
                                .accumulation = 2,
                                .batch = 4,
                                .layers = 4,
                                .width = 128,
                                .backend = "cpu",
                                .dropout = 0.1f,
                                .precision = bf16};
        harness_run(&c, &kept);
        for (int n = SANITIZED; n < ZR_COUNT(activation_checkpoint_counts); n += SANITIZED ? 3 : 1)
            for (int d = 0; d < DEVICES; d++)
                expect_activation_checkpoints(c, &kept, n, d);
    }
}

// Tiles come and go one by one, and a tiled run is the same run at every stage and tier.
static void tiles(void **state)
{
    static harness_result memory;
    harness_case c = {.stage = 0,
                      .ranks = 2,
                      .accumulation = 2,
                      .batch = 2,
                      .backend = "cpu",
                      .width = 128,
                      .vocabulary = 200,
                      .precision = bf16,
                      .tiles_embedding = 3,
                      .tiles_attention = 2,
                      .tiles_mlp = 4};
    harness_case whole = c;
    whole.stage = 3;
    whole.tiles_embedding = whole.tiles_attention = whole.tiles_mlp = 0;
    harness_run(&whole, &memory);
    int untiled = memory.flat_params;
    harness_run(&c, &memory);
    assert_true(memory.flat_params > untiled);
    for (c.stage = SANITIZED ? 3 : 1; c.stage <= 3; c.stage++) {
        expect_same(&memory, c, &(placement){0, 0, NOTHING_STAYS});
        each_placement_of_a_stage(c, NOTHING_STAYS);
    }
    c.stage = 3;
    expect_same(
        &memory, c,
        &(placement){2, 2,
                     "\"stage3_param_persistence_threshold\": 9000, \"sub_group_size\": 3000"});
    c.overlap = true;
    expect_same(&memory, c, &(placement){2, 2, NOTHING_STAYS});
    c.precision =
        "\"bf16\": {\"enabled\": true}, \"activation_checkpointing\": {\"number_checkpoints\": 2}";
    expect_same(&memory, c, &(placement){2, 2, NOTHING_STAYS});
    expect_same(&memory, c,
                &(placement){2, 1, NOTHING_STAYS ", \"stage3_max_reuse_distance\": 1e9"});
    if (SANITIZED)
        return;
    c.precision = NULL;
    each_placement_of_a_stage(c, NOTHING_STAYS);
    c.accumulation = 1;
    c.layers = 3;
    c.tiles_attention = c.tiles_mlp = 3;
    harness_run(&c, &memory);
    for (c.stage = 1; c.stage <= 2; c.stage++)
        expect_same(&memory, c, &(placement){0, 0, NOTHING_STAYS});
    c.stage = 3;
    each_placement_of_a_stage(c, NOTHING_STAYS);
}

// A tile is a tensor of its own, too, with its own name: here the second of 4 with 64 columns each.
static zero_status change_a_tile(zero_engine *engine, int step, zero_error *error)
{
    enum { ROWS = 64, COLUMNS = 64, IN_ALL = 4 * COLUMNS };
    static const char whole_name[] = "h.0.mlp.c_fc.weight", name[] = "h.0.mlp.c_fc.weight[1]";
    float whole[ROWS * IN_ALL], tile[ROWS * COLUMNS], after[ROWS * IN_ALL];
    ZERO_TRY(zero_read_parameter(engine, whole_name, whole, ROWS * IN_ALL, error));
    ZERO_TRY(zero_read_parameter(engine, name, tile, ROWS * COLUMNS, error));
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        float *same = &whole[i / COLUMNS * IN_ALL + COLUMNS + i % COLUMNS];
        assert_true(tile[i] == *same);
        tile[i] = *same = (float)i;
    }
    ZERO_TRY(zero_write_parameter(engine, name, tile, ROWS * COLUMNS, error));
    ZERO_TRY(zero_read_parameter(engine, whole_name, after, ROWS * IN_ALL, error));
    assert_memory_equal(after, whole, sizeof whole);
    return ZERO_OK;
}

static void tiles_have_names_of_their_own(void **state)
{
    static harness_result memory;
    const harness_case c = {.stage = 3,
                            .ranks = 2,
                            .accumulation = 1,
                            .batch = 1,
                            .width = 64,
                            .steps = -1,
                            .tiles_mlp = 4,
                            .after = change_a_tile};
    harness_run(&c, &memory);
}

static int refuse_setup(void *user) { return EPERM; }

static int64_t cut_short(void *user, bool write, int64_t place, int64_t bytes)
{
    _Atomic uint64_t *count = user;
    uint64_t n = ++*count;
    return n % 5 == 0 ? -EINTR : n % 7 == 0 ? -EAGAIN : n % 3 == 0 && bytes > 4096 ? 4096 : bytes;
}

static void io_that_is_hindered(void **state)
{
    static harness_result memory, other;
    char tiers[512];
    describe(&(placement){2, 2, NOTHING_STAYS}, tiers, sizeof tiers);
    harness_case c = {.stage = 3, .ranks = 2, .accumulation = 2, .batch = 2, .precision = bf16};
    harness_run(&c, &memory);
    c.tiers = tiers;
    for (int threads = 0; threads < 2; threads++) {
        _Atomic uint64_t count = 0;
        const zr_io_faults faults = {
            .user = &count, .setup = threads ? refuse_setup : NULL, .transfer = cut_short};
        c.faults = &faults;
        harness_run(&c, &other);
        assert_true(harness_equal(&memory, &other));
        assert_true(count > 100);
    }
}

static int64_t fail_late(void *user, bool write, int64_t place, int64_t bytes)
{
    _Atomic int64_t *left = user;
    return --*left < 0 ? -EIO : bytes;
}

static void damage_late(void *user, int64_t place, int64_t bytes, char *data)
{
    _Atomic int64_t *left = user;
    if (--*left == 0)
        data[bytes / 2] ^= 1;
}

static int no_buffer(void *user, int64_t bytes) { return ENOSPC; }

// Every rank ends, one says which file, where and why, and none goes on with what it could not
// read.
static void expect_failure(const zr_io_faults *faults, const char *words)
{
    static harness_result r;
    char tiers[512];
    harness_failure ranks[2];
    int named = 0;
    describe(&(placement){2, 2, NOTHING_STAYS}, tiers, sizeof tiers);
    harness_try(&(harness_case){.stage = 3,
                                .ranks = 2,
                                .accumulation = 2,
                                .batch = 2,
                                .precision = bf16,
                                .tiers = tiers,
                                .faults = faults},
                &r, ranks);
    for (int i = 0; i < 2; i++) {
        assert_int_not_equal(ranks[i].status, ZERO_OK);
        named += ranks[i].status == ZERO_ERR_IO && strstr(ranks[i].error.message, words) != NULL;
    }
    if (!named)
        fail_msg("neither \"%s\" nor \"%s\" speaks of \"%s\"", ranks[0].error.message,
                 ranks[1].error.message, words);
}

static void io_that_fails(void **state)
{
    static const int64_t after[] = {0, 1, 30, 100};
    for (int i = 0; i < (int)(sizeof after / sizeof *after); i++) {
        _Atomic int64_t left = after[i];
        expect_failure(&(zr_io_faults){.user = &left, .transfer = fail_late}, "Input/output error");
        left = after[i] + 1;
        expect_failure(&(zr_io_faults){.user = &left, .arrived = damage_late}, "checksum");
    }
    expect_failure(&(zr_io_faults){.allocate = no_buffer}, "no room for scratch space");
}

// Fails one transfer, and lets those that began later linger, so that they are under way while the
// engine is given back.
static int64_t fail_one(void *user, bool write, int64_t place, int64_t bytes)
{
    _Atomic int64_t *left = user;
    int64_t n = --*left;
    if (n < 0)
        usleep(2000);
    return n ? bytes : -EIO;
}

static void whichever_transfer_fails(void **state)
{
    static harness_result r;
    char tiers[512], precision[512];
    const int64_t all = 1 << 20;
    describe(&(placement){2, 2, NOTHING_STAYS}, tiers, sizeof tiers);
    snprintf(precision, sizeof precision,
             "%s, \"activation_checkpointing\": {\"number_checkpoints\": 3}, \"libzero\": "
             "{\"checkpoints\": {\"device\": \"nvme\", \"nvme_path\": \"%s\"}}",
             bf16, harness_scratch());
    // One rank; pipeline stages; and data ranks, whose gathers go on beside the step.
    for (int way = 0; way < 3; way++) {
        _Atomic int64_t left = all;
        zr_io_faults faults = {.user = &left, .transfer = fail_one};
        const zero_llama_config llama = harness_llama();
        const harness_case c = {.stage = 3,
                                .ranks = way == 2 ? 2 : 1,
                                .overlap = way == 2,
                                .accumulation = 2,
                                .batch = 2,
                                .steps = 2,
                                .llama = &llama,
                                .stages = way == 1 ? 2 : 0,
                                .precision = precision,
                                .tiers = tiers,
                                .faults = &faults};
        harness_failure ranks[2];
        harness_run(&c, &r);
        int64_t count = all - left, step = ZR_MAX(count / (SANITIZED ? 12 : 40), 1);
        assert_true(count > 50);
        for (int64_t n = 1; n <= count; n += step) {
            left = n;
            harness_try(&c, &r, ranks);
            assert_int_not_equal(ranks[0].status, ZERO_OK);
            if (ranks[0].status == ZERO_ERR_TIMEOUT)
                fail_msg("transfer %lld: %s", (long long)n, ranks[0].error.message);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whichever_transfer_fails),
        cmocka_unit_test(every_stage_and_placement),
        cmocka_unit_test(skipped_steps_of_fp16),
        cmocka_unit_test(keys_that_change_no_bits),
        cmocka_unit_test(sections_that_change_no_bits),
        cmocka_unit_test(every_optimizer),
        cmocka_unit_test(four_bytes_a_parameter_cross),
        cmocka_unit_test(activation_checkpoints),
        cmocka_unit_test(tiles),
        cmocka_unit_test(tiles_have_names_of_their_own),
        cmocka_unit_test(io_that_is_hindered),
        cmocka_unit_test(io_that_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
