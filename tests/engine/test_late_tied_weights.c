// Shared tables under pipedream, where the stages of owner and tied copy are at different steps:
// the bits do not depend on ZeRO or on data ranks' exchanges, a window of one step is a synchronous
// step, and with late gradients each stage reads the version that
// plan/pipeline/tied_weights.h says.
#include "window_runs.h"

#include "engine/engine_api.h"
#include "layers/layers.h"

#include "../sanitizers.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

enum { WIDTH = 16, UNITS = 6, STEPS = 12, MOST_MICRO_BATCHES = 2 };

static windows_result one, other;

static windows_case tied(const char *schedule, int stages)
{
    return (windows_case){.base = {.ranks = 2,
                                   .accumulation = 2,
                                   .batch = 1,
                                   .layers = 4,
                                   .schedule = schedule,
                                   .stages = stages},
                          .libzero = "\"exact_pipeline\": true"};
}

static void a_window_of_one_step_is_synchronous(void **state)
{
    for (int zero = SANITIZED; zero <= 2; zero++) {
        windows_case c = tied(NULL, 0);
        c.base.stage = zero;
        windows_run(&c, &one);
        c.base.schedule = "pipedream";
        for (c.base.stages = 2; c.base.stages <= 4; c.base.stages += 1 + SANITIZED) {
            memcpy(c.lengths, (int[WINDOWS_MOST]){1, 1, 1, 1, 1, 1, 1, 3}, sizeof c.lengths);
            windows_run(&c, &other);
            windows_expect_same(&one, &other, "pipedream of single steps");
        }
    }
}

static void bits_do_not_depend_on_zero(void **state)
{
    for (int stages = 2; stages <= 4; stages += 2)
        for (int k = 1; k <= 3; k += 2 + SANITIZED) {
            windows_case c = tied("pipedream", stages);
            c.base.accumulation = k;
            memcpy(c.lengths, (int[WINDOWS_MOST]){5, 2}, sizeof c.lengths);
            windows_run(&c, &one);
            for (c.base.stage = 1; c.base.stage <= 2; c.base.stage++) {
                windows_run(&c, &other);
                windows_expect_same(&one, &other, "pipedream at another stage of ZeRO");
            }
        }
}

static bool is_table(const void *user, const char *name) { return strstr(name, user) != NULL; }

// Nothing of it is sent, neither when it is drawn nor after updates.
static void a_frozen_table_stays(void **state)
{
    static const struct zr_lm_frozen frozen = {is_table, "wte"};
    windows_case c = tied(NULL, 0);
    c.base.frozen = &frozen;
    windows_run(&c, &one);
    c.base.stages = 3;
    c.base.schedule = "pipedream";
    memcpy(c.lengths, (int[WINDOWS_MOST]){1, 1, 1, 1, 1, 1, 1, 3}, sizeof c.lengths);
    windows_run(&c, &other);
    windows_expect_same(&one, &other, "a frozen table");
}

// A chain of units that each add a vector of their own; some add that of the first one, too. The
// loss is the mean square of what comes out.
typedef struct link_kind {
    bool borrows, last;
} link_kind;

static const link_kind *kind_of(const zero_unit *unit) { return unit->hyper; }

static zero_status sizes(const zero_unit *unit, const zero_shape *shape, const zero_tensors *in,
                         zero_unit_sizes *out)
{
    *out = (zero_unit_sizes){.saved_bytes = WIDTH * sizeof(float), .backward_reads = 0xff};
    if (!kind_of(unit)->last)
        out->out =
            (zero_tensors){1, {{.dtype = ZERO_F32, .dims = 2, .shape = {shape->batch, WIDTH}}}};
    return ZERO_OK;
}

static zero_status forward(zero_context *c, const zero_tensors *in, const zero_tensors *out)
{
    const link_kind *kind = kind_of(c->unit);
    const float *x = in->count ? in->at[0].data : c->batch->at[0].data;
    const float *own = zero_parameter(c, 0, 0),
                *table = kind->borrows ? zero_parameter(c, 1, 0) : NULL;
    float *y = kind->last ? c->saved : out->at[0].data;
    double sum = 0;
    for (int i = 0; i < WIDTH; i++) {
        y[i] = x[i] + own[i] + (table ? table[i] : 0);
        sum += (double)y[i] * (double)y[i];
    }
    if (kind->last)
        *c->loss = sum / WIDTH;
    return ZERO_OK;
}

