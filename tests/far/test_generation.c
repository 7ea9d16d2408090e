// Generation and evaluation by windows on a far device: keys, values, streams and logits lie in its
// memory, tokens go up and logits come down, and what is drawn on the host is what "ref" draws. No
// two operations meet without being ordered, the host waits once a step, each byte that is held was
// planned, and after a failure nothing is left.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "engine/engine_internal.h"
#include "far_training.h"
#include "infer/decoding.h"
#include "infer/generate_loop.h"
#include "infer/window_loss.h"
#include "layers/layers.h"
#include "setup/machine_facts.h"
#include "tokenizer/vocabulary.h"

#include <stdio.h>
#include <string.h>

enum { POSITIONS = 300, LONG = 270, MOST_TEXT = 64, MOST_PROMPTS = 200, WINDOWS = 6 };

// What a rank is asked, and what it says.
typedef struct question {
    int64_t prompts, batch, tokens, longest;
    double temperature;
} question;

typedef struct answer {
    char text[MOST_PROMPTS][MOST_TEXT];
    double loss;
} answer;

static const question *asked;
static answer answers[2];     // by rank
static int64_t before, after; // operations of a far device that had run

// ---- what is asked ----

static zr_tokenizer *tokenizer_new(void)
{
    int32_t letters[HARNESS_VOCAB];
    zr_tokenizer *out = NULL;
    for (int i = 0; i < HARNESS_VOCAB; i++)
        letters[i] = 'A' + i;
    assert_int_equal(zr_tokenizer_from_code_points(letters, HARNESS_VOCAB, &out, NULL), ZERO_OK);
    return out;
}

// The first prompt is the longest; the others have 1, 2, or 3 tokens, if that has as many.
static void make_prompts(zr_prompts *out, int32_t *ids, int64_t *first)
{
    *out = (zr_prompts){.first = first, .count = asked->prompts, .longest = asked->longest};
    for (int64_t p = 0; p < asked->prompts; p++) {
        first[p] = out->ids.count;
        out->ids.count += p ? 1 + p % ZR_MIN(3, asked->longest) : asked->longest;
    }
    first[asked->prompts] = out->ids.count;
    for (int64_t i = 0; i < out->ids.count; i++)
        ids[i] = (int32_t)((i * i + 5 * i) % HARNESS_VOCAB);
    out->ids.at = ids;
}

static int emit(void *user, int64_t prompt, const char *text, size_t length)
{
    char *mine = ((answer *)user)->text[prompt];
    assert_true(strlen(mine) + length < MOST_TEXT);
    strncat(mine, text, length);
    return 0;
}

static zero_status generate(zero_engine *engine, answer *mine, zero_error *error)
{
    int32_t ids[LONG + 3 * MOST_PROMPTS];
    int64_t first[MOST_PROMPTS + 1];
    zr_prompts prompts;
    zr_tokenizer *tokenizer = tokenizer_new();
    make_prompts(&prompts, ids, first);
    const zr_sampling how = {.prompts = &prompts,
                             .tokens = asked->tokens,
                             .batch = asked->batch,
                             .temperature = asked->temperature,
                             .top_k = 20,
                             .top_p = 0.95,
                             .seed = 3};
    const zr_sample_sink sink = {.emit = emit, .user = mine};
    zero_status status = zr_generate_loop(engine, zr_lm_config_of(engine->plan->model), tokenizer,
                                          &how, &sink, error);
    zr_tokenizer_destroy(tokenizer);
    return status;
}

static zero_status measure(zero_engine *engine, double *loss, zero_error *error)
{
    int32_t tokens[WINDOWS * HARNESS_SEQ + 1];
    zr_stream stream = {0};
    zr_windows_result result;
    for (int i = 0; i < ZR_COUNT(tokens); i++)
        tokens[i] = i * 7 % HARNESS_VOCAB;
    ZERO_TRY(zr_stream_add(&stream, &(zr_token_span){.count = ZR_COUNT(tokens), .tokens = tokens},
                           error));
    const zr_dataset dataset = {
        .streams = &stream, .stream_count = 1, .count = ZR_COUNT(tokens), .seq = HARNESS_SEQ};
    zero_status status = zr_windows_loss(engine, &dataset, 2, 0, NULL, &result, error);
    *loss = result.loss;
    zr_free(stream.spans);
    return status;
}

