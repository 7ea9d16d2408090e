// A run that is saved, ended and loaded continues with the same bits; and a checkpoint gives the
// same training on any number of ranks, at any stage, on any tier.
#define _GNU_SOURCE
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "harness.h"
#include "base/alloc.h"
#include "base/file.h"
#include "formats/manifest.h"
#include "memory/scratch.h"
#include "../sanitizers.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char directory[256];
enum { SAVED = 2 }; // steps before it

// after `pass` of them `left` take so long, or fail
static struct {
    atomic_int pass, left;
    int microseconds;
    bool failing;
} writes;

ssize_t __real_pwrite64(int fd, const void *data, size_t bytes, off64_t offset);
ssize_t __wrap_pwrite64(int fd, const void *data, size_t bytes, off64_t offset);
ssize_t __wrap_pwrite64(int fd, const void *data, size_t bytes, off64_t offset)
{
    if (atomic_fetch_sub(&writes.pass, 1) > 0 || atomic_fetch_sub(&writes.left, 1) <= 0)
        return __real_pwrite64(fd, data, bytes, offset);
    usleep((useconds_t)writes.microseconds);
    errno = EIO;
    return writes.failing ? -1 : __real_pwrite64(fd, data, bytes, offset);
}

static const char *path(const char *name)
{
    static char paths[4][320];
    static int next;
    char *out = paths[next++ % 4];
    snprintf(out, sizeof paths[0], "%s/%s", directory, name);
    return out;
}

static int set_up(void **state)
{
    snprintf(directory, sizeof directory, "%s/zero-checkpoint-XXXXXX", harness_scratch());
    return mkdtemp(directory) ? 0 : 1;
}

static int tear_down(void **state)
{
    return zr_directory_remove(directory, NULL) == ZERO_OK ? 0 : 1;
}

static bool same_end(const harness_result *a, const harness_result *b)
{
    return a->elems == b->elems &&
           !memcmp(a->loss + SAVED, b->loss + SAVED, sizeof a->loss - SAVED * sizeof *a->loss) &&
           !memcmp(a->parameters, b->parameters, (size_t)a->elems * sizeof(float)) &&
           a->evaluated == b->evaluated;
}

static void goes_on(harness_case c, const char *what)
{
    static harness_result whole, rest;
    c.save = path("ck");
    c.save_at = SAVED;
    harness_run(&c, &whole);
    c.save = NULL;
    c.load = path("ck");
    harness_run(&c, &rest);
    if (!same_end(&whole, &rest))
        fail_msg("stage %d, %d ranks, %s: it goes on to other bits", c.stage, c.ranks, what);
}

static const char *const policies[] = {
    "\"bf16\": {\"enabled\": false}", "\"bf16\": {\"enabled\": true}",
    "\"fp16\": {\"enabled\": true, \"initial_scale_power\": 18, \"hysteresis\": 1}"};

static void every_stage_policy_and_tier(void **state)
{
    for (int policy = SANITIZED; policy < (SANITIZED ? 2 : 3); policy++)
        for (int stage = 0; stage <= 3; stage++)
            for (int ranks = SANITIZED ? 2 : 1; ranks <= 2; ranks++)
                for (int tier = 0; tier < (stage ? 3 : 1); tier++) {
                    harness_case c = {.stage = stage,
                                      .ranks = ranks,
                                      .accumulation = 1 + ranks % 2,
                                      .batch = 2,
                                      .dropout = 0.1f,
                                      .precision = policies[policy]};
                    c.tiers = harness_tiers(tier, stage == 3 ? 2 - tier : 0);
                    goes_on(c, policies[policy]);
                }
}

// Written while the next step is computed, and slower than that: the update waits for what it is
// about to change.
static void overlapped_a_step(void **state)
{
    static harness_result whole, rest;
    for (int policy = SANITIZED; policy < (SANITIZED ? 2 : 3); policy++)
        for (int stage = 0; stage <= 3; stage++)
            for (int host = 0; host < (stage ? 2 : 1); host++) {
                harness_case c = {.stage = stage,
                                  .ranks = 2,
                                  .accumulation = 1,
                                  .batch = 2,
                                  .precision = policies[policy],
                                  .save = path("beside"),
                                  .save_at = SAVED,
                                  .overlapped = true};
                c.tiers = harness_tiers(host, stage == 3 ? host : 0);
                writes.microseconds = 1000;
                atomic_store(&writes.left, 1000000);
                harness_run(&c, &whole);
                assert_int_equal(whole.saved, ZERO_OK);
                c.save = NULL;
                c.load = path("beside");
                atomic_store(&writes.left, 0);
                harness_run(&c, &rest);
                if (!same_end(&whole, &rest))
                    fail_msg("stage %d, %s: what was written beside a step is not what was there "
                             "before it",
                             stage, policies[policy]);
            }
}

