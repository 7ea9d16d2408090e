#include "harness.h"

#include "layers/layers.h"
#include "setup/initialize.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { MOST_RANKS = 16 };

typedef struct rank_job {
    const harness_case *c;
    const zero_model *model;
    zero_comm *comm;
    harness_result *out; // NULL: this rank's results are not looked at
    harness_failure failure;
} rank_job;

static void must(zero_status status, const zero_error *error, const char *what)
{
    if (status == ZERO_OK)
        return;
    fprintf(stderr, "%s: %s: %s\n", what, zero_status_name(status), error->message);
    abort();
}

const char *harness_scratch(void)
{
    const char *chosen = getenv("TMPDIR");
    return chosen ? chosen : access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
}

const char *harness_tiers(int optimizer, int parameters)
{
    static const char *const devices[] = {"none", "cpu", "nvme"};
    static char text[512];
    snprintf(text, sizeof text,
             "\"offload_optimizer\": {\"device\": \"%s\", \"nvme_path\": \"%s\"},"
             "\"offload_param\": {\"device\": \"%s\", \"nvme_path\": \"%s\"},"
             "\"sub_group_size\": 3000, \"stage3_param_persistence_threshold\": 0",
             devices[optimizer], harness_scratch(), devices[parameters], harness_scratch());
    return text;
}

void harness_batch(int64_t step, int64_t first_sample, int64_t batch, int32_t *tokens,
                   int32_t *targets)
{
    for (int64_t s = 0; s < batch; s++)
        for (int64_t t = 0; t < HARNESS_SEQ; t++) {
            uint64_t at =
                (uint64_t)(step * 1000 + first_sample + s) * 2654435761u + (uint64_t)t * 40503u;
            uint64_t next = at + 40503u;
            tokens[s * HARNESS_SEQ + t] = (int32_t)((at >> 7) % HARNESS_VOCAB);
            targets[s * HARNESS_SEQ + t] = (int32_t)((next >> 7) % HARNESS_VOCAB);
        }
}

int64_t harness_mask(int64_t step, int64_t first_sample, int64_t batch, int32_t *targets)
{
    int64_t all = 0;
    for (int64_t s = 0; s < batch; s++) {
        int64_t sample = first_sample + s, kept = sample * (sample + 2 + step) % (HARNESS_SEQ + 1);
        for (int64_t t = kept; t < HARNESS_SEQ; t++)
            targets[s * HARNESS_SEQ + t] = -100;
        all += kept;
    }
    return all;
}

zero_tensors harness_tensors(int64_t batch, int32_t *tokens, int32_t *targets)
{
    return (zero_tensors){2,
                          {{tokens, ZERO_I32, 2, {batch, HARNESS_SEQ}},
                           {targets, ZERO_I32, 2, {batch, HARNESS_SEQ}}}};
}

enum { MOST_MICRO_BATCHES = 16 };

zero_tensors harness_micro_batch(const harness_case *c, int64_t step, int64_t g, harness_rows *r)
{
    harness_batch(step, g * c->batch, c->batch, r->tokens, r->targets);
    if (c->masked)
        harness_mask(step, g * c->batch, c->batch, r->targets);
    return harness_tensors(c->batch, r->tokens, r->targets);
}

static zero_status train_micro_batch(const harness_case *c, zero_engine *engine, harness_rows *r,
                                     zero_step_info *info, zero_error *error)
{
    int64_t step, g;
    double loss;
    zero_position(engine, &step, &g);
    const zero_tensors batch = harness_micro_batch(c, step, g, r);
    ZERO_TRY(zero_forward(engine, &batch, &loss, error));
    ZERO_TRY(zero_backward(engine, error));
    return zero_step(engine, info, error);
}

