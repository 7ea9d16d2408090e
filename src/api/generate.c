// zero_generate: text from a model directory, on one rank.
#include "api/load.h"
#include "api/sampler.h"
#include <zero/tools.h>

static zero_status check(const zero_generate_options *options, zero_error *error)
{
    if (options->struct_size != sizeof *options)
        return zr_fail(error, ZERO_ERR_USAGE, "zero_generate: options.struct_size is %zu, this library expects %zu", options->struct_size, sizeof *options);
    if (!options->model_dir || !options->emit)
        return zr_fail(error, ZERO_ERR_USAGE, "zero_generate: options.%s is missing", options->emit ? "model_dir" : "emit");
    if (options->temperature < 0 || options->top_k < 0 || !(options->top_p > 0 && options->top_p <= 1) || options->tokens < 0)
        return zr_fail(error, ZERO_ERR_USAGE, "zero_generate: temperature %g, top_k %d, top_p %g, tokens %lld: the first, second and fourth must be 0 or more, top_p in (0, 1]",
                       options->temperature, options->top_k, options->top_p, (long long)options->tokens);
    return ZERO_OK;
}

static zero_status generate(zero_comm *comm, const zero_generate_options *options, zr_loaded *loaded, zero_error *error)
{
    zr_load_options load = {.directory = options->model_dir, .config_path = options->config_path, .dtype = options->dtype,
                            .device_memory = options->device_memory, .host_memory = options->host_memory, .threads = options->threads,
                            .backend = options->backend, .logger = options->logger};
    zr_sampling how = {.prompt = options->prompt, .tokens = options->tokens, .temperature = options->temperature, .top_k = options->top_k,
                       .top_p = options->top_p, .seed = options->seed};
    ZERO_TRY(zr_load_shape(comm, &load, loaded, error));
    ZERO_TRY(zr_load_weights(comm, &load, 1, 1, loaded, error));
    ZERO_TRY(zr_sample_check_memory(loaded->engine, &loaded->model_config, error));
    return zr_sample(loaded->engine, &loaded->model_config, loaded->tokenizer, &how, options->emit, options->user, error);
}

zero_status zero_generate(const zero_generate_options *options, zero_error *error)
{
    zero_comm *comm = NULL;
    zr_loaded loaded = {0};
    ZERO_TRY(check(options, error));
    ZERO_TRY(zero_comm_self(&comm, error));
    zero_status status = generate(comm, options, &loaded, error);
    zr_loaded_free(&loaded);
    zero_comm_destroy(comm);
    return status;
}