static zero_status backward(zero_context *c, const zero_tensors *in, const zero_tensors *d_out,
                            const zero_tensors *d_in)
{
    const link_kind *kind = kind_of(c->unit);
    float dy[WIDTH];
    for (int i = 0; i < WIDTH; i++)
        dy[i] = kind->last ? 2 * ((const float *)c->saved)[i] / WIDTH * c->loss_factor
                           : ((const float *)d_out->at[0].data)[i];
    for (int flat_param = 0; flat_param < 1 + kind->borrows; flat_param++) {
        int add = 0;
        float *d = zero_gradient(c, flat_param, 0, &add);
        for (int i = 0; i < WIDTH; i++)
            d[i] = (add ? d[i] : 0) + dy[i];
    }
    if (d_in->count)
        memcpy(d_in->at[0].data, dy, sizeof dy);
    return ZERO_OK;
}

static const zero_unit_ops chain_ops = {
    .kind = "layer", .sizes = sizes, .forward = forward, .backward = backward};

// Set before a run: units that borrow, as bits; micro-batches of a step; windows, of which the last
// one is kept.
static unsigned borrowers;
static int accumulation, windows;

static const zero_model *model_of_chain(const zero_model *unused)
{
    static char names[UNITS][2][16];
    static link_kind kinds[UNITS];
    static zero_tensor_desc tensors[UNITS];
    static zero_flat_param_desc flat_params[UNITS];
    static zero_unit units[UNITS];
    static const zero_flat_param_ref first = {0, 0};
    static const zero_model model = {"chain", UNITS, units};
    for (int u = 0; u < UNITS; u++) {
        kinds[u] = (link_kind){.borrows = borrowers >> u & 1, .last = u == UNITS - 1};
        snprintf(names[u][0], sizeof names[u][0], "layer.%d", u);
        snprintf(names[u][1], sizeof names[u][1], "layer.%d.b", u);
        tensors[u] = (zero_tensor_desc){.name = names[u][1],
                                        .dims = 1,
                                        .shape = {WIDTH},
                                        .init = ZERO_INIT_NORMAL,
                                        .init_value = 0.1f,
                                        .tp_axis = -1,
                                        .tp_parts = 1};
        flat_params[u] = (zero_flat_param_desc){ZERO_TRAINABLE, 1, &tensors[u]};
        units[u] = (zero_unit){names[u][0],
                               &chain_ops,
                               &kinds[u],
                               1,
                               &flat_params[u],
                               kinds[u].borrows,
                               kinds[u].borrows ? &first : NULL};
    }
    return &model;
}

static void sample(int micro_batch, float *x)
{
    for (int i = 0; i < WIDTH; i++)
        x[i] = (float)((micro_batch * 7 + i * 3) % 11) / 11;
}

static float start[UNITS][WIDTH];
static double losses[STEPS];

// Trains a window, and keeps on rank 0 with which weights it began and what it told.
static zero_status train_window(zero_engine *engine, zero_error *error)
{
    static _Thread_local float x[STEPS * MOST_MICRO_BATCHES][WIDTH];
    zero_tensors batches[STEPS * MOST_MICRO_BATCHES];
    zero_step_info infos[STEPS];
    bool first = zr_engine_comm(engine)->rank == 0;
    for (int u = 0; u < UNITS; u++) {
        char name[16];
        float values[WIDTH];
        snprintf(name, sizeof name, "layer.%d.b", u);
        ZERO_TRY(zero_read_parameter(engine, name, values, WIDTH, error));
        if (first)
            memcpy(start[u], values, sizeof values);
    }
    for (int k = 0; k < STEPS * accumulation; k++) {
        sample(k, x[k]);
        batches[k] = (zero_tensors){1, {{x[k], ZERO_F32, 2, {1, WIDTH}}}};
    }
    ZERO_TRY(zero_train_window(engine, batches, STEPS, infos, error));
    for (int t = 0; t < STEPS && first; t++)
        losses[t] = infos[t].loss;
    return ZERO_OK;
}

