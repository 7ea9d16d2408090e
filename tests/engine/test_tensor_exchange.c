// Exchanges of units with other tensor ranks: every kind, among all of them and among those that
// share a flat parameter; and units that exchange other things than they say.
#include "engine/rank_grid.h"
#include "model/unit.h"
#include "setup/initialize.h"

#include "../comm/mpirun.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { SHARE = 48, ELEMS = 256, TENSOR = 4, SHARING = 2, WORLD = 8, FIRST = 64 }; // FIRST: a byte

typedef enum mistake {
    NONE,
    MORE,
    MORE_AMONG_KV_REPLICAS,
    MORE_IN_EVALUATION,
    BEYOND_THE_WINDOW,
    AMONG_THREE
} mistake;

static zero_status sizes(const zero_unit *unit, const zero_shape *shape, const zero_tensors *in,
                         zero_unit_sizes *out)
{
    *out = (zero_unit_sizes){
        .backward_reads = 1,
        .exchange_count = 7,
        .exchanges = {{ZERO_EXCHANGE_SUM, 0, 0, SHARE, ZERO_F32, 1},
                      {ZERO_EXCHANGE_SCATTER, 0, 0, SHARE, ZERO_F32, 1},
                      {ZERO_EXCHANGE_GATHER, 0, 0, SHARE, ZERO_F32, 1},
                      {ZERO_EXCHANGE_GATHER, 0, 0, SHARE, ZERO_BF16, 1},
                      {ZERO_EXCHANGE_SUM, 1, SHARING, SHARE, ZERO_F32, 1},
                      {ZERO_EXCHANGE_SCATTER, 1, SHARING, SHARE, ZERO_F32, 1},
                      {ZERO_EXCHANGE_GATHER, 1, SHARING, SHARE, ZERO_F32, 1}},
        .exchange_bytes = FIRST + TENSOR * SHARE * sizeof(float),
    };
    return ZERO_OK;
}

// What rank r of a group has as element i of its operand.
static float operand(int rank, int i) { return (float)(1000 * (rank + 1) + i); }

// Exchanges among `ranks` ranks, this one being number `rank` of those that begin with rank
// `first`, and checks what it gets.
static zero_status try_kind(const zero_context *context, zero_exchange_kind kind, int replicas)
{
    const struct zr_exchanger *e = context->exchanger;
    float *x = (float *)(void *)(e->window + FIRST);
    int ranks = replicas ? replicas : e->size, rank = e->rank % ranks, first = e->rank - rank;
    for (int i = 0; i < ranks * SHARE; i++)
        x[i] = operand(e->rank, i);
    ZERO_TRY(e->run(e, context, kind, replicas, FIRST, SHARE, ZERO_F32));
    for (int i = 0; i < ranks * SHARE; i++) {
        float sum = 0;
        for (int r = 0; r < ranks; r++)
            sum += operand(first + r, i);
        if (kind == ZERO_EXCHANGE_SUM || (kind == ZERO_EXCHANGE_SCATTER && i / SHARE == rank))
            assert_true(x[i] == sum);
        if (kind == ZERO_EXCHANGE_GATHER)
            assert_true(x[i] == operand(first + i / SHARE, i));
    }
    return ZERO_OK;
}

static zero_status gather_halves(const zero_context *context)
{
    const struct zr_exchanger *e = context->exchanger;
    uint16_t *x = (uint16_t *)(void *)e->window;
    for (int i = 0; i < e->size * SHARE; i++)
        x[i] = (uint16_t)(e->rank << 8 | (i & 255));
    ZERO_TRY(e->run(e, context, ZERO_EXCHANGE_GATHER, 0, 0, SHARE, ZERO_BF16));
    for (int i = 0; i < e->size * SHARE; i++)
        assert_int_equal(x[i], i / SHARE << 8 | (i & 255));
    return ZERO_OK;
}

static zero_status forward(zero_context *context, const zero_tensors *in, const zero_tensors *out)
{
    const struct zr_exchanger *e = context->exchanger;
    const mistake *mistake = context->unit->hyper;
    *context->loss = 1;
    if (*mistake == BEYOND_THE_WINDOW)
        return e->run(e, context, ZERO_EXCHANGE_SUM, 0, FIRST + 64, SHARE, ZERO_F32);
    if (*mistake == AMONG_THREE)
        return e->run(e, context, ZERO_EXCHANGE_SUM, 3, 0, SHARE, ZERO_F32);
    ZERO_TRY(try_kind(context, ZERO_EXCHANGE_SUM, 0));
    ZERO_TRY(try_kind(context, ZERO_EXCHANGE_SCATTER, 0));
    ZERO_TRY(try_kind(context, ZERO_EXCHANGE_GATHER, 0));
    ZERO_TRY(try_kind(context, ZERO_EXCHANGE_GATHER, 1)); // alone: nothing
    if (*mistake == MORE || (*mistake == MORE_IN_EVALUATION && !context->training))
        ZERO_TRY(try_kind(context, ZERO_EXCHANGE_GATHER, 0));
    return gather_halves(context);
}

