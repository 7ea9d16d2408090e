// Ranks on a grid: what a job computes does not depend on ranks that hold the same once more, and
// every use of a communicator takes the group that it means.
#include "harness.h"
#include "split_mlp.h"

#include "base/file.h"
#include "engine/engine_api.h"
#include "engine/engine_internal.h"
#include "engine/rank_grid.h"
#include "setup/initialize.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zero/grid.h>
#include <cmocka.h>

static void twice_is_the_same(harness_case c)
{
    static harness_result once, twice;
    c.twice = false;
    harness_run(&c, &once);
    c.twice = true;
    harness_run(&c, &twice);
    assert_true(harness_equal(&once, &twice));
    assert_int_equal(once.skipped, twice.skipped);
    harness_expect_held(&once);
    harness_expect_held(&twice);
    assert_memory_equal(&once.memory, &twice.memory, sizeof once.memory);
    static const zero_comm_op moved[] = {ZERO_COMM_reduce_scatter, ZERO_COMM_all_gather};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(once.traffic.calls[moved[i]], twice.traffic.calls[moved[i]]);
        assert_int_equal(once.traffic.bytes[moved[i]], twice.traffic.bytes[moved[i]]);
    }
}

static void stages_are_the_same_twice(void **state)
{
    for (int stage = 0; stage <= 3; stage++)
        for (int ranks = 1; ranks <= 3; ranks++)
            twice_is_the_same((harness_case){.stage = stage,
                                             .ranks = ranks,
                                             .accumulation = 2,
                                             .batch = 2,
                                             .dropout = 0.1f,
                                             .clipping = 0.5});
}

static void numbers_over_all_ranks_count_once(void **state)
{
    const harness_case c = {.stage = 2, .ranks = 2, .accumulation = 2, .batch = 2};
    harness_case lamb = c, masked = c, fp16 = c, bf16 = c;
    lamb.optimizer = "LAMB";
    masked.masked = true;
    fp16.precision = "\"fp16\": {\"enabled\": true, \"initial_scale_power\": 40}";
    bf16.precision = "\"bf16\": {\"enabled\": true}";
    twice_is_the_same(lamb);
    twice_is_the_same(masked);
    twice_is_the_same(fp16);
    twice_is_the_same(bf16);
}

enum { MOST_SQUARES = 64 };

static double squares[2][MOST_SQUARES]; // of LAMB's last norms, over all ranks: once, and again
static double (*now)[MOST_SQUARES] = &squares[0];

static zero_status keep_squares(zero_engine *engine, int step, zero_error *error)
{
    int count = 2 * zr_engine_plan(engine)->tensor_count;
    assert_in_range(count, 1, MOST_SQUARES);
    for (int i = 0; i < count && step == 0 && zr_engine_comm(engine)->rank == 0; i++)
        (*now)[i] = zr_exact_value(&engine->update.squares[i]);
    return ZERO_OK;
}

// Twice the squares of both vectors would be the same ratio, so parameters do not tell that: what
// is added is looked at, of tables with a tied copy and of what several tensor ranks hold.
static void lamb_counts_each_element_once(void **state)
{
    static harness_result out;
    harness_case c = {.stage = 1, .ranks = 1, .accumulation = 2, .batch = 1, .optimizer = "LAMB"};
    c.after = keep_squares;
    c.slices = 2;
    for (int way = 0; way < 3; way++) {
        now = &squares[way > 0];
        c.tensor = way == 1 ? 2 : 1;
        c.stages = way == 2 ? 2 : 0;
        harness_run(&c, &out);
        for (int i = 0; i < MOST_SQUARES; i++)
            assert_true(fabs((*now)[i] - squares[0][i]) <= 1e-6 * squares[0][i]);
    }
}

static void tiers_are_the_same_twice(void **state)
{
    harness_case c = {.stage = 3, .ranks = 2, .accumulation = 2, .batch = 2, .overlap = true};
    c.tiers = harness_tiers(ZERO_TIER_nvme, ZERO_TIER_nvme);
    twice_is_the_same(c);
    c.optimizer = "LAMB";
    c.tiers = harness_tiers(ZERO_TIER_host, ZERO_TIER_host);
    twice_is_the_same(c);
}

