// A model of any source as a GGUF file.
#include "commands/convert_gguf.h"

#include "base/text.h"
#include "chat/chat.h"
#include "checkpoint/adapter_directory.h"
#include "checkpoint/gguf_model.h"
#include "checkpoint/ownership.h"
#include "checkpoint/run_directory.h"
#include "commands/convert_config.h"
#include "formats/gguf_config.h"
#include "formats/gguf_tensors.h"
#include "formats/source_gguf.h"
#include "setup/model_task.h"

#include <stdio.h>
#include <string.h>

#define USUAL_TYPE "f16"
enum { QUANTISATION = 2 }; // the version of ggml's quantised blocks

typedef struct making {
    const zr_gguf_conversion *of;
    char *files; // the directory with config.json and the tokenizer; NULL: none
    zr_lm_config config;
    zr_gguf_writer head;
    zr_gguf_tensor *tensors; // (count)
    int count;
    float *factors;
    zero_error *error;
} making;

zero_status zr_gguf_check_place(const zr_gguf_conversion *c, zero_error *error)
{
    zr_input_paths reads = {0};
    if (!zr_path_exists(c->to))
        return ZERO_OK;
    if (!zr_gguf_is(c->to))
        return zr_fail(
            error, ZERO_ERR_USAGE,
            "\"%s\" is there and is no GGUF file: it is not replaced; choose another name", c->to);
    if (!c->options->overwrite)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "\"%s\" is there already: choose another name, or --overwrite replaces it",
                       c->to);
    ZERO_TRY(zr_input_paths_add(&reads, c->from, "--from", error));
    zero_status status = zr_input_paths_protect(&reads, c->to, error);
    zr_input_paths_free(&reads);
    return status;
}

static void list_types(char out[static 64])
{
    const zr_gguf_type *type;
    size_t used = 0;
    for (int i = 0; (type = zr_gguf_type_at(i)) && used < 64; i++)
        used += (size_t)snprintf(out + used, 64 - used, i ? ", %s" : "%s", type->name);
}

zero_status zr_gguf_choose_type(const zero_convert_options *options, const char *usual,
                                const zr_gguf_type **out, zero_error *error)
{
    char known[64];
    *out = zr_gguf_type_find(options->type ? options->type : usual);
    list_types(known);
    return *out ? ZERO_OK
                : zr_fail(error, ZERO_ERR_USAGE,
                          "options.type is \"%s\": the weights of a GGUF file are one of %s",
                          options->type, known);
}

char *zr_path_title(const char *path, zero_error *error)
{
    size_t end = strlen(path), first;
    while (end > 1 && path[end - 1] == '/')
        end--;
    for (first = end; first > 0 && path[first - 1] != '/';)
        first--;
    return zr_sprintf(error, "%.*s", (int)(end - first), path + first);
}

static zero_status find_files(making *m)
{
    const zr_gguf_conversion *of = m->of;
    if (of->model_dir) {
        m->files = zr_strdup(of->model_dir, m->error);
        return m->files ? ZERO_OK : ZERO_ERR_MEMORY;
    }
    return of->source->kind == ZR_SOURCE_GGUF
               ? ZERO_OK
               : zr_find_model_files(of->source->path, &m->files, m->error);
}

static zero_status put_directory_tokenizer(making *m)
{
    zr_tokenizer *tokenizer;
    zr_token_list list = {0};
    char *template = NULL;
    const char *adapter = m->of->adapter;
    ZERO_TRY(zr_tokenizer_load(zr_adapter_tokenizer(adapter, m->files), &tokenizer, m->error));
    zero_status status =
        zr_token_list_of(tokenizer, zr_lm_shape_of(&m->config).vocab, &list, m->error);
    zr_tokenizer_destroy(tokenizer);
    if (status == ZERO_OK)
        status = zr_chat_template_in(zr_chat_directory(adapter, m->files), &template, m->error);
    if (status == ZERO_OK)
        zr_gguf_put_tokenizer(&m->head, &list, template);
    zr_free(template);
    zr_token_list_free(&list);
    return status;
}

static zero_status put_own_tokenizer(making *m)
{
    const zr_gguf *gguf = zr_source_gguf(m->of->source);
    zr_gguf_text text = {NULL, 0};
    zr_token_list list;
    ZERO_TRY(zr_gguf_get_text(gguf, "tokenizer.chat_template", &text, m->error));
    ZERO_TRY(zr_gguf_read_tokenizer(gguf, &list, m->error));
    char *template = text.at ? zr_sprintf(m->error, "%.*s", (int)text.length, text.at) : NULL;
    if (list.count)
        zr_gguf_put_tokenizer(&m->head, &list, template);
    zr_free(template);
    zr_token_list_free(&list);
    return text.at && !template ? ZERO_ERR_MEMORY : ZERO_OK;
}

