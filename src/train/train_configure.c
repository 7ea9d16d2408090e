// The configuration of a training: the file, the flags, what a run that continues keeps
// (setup/inherited.c), and the program's own choices for what nobody chose.
#include "config/config_ranks.h"
#include "checkpoint/run_record.h"
#include "comm/agreement.h"
#include "cuda/cards.h"
#include "setup/backend_choice.h"
#include "setup/defaults.h"
#include "setup/model_lora.h"
#include "setup/model_part.h"
#include "setup/model_preference.h"
#include "setup/model_task.h"
#include "setup/placement.h"
#include "setup/resolve.h"
#include "train/training.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEED "libzero.seed"
#define DEFAULT_SEED "1337"

// A run that the processor has begun stays there unless --backend says otherwise, because a card
// rounds differently.
static bool began_on_processor(const zr_train *train)
{
    const char *before = train->asked.before.backend;
    return train->asked.resume && *before && strncmp(before, "cuda", strlen("cuda")) != 0;
}

static zr_config_facts gather_facts(const zr_train *train, int64_t steps)
{
    const char *backend = train->asked.options->backend;
    return zr_resolve_facts(&(zr_run_outline){.ranks = train->comm->size,
                                              .on_card = zr_backend_is_card(backend),
                                              .parameters = train->subject.parameters,
                                              .seq = train->resolved.seq,
                                              .width = train->subject.shape.width,
                                              .steps = steps,
                                              .continues = train->asked.options->model_dir &&
                                                           !train->subject.model_config.lora.rank});
}

// Puts in, after the flags, the program's seed if nothing else gives one, and what a run that
// continues keeps.
static zero_status add_seed_and_inherited(zr_resolution *how, zr_config *config, zero_error *error)
{
    const zr_train *train = how->user;
    if (!zr_config_has_value(config, SEED))
        ZERO_TRY(zr_config_override(config, SEED, DEFAULT_SEED, "default", how->strict, how->logger,
                                    error));
    const zr_inherited keep = {
        .before = &train->asked.before,
        .ranks = config->ranks,
        .restarted = train->asked.options->restarted,
    };
    int64_t usual = zr_config_usual_micro_batch(config, &how->facts);
    return zr_inherited_apply(&keep, config, usual, how->logger, error);
}

static zr_resolution make_resolution(zr_train *train, zr_config_facts facts,
                                     const zero_logger *logger)
{
    const zero_train_options *options = train->asked.options;
    return (zr_resolution){
        .text = train->resolved.file_text,
        .length = train->resolved.file_length,
        .name = options->config_path,
        .flags = options->overrides,
        .flag_count = options->override_count,
        .strict = options->strict,
        .facts = facts,
        .logger = logger,
        .amend = add_seed_and_inherited,
        .user = train,
    };
}

static zero_status make_config(zr_train *train, int64_t steps, const zero_logger *logger,
                               zr_config **out, zero_error *error)
{
    zr_resolution how = make_resolution(train, gather_facts(train, steps), logger);
    ZERO_TRY(zr_resolve(&how, out, error));
    zr_inherited_tell(&train->asked.before, *out, logger);
    return ZERO_OK;
}

// Steps of an asynchronous pipeline overlap until it drains, and only there a model can be
// evaluated or saved.
static zero_status check_drains(const zero_train_options *options, const zr_config *config,
                                zero_error *error)
{
    ZERO_TRY(zr_config_check_drain(config, "--eval-every", options->eval_every, error));
    return zr_config_check_drain(config, "--save-every", options->save_every, error);
}

// Adapters of random weights would adapt to nothing that is kept: only a dry run may have them.
static zero_status read_lora(zr_train_asked *asked, const zr_config *config, zero_error *error)
{
    const zero_train_options *options = asked->options;
    zr_lm_config model;
    bool unused;
    if (!zr_config_has_value(config, ZR_LORA_KEY) && !config->base)
        return ZERO_OK;
    ZERO_TRY(options->new_spec ? zr_lm_parse_spec(options->new_spec, &model, &unused, error)
                               : zr_lm_config_read_in(options->model_dir, &model, error));
    ZERO_TRY(zr_model_lora_apply(config, &model, &unused, error));
    asked->lora = model.lora;
    asked->base = model.base;
    if (asked->lora.rank && options->new_spec && !options->dry_run)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "--lora adapts a model that is there: --model names it, and --new %s would "
                       "make one of random weights that no file keeps",
                       options->new_spec);
    return ZERO_OK;
}