static zero_status step_once(zero_engine *engine, zero_error *error)
{
    static const harness_case c = {.batch = 2};
    harness_rows rows;
    double loss;
    zero_step_info info;
    const zero_tensors batch = harness_micro_batch(&c, 0, engine->grid.data->rank, &rows);
    ZERO_TRY(zero_forward(engine, &batch, &loss, error));
    ZERO_TRY(zero_backward(engine, error));
    return zero_step(engine, &info, error);
}

static int64_t executed(void)
{
    far_report report;
    far_report_now(&report);
    return report.executed;
}

// Between two steps, and after one.
static zero_status generate_and_train(zero_engine *engine, zero_error *error)
{
    answer *mine = &answers[engine->grid.world->rank];
    *mine = (answer){0};
    before = executed();
    ZERO_TRY(generate(engine, mine, error));
    after = executed();
    ZERO_TRY(step_once(engine, error));
    ZERO_TRY(generate(engine, mine, error));
    return measure(engine, &mine->loss, error);
}

// ---- runs ----

typedef struct way {
    const char *name;
    far_options options;
} way;

static const way ways[] = {{"eager", {.order = FAR_EAGER, .keeps_rows = true}},
                           {"lazy", {.order = FAR_LAZY, .keeps_rows = true}},
                           {"random", {.order = FAR_RANDOM, .seed = 7, .keeps_rows = true}}};

static zr_lm_config gpt2_config(int positions)
{
    zr_lm_config config = {.kind = ZR_LM_GPT2};
    zero_gpt2_defaults(&config.gpt2);
    config.gpt2.vocab_size = HARNESS_VOCAB;
    config.gpt2.n_positions = positions;
    config.gpt2.n_embd = 16;
    config.gpt2.n_head = 2;
    config.gpt2.n_layer = 2;
    config.gpt2.tiles_embedding = 3;
    return config;
}

static zr_lm_config llama_config(int positions)
{
    zr_lm_config config = {.kind = ZR_LM_LLAMA, .llama = harness_llama()};
    config.llama.max_positions = positions;
    return config;
}

static void check_case(harness_case c, const char *name)
{
    static harness_result out;
    static answer want[2];
    c.drive = generate_and_train;
    c.accumulation = 1;
    c.batch = 2;
    memset(answers, 0, sizeof answers);
    harness_run(&c, &out);
    memcpy(want, answers, sizeof want);
    assert_true(want[0].text[0][0] && want[0].loss > 0);
    for (int w = 0; w < ZR_COUNT(ways); w++) {
        char what[160];
        snprintf(what, sizeof what, "%s, stage %d, %d ranks, %s", name, c.stage, c.ranks,
                 ways[w].name);
        c.backend = "far";
        memset(answers, 0, sizeof answers);
        far_begin(&ways[w].options);
        harness_run(&c, &out);
        far_end_clean(what);
        harness_expect_held(&out);
        for (int r = 0; r < ZR_COUNT(want); r++)
            if (memcmp(&answers[r], &want[r], sizeof want[r]) != 0)
                fail_msg("%s, rank %d: other answers: loss %a, not %a; \"%s\", not \"%s\"", what, r,
                         answers[r].loss, want[r].loss, answers[r].text[0], want[r].text[0]);
    }
}

static void tokens_and_losses_are_those_of_ref(void **state)
{
    static const question questions[] = {
        {.prompts = 5, .batch = 3, .tokens = 6, .longest = LONG},
        {.prompts = 5, .batch = 3, .tokens = 6, .longest = LONG, .temperature = 1.5}};
    const zr_lm_config configs[] = {gpt2_config(POSITIONS), llama_config(POSITIONS)};
    for (int q = 0; q < ZR_COUNT(questions); q++)
        for (int i = 0; i < ZR_COUNT(configs); i++)
            for (int stage = 0; stage <= 3; stage += 3) {
                asked = &questions[q];
                check_case((harness_case){.stage = stage,
                                          .ranks = 1 + (stage == 3),
                                          .lm = &configs[i],
                                          .precision = q ? "\"bf16\": {\"enabled\": true}" : NULL},
                           i ? "Llama" : "GPT-2");
            }
}

