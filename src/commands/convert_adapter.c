// An adapter as peft saves it (adapter_config.json, adapter_model.safetensors) as a GGUF file,
// which llama.cpp adds to a model. Only the configuration of the base model is needed.
//
//   W' = W + alpha / r  B A        A (r, in): NAME.lora_a        B (out, r): NAME.lora_b
#include "commands/convert_gguf.h"

#include "base/text.h"
#include "checkpoint/adapter_directory.h"
#include "checkpoint/run_directory.h"
#include "formats/gguf_config.h"
#include "formats/gguf_tensors.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define USUAL_TYPE "f32" // as convert_lora_to_gguf.py

typedef struct adapting {
    const zr_gguf_conversion *of;
    zr_lm_config config; // of the base model, with its adapters
    zr_source source;
    zr_gguf_tensor *tensors; // (count) an A and a B for each weight that is adapted
    int count;
    zr_gguf_writer head;
    zero_error *error;
} adapting;

// given: the options' base model, a directory; NULL: the adapter's own file names it.
static zero_status read_base(adapting *a, const char *given, const char *named)
{
    const char *base = given ? given : named;
    if (base && zr_path_has(base, ZR_MODEL_CONFIG))
        return zr_lm_config_read_in(base, &a->config, a->error);
    return given ? zr_fail(a->error, ZERO_ERR_IO, "\"%s\" has no " ZR_MODEL_CONFIG, base)
                 : zr_fail(a->error, ZERO_ERR_USAGE,
                           "\"%s/" ZR_ADAPTER_CONFIG "\" names the base model \"%s\", which is no "
                           "directory here with a " ZR_MODEL_CONFIG ": --base DIR names it",
                           a->of->from, named ? named : "");
}

static zero_status read_configs(adapting *a)
{
    const zero_convert_options *options = a->of->options;
    char *base, *given = NULL;
    zero_status status = zr_lora_read_base_in(a->of->from, &base, a->error);
    if (status == ZERO_OK)
        status = zr_model_directory(options->base_dir, &options->logger, &given, a->error);
    if (status == ZERO_OK)
        status = read_base(a, given, base);
    zr_free(given);
    zr_free(base);
    return status == ZERO_OK ? zr_adapter_read_config(a->of->from, &a->config, a->error) : status;
}

static zero_status refuse_magnitudes(const adapting *a)
{
    return a->config.lora.magnitudes
               ? zr_fail(
                     a->error, ZERO_ERR_UNSUPPORTED,
                     "\"%s\" is an adapter with magnitudes (use_dora), which an adapter in GGUF "
                     "cannot have: zero convert --from BASE --adapter %s --to FILE.gguf merges "
                     "it into its base",
                     a->of->from, a->of->from)
               : ZERO_OK;
}

// Returns the number of the adapter's tensor with this ending for a weight; -1: none.
static int find_half(const adapting *a, const zr_gguf_tensor *whole, const char *ending)
{
    const char *prefix = zr_architecture_of(&a->config)->file_prefix;
    char name[2 * ZR_GGUF_NAME];
    int module = (int)strlen(whole->model) - (int)strlen(".weight");
    snprintf(name, sizeof name, ZR_ADAPTER_PREFIX "%s%.*s%s", prefix ? prefix : "", module,
             whole->model, ending);
    for (int t = 0; t < a->source.vectors[0].tensor_count; t++)
        if (!strcmp(a->source.vectors[0].tensors[t].name, name))
            return t;
    return -1;
}

static zero_status check_half(const adapting *a, const zr_gguf_tensor *half)
{
    const zr_source_tensor *found = &a->source.vectors[0].tensors[half->source];
    return found->dims == 2 && found->shape[0] == half->rows && found->shape[1] == half->columns &&
                   zr_source_is_real(found->dtype)
               ? ZERO_OK
               : zr_fail(a->error, ZERO_ERR_DATA,
                         "\"%s/" ZR_ADAPTER_WEIGHTS
                         "\": the tensor \"%s\" does not fit the base model: its "
                         "shape would be %lld x %lld",
                         a->of->from, found->name, (long long)half->rows, (long long)half->columns);
}

// Adds A and B of a weight, if the adapter has them. B has the weight's rows, in their order.
static zero_status add_halves(adapting *a, const zr_gguf_tensor *whole)
{
    int numbers[] = {find_half(a, whole, ZR_LORA_A), find_half(a, whole, ZR_LORA_B)};
    if (numbers[0] < 0 && numbers[1] < 0)
        return ZERO_OK;
    if (numbers[0] < 0 || numbers[1] < 0)
        return zr_fail(a->error, ZERO_ERR_DATA,
                       "\"%s/" ZR_ADAPTER_WEIGHTS "\" has only one of lora_A and lora_B of \"%s\"",
                       a->of->from, whole->model);
    int64_t rank = a->config.lora.rank;
    for (int half = 0; half < 2; half++) {
        zr_gguf_tensor *made = &a->tensors[a->count++];
        *made = *whole;
        made->transposed = false;
        made->source = numbers[half];
        made->rows = half ? whole->rows : rank;
        made->columns = half ? rank : whole->columns;
        made->order = half ? whole->order : ZR_GGUF_AS_IS;
        size_t length = strlen(made->name);
        snprintf(made->name + length, sizeof made->name - length, half ? ".lora_b" : ".lora_a");
        ZERO_TRY(check_half(a, made));
    }
    return ZERO_OK;
}

