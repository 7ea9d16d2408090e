// Pipelines over MPI: each end of a link has slots of its own, nothing is mapped, and losses, norms
// and weights have the bits of ranks that are threads.
#include "harness.h"
#include "pipeline_faults.h"

#include "base/alloc.h"
#include "base/random.h"
#include "setup/initialize.h"

#include "../comm/mpirun.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { LAYERS = 6, ACCUMULATION = 4, BATCH = 2, STEPS = 3, WINDOW = 2, MOST = 8, TOLD = 512 };

static const struct grid {
    const char *name;
    int ranks, stages, tensor, zero_stage;
    const char *schedule;
} grids[] = {
    {"two", 2, 2, 1, 1, "zb-h1"},
    {"three", 3, 3, 1, 0, "gpipe"},
    {"tensor", 4, 2, 2, 2, "1f1b"},
    {"data", 4, 2, 1, 3, "interleaved:2"},
    {"2bw", 4, 4, 1, 1, "2bw"},
    {"2bw-data", 4, 2, 1, 3, "2bw"},
    {"pipedream", 4, 2, 1, 2, "pipedream"},
    {"pipedream-tensor", 4, 2, 2, 0, "pipedream"},
};

// Hashes the model's weights as this rank reads them.
static zero_status hash_weights(zero_engine *engine, const zero_model *model, uint64_t *hash,
                                zero_error *error)
{
    static _Thread_local float values[8192];
    *hash = 0;
    for (int u = 0; u < model->unit_count; u++)
        for (int p = 0; p < model->units[u].flat_param_count; p++)
            for (int t = 0; t < model->units[u].flat_params[p].tensor_count; t++) {
                const zero_tensor_desc *tensor = &model->units[u].flat_params[p].tensors[t];
                int64_t elems = 1;
                for (int d = 0; d < tensor->dims; d++)
                    elems *= tensor->shape[d];
                assert_true(elems <= ZR_COUNT(values));
                ZERO_TRY(zero_read_parameter(engine, tensor->name, values, elems, error));
                *hash = zr_hash_bytes(values, (size_t)elems * sizeof *values, *hash);
            }
    return ZERO_OK;
}

typedef struct rows {
    int32_t tokens[BATCH * HARNESS_SEQ], targets[BATCH * HARNESS_SEQ];
} rows;

// Makes a step or, of an asynchronous schedule, a window.
static zero_status train_steps(zero_engine *engine, int64_t steps, zero_step_info *infos,
                               zero_error *error)
{
    rows r[WINDOW * ACCUMULATION];
    zero_tensors batches[WINDOW * ACCUMULATION];
    int64_t step, number;
    int data;
    zero_position(engine, &step, &number);
    zero_grid_of(engine, ZERO_AXIS_data, NULL, &data);
    for (int64_t k = 0; k < steps * ACCUMULATION; k++) {
        harness_batch(step + k / ACCUMULATION, (number + k % ACCUMULATION * data) * BATCH, BATCH,
                      r[k].tokens, r[k].targets);
        batches[k] = harness_tensors(BATCH, r[k].tokens, r[k].targets);
    }
    if (zero_window(engine) > 1)
        return zero_train_window(engine, batches, steps, infos, error);
    return zero_train_batch(engine, batches, ACCUMULATION, infos, error);
}

// Evaluates a batch that is smaller than those of a step.
static zero_status evaluate(zero_engine *engine, double *loss, zero_error *error)
{
    rows r;
    harness_batch(999, 0, 1, r.tokens, r.targets);
    const zero_tensors batch = harness_tensors(1, r.tokens, r.targets);
    return zero_evaluate(engine, &batch, loss, error);
}

// Trains, and tells all that has to be the same.
static zero_status tell(zero_engine *engine, const zero_model *model, char *out, zero_error *error)
{
    int used = 0;
    double loss;
    uint64_t hash;
    zero_step_info infos[STEPS + 1];
    for (int64_t s = 0, n; s < STEPS; s += n) {
        n = ZR_MIN(zero_window(engine), STEPS - s);
        ZERO_TRY(train_steps(engine, n, &infos[s], error));
    }
    for (int s = 0; s < STEPS; s++)
        used += snprintf(out + used, (size_t)(TOLD - used), "%.17g %.17g ", infos[s].loss,
                         infos[s].grad_norm);
    ZERO_TRY(evaluate(engine, &loss, error));
    ZERO_TRY(hash_weights(engine, model, &hash, error));
    snprintf(out + used, (size_t)(TOLD - used), "%.17g %016llx", loss, (unsigned long long)hash);
    return ZERO_OK;
}

static zero_status run_grid(zero_comm *comm, const struct grid *grid, char *out, zero_error *error)
{
    zero_llama_config config = harness_llama();
    zero_model *model;
    zero_engine *engine = NULL;
    char text[192];
    config.n_layer = LAYERS;
    config.tied = 0;
    ZERO_TRY(zero_llama_create(&config, &model, error));
    snprintf(text, sizeof text,
             "{\"gradient_accumulation_steps\": %d, \"zero_optimization\": {\"stage\": %d}, "
             "\"gradient_clipping\": 0, \"libzero\": {\"pipeline\": {\"flush_every\": %d}}}",
             ACCUMULATION, grid->zero_stage, WINDOW);
    const zero_options options = {.struct_size = sizeof options,
                                  .model = model,
                                  .comm = comm,
                                  .config_text = text,
                                  .shape = {.batch = BATCH, .seq = HARNESS_SEQ},
                                  .backend = "ref"};
    const zr_trial trial = {
        .parallel = {.tensor = grid->tensor, .pipeline = grid->stages, .schedule = grid->schedule}};
    zero_status status = zr_initialize(&options, &trial, &engine, error);
    if (status == ZERO_OK)
        status = tell(engine, model, out, error);
    if (status == ZERO_OK)
        status = zero_comm_barrier(comm, error);
    zero_destroy(engine);
    zero_llama_destroy(model);
    return status;
}