static void a_full_context_is_read_again(void **state)
{
    static const question question = {.prompts = 3, .batch = 2, .tokens = 20, .longest = 30};
    const zr_lm_config config = llama_config(12);
    asked = &question;
    check_case((harness_case){.stage = 1, .ranks = 1, .lm = &config}, "12 positions");
}

// Steps that read a prompt and draw nothing.
static void a_long_prompt_alone(void **state)
{
    static const question question = {.prompts = 2, .batch = 1, .tokens = 3, .longest = LONG};
    const zr_lm_config config = gpt2_config(POSITIONS);
    asked = &question;
    check_case((harness_case){.stage = 2, .ranks = 1, .lm = &config}, "one at a time");
}

static void tensor_ranks_say_the_same(void **state)
{
    static const question question = {.prompts = 3, .batch = 2, .tokens = 6, .longest = 9};
    const zr_lm_config configs[] = {gpt2_config(64), llama_config(64)};
    asked = &question;
    for (int i = 0; i < ZR_COUNT(configs); i++) {
        zr_lm_config config = configs[i];
        if (i == 0)
            config.gpt2.tiles_embedding = 0;
        check_case((harness_case){.stage = 3, .ranks = 1, .lm = &config, .slices = 2, .tensor = 2},
                   "tensor ranks");
    }
}

// More sequences than an array of the host's has room for say what they say in two parts.
static void more_sequences_than_an_operation_takes(void **state)
{
    static const question
        at_once = {.prompts = MOST_PROMPTS, .batch = MOST_PROMPTS, .tokens = 3, .longest = 1},
        by_halves = {.prompts = MOST_PROMPTS, .batch = MOST_PROMPTS / 2, .tokens = 3, .longest = 1};
    static harness_result out;
    static answer all;
    const zr_lm_config config = llama_config(16);
    const harness_case c = {
        .ranks = 1, .batch = 2, .accumulation = 1, .lm = &config, .drive = generate_and_train};
    static_assert((int)MOST_PROMPTS > (int)ZR_MOST_RUNS, "they are several operations");
    asked = &at_once;
    check_case(c, "200 sequences");
    all = answers[0];
    asked = &by_halves;
    harness_run(&c, &out);
    assert_memory_equal(&answers[0], &all, sizeof all);
}

// ---- memory and waits ----

enum { PROMPT = 4 };

// Reads tokens, of which `last` is the last.
static zero_status take_step(zr_decoding *decoding, int64_t first, int32_t last, zero_error *error)
{
    for (int i = 0; i < PROMPT; i++)
        decoding->tokens[i] = i < PROMPT - 1 ? i : last;
    decoding->runs[0] = (zr_attention_run){.first = first, .rows = PROMPT};
    decoding->wanted[0] = PROMPT - 1;
    const zr_decode_step step = {.runs = decoding->runs,
                                 .run_count = 1,
                                 .rows = PROMPT,
                                 .tokens = decoding->tokens,
                                 .wanted = decoding->wanted,
                                 .wanted_count = 1};
    return zr_decoding_take_step(decoding, &step, error);
}

static bool fits(zero_engine *engine, const zr_decoding *d, int64_t device, int64_t host)
{
    zr_offload_config *budgets = &((zr_config *)zr_engine_config(engine))->offload;
    *budgets = (zr_offload_config){.device_memory = device, .host_memory = host};
    zero_status status =
        zr_decoding_check_memory(engine, zr_lm_config_of(engine->plan->model), &d->limits, NULL);
    *budgets = (zr_offload_config){0};
    assert_true(status == ZERO_OK || status == ZERO_ERR_LIMIT);
    return status == ZERO_OK;
}

