#include "setup/load.h"

#include "checkpoint/adapter_directory.h"
#include "layers/layers.h"
#include "setup/backend_choice.h"
#include "setup/defaults.h"
#include "setup/initialize.h"
#include "setup/model_lora.h"
#include "setup/model_part.h"
#include "setup/resolve.h"
#include <zero/weights.h>

#include <stdio.h>

zero_status zr_load_check_tokens(const char *name, const zr_tokenizer *tokenizer,
                                 int64_t vocabulary, zero_error *error)
{
    if (zr_tokenizer_vocabulary(tokenizer) <= vocabulary)
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_DATA,
                   "%s: the tokenizer has %d tokens, the model a vocabulary of %lld", name,
                   zr_tokenizer_vocabulary(tokenizer), (long long)vocabulary);
}

static zero_status read_model_and_tokenizer(const zr_load_options *options, zr_loaded *out,
                                            zero_error *error)
{
    const char *directory = options->directory;
    ZERO_TRY(zr_lm_config_read_in(directory, &out->model_config, error));
    if (options->adapter)
        ZERO_TRY(zr_adapter_read_config(options->adapter, &out->model_config, error));
    out->shape = zr_lm_shape_of(&out->model_config);
    if (options->no_tokenizer)
        return ZERO_OK;
    const char *of = zr_adapter_tokenizer(options->adapter, directory);
    ZERO_TRY(zr_tokenizer_load(of, &out->tokenizer, error));
    return zr_load_check_tokens(of, out->tokenizer, out->shape.vocab, error);
}

enum { MOST_FLAGS = 4, NUMBER_BYTES = 24 };

typedef struct load_flags {
    zero_override at[MOST_FLAGS];
    int count;
    char numbers[MOST_FLAGS][NUMBER_BYTES];
} load_flags;

static void add_budget(load_flags *flags, const char *key, int64_t bytes, const char *flag)
{
    if (!bytes)
        return;
    char *number = flags->numbers[flags->count];
    snprintf(number, NUMBER_BYTES, "%lld", (long long)bytes);
    flags->at[flags->count++] = (zero_override){key, number, flag};
}

static void find_flags(const zr_load_options *options, load_flags *out)
{
    const char *dtype = options->dtype || options->config_path ? options->dtype : "fp32";
    *out = (load_flags){0};
    if (dtype)
        out->at[out->count++] = (zero_override){"libzero.dtype", dtype, "--dtype"};
    if (options->base)
        out->at[out->count++] = (zero_override){"libzero.base", options->base, "--base"};
    add_budget(out, "libzero.device_memory", options->device_memory, "--device-memory");
    add_budget(out, "libzero.host_memory", options->host_memory, "--host-memory");
}

static zero_status resolve_inference_config(const zero_comm *comm, const zr_load_options *options,
                                            zr_loaded *out, zero_error *error)
{
    load_flags flags;
    find_flags(options, &flags);
    zr_resolution how = {
        .name = options->config_path,
        .flags = flags.at,
        .flag_count = flags.count,
        .for_inference = true,
        .facts =
            zr_resolve_facts(&(zr_run_outline){.ranks = comm->size,
                                               .width = out->shape.width,
                                               .on_card = zr_backend_is_card(options->backend)}),
        .logger = comm->rank == 0 ? &options->logger : NULL,
    };
    how.facts.parallel = options->parallel;
    how.facts.micro_batch = 1;
    return zr_resolve_file(&how, &out->config, error);
}

zero_status zr_load_shape(const zero_comm *comm, const zr_load_options *options, zr_loaded *out,
                          zero_error *error)
{
    ZERO_TRY(read_model_and_tokenizer(options, out, error));
    if (options->adapter)
        ZERO_TRY(zr_adapter_warn_base(options->adapter, options->directory,
                                      comm->rank == 0 ? &options->logger : NULL, error));
    ZERO_TRY(resolve_inference_config(comm, options, out, error));
    ZERO_TRY(zr_model_part_check(&out->model_config, options->directory, out->config, error));
    zr_model_tiles_apply(out->config, &out->model_config);
    ZERO_TRY(zr_model_base_apply(out->config, &out->model_config, error));
    return zr_lm_create(&out->model_config, &out->model, error);
}

static zero_status make_again(zr_loaded *loaded, zero_error *error)
{
    zr_lm_free(loaded->model);
    loaded->model = NULL;
    return zr_lm_create(&loaded->model_config, &loaded->model, error);
}

zero_status zr_loaded_see_documents(zr_loaded *loaded, zero_error *error)
{
    loaded->model_config.documents = true;
    return make_again(loaded, error);
}

zero_status zr_loaded_prefer(zr_loaded *loaded, const zr_preference *preference, zero_error *error)
{
    loaded->model_config.documents = true;
    loaded->model_config.preference = *preference;
    return make_again(loaded, error);
}

zero_status zr_load_weights(zero_comm *comm, const zr_load_options *options, int64_t batch,
                            int64_t seq, zr_loaded *loaded, zero_error *error)
{
    ZERO_TRY(zr_rank_threads_choose(comm, options->threads, &loaded->threads, error));
    zero_options engine = {.struct_size = sizeof engine,
                           .model = loaded->model,
                           .comm = comm,
                           .shape = {.batch = batch, .seq = seq},
                           .threads = loaded->threads.count,
                           .backend = options->backend,
                           .inference = 1};
    zr_config *config = loaded->config;
    loaded->config = NULL;
    ZERO_TRY(zr_engine_make(&engine, config, NULL, &loaded->engine, error));
    zr_log(&options->logger, ZERO_LOG_DEBUG, "%s: %d threads (%s)", options->directory,
           loaded->threads.count, loaded->threads.reason);
    const zero_load_options how = {.struct_size = sizeof how,
                                   .ignore_unused = options->ignore_unused,
                                   .logger = options->logger};
    ZERO_TRY(zero_load_weights_with(loaded->engine, options->directory, &how, error));
    return options->adapter ? zero_load_weights_with(loaded->engine, options->adapter, &how, error)
                            : ZERO_OK;
}

void zr_loaded_free(zr_loaded *loaded)
{
    zero_destroy(loaded->engine);
    zr_config_destroy(loaded->config);
    zr_lm_free(loaded->model);
    zr_tokenizer_destroy(loaded->tokenizer);
    *loaded = (zr_loaded){0};
}
