// What a training starts from: the text, its tokenizer, the model's shape, and the windows to train and to evaluate on.
#include "base/random.h"
#include "layers/layers.h"
#include "model/unit.h"
#include "setup/resolve.h"
#include "setup/same_inputs.h"
#include "train/train.h"

#include <stdio.h>
#include <string.h>

enum { MOST_GENERATION = 1 << 20 }; // bytes of generation_config.json

static zero_status read_generation(zr_train *train, zero_error *error)
{
    size_t length;
    char *path = zr_sprintf(error, "%s/" ZR_GENERATION_CONFIG, train->options->model_dir);
    if (!path)
        return ZERO_ERR_MEMORY;
    zero_status status = zr_path_exists(path) ? zr_file_read(path, MOST_GENERATION, &train->generation, &length, error) : ZERO_OK;
    zr_free(path);
    return status;
}

static zero_status read_config(zr_train *train, bool *vocab_given, zero_error *error)
{
    const zero_train_options *options = train->options;
    *vocab_given = true;
    ZERO_TRY(options->new_spec ? zr_lm_parse_spec(options->new_spec, &train->model_config, vocab_given, error)
                               : zr_lm_config_read_in(options->model_dir, &train->model_config, error));
    if (options->model_dir && !options->tokenizer)
        return read_generation(train, error);
    zr_lm_set_tokens(&train->model_config, zr_tokenizer_begin(train->tokenizer), zr_tokenizer_end(train->tokenizer)); // not the model's own
    return ZERO_OK;
}

static zero_status read_shape(zr_train *train, zero_error *error)
{
    const zero_train_options *options = train->options;
    int64_t tokens = zr_tokenizer_vocabulary(train->tokenizer);
    bool given;
    ZERO_TRY(read_config(train, &given, error));
    if (!given)
        zr_lm_set_vocabulary(&train->model_config, tokens);
    train->shape = zr_lm_shape_of(&train->model_config);
    if (tokens > train->shape.vocab)
        return zr_fail(error, ZERO_ERR_USAGE, "the tokenizer (%s) has %lld tokens, the model a vocabulary of %lld only", zr_tokenizer_name(train->tokenizer),
                       (long long)tokens, (long long)train->shape.vocab);
    train->seq = options->seq ? options->seq : train->shape.positions;
    return zr_window_check(train->seq, train->shape.positions, error);
}

static zero_status open_corpus(zr_train *train, const char *const *arguments, int count, zr_corpus **out, zero_error *error)
{
    const zr_corpus_options options = {.arguments = arguments, .count = count, .field = train->options->field, .chat = &train->chat,
                                       .watch = zr_reading_watch(&train->reading, train->comm, &train->logger)};
    return zr_corpus_open(&options, out, error);
}

static zero_status open_corpora(zr_train *train, zero_error *error)
{
    const zero_train_options *options = train->options;
    ZERO_TRY(zr_reading_chat(options->model_dir, options->tokenizer, options->chat, &train->chat, error));
    ZERO_TRY(open_corpus(train, options->data, options->data_count, &train->corpus, error));
    if (options->val && strcmp(options->val, "none") != 0)
        ZERO_TRY(open_corpus(train, &options->val, 1, &train->val_corpus, error));
    return ZERO_OK;
}

static zero_status make_datasets(zr_train *train, zero_error *error)
{
    bool tenth = !train->options->val;
    const zr_reading reading = zr_reading_of(train->comm, train->options->threads, train->tokenizer, train->shape.vocab, train->seq);
    ZERO_TRY(zr_corpus_read(train->corpus, &reading, &train->data, tenth ? &train->val : NULL, error));
    train->val_is_tenth = train->val.count > 0;
    zr_reading_warn_empty(train->corpus, &train->logger);
    if (!train->val_corpus)
        return ZERO_OK;
    ZERO_TRY(zr_corpus_read(train->val_corpus, &reading, &train->val, NULL, error));
    zr_reading_warn_empty(train->val_corpus, &train->logger);
    return ZERO_OK;
}

zero_status zr_train_read(zr_train *train, zero_error *error)
{
    ZERO_TRY(open_corpora(train, error));
    ZERO_TRY(zr_reading_tokenizer(train->options->model_dir, train->options->tokenizer, train->corpus, &train->tokenizer, error));
    zr_reading_warn(train->tokenizer, &train->logger);
    ZERO_TRY(read_shape(train, error));
    ZERO_TRY(zr_lm_create(&train->model_config, &train->model, error));
    train->parameters = zr_model_parameters(train->model);
    return make_datasets(train, error);
}

