// The chosen placement fits; nothing else that fits is predicted to be faster; and what the
// configuration says is not changed.
#include "layers/layers.h"
#include "setup/machine_facts.h"
#include "setup/placement.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

// Made up, so that what is chosen does not depend on the machine or its day.
enum { SAMPLES = 12 };
static zr_rate_book usual;

static void add(zr_rates *rates, zr_activity what, double bytes_a_second, double flops_a_second)
{
    for (int64_t size = 1, i = 0; i < SAMPLES; i++, size *= 8) {
        double seconds = flops_a_second > 0 ? (double)(size * 16) / flops_a_second
                                            : (double)size / bytes_a_second;
        zr_rates_add(rates, what, size, flops_a_second > 0 ? size * 16 : 0, seconds, 1);
    }
}

static int make_usual(void **state)
{
    const zr_backend *backend;
    zr_rate_setting setting = {.dtype = ZERO_BF16, .threads = 1, .together = 2};
    if (zr_backend_find("cpu", NULL, &backend, NULL) != ZERO_OK)
        return -1;
    snprintf(setting.path, sizeof setting.path, "%s", backend->path());
    zr_rates *rates = zr_rate_book_take(&usual, &setting, NULL);
    if (!rates)
        return -1;
    for (int what = 0; what < ZR_ACTIVITY_COUNT; what++)
        if (zr_activity_track((zr_activity)what) == ZR_TRACK_COMPUTE ||
            zr_activity_track((zr_activity)what) == ZR_TRACK_COMM)
            add(rates, (zr_activity)what, 10e9,
                what == ZR_ACTIVITY_product || what == ZR_ACTIVITY_attention ? 50e9 : 0);
    usual.read = 2e9;
    usual.write = 1e9;
    usual.mix = 1.5e9;
    usual.checksum = 8e9;
    return 0;
}

static int free_usual(void **state)
{
    zr_rate_book_free(&usual);
    return 0;
}

enum { DISK_BYTES = 1 << 30 };
#define DISK ", \"nvme_path\": \"/a/disk\"" // which nobody looks at

typedef struct choice {
    zr_placement_answer answer;
    zr_config *resolved, *parsed;
    zr_placement chosen;
} choice;

