// zero_eval: measures the mean loss of a whole text.
#include "base/alloc.h"
#include "base/errors.h"
#include "base/report.h"
#include "checkpoint/adapter_directory.h"
#include "checkpoint/run_directory.h"
#include "comm/agreement.h"
#include "engine/engine_api.h"
#include "infer/token_reading.h"
#include "infer/window_loss.h"
#include "setup/defaults.h"
#include "setup/load.h"
#include "setup/model_task.h"
#include "setup/resolve.h"
#include "setup/input_fingerprints.h"
#include <zero/commands.h>
#include <zero/eval.h>

#include <math.h>
#include <string.h>

enum { TOKENS_AT_ONCE = 4096 };

typedef struct subject {                   // what is evaluated, and on what
    zero_eval_options options;             // as given, with the model's own directory
    char *model_dir, *tokenizer, *adapter; // directories to which those of the options lead
    char *reference;
    zr_preference preference;
    zr_loaded loaded;
    zr_chat chat;
    zr_reading_progress progress;
    zr_corpus *corpus;
    zr_dataset dataset;
} subject;

static zr_load_options load_options_of(const zero_eval_options *options)
{
    return (zr_load_options){
        ZR_LOAD_OPTIONS(options), .directory = options->model_dir, .adapter = options->adapter,
        .no_tokenizer = true,
        .parallel = {.tensor = options->tensor, .sequence_parallel = options->sequence_parallel}};
}

// Makes the model again as one of what the data are.
static zero_status see_examples(subject *s, zero_error *error)
{
    if (s->loaded.model_config.labels.count)
        zr_model_task_finish(&s->loaded.model_config);
    if (s->preference.kind)
        return zr_loaded_prefer(&s->loaded, &s->preference, error);
    return s->dataset.documents ? zr_loaded_see_documents(&s->loaded, error) : ZERO_OK;
}

static zero_status read_data(zero_comm *comm, const zero_eval_options *options, int64_t seq,
                             subject *s, zero_error *error)
{
    const zero_logger *logger = comm->rank == 0 ? &options->logger : NULL;
    int64_t vocabulary = s->loaded.shape.vocab;
    ZERO_TRY(zr_reading_chat(zr_chat_directory(s->adapter, options->model_dir), options->tokenizer,
                             options->chat, options->chat_date, &s->chat, error));
    const zr_corpus_options corpus = {.arguments = options->data,
                                      .count = options->data_count,
                                      .field = options->field,
                                      .chat = &s->chat,
                                      .preferences = zr_reading_preferences(&s->preference),
                                      .prompt_loss = s->preference.prompt_loss > 0,
                                      .classifies = s->loaded.model_config.labels.count > 0,
                                      .watch = zr_reading_watch(&s->progress, comm, logger),
                                      .follows = zr_reading_follows(comm)};
    ZERO_TRY(zr_corpus_open(&corpus, &s->corpus, error));
    ZERO_TRY(zr_reading_tokenizer_of(zr_adapter_tokenizer(s->adapter, options->model_dir),
                                     options->tokenizer, s->corpus, vocabulary,
                                     &s->loaded.tokenizer, error));
    ZERO_TRY(zr_chat_check_marks(&s->chat, options->chat, s->loaded.tokenizer, error));
    zr_reading reading =
        zr_token_reader_options(comm, options->threads, s->loaded.tokenizer, vocabulary, seq);
    ZERO_TRY(zr_reading_pack(options->attention, &reading.pack, error));
    reading.labels = corpus.classifies ? &s->loaded.model_config.labels : NULL;
    if (s->loaded.tokenizer)
        zr_reading_warn(s->loaded.tokenizer, logger);
    else
        zr_log(logger, ZERO_LOG_INFO,
               "no tokenizer in \"%s\", and none is needed for tokens; how many bytes of text they "
               "are is not known",
               options->model_dir);
    ZERO_TRY(zr_corpus_read(s->corpus, &reading, &s->dataset, NULL, error));
    zr_reading_warn_records(s->corpus, logger);
    zr_reading_warn_cut(&s->dataset, logger);
    zr_reading_warn_shortened(s->corpus, &s->dataset, logger);
    zr_reading_warn_chat(&s->chat, logger);
    return see_examples(s, error);
}