// A disk that fails takes the checkpoint, not the run; and on NVMe, and under a delayed update, the
// same calls do the same.
static void a_save_that_fails_harms_nobody(void **state)
{
    static harness_result whole, other;
    harness_case c = {
        .stage = 2, .ranks = 2, .accumulation = 1, .batch = 2, .precision = policies[1]};
    harness_run(&c, &whole);
    c.save = path("failing");
    c.save_at = SAVED;
    c.overlapped = true;
    writes.failing = true;
    writes.microseconds = 0;
    for (int in = 0; in < 60; in += 7) {
        atomic_store(&writes.pass, 3 + in); // rank 0 has written three headers before
        atomic_store(&writes.left, 1);
        harness_run(&c, &other);
        assert_int_equal(other.saved, ZERO_ERR_IO);
        assert_true(same_end(&whole, &other));
        assert_false(zr_path_exists(c.save));
    }
    writes.failing = false;
    c.tiers = harness_tiers(2, 0);
    goes_on(c, "NVMe, begun and ended");
}

static void every_optimizer(void **state)
{
    static const char *const optimizers[] = {"Adam", "SGD", "Adagrad", "Lion", "LAMB"};
    for (int i = 0; i < (int)(sizeof optimizers / sizeof *optimizers); i++)
        goes_on((harness_case){.stage = 3,
                               .ranks = 2,
                               .accumulation = 1,
                               .batch = 2,
                               .optimizer = optimizers[i],
                               .precision = policies[1],
                               .tiers = harness_tiers(2, 2)},
                optimizers[i]);
}

static void tiles_and_delayed_updates(void **state)
{
    goes_on((harness_case){.stage = 3,
                           .ranks = 2,
                           .accumulation = 1,
                           .batch = 2,
                           .backend = "cpu",
                           .width = 128,
                           .vocabulary = 200,
                           .tiles_embedding = 3,
                           .tiles_mlp = 2,
                           .precision = policies[1],
                           .tiers = harness_tiers(2, 2)},
            "tiles");
    for (int stage = 1; stage <= 3; stage++)
        for (int policy = 0; policy < 2; policy++)
            for (int tier = 1; tier <= 2; tier++) {
                char precision[256];
                snprintf(precision, sizeof precision,
                         "%s, \"libzero\": {\"delayed_update\": {\"start_step\": 1}}",
                         policies[policy]);
                goes_on((harness_case){.stage = stage,
                                       .ranks = 2,
                                       .accumulation = 1,
                                       .batch = 2,
                                       .precision = precision,
                                       .tiers = harness_tiers(tier, stage == 3 ? tier : 0)},
                        "delayed updates");
            }
}

// optimizer, parameters: their tiers
typedef struct side {
    int ranks, stage, optimizer, parameters, policy;
} side;

// The way of a pair: of 64, 16 go from stage 3 to stage 3, where every pair of tiers is possible,
// and 48 through the other 15 pairs of stages.
static void choose_way(int pair, bool deep, int turn, side *from, side *to)
{
    from->stage = deep ? 3 : turn % 15 / 4;
    to->stage = deep ? 3 : turn % 15 % 4;
    from->policy = pair % 3;
    to->policy = pair / 3 % 3;
    from->optimizer = from->stage ? turn % 3 : 0;
    to->optimizer = to->stage ? turn / 3 % 3 : 0;
    from->parameters = from->stage == 3 ? (turn + 1) % 3 : 0;
    to->parameters = to->stage == 3 ? (turn + turn / 3) % 3 : 0;
}

static harness_case case_of(const side *s, int batch)
{
    harness_case c = {.stage = s->stage,
                      .ranks = s->ranks,
                      .accumulation = batch / s->ranks,
                      .batch = 1,
                      .steps = SAVED + 1,
                      .save_at = SAVED,
                      .clipping = 1};
    c.precision = policies[s->policy];
    c.tiers = harness_tiers(s->optimizer, s->parameters);
    return c;
}

static void must_be_same_file(const char *name, const side *from, const side *to)
{
    char *texts[2], file[400];
    size_t bytes[2];
    zero_error error;
    for (int i = 0; i < 2; i++) {
        snprintf(file, sizeof file, "%s/%s.safetensors", path(i ? "to" : "from"), name);
        assert_int_equal(zr_file_read(file, 1 << 28, &texts[i], &bytes[i], &error), ZERO_OK);
    }
    if (bytes[0] != bytes[1] || memcmp(texts[0], texts[1], bytes[0]))
        fail_msg("%s of %d ranks, stage %d, tiers %d and %d, %s; loaded on %d, stage %d, tiers %d "
                 "and %d, %s: other bytes",
                 name, from->ranks, from->stage, from->optimizer, from->parameters,
                 policies[from->policy], to->ranks, to->stage, to->optimizer, to->parameters,
                 policies[to->policy]);
    for (int i = 0; i < 2; i++)
        zr_free(texts[i]);
}