// Ranks that hold the same save it once, and all of them load it: a training goes on between a job
// and one twice as large.
static void checkpoints_have_everything_once(void **state)
{
    static harness_result saved, rest;
    char directory[64];
    snprintf(directory, sizeof directory, "%s/zero-grid-XXXXXX", harness_scratch());
    assert_non_null(mkdtemp(directory));
    for (int twice = 0; twice < 2; twice++) {
        harness_case c = {.stage = 2, .ranks = 2, .accumulation = 2, .batch = 2, .save = directory};
        c.twice = twice;
        c.save_at = 2;
        harness_run(&c, &saved);
        c.save = NULL;
        c.load = directory;
        c.twice = !twice;
        harness_run(&c, &rest);
        assert_true(rest.loss[3] == saved.loss[3] && rest.evaluated == saved.evaluated);
        assert_memory_equal(rest.parameters, saved.parameters, sizeof rest.parameters);
        assert_int_equal(zr_directory_remove(directory, NULL), ZERO_OK);
    }
}

static void expect_place(const zero_engine *engine, zero_axis axis, int rank, int size)
{
    int r = -1, s = -1;
    zero_grid_of(engine, axis, &r, &s);
    assert_int_equal(r, rank);
    assert_int_equal(s, size);
    zero_grid_of(engine, axis, NULL, NULL);
}

static zero_status expect_places(zero_engine *engine, int step, zero_error *error)
{
    int world = zr_engine_comm(engine)->rank;
    int64_t number;
    zero_position(engine, NULL, &number);
    expect_place(engine, ZERO_AXIS_tensor, world % 2, 2);
    expect_place(engine, ZERO_AXIS_data, world / 2, 3);
    expect_place(engine, ZERO_AXIS_pipeline, 0, 1);
    expect_place(engine, ZERO_AXIS_COUNT, 0, 0);
    assert_int_equal(number, world / 2);
    assert_int_equal(zr_engine_plan(engine)->world, 6);
    assert_int_equal(zr_engine_plan(engine)->ranks, 3);
    return ZERO_OK;
}

static zero_status expect_one_group(zero_engine *engine, int step, zero_error *error)
{
    const zr_grid *grid = zr_engine_grid(engine);
    expect_place(engine, ZERO_AXIS_tensor, 0, 1);
    expect_place(engine, ZERO_AXIS_data, grid->world->rank, 3);
    assert_ptr_equal(grid->data, grid->world);
    assert_null(grid->tensor);
    return ZERO_OK;
}

static void ranks_know_their_places(void **state)
{
    static harness_result out;
    harness_case c = {.stage = 1, .ranks = 3, .accumulation = 1, .batch = 1};
    c.after = expect_places;
    c.twice = true;
    harness_run(&c, &out);
    c.after = expect_one_group;
    c.twice = false;
    harness_run(&c, &out);
    expect_place(NULL, ZERO_AXIS_tensor, 0, 0);
}

enum { MOST_ELEMS = 64 * SPLIT_WIDTH + SPLIT_WIDTH * SPLIT_WIDTH, MOST_RANKS = 8, SPLIT_STEPS = 3 };

typedef struct split_result {
    double loss[SPLIT_STEPS], norm[SPLIT_STEPS], evaluated;
    float gradients[SPLIT_TENSORS][MOST_ELEMS], parameters[SPLIT_TENSORS][MOST_ELEMS];
} split_result;

typedef struct split_job { // the model on data * tensor ranks
    const split_mlp *whole;
    int data, tensor, stage;
    const char *optimizer;
    const char *tiers; // of zero_optimization; NULL: all is on the device
    bool named_alike;  // tiles have the names of their wholes
    int stages;        // pipeline stages of each; 0: there is no pipeline
    zero_comm *comm;
    split_result *out; // of every rank
} split_job;

static void must(zero_status status, const zero_error *error)
{
    if (status == ZERO_OK)
        return;
    fprintf(stderr, "%s\n", error->message);
    abort();
}

