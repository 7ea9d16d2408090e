// No AWAIT of a program is superfluous. Each is left out in turn, with ranks, stores and updates
// that do everything as late as they may (lazy_comm.h, lazy_tiers.h). Then a rank fails or bits
// change; or the AWAIT is on the list of those that something else replaces, each with its reason
// (await_reasons.h).
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "../sanitizers.h"
#include "await_reasons.h"
#include "comm/communicator.h"
#include "engine/engine_api.h"
#include "harness.h"
#include "lazy_comm.h"
#include "lazy_tiers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 2, MOST_AWAITS = 256 };
#define EACH (SANITIZED ? 9 : 1)

typedef enum device { NONE, CPU, NVME } device;

typedef struct variant {
    const char *name;
    harness_case c;
    device optimizer, parameters;
    const char *more;           // of zero_optimization; NULL: nothing
    int activation_checkpoints; // 0: all activations are kept
    device activation_checkpoint_device;
} variant;

static const char delayed[] =
    "\"bf16\": {\"enabled\": true}, \"libzero\": {\"delayed_update\": {\"start_step\": 1}}";

#define MAPS .open = lazy_comm_that_maps
#define SHARES .open = lazy_comm_that_shares
#define APART .open = lazy_comm_apart
#define KEEPS_SMALL .more = "\"stage3_param_persistence_threshold\": 4000"
#define KEEPS_NONE .more = "\"stage3_param_persistence_threshold\": 0"
#define LATE .more = "\"stage3_prefetch_bucket_size\": 0, \"stage3_max_reuse_distance\": 8000"
#define FOR_A_STEP .more = "\"zero_hpz_partition_size\": 2"
#define BF16 .precision = "\"bf16\": {\"enabled\": true}"
#define OVERLAPPED .precision = delayed
#define EXACT .precision = "\"libzero\": {\"exact_world\": true}"
#define TILED .layers = 1, .width = 32, .vocabulary = 128, .tiles_embedding = 2, .tiles_mlp = 2

static const variant variants[] = {
    {"stage 0", {.stage = 0, .accumulation = 2, MAPS}},
    {"stage 0, bf16", {.stage = 0, .accumulation = 2, BF16, APART}},
    {"stage 1", {.stage = 1, .accumulation = 2, APART}},
    {"stage 2", {.stage = 2, .accumulation = 2, MAPS}},
    {"stage 2, small bucket", {.stage = 2, .accumulation = 2, .bucket = 3000, BF16, APART}},
    {"mapped", {.stage = 3, .accumulation = 2, MAPS}},
    {"gathered into one window", {.stage = 3, .accumulation = 2, BF16, SHARES}},
    {"gathered apart", {.stage = 3, .accumulation = 2, APART}},
    {"gathered late", {.stage = 3, .accumulation = 2, APART}, LATE},
    {"kept for a step", {.stage = 3, .accumulation = 2, BF16, SHARES}, FOR_A_STEP},
    {"host", {.stage = 3, .accumulation = 2, BF16, APART}, CPU, CPU, KEEPS_SMALL},
    {"NVMe", {.stage = 3, .accumulation = 2, APART}, NVME, NVME, KEEPS_SMALL},
    {"NVMe, nothing kept", {.stage = 3, .accumulation = 1, BF16, MAPS}, NVME, NVME, KEEPS_NONE},
    {"NVMe, stage 1", {.stage = 1, .accumulation = 2, BF16, MAPS}, NVME},
    {"NVMe, exact world", {.stage = 2, .accumulation = 4, .layers = 1, EXACT, MAPS}, NVME},
    {"checkpoints on the host",
     {.stage = 0, .accumulation = 2, .layers = 4, BF16, MAPS},
     .activation_checkpoints = 3,
     .activation_checkpoint_device = CPU},
    {"checkpoints on NVMe",
     {.stage = 3, .accumulation = 1, .layers = 4, BF16, MAPS},
     .activation_checkpoints = 5,
     .activation_checkpoint_device = NVME},
    {"tiles", {.stage = 3, .accumulation = 2, TILED, MAPS}, CPU},
    {"tiles on NVMe", {.stage = 3, .accumulation = 2, TILED, BF16, APART}, NVME, NVME, KEEPS_NONE},
    {"delayed, stage 1", {.stage = 1, .accumulation = 2, OVERLAPPED, MAPS}, CPU},
    {"delayed, mapped", {.stage = 3, .accumulation = 1, OVERLAPPED, MAPS}, CPU},
    {"delayed, NVMe", {.stage = 3, .accumulation = 1, OVERLAPPED, APART}, NVME, NVME, KEEPS_NONE},
};