// Makes a step of a pipeline. Only the first and the last stage are given the batches.
static zero_status train_pipeline(const harness_case *c, zero_engine *engine, zero_step_info *info,
                                  zero_error *error)
{
    harness_rows all[MOST_MICRO_BATCHES];
    zero_tensors batches[MOST_MICRO_BATCHES];
    int64_t step, g;
    int stage, stages, data;
    zero_position(engine, &step, &g);
    zero_grid_of(engine, ZERO_AXIS_pipeline, &stage, &stages);
    zero_grid_of(engine, ZERO_AXIS_data, NULL, &data);
    for (int k = 0; k < c->accumulation; k++)
        batches[k] = harness_micro_batch(c, step, g + (int64_t)k * data, &all[k]);
    bool reads = stage == 0 || stage == stages - 1;
    return zero_train_batch(engine, reads ? batches : NULL, c->accumulation, info, error);
}

// *saving: where it goes on beside the step, which ends it.
static zero_status save(const harness_case *c, int s, zero_engine *engine, zero_checkpoint **saving,
                        zero_error *error)
{
    *saving = NULL;
    if (!c->save || c->save_at != s)
        return ZERO_OK;
    return c->overlapped ? zero_begin_checkpoint(engine, c->save, saving, error)
                         : zero_save_checkpoint(engine, c->save, error);
}

static void note_step(const rank_job *job, int s, const zero_step_info *info)
{
    if (!job->out)
        return;
    job->out->loss[s] = info->loss;
    job->out->norm[s] = info->grad_norm;
    job->out->skipped += info->skipped;
}

static zero_status train_step(const rank_job *job, int s, zero_engine *engine, harness_rows *r,
                              zero_error *error)
{
    const harness_case *c = job->c;
    zero_step_info info = {0};
    zero_checkpoint *saving;
    ZERO_TRY(save(c, s, engine, &saving, error));
    if (c->at_step)
        c->at_step(job->comm, s);
    for (int k = 0; k < c->accumulation && c->stages < 2; k++)
        ZERO_TRY(train_micro_batch(c, engine, r, &info, error));
    if (c->stages > 1)
        ZERO_TRY(train_pipeline(c, engine, &info, error));
    zero_status saved = saving ? zero_end_checkpoint(saving, error) : ZERO_OK;
    if (saving && job->out)
        job->out->saved = saved;
    note_step(job, s, &info);
    return c->after ? c->after(engine, s, error) : ZERO_OK;
}

static zero_status evaluate(const rank_job *job, zero_engine *engine, harness_rows *r,
                            zero_error *error)
{
    double evaluated;
    harness_batch(999, 0, 1, r->tokens, r->targets);
    const zero_tensors batch = harness_tensors(1, r->tokens, r->targets);
    ZERO_TRY(zero_evaluate(engine, &batch, &evaluated, error));
    if (job->out)
        job->out->evaluated = evaluated;
    return ZERO_OK;
}

static zero_status train(const rank_job *job, zero_engine *engine, zero_error *error)
{
    const harness_case *c = job->c;
    harness_rows r;
    int64_t begin = 0, end = c->steps ? c->steps : HARNESS_STEPS, none;
    if (c->load)
        ZERO_TRY(zero_load_checkpoint(engine, c->load, error));
    if (c->drive)
        return c->drive(engine, error);
    if (c->after)
        ZERO_TRY(c->after(engine, -1, error));
    zero_position(engine, &begin, &none);
    for (int s = (int)begin; s < end; s++)
        ZERO_TRY(train_step(job, s, engine, &r, error));
    if (c->at_step)
        c->at_step(job->comm, (int)end);
    return evaluate(job, engine, &r, error);
}

static zero_status read_tensors(const rank_job *job, zero_engine *engine, float *values,
                                int64_t *count, zero_error *error)
{
    int64_t at = 0;
    for (int u = 0; u < job->model->unit_count; u++)
        for (int p = 0; p < job->model->units[u].flat_param_count; p++)
            for (int t = 0; t < job->model->units[u].flat_params[p].tensor_count; t++) {
                const zero_tensor_desc *tensor = &job->model->units[u].flat_params[p].tensors[t];
                int64_t elems = 1;
                for (int d = 0; d < tensor->dims; d++)
                    elems *= tensor->shape[d];
                if (at + elems > HARNESS_MAX_ELEMS)
                    abort();
                ZERO_TRY(zero_read_parameter(engine, tensor->name, values + at, elems, error));
                at += elems;
            }
    *count = at;
    return ZERO_OK;
}

