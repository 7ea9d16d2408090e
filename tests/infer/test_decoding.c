// Decoding borrows an engine's parameters and queue and changes neither: while a generation is
// open, the engine computes in its own scratch. A model that is cut into slices says the same,
// whoever computes them, and ranks exchange in a window of the decoding's own; the bytes of a token
// are those of the formula. What predictions count of a step is what it records.
#include "../setup/tiny_engine.h"
#include "infer/decoding.h"
#include "engine/engine_api.h"
#include "model/lm_build.h"
#include "predict/operations.h"
#include "setup/initialize.h"
#include "setup/machine_facts.h"
#include <zero/llama.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { PROMPT = 4, RECORDS = 4096 };

static double evaluate(zero_engine *engine)
{
    int32_t tokens[TINY_BATCH * TINY_SEQ] = {1, 2, 3}, targets[TINY_BATCH * TINY_SEQ] = {2, 3};
    const zero_tensors batch = {2,
                                {{tokens, ZERO_I32, 2, {TINY_BATCH, TINY_SEQ}},
                                 {targets, ZERO_I32, 2, {TINY_BATCH, TINY_SEQ}}}};
    double loss = 0;
    assert_int_equal(zero_evaluate(engine, &batch, &loss, NULL), ZERO_OK);
    return loss;
}

// Returns how often the records have an operation.
static int64_t recorded_calls(const zr_recorder *recorder, int unit, const zr_operation *operation)
{
    int64_t calls = 0;
    for (int64_t i = 0; i < recorder->count; i++) {
        const zr_record *r = &recorder->records[i];
        calls += r->unit == unit && r->what == operation->what && r->bytes == operation->bytes &&
                 r->flops == operation->flops;
    }
    return calls;
}

// Compares what units have asked of the backend, and exchanged, with what is counted without them.
static zero_status compare_operations(const zr_decoding *d, const zr_decode_step *step,
                                      const zr_recorder *recorder, zero_error *error)
{
    const zr_harness_decode_question question = {
        .step = *step, .sequences = d->limits.sequences, .capacity = d->limits.capacity};
    zr_plan_operations found;
    int64_t counted = 0, recorded = 0;
    bool same = recorder->dropped == 0;
    ZERO_TRY(zr_plan_operations_decode(zr_engine_plan(d->engine), "cpu", &question, &found, error));
    for (int u = 0; u < found.unit_count; u++) {
        const zr_operation_list *list = &found.units[u].calls[ZR_CALL_FORWARD];
        for (int i = 0; i < list->count; i++) {
            same = same && recorded_calls(recorder, u, &list->at[i]) == list->at[i].calls;
            counted += list->at[i].calls;
        }
    }
    for (int64_t i = 0; i < recorder->count; i++) {
        zr_activity what = recorder->records[i].what;
        recorded += zr_activity_track(what) == ZR_TRACK_COMPUTE || what == ZR_ACTIVITY_exchange;
    }
    zr_plan_operations_free(&found);
    if (same && counted == recorded && counted > 0)
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_INTERNAL, "%lld operations are counted, %lld recorded%s",
                   (long long)counted, (long long)recorded, same ? "" : ", others");
}

static zero_status take_recorded(zr_decoding *decoding, const zr_decode_step *step,
                                 zero_error *error)
{
    zr_recorder *recorder;
    ZERO_TRY(zr_recorder_create(RECORDS, &recorder, error));
    zero_status status = zr_engine_record(decoding->engine, recorder, error);
    if (status == ZERO_OK)
        status = zr_decoding_take_step(decoding, step, error);
    zr_engine_record(decoding->engine, NULL, NULL);
    if (status == ZERO_OK)
        status = compare_operations(decoding, step, recorder, error);
    zr_recorder_destroy(recorder);
    return status;
}