typedef struct await_at {
    zr_pass_kind pass;
    int at;
    zr_instruction i;
    reason alone, together; // why it is not missed; why it and all like it are not
} await_at;

typedef enum kind {
    PLAIN,     // on local threads, and everything at once
    REFERENCE, // lazy, with every AWAIT
    TRIAL,
} kind;

static struct {
    await_at at[MOST_AWAITS];
    int count;
    dropped without;                                           // of the run under way
    kind kind;                                                 // of it
    double loss[LAZY_RANKS][2], reference_loss[LAZY_RANKS][2]; // of evaluations
    harness_result reference, other;
} test;

static bool is_like(const zr_instruction *a, const zr_instruction *b)
{
    return a->slot.kind == b->slot.kind && a->when == b->when && a->place.buffer == b->place.buffer;
}

static void drop(const await_at *one, bool all_like_it, dropped *out)
{
    *out = (dropped){0};
    out->at[one->pass][one->at] = true;
    for (int a = 0; a < test.count && all_like_it; a++)
        if (test.at[a].pass == one->pass && is_like(&test.at[a].i, &one->i))
            out->at[one->pass][test.at[a].at] = true;
}

// All like it are needed where one of them is.
static reason reason_together(const trace *trace, const await_at *one)
{
    dropped all;
    drop(one, true, &all);
    for (int at = 0; at < ZR_COUNT(all.at[one->pass]); at++)
        if (all.at[one->pass][at] && reason_without(trace, &all, one->pass, at) == NEEDED)
            return NEEDED;
    return reason_without(trace, &all, one->pass, one->at);
}

static void list_awaits(const zr_plan *plan)
{
    test.count = 0;
    for (zr_pass_kind pass = 0; pass < ZR_PASS_COUNT; pass++)
        for (int at = 0; at < plan->program.passes[pass].count; at++) {
            const zr_instruction *i = &plan->program.passes[pass].at[at];
            if (i->code != ZR_AWAIT)
                continue;
            if (test.count == MOST_AWAITS || at >= ZR_COUNT(test.without.at[0]))
                abort();
            test.at[test.count++] = (await_at){pass, at, *i, NEEDED, NEEDED};
        }
}

static void find_reasons(const zero_engine *engine)
{
    const zr_plan *plan = zr_engine_plan(engine);
    trace trace;
    list_awaits(plan);
    trace_of(plan, zr_engine_comm(engine)->machine_ranks > 1, STEPS, &trace);
    for (int a = 0; a < test.count; a++) {
        dropped one;
        drop(&test.at[a], false, &one);
        test.at[a].alone = reason_without(&trace, &one, test.at[a].pass, test.at[a].at);
        test.at[a].together = reason_together(&trace, &test.at[a]);
    }
    trace_free(&trace);
}

// They hold under no condition.
static void leave_out(const zr_plan *plan)
{
    for (zr_pass_kind pass = 0; pass < ZR_PASS_COUNT; pass++)
        for (int at = 0; at < plan->program.passes[pass].count; at++)
            if (test.without.at[pass][at])
                plan->program.passes[pass].at[at].when = ZR_WHEN_COUNT;
}

static zero_status grow(void *user, const zr_portion *portion, zero_error *error)
{
    float *weights = (float *)(void *)portion->data;
    for (int64_t i = 0; i < portion->span.count && portion->dtype == ZERO_F32; i++)
        weights[i] *= 1.25f;
    return ZERO_OK;
}

// Every rank looks at what it reads itself; with other bits than the reference's it ends.
static zero_status evaluate(zero_engine *engine, bool trained, zero_error *error)
{
    int rank = zr_engine_comm(engine)->rank;
    int32_t tokens[HARNESS_SEQ], targets[HARNESS_SEQ];
    double *loss = &test.loss[rank][trained];
    harness_batch(500, rank, 1, tokens, targets);
    const zero_tensors batch = harness_tensors(1, tokens, targets);
    ZERO_TRY(zero_evaluate(engine, &batch, loss, error));
    if (test.kind != TRIAL || memcmp(loss, &test.reference_loss[rank][trained], sizeof *loss) == 0)
        return ZERO_OK;
    zero_comm_abort(zr_engine_comm(engine), "other bits");
    return zr_fail(error, ZERO_ERR_INTERNAL, "other bits");
}