static zero_status read_back(const rank_job *job, zero_engine *engine, zero_error *error)
{
    float *values = malloc(HARNESS_MAX_ELEMS * sizeof *values);
    int64_t at = 0;
    zero_status status = read_tensors(job, engine, values, &at, error);
    if (job->out) {
        memcpy(job->out->parameters, values, (size_t)at * sizeof *values);
        job->out->elems = at;
        zero_memory_report(engine, &job->out->memory);
        zero_traffic_report(engine, &job->out->traffic);
        zero_io_report(engine, &job->out->io);
    }
    free(values);
    return status;
}

static const zr_io_faults nothing_lingers = {.overwrite = true};

static zero_model *cut(const rank_job *job)
{
    const harness_case *c = job->c;
    const zr_lm_slices slices = {.count = c->slices,
                                 .ranks = c->tensor,
                                 .rank = zero_comm_rank(job->comm) % c->tensor,
                                 .exact = !c->inexact,
                                 .by_rows = c->by_rows};
    zero_error error = {0};
    zero_model *part = NULL;
    must(zr_lm_cut(job->model, &slices, NULL, &part, &error), &error, "part");
    if (c->changes_part)
        c->changes_part(part, job->comm);
    return part;
}

// Returns how many ranks of a job there are for each data rank.
static int ranks_each(const harness_case *c)
{
    return c->twice ? 2 : (c->slices ? c->tensor : 1) * (c->stages ? c->stages : 1);
}

// Returns how many ranks tell what they returned.
static int ranks_told(const harness_case *c)
{
    return c->ranks * (c->slices ? c->tensor : 1) * (c->stages ? c->stages : 1);
}

static void write_config(const harness_case *c, char *out, size_t size)
{
    snprintf(out, size,
             "{\"train_micro_batch_size_per_gpu\": %d, \"gradient_accumulation_steps\": %d, "
             "\"gradient_clipping\": %g,"
             " \"zero_optimization\": {\"stage\": %d, \"reduce_bucket_size\": %lld, "
             "\"overlap_comm\": %s%s%s}, \"optimizer\": {\"type\": \"%s\", \"params\": {\"lr\": "
             "0.01, \"weight_decay\": 0.1}}%s%s}",
             c->batch, c->accumulation, c->clipping, c->stage,
             (long long)(c->bucket ? c->bucket : 500000000), c->overlap ? "true" : "false",
             c->tiers ? ", " : "", c->tiers ? c->tiers : "", c->optimizer ? c->optimizer : "AdamW",
             c->precision ? ", " : "", c->precision ? c->precision : "");
}

static void *run_rank(void *argument)
{
    rank_job *job = argument;
    const harness_case *c = job->c;
    zero_model *part = NULL;
    char config[2048];
    write_config(c, config, sizeof config);
    if (c->slices)
        part = cut(job);
    zero_options options = {.struct_size = sizeof options,
                            .model = part ? part : job->model,
                            .comm = job->comm,
                            .config_text = config,
                            .shape = {.batch = c->batch, .seq = HARNESS_SEQ},
                            .threads = 1,
                            .seed = 7,
                            .backend = c->backend ? c->backend : "ref"};
    const zr_trial trial = {.faults = c->faults ? c->faults : &nothing_lingers,
                            .parallel = {.tensor = c->twice    ? 2
                                                   : c->slices ? c->tensor
                                                               : 0,
                                         .pipeline = c->stages,
                                         .schedule = c->schedule,
                                         .split = c->split},
                            .unsplit = c->twice};
    zero_engine *engine = NULL;
    zero_error *error = &job->failure.error;
    zero_status status = zr_initialize(&options, &trial, &engine, error);
    if (status == ZERO_OK)
        status = train(job, engine, error);
    if (status == ZERO_OK)
        status = read_back(job, engine, error);
    if (status == ZERO_OK)
        status = zero_comm_barrier(job->comm, error);
    job->failure.status = status;
    zero_destroy(engine);
    zr_lm_free(part);
    return NULL;
}