// Finds what dpo and kto compare with.
static zero_status accept_reference(subject *s, const zero_logger *logger, zero_error *error)
{
    const zero_eval_options *options = &s->options;
    bool compares = zr_preference_has_reference(&s->preference);
    if (options->reference && !compares)
        return zr_fail(
            error, ZERO_ERR_USAGE,
            "--reference is a model that dpo and kto compare with, and --preference says "
            "%s",
            s->preference.kind ? zr_preference_name(s->preference.kind) : "nothing");
    if (compares && !options->reference && !options->adapter)
        return zr_fail(
            error, ZERO_ERR_USAGE,
            "--preference %s compares with a reference: --reference names the model that "
            "the training began with, or --adapter is compared with --model without it",
            zr_preference_name(s->preference.kind));
    return options->reference ? zr_model_directory(options->reference, logger, &s->reference, error)
                              : ZERO_OK;
}

static zero_status accept_options(const zero_comm *comm, const zero_eval_options *given, subject *s,
                                  zero_error *error)
{
    ZERO_TRY(zr_struct_take("zero_eval: options", given,
                            ZR_STRUCT_UPTO(zero_eval_options, ignore_unused), &s->options,
                            sizeof s->options, error));
    const zero_eval_options *options = &s->options;
    if (!options->model_dir || !options->data)
        return zr_fail(error, ZERO_ERR_USAGE, "zero_eval: options.%s is missing",
                       options->data ? "model_dir" : "data");
    const zero_logger *logger = comm->rank == 0 ? &options->logger : NULL;
    ZERO_TRY(zr_model_directory(options->model_dir, logger, &s->model_dir, error));
    ZERO_TRY(zr_tokenizer_directory(options->tokenizer, logger, &s->tokenizer, error));
    ZERO_TRY(zr_adapter_directory(options->adapter, logger, &s->adapter, error));
    ZERO_TRY(zr_preference_parse(options->preference, "options.preference", &s->preference, error));
    ZERO_TRY(accept_reference(s, logger, error));
    s->options.adapter = s->adapter;
    s->options.model_dir = s->model_dir;
    s->options.tokenizer = s->tokenizer;
    return ZERO_OK;
}

static zero_status accept_task(const subject *s, zero_error *error)
{
    bool asked, has = s->loaded.model_config.labels.count > 0;
    ZERO_TRY(zr_model_task_parse(s->options.task, "options.task", &asked, error));
    if (has && s->preference.kind)
        return zr_model_task_refuse_labels(&s->loaded.model_config, s->options.model_dir,
                                           "--preference compares continued texts", error);
    if (has)
        ZERO_TRY(zr_model_task_check_attention(s->options.attention, error));
    return !asked || has
               ? ZERO_OK
               : zr_fail(error, ZERO_ERR_DATA,
                         "\"%s\" has no labels (\"architectures\" of its config.json names no "
                         "class that classifies): zero train --task classify makes such a model",
                         s->options.model_dir);
}

static zero_status read_inputs(zero_comm *comm, const zero_eval_options *given, subject *s,
                               zero_error *error)
{
    ZERO_TRY(accept_options(comm, given, s, error));
    const zero_eval_options *options = &s->options;
    zr_load_options load = load_options_of(options);
    ZERO_TRY(zr_load_shape(comm, &load, &s->loaded, error));
    ZERO_TRY(accept_task(s, error));
    int64_t seq = zr_default_window(options->seq, s->loaded.shape.positions,
                                    comm->rank == 0 ? &options->logger : NULL);
    ZERO_TRY(zr_window_check(seq, s->loaded.shape.positions, error));
    return read_data(comm, options, seq, s, error);
}

static zero_status compare_inputs(zero_comm *comm, subject *s, zero_error *error)
{
    const zero_eval_options *options = &s->options;
    const zr_watch watch =
        zr_reading_watch(&s->progress, comm, comm->rank == 0 ? &options->logger : NULL);
    zr_fingerprints list = {0};
    if (comm->size == 1)
        return ZERO_OK;
    zr_fingerprint_number(&list, "--seq", s->dataset.seq);
    zr_fingerprint_text(&list, "option", "--preference", options->preference);
    zr_fingerprint_config(&list, s->loaded.config);
    zr_fingerprint_model(&list, &s->loaded.model_config);
    if (s->loaded.tokenizer)
        zr_fingerprint_tokenizer(&list,
                                 options->tokenizer ? options->tokenizer : options->model_dir,
                                 s->loaded.tokenizer);
    zr_fingerprint_dataset(&list, "text", &s->dataset, 0, &watch);
    return zr_comm_compare_fingerprints(comm, &list, error);
}

// Adds the bytes of text of those tokens of a window whose loss is measured. A special token has
// none.
static void count_window(const subject *s, int64_t window, zr_rows rows, zr_buffer *text,
                         int64_t *bytes)
{
    const int32_t *targets = rows.targets;
    zr_dataset_eval_batch(&s->dataset, window, 1, rows);
    for (int64_t i = 0; i < s->dataset.seq && !text->failed; i++) {
        text->length = 0;
        if (targets[i] >= 0 && !zr_tokenizer_is_special(s->loaded.tokenizer, targets[i]))
            zr_tokenizer_decode(s->loaded.tokenizer, targets[i], text);
        *bytes += (int64_t)text->length;
    }
}