static zr_config *parse(const char *zero, const char *libzero)
{
    char text[1024];
    zr_config *config;
    zero_error error = {0};
    snprintf(text, sizeof text,
             "{\"train_micro_batch_size_per_gpu\": 2, \"bf16\": {\"enabled\": true}, "
             "\"zero_optimization\": {%s}, \"libzero\": {\"offload\": \"auto\"%s}}",
             zero, libzero);
    if (zr_config_parse(text, strlen(text), "test", &config, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    return config;
}

static void must(zero_status status, const zero_error *error)
{
    if (status != ZERO_OK)
        fail_msg("%s: %s", zero_status_name(status), error->message);
}

// Of two ranks of a small model, with these bytes a rank; 0: no budget.
static choice choose_at(const zr_rate_book *book, const char *zero, const char *libzero,
                        int64_t device, int64_t host)
{
    const zr_config_facts facts = {
        .world = 2, .total_steps = 10, .lr = 1e-3, .auto_dtype = ZERO_F32};
    choice c = {.resolved = parse(zero, libzero), .parsed = parse(zero, libzero)};
    zero_error error = {0};
    zr_lm_config shape;
    zero_comm *self;
    zr_queue *queue;
    bool given;
    must(zr_lm_parse_spec("gpt2:layers=4,heads=4,width=128,context=64,vocab=3000", &shape, &given,
                          &error),
         &error);
    must(zero_comm_self(&self, &error), &error);
    must(zr_queue_open("cpu", NULL, 1, &queue, &error), &error);
    must(zr_config_resolve(c.resolved, &facts, NULL, &error), &error);
    zr_placement_question question = {.run = {.shape = &shape,
                                              .name = "a model",
                                              .config = c.resolved,
                                              .seq = 64,
                                              .ranks = 2,
                                              .together = 2,
                                              .threads = 1},
                                      .comm = self,
                                      .book = book};
    zr_machine_fill(queue, NULL, &question.run.machine);
    c.resolved->offload.device_memory = device;
    c.resolved->offload.host_memory = 2 * host; // of the machine
    question.run.machine.tier_limit[ZERO_TIER_nvme] = DISK_BYTES;
    must(zr_placement_choose(&question, &c.answer, &error), &error);
    if (c.answer.chosen >= 0) {
        c.chosen = c.answer.at[c.answer.chosen];
        must(zr_placement_apply(&c.chosen, c.resolved, c.parsed, &error), &error);
        must(zr_config_resolve(c.parsed, &facts, NULL, &error), &error);
    }
    zr_queue_close(queue);
    zero_comm_destroy(self);
    return c;
}

static choice choose(const char *zero, const char *libzero, int64_t device, int64_t host)
{
    return choose_at(&usual, zero, libzero, device, host);
}

static void end(choice *c)
{
    zr_config_destroy(c->resolved);
    zr_config_destroy(c->parsed);
}

static void check(const choice *c, int64_t device, int64_t host)
{
    const zr_offload_config *o = &c->parsed->offload;
    assert_true(c->answer.chosen >= 0 && c->chosen.fits && c->chosen.step.seconds > 0);
    assert_true(!device || c->chosen.tiers[ZERO_TIER_device] <= device);
    assert_true(!host || c->chosen.tiers[ZERO_TIER_host] <= host);
    for (int i = 0; i < c->answer.count; i++)
        assert_true(!c->answer.at[i].fits ||
                    c->answer.at[i].step.seconds > 0.97 * c->chosen.step.seconds);
    assert_true(!o->automatic && o->optimizer == (int)c->chosen.optimizer &&
                o->parameters == (int)c->chosen.parameters && c->parsed->stage == c->chosen.stage);
    assert_true(!c->chosen.sub_group || o->sub_group == c->chosen.sub_group);
}

static void farther_tiers_as_budgets_shrink(void **state)
{
    choice all = choose("", DISK, 0, 0);
    check(&all, 0, 0);
    assert_true(all.chosen.step.unknown < 0.7); // it lies between the rates that were made up
    assert_int_equal(all.answer.count, 16);
    int64_t of_states = all.answer.at[0].tiers[0];
    choice less = choose("", DISK, of_states / 2, 0);
    check(&less, of_states / 2, 0);
    assert_true(less.chosen.optimizer != ZERO_TIER_device);
    choice least = choose("", DISK, of_states / 2, of_states / 6);
    check(&least, of_states / 2, of_states / 6);
    assert_true(least.chosen.optimizer == ZERO_TIER_nvme);
    assert_int_equal(least.parsed->offload.optimizer_paths.count, 1);
    assert_string_equal(least.parsed->offload.optimizer_paths.at[0], "/a/disk");
    end(&all);
    end(&less);
    end(&least);
}

static void tiles_only_where_nothing_else_fits(void **state)
{
    choice whole = choose("\"stage\": 3, \"offload_param\": {\"device\": \"nvme\"},"
                          "\"offload_optimizer\": {\"device\": \"nvme\"}",
                          DISK, 0, 0);
    check(&whole, 0, 0);
    assert_true(whole.answer.count == 1 && whole.chosen.tiles == 0 && whole.chosen.sub_group == 0);
    int64_t device = whole.chosen.tiers[ZERO_TIER_device] * 9 / 10;
    choice tiled = choose("", DISK, device, whole.chosen.tiers[ZERO_TIER_host]);
    if (tiled.answer.chosen >= 0) {
        check(&tiled, device, whole.chosen.tiers[ZERO_TIER_host]);
        assert_int_equal(tiled.parsed->offload.tiles_embedding > 1, tiled.chosen.tiles > 0);
    }
    assert_true(tiled.answer.chosen >= 0 && tiled.chosen.tiles > 0);
    end(&whole);
    end(&tiled);
}

static void what_was_said_stays(void **state)
{
    choice c = choose("\"stage\": 2, \"offload_optimizer\": {\"device\": \"cpu\"}", "", 0, 0);
    check(&c, 0, 0);
    assert_true(c.answer.count == 1 && !c.answer.with_disk && c.chosen.stage == 2 &&
                c.chosen.optimizer == ZERO_TIER_host);
    end(&c);
    c = choose("\"stage\": 3", ", \"delayed_update\": {\"start_step\": 3}", 0, 0);
    check(&c, 0, 0);
    // no directory, and an update on the device cannot be delayed
    assert_true(c.chosen.stage == 3 && c.chosen.optimizer == ZERO_TIER_host);
    end(&c);
}

// Muon's directions wait in memory for other ranks, and its matrices come whole (plan/muon.h).
static void muon_stays_in_memory_without_tiles(void **state)
{
    const char *muon = DISK "}, \"optimizer\": {\"type\": \"Muon\"";
    choice all = choose("", muon, 0, 0);
    check(&all, 0, 0);
    assert_int_equal(all.answer.count, 11); // 16 without the five that have states on NVMe
    int64_t of_states = all.answer.at[0].tiers[0];
    choice less = choose("", muon, of_states / 2, 0);
    check(&less, of_states / 2, 0);
    assert_int_equal(less.chosen.optimizer, ZERO_TIER_host);
    choice none = choose("", muon, 1 << 16, 1 << 16);
    assert_int_equal(none.answer.chosen, -1);
    for (int i = 0; i < none.answer.count; i++)
        assert_true(none.answer.at[i].optimizer != ZERO_TIER_nvme && !none.answer.at[i].tiles);
    end(&all);
    end(&less);
    end(&none);
}

// What is known of nothing is guessed, and the choice is still one that fits.
static void nothing_is_known(void **state)
{
    const zr_rate_book none = {0};
    choice c = choose_at(&none, "", DISK, 0, 0);
    check(&c, 0, 0);
    assert_true(c.chosen.step.unknown > 0.99);
    end(&c);
}

static int64_t undivided_bytes(const choice *c)
{
    for (int i = 0; i < c->answer.count; i++)
        if (c->answer.at[i].stage == 0)
            return c->answer.at[i].tiers[ZERO_TIER_device];
    fail_msg("stage 0 was not considered");
    return 0;
}

// A tensor rank is planned with its part of the model, and with that alone.
static void tensor_ranks_have_parts(void **state)
{
    choice whole = choose("", "", 0, 0);
    choice part = choose("", "}, \"tensor_parallel\": {\"autotp_size\": 2", 0, 0);
    check(&part, 0, 0);
    assert_int_equal(part.resolved->tensor, 2);
    assert_true(undivided_bytes(&part) < undivided_bytes(&whole) * 6 / 10);
    end(&whole);
    end(&part);
}

static void nothing_fits(void **state)
{
    zr_buffer text = {0};
    choice c = choose("", "", 1 << 16, 0);
    assert_int_equal(c.answer.chosen, -1);
    zr_placement_describe(&c.answer, "; ", &text);
    assert_non_null(
        strstr(text.data, "nothing fits; with a directory on a disk (libzero.nvme_path)"));
    assert_non_null(strstr(text.data, "does not fit, not even in the smallest tiles"));
    zr_buffer_free(&text);
    end(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(farther_tiers_as_budgets_shrink),
        cmocka_unit_test(tiles_only_where_nothing_else_fits),
        cmocka_unit_test(what_was_said_stays),
        cmocka_unit_test(muon_stays_in_memory_without_tiles),
        cmocka_unit_test(nothing_is_known),
        cmocka_unit_test(tensor_ranks_have_parts),
        cmocka_unit_test(nothing_fits),
    };
    return cmocka_run_group_tests(tests, make_usual, free_usual);
}
