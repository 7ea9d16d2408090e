// What a training starts from: the text, its tokenizer, the model's shape, and the windows to train
// and to evaluate on.
#include "base/random.h"
#include "checkpoint/run_directory.h"
#include "comm/agreement.h"
#include "formats/weight_files.h"
#include "layers/layers.h"
#include "model/architecture.h"
#include "setup/input_fingerprints.h"
#include "setup/model_choice.h"
#include "setup/model_lora.h"
#include "setup/model_task.h"
#include "train/training.h"

#include <stdio.h>
#include <string.h>

enum { MOST_GENERATION = 1 << 20 }; // bytes of generation_config.json

static zero_status read_generation(zr_train *train, zero_error *error)
{
    size_t length;
    char *path = zr_sprintf(error, "%s/" ZR_GENERATION_CONFIG, train->asked.options->model_dir);
    if (!path)
        return ZERO_ERR_MEMORY;
    zero_status status =
        zr_path_exists(path)
            ? zr_file_read(path, MOST_GENERATION, &train->subject.generation, &length, error)
            : ZERO_OK;
    zr_free(path);
    return status;
}

static zero_status read_tokens(zr_train *train, zero_error *error)
{
    const zero_train_options *options = train->asked.options;
    if (options->model_dir && !options->tokenizer)
        return read_generation(train, error);
    // The tokenizer's ids replace those of the model's file.
    zr_lm_set_tokens(&train->subject.model_config, zr_tokenizer_begin(train->subject.tokenizer),
                     zr_tokenizer_end(train->subject.tokenizer));
    return ZERO_OK;
}

// Gives a model that has none the labels of the data, in the order of their names.
static zero_status read_labels(zr_train *train, zero_error *error)
{
    zr_train_subject *subject = &train->subject;
    zr_labels *labels = &subject->model_config.labels;
    if (!train->asked.classifies)
        return ZERO_OK;
    if (!labels->count) {
        ZERO_TRY(zr_corpus_labels(subject->corpus, labels, error));
        labels->drawn = true;
    }
    zr_model_task_finish(&subject->model_config);
    ZERO_TRY(zr_lm_check(&subject->model_config, error));
    subject->shape = zr_lm_shape_of(&subject->model_config);
    zr_lm_config bare = subject->model_config;
    bare.lora = (zr_lora){0};
    subject->parameters = zr_lm_parameters(&bare);
    return ZERO_OK;
}

static zero_status read_train_shape(zr_train *train, zero_error *error)
{
    const zero_train_options *options = train->asked.options;
    const zr_subject_question question = {.new_spec = options->new_spec,
                                          .model = options->model_dir,
                                          .seq =
                                              options->seq ? options->seq : train->asked.before.seq,
                                          .tokenizer = train->subject.tokenizer,
                                          .logger = &train->logger};
    zr_model_choice found;
    zero_status status = zr_model_choice_read(&question, &found, error);
    train->subject.model_config = found.model;
    train->subject.model_config.lora = train->asked.lora;
    if (train->asked.base)
        train->subject.model_config.base = train->asked.base;
    train->subject.model_config.preference = train->asked.preference;
    train->subject.shape = found.shape;
    train->subject.parameters = found.parameters;
    train->resolved.seq = found.seq;
    zr_model_choice_free(&found);
    if (status == ZERO_OK)
        status = zr_model_base_check(&train->subject.model_config, question.model, error);
    if (status == ZERO_OK)
        status = read_tokens(train, error);
    return status == ZERO_OK ? read_labels(train, error) : status;
}

static zero_status open_corpus(zr_train *train, const char *const *arguments, int count,
                               zr_corpus **out, zero_error *error)
{
    const zr_corpus_options options = {
        .arguments = arguments,
        .count = count,
        .field = train->asked.options->field,
        .chat = &train->subject.chat,
        .preferences = zr_reading_preferences(&train->asked.preference),
        .prompt_loss = train->asked.preference.prompt_loss > 0,
        .classifies = train->asked.classifies,
        .watch = zr_reading_watch(&train->subject.reading, train->comm, &train->logger),
        .follows = zr_reading_follows(train->comm)};
    return zr_corpus_open(&options, out, error);
}

static zero_status open_corpora(zr_train *train, zero_error *error)
{
    const zero_train_options *options = train->asked.options;
    const char *before = train->asked.before.chat_date;
    const char *date = options->chat_date ? options->chat_date : *before ? before : NULL;
    ZERO_TRY(zr_reading_chat(options->model_dir, options->tokenizer, options->chat, date,
                             &train->subject.chat, error));
    ZERO_TRY(open_corpus(train, options->data, options->data_count, &train->subject.corpus, error));
    if (options->val && strcmp(options->val, "none") != 0)
        ZERO_TRY(open_corpus(train, &options->val, 1, &train->subject.val_corpus, error));
    return ZERO_OK;
}