static zero_status count_bytes(const subject *s, int64_t *bytes, zero_error *error)
{
    zr_buffer text = {0};
    zr_rows rows;
    *bytes = 0;
    if (!s->loaded.tokenizer)
        return ZERO_OK;
    zero_status status = zr_windows_alloc(&s->dataset, 1, &rows, error);
    for (int64_t i = 0; status == ZERO_OK && i < zr_dataset_eval_windows(&s->dataset); i++)
        count_window(s, i, rows, &text, bytes);
    bool failed = text.failed || status != ZERO_OK;
    zr_windows_free(&rows);
    zr_buffer_free(&text);
    return failed ? zr_fail(error, ZERO_ERR_MEMORY, "no memory to count the bytes of the text")
                  : ZERO_OK;
}

// Loads the reference, in place of the model, for what it gives to each answer.
static zero_status measure_reference(zero_comm *comm, subject *s, int64_t batch, zero_error *error)
{
    zr_load_options load = load_options_of(&s->options);
    zr_loaded loaded = {0};
    load.adapter = NULL;
    load.directory = s->reference ? s->reference : s->options.model_dir;
    zero_status status = zr_comm_agree(comm, zr_load_shape(comm, &load, &loaded, error), error);
    if (status == ZERO_OK && loaded.shape.vocab != s->loaded.shape.vocab)
        status = zr_fail(error, ZERO_ERR_USAGE,
                         "\"%s\" has %lld tokens, and the model that is compared with it %lld",
                         load.directory, (long long)loaded.shape.vocab,
                         (long long)s->loaded.shape.vocab);
    if (status == ZERO_OK)
        status = zr_loaded_prefer(&loaded, &s->preference, error);
    if (status == ZERO_OK)
        status = zr_load_weights(comm, &load, batch, s->dataset.seq, &loaded, error);
    if (status == ZERO_OK)
        status = zr_windows_reference(loaded.engine, &s->dataset, batch, NULL, error);
    zr_loaded_free(&loaded);
    return status;
}

static void tell_texts(const subject *s, const zr_text_score *scores)
{
    const zr_labels *labels = &s->loaded.model_config.labels;
    int64_t count = zr_dataset_examples(&s->dataset);
    for (int64_t i = 0; s->options.labelled && i < count; i++) {
        const zero_labelled_text text = {
            .number = i + 1,
            .label = zr_labels_name(labels, (int)scores[i].label),
            .predicted =
                scores[i].predicted < 0 ? NULL : zr_labels_name(labels, (int)scores[i].predicted),
            .probability = (double)scores[i].probability,
        };
        if (scores[i].read > 0)
            s->options.labelled(s->options.labelled_user, &text);
    }
}

// Measures windows and, if any rank wants them, what each text got.
static zero_status measure_windows(zero_comm *comm, subject *s, int64_t batch,
                                   zr_windows_result *out, zero_error *error)
{
    int64_t wanted = s->options.labelled && s->loaded.model_config.labels.count;
    ZERO_TRY(zr_comm_agree_on_largest(comm, &wanted, error));
    if (!wanted)
        return zr_windows_loss(s->loaded.engine, &s->dataset, batch, 0, NULL, out, error);
    size_t count = (size_t)zr_dataset_examples(&s->dataset);
    zr_text_score *scores = zr_alloc((count + 1) * sizeof *scores, error);
    zero_status status = zr_comm_agree(comm, scores ? ZERO_OK : ZERO_ERR_MEMORY, error);
    if (status == ZERO_OK)
        status = zr_windows_label(s->loaded.engine, &s->dataset, batch, scores, out, error);
    if (status == ZERO_OK)
        tell_texts(s, scores);
    zr_free(scores);
    return status;
}