static zero_model *make_frozen(const harness_case *c, const zr_lm_config *config)
{
    zero_error error = {0};
    zero_model *model = NULL;
    must(zr_lm_create_frozen(config, c->frozen, &model, &error), &error, "model");
    return model;
}

zero_llama_config harness_llama(void)
{
    zero_llama_config config;
    zero_llama_defaults(&config);
    config.vocab_size = HARNESS_VOCAB;
    config.max_positions = HARNESS_SEQ;
    config.hidden_size = 16;
    config.intermediate_size = 24;
    config.n_layer = 2;
    config.n_head = 4;
    config.n_kv_head = 2;
    return config;
}

zero_model *harness_model(const harness_case *c)
{
    zero_gpt2_config gpt2;
    zero_error error = {0};
    zero_model *model = NULL;
    if (c->lm) {
        must(zr_lm_create_frozen(c->lm, c->frozen, &model, &error), &error, "model");
        return model;
    }
    if (c->llama && c->frozen)
        return make_frozen(c, &(zr_lm_config){.kind = ZR_LM_LLAMA, .llama = *c->llama});
    if (c->llama) {
        must(zero_llama_create(c->llama, &model, &error), &error, "model");
        return model;
    }
    zero_gpt2_defaults(&gpt2);
    gpt2.vocab_size = c->vocabulary ? c->vocabulary : HARNESS_VOCAB;
    gpt2.n_positions = HARNESS_SEQ;
    gpt2.n_embd = c->width ? c->width : 16;
    gpt2.n_head = c->heads ? c->heads : 2;
    gpt2.n_layer = c->layers ? c->layers : 2;
    gpt2.resid_pdrop = gpt2.embd_pdrop = gpt2.attn_pdrop = c->dropout;
    gpt2.tiles_embedding = c->tiles_embedding;
    gpt2.tiles_attention = c->tiles_attention;
    gpt2.tiles_mlp = c->tiles_mlp;
    if (c->frozen)
        return make_frozen(c, &(zr_lm_config){.kind = ZR_LM_GPT2, .gpt2 = gpt2});
    must(zero_gpt2_create(&gpt2, &model, &error), &error, "model");
    return model;
}

static void open_comms(const harness_case *c, int world, zero_comm **comms)
{
    zero_error error = {0};
    zero_comm_options options = {.struct_size = sizeof options, .timeout_seconds = HARNESS_TIMEOUT};
    if (c->open)
        c->open(comms);
    else if (world == 1)
        must(zero_comm_self(&comms[0], &error), &error, "self");
    else
        must(zero_comm_threads(world, &options, comms, &error), &error, "threads");
}

// Runs the ranks of a job. `other`: the results of rank 0's neighbour, where there are two of each.
static void run_job(const harness_case *c, const zero_model *model, harness_result *out,
                    harness_result *other, harness_failure *ranks)
{
    int each = ranks_each(c), world = c->ranks * each;
    zero_comm *comms[MOST_RANKS] = {0};
    rank_job jobs[MOST_RANKS];
    pthread_t threads[MOST_RANKS];
    open_comms(c, world, comms);
    for (int r = 0; r < world; r++) {
        jobs[r] = (rank_job){.c = c, .model = model, .comm = comms[r]};
        jobs[r].out = r == 0 ? out : r == 1 && each > 1 ? other : NULL;
        if (pthread_create(&threads[r], NULL, run_rank, &jobs[r]) != 0)
            abort();
    }
    for (int r = 0; r < world; r++) {
        pthread_join(threads[r], NULL);
        // Of the two that compute the same, the one that has failed by itself says so.
        int first = c->twice ? r - r % 2 : r;
        harness_failure *failure = &ranks[c->twice ? r / 2 : r];
        if (r == first || failure->status == ZERO_OK || failure->status == ZERO_ERR_PEER)
            *failure = jobs[r].failure;
    }
    for (int r = 0; r < world; r++)
        zero_comm_destroy(comms[r]);
}

