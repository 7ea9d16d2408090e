// zero_generate: generates text from a model directory. Rank 0 reads the prompts and emits the
// answers; all ranks take the same steps.
#include "base/alloc.h"
#include "base/errors.h"
#include "checkpoint/adapter_directory.h"
#include "base/random.h"
#include "checkpoint/run_directory.h"
#include "comm/agreement.h"
#include "infer/prompts.h"
#include "infer/generate_loop.h"
#include "infer/generate_turns.h"
#include "setup/load.h"
#include "setup/model_task.h"
#include "setup/input_fingerprints.h"

enum { BATCH = 8, BATCH_MOST = 4096 };

typedef struct job {
    const zero_generate_options *options;
    char *model_dir, *adapter; // the directories of the model and of the adapter themselves
    zr_loaded loaded;
    zr_chat chat;
    zr_prompts prompts;
    zr_ids ends;
    zr_generation_times times;
} job;

static zero_status check_choice(const zero_generate_options *options, zero_error *error)
{
    if (options->temperature >= 0 && options->top_k >= 0 && options->top_p > 0 &&
        options->top_p <= 1 && options->tokens >= 1)
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_USAGE,
                   "zero_generate: temperature %g, top_k %d, top_p %g, tokens %lld: the first and "
                   "second must be 0 or more, top_p in (0, 1], tokens 1 or more",
                   options->temperature, options->top_k, options->top_p,
                   (long long)options->tokens);
}

static zero_status check_turns(const zero_comm *comm, const zero_generate_options *options,
                               zero_error *error)
{
    for (int i = 0; i < options->stop_count; i++)
        if (!options->stops || !options->stops[i] || !*options->stops[i])
            return zr_fail(error, ZERO_ERR_USAGE,
                           "zero_generate: options.stops: a text that ends an answer is empty");
    if (options->converses && (!options->chat || (!options->ask && comm->rank == 0)))
        return zr_fail(error, ZERO_ERR_USAGE, "zero_generate: options.converses needs options.%s",
                       options->chat ? "ask" : "chat");
    return ZERO_OK;
}

static zero_status check_generate_options(const zero_comm *comm,
                                          const zero_generate_options *options, zero_error *error)
{
    if (!options->model_dir || (!options->emit && comm->rank == 0))
        return zr_fail(error, ZERO_ERR_USAGE, "zero_generate: options.%s is missing",
                       options->model_dir ? "emit" : "model_dir");
    ZERO_TRY(check_choice(options, error));
    ZERO_TRY(check_turns(comm, options, error));
    if (options->batch < 0 || options->batch > BATCH_MOST || options->prompt_count < 0 ||
        (options->prompt_count && !options->prompts))
        return zr_fail(error, ZERO_ERR_USAGE,
                       "zero_generate: batch %lld, prompt_count %lld%s: the first must be from 0 "
                       "to %d, the second 0 or more",
                       (long long)options->batch, (long long)options->prompt_count,
                       options->prompts ? "" : " without prompts", BATCH_MOST);
    return ZERO_OK;
}

// Turns the prompts into tokens before the weights are read, so that a prompt that cannot be
// encoded is reported at once.
static zero_status read_prompts(job *j, zero_error *error)
{
    static const char *const none[] = {""};
    const zero_generate_options *options = j->options;
    const zr_tokenizer *tokenizer = j->loaded.tokenizer;
    const zr_chat *chat = options->chat ? &j->chat : NULL;
    bool any = options->prompt_count > 0;
    int64_t count = options->converses ? 0 : any ? options->prompt_count : 1;
    if (chat) {
        ZERO_TRY(zr_chat_load(zr_chat_directory(j->adapter, j->model_dir), options->chat,
                              options->chat_date, &j->chat, error));
        ZERO_TRY(zr_chat_check_marks(&j->chat, options->chat, tokenizer, error));
    }
    ZERO_TRY(zr_prompts_encode(tokenizer, chat, any ? options->prompts : none, count, &j->prompts,
                               error));
    return options->ignore_end ? ZERO_OK
                               : zr_end_tokens_read(j->model_dir, tokenizer, chat, &j->ends, error);
}

static zr_load_options load_options_of(const job *j)
{
    const zero_generate_options *options = j->options;
    return (zr_load_options){ZR_LOAD_OPTIONS(options), .directory = j->model_dir,
                             .adapter = j->adapter, .parallel = {.tensor = options->tensor}};
}

static zr_sampling sampling_of_job(job *j)
{
    const zero_generate_options *options = j->options;
    return (zr_sampling){
        .prompts = &j->prompts,
        .tokens = options->tokens,
        .batch = options->batch ? options->batch : BATCH,
        .temperature = options->temperature,
        .top_k = options->top_k,
        .top_p = options->top_p,
        .seed = options->seed,
        .ends = &j->ends,
        .stops = {options->stops, options->stop_count},
        .logger = &options->logger,
        .times = options->converses ? NULL : &j->times,
    };
}

// Reads what this rank can read without the others.
static zero_status read_inputs(zero_comm *comm, job *j, zero_error *error)
{
    const zero_generate_options *options = j->options;
    ZERO_TRY(check_generate_options(comm, options, error));
    ZERO_TRY(zr_model_directory(options->model_dir, &options->logger, &j->model_dir, error));
    ZERO_TRY(zr_adapter_directory(options->adapter, &options->logger, &j->adapter, error));
    const zr_load_options load = load_options_of(j);
    ZERO_TRY(zr_load_shape(comm, &load, &j->loaded, error));
    ZERO_TRY(zr_model_task_refuse_labels(&j->loaded.model_config, j->model_dir,
                                         "zero generate continues texts", error));
    return comm->rank == 0 ? read_prompts(j, error) : ZERO_OK;
}