static zero_status measure_loss(zero_comm *comm, subject *s, zero_eval_result *out,
                                zero_error *error)
{
    int64_t windows = zr_dataset_eval_windows(&s->dataset),
            batch = ZR_MIN(windows, ZR_MAX(1, TOKENS_AT_ONCE / s->dataset.seq));
    zr_load_options load = load_options_of(&s->options);
    zr_windows_result result;
    if (zr_preference_has_reference(&s->preference))
        ZERO_TRY(measure_reference(comm, s, batch, error));
    ZERO_TRY(zr_load_weights(comm, &load, batch, s->dataset.seq, &s->loaded, error));
    ZERO_TRY(measure_windows(comm, s, batch, &result, error));
    if (!result.tokens)
        return zr_fail(error, ZERO_ERR_DATA,
                       "\"%s\": none of its windows of %lld tokens has a target, only prompt: "
                       "there is no loss",
                       zr_corpus_name(s->corpus), (long long)s->dataset.seq);
    *out =
        (zero_eval_result){.loss = result.loss, .windows = result.windows, .tokens = result.tokens};
    bool labels = s->loaded.model_config.labels.count > 0;
    if ((s->preference.kind || labels) && s->options.preferred)
        *s->options.preferred =
            (zero_preference_result){result.pairs, result.accuracy, result.margin, labels};
    if (s->preference.kind || labels) // the loss is not that of tokens
        return ZERO_OK;
    return count_bytes(s, &out->bytes, error);
}

zero_status zero_eval(zero_comm *comm, const zero_eval_options *options, zero_eval_result *out,
                      zero_error *error)
{
    ZR_NEED(error, comm);
    ZR_NEED(error, options);
    ZR_NEED(error, out);
    subject s = {0};
    zero_status status = zr_comm_agree(comm, read_inputs(comm, options, &s, error), error);
    if (status == ZERO_OK)
        status = compare_inputs(comm, &s, error);
    if (status == ZERO_OK)
        status = measure_loss(comm, &s, out, error);
    if (status != ZERO_OK) // if only this rank failed, the others would wait for it
        zero_comm_abort(comm, error ? error->message : zero_status_text(status));
    zr_dataset_free(&s.dataset);
    zr_corpus_close(s.corpus);
    zr_chat_free(&s.chat);
    zr_loaded_free(&s.loaded);
    zr_free(s.model_dir);
    zr_free(s.tokenizer);
    zr_free(s.adapter);
    zr_free(s.reference);
    return status;
}

static void put_pairs(zr_report *r, const zero_preference_result *result)
{
    if (!isnan(result->accuracy))
        zr_report_field(r, &(zr_heading){"accuracy", "accuracy ", ZR_UNIT_DIGITS, 9},
                        zr_real(result->accuracy));
    if (!isnan(result->margin))
        zr_report_field(r, &(zr_heading){"margin", "margin ", ZR_UNIT_DIGITS, 9},
                        zr_real(result->margin));
    zr_report_json_only(r, result->labels ? "texts" : "pairs", zr_integer(result->pairs));
}

zero_status zero_labelled_text_report(const zero_labelled_text *text,
                                      void (*write)(void *user, const char *text), void *user,
                                      zero_error *error)
{
    ZR_NEED(error, text);
    ZR_NEED(error, write);
    zr_buffer line = {0};
    zr_json_writer w = zr_json_writer_on(&line, ZR_JSON_COMPACT);
    zr_json_begin_object(&w, NULL);
    zr_json_integer(&w, "text", text->number);
    zr_json_text(&w, "label", text->label);
    zr_json_text(&w, "predicted", text->predicted);
    zr_json_digits(&w, "probability", 9, text->probability);
    zr_json_finish(&w);
    zero_status status = line.failed
                             ? zr_fail(error, ZERO_ERR_MEMORY, "no memory for a line about a text")
                             : ZERO_OK;
    if (status == ZERO_OK)
        write(user, line.data);
    zr_buffer_free(&line);
    return status;
}

zero_status zero_evaluation_report(const zero_eval_result *result,
                                   const zero_preference_result *preferred, int json,
                                   void (*write)(void *user, const char *text), void *user,
                                   zero_error *error)
{
    ZR_NEED(error, result);
    ZR_NEED(error, write);
    double nats = result->loss * (double)result->tokens;
    zr_report *r = zr_report_create(error);
    zr_report_field(r, &(zr_heading){"loss", "loss ", ZR_UNIT_DIGITS, 9}, zr_real(result->loss));
    if (preferred)
        put_pairs(r, preferred);
    else
        zr_report_field(r, &(zr_heading){"perplexity", "perplexity ", ZR_UNIT_DIGITS, 9},
                        zr_real(exp(result->loss)));
    if (result->bytes)
        zr_report_field(r, &(zr_heading){"bits_per_byte", "bits_per_byte ", ZR_UNIT_DIGITS, 9},
                        zr_real(nats / (double)result->bytes / log(2)));
    zr_report_json_only(r, "windows", zr_integer(result->windows));
    zr_report_json_only(r, "tokens", zr_integer(result->tokens));
    if (result->bytes)
        zr_report_json_only(r, "bytes", zr_integer(result->bytes));
    return zr_report_print(r, json, write, user, error);
}