// Data ranks see samples of their own; all 4 micro-batches of a step are the same at any number.
static void fill_batch(int64_t step, int64_t number, float *x, float *target)
{
    for (int i = 0; i < SPLIT_BATCH * SPLIT_WIDTH; i++) {
        x[i] = (float)((i * 7919 + step * 131 + number * 17) % 1000) / 1000 - 0.5f;
        target[i] = (float)((i * 6101 + step * 37 + number * 29) % 1000) / 1000;
    }
}

static void split_step(const split_job *job, zero_engine *engine, int step)
{
    float x[4][SPLIT_BATCH * SPLIT_WIDTH], target[4][SPLIT_BATCH * SPLIT_WIDTH];
    zero_tensors batches[4];
    zero_step_info info;
    zero_error error;
    double loss;
    int64_t number;
    zero_position(engine, NULL, &number);
    for (int k = 0; k < zero_accumulation(engine); k++) {
        fill_batch(step, number + k * job->data, x[k], target[k]);
        batches[k] = (zero_tensors){2,
                                    {{x[k], ZERO_F32, 2, {SPLIT_BATCH, SPLIT_WIDTH}},
                                     {target[k], ZERO_F32, 2, {SPLIT_BATCH, SPLIT_WIDTH}}}};
    }
    for (int k = 0; k < zero_accumulation(engine) && !job->stages; k++) {
        must(zero_forward(engine, &batches[k], &loss, &error), &error);
        must(zero_backward(engine, &error), &error);
        must(zero_step(engine, &info, &error), &error);
    }
    if (job->stages)
        must(zero_train_batch(engine, batches, zero_accumulation(engine), &info, &error), &error);
    assert_int_equal(info.samples, 4 * SPLIT_BATCH);
    job->out->loss[step] = info.loss;
    job->out->norm[step] = info.grad_norm;
}

// With a batch that is smaller than the engine's, so that less is exchanged than planned.
static void split_evaluate(const split_job *job, zero_engine *engine)
{
    float x[SPLIT_BATCH * SPLIT_WIDTH], target[SPLIT_BATCH * SPLIT_WIDTH];
    const zero_tensors batch = {
        2, {{x, ZERO_F32, 2, {1, SPLIT_WIDTH}}, {target, ZERO_F32, 2, {1, SPLIT_WIDTH}}}};
    zero_error error;
    fill_batch(99, 0, x, target);
    must(zero_evaluate(engine, &batch, &job->out->evaluated, &error), &error);
}

static void split_read(const split_job *job, zero_engine *engine)
{
    zero_error error;
    for (int t = 0; t < SPLIT_TENSORS; t++) {
        int64_t count = split_elements(job->whole, t);
        must(zero_read_gradient(engine, split_names[t], job->out->gradients[t], count, &error),
             &error);
        must(zero_read_parameter(engine, split_names[t], job->out->parameters[t], count, &error),
             &error);
    }
}

// before: what the ranks had exchanged when their engines were made.
static void expect_bytes(const split_job *job, const zero_engine *engine,
                         const zero_traffic *before)
{
    int64_t share = (SPLIT_BATCH * SPLIT_WIDTH + job->tensor - 1) / job->tensor;
    int64_t others = job->tensor - 1, calls = SPLIT_STEPS * 4 / job->data * 2;
    zero_traffic after;
    zr_engine_traffic(engine, ZERO_AXIS_tensor, &after);
    const zero_traffic exchanged = zero_traffic_between(before, &after);
    assert_int_equal(exchanged.calls[ZERO_COMM_all_reduce], others ? calls : 0);
    assert_int_equal(exchanged.bytes[ZERO_COMM_all_reduce], calls * 2 * others * share * 4);
}

static zero_status split_open(const split_job *job, const zero_model *model, zero_engine **engine,
                              zero_error *error)
{
    char config[1024];
    snprintf(config, sizeof config,
             "{\"gradient_accumulation_steps\": %d, \"gradient_clipping\": 0.5, "
             "\"zero_optimization\": {\"stage\": %d%s%s}, "
             "\"optimizer\": {\"type\": \"%s\", \"params\": {\"lr\": 0.01}}}",
             4 / job->data, job->stage, job->tiers ? ", " : "", job->tiers ? job->tiers : "",
             job->optimizer);
    const zero_options options = {.struct_size = sizeof options,
                                  .model = model,
                                  .comm = job->comm,
                                  .config_text = config,
                                  .shape = {.batch = SPLIT_BATCH, .seq = 1},
                                  .backend = "ref"};
    const zr_trial trial = {.parallel = {.tensor = job->tensor, .pipeline = job->stages}};
    return zr_initialize(&options, &trial, engine, error);
}

