// Norms: squares are summed in double only within a chunk, so a span has the same sum however ranks
// cut it between chunks; and what is not finite in the losses is not taken for the norm's.
#include "harness.h"

#include "engine/engine_internal.h"
#include "engine/update.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { MOST_TENSORS = 64 };

typedef struct sums {
    zr_exact all, by_tensor[MOST_TENSORS];
} sums;

static sums whole, cut;
static int chunks_of_widest; // of all flat parameters that were summed

static void add(zero_engine *engine, int flat_param, zr_span span, const float *values, sums *out)
{
    zr_norm_add_squares(engine, engine->queue, flat_param, span, ZERO_F32, values, &out->all,
                        false);
    zr_norm_add_squares(engine, engine->queue, flat_param, span, ZERO_F32, values, out->by_tensor,
                        true);
}

static zero_status compare(const zr_plan *plan, int flat_param, zero_error *error)
{
    bool same = zr_exact_value(&whole.all) == zr_exact_value(&cut.all);
    for (int t = 0; t < plan->tensor_count; t++)
        same = same && zr_exact_value(&whole.by_tensor[t]) == zr_exact_value(&cut.by_tensor[t]);
    return same && zr_exact_value(&whole.all) > 0
               ? ZERO_OK
               : zr_fail(error, ZERO_ERR_INTERNAL, "\"%s\" in chunks has other sums",
                         plan->flat_params[flat_param].name);
}

// Sums a flat parameter as one rank does that has all of it, and as ranks do of which each has a
// chunk. The values have 24 bits, and a sum of their squares more than a double, so its order is
// visible.
static void sum_flat_param(zero_engine *engine, int flat_param)
{
    int64_t count = engine->plan->flat_params[flat_param].elems;
    float *values = malloc((size_t)count * sizeof *values);
    if (!values)
        abort();
    for (int64_t i = 0; i < count; i++)
        values[i] = sinf((float)(i + 1));
    add(engine, flat_param, (zr_span){0, count}, values, &whole);
    for (int64_t at = 0; at < count; at += ZR_CHUNK)
        add(engine, flat_param, (zr_span){at, ZR_MIN(ZR_CHUNK, count - at)}, values + at, &cut);
    free(values);
}

static zero_status sum_flat_params(zero_engine *engine, zero_error *error)
{
    const zr_plan *plan = engine->plan;
    if (plan->tensor_count > MOST_TENSORS)
        abort();
    for (int p = 0; p < plan->flat_param_count; p++) {
        memset(&whole, 0, sizeof whole);
        memset(&cut, 0, sizeof cut);
        sum_flat_param(engine, p);
        ZERO_TRY(compare(plan, p, error));
        chunks_of_widest = (int)ZR_MAX(chunks_of_widest, plan->flat_params[p].elems / ZR_CHUNK);
    }
    return ZERO_OK;
}

static void a_sum_does_not_depend_on_where_ranks_cut_it(void **state)
{
    static harness_result out;
    static const char *const backends[] = {"ref", "cpu"};
    for (int b = 0; b < 2; b++) {
        chunks_of_widest = 0;
        harness_run(&(harness_case){.stage = 1,
                                    .ranks = 1,
                                    .accumulation = 1,
                                    .batch = 1,
                                    .width = 64,
                                    .backend = backends[b],
                                    .drive = sum_flat_params},
                    &out);
        assert_true(chunks_of_widest > 8);
    }
}

static const zero_unit_ops *head;

static zero_status tell_infinity(zero_context *context, const zero_tensors *in,
                                 const zero_tensors *d_in)
{
    zero_status status = head->forward_backward(context, in, d_in);
    *context->loss = INFINITY;
    return status;
}

// Returns the model with a head whose loss is infinite and whose gradient is what it was.
static const zero_model *without_loss(const zero_model *model)
{
    static zero_model copy;
    static zero_unit units[8];
    static zero_unit_ops ops;
    int last = model->unit_count - 1;
    if (last >= ZR_COUNT(units))
        abort();
    head = model->units[last].ops;
    ops = *head;
    ops.forward_backward = tell_infinity;
    memcpy(units, model->units, (size_t)model->unit_count * sizeof *units);
    units[last].ops = &ops;
    copy = *model;
    copy.units = units;
    return &copy;
}

static void losses_that_are_not_finite_leave_the_norm(void **state)
{
    static harness_result plain, lost;
    for (int ranks = 1; ranks <= 4; ranks++) {
        harness_case c = {
            .stage = ranks - 1, .ranks = ranks, .accumulation = 2, .batch = 1, .clipping = 1};
        harness_run(&c, &plain);
        c.tuned = without_loss;
        harness_run(&c, &lost);
        for (int s = 0; s < HARNESS_STEPS; s++)
            assert_false(isfinite(lost.loss[s]));
        assert_int_equal(lost.skipped, 0);
        assert_memory_equal(lost.norm, plain.norm, sizeof plain.norm);
        assert_memory_equal(lost.parameters, plain.parameters,
                            (size_t)plain.elems * sizeof *plain.parameters);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sum_does_not_depend_on_where_ranks_cut_it),
        cmocka_unit_test(losses_that_are_not_finite_leave_the_norm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