// Where any micro-batch has positions, all have.
static zero_status see_documents(zr_train *train)
{
    zr_train_subject *subject = &train->subject;
    bool documents = subject->data.documents || subject->val.documents;
    subject->data.documents = subject->val.documents = documents;
    subject->model_config.documents = documents;
    zr_reading_warn_cut(&subject->data, &train->logger);
    zr_reading_warn_cut(&subject->val, &train->logger);
    return ZERO_OK;
}

static zero_status make_datasets(zr_train *train, zero_error *error)
{
    bool tenth = !train->asked.options->val;
    zr_reading reading = zr_token_reader_options(train->comm, train->asked.options->threads,
                                                 train->subject.tokenizer,
                                                 train->subject.shape.vocab, train->resolved.seq);
    reading.pack = train->asked.pack;
    reading.labels = train->asked.classifies ? &train->subject.model_config.labels : NULL;
    ZERO_TRY(zr_corpus_read(train->subject.corpus, &reading, &train->subject.data,
                            tenth ? &train->subject.val : NULL, error));
    train->subject.val_is_tenth = train->subject.val.count > 0;
    zr_reading_warn_records(train->subject.corpus, &train->logger);
    if (train->subject.val_corpus) {
        ZERO_TRY(
            zr_corpus_read(train->subject.val_corpus, &reading, &train->subject.val, NULL, error));
        zr_reading_warn_records(train->subject.val_corpus, &train->logger);
        zr_reading_warn_shortened(train->subject.val_corpus, &train->subject.val, &train->logger);
    }
    zr_reading_warn_shortened(train->subject.corpus, &train->subject.data, &train->logger);
    zr_reading_warn_chat(&train->subject.chat, &train->logger);
    return see_documents(train);
}

// transformers 5 knows of this architecture that the class its files name is often wrong.
static void warn_of_qwen2(const zr_train *train)
{
    const zr_lm_config *config = &train->subject.model_config;
    if (config->kind == ZR_LM_LLAMA && config->llama.variant == ZERO_LLAMA_qwen2 &&
        !zr_tokenizer_is_qwen2(train->subject.tokenizer))
        zr_log(&train->logger, ZERO_LOG_WARNING,
               "transformers 5 opens the tokenizer of any qwen2 as Qwen2's own (AutoTokenizer), "
               "which gives other ids than this training has; PreTrainedTokenizerFast gives the "
               "same");
}

// Exports take the template that the model is trained with.
static zero_status keep_template(zr_train *train, zero_error *error)
{
    zr_buffer text = {0};
    if (!zr_chat_format_name(&train->subject.chat))
        return ZERO_OK;
    zr_chat_template(&train->subject.chat, &text);
    zr_buffer_append(&text, "", 1);
    if (text.failed) {
        zr_buffer_free(&text);
        return zr_fail(error, ZERO_ERR_MEMORY, "no memory for a chat template");
    }
    train->subject.template = text.data;
    return ZERO_OK;
}

zero_status zr_train_read(zr_train *train, zero_error *error)
{
    ZERO_TRY(open_corpora(train, error));
    ZERO_TRY(zr_reading_tokenizer(train->asked.options->model_dir, train->asked.options->tokenizer,
                                  train->subject.corpus, &train->subject.tokenizer, error));
    ZERO_TRY(zr_chat_check_marks(&train->subject.chat, train->asked.options->chat,
                                 train->subject.tokenizer, error));
    ZERO_TRY(keep_template(train, error));
    zr_reading_warn(train->subject.tokenizer, &train->logger);
    ZERO_TRY(read_train_shape(train, error));
    warn_of_qwen2(train);
    return make_datasets(train, error);
}