static zero_status look_at_a_decoding(zero_engine *engine, zero_error *error)
{
    const zr_decoding_limits limits = {.sequences = 2, .capacity = 16, .chunk = PROMPT};
    const zr_lm_config *config = zr_lm_config_of(engine->plan->model);
    zr_decoding d;
    ZERO_TRY(zr_decoding_open(engine, config, &limits, &d, error));
    int64_t device = (int64_t)d.device.bytes + zr_plan_tier_bytes(engine->plan, ZERO_TIER_device),
            host = (int64_t)d.arena.bytes + zr_plan_tier_bytes(engine->plan, ZERO_TIER_host);
    assert_true(fits(engine, &d, device, host));
    assert_false(fits(engine, &d, device - 1, host) || fits(engine, &d, device, host - 1));
    assert_int_equal(d.ledger.held[ZERO_TIER_device][ZERO_MEM_workspace], d.device.bytes);
    assert_int_equal(d.ledger.held[ZERO_TIER_host][ZERO_MEM_workspace], d.arena.bytes);
    for (int i = 0; i < 3; i++) {
        int64_t finishes = far_finishes_of(far_host());
        ZERO_TRY(take_step(&d, i * PROMPT, 1, error));
        assert_int_equal(far_finishes_of(far_host()) - finishes, 1);
    }
    zr_decoding_close(&d);
    return ZERO_OK;
}

static void each_byte_is_counted_and_a_step_waits_once(void **state)
{
    static harness_result out;
    const zr_lm_config config = gpt2_config(16);
    far_begin(&(far_options){.order = FAR_LAZY});
    harness_run(&(harness_case){.ranks = 1,
                                .batch = 1,
                                .accumulation = 1,
                                .lm = &config,
                                .backend = "far",
                                .drive = look_at_a_decoding},
                &out);
    far_end_clean("a decoding");
}

static zero_status read_a_wrong_token(zero_engine *engine, zero_error *error)
{
    const zr_decoding_limits limits = {.sequences = 1, .capacity = 16, .chunk = PROMPT};
    zr_decoding d;
    ZERO_TRY(zr_decoding_open(engine, zr_lm_config_of(engine->plan->model), &limits, &d, error));
    zero_status status = take_step(&d, 0, HARNESS_VOCAB, error);
    zr_decoding_close(&d);
    assert_int_equal(zr_mark_finish(zr_queue_mark(engine->queue), HARNESS_TIMEOUT, NULL), ZERO_OK);
    return status;
}

static void what_is_under_way_ends_before_memory_goes(void **state)
{
    static harness_result out;
    harness_failure ranks[1];
    const zr_lm_config config = gpt2_config(16);
    far_begin(&(far_options){.order = FAR_LAZY});
    harness_try(&(harness_case){.ranks = 1,
                                .batch = 1,
                                .accumulation = 1,
                                .lm = &config,
                                .backend = "far",
                                .drive = read_a_wrong_token},
                &out, ranks);
    far_end_clean("a wrong token");
    assert_int_equal(ranks[0].status, ZERO_ERR_DATA);
    assert_non_null(strstr(ranks[0].error.message, "token 29 is outside the vocabulary of 29"));
}

static void after_a_failure_nothing_is_left(void **state)
{
    static const question question = {.prompts = 3, .batch = 2, .tokens = 4, .longest = 9};
    static harness_result out;
    const zr_lm_config config = llama_config(16);
    harness_case run = {.stage = 3,
                        .ranks = 1,
                        .batch = 2,
                        .accumulation = 1,
                        .lm = &config,
                        .backend = "far",
                        .drive = generate_and_train};
    asked = &question;
    far_begin(&(far_options){.order = FAR_EAGER});
    harness_run(&run, &out);
    far_end_clean("no failure");
    int64_t first = before + 1, last = after;
    for (int64_t row = first; row <= last; row += 1 + (last - first) / 12) {
        harness_failure ranks[1];
        far_begin(&(far_options){.order = FAR_EAGER, .fail_row = row});
        harness_try(&run, &out, ranks);
        far_end_clean("a failure");
        assert_int_equal(ranks[0].status, ZERO_ERR_INTERNAL);
        assert_non_null(strstr(ranks[0].error.message, "fails, as the test asked"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(tokens_and_losses_are_those_of_ref),
                                       cmocka_unit_test(a_full_context_is_read_again),
                                       cmocka_unit_test(a_long_prompt_alone),
                                       cmocka_unit_test(tensor_ranks_say_the_same),
                                       cmocka_unit_test(more_sequences_than_an_operation_takes),
                                       cmocka_unit_test(each_byte_is_counted_and_a_step_waits_once),
                                       cmocka_unit_test(what_is_under_way_ends_before_memory_goes),
                                       cmocka_unit_test(after_a_failure_nothing_is_left)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