const char *zr_train_instructions(const zr_train *train)
{
    const zr_backend *backend;
    const char *name = train->options->backend ? train->options->backend : "cpu";
    return zr_backend_find(name, NULL, &backend, NULL) == ZERO_OK ? backend->path() : "unknown";
}

// Those that decide what all ranks do together, and when.
static void same_options(zr_fingerprints *list, const zero_train_options *options)
{
    uint64_t seconds; // its bits
    memcpy(&seconds, &options->save_seconds, sizeof seconds);
    const char *changes = options->allow_change ? options->allow_change : "nothing";
    char text[40];
    snprintf(text, sizeof text, "%.9g s", options->save_seconds);
    zr_same_number(list, "--dry-run", options->dry_run != 0);
    zr_same_number(list, "--resume", options->resume != 0);
    zr_same_number(list, "--overwrite", options->overwrite != 0);
    zr_fingerprints_add(list, "option", "--allow-change", changes, zr_hash_text(changes));
    zr_same_number(list, "--ignore-unused", options->ignore_unused != 0);
    zr_same_number(list, "--eval-every", options->eval_every);
    zr_same_number(list, "--sample-every", options->sample_every);
    zr_same_number(list, "--save-every", options->save_every);
    zr_fingerprints_add(list, "option", "--save-seconds", text, seconds);
    zr_same_number(list, "--keep", options->keep);
    zr_same_number(list, "--no-final-checkpoint", options->no_final_checkpoint != 0);
    zr_same_number(list, "--profile", options->profile != NULL); // its steps follow from --steps, and where the run goes on
}

// Before anything follows from what a rank has read by itself.
zero_status zr_train_compare_inputs(zr_train *train, zero_error *error)
{
    const zero_train_options *options = train->options;
    const zr_watch watch = zr_reading_watch(&train->reading, train->comm, &train->logger);
    const char *model = options->model_dir ? options->model_dir : options->new_spec;
    zr_fingerprints list = {0};
    if (train->comm->size == 1)
        return ZERO_OK;
    same_options(&list, options);
    zr_same_number(&list, "--seq", train->seq);
    zr_same_number(&list, "--steps", train->steps);
    zr_same_config(&list, train->config);
    zr_same_model(&list, &train->model_config);
    zr_same_text(&list, ZR_GENERATION_CONFIG, model, train->generation);
    zr_same_tokenizer(&list, options->tokenizer ? options->tokenizer : options->model_dir ? model : zr_tokenizer_name(train->tokenizer), train->tokenizer);
    zr_same_dataset(&list, "text to train on", &train->data, (uint64_t)train->seed, &watch);
    zr_same_dataset(&list, "held-out text", &train->val, (uint64_t)train->seed, &watch);
    return zr_comm_compare_fingerprints(train->comm, &list, error);
}

// Each rank hashes a share of what all of them read. Sums of 32 bits, since those of the communicator may not overflow.
zero_status zr_train_hash_data(zr_train *train, zero_error *error)
{
    const zr_watch watch = zr_reading_watch(&train->reading, train->comm, &train->logger);
    const zr_dataset *const sets[] = {&train->data, &train->val};
    uint64_t all[] = {0, 0, zr_tokenizer_fingerprint(train->tokenizer)};
    for (int i = 0; i < ZR_COUNT(sets); i++) {
        uint64_t mine = zr_dataset_hash(sets[i], train->comm->rank, train->comm->size, &watch);
        int64_t halves[] = {(int64_t)(mine & UINT32_MAX), (int64_t)(mine >> 32)};
        ZERO_TRY(zr_comm_all_reduce_small(train->comm, halves, ZR_COUNT(halves), ZERO_I64, ZR_SUM, error));
        all[i] = (uint64_t)halves[0] + ((uint64_t)halves[1] << 32);
    }
    snprintf(train->data_hash, sizeof train->data_hash, "%016llx", (unsigned long long)zr_hash_bytes(all, sizeof all, 0));
    return ZERO_OK;
}

void zr_train_release_data(zr_train *train)
{
    zr_dataset_free(&train->data);
    zr_dataset_free(&train->val);
    zr_corpus_close(train->corpus);
    zr_corpus_close(train->val_corpus);
    zr_chat_free(&train->chat);
    zr_tokenizer_destroy(train->tokenizer);
    zr_lm_free(train->model);
    zr_free(train->generation);
}