// New weights are published, so that AWAITs of that are run too.
static zero_status begin(zero_engine *engine, zero_error *error)
{
    const zr_plan *plan = zr_engine_plan(engine);
    if (test.kind != PLAIN)
        lazy_tiers_take(engine);
    if (test.kind == REFERENCE && zr_engine_comm(engine)->rank == 0)
        find_reasons(engine);
    leave_out(plan);
    for (int p = 0; p < plan->flat_param_count; p++)
        ZERO_TRY(zr_engine_vector_each(engine, p, ZR_VECTOR_MASTER, ZR_PORTIONS_CHANGED, grow, NULL,
                                       error));
    ZERO_TRY(zr_engine_parameters_changed(engine, error));
    return evaluate(engine, false, error);
}

static zero_status after(zero_engine *engine, int step, zero_error *error)
{
    if (step < 0)
        return begin(engine, error);
    return step == STEPS - 1 ? evaluate(engine, true, error) : ZERO_OK;
}

static void describe(const variant *v, char tiers[512], char policy[512])
{
    static const char *const devices[] = {"none", "cpu", "nvme"};
    const char *scratch = harness_scratch();
    snprintf(tiers, 512,
             "\"offload_optimizer\": {\"device\": \"%s\", \"nvme_path\": \"%s\"},"
             "\"offload_param\": {\"device\": \"%s\", \"nvme_path\": \"%s\"}, "
             "\"sub_group_size\": 3000%s%s",
             devices[v->optimizer], scratch, devices[v->parameters], scratch, v->more ? ", " : "",
             v->more ? v->more : "");
    snprintf(policy, 512,
             "%s, \"activation_checkpointing\": {\"number_checkpoints\": %d},"
             "\"libzero\": {\"checkpoints\": {\"device\": \"%s\", \"nvme_path\": \"%s\"}}",
             v->c.precision, v->activation_checkpoints, devices[v->activation_checkpoint_device],
             scratch);
}

// Whether all ranks came to the end.
static bool run(const variant *v, harness_result *out)
{
    char tiers[512], policy[512];
    harness_case c = v->c;
    harness_failure ranks[LAZY_RANKS];
    describe(v, tiers, policy);
    c.tiers = tiers;
    c.precision = v->activation_checkpoints ? policy : v->c.precision;
    c.ranks = LAZY_RANKS;
    c.batch = 1;
    c.steps = STEPS;
    c.after = after;
    c.open = test.kind == PLAIN ? NULL : c.open;
    harness_try(&c, out, ranks);
    if (test.kind != TRIAL && ranks[0].status != ZERO_OK)
        print_error("%s: %s\n", v->name, ranks[0].error.message);
    return ranks[0].status == ZERO_OK && ranks[1].status == ZERO_OK;
}

typedef struct listed { // AWAITs that a run can do without, where this is the reason
    zr_pass_kind pass;
    zr_slot_kind slot;
    zr_when when;
    zr_buffer_id window;
    reason why;
    const char *because;
} listed;

#define MICRO_BATCH ZR_PASS_MICRO_BATCH
#define EVALUATION ZR_PASS_EVALUATION