static zero_status backward(zero_context *context, const zero_tensors *in,
                            const zero_tensors *d_out, const zero_tensors *d_in)
{
    const float *w = zero_parameter(context, 0, 0);
    const mistake *mistake = context->unit->hyper;
    int add;
    float *dw = zero_gradient(context, 0, 0, &add);
    for (int i = 0; i < ELEMS / SHARING; i++)
        dw[i] = w[i] * context->loss_factor;
    ZERO_TRY(try_kind(context, ZERO_EXCHANGE_SUM, SHARING));
    ZERO_TRY(try_kind(context, ZERO_EXCHANGE_SCATTER, SHARING));
    ZERO_TRY(try_kind(context, ZERO_EXCHANGE_GATHER, SHARING));
    return *mistake == MORE_AMONG_KV_REPLICAS ? try_kind(context, ZERO_EXCHANGE_SUM, SHARING)
                                              : ZERO_OK;
}

static const zero_unit_ops probe = {
    .kind = "probe", .sizes = sizes, .forward = forward, .backward = backward};

typedef struct probe_model { // a vector, of which two neighbouring tensor ranks hold one half
    zero_tensor_desc tensor;
    zero_flat_param_desc flat_param;
    zero_unit unit;
    zero_model model;
} probe_model;

static void build(probe_model *m, const mistake *mistake)
{
    m->tensor = (zero_tensor_desc){.name = "w",
                                   .dims = 1,
                                   .shape = {ELEMS},
                                   .init = ZERO_INIT_NORMAL,
                                   .init_value = 1,
                                   .tp_axis = 0,
                                   .tp_parts = 1};
    m->flat_param = (zero_flat_param_desc){ZERO_TRAINABLE, 1, &m->tensor};
    m->unit = (zero_unit){"probe", &probe, mistake, 1, &m->flat_param, 0, NULL};
    m->model = (zero_model){"probe", 1, &m->unit};
}

static void build_part(probe_model *m, const probe_model *whole, int rank)
{
    build(m, whole->unit.hyper);
    m->tensor.name = "w/half";
    m->tensor.shape[0] = ELEMS / SHARING;
    m->tensor.tile = (zero_tile){"w", 0, rank / SHARING * (ELEMS / SHARING), ELEMS};
    m->flat_param.replicas = SHARING;
    m->model.whole = &whole->model;
}

typedef struct job {
    const probe_model *whole;
    zero_comm *comm;
    int stage;
    double norm;
    float w[ELEMS];
    zero_traffic traffic;
    zero_status status;
    zero_error error;
} job;

static zero_status train(job *job, zero_engine *engine)
{
    float x = 0;
    const zero_tensors batch = {1, {{&x, ZERO_F32, 1, {1}}}};
    zero_step_info info;
    zero_traffic before, after;
    double loss;
    ZERO_TRY(zero_read_parameter(engine, "w", job->w, ELEMS, &job->error));
    zr_engine_traffic(engine, ZERO_AXIS_tensor, &before);
    ZERO_TRY(zero_forward(engine, &batch, &loss, &job->error));
    ZERO_TRY(zero_backward(engine, &job->error));
    ZERO_TRY(zero_step(engine, &info, &job->error));
    job->norm = info.grad_norm;
    zr_engine_traffic(engine, ZERO_AXIS_tensor, &after);
    job->traffic = zero_traffic_between(&before, &after);
    ZERO_TRY(zero_evaluate(engine, &batch, &loss, &job->error));
    return zero_comm_barrier(job->comm, &job->error);
}

static void *run_rank(void *argument)
{
    job *job = argument;
    char config[96];
    probe_model part;
    zero_engine *engine = NULL;
    build_part(&part, job->whole, zero_comm_rank(job->comm) % TENSOR);
    snprintf(config, sizeof config, "{\"zero_optimization\": {\"stage\": %d}}", job->stage);
    const zero_options options = {.struct_size = sizeof options,
                                  .model = &part.model,
                                  .comm = job->comm,
                                  .config_text = config,
                                  .shape = {.batch = 1, .seq = 1},
                                  .backend = "ref"};
    job->status =
        zr_initialize(&options, &(zr_trial){.parallel = {.tensor = TENSOR}}, &engine, &job->error);
    if (job->status == ZERO_OK)
        job->status = train(job, engine);
    zero_destroy(engine);
    return NULL;
}

static void run(mistake mistake, int stage, job jobs[WORLD])
{
    probe_model whole;
    zero_comm *comms[WORLD];
    pthread_t threads[WORLD];
    build(&whole, &mistake);
    assert_int_equal(zero_comm_threads(WORLD, NULL, comms, NULL), ZERO_OK);
    for (int r = 0; r < WORLD; r++) {
        jobs[r] = (job){.whole = &whole, .comm = comms[r], .stage = stage};
        assert_int_equal(pthread_create(&threads[r], NULL, run_rank, &jobs[r]), 0);
    }
    for (int r = 0; r < WORLD; r++)
        pthread_join(threads[r], NULL);
    for (int r = 0; r < WORLD; r++)
        zero_comm_destroy(comms[r]);
}