// Takes `count` tokens of one sequence from position `first` on; the logits after the last one.
static zero_status step_over(zr_decoding *decoding, const int32_t *tokens, int64_t first,
                             int64_t count, float out[TINY_VOCABULARY], zero_error *error)
{
    memcpy(decoding->tokens, tokens, (size_t)count * sizeof *tokens);
    decoding->runs[0] = (zr_attention_run){.first = first, .rows = count};
    decoding->wanted[0] = count - 1;
    const zr_decode_step step = {.runs = decoding->runs,
                                 .run_count = 1,
                                 .rows = count,
                                 .tokens = decoding->tokens,
                                 .wanted = decoding->wanted,
                                 .wanted_count = 1};
    ZERO_TRY(take_recorded(decoding, &step, error));
    memcpy(out, decoding->logits, TINY_VOCABULARY * sizeof *out);
    return ZERO_OK;
}

static void take_step(zr_decoding *decoding, float out[TINY_VOCABULARY])
{
    const int32_t prompt[PROMPT] = {5, 6, 7, 8};
    zero_error error = {0};
    if (step_over(decoding, prompt, 0, PROMPT, out, &error) != ZERO_OK)
        fail_msg("%s", error.message);
}

static void the_engine_s_queue_stays_as_it_is(void **state)
{
    tiny t = tiny_create();
    const zr_queue *queue = zr_engine_queue(t.engine);
    const zr_queue before = *queue;
    const zr_decoding_limits limits = {.sequences = 1, .capacity = TINY_SEQ, .chunk = PROMPT};
    float first[TINY_VOCABULARY], second[TINY_VOCABULARY];
    zr_decoding decoding;
    zero_error error = {0};
    double loss = evaluate(t.engine);
    assert_int_equal(
        zr_decoding_open(t.engine, zr_lm_config_of(t.model), &limits, &decoding, &error), ZERO_OK);
    assert_memory_equal(queue, &before, sizeof before);
    take_step(&decoding, first);
    assert_memory_equal(queue, &before, sizeof before);
    assert_true(evaluate(t.engine) == loss);
    take_step(&decoding, second);
    assert_memory_equal(first, second, sizeof first);
    zr_decoding_close(&decoding);
    assert_memory_equal(queue, &before, sizeof before);
    assert_true(evaluate(t.engine) == loss);
    tiny_destroy(&t);
}

enum { SLICES = 4, STEPS = 3, LONG = 100, POSITIONS = LONG + STEPS, WIDTH = 64, LAYERS = 2 };

// Four slices, of which two share keys and values, and of whose vocabulary the last two are empty.
static zr_lm_config cut_config(void)
{
    zr_lm_config config = {.kind = ZR_LM_LLAMA};
    zero_llama_defaults(&config.llama);
    config.llama.vocab_size = TINY_VOCABULARY;
    config.llama.max_positions = POSITIONS;
    config.llama.hidden_size = WIDTH;
    config.llama.intermediate_size = 24;
    config.llama.n_layer = LAYERS;
    config.llama.n_head = 4;
    config.llama.n_kv_head = 2;
    return config;
}

typedef struct slice_rank {
    zero_comm *comm;
    int tensor; // ranks that compute one model together
    float logits[STEPS][TINY_VOCABULARY];
    size_t cache;        // bytes of keys
    bool counted;        // by the check of memory: all of the decoding's
    zero_traffic tokens; // with other tensor ranks, of all steps of one token
    bool more;           // exchanges more than is planned
    bool told;           // that it did
    zero_status status;
    zero_error error;
} slice_rank;

// Says whether the budget of the host needs to hold the decoding's memory, all of it, besides what
// is planned, and no more.
static bool budget_counts_all(zero_engine *engine, const zr_lm_config *config,
                              const zr_decoding_limits *limits, const zr_decoding *decoding)
{
    int64_t *budget = &((zr_config *)zr_engine_config(engine))->offload.host_memory,
            ranks = zr_local_ranks(zr_engine_comm(engine)),
            needed = zr_plan_tier_bytes(zr_engine_plan(engine), ZERO_TIER_host) +
                     (int64_t)decoding->arena.bytes + decoding->exchange.units.bytes;
    *budget = needed * ranks;
    zero_status with = zr_decoding_check_memory(engine, config, limits, NULL);
    *budget = (needed - 1) * ranks;
    zero_status without = zr_decoding_check_memory(engine, config, limits, NULL);
    *budget = 0;
    return with == ZERO_OK && without == ZERO_ERR_LIMIT;
}