static zero_status check_unused(const adapting *a)
{
    const zr_source_vector *weights = &a->source.vectors[0];
    for (int t = 0; t < weights->tensor_count; t++) {
        bool used = false;
        for (int i = 0; i < a->count; i++)
            used |= a->tensors[i].source == t;
        if (!used)
            return zr_fail(a->error, ZERO_ERR_UNSUPPORTED,
                           "\"%s/" ZR_ADAPTER_WEIGHTS
                           "\": the tensor \"%s\" is no lora_A or lora_B of a "
                           "weight of the base model's blocks",
                           a->of->from, weights->tensors[t].name);
    }
    return a->count ? ZERO_OK
                    : zr_fail(a->error, ZERO_ERR_DATA,
                              "\"%s/" ZR_ADAPTER_WEIGHTS "\" has no tensor", a->of->from);
}

static zero_status list_tensors(adapting *a)
{
    zr_gguf_tensor *of_model;
    int count;
    ZERO_TRY(zr_gguf_tensors_of(&a->config, &of_model, &count, a->error));
    a->tensors = zr_alloc((2 * (size_t)count + 1) * sizeof *a->tensors, a->error);
    zero_status status = a->tensors ? ZERO_OK : ZERO_ERR_MEMORY;
    for (int i = 0; i < count && status == ZERO_OK; i++)
        if (of_model[i].dims == 2 && !strncmp(of_model[i].name, "blk.", 4))
            status = add_halves(a, &of_model[i]);
    zr_free(of_model);
    return status == ZERO_OK ? check_unused(a) : status;
}

static zero_status put_keys(adapting *a, const zr_gguf_type *type)
{
    const zr_lora *lora = &a->config.lora;
    // llama.cpp divides by the rank; rank-stabilised adapters divide by its square root.
    double alpha = lora->alpha * (lora->rank_root ? sqrt((double)lora->rank) : 1);
    char *title = zr_path_title(a->of->from, a->error);
    if (!title)
        return ZERO_ERR_MEMORY;
    zr_gguf_put_text(&a->head, "general.architecture", zr_gguf_kind_of(&a->config)->name);
    zr_gguf_put_text(&a->head, "general.type", "adapter");
    zr_gguf_put_text(&a->head, "adapter.type", "lora");
    zr_gguf_put_text(&a->head, "general.name", title);
    zr_gguf_put_f32(&a->head, "adapter.lora.alpha", alpha);
    zr_gguf_put_u32(&a->head, "general.file_type", type->file);
    zr_gguf_put_u32(&a->head, "general.quantization_version", 2);
    zr_free(title);
    return ZERO_OK;
}

static void report(const adapting *a, const zr_gguf_export *export, const zr_gguf_type *type)
{
    char bytes[ZR_BYTES_TEXT];
    zr_bytes_text((double)export->bytes, bytes);
    zr_log(&a->of->options->logger, ZERO_LOG_INFO, "%s: an adapter of %d weights, %s, %s",
           a->of->to, a->count / 2, type->name, bytes);
}

static zero_status open_weights(adapting *a)
{
    char *path = zr_sprintf(a->error, "%s/" ZR_ADAPTER_WEIGHTS, a->of->from);
    zero_status status = path ? zr_source_open(path, &a->source, a->error) : ZERO_ERR_MEMORY;
    zr_free(path);
    return status;
}

static zero_status make_adapter(adapting *a)
{
    const zr_gguf_type *type;
    ZERO_TRY(zr_gguf_choose_type(a->of->options, USUAL_TYPE, &type, a->error));
    ZERO_TRY(zr_gguf_check_place(a->of, a->error));
    ZERO_TRY(read_configs(a));
    ZERO_TRY(zr_gguf_refuse_labels(&a->config, a->of->from, a->error));
    ZERO_TRY(refuse_magnitudes(a));
    ZERO_TRY(open_weights(a));
    ZERO_TRY(list_tensors(a));
    ZERO_TRY(put_keys(a, type));
    for (int i = 0; i < a->count; i++)
        a->tensors[i].type = zr_gguf_type_for(&a->tensors[i], type);
    zr_gguf_export export = {.path = a->of->to,
                             .head = &a->head,
                             .tensors = a->tensors,
                             .count = a->count,
                             .source = &a->source,
                             .progress = a->of->progress,
                             .user = a->of->user};
    ZERO_TRY(zr_gguf_write(&export, a->error));
    report(a, &export, type);
    return ZERO_OK;
}

zero_status zr_convert_adapter(const zr_gguf_conversion *conversion, zero_error *error)
{
    adapting a = {.of = conversion, .error = error};
    zero_status status = make_adapter(&a);
    zr_source_close(&a.source);
    zr_gguf_writer_free(&a.head);
    zr_free(a.tensors);
    return status;
}
