// zero_eval: the mean loss of a whole text.
#include "api/agree.h"
#include "api/load.h"
#include "api/windows.h"
#include "engine/engine.h"
#include <zero/tools.h>

enum { TOKENS_AT_ONCE = 4096 };

static void beat(void *comm)
{
    zr_comm_progress(comm, 0);
}

static zr_load_options load_options_of(const zero_eval_options *options)
{
    return (zr_load_options){.directory = options->model_dir, .config_path = options->config_path, .dtype = options->dtype,
                             .device_memory = options->device_memory, .host_memory = options->host_memory, .threads = options->threads,
                             .backend = options->backend, .logger = options->logger};
}

static zero_status read_inputs(zero_comm *comm, const zero_eval_options *options, zr_loaded *loaded, zr_dataset *dataset, zero_error *error)
{
    zr_text text = {0};
    if (options->struct_size != sizeof *options)
        return zr_fail(error, ZERO_ERR_USAGE, "zero_eval: options.struct_size is %zu, this library expects %zu", options->struct_size, sizeof *options);
    if (!options->model_dir || !options->data)
        return zr_fail(error, ZERO_ERR_USAGE, "zero_eval: options.%s is missing", options->data ? "model_dir" : "data");
    zr_load_options load = load_options_of(options);
    ZERO_TRY(zr_load_shape(comm, &load, loaded, error));
    int64_t seq = options->seq ? options->seq : loaded->shape.positions;
    if (seq < 1 || seq > loaded->shape.positions)
        return zr_fail(error, ZERO_ERR_USAGE, "windows of %lld tokens (--seq): the model has a context of %lld", (long long)seq, (long long)loaded->shape.positions);
    zero_status status = zr_text_load(&options->data, 1, &text, error);
    if (status == ZERO_OK)
        status = zr_dataset_create(loaded->tokenizer, text.data, text.length, options->data, seq, 0, beat, comm, dataset, error);
    zr_text_free(&text);
    return status;
}

// Bytes of the text that tokens [1, tokens] stand for: those whose loss was measured.
static zero_status count_bytes(const zr_loaded *loaded, const zr_dataset *dataset, int64_t tokens, int64_t *bytes, zero_error *error)
{
    zr_buffer text = {0};
    *bytes = 0;
    for (int64_t i = 1; i <= tokens && !text.failed; i++) {
        text.length = 0;
        zr_tokenizer_decode(loaded->tokenizer, dataset->tokens[i], &text);
        *bytes += (int64_t)text.length;
    }
    bool failed = text.failed;
    zr_buffer_free(&text);
    return failed ? zr_fail(error, ZERO_ERR_MEMORY, "no memory to count the bytes of the text") : ZERO_OK;
}

static zero_status measure(zero_comm *comm, const zero_eval_options *options, zr_loaded *loaded, const zr_dataset *dataset, zero_eval_result *out, zero_error *error)
{
    int64_t windows = zr_dataset_eval_windows(dataset), batch = ZR_MIN(windows, ZR_MAX(1, TOKENS_AT_ONCE / dataset->seq));
    zr_load_options load = load_options_of(options);
    zr_windows_result result;
    ZERO_TRY(zr_load_weights(comm, &load, batch, dataset->seq, loaded, error));
    ZERO_TRY(zr_windows_loss(loaded->engine, dataset, batch, 0, &result, error));
    *out = (zero_eval_result){.loss = result.loss, .windows = result.windows, .tokens = result.windows * dataset->seq};
    return count_bytes(loaded, dataset, out->tokens, &out->bytes, error);
}

zero_status zero_eval(zero_comm *comm, const zero_eval_options *options, zero_eval_result *out, zero_error *error)
{
    zr_loaded loaded = {0};
    zr_dataset dataset = {0};
    zero_status status = zr_agree(comm, read_inputs(comm, options, &loaded, &dataset, error), error);
    if (status == ZERO_OK)
        status = measure(comm, options, &loaded, &dataset, out, error);
    if (status != ZERO_OK) // where only this rank failed the others would wait
        zero_comm_abort(comm, error ? error->message : zero_status_text(status));
    zr_dataset_free(&dataset);
    zr_loaded_free(&loaded);
    return status;
}
