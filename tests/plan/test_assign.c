// Where values lie: first fit over drawn programs, compared with a model that is as simple as it
// can be; and what holds for the program of any plan.
#include "base/alloc.h"
#include "fixture.h"
#include "pass_text.h"
#include "pipeline_fixture.h"
#include "program_checks.h"
#include "plan/emit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

enum { BLOCKS = 14, VALUES = BLOCKS + 2, SEEDS = 300, MARK = 1000 };

// The way of a flat parameter's gradient. Its bytes are its own from when it is named until its sum
// is awaited.
typedef enum step { UNKNOWN, NAMED, OPENED, REDUCED, ENDED } step;

typedef struct drawn { // a program of two passes, and what has to come out
    uint32_t random;
    zr_plan plan;
    zr_emitter e;
    step steps[VALUES];
    int64_t first[VALUES], bytes[VALUES], most;
    uint32_t awaited[2][VALUES]; // by pass: the flat parameters whose readers an OPEN waits for
    int order[2][VALUES];        // by pass: the flat parameters as they are opened
} drawn;

// The same sequence in every run.
static int draw(drawn *d, uint32_t below)
{
    d->random = d->random * 1664525u + 1013904223u;
    return (int)((d->random >> 8) % below);
}

static bool share_bytes(const drawn *d, int p, int64_t first, int q)
{
    return first < d->first[q] + d->bytes[q] && d->first[q] < first + d->bytes[p];
}

static bool is_free(const drawn *d, int p, int64_t first)
{
    for (int q = 0; q < VALUES; q++)
        if (d->steps[q] > UNKNOWN && d->steps[q] < ENDED && share_bytes(d, p, first, q))
            return false;
    return true;
}

// Names a gradient, which lies as low as possible: at the beginning or after another one.
static zr_buffer_ref name(drawn *d, int p)
{
    int64_t lowest = is_free(d, p, 0) ? 0 : INT64_MAX;
    for (int q = 0; q < VALUES && d->steps[p] == UNKNOWN; q++) {
        int64_t end = d->first[q] + d->bytes[q];
        if (d->steps[q] > UNKNOWN && end < lowest && is_free(d, p, end))
            lowest = end;
    }
    if (d->steps[p] == UNKNOWN) {
        d->first[p] = lowest;
        d->most = ZR_MAX(d->most, lowest + d->bytes[p]);
        d->steps[p] = NAMED;
    }
    return zr_emit_sums(&d->e, ZR_BUFFER_GRADIENTS, p);
}

static void open_gradient(drawn *d, int p)
{
    const zr_buffer_ref place = name(d, p);
    zr_emit_await_bytes(&d->e, ZR_ALWAYS, p, place, ZR_SLOT_READERS);
    zr_emit(&d->e, &(zr_instruction){.code = ZR_OPEN, .flat_param = p, .place = place});
}

static void reduce(drawn *d, int p)
{
    zr_emit(&d->e,
            &(zr_instruction){
                .code = ZR_REDUCE, .flat_param = p, .place = name(d, p), .slot = {ZR_SLOT_SUM, p}});
}

// Takes one step of flat parameter p; returns whether it was opened.
static bool take_step(drawn *d, int p)
{
    bool opens = d->steps[p] == NAMED || (d->steps[p] == UNKNOWN && draw(d, 2));
    if (opens)
        open_gradient(d, p);
    else if (d->steps[p] == UNKNOWN)
        name(d, p);
    else if (d->steps[p] == OPENED)
        reduce(d, p);
    else if (d->steps[p] == REDUCED)
        zr_emit_await(&d->e, ZR_ALWAYS, ZR_SLOT_SUM, p);
    d->steps[p] += opens ? OPENED - d->steps[p] : d->steps[p] >= OPENED && d->steps[p] < ENDED;
    return opens;
}

// Marks the end of something with an instruction that nothing else writes.
static void mark(drawn *d, int number)
{
    zr_emit(&d->e, &(zr_instruction){.code = ZR_UNBIND, .flat_param = -1, .stream = number});
}