// Answers are packed with their prompts: attention that looked from one into the next would see
// what it is compared with.
static zero_status read_preference(zr_train_asked *asked, const zr_config *config,
                                   zero_error *error)
{
    ZERO_TRY(zr_model_preference_read(config, &asked->preference, error));
    if (zr_model_reference_file(config) && !zr_preference_has_reference(&asked->preference))
        return zr_fail(
            error, ZERO_ERR_CONFIG,
            "libzero.reference (--reference) is a file of what dpo and kto compare with, "
            "and the preference of this run is %s",
            asked->preference.kind ? zr_preference_name(asked->preference.kind)
                                   : "none (--preference)");
    if (!asked->preference.kind || config->attention != ZR_ATTENTION_CAUSAL)
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_CONFIG,
                   "libzero.attention is \"causal\" (--attention), and answers that are compared "
                   "(--preference) must not see each other: auto or document");
}

// A model that has labels is trained on them, also without a task.
static zero_status read_task(zr_train_asked *asked, const zr_config *config, zero_error *error)
{
    zr_lm_config model = {.kind = ZR_LM_GPT2};
    ZERO_TRY(zr_model_task_read(config, &asked->classifies, error));
    if (asked->options->model_dir)
        ZERO_TRY(zr_lm_config_read_in(asked->options->model_dir, &model, error));
    asked->classifies = asked->classifies || model.labels.count;
    if (!asked->classifies)
        return ZERO_OK;
    if (asked->preference.kind)
        return zr_fail(error, ZERO_ERR_CONFIG,
                       "--task classify and --preference %s: a training has one of them",
                       zr_preference_name(asked->preference.kind));
    return zr_model_task_check_attention(config->attention == ZR_ATTENTION_CAUSAL ? "causal" : NULL,
                                         error);
}

static const zr_pack pack_of_attention[] = {
    [ZR_ATTENTION_AUTO] = ZR_PACK_MASKED,
    [ZR_ATTENTION_CAUSAL] = ZR_PACK_NONE,
    [ZR_ATTENTION_DOCUMENT] = ZR_PACK_ALL,
};

// The model's size and the text's length are not known yet. Any number stands for them, with which
// nothing is refused. The ranks that compute a model are reported to the supervisor here already,
// because a rank may die before there is an engine.
zero_status zr_train_check_config(zr_train *train, zero_error *error)
{
    zr_config_facts facts = zr_resolve_facts(&(zr_run_outline){
        .ranks = train->comm->size, .steps = ZR_MAX(train->asked.options->steps, 1)});
    zr_config *config = NULL;
    ZERO_TRY(zr_resolve_text(train->asked.options->config_path, &train->resolved.file_text,
                             &train->resolved.file_length, error));
    facts.micro_batch = 1;
    zr_resolution how = make_resolution(train, facts, NULL);
    zero_status status = zr_resolve(&how, &config, error);
    if (status == ZERO_OK)
        status = check_drains(train->asked.options, config, error);
    if (status == ZERO_OK)
        status = read_lora(&train->asked, config, error);
    if (status == ZERO_OK)
        status = read_preference(&train->asked, config, error);
    if (status == ZERO_OK)
        status = read_task(&train->asked, config, error);
    if (status == ZERO_OK)
        train->asked.pack = pack_of_attention[config->attention];
    if (status == ZERO_OK)
        zr_comm_report_multiple(train->comm, zr_config_model_ranks(config));
    zr_config_destroy(config);
    return status;
}