// Says whether each byte that the decoding holds was planned, the window of exchanges too.
static bool holds_what_was_planned(const zr_decoding *decoding)
{
    const zr_ledger *ledger = &decoding->ledger;
    return zr_ledger_check(ledger, NULL) == ZERO_OK &&
           ledger->planned[ZERO_TIER_host][ZERO_MEM_workspace] == (int64_t)decoding->arena.bytes &&
           ledger->planned[ZERO_TIER_host][ZERO_MEM_communication] ==
               decoding->exchange.units.bytes;
}

static _Thread_local zero_status (*planned)(const struct zr_exchanger *self,
                                            const zero_context *context, zero_exchange_kind kind,
                                            int replicas, int64_t offset, int64_t elements,
                                            zero_dtype dtype);

static zero_status run_twice(const struct zr_exchanger *self, const zero_context *context,
                             zero_exchange_kind kind, int replicas, int64_t offset,
                             int64_t elements, zero_dtype dtype)
{
    ZERO_TRY(planned(self, context, kind, replicas, offset, elements, dtype));
    return planned(self, context, kind, replicas, offset, elements, dtype);
}

static void exchange_more(slice_rank *rank, zr_decoding *decoding, const int32_t *tokens)
{
    planned = decoding->exchange.units.run;
    decoding->exchange.units.run = run_twice;
    zero_status status = step_over(decoding, tokens, 0, 2, rank->logits[0], &rank->error);
    rank->told = status == ZERO_ERR_INTERNAL &&
                 strstr(rank->error.message, "among ranks of group tensor: 12 messages") &&
                 strstr(rank->error.message, "the plan has 6");
}

// A prompt, for which the engine's own window is too small, then a token, then another one.
static zero_status decode(slice_rank *rank, zero_engine *engine, const zr_lm_config *config)
{
    const zr_decoding_limits limits = {.sequences = 1, .capacity = POSITIONS, .chunk = LONG};
    int32_t tokens[POSITIONS];
    zr_decoding decoding;
    for (int i = 0; i < POSITIONS; i++)
        tokens[i] = i * 7 % TINY_VOCABULARY;
    ZERO_TRY(zr_decoding_open(engine, config, &limits, &decoding, &rank->error));
    rank->counted =
        budget_counts_all(engine, config, &limits, &decoding) && holds_what_was_planned(&decoding);
    zero_status status = step_over(&decoding, tokens, 0, LONG, rank->logits[0], &rank->error);
    zero_traffic before, after;
    zr_engine_traffic(engine, ZERO_AXIS_tensor, &before);
    if (rank->more)
        exchange_more(rank, &decoding, tokens);
    for (int s = 1; s < STEPS && status == ZERO_OK && !rank->more; s++)
        status = step_over(&decoding, tokens + LONG + s - 1, LONG + s - 1, 1, rank->logits[s],
                           &rank->error);
    zr_engine_traffic(engine, ZERO_AXIS_tensor, &after);
    rank->tokens = zero_traffic_between(&before, &after);
    zr_decoding_close(&decoding);
    return status;
}

static zero_status open_and_decode(slice_rank *rank, zero_model *part, const zr_lm_config *config)
{
    zero_engine *engine = NULL;
    const zero_options options = {
        .struct_size = sizeof options,
        .model = part,
        .comm = rank->comm,
        .config_text = "{\"train_micro_batch_size_per_gpu\": 1, \"zero_optimization\": "
                       "{\"stage\": 3}}",
        .shape = {.batch = 1, .seq = 1},
        .threads = 1,
        .seed = 7,
        .total_steps = 10};
    const zr_trial trial = {.parallel = {.tensor = rank->tensor}};
    ZERO_TRY(zr_initialize(&options, &trial, &engine, &rank->error));
    rank->cache = zr_lm_decode_cache_bytes(part, 1, POSITIONS);
    zero_status status = decode(rank, engine, config);
    zero_destroy(engine);
    return status;
}