// Draws the first pass: all flat parameters at the same time, partly in a call, whose end is
// marked, as is the end of forward.
static void draw_micro_batch(drawn *d)
{
    zr_pass *pass = d->e.pass = &d->plan.program.passes[ZR_PASS_MICRO_BATCH];
    int opened = 0, ended = 0, calls = 20 + draw(d, 20), call = 0;
    for (int turn = 0; ended < VALUES; turn++) {
        if (turn == calls) {
            call = pass->count;
            zr_emit(&d->e, &(zr_instruction){.code = ZR_CALL, .flat_param = -1});
        }
        int p = draw(d, VALUES);
        if (take_step(d, p))
            d->order[0][opened++] = p;
        ended = 0;
        for (int q = 0; q < VALUES; q++)
            ended += d->steps[q] == ENDED;
        if (turn == calls + 10) {
            mark(d, MARK);
            pass->at[call].body = pass->count - call - 1;
            mark(d, MARK + 1);
            pass->forward_end = pass->count;
        }
    }
    assert_int_equal(opened, VALUES);
}

// The second pass uses some of them one by one, each where it lay.
static void draw_evaluation(drawn *d)
{
    d->e.written += d->e.pass->count;
    d->e.pass = &d->plan.program.passes[ZR_PASS_EVALUATION];
    for (int i = 0; i < VALUES; i++) {
        int p = d->order[1][i] = (5 * i + 3) % VALUES;
        open_gradient(d, p);
        reduce(d, p);
        zr_emit_await(&d->e, ZR_ALWAYS, ZR_SLOT_SUM, p);
    }
}

// Notes what an OPEN waits for in a pass that begins with these, a bit each. Returns what is left.
static uint32_t note_awaits(drawn *d, int pass, uint32_t lies)
{
    for (int i = 0; i < VALUES; i++) {
        int p = d->order[pass][i];
        uint32_t here = 0;
        for (int q = 0; q < VALUES; q++)
            here |= share_bytes(d, p, d->first[p], q) ? 1u << q : 0;
        d->awaited[pass][p] = lies & here;
        lies = (lies & ~here) | 1u << p;
    }
    return lies;
}

static void check_pass(const drawn *d, int number)
{
    const zr_pass *pass =
        &d->plan.program.passes[number ? ZR_PASS_EVALUATION : ZR_PASS_MICRO_BATCH];
    uint32_t awaited = 0;
    for (int i = 0; i < pass->count; i++) {
        const zr_instruction *next = &pass->at[i];
        assert_int_equal(next->place.value, 0);
        if (next->code == ZR_OPEN) {
            assert_int_equal(next->place.first, d->first[next->flat_param]);
            assert_int_equal(awaited, d->awaited[number][next->flat_param]);
        }
        bool readers = next->code == ZR_AWAIT && next->slot.kind == ZR_SLOT_READERS;
        awaited = readers ? awaited | 1u << next->slot.index : 0;
        if (next->code == ZR_CALL)
            assert_int_equal(pass->at[i + next->body].stream, MARK);
    }
    if (!number)
        assert_int_equal(pass->at[pass->forward_end - 1].stream, MARK + 1);
}

static void drawn_begin(drawn *d, const zr_plan *plan, uint32_t seed)
{
    *d = (drawn){.random = seed, .plan = *plan};
    d->plan.program = (zr_program){0};
    d->plan.grad_bytes = d->plan.gather_bytes = 0;
    d->e = (zr_emitter){.plan = &d->plan, .written = ZR_FIRST_INSTRUCTION};
    assert_int_equal(zr_values_begin(&d->e.values, &d->plan, NULL), ZERO_OK);
    for (int p = 0; p < VALUES; p++) { // sizes of their own
        d->plan.flat_params[p].shard = 1 + draw(d, 40);
        d->bytes[p] = d->plan.ranks * zr_flat_param_gradient_shard_bytes(&plan->flat_params[p]);
    }
}

static void values_lie_as_low_as_they_can(void **state)
{
    static drawn d;
    fixture f;
    fixture_build(&f, BLOCKS, 1000, 96);
    zr_plan *plan = fixture_plan(&f, 2, 2, 1, true);
    assert_int_equal(plan->flat_param_count, VALUES);
    for (uint32_t seed = 1; seed <= SEEDS; seed++) {
        drawn_begin(&d, plan, seed);
        draw_micro_batch(&d);
        draw_evaluation(&d);
        assert_int_equal(zr_assign_places(&d.plan, &d.e.values, NULL), ZERO_OK);
        uint32_t lies = note_awaits(&d, 0, 0) | note_awaits(&d, 1, 0);
        for (int pass = 0; pass < 2; pass++) {
            note_awaits(&d, pass, lies);
            check_pass(&d, pass);
        }
        assert_int_equal(d.plan.grad_bytes, d.most);
        for (int p = 0; p < VALUES; p++)
            assert_int_equal(plan->flat_params[p].grad_first, d.first[p]);
        zr_values_end(&d.e.values);
        zr_program_destroy(&d.plan.program);
    }
    zr_plan_destroy(plan);
}