static void *split_rank(void *argument)
{
    const split_job *job = argument;
    split_mlp part;
    zero_engine *engine;
    zero_error error;
    zero_traffic before;
    split_part(&part, job->whole, job->comm->rank % job->tensor, job->tensor);
    for (int t = 1; t <= 3 && job->named_alike; t++)
        part.tensors[t].name = part.tensors[t].tile.whole;
    must(split_open(job, &part.model, &engine, &error), &error);
    zr_engine_traffic(engine, ZERO_AXIS_tensor, &before);
    for (int step = 0; step < SPLIT_STEPS; step++)
        split_step(job, engine, step);
    if (!job->stages)
        expect_bytes(job, engine, &before);
    split_read(job, engine);
    split_evaluate(job, engine);
    must(zero_comm_barrier(job->comm, &error), &error);
    zero_destroy(engine);
    return NULL;
}

// Runs the model, and checks that every rank has the same results.
static void split_run(split_job what, split_result *out)
{
    static split_result results[MOST_RANKS];
    int world = what.data * what.tensor * (what.stages ? what.stages : 1);
    zero_comm *comms[MOST_RANKS];
    split_job jobs[MOST_RANKS];
    pthread_t threads[MOST_RANKS];
    zero_error error;
    memset(results, 0, sizeof results);
    must(zero_comm_threads(world, NULL, comms, &error), &error);
    for (int r = 0; r < world; r++) {
        jobs[r] = what;
        jobs[r].comm = comms[r];
        jobs[r].out = &results[r];
        assert_int_equal(pthread_create(&threads[r], NULL, split_rank, &jobs[r]), 0);
    }
    for (int r = 0; r < world; r++)
        pthread_join(threads[r], NULL);
    for (int r = 0; r < world; r++) {
        zero_comm_destroy(comms[r]);
        // of the data ranks, each evaluates for itself; all have the same batch here
        assert_memory_equal(&results[r], &results[0], sizeof results[0]);
    }
    *out = results[0];
}

static void expect_close(double a, double b)
{
    if (fabs(a - b) > 2e-5 * (1 + fabs(b)))
        fail_msg("%.9g is not about %.9g", a, b);
}

static void results_are_close(const split_mlp *whole, const split_result *a, const split_result *b)
{
    for (int step = 0; step < SPLIT_STEPS; step++) {
        expect_close(a->loss[step], b->loss[step]);
        expect_close(a->norm[step], b->norm[step]);
    }
    expect_close(a->evaluated, b->evaluated);
    for (int t = 0; t < SPLIT_TENSORS; t++)
        for (int64_t i = 0; i < split_elements(whole, t); i++) {
            expect_close(a->gradients[t][i], b->gradients[t][i]);
            expect_close(a->parameters[t][i], b->parameters[t][i]);
        }
}

// At every number of tensor ranks the split model is the whole one, and at each of them every stage
// gives the same bits. Of 3 inner elements, the last of 4 ranks has none.
static void check_split(int64_t inner, const char *optimizer)
{
    static split_result unsplit, first, other;
    static const int tensors[] = {1, 2, 4};
    split_mlp whole;
    split_whole(&whole, inner);
    split_run((split_job){&whole, 1, 1, 0, optimizer}, &unsplit);
    assert_true(unsplit.loss[0] > unsplit.loss[SPLIT_STEPS - 1] && unsplit.norm[0] > 0);
    for (int i = 0; i < 3; i++)
        for (int data = 1; data <= 2; data++) {
            split_run((split_job){&whole, data, tensors[i], 0, optimizer}, &first);
            results_are_close(&whole, &first, &unsplit);
            for (int stage = 1; stage <= 3; stage++) {
                split_run((split_job){&whole, data, tensors[i], stage, optimizer}, &other);
                assert_memory_equal(&first, &other, sizeof first);
            }
        }
}