typedef struct rank {
    const struct grid *grid;
    zero_comm *comm;
    char told[TOLD];
    zero_status status;
    zero_error error;
} rank;

static void *run_thread(void *argument)
{
    rank *self = argument;
    self->status = run_grid(self->comm, self->grid, self->told, &self->error);
    return NULL;
}

static void run_on_threads(const struct grid *grid, rank ranks[MOST])
{
    zero_comm *comms[MOST];
    pthread_t threads[MOST];
    assert_int_equal(zero_comm_threads(grid->ranks, NULL, comms, NULL), ZERO_OK);
    for (int r = 0; r < grid->ranks; r++) {
        ranks[r] = (rank){.grid = grid, .comm = comms[r]};
        assert_int_equal(pthread_create(&threads[r], NULL, run_thread, &ranks[r]), 0);
    }
    for (int r = 0; r < grid->ranks; r++)
        pthread_join(threads[r], NULL);
    for (int r = 0; r < grid->ranks; r++) {
        if (ranks[r].status != ZERO_OK)
            fail_msg("rank %d: %s", r, ranks[r].error.message);
        zero_comm_destroy(comms[r]);
    }
}

static zero_status run_and_print(zero_comm *comm, int grid, zero_error *error)
{
    char told[TOLD];
    ZERO_TRY(run_grid(comm, &grids[grid], told, error));
    printf("[rank %d: %s]\n", zero_comm_rank(comm), told);
    return ZERO_OK;
}

static zero_status run_two(zero_comm *comm, zero_error *error)
{
    return run_and_print(comm, 0, error);
}

static zero_status run_three(zero_comm *comm, zero_error *error)
{
    return run_and_print(comm, 1, error);
}

static zero_status run_tensor(zero_comm *comm, zero_error *error)
{
    return run_and_print(comm, 2, error);
}

static zero_status run_data(zero_comm *comm, zero_error *error)
{
    return run_and_print(comm, 3, error);
}

static zero_status run_2bw(zero_comm *comm, zero_error *error)
{
    return run_and_print(comm, 4, error);
}

static zero_status run_2bw_data(zero_comm *comm, zero_error *error)
{
    return run_and_print(comm, 5, error);
}

static zero_status run_pipedream(zero_comm *comm, zero_error *error)
{
    return run_and_print(comm, 6, error);
}

static zero_status run_pipedream_tensor(zero_comm *comm, zero_error *error)
{
    return run_and_print(comm, 7, error);
}

static zero_status run_broken(zero_comm *comm, zero_error *error)
{
    const fault fault = {.kind = FAULT_BACKWARD,
                         .schedule = "1f1b",
                         .rank = 3,
                         .step = 1,
                         .micro_batch = 2,
                         .unit = "layers.2"};
    return fault_run(comm, &fault, error);
}

static const mpirun_scenario scenarios[] = {
    {.name = "two", .run = run_two},
    {.name = "three", .run = run_three},
    {.name = "tensor", .run = run_tensor},
    {.name = "data", .run = run_data},
    {.name = "2bw", .run = run_2bw},
    {.name = "2bw-data", .run = run_2bw_data},
    {.name = "pipedream", .run = run_pipedream},
    {.name = "pipedream-tensor", .run = run_pipedream_tensor},
    {.name = "broken", .run = run_broken},
};

// mpi: ranks of a machine share what they gather at stage 3.
static void messages_give_the_bits_of_threads(void **state)
{
    static rank ranks[MOST];
    char text[16384], words[TOLD + 32];
    if (mpirun_reason_to_skip())
        skip();
    for (int g = 0; g < ZR_COUNT(grids); g++) {
        run_on_threads(&grids[g], ranks);
        int status = mpirun_self(grids[g].ranks, "mpi", grids[g].name, "30", text, sizeof text);
        for (int r = 0; r < grids[g].ranks; r++) {
            snprintf(words, sizeof words, "[rank %d: %s]", r, ranks[r].told);
            expect_words(text, words);
        }
        assert_int_equal(status, 0);
    }
}

static void a_unit_that_fails_ends_all(void **state)
{
    char text[16384];
    if (mpirun_reason_to_skip())
        skip();
    assert_int_not_equal(mpirun_self(FAULT_WORLD, "mpi", "broken", "30", text, sizeof text), 0);
    expect_words(text, "[rank 3 ends with ERR_DATA: unit layers.2 is broken (rank 3, pipeline "
                       "stage 1 of 3, chunk 0: backward of micro-batch 2)]");
    expect_words(text, "rank 3 gave up at step 1: unit layers.2 is broken (rank 3, pipeline stage "
                       "1 of 3, chunk 0: backward of micro-batch 2)]");
}

int main(int count, char **arguments)
{
    if (count == 5 && !strcmp(arguments[1], "rank"))
        return mpirun_rank(scenarios, ZR_COUNT(scenarios), arguments);
    mpirun_program = arguments[0];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_give_the_bits_of_threads),
        cmocka_unit_test(a_unit_that_fails_ends_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