// A value that is stored leaves with its STORE, and what comes to its bytes waits for the transfer.
static void what_is_stored_is_awaited_where_it_lay(void **state)
{
    const pass_concern concern = {BIT(ZR_AWAIT) | BIT(ZR_FETCH) | BIT(ZR_STORE) | BIT(ZR_REDUCE),
                                  BIT(ZR_SLOT_TRAVELLED), 0};
    const zr_tiering tiering = {.optimizer = ZERO_TIER_nvme, .block = 1 << 20};
    fixture f;
    fixture_build(&f, 3, 96, 96);
    zr_plan *plan = fixture_plan_on_tiers(&f, 2, 1, 1, &tiering);
    const zr_pass *pass = &plan->program.passes[ZR_PASS_MICRO_BATCH];
    // h.0's sum lies where the head's and h.2's lay, and in the micro-batch before its own; the
    // embedding's where h.1's lay.
    assert_int_equal(plan->flat_params[1].accumulator_first, 0);
    expect_pass(pass, &concern,
                "AWAIT travelled 1 | REDUCE 4 | AWAIT travelled 0 | REDUCE 3 | STORE travelled 4"
                " | REDUCE 2 | STORE travelled 3"
                " | AWAIT travelled 4 | AWAIT travelled 3 | REDUCE 1 | STORE travelled 2"
                " | AWAIT travelled 2 | REDUCE 0 | STORE travelled 1 | STORE travelled 0");
    zr_plan_destroy(plan);
}

static void kept_flat_params_come_first(void **state)
{
    zr_tiering tiering = fixture_on_nvme;
    int kept = 0, others = 0;
    fixture f;
    fixture_build(&f, 5, 1000, 96);
    tiering.persistent = tiering.persistent_most = 200000;
    zr_plan *plan = fixture_plan_on_tiers(&f, 3, 2, 1, &tiering);
    int64_t end = 0;
    for (int p = 0; p < plan->flat_param_count; p++)
        if (plan->flat_params[p].kept_first >= 0)
            end += plan->ranks * zr_flat_param_shard_bytes(&plan->flat_params[p]);
    const zr_pass *pass = &plan->program.passes[ZR_PASS_MICRO_BATCH];
    for (const zr_instruction *i = pass->at; i < pass->at + pass->count; i++) {
        if (i->code != ZR_GATHER || i->place.buffer != ZR_BUFFER_GATHERED)
            continue;
        bool keeps = plan->flat_params[i->flat_param].kept_first >= 0;
        assert_int_equal(i->place.first < end, keeps);
        assert_int_equal(i->when, keeps ? ZR_OUTDATED : ZR_ALWAYS);
        *(keeps ? &kept : &others) += 1;
    }
    assert_true(kept > 0 && others > 0);
    zr_plan_destroy(plan);
}

// Whichever allocation fails, nothing but its error is left.
static void a_failed_allocation_is_the_error(void **state)
{
    const zero_shape shape = {.batch = 2, .seq = 8};
    const zr_machine machine = {.ranks = 2, .threads = 1};
    zr_settings settings = fixture_settings(ZERO_BF16, 3, 2);
    zr_plan *plan = NULL;
    zero_error error;
    fixture f;
    fixture_build_streamed(&f, 3, 1000, 96);
    settings.tiering = fixture_on_nvme;
    for (int64_t nth = 0, count = 1; nth <= count; nth++) {
        int64_t before = zr_alloc_count();
        zr_alloc_fail_at(nth); // first none
        zero_status status = zr_plan_create(&f.model, &shape, &settings, &machine, &plan, &error);
        assert_int_equal(status, nth ? ZERO_ERR_MEMORY : ZERO_OK);
        if (nth == 0) {
            count = zr_alloc_count() - before;
            zr_plan_destroy(plan);
        }
    }
    zr_alloc_fail_at(0);
}

static void no_transfer_is_written_over(void **state)
{
    program_for_all(program_check_transfers);
    pipeline_for_each(program_check_transfers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_lie_as_low_as_they_can),
        cmocka_unit_test(what_is_stored_is_awaited_where_it_lay),
        cmocka_unit_test(kept_flat_params_come_first),
        cmocka_unit_test(a_failed_allocation_is_the_error),
        cmocka_unit_test(no_transfer_is_written_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
