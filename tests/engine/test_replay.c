// A recorded step can be run again. The operations of step 3 are recorded, and in steps 4 to 6
// these run in place of what the engine asks for: the same kinds, shapes and addresses. What
// differs between steps (masks of dropout, the loss's factor, learning rate, betas, clip factor,
// loss scale) lies in memory, so that all bits are those of a run that asks anew.
#include "base/alloc.h"
#include "compute/compute.h"
#include "engine/engine_api.h"
#include "harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { STEPS = 6, RECORDED = 2, RANKS = 2, MOST_MICRO_BATCHES = 2 }; // steps from 0 on

typedef struct tape { // the operations of a step on one rank
    zr_op *ops;
    int count, capacity, next;
    int64_t replayed;
    bool differs;
} tape;

static const harness_case *running;
static bool replays;
static tape tapes[RANKS];
static zero_step_info told[2][STEPS]; // of a run that asks anew, and one that replays; of rank 0

static void record(void *user, zr_queue *queue, const zr_op *op)
{
    tape *t = user;
    zr_op *grown = zr_list_grow(t->ops, t->count, &t->capacity, sizeof *grown, NULL);
    if (!grown)
        abort();
    t->ops = grown;
    t->ops[t->count++] = *op;
    queue->backend->run(queue, op);
}

static bool same_operands(const zr_op *a, const zr_op *b)
{
    zr_operand operands[ZR_MOST_OPERANDS];
    int count = zr_op_operands(a, operands);
    return a->kind == b->kind &&
           memcmp(a->at.each, b->at.each, (size_t)count * sizeof(void *)) == 0;
}

static void replay(void *user, zr_queue *queue, const zr_op *op)
{
    tape *t = user;
    if (t->next >= t->count || !same_operands(&t->ops[t->next], op)) {
        if (!t->differs)
            fprintf(stderr, "operation %d: %s is asked for, %s was recorded\n", t->next,
                    zr_op_kind_name(op->kind),
                    t->next < t->count ? zr_op_kind_name(t->ops[t->next].kind) : "none");
        t->differs = true;
        queue->backend->run(queue, op);
        return;
    }
    t->replayed++;
    queue->backend->run(queue, &t->ops[t->next++]);
}

static zero_status train_step(zero_engine *engine, harness_rows *rows, zero_step_info *info,
                              zero_error *error)
{
    zero_tensors batches[MOST_MICRO_BATCHES];
    int64_t step, g;
    int data;
    zero_position(engine, &step, &g);
    zero_grid_of(engine, ZERO_AXIS_data, NULL, &data);
    for (int k = 0; k < running->accumulation; k++)
        batches[k] = harness_micro_batch(running, step, g + k * data, &rows[k]);
    return zero_train_batch(engine, batches, running->accumulation, info, error);
}

static zero_status drive(zero_engine *engine, zero_error *error)
{
    int rank = zr_engine_comm(engine)->rank;
    tape *t = &tapes[rank];
    static _Thread_local harness_rows rows[MOST_MICRO_BATCHES]; // where every step's batches lie
    zr_queue *queue = zr_engine_queue(engine);
    for (int s = 0; s < STEPS; s++) {
        zero_step_info info = {0};
        zr_wrapper *wrapper = NULL;
        t->next = 0;
        if (replays && s >= RECORDED)
            ZERO_TRY(zr_queue_wrap(queue, s == RECORDED ? record : replay, t, &wrapper, error));
        zero_status status = train_step(engine, rows, &info, error);
        zr_queue_unwrap(queue, wrapper);
        ZERO_TRY(status);
        if (rank == 0)
            told[replays][s] = info;
    }
    return ZERO_OK;
}

// Compares a run that replays with one that does not.
static void check(const harness_case *c, int skipped)
{
    static harness_result asked, replayed;
    harness_case run = *c;
    run.drive = drive;
    running = &run;
    memset(tapes, 0, sizeof tapes);
    replays = false;
    harness_run(&run, &asked);
    replays = true;
    harness_run(&run, &replayed);
    int found = 0;
    for (int s = 0; s < STEPS; s++) {
        const zero_step_info *a = &told[0][s], *b = &told[1][s];
        assert_true(a->loss == b->loss);
        assert_true(memcmp(&a->grad_norm, &b->grad_norm, sizeof a->grad_norm) == 0);
        assert_true(a->lr == b->lr && a->skipped == b->skipped && a->loss_scale == b->loss_scale);
        found += s > RECORDED && a->skipped;
    }
    assert_false(told[0][RECORDED].skipped);
    assert_int_equal(found, skipped);
    assert_true(told[0][RECORDED].lr != told[0][RECORDED + 1].lr);
    assert_int_equal(asked.elems, replayed.elems);
    assert_memory_equal(asked.parameters, replayed.parameters,
                        (size_t)asked.elems * sizeof *asked.parameters);
    for (int r = 0; r < c->ranks; r++) {
        assert_false(tapes[r].differs);
        assert_true(tapes[r].count > 50);
        assert_true(tapes[r].replayed >= (STEPS - RECORDED - 1 - skipped) * tapes[r].count);
        zr_free(tapes[r].ops);
    }
}

#define WARM                                                                                       \
    "\"scheduler\": {\"type\": \"WarmupLR\", \"params\": {\"warmup_min_lr\": 0, "                  \
    "\"warmup_max_lr\": 0.01, \"warmup_num_steps\": 20, \"warmup_type\": \"linear\"}}"
#define SCALED(power)                                                                              \
    "\"fp16\": {\"enabled\": true, \"initial_scale_power\": " power                                \
    ", \"loss_scale_window\": 1, \"hysteresis\": 1}, " WARM

static const harness_case base = {.ranks = 1,
                                  .accumulation = 2,
                                  .batch = 2,
                                  .dropout = 0.1f,
                                  .clipping = 0.05,
                                  .precision = WARM};

static void at_every_stage(void **state)
{
    for (int stage = 0; stage <= 3; stage++)
        for (int ranks = 1; ranks <= RANKS; ranks++) {
            harness_case c = base;
            c.stage = stage;
            c.ranks = ranks;
            check(&c, 0);
        }
}

static void with_a_skipped_step(void **state)
{
    harness_case c = base;
    c.precision = SCALED("15");
    check(&c, 1);
}

static void of_every_optimizer(void **state)
{
    static const char *const optimizers[] = {"SGD", "Adagrad", "Lion", "LAMB", "Adam"};
    for (int i = 0; i < ZR_COUNT(optimizers); i++) {
        harness_case c = base;
        c.optimizer = optimizers[i];
        c.precision = "\"bf16\": {\"enabled\": true}, " WARM;
        c.backend = "cpu";
        check(&c, 0);
    }
}

static void of_llama_and_masked_targets(void **state)
{
    const zero_llama_config llama = harness_llama();
    harness_case c = base;
    c.llama = &llama;
    c.masked = true;
    check(&c, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(at_every_stage),
        cmocka_unit_test(with_a_skipped_step),
        cmocka_unit_test(of_every_optimizer),
        cmocka_unit_test(of_llama_and_masked_targets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
