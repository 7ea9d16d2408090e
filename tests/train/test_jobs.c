// zero_train, zero_eval and zero_generate, called by ranks that are threads of one process, as a
// host program would.
#define _GNU_SOURCE
#include "base/alloc.h"
#include "base/file.h"
#include "train_ranks.h"
#include <zero/eval.h>
#include <zero/generate.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char directory[64], text[96];

static zero_train_options usual_options(const char *out)
{
    static const char *data[1];
    data[0] = text;
    return (zero_train_options){.struct_size = sizeof(zero_train_options),
                                .new_spec = TINY_MODEL,
                                .data = data,
                                .data_count = 1,
                                .val = "none",
                                .tokenizer = "bytes",
                                .out_dir = out,
                                .steps = 3,
                                .seed = 3,
                                .threads = 1,
                                .no_learn = 1};
}

static char *path_of(const char *name)
{
    char *path = zr_sprintf(NULL, "%s/%s", directory, name);
    assert_non_null(path);
    return path;
}

static int measure(const char *model_path, double *loss)
{
    zero_comm *comm;
    const char *const data[] = {text};
    zero_eval_options options = {.struct_size = sizeof options,
                                 .model_dir = model_path,
                                 .data = data,
                                 .data_count = 1,
                                 .threads = 1};
    zero_eval_result result = {0};
    assert_int_equal(zero_comm_self(&comm, NULL), ZERO_OK);
    zero_status status = zero_eval(comm, &options, &result, NULL);
    zero_comm_destroy(comm);
    *loss = result.loss;
    assert_true(status != ZERO_OK ||
                (result.tokens == result.windows * 16 && result.bytes == result.tokens));
    return status;
}

static void test_threads_train_as_one_does(void **state)
{
    double losses[MOST_RANKS + 1];
    for (int ranks = 1; ranks <= MOST_RANKS; ranks++) {
        rank_job jobs[MOST_RANKS];
        zero_override overrides[] = {{"zero_optimization.stage", "3", "--stage"},
                                     {"train_batch_size", "6", "test"}};
        char *out = path_of("threads"), *model = path_of("threads/model");
        zero_train_options options = usual_options(out);
        options.overrides = overrides;
        options.override_count = 2;
        options.overwrite = 1;
        train_ranks(ranks, &options, jobs);
        for (int r = 0; r < ranks; r++)
            assert_int_equal(jobs[r].status, ZERO_OK);
        assert_int_equal(measure(model, &losses[ranks]), ZERO_OK);
        assert_float_equal(losses[ranks], losses[1], 1e-5); // one global batch, any number of ranks
        zr_free(out);
        zr_free(model);
    }
}

static void test_failure_of_rank_0_is_everyones(void **state)
{
    rank_job jobs[MOST_RANKS];
    zero_train_options options = usual_options("/proc/nowhere/run");
    train_ranks(MOST_RANKS, &options, jobs);
    for (int r = 0; r < MOST_RANKS; r++) {
        assert_int_equal(jobs[r].status, ZERO_ERR_IO);
        assert_non_null(strstr(jobs[r].error.message, "/proc/nowhere"));
    }
}

static int stop_at_two(void *user, const zero_event *event)
{
    return event->kind == ZERO_EVENT_STEP && event->step == 2;
}

static void test_cancelling_ends_all_ranks(void **state)
{
    rank_job jobs[MOST_RANKS];
    char *out = path_of("cancelled"), *model = path_of("cancelled/model/model.safetensors");
    zero_train_options options = usual_options(out);
    options.steps = 1000000;
    options.progress = stop_at_two;
    train_ranks(MOST_RANKS, &options, jobs);
    for (int r = 0; r < MOST_RANKS; r++) {
        assert_int_equal(jobs[r].status, ZERO_ERR_CANCELLED);
        assert_non_null(strstr(jobs[r].error.message, "step 2"));
    }
    assert_false(zr_path_exists(model));
    zr_free(out);
    zr_free(model);
}

static void test_wrong_options(void **state)
{
    zero_comm *comm;
    zero_error error;
    assert_int_equal(zero_comm_self(&comm, NULL), ZERO_OK);
    zero_train_options options = usual_options("nowhere");
    options.struct_size = 8;
    assert_int_equal(zero_train(comm, &options, &error), ZERO_ERR_USAGE);
    options = usual_options("nowhere");
    options.model_dir = "both";
    assert_int_equal(zero_train(comm, &options, &error), ZERO_ERR_USAGE);
    options = usual_options(NULL);
    assert_int_equal(zero_train(comm, &options, &error), ZERO_ERR_USAGE);
    options = usual_options("nowhere");
    options.tokenizer = "words";
    assert_int_equal(zero_train(comm, &options, &error), ZERO_ERR_USAGE);
    assert_false(zr_path_exists("nowhere"));
    zero_comm_destroy(comm);
}