// Tensor ranks see the same numbers; if they hold the same, too, they hold as many bytes.
static void expect_same(const harness_case *c, const harness_result *out,
                        const harness_result *other)
{
    assert_true(harness_equal(out, other));
    harness_expect_held(other);
    if (c->twice)
        assert_memory_equal(&out->memory, &other->memory, sizeof out->memory);
}

bool harness_wants_twice(void) { return getenv("ZERO_TEST_TWICE") != NULL; }

static bool is_twice(const harness_case *c)
{
    return c->twice || (harness_wants_twice() && !c->open && !c->slices && !c->stages &&
                        2 * c->ranks <= MOST_RANKS);
}

void harness_try(const harness_case *c, harness_result *out, harness_failure *ranks)
{
    static harness_result half;
    harness_case run = *c;
    run.twice = is_twice(c);
    zero_model *model = harness_model(c);
    memset(out, 0, sizeof *out);
    memset(&half, 0, sizeof half);
    for (int u = 0; u < model->unit_count; u++)
        out->flat_params += model->units[u].flat_param_count;
    run_job(&run, c->tuned ? c->tuned(model) : model, out, &half, ranks);
    bool good = true;
    for (int r = 0; r < ranks_told(c); r++)
        good = good && ranks[r].status == ZERO_OK;
    if (ranks_each(&run) > 1 && good)
        expect_same(&run, out, &half);
    zr_lm_free(model);
}

void harness_run(const harness_case *c, harness_result *out)
{
    harness_failure ranks[MOST_RANKS];
    harness_try(c, out, ranks);
    for (int r = 0; r < ranks_told(c); r++)
        must(ranks[r].status, &ranks[r].error, "a rank");
}

void harness_expect_held(const harness_result *result)
{
    for (int tier = 0; tier < ZERO_TIER_COUNT; tier++)
        for (int m = 0; m < ZERO_MEM_COUNT; m++)
            assert_int_equal(result->memory.planned[tier][m], result->memory.held[tier][m]);
}

void harness_stages_agree(harness_case c)
{
    static harness_result reference, other;
    c.stage = 0;
    harness_run(&c, &reference);
    assert_true(isfinite(reference.loss[0]) && reference.norm[0] > 0);
    assert_true(reference.loss[1] != reference.loss[0]);
    harness_expect_held(&reference);
    for (c.stage = 1; c.stage <= 3; c.stage++) {
        harness_run(&c, &other);
        assert_true(harness_equal(&reference, &other));
        harness_expect_held(&other);
    }
}

void harness_refused(const harness_case *c, zero_status status, const char *words)
{
    static harness_result out;
    harness_failure ranks[MOST_RANKS];
    harness_try(c, &out, ranks);
    for (int r = 0; r < c->ranks; r++)
        if (ranks[r].status != status || !strstr(ranks[r].error.message, words))
            fail_msg("rank %d: %s, \"%s\", not %s, \"%s\"", r, zero_status_name(ranks[r].status),
                     ranks[r].error.message, zero_status_name(status), words);
}

bool harness_equal(const harness_result *a, const harness_result *b)
{
    return a->elems == b->elems && memcmp(a->loss, b->loss, sizeof a->loss) == 0 &&
           memcmp(a->norm, b->norm, sizeof a->norm) == 0 &&
           memcmp(a->parameters, b->parameters, (size_t)a->elems * sizeof(float)) == 0 &&
           a->evaluated == b->evaluated;
}
