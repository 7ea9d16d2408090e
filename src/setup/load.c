#include "setup/load.h"

#include "layers/layers.h"
#include "setup/config_text.h"
#include "setup/defaults.h"
#include "setup/initialize.h"
#include "setup/tiling.h"
#include <zero/files.h>

#include <stdio.h>

static zero_status read_model(const char *directory, zr_loaded *out, zero_error *error)
{
    ZERO_TRY(zr_lm_config_read_in(directory, &out->model_config, error));
    out->shape = zr_lm_shape_of(&out->model_config);
    ZERO_TRY(zr_tokenizer_load(directory, &out->tokenizer, error));
    if (zr_tokenizer_vocabulary(out->tokenizer) > out->shape.vocab)
        return zr_fail(error, ZERO_ERR_DATA, "%s: the tokenizer has %d tokens, the model a vocabulary of %lld", directory,
                       zr_tokenizer_vocabulary(out->tokenizer), (long long)out->shape.vocab);
    return ZERO_OK;
}

static zero_status set_budget(zr_config *config, const char *key, int64_t bytes, const char *flag, const zero_logger *logger, zero_error *error)
{
    char number[24];
    snprintf(number, sizeof number, "%lld", (long long)bytes);
    return bytes ? zr_config_override(config, key, number, flag, false, logger, error) : ZERO_OK;
}

static zero_status resolve(const zero_comm *comm, const zr_load_options *options, zr_loaded *loaded, zero_error *error)
{
    const zero_logger *logger = comm->rank == 0 ? &options->logger : NULL;
    const char *dtype = options->dtype || options->config_path ? options->dtype : "fp32";
    zr_config *config = loaded->config;
    zr_config_facts facts = {.ranks = comm->size, .micro_batch = 1, .hidden = loaded->shape.width, .auto_dtype = zr_default_dtype()};
    ZERO_TRY(zr_config_keep_inference(config, error));
    if (dtype)
        ZERO_TRY(zr_config_override(config, "libzero.dtype", dtype, "--dtype", false, logger, error));
    ZERO_TRY(set_budget(config, "libzero.device_memory", options->device_memory, "--device-memory", logger, error));
    ZERO_TRY(set_budget(config, "libzero.host_memory", options->host_memory, "--host-memory", logger, error));
    return zr_config_resolve(config, &facts, logger, error);
}

static zero_status read_config(const zero_comm *comm, const zr_load_options *options, zr_loaded *out, zero_error *error)
{
    char *text;
    size_t length;
    ZERO_TRY(zr_config_text_read(options->config_path, &text, &length, error));
    zero_status status = zr_config_parse(text, length, options->config_path ? options->config_path : "defaults", &out->config, error);
    zr_free(text);
    return status == ZERO_OK ? resolve(comm, options, out, error) : status;
}

zero_status zr_load_shape(const zero_comm *comm, const zr_load_options *options, zr_loaded *out, zero_error *error)
{
    ZERO_TRY(read_model(options->directory, out, error));
    ZERO_TRY(read_config(comm, options, out, error));
    zr_tiling_apply(out->config, &out->model_config);
    return zr_lm_create(&out->model_config, &out->model, error);
}

zero_status zr_load_weights(zero_comm *comm, const zr_load_options *options, int64_t batch, int64_t seq, zr_loaded *loaded, zero_error *error)
{
    ZERO_TRY(zr_threads_choose(comm, options->threads, &loaded->threads, error));
    zero_options engine = {.struct_size = sizeof engine, .model = loaded->model, .comm = comm, .shape = {.batch = batch, .seq = seq},
                           .threads = loaded->threads.count, .backend = options->backend, .inference = 1};
    zr_config *config = loaded->config;
    loaded->config = NULL;
    ZERO_TRY(zr_engine_make(&engine, config, NULL, &loaded->engine, error));
    zr_log(&options->logger, ZERO_LOG_DEBUG, "%s: %d threads (%s)", options->directory, loaded->threads.count, loaded->threads.reason);
    const zero_load_options how = {.struct_size = sizeof how, .ignore_unused = options->ignore_unused, .logger = options->logger};
    return zero_load_weights_with(loaded->engine, options->directory, &how, error);
}

void zr_loaded_free(zr_loaded *loaded)
{
    zero_destroy(loaded->engine);
    zr_config_destroy(loaded->config);
    zr_lm_free(loaded->model);
    zr_tokenizer_destroy(loaded->tokenizer);
    *loaded = (zr_loaded){0};
}