// The norm has each half of the vector once.
static void every_kind_is_exchanged(void **state)
{
    static job jobs[WORLD];
    for (int stage = 0; stage <= 3; stage++) {
        run(NONE, stage, jobs);
        double squares = 0;
        for (int i = 0; i < ELEMS; i++)
            squares += (double)jobs[0].w[i] * jobs[0].w[i];
        for (int r = 0; r < WORLD; r++) {
            if (jobs[r].status != ZERO_OK)
                fail_msg("rank %d: %s", r, jobs[r].error.message);
            assert_memory_equal(jobs[r].w, jobs[0].w, sizeof jobs[0].w);
            assert_true(fabs(jobs[r].norm - sqrt(squares)) < 1e-5 * sqrt(squares));
            assert_true(jobs[r].norm == jobs[0].norm);
        }
        assert_int_equal(jobs[0].traffic.calls[ZERO_COMM_all_reduce], 2);
        assert_int_equal(jobs[0].traffic.bytes[ZERO_COMM_all_reduce], (6 + 2) * SHARE * 4);
        assert_int_equal(jobs[0].traffic.bytes[ZERO_COMM_reduce_scatter], (3 + 1) * SHARE * 4);
        assert_int_equal(jobs[0].traffic.bytes[ZERO_COMM_all_gather],
                         (3 + 1) * SHARE * 4 + 3 * SHARE * 2);
    }
}

// Run by mpirun_self: one rank of every_kind_is_exchanged.
static int run_under_mpi(const char *kind, const char *stage, const char *timeout)
{
    static const mistake none = NONE;
    static job job;
    probe_model whole;
    const zero_comm_options options = {
        .struct_size = sizeof options, .timeout_seconds = atof(timeout), .kind = kind};
    build(&whole, &none);
    job = (struct job){.whole = &whole, .stage = atoi(stage)};
    job.status = zero_comm_open(&options, &job.comm, &job.error);
    if (job.status == ZERO_OK)
        run_rank(&job);
    printf("rank %d: %s, norm %.17g, %lld bytes\n", job.comm ? zero_comm_rank(job.comm) : -1,
           job.status == ZERO_OK ? "good" : job.error.message, job.norm,
           (long long)job.traffic.bytes[ZERO_COMM_all_reduce]);
    zero_comm_destroy(job.comm);
    return job.status != ZERO_OK;
}

// Over MPI, operands pass through staging, and nothing is mapped.
static void messages_give_the_same(void **state)
{
    static job jobs[WORLD];
    char text[16384], words[64];
    if (mpirun_reason_to_skip())
        skip();
    for (int stage = 1; stage <= 3; stage += 2) {
        run(NONE, stage, jobs);
        snprintf(words, sizeof words, "%d", stage);
        assert_int_equal(mpirun_self(WORLD, "mpi", words, "30", text, sizeof text), 0);
        for (int r = 0; r < WORLD; r++) {
            snprintf(words, sizeof words, "rank %d: good, norm %.17g, %lld bytes", r, jobs[r].norm,
                     (long long)jobs[r].traffic.bytes[ZERO_COMM_all_reduce]);
            expect_words(text, words);
        }
    }
}

static void expect_refused(mistake mistake, const char *words)
{
    static job jobs[WORLD];
    int said = 0;
    run(mistake, 1, jobs);
    for (int r = 0; r < WORLD; r++) {
        assert_true(jobs[r].status == ZERO_ERR_INTERNAL || jobs[r].status == ZERO_ERR_PEER);
        said += strstr(jobs[r].error.message, words) != NULL;
    }
    assert_true(said > 0);
}

static void what_was_not_planned_is_refused(void **state)
{
    static const char unit[] = "; unit \"probe\" has exchanged other things than its "
                               "zero_unit_sizes.exchanges list";
    expect_refused(MORE, "micro-batch, among ranks of group tensor: 5 messages with hash");
    expect_refused(MORE, unit);
    expect_refused(MORE_AMONG_KV_REPLICAS, "among ranks of group sharing: 4 messages with hash");
    expect_refused(MORE_AMONG_KV_REPLICAS, unit);
    expect_refused(MORE_IN_EVALUATION, "group tensor: 5 messages with hash");
    expect_refused(MORE_IN_EVALUATION, "; zero_unit_sizes.exchanges lists what a unit exchanges");
    expect_refused(BEYOND_THE_WINDOW, "an exchange of 768 bytes at 128 does not lie in the 832");
    expect_refused(AMONG_THREE, "an exchange among 3 of 4 tensor ranks was not planned");
}

int main(int count, char **arguments)
{
    if (count == 5 && !strcmp(arguments[1], "rank"))
        return run_under_mpi(arguments[2], arguments[3], arguments[4]);
    mpirun_program = arguments[0];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_is_exchanged),
        cmocka_unit_test(messages_give_the_same),
        cmocka_unit_test(what_was_not_planned_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