typedef struct emitted {
    zr_buffer text;
    int calls, stop_after;
} emitted;

static int collect(void *user, int64_t prompt, const char *bytes, size_t length)
{
    emitted *e = user;
    assert_int_equal(prompt, 0);
    zr_buffer_append(&e->text, bytes, length);
    return ++e->calls == e->stop_after;
}

// The model of a run of this name, of contexts of 16, which has learnt what it can of the text.
static char *train_model(const char *name)
{
    rank_job jobs[MOST_RANKS];
    char *out = path_of(name), *model = zr_sprintf(NULL, "%s/model", out);
    assert_non_null(model);
    zero_train_options options = usual_options(out);
    options.lr = 1e-2;
    options.steps = 40;
    train_ranks(1, &options, jobs);
    assert_int_equal(jobs[0].status, ZERO_OK);
    zr_free(out);
    return model;
}

// Asks for 50 tokens after a prompt that is longer than the context.
static zero_generate_options answer_of(const char *model, emitted *to)
{
    static const char *const prompt = "a prompt longer than sixteen";
    return (zero_generate_options){.struct_size = sizeof(zero_generate_options),
                                   .model_dir = model,
                                   .prompts = &prompt,
                                   .prompt_count = 1,
                                   .tokens = 50,
                                   .temperature = 1,
                                   .top_p = 1,
                                   .seed = 1,
                                   .threads = 1,
                                   .emit = collect,
                                   .user = to};
}

// Longer than the context, so that the window slides; and stopped by the receiver.
static void test_generation(void **state)
{
    char *model = train_model("generating");
    emitted all = {0}, some = {.stop_after = 5};
    zero_generate_options options = answer_of(model, &all);
    assert_int_equal(zero_generate(&options, NULL), ZERO_OK);
    assert_true(all.calls > 0 && all.calls <= 50);
    options.user = &some;
    assert_int_equal(zero_generate(&options, NULL), ZERO_OK);
    assert_int_equal(some.calls, 5);
    assert_memory_equal(some.text.data, all.text.data, some.text.length);
    options.top_p = 0;
    assert_int_equal(zero_generate(&options, NULL), ZERO_ERR_USAGE);
    zr_buffer_free(&all.text);
    zr_buffer_free(&some.text);
    zr_free(model);
}

typedef struct generating { // one of several ranks
    zero_generate_options options;
    zero_status status;
    zero_error error;
} generating;

static void *generate_rank(void *argument)
{
    generating *rank = argument;
    rank->status = zero_generate(&rank->options, &rank->error);
    return NULL;
}

// Generates on threads, of which rank 0 alone has the prompts and whatever is told of the answers.
// other_seed: what rank 1 takes for the seed.
static void generate_together(const zero_generate_options *options, uint64_t other_seed,
                              generating ranks[MOST_RANKS])
{
    zero_comm *comms[MOST_RANKS];
    pthread_t threads[MOST_RANKS];
    zero_comm_options comm_options = {.struct_size = sizeof comm_options, .timeout_seconds = 30};
    assert_int_equal(zero_comm_threads(MOST_RANKS, &comm_options, comms, NULL), ZERO_OK);
    for (int r = 0; r < MOST_RANKS; r++) {
        zero_generate_options own = *options;
        own.comm = comms[r];
        if (r > 0) {
            own.emit = NULL;
            own.finish = NULL;
            own.prompts = NULL;
            own.prompt_count = 0;
        }
        if (r == 1)
            own.seed = other_seed;
        ranks[r] = (generating){.options = own};
        assert_int_equal(pthread_create(&threads[r], NULL, generate_rank, &ranks[r]), 0);
    }
    for (int r = 0; r < MOST_RANKS; r++)
        pthread_join(threads[r], NULL);
    for (int r = 0; r < MOST_RANKS; r++)
        zero_comm_destroy(comms[r]);
}