static zero_status drive(zero_engine *engine, zero_error *error)
{
    for (int w = 0; w < windows; w++)
        ZERO_TRY(train_window(engine, error));
    return ZERO_OK;
}

static void run_chain(int zero)
{
    const harness_case c = {.stage = zero,
                            .ranks = 1,
                            .accumulation = accumulation,
                            .batch = 1,
                            .tuned = model_of_chain,
                            .optimizer = "SGD",
                            .stages = UNITS,
                            .schedule = "pipedream",
                            .split = "0,1,2,3,4,5",
                            .drive = drive,
                            .precision = "\"libzero\": {\"pipeline\": {\"flush_every\": 12}}"};
    harness_run(&c, &other.run);
}

// Returns the updates of a stage before its forward of a micro-batch.
static int updates_before(int stage, int micro_batch)
{
    int late = UNITS - 1 - stage;
    return micro_batch > late ? (micro_batch - late) / accumulation : 0;
}

// Returns those of the table's owner that the stage `borrower` has taken by then.
static int table_updates(int borrower, int micro_batch)
{
    int own = updates_before(borrower, micro_batch) * accumulation;
    return own > borrower ? (own - borrower) / accumulation : 0;
}

// Computes the losses of all steps, one micro-batch after another, from all versions of weights.
static void emulate(int borrower, double *out)
{
    static double weights[UNITS][STEPS + 1][WIDTH];
    for (int u = 0; u < UNITS; u++)
        for (int i = 0; i < WIDTH; i++)
            weights[u][0][i] = (double)start[u][i];
    for (int t = 0; t < STEPS; t++) {
        double gradient[WIDTH] = {0};
        out[t] = 0;
        for (int n = t * accumulation; n < (t + 1) * accumulation; n++) {
            float x[WIDTH];
            sample(n, x);
            for (int i = 0; i < WIDTH; i++) {
                double y = (double)x[i] + weights[0][table_updates(borrower, n)][i];
                for (int u = 0; u < UNITS; u++)
                    y += weights[u][updates_before(u, n)][i];
                out[t] += y * y / WIDTH / accumulation;
                gradient[i] += 2 * y / WIDTH / accumulation;
            }
        }
        for (int u = 0; u < UNITS; u++)
            for (int i = 0; i < WIDTH; i++)
                weights[u][t + 1][i] = weights[u][t][i] - 0.01 * gradient[i] * (u == 0 ? 2 : 1);
    }
}

static void tied_copies_are_of_the_version_that_is_due(void **state)
{
    for (accumulation = 1; accumulation <= MOST_MICRO_BATCHES; accumulation++)
        for (int borrower = 1; borrower < UNITS; borrower += 1 + SANITIZED) {
            double expected[STEPS];
            borrowers = 1u << borrower;
            windows = 1 + (borrower + accumulation) % 2;
            run_chain(borrower % 3);
            emulate(borrower, expected);
            for (int t = 0; t < STEPS; t++)
                if (!(fabs(losses[t] - expected[t]) < 1e-6 * expected[t]))
                    fail_msg("stage %d borrows, step %d: loss %.9f, expected %.9f", borrower, t + 1,
                             losses[t], expected[t]);
        }
}

// One tied copy is near its owner and one far away: neither waits for ever.
static void tied_copies_at_several_distances_end(void **state)
{
    borrowers = 1u << 1 | 1u << (UNITS - 1);
    windows = 1;
    for (accumulation = 1; accumulation <= MOST_MICRO_BATCHES; accumulation++)
        run_chain(1);
    assert_true(losses[STEPS - 1] < losses[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_window_of_one_step_is_synchronous),
        cmocka_unit_test(bits_do_not_depend_on_zero),
        cmocka_unit_test(a_frozen_table_stays),
        cmocka_unit_test(tied_copies_are_of_the_version_that_is_due),
        cmocka_unit_test(tied_copies_at_several_distances_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