// Compares the options that decide what all ranks do together, and when.
static void fingerprint_options(zr_fingerprints *list, const zero_train_options *options)
{
    uint64_t seconds; // the bits of the double
    memcpy(&seconds, &options->save_seconds, sizeof seconds);
    const char *changes = options->allow_change ? options->allow_change : "nothing";
    char text[40];
    snprintf(text, sizeof text, "%.9g s", options->save_seconds);
    zr_fingerprint_number(list, "--dry-run", options->dry_run != 0);
    zr_fingerprint_number(list, "--resume", options->resume != 0);
    zr_fingerprint_number(list, "--overwrite", options->overwrite != 0);
    zr_fingerprints_add(list, "option", "--allow-change", changes, zr_hash_text(changes));
    zr_fingerprint_number(list, "--ignore-unused", options->ignore_unused != 0);
    zr_fingerprint_number(list, "--eval-every", options->eval_every);
    zr_fingerprint_number(list, "--sample-every", options->sample_every);
    zr_fingerprint_number(list, "--save-every", options->save_every);
    zr_fingerprints_add(list, "option", "--save-seconds", text, seconds);
    zr_fingerprint_number(list, "--keep", options->keep);
    zr_fingerprint_number(list, "--no-final-checkpoint", options->no_final_checkpoint != 0);
    // Which steps it records follows from --steps and from where the run continues.
    zr_fingerprint_number(list, "--profile", options->profile != NULL);
}

// This comes before anything is derived from what a rank has read by itself.
zero_status zr_train_compare_inputs(zr_train *train, zero_error *error)
{
    const zero_train_options *options = train->asked.options;
    const zr_watch watch = zr_reading_watch(&train->subject.reading, train->comm, &train->logger);
    const char *model = options->model_dir ? options->model_dir : options->new_spec;
    zr_fingerprints list = {0};
    if (train->comm->size == 1)
        return ZERO_OK;
    fingerprint_options(&list, options);
    zr_fingerprint_number(&list, "--seq", train->resolved.seq);
    zr_fingerprint_number(&list, "--steps", train->resolved.steps);
    zr_fingerprint_config(&list, train->resolved.config);
    zr_fingerprint_model(&list, &train->subject.model_config);
    zr_fingerprint_text(&list, ZR_GENERATION_CONFIG, model, train->subject.generation);
    zr_fingerprint_tokenizer(&list,
                             options->tokenizer   ? options->tokenizer
                             : options->model_dir ? model
                                                  : zr_tokenizer_name(train->subject.tokenizer),
                             train->subject.tokenizer);
    zr_fingerprint_dataset(&list, "text to train on", &train->subject.data,
                           (uint64_t)train->resolved.seed, &watch);
    zr_fingerprint_dataset(&list, "held-out text", &train->subject.val,
                           (uint64_t)train->resolved.seed, &watch);
    return zr_comm_compare_fingerprints(train->comm, &list, error);
}

// Each rank hashes a share of what all of them read. The hash is summed in halves of 32 bits,
// because the communicator's sums may not overflow.
zero_status zr_train_hash_data(zr_train *train, zero_error *error)
{
    const zr_watch watch = zr_reading_watch(&train->subject.reading, train->comm, &train->logger);
    const zr_dataset *const sets[] = {&train->subject.data, &train->subject.val};
    uint64_t all[] = {0, 0, zr_tokenizer_fingerprint(train->subject.tokenizer)};
    for (int i = 0; i < ZR_COUNT(sets); i++) {
        uint64_t mine = zr_dataset_hash(sets[i], train->comm->rank, train->comm->size, &watch);
        int64_t halves[] = {(int64_t)(mine & UINT32_MAX), (int64_t)(mine >> 32)};
        ZERO_TRY(zr_comm_all_reduce_small(train->comm, halves, ZR_COUNT(halves), ZERO_I64, ZR_SUM,
                                          error));
        all[i] = (uint64_t)halves[0] + ((uint64_t)halves[1] << 32);
    }
    snprintf(train->subject.data_hash, sizeof train->subject.data_hash, "%016llx",
             (unsigned long long)zr_hash_bytes(all, sizeof all, 0));
    return ZERO_OK;
}

// Rank 0 hashes it, for all ranks.
zero_status zr_train_hash_model(zr_train *train, uint64_t *out, zero_error *error)
{
    char *from = NULL;
    zero_status status = ZERO_OK;
    *out = 0;
    if (train->comm->rank == 0)
        status = zr_find_weights(train->asked.options->model_dir, &from, error);
    if (from)
        status = zr_weights_hash(train->comm, from, out, error);
    zr_free(from);
    ZERO_TRY(zr_comm_agree(train->comm, status, error));
    return zr_comm_broadcast(train->comm, out, sizeof *out, 0, error);
}

void zr_train_release_subject(zr_train_subject *subject)
{
    zr_dataset_free(&subject->data);
    zr_dataset_free(&subject->val);
    zr_corpus_close(subject->corpus);
    zr_corpus_close(subject->val_corpus);
    zr_chat_free(&subject->chat);
    zr_tokenizer_destroy(subject->tokenizer);
    zr_lm_free(subject->model);
    zr_free(subject->generation);
    zr_free(subject->template);
}