// One at a time.
static const listed redundant[] = {
    {MICRO_BATCH, ZR_SLOT_READERS, ZR_ALWAYS, ZR_BUFFER_GRADIENTS, PASSED,
     "a flat parameter that was sealed later has been awaited since, or another flat parameter's "
     "readers are"},
    {MICRO_BATCH, ZR_SLOT_READERS, ZR_ALWAYS, ZR_BUFFER_GATHERED, PASSED,
     "a gather that began later has been awaited since: all ranks came to it"},
    {MICRO_BATCH, ZR_SLOT_READERS, ZR_OUTDATED, ZR_BUFFER_GATHERED, PASSED,
     "the weights have changed since it was gathered: all ranks came to the scalars"},
    {MICRO_BATCH, ZR_SLOT_READERS, ZR_ALWAYS, ZR_BUFFER_GATHERED, ENTERED,
     "a window that ranks share is written once all of them have started the next gather"},
    {MICRO_BATCH, ZR_SLOT_READERS, ZR_OUTDATED, ZR_BUFFER_GATHERED, ENTERED, "the same"},
    {MICRO_BATCH, ZR_SLOT_PUBLISHED, ZR_ALWAYS, ZR_BUFFER_NONE, PASSED,
     "another flat parameter is awaited before the first is read, and ranks publish when all are "
     "updated"},
    {MICRO_BATCH, ZR_SLOT_GROUP, ZR_FIRST, ZR_BUFFER_NONE, ENDED,
     "the flat parameter before it has awaited the same group or one that comes after it"},
    {MICRO_BATCH, ZR_SLOT_GROUP, ZR_FIRST, ZR_BUFFER_NONE, NEXT,
     "a sum goes to NVMe only after the next flat parameter has awaited a later group"},
    {MICRO_BATCH, ZR_SLOT_TRAVELLED, ZR_ALWAYS, ZR_BUFFER_NONE, ENDED,
     "the boundary, or the fetch of this sum, has awaited what was in the buffer"},
    {MICRO_BATCH, ZR_SLOT_TRAVELLED, ZR_ALWAYS, ZR_BUFFER_NONE, NEXT,
     "it lies in the buffer itself, and is awaited again where it is a later micro-batch"},
    {MICRO_BATCH, ZR_SLOT_TRAVELLED, ZR_LATER, ZR_BUFFER_NONE, ENDED,
     "it lay in the buffer itself, and has been awaited for that"},
    {MICRO_BATCH, ZR_SLOT_PARKED, ZR_ALWAYS, ZR_BUFFER_NONE, ENDED,
     "what comes back has been awaited for its place, and before that it had arrived"},
    {MICRO_BATCH, ZR_SLOT_KEPT, ZR_ALWAYS, ZR_BUFFER_NONE, ENDED,
     "a buffer is awaited before it is written, and again before it travels"},
    {EVALUATION, ZR_SLOT_READERS, ZR_ALWAYS, ZR_BUFFER_GATHERED, PASSED, "as in a micro-batch"},
    {EVALUATION, ZR_SLOT_READERS, ZR_OUTDATED, ZR_BUFFER_GATHERED, PASSED, "as in a micro-batch"},
    {EVALUATION, ZR_SLOT_READERS, ZR_ALWAYS, ZR_BUFFER_GATHERED, ENTERED, "as in a micro-batch"},
    {EVALUATION, ZR_SLOT_READERS, ZR_OUTDATED, ZR_BUFFER_GATHERED, ENTERED, "as in a micro-batch"},
    {EVALUATION, ZR_SLOT_PUBLISHED, ZR_ALWAYS, ZR_BUFFER_NONE, PASSED, "as in a micro-batch"},
    {ZR_PASS_BOUNDARY, ZR_SLOT_TRAVELLED, ZR_ALWAYS, ZR_BUFFER_NONE, ENDED,
     "another sum has come to its place in the buffer since"},
    {ZR_PASS_BOUNDARY, ZR_SLOT_READERS, ZR_ALWAYS, ZR_BUFFER_GRADIENTS, PASSED,
     "the readers of a flat parameter that was reduced later are awaited before the first is "
     "gathered"},
    {ZR_PASS_BOUNDARY, ZR_SLOT_READERS, ZR_ALWAYS, ZR_BUFFER_FULL_GRADS, PASSED,
     "all ranks came to the scalars after the last boundary's gathers"},
    {ZR_PASS_UPDATE, ZR_SLOT_READERS, ZR_CHANGED, ZR_BUFFER_PARAMETERS, PASSED,
     "all ranks came to the scalars after the last update's gathers"},
    {ZR_PASS_UPDATE, ZR_SLOT_RELEASED, ZR_CHANGED, ZR_BUFFER_NONE, PASSED,
     "all ranks came to the scalars after their last micro-batch, which releases"},
};

// Even all of them that are alike at once: what stands in for them is no AWAIT like them.
static const listed superfluous[] = {
    {MICRO_BATCH, ZR_SLOT_READERS, ZR_OUTDATED, ZR_BUFFER_GATHERED, .because = "the scalars"},
    {EVALUATION, ZR_SLOT_READERS, ZR_OUTDATED, ZR_BUFFER_GATHERED, .because = "the scalars"},
    {ZR_PASS_BOUNDARY, ZR_SLOT_READERS, ZR_ALWAYS, ZR_BUFFER_FULL_GRADS, .because = "the scalars"},
    {ZR_PASS_UPDATE, ZR_SLOT_READERS, ZR_CHANGED, ZR_BUFFER_PARAMETERS, .because = "the scalars"},
    {ZR_PASS_UPDATE, ZR_SLOT_RELEASED, ZR_CHANGED, ZR_BUFFER_NONE, .because = "the scalars"},
};

static bool is_row(const listed *row, const await_at *one)
{
    const zr_instruction *i = &one->i;
    return row->pass == one->pass && row->slot == i->slot.kind && row->when == i->when &&
           row->window == i->place.buffer;
}

static int row_of(const await_at *one, reason why)
{
    for (int r = 0; r < ZR_COUNT(redundant); r++)
        if (is_row(&redundant[r], one) && redundant[r].why == why)
            return r;
    return -1;
}