// Three ranks emit what one does, once; they all end when the receiver has had enough, and with
// the same failure when one of them cannot begin.
static void test_ranks_generate_together(void **state)
{
    char *model = train_model("together");
    emitted alone = {0}, all = {0}, some = {.stop_after = 5};
    generating ranks[MOST_RANKS];
    zero_generate_options options = answer_of(model, &alone);
    assert_int_equal(zero_generate(&options, NULL), ZERO_OK);
    options.user = &all;
    generate_together(&options, options.seed, ranks);
    for (int r = 0; r < MOST_RANKS; r++)
        assert_int_equal(ranks[r].status, ZERO_OK);
    assert_int_equal(all.text.length, alone.text.length);
    assert_memory_equal(all.text.data, alone.text.data, all.text.length);
    options.user = &some;
    generate_together(&options, options.seed, ranks);
    for (int r = 0; r < MOST_RANKS; r++)
        assert_int_equal(ranks[r].status, ZERO_OK);
    assert_int_equal(some.calls, 5);
    generate_together(&options, 2, ranks);
    for (int r = 0; r < MOST_RANKS; r++) {
        assert_int_equal(ranks[r].status, ZERO_ERR_USAGE);
        assert_non_null(strstr(ranks[r].error.message, "--seed"));
    }
    options.prompts = NULL;
    generate_together(&options, options.seed, ranks);
    for (int r = 0; r < MOST_RANKS; r++) {
        assert_int_equal(ranks[r].status, ZERO_ERR_USAGE);
        assert_non_null(strstr(ranks[r].error.message, "prompt_count 1 without prompts"));
    }
    zr_buffer_free(&alone.text);
    zr_buffer_free(&all.text);
    zr_buffer_free(&some.text);
    zr_free(model);
}

typedef struct several {
    zr_buffer text[3];
    int64_t tokens[3];
    int finished;
} several;

static int collect_of(void *user, int64_t prompt, const char *bytes, size_t length)
{
    several *s = user;
    assert_in_range(prompt, 0, 2);
    assert_int_equal(s->tokens[prompt], 0); // nothing after its end
    zr_buffer_append(&s->text[prompt], bytes, length);
    return 0;
}

static void count(void *user, int64_t prompt, zero_finish why, int64_t tokens)
{
    several *s = user;
    assert_int_equal(why, ZERO_FINISH_LENGTH);
    s->tokens[prompt] = tokens;
    s->finished++;
}

// Contexts that slide, two places for three prompts.
static void test_several_prompts(void **state)
{
    char *model = train_model("several");
    const char *prompts[] = {"the 3 of", NULL, "a prompt longer than sixteen"};
    several together = {0}, other = {0};
    zero_error error = {0};
    zero_generate_options options = {.struct_size = sizeof options,
                                     .model_dir = model,
                                     .prompts = prompts,
                                     .prompt_count = 3,
                                     .tokens = 40,
                                     .batch = 2,
                                     .temperature = 1,
                                     .top_p = 1,
                                     .seed = 7,
                                     .threads = 2,
                                     .emit = collect_of,
                                     .finish = count,
                                     .user = &together};
    assert_int_equal(zero_generate(&options, NULL), ZERO_OK);
    options.batch = 1;
    options.threads = 1;
    options.user = &other;
    assert_int_equal(zero_generate(&options, NULL), ZERO_OK);
    for (int p = 0; p < 3; p++) {
        assert_int_equal(together.tokens[p], 40);
        assert_int_equal(together.text[p].length, other.text[p].length);
        assert_memory_equal(together.text[p].data, other.text[p].data, other.text[p].length);
        zr_buffer_free(&together.text[p]);
        zr_buffer_free(&other.text[p]);
    }
    assert_int_equal(together.finished, 3);
    const zero_generate_options right = options;
    options.batch = -1;
    assert_int_equal(zero_generate(&options, NULL), ZERO_ERR_USAGE);
    options = right;
    options.prompts = NULL;
    assert_int_equal(zero_generate(&options, NULL), ZERO_ERR_USAGE);
    options = right;
    options.tokens = 0;
    assert_int_equal(zero_generate(&options, NULL), ZERO_ERR_USAGE);
    options = right;
    options.chat = "auto";
    assert_int_equal(zero_generate(&options, &error), ZERO_ERR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "chat template"));
    zr_free(model);
}

static int set_up(void **state) { return make_text("/tmp", directory, text); }

static int tear_down(void **state) { return zr_directory_remove(directory, NULL) != ZERO_OK; }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads_train_as_one_does),
        cmocka_unit_test(test_failure_of_rank_0_is_everyones),
        cmocka_unit_test(test_cancelling_ends_all_ranks),
        cmocka_unit_test(test_wrong_options),
        cmocka_unit_test(test_generation),
        cmocka_unit_test(test_several_prompts),
        cmocka_unit_test(test_ranks_generate_together),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