// tokens_of_step is over all ranks.
static int64_t count_steps(const zr_train_asked *asked, int64_t tokens, int64_t tokens_of_step)
{
    const zero_train_options *options = asked->options;
    if (options->dry_run && !asked->replay_to)
        return 1;
    if (options->epochs > 0)
        return (int64_t)(options->epochs * (double)tokens / (double)tokens_of_step + 0.5);
    return options->steps ? options->steps : zr_default_steps(tokens, tokens_of_step);
}

// The number of steps follows from the batch, and the schedule from the number of steps, so the
// configuration is first resolved just for its batch.
static zero_status choose_steps(zr_train *train, zero_error *error)
{
    zr_config *probe = NULL;
    ZERO_TRY(make_config(train, ZR_MAX(train->asked.options->steps, 1), NULL, &probe, error));
    int64_t tokens_of_step = probe->train_batch * train->resolved.seq;
    int64_t epoch = zr_dataset_epoch(&train->subject.data);
    int64_t steps = count_steps(&train->asked, epoch, tokens_of_step);
    zr_config_destroy(probe);
    train->resolved.steps = ZR_MAX(steps, 1);
    return ZERO_OK;
}

// Aligns the lines of the resolution with the other lines before the first step. Its choices are
// details, what a flag or a checkpoint changes is none.
static void log_choice(void *user, zero_log_level level, const char *message)
{
    const zr_train *train = user;
    zr_log(&train->logger, level, level >= ZERO_LOG_INFO ? "config   %s" : "%s", message);
}

static zero_status check_model_part(const zr_train *train, zero_error *error)
{
    const zero_train_options *options = train->asked.options;
    return zr_model_part_check(&train->subject.model_config,
                               options->new_spec ? options->new_spec : options->model_dir,
                               train->resolved.config, error);
}

zero_status zr_train_configure(zr_train *train, zero_error *error)
{
    zero_logger logger = {.write = log_choice, .user = train};
    ZERO_TRY(choose_steps(train, error));
    ZERO_TRY(make_config(train, train->resolved.steps, &logger, &train->resolved.config, error));
    if (!train->asked.options->dry_run || train->asked.replay_to) // else a step stands for the run
        ZERO_TRY(zr_config_check_schedule(train->resolved.config, error));
    ZERO_TRY(zr_config_check_length(train->resolved.config, train->resolved.steps, error));
    ZERO_TRY(check_model_part(train, error));
    train->resolved.keeps_weight_decay =
        train->asked.before.has_weight_decay &&
        train->asked.before.weight_decay == train->resolved.config->optimizer.weight_decay;
    train->resolved.seed = train->resolved.config->seed;
    train->subject.data.seed = (uint64_t)train->resolved.seed;
    return ZERO_OK;
}

zero_options zr_train_engine_options(const zr_train *train)
{
    const zero_train_options *options = train->asked.options;
    const zr_train_resolved *resolved = &train->resolved;
    return (zero_options){
        .struct_size = sizeof(zero_options),
        .model = train->subject.model,
        .comm = train->comm,
        .shape = {.batch = resolved->config->micro_batch, .seq = resolved->seq},
        .threads = resolved->threads.count,
        .seed = (uint64_t)resolved->seed,
        .backend = options->backend,
        .total_steps = resolved->steps,
        .allow_change = options->allow_change,
        .logger = train->logger,
    };
}

// Opens the card, so that it stays open until the training ends, and says what its cache of kernels
// could not do.
static zero_status keep_card(zr_train *train, const char *backend, zero_error *error)
{
    const zr_backend *found;
    zr_cuda_card_fact fact;
    ZERO_TRY(zr_said_backend_find(backend, &found, error));
    if (!zr_backend_is_far(found))
        return ZERO_OK;
    if (!train->run.card)
        ZERO_TRY(zr_said_queue_open(backend, 1, &train->run.card, error));
    if (zr_cuda_card_look(atoi(found->path()), &fact, NULL) == ZERO_OK && *fact.warning)
        zr_log(&train->logger, ZERO_LOG_WARNING, "%s", fact.warning);
    return ZERO_OK;
}

