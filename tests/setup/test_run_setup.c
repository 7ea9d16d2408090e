// The plan that an estimate makes for a rank that need not exist is the plan of the engine that
// this rank gets: same hashes, same instructions, same bytes, in every tier.
#include "layers/layers.h"
#include "engine/engine_api.h"
#include "setup/estimate.h"
#include "setup/initialize.h"
#include "setup/machine_facts.h"

#include <pthread.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

enum { MOST_RANKS = 4, SEQ = 16 };

typedef struct run_case {
    const char *name;
    int ranks;
    const char *config; // without its outer braces
} run_case;

static const run_case cases[] = {
    {"stage 0", 1, "\"zero_optimization\": {\"stage\": 0}"},
    {"stage 1", 2, "\"zero_optimization\": {\"stage\": 1}"},
    {"stage 2, accumulated", 2,
     "\"zero_optimization\": {\"stage\": 2}, \"gradient_accumulation_steps\": 2"},
    {"stage 3, bf16", 4, "\"zero_optimization\": {\"stage\": 3}, \"bf16\": {\"enabled\": true}"},
    {"stage 3, states and parameters on the host", 2,
     "\"zero_optimization\": {\"stage\": 3, \"offload_optimizer\": {\"device\": \"cpu\"}, "
     "\"offload_param\": {\"device\": \"cpu\"}}"},
    {"activations computed again", 2,
     "\"zero_optimization\": {\"stage\": 2}, \"activation_checkpointing\": "
     "{\"number_checkpoints\": 2}"},
    {"tensor ranks", 4,
     "\"zero_optimization\": {\"stage\": 2}, \"tensor_parallel\": {\"autotp_size\": 2}"},
    {"a pipeline", 2, "\"pipeline\": {\"stages\": 2}, \"gradient_accumulation_steps\": 4"},
    {"a pipeline of tensor ranks", 4,
     "\"pipeline\": {\"stages\": 2}, \"gradient_accumulation_steps\": 2, "
     "\"tensor_parallel\": {\"autotp_size\": 2}"},
    {"tied tables apart", 2, "\"libzero\": {\"exact_pipeline\": true}"},
};

typedef struct job {
    const run_case *of;
    zero_comm *comm;
    const zero_model *model;
    const char *text;
    zero_error error;
    bool same;
} job;

static bool same_programs(const zr_plan *a, const zr_plan *b)
{
    for (int kind = 0; kind < ZR_PASSES; kind++) {
        const zr_pass *one = &a->program.passes[kind], *other = &b->program.passes[kind];
        if (one->count != other->count)
            return false;
        for (int i = 0; i < one->count; i++)
            if (one->at[i].code != other->at[i].code || one->at[i].bytes != other->at[i].bytes)
                return false;
    }
    return true;
}

// The scratch of products depends on threads alone, and the limits of memory are no part of a plan.
static bool same_plans(const zr_plan *a, const zr_plan *b)
{
    return a->hash == b->hash && a->job_hash == b->job_hash && same_programs(a, b) &&
           a->tensor_rank == b->tensor_rank && a->ranks == b->ranks && a->mapped == b->mapped &&
           !memcmp(a->bytes, b->bytes, sizeof a->bytes);
}

static zero_status estimated_plan(const job *of, const zero_engine *engine, zr_estimate *estimate,
                                  zr_model_part *part, zr_rank_plan *out, zero_error *error)
{
    const zr_plan *made = zr_engine_plan(engine);
    const zr_config *config = zr_engine_config(engine);
    ZERO_TRY(zr_estimate_begin(estimate->question, estimate, error));
    ZERO_TRY(zr_model_part_make(of->model, "a model", config, made->tensor_rank, part, error));
    int stage = made->pipeline ? made->pipeline->stage : 0;
    return zr_estimate_plan(estimate, stage, made->tensor_rank, part, out, error);
}

// Estimates the plan of the engine's rank.
static zero_status compare_estimate(job *of, zero_engine *engine, zero_error *error)
{
    zr_estimate_question question = {.model = of->model,
                                     .name = "a model",
                                     .config = zr_engine_config(engine),
                                     .seq = SEQ,
                                     .ranks = of->of->ranks,
                                     .threads = 1};
    zr_estimate estimate = {.question = &question};
    zr_model_part part = {0};
    zr_rank_plan rank = {0};
    zr_machine_fill(zr_engine_queue(engine), NULL, &question.machine);
    zero_status status = estimated_plan(of, engine, &estimate, &part, &rank, error);
    of->same = status == ZERO_OK && same_plans(zr_engine_plan(engine), rank.plan);
    zr_rank_plan_free(&rank);
    zr_model_part_free(&part);
    zr_estimate_free(&estimate);
    return status;
}

static void *run_rank(void *user)
{
    job *of = user;
    zero_engine *engine = NULL;
    const zero_options options = {.struct_size = sizeof options,
                                  .model = of->model,
                                  .comm = of->comm,
                                  .config_text = of->text,
                                  .shape = {.batch = 1, .seq = SEQ},
                                  .threads = 1,
                                  .total_steps = 10};
    if (zero_initialize(&options, &engine, &of->error) == ZERO_OK)
        compare_estimate(of, engine, &of->error);
    zero_destroy(engine);
    return NULL;
}

static void run_case_of(const run_case *c, const zero_model *model)
{
    zero_comm *comms[MOST_RANKS];
    job jobs[MOST_RANKS];
    pthread_t threads[MOST_RANKS];
    zero_error error = {0};
    char text[512];
    snprintf(text, sizeof text, "{\"train_micro_batch_size_per_gpu\": 1, %s}", c->config);
    assert_int_equal(zero_comm_threads(c->ranks, NULL, comms, &error), ZERO_OK);
    for (int r = 0; r < c->ranks; r++) {
        jobs[r] = (job){.of = c, .comm = comms[r], .model = model, .text = text};
        assert_int_equal(pthread_create(&threads[r], NULL, run_rank, &jobs[r]), 0);
    }
    for (int r = 0; r < c->ranks; r++)
        pthread_join(threads[r], NULL);
    for (int r = 0; r < c->ranks; r++) {
        if (jobs[r].error.status != ZERO_OK)
            fail_msg("%s, rank %d: %s", c->name, r, jobs[r].error.message);
        if (!jobs[r].same)
            fail_msg("%s: rank %d's engine has another plan than its estimate", c->name, r);
        zero_comm_destroy(comms[r]);
    }
}

static void test_an_engine_has_the_plan_of_its_estimate(void **state)
{
    static const char *const specs[] = {
        "gpt2:layers=4,heads=4,width=64,context=32,vocab=128",
        "llama:layers=4,heads=4,kv_heads=2,width=64,context=32,vocab=128"};
    for (size_t s = 0; s < sizeof specs / sizeof *specs; s++) {
        zr_lm_config shape;
        zero_model *model;
        zero_error error = {0};
        bool given;
        if (zr_lm_parse_spec(specs[s], &shape, &given, &error) != ZERO_OK ||
            zr_lm_create(&shape, &model, &error) != ZERO_OK)
            fail_msg("%s", error.message);
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
            run_case_of(&cases[c], model);
        zr_lm_free(model);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_engine_has_the_plan_of_its_estimate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