static zero_status put_tokenizer(making *m)
{
    if (m->of->source->kind == ZR_SOURCE_GGUF && !m->files &&
        !zr_adapter_tokenizer(m->of->adapter, NULL))
        return put_own_tokenizer(m);
    if (zr_adapter_tokenizer(m->of->adapter, NULL) || (m->files && zr_tokenizer_is_at(m->files)))
        return put_directory_tokenizer(m);
    return zr_fail(m->error, ZERO_ERR_DATA,
                   "no tokenizer is there to go with the weights of \"%s\", and a GGUF file needs "
                   "one: --model DIR names a model directory that has it",
                   m->of->from);
}

static zero_status put_keys(making *m, const zr_gguf_type *type)
{
    char *title = zr_path_title(m->of->options->from, m->error);
    if (!title)
        return ZERO_ERR_MEMORY;
    zr_gguf_put_text(&m->head, "general.architecture", zr_gguf_kind_of(&m->config)->name);
    zr_gguf_put_text(&m->head, "general.type", "model");
    zr_gguf_put_text(&m->head, "general.name", title);
    zr_free(title);
    ZERO_TRY(zr_gguf_put_config(&m->head, &m->config, &m->factors, m->error));
    zr_gguf_put_u32(&m->head, "general.file_type", type->file);
    zr_gguf_put_u32(&m->head, "general.quantization_version", QUANTISATION);
    return put_tokenizer(m);
}

static zero_status add_factors(making *m)
{
    zr_gguf_tensor *grown =
        zr_realloc(m->tensors, ((size_t)m->count + 1) * sizeof *grown, m->error);
    if (!grown)
        return ZERO_ERR_MEMORY;
    m->tensors = grown;
    grown[m->count] = (zr_gguf_tensor){.dims = 1,
                                       .rows = zr_lm_shape_of(&m->config).rotated / 2,
                                       .columns = 1,
                                       .plain = true,
                                       .source = -1,
                                       .values = m->factors};
    snprintf(grown[m->count++].name, ZR_GGUF_NAME, "%s", ZR_GGUF_FACTORS);
    return ZERO_OK;
}

static zero_status list_tensors(making *m, const zr_gguf_type *type)
{
    if (m->factors)
        ZERO_TRY(add_factors(m));
    ZERO_TRY(zr_gguf_find_sources(&m->config, m->of->source, m->tensors, m->count, m->error));
    for (int i = 0; i < m->count; i++)
        m->tensors[i].type = zr_gguf_type_for(&m->tensors[i], type);
    return ZERO_OK;
}

static void report(const making *m, const zr_gguf_export *export, const zr_gguf_type *type)
{
    char bytes[ZR_BYTES_TEXT];
    zr_bytes_text((double)export->bytes, bytes);
    zr_log(&m->of->options->logger, ZERO_LOG_INFO, "%s: %d tensors, %s, %s", m->of->to,
           export->count, type->name, bytes);
    if (export->overflowed)
        zr_log(&m->of->options->logger, ZERO_LOG_WARNING,
               "%lld weights are larger than f16 can hold: they are infinite now; --type bf16 "
               "keeps them",
               (long long)export->overflowed);
}

zero_status zr_gguf_refuse_labels(const zr_lm_config *config, const char *name, zero_error *error)
{
    return zr_model_task_refuse_labels(config, name,
                                       "a GGUF file is of a model that continues texts", error);
}

// The adapter may be what has labels.
static zero_status refuse_labels(const making *m)
{
    const char *adapter = m->of->adapter;
    zr_lm_config config = m->config;
    if (adapter)
        ZERO_TRY(zr_adapter_read_config(adapter, &config, m->error));
    return zr_gguf_refuse_labels(&config, adapter ? adapter : m->of->from, m->error);
}

static zero_status make_file(making *m)
{
    const zr_gguf_type *type;
    ZERO_TRY(zr_gguf_choose_type(m->of->options, USUAL_TYPE, &type, m->error));
    ZERO_TRY(zr_gguf_check_place(m->of, m->error));
    ZERO_TRY(find_files(m));
    ZERO_TRY(
        zr_convert_config(m->of->source, m->of->model_dir, "a GGUF file", &m->config, m->error));
    ZERO_TRY(refuse_labels(m));
    ZERO_TRY(zr_gguf_tensors_of(&m->config, &m->tensors, &m->count, m->error));
    ZERO_TRY(put_keys(m, type));
    ZERO_TRY(list_tensors(m, type));
    zr_gguf_export export = {.path = m->of->to,
                             .head = &m->head,
                             .tensors = m->tensors,
                             .count = m->count,
                             .source = m->of->source,
                             .progress = m->of->progress,
                             .user = m->of->user};
    ZERO_TRY(zr_gguf_write(&export, m->error));
    report(m, &export, type);
    return ZERO_OK;
}

zero_status zr_convert_to_gguf(const zr_gguf_conversion *conversion, zero_error *error)
{
    making m = {.of = conversion, .error = error};
    zero_status status = make_file(&m);
    zr_gguf_writer_free(&m.head);
    zr_free(m.tensors);
    zr_free(m.factors);
    zr_free(m.files);
    return status;
}