// Decides what "auto" stands for, now that it is known what is trained.
static zero_status settle_backend(zr_train *train, zero_error *error)
{
    char reason[ZERO_MESSAGE_BYTES] = "";
    zr_train_resolved *resolved = &train->resolved;
    zr_backend_configure(resolved->config);
    const char **backend = &train->asked.own.options.backend;
    if (*backend && strcmp(*backend, "auto") == 0) {
        *backend = began_on_processor(train)
                       ? "cpu"
                       : zr_backend_of_auto(resolved->config, &train->subject.model_config,
                                            train->comm->size, &train->run.card, reason);
        resolved->chose_card = train->run.card;
        if (*reason)
            zr_log(&train->logger, ZERO_LOG_INFO, "backend  auto: %s", reason);
    }
    ZERO_TRY(keep_card(train, *backend, error));
    return train->run.card ? zr_queue_instructions(train->run.card, resolved->instructions,
                                                   sizeof resolved->instructions, error)
                           : zr_said_instructions(*backend, resolved->instructions,
                                                  sizeof resolved->instructions, error);
}

zero_status zr_train_place(zr_train *train, zero_error *error)
{
    zr_lm_config *shape = &train->subject.model_config;
    zr_train_resolved *resolved = &train->resolved;
    ZERO_TRY(zr_comm_agree(train->comm, settle_backend(train, error), error));
    const zero_options options = zr_train_engine_options(train);
    const zr_resolution how = make_resolution(train, gather_facts(train, resolved->steps), NULL);
    ZERO_TRY(zr_placement_settle(&how, &options, shape, &resolved->config, error));
    zr_model_tiles_apply(resolved->config, shape);
    return zr_model_tiles_choose(&options, resolved->config, shape, error);
}

// Collects what was chosen or given outside of the file.
static zr_run_record make_run_record(const zr_train *train, char date[static 16])
{
    const zero_train_options *options = train->asked.options;
    bool asks_date = train->subject.data.masked && zr_chat_asks_date(&train->subject.chat, date);
    return (zr_run_record){
        .new_spec = options->new_spec,
        .model = options->model_dir,
        .tokenizer =
            options->tokenizer ? options->tokenizer : zr_tokenizer_name(train->subject.tokenizer),
        .tokenizer_of_model = options->model_dir && !options->tokenizer,
        .data = options->data,
        .data_count = options->data_count,
        .val = train->subject.val_is_tenth ? NULL
               : train->subject.val.count  ? options->val
                                           : "none",
        .field = options->field,
        .chat = options->chat,
        .chat_date = asks_date ? date : NULL,
        .allow_change = options->allow_change,
        .backend = options->backend ? options->backend : "cpu",
        .comm = zero_comm_name(train->comm),
        .instructions = train->resolved.instructions,
        .data_hash = train->subject.data_hash,
        .vocabulary = train->subject.shape.vocab,
        .parameters = train->subject.parameters,
        .seq = train->resolved.seq,
        .steps = train->resolved.steps,
        .ranks = train->comm->size,
        .tensor = train->resolved.config->tensor,
        .stages = train->resolved.config->pipeline.stages,
        .threads = train->resolved.threads.count,
    };
}

static zero_status no_memory(zero_error *error)
{
    return zr_fail(error, ZERO_ERR_MEMORY, "no memory for the text of the resolved configuration");
}

static char *config_as_text(const zr_config *config, zero_error *error)
{
    zr_buffer text = {0};
    char *copy = NULL;
    zr_config_write(config, &text);
    if (text.failed)
        no_memory(error);
    else
        copy = zr_strdup(text.data, error);
    zr_buffer_free(&text);
    return copy;
}

zero_status zr_train_record(zr_train *train, zero_error *error)
{
    zr_train_resolved *resolved = &train->resolved;
    char date[16];
    const zr_run_record record = make_run_record(train, date);
    zr_buffer run = {0};
    zr_run_record_write(&record, &run);
    zero_status status = run.failed ? no_memory(error)
                                    : zr_config_override(resolved->config, "libzero.run", run.data,
                                                         "this run", false, NULL, error);
    zr_buffer_free(&run);
    ZERO_TRY(status);
    resolved->config_text = config_as_text(resolved->config, error);
    return resolved->config_text ? ZERO_OK : ZERO_ERR_MEMORY;
}