static void a_split_model_is_the_whole_one(void **state) { check_split(64, "AdamW"); }

// Stages of parts: tensors are read by those names that all ranks know, and count once.
static void parts_are_cut_into_stages(void **state)
{
    static const split_job jobs[] = {
        {.data = 1, .tensor = 2, .stages = 2}, {.data = 1, .tensor = 2, .stages = 3},
        {.data = 2, .tensor = 2, .stages = 2}, {.data = 1, .tensor = 4, .stages = 2},
        {.data = 4, .tensor = 1, .stages = 2}, {.data = 2, .tensor = 1, .stages = 3}};
    static split_result first, other;
    split_mlp whole;
    split_whole(&whole, 3);
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++)
        for (int stage = 0; stage <= 3; stage++) {
            split_job job = jobs[i];
            job.whole = &whole;
            job.stage = stage;
            job.optimizer = stage % 2 ? "LAMB" : "AdamW";
            job.named_alike = stage > 1;
            split_run(job, &other);
            job.stages = 0;
            split_run(job, &first);
            assert_memory_equal(&first, &other, sizeof first);
        }
}

static void tiles_may_have_their_wholes_names(void **state)
{
    static split_result first, other;
    split_mlp whole;
    split_whole(&whole, 64);
    for (int tensor = 1; tensor <= 4; tensor *= 2) {
        split_job job = {&whole, 2, tensor, 3, "AdamW"};
        split_run(job, &first);
        job.named_alike = true;
        split_run(job, &other);
        assert_memory_equal(&first, &other, sizeof first);
    }
}

static void parts_may_be_empty(void **state) { check_split(3, "LAMB"); }

// Shards of no elements travel between tiers, too.
static void empty_parts_go_to_every_tier(void **state)
{
    static split_result device, other;
    static const char *const optimizers[] = {"AdamW", "LAMB"};
    split_mlp whole;
    split_whole(&whole, 3);
    for (int o = 0; o < 2; o++) {
        split_job job = {&whole, 2, 4, 3, optimizers[o]};
        split_run(job, &device);
        for (int tier = ZERO_TIER_host; tier <= ZERO_TIER_nvme; tier++) {
            job.tiers = harness_tiers(tier, tier);
            split_run(job, &other);
            assert_memory_equal(&device, &other, sizeof device);
        }
    }
}

static void *refuse_rank(void *argument)
{
    const split_job *job = argument;
    zero_engine *engine = NULL;
    zero_error error;
    assert_int_equal(split_open(job, &job->whole->model, &engine, &error), ZERO_ERR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "model \"split\" has no split: 2 tensor ranks"));
    assert_null(engine);
    return NULL;
}

static void a_model_without_a_split_is_refused(void **state)
{
    zero_comm *comms[2];
    pthread_t threads[2];
    split_mlp whole;
    zero_error error;
    split_whole(&whole, 64);
    split_job jobs[2] = {{&whole, 1, 2, 0, "AdamW"}, {&whole, 1, 2, 0, "AdamW"}};
    must(zero_comm_threads(2, NULL, comms, &error), &error);
    for (int r = 0; r < 2; r++) {
        jobs[r].comm = comms[r];
        assert_int_equal(pthread_create(&threads[r], NULL, refuse_rank, &jobs[r]), 0);
    }
    for (int r = 0; r < 2; r++)
        pthread_join(threads[r], NULL);
    for (int r = 0; r < 2; r++)
        zero_comm_destroy(comms[r]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_are_the_same_twice),
        cmocka_unit_test(numbers_over_all_ranks_count_once),
        cmocka_unit_test(lamb_counts_each_element_once),
        cmocka_unit_test(tiers_are_the_same_twice),
        cmocka_unit_test(checkpoints_have_everything_once),
        cmocka_unit_test(ranks_know_their_places),
        cmocka_unit_test(a_split_model_is_the_whole_one),
        cmocka_unit_test(parts_are_cut_into_stages),
        cmocka_unit_test(tiles_may_have_their_wholes_names),
        cmocka_unit_test(parts_may_be_empty),
        cmocka_unit_test(empty_parts_go_to_every_tier),
        cmocka_unit_test(a_model_without_a_split_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
