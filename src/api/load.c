#include "api/load.h"

#include "layers/layers.h"

#include <stdio.h>

zero_status zr_load_shape(const char *directory, zr_loaded *out, zero_error *error)
{
    char *path = zr_sprintf(error, "%s/config.json", directory);
    zero_status status = path ? zr_gpt2_config_read(path, &out->shape, error) : ZERO_ERR_MEMORY;
    zr_free(path);
    ZERO_TRY(status);
    ZERO_TRY(zr_tokenizer_load(directory, &out->tokenizer, error));
    if (zr_tokenizer_vocabulary(out->tokenizer) > out->shape.vocab_size)
        return zr_fail(error, ZERO_ERR_DATA, "%s: the tokenizer has %d tokens, the model a vocabulary of %lld", directory,
                       zr_tokenizer_vocabulary(out->tokenizer), (long long)out->shape.vocab_size);
    return zr_gpt2_build(&out->shape, &zr_gpt2_unit_ops, &out->model, error);
}

zero_status zr_load_weights(zero_comm *comm, const zr_load_options *options, zr_loaded *loaded, zero_error *error)
{
    ZERO_TRY(zr_threads_choose(comm, options->threads, &loaded->threads, error));
    char config[160];
    snprintf(config, sizeof config, "{\"zero_optimization\": {\"stage\": 3}, \"gradient_accumulation_steps\": 1, \"libzero\": {\"dtype\": \"%.8s\"}}",
             options->dtype ? options->dtype : "fp32");
    zero_options engine = {.struct_size = sizeof engine, .model = loaded->model, .comm = comm,
                           .config_text = config,
                           .shape = {.batch = options->batch, .seq = options->seq ? options->seq : loaded->shape.n_positions},
                           .threads = loaded->threads.count, .backend = options->backend, .inference = 1, .total_steps = 1};
    ZERO_TRY(zero_initialize(&engine, &loaded->engine, error));
    zr_log(&options->logger, ZERO_LOG_DEBUG, "%s: %d threads (%s)", options->directory, loaded->threads.count, loaded->threads.reason);
    return zero_load_weights(loaded->engine, options->directory, error);
}

void zr_loaded_free(zr_loaded *loaded)
{
    zero_destroy(loaded->engine);
    zr_gpt2_free(loaded->model);
    zr_tokenizer_destroy(loaded->tokenizer);
    *loaded = (zr_loaded){0};
}