static void *run_slices(void *argument)
{
    slice_rank *rank = argument;
    const zr_lm_config config = cut_config();
    const zr_lm_slices slices = {.count = SLICES,
                                 .ranks = rank->tensor,
                                 .rank = zero_comm_rank(rank->comm) % rank->tensor,
                                 .exact = true};
    zero_model *whole = NULL, *part = NULL;
    rank->status = zr_lm_create(&config, &whole, &rank->error);
    if (rank->status == ZERO_OK)
        rank->status = zr_lm_cut(whole, &slices, NULL, &part, &rank->error);
    if (rank->status == ZERO_OK)
        rank->status = open_and_decode(rank, part, &config);
    if (rank->status != ZERO_OK)
        zero_comm_abort(rank->comm, rank->error.message);
    zr_lm_free(part);
    zr_lm_free(whole);
    return NULL;
}

static void run_ranks(int world, int tensor, bool more, slice_rank *ranks)
{
    zero_comm *comms[SLICES];
    pthread_t threads[SLICES];
    const zero_comm_options options = {.struct_size = sizeof options, .timeout_seconds = 20};
    assert_int_equal(zero_comm_threads(world, &options, comms, NULL), ZERO_OK);
    for (int r = 0; r < world; r++) {
        ranks[r] = (slice_rank){.comm = comms[r], .tensor = tensor, .more = more};
        assert_int_equal(pthread_create(&threads[r], NULL, run_slices, &ranks[r]), 0);
    }
    for (int r = 0; r < world; r++)
        pthread_join(threads[r], NULL);
    for (int r = 0; r < world; r++) {
        zero_comm_destroy(comms[r]);
        if (ranks[r].status != ZERO_OK)
            fail_msg("%d ranks, %d a model, rank %d: %s", world, tensor, r, ranks[r].error.message);
    }
}

// A token's row is summed in the embedding and twice a block, 2(P-1)/P x C x 4 bytes each, and the
// logits of foreign slices are gathered: none is sent for rows that are not there.
static void expect_bytes_of_tokens(const zero_traffic *traffic, int tensor)
{
    enum { TOKENS = STEPS - 1, SUMS = 2 * LAYERS + 1, OF_SLICE = 16 };
    int64_t foreign = SLICES - SLICES / tensor;
    if (tensor == 1)
        return;
    assert_int_equal(traffic->calls[ZERO_COMM_all_reduce], TOKENS * SUMS);
    assert_int_equal(traffic->bytes[ZERO_COMM_all_reduce] * tensor,
                     TOKENS * SUMS * 2 * (tensor - 1) * WIDTH * 4);
    assert_int_equal(traffic->calls[ZERO_COMM_all_gather], TOKENS);
    assert_int_equal(traffic->bytes[ZERO_COMM_all_gather], TOKENS * foreign * OF_SLICE * 4);
    assert_int_equal(traffic->calls[ZERO_COMM_reduce_scatter], 0);
}

static void slices_say_the_same_on_any_number_of_ranks(void **state)
{
    static const int grids[][2] = {{2, 2}, {4, 4}, {4, 2}, {2, 1}}; // ranks, tensor ranks
    static slice_rank alone, ranks[SLICES];
    run_ranks(1, 1, false, &alone);
    assert_memory_not_equal(alone.logits[0], alone.logits[1], sizeof alone.logits[0]);
    for (size_t g = 0; g < sizeof grids / sizeof *grids; g++) {
        run_ranks(grids[g][0], grids[g][1], false, ranks);
        for (int r = 0; r < grids[g][0]; r++) {
            assert_memory_equal(ranks[r].logits, alone.logits, sizeof alone.logits);
            assert_int_equal(ranks[r].cache * (size_t)grids[g][1], alone.cache);
            assert_true(ranks[r].counted);
            expect_bytes_of_tokens(&ranks[r].tokens, grids[g][1]);
        }
    }
}

// One that exchanges more than was planned is told so; another one may only hear that it has ended.
static void messages_are_those_of_the_plan(void **state)
{
    static slice_rank ranks[2];
    run_ranks(2, 2, true, ranks);
    assert_true(ranks[0].told || ranks[1].told);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_engine_s_queue_stays_as_it_is),
        cmocka_unit_test(slices_say_the_same_on_any_number_of_ranks),
        cmocka_unit_test(messages_are_those_of_the_plan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