typedef struct alike { // AWAITs that are, of all variants
    await_at one;
    bool needed; // together, in one of them
} alike;

static struct {
    int wrong;
    bool used[ZR_COUNT(redundant)];
    bool slots[ZR_SLOT_KIND_COUNT];
    alike alike[64];
    int alike_count;
} found;

static void complain(const variant *v, const await_at *one, const char *what)
{
    const zr_instruction *i = &one->i;
    print_error("%s: %s, instruction %d: AWAIT of %s %d (%s, window: %s), unit %d: %s\n",
                v ? v->name : "every variant", zr_pass_name(one->pass), one->at,
                zr_slot_names[i->slot.kind], i->slot.index, zr_when_names[i->when],
                zr_buffer_names[i->place.buffer], i->unit, what);
    found.wrong++;
}

static alike *find_alike(const await_at *one)
{
    for (int k = 0; k < found.alike_count; k++)
        if (found.alike[k].one.pass == one->pass && is_like(&found.alike[k].one.i, &one->i))
            return &found.alike[k];
    assert_true(found.alike_count < ZR_COUNT(found.alike));
    found.alike[found.alike_count] = (alike){.one = *one};
    return &found.alike[found.alike_count++];
}

static void look_up(const variant *v, const await_at *one)
{
    int row = row_of(one, one->alone);
    found.slots[one->i.slot.kind] = true;
    if (one->alone != NEEDED && row < 0)
        complain(v, one, "redundant, and not on the list");
    if (row >= 0)
        found.used[row] = true;
    find_alike(one)->needed |= one->together == NEEDED;
}

// Whether the run is the same run without it, or without all like it.
static bool is_missed(const variant *v, const await_at *one, bool all_like_it)
{
    drop(one, all_like_it, &test.without);
    return !run(v, &test.other) || !harness_equal(&test.reference, &test.other);
}

static bool is_first_like_it(int number)
{
    const await_at *one = &test.at[number];
    for (int a = 0; a < number; a++)
        if (test.at[a].pass == one->pass && is_like(&test.at[a].i, &one->i))
            return false;
    return true;
}

static void leave_out_in_turn(const variant *v)
{
    for (int a = (int)(v - variants) % EACH; a < test.count; a += EACH) {
        const await_at *one = &test.at[a];
        if (is_missed(v, one, false) != (one->alone == NEEDED))
            complain(v, one,
                     one->alone == NEEDED ? "not missed, and not on the list"
                                          : "missed, and on the list");
        if (is_first_like_it(a) && is_missed(v, one, true) != (one->together == NEEDED))
            complain(v, one,
                     one->together == NEEDED ? "not missed with all like it"
                                             : "missed with all like it");
    }
}

// Lazy ranks end in the bits that any others do.
static void run_reference(const variant *v)
{
    test.without = (dropped){0};
    test.kind = PLAIN;
    assert_true(run(v, &test.other));
    test.kind = REFERENCE;
    assert_true(run(v, &test.reference));
    memcpy(test.reference_loss, test.loss, sizeof test.loss);
    test.kind = TRIAL;
    if (!harness_equal(&test.other, &test.reference))
        fail_msg("%s: lazy ranks have other bits: an AWAIT is missing", v->name);
}

static void check_lists(void)
{
    for (int r = 0; r < ZR_COUNT(redundant); r++)
        if (!found.used[r])
            fail_msg("no program has this, of the redundant: %s", redundant[r].because);
    for (int k = 0; k < found.alike_count; k++) {
        bool is_listed = false;
        for (int s = 0; s < ZR_COUNT(superfluous); s++)
            is_listed |= is_row(&superfluous[s], &found.alike[k].one);
        if (is_listed == found.alike[k].needed)
            complain(NULL, &found.alike[k].one,
                     is_listed ? "needed, and on the list of the superfluous"
                               : "superfluous, and not on the list");
    }
}

static void each_is_missed_or_listed(void **state)
{
    for (int i = 0; i < ZR_COUNT(variants); i++) {
        run_reference(&variants[i]);
        for (int a = 0; a < test.count; a++)
            look_up(&variants[i], &test.at[a]);
        leave_out_in_turn(&variants[i]);
    }
    check_lists();
    for (zr_slot_kind slot = ZR_SLOT_SUM; slot < ZR_SLOT_LINK; slot++) // links have no AWAIT
        assert_true(found.slots[slot]);
    assert_int_equal(found.wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_is_missed_or_listed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