// Steps and updates, of which there are some; and the loss scale, where both have one.
static void must_be_same_progress(const side *from, const side *to)
{
    static const char *const keys[] = {"step", "updates", "loss_scale"};
    zr_manifest a, b;
    assert_int_equal(zr_manifest_read(path("from"), &a, NULL), ZERO_OK);
    assert_int_equal(zr_manifest_read(path("to"), &b, NULL), ZERO_OK);
    assert_true(json_integer_value(json_object_get(a.state, "updates")) > 0);
    for (int k = 0; k < (from->policy == 2 && to->policy == 2 ? 3 : 2); k++)
        assert_true(
            json_equal(json_object_get(a.state, keys[k]), json_object_get(b.state, keys[k])));
    zr_manifest_free(&a);
    zr_manifest_free(&b);
}

// One rank that loads the same checkpoint, and computes as `to`, has the same loss: exactly, as
// every micro-batch is a sample, and the mean over them does not depend on who computes them.
static double loss_of_one_rank(const side *to, int batch)
{
    static harness_result out;
    harness_case c = case_of(&(side){.ranks = 1, .policy = to->policy}, batch);
    c.load = path("from");
    harness_run(&c, &out);
    return out.loss[SAVED];
}

static void moves(const side *from, const side *to)
{
    static const char *const files[] = {"weights", "exp_avg", "exp_avg_sq"};
    static harness_result out;
    int batch = from->ranks; // samples of a step: the least that both can make
    while (batch % to->ranks)
        batch += from->ranks;
    harness_case c = case_of(from, batch);
    c.save = path("from");
    harness_run(&c, &out);
    double loss = out.loss[SAVED];
    c = case_of(to, batch);
    c.load = path("from");
    c.save = path("to");
    harness_run(&c, &out);
    if (from->policy != to->policy)
        loss = loss_of_one_rank(to, batch);
    assert_true(out.loss[SAVED] == loss);
    for (int f = 0; f < 3; f++)
        must_be_same_file(files[f], from, to);
    must_be_same_progress(from, to);
}

// The logical state does not depend on who wrote it: what is loaded elsewhere, and saved again, is
// the same checkpoint. Every pair of 1 to 8 ranks, and among them every pair of policies, stages
// and tiers.
static void any_ranks_to_any_ranks(void **state)
{
    int turns[2] = {0}, met[4][4][4] = {0};
    for (int pair = 0; pair < 64; pair += SANITIZED ? 11 : 1) {
        side from = {.ranks = pair / 8 + 1}, to = {.ranks = pair % 8 + 1};
        bool deep = (pair / 8 + pair % 8 + pair % 8 / 4) % 4 == 3;
        choose_way(pair, deep, turns[deep]++, &from, &to);
        moves(&from, &to);
        met[0][from.policy][to.policy] = met[1][from.optimizer][to.optimizer] =
            met[2][from.parameters][to.parameters] = met[3][from.stage][to.stage] = 1;
    }
    for (int what = 0; what < 4 && !SANITIZED; what++)
        for (int a = 0; a < (what < 3 ? 3 : 4); a++)
            for (int b = 0; b < (what < 3 ? 3 : 4); b++)
                assert_int_equal(met[what][a][b], 1);
}

static void what_does_not_fit_is_refused(void **state)
{
    static harness_result out;
    harness_case c = {.stage = 2,
                      .ranks = 2,
                      .accumulation = 1,
                      .batch = 2,
                      .save = path("ck"),
                      .save_at = SAVED};
    harness_run(&c, &out);
    c.save = NULL;
    c.load = path("ck");
    const struct {
        harness_case c;
        zero_status status;
        const char *words;
    } cases[] = {
        {{.stage = 2,
          .ranks = 2,
          .accumulation = 1,
          .batch = 2,
          .load = c.load,
          .optimizer = "SGD"},
         ZERO_ERR_CONFIG,
         "is one of AdamW, this training uses SGD"},
        {{.stage = 2, .ranks = 2, .accumulation = 2, .batch = 2, .load = c.load},
         ZERO_ERR_CONFIG,
         "train_batch_size of 4, this training has 8"},
        {{.stage = 2, .ranks = 2, .accumulation = 1, .batch = 2, .load = c.load, .width = 32},
         ZERO_ERR_CONFIG,
         "\"n_embd\" is 16, this training's has 32"},
        {{.stage = 2, .ranks = 2, .accumulation = 1, .batch = 2, .load = c.load, .layers = 3},
         ZERO_ERR_CONFIG,
         "\"n_layer\" is 2, this training's has 3"},
        {{.stage = 2, .ranks = 2, .accumulation = 1, .batch = 2, .load = c.load, .dropout = 0.5f},
         ZERO_ERR_CONFIG,
         "to change it on purpose: --allow-change dropout"},
        {{.stage = 2, .ranks = 2, .accumulation = 1, .batch = 2, .load = "/nowhere"},
         ZERO_ERR_IO,
         "/nowhere/manifest.json"},
    };
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++)
        harness_refused(&cases[i].c, cases[i].status, cases[i].words);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_stage_policy_and_tier),    cmocka_unit_test(overlapped_a_step),
        cmocka_unit_test(a_save_that_fails_harms_nobody), cmocka_unit_test(every_optimizer),
        cmocka_unit_test(tiles_and_delayed_updates),      cmocka_unit_test(any_ranks_to_any_ranks),
        cmocka_unit_test(what_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