// Ranks that differ in any of this would draw other tokens, and wait for each other in vain.
static zero_status compare_inputs(zero_comm *comm, const job *j, zero_error *error)
{
    const zero_generate_options *options = j->options;
    zr_fingerprints list = {0};
    if (comm->size == 1)
        return ZERO_OK;
    zr_fingerprint_number(&list, "--tokens", options->tokens);
    zr_fingerprint_number(&list, "--batch", options->batch);
    zr_fingerprint_real(&list, "--temperature", options->temperature);
    zr_fingerprint_number(&list, "--top-k", options->top_k);
    zr_fingerprint_real(&list, "--top-p", options->top_p);
    zr_fingerprint_number(&list, "--seed", (int64_t)options->seed);
    zr_fingerprint_number(&list, "a conversation", options->converses != 0);
    for (int i = 0; i < options->stop_count; i++)
        zr_fingerprints_add(&list, "option", "--stop", options->stops[i],
                            zr_hash_text(options->stops[i]));
    zr_fingerprint_config(&list, j->loaded.config);
    zr_fingerprint_model(&list, &j->loaded.model_config);
    zr_fingerprint_tokenizer(&list, j->model_dir, j->loaded.tokenizer);
    return zr_comm_compare_fingerprints(comm, &list, error);
}

static int emit_nothing(void *user, int64_t prompt, const char *text, size_t length) { return 0; }

static zr_sample_sink sink_of_rank(zero_comm *comm, const zero_generate_options *options)
{
    zr_sample_sink sink = {.emit = emit_nothing, .together = comm};
    if (comm->rank == 0) {
        sink.emit = options->emit;
        sink.finish = options->finish;
        sink.user = options->user;
    }
    return sink;
}

// Says what it took, and teaches. Neither can fail a generation that has ended.
static void tell_times(const zero_comm *comm, job *j)
{
    const zero_generate_options *options = j->options;
    zr_rate_book book;
    zr_buffer text = {0};
    zero_error error = {0};
    zr_generation_forecast forecast;
    if (comm->rank > 0 || j->times.stopped)
        return;
    zr_rate_book_read(NULL, &book);
    if (zr_generation_predict(&j->times, &book, options->backend, &forecast, &error) != ZERO_OK)
        zr_log(&options->logger, ZERO_LOG_WARNING, "no prediction of a generation: %s",
               error.message);
    zr_generation_text(&j->times, &forecast, &text);
    if (!text.failed && options->took)
        options->took(options->user, text.data);
    if (!options->no_learn)
        zr_generation_teach(&j->times, &options->logger);
    zr_buffer_free(&text);
    zr_rate_book_free(&book);
}

static zero_status converse(zero_comm *comm, job *j, const zr_sampling *how,
                            const zr_sample_sink *sink, zero_error *error)
{
    const zr_spoken_turns turns = {.engine = j->loaded.engine,
                                   .config = &j->loaded.model_config,
                                   .tokenizer = j->loaded.tokenizer,
                                   .chat = &j->chat,
                                   .how = *how,
                                   .sink = *sink,
                                   .ask = j->options->ask};
    return zr_generate_turns(comm, &turns, error);
}

static zero_status load_and_sample(zero_comm *comm, job *j, zero_error *error)
{
    zr_loaded *loaded = &j->loaded;
    const zr_load_options load = load_options_of(j);
    const zr_sampling how = sampling_of_job(j);
    const zr_sample_sink sink = sink_of_rank(comm, j->options);
    ZERO_TRY(zr_load_weights(comm, &load, 1, 1, loaded, error));
    if (j->options->converses)
        return converse(comm, j, &how, &sink, error);
    zero_status status =
        zr_generate_check_memory(loaded->engine, &loaded->model_config, &how, error);
    if (status == ZERO_OK)
        status = zr_generation_times_open(loaded->engine, &j->times, error);
    ZERO_TRY(zr_comm_agree(comm, status, error));
    ZERO_TRY(zr_generate_loop(loaded->engine, &loaded->model_config, loaded->tokenizer, &how, &sink,
                              error));
    tell_times(comm, j);
    return ZERO_OK;
}

static zero_status run_job(zero_comm *comm, job *j, zero_error *error)
{
    zero_status status = zr_comm_agree(comm, read_inputs(comm, j, error), error);
    if (status == ZERO_OK)
        status = compare_inputs(comm, j, error);
    if (status == ZERO_OK)
        status = zr_prompts_share(comm, &j->prompts, &j->ends, error);
    if (status == ZERO_OK)
        status = load_and_sample(comm, j, error);
    if (status != ZERO_OK) // if only this rank failed, the others would wait for it
        zero_comm_abort(comm, error ? error->message : zero_status_text(status));
    return status;
}

zero_status zero_generate(const zero_generate_options *options, zero_error *error)
{
    ZR_NEED(error, options);
    zero_generate_options taken;
    ZERO_TRY(zr_struct_take("zero_generate: options", options,
                            ZR_STRUCT_UPTO(zero_generate_options, ignore_unused), &taken,
                            sizeof taken, error));
    zero_comm *own = NULL;
    if (!taken.comm)
        ZERO_TRY(zero_comm_self(&own, error));
    zero_comm *comm = own ? own : taken.comm;
    if (comm->rank > 0)
        taken.logger = (zero_logger){0};
    job j = {.options = &taken};
    zero_status status = run_job(comm, &j, error);
    zr_prompts_free(&j.prompts);
    zr_ids_free(&j.ends);
    zr_chat_free(&j.chat);
    zr_generation_times_close(&j.times);
    zr_loaded_free(&j.loaded);
    zr_free(j.model_dir);
    zr_free(j.adapter);
    zero_comm_destroy(own);
    return status;
}
