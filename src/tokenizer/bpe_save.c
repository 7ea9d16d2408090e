// Writes the files that a BPE was read from, byte for byte, and adds the files that transformers
// needs to open the directory with the same ids, whatever architecture config.json names:
//
//   tokenizer.json         if there are only vocab.json and merges.txt, which many architectures
//                          read in a way of their own
// tokenizer_config.json  if it is missing; a class is added to one that names no class
#include "base/file.h"
#include "tokenizer/bpe_load.h"

#include <stdlib.h>
#include <string.h>

static const zr_tokenizer_file *find_kept_file(const zr_tokenizer *tokenizer, const char *name)
{
    for (int i = 0; i < tokenizer->file_count; i++)
        if (!strcmp(tokenizer->files[i].name, name))
            return &tokenizer->files[i];
    return NULL;
}

static zero_status read_settings(const zr_tokenizer *tokenizer, zr_token_settings *out,
                                 zero_error *error)
{
    for (int i = 0; i < tokenizer->file_count; i++) {
        const zr_tokenizer_file *file = &tokenizer->files[i];
        json_t **slot = zr_token_settings_slot(out, file->name);
        if (slot)
            ZERO_TRY(zr_json_parse(file->data, file->length, file->name, slot, error));
    }
    return ZERO_OK;
}

static zero_status write_json(const zr_tokenizer *tokenizer, const zr_token_settings *settings,
                              const char *directory, zero_error *error)
{
    const zr_tokenizer_file *of_vocab = find_kept_file(tokenizer, "vocab.json"),
                            *merges = find_kept_file(tokenizer, "merges.txt");
    zr_buffer text = {0};
    json_t *vocab = NULL;
    ZERO_TRY(zr_json_parse(of_vocab->data, of_vocab->length, of_vocab->name, &vocab, error));
    zero_status status =
        zr_gpt2_json(directory, settings, vocab, merges->data, merges->length, &text, error);
    json_decref(vocab);
    if (status == ZERO_OK)
        return zr_file_write_text_in(directory, "tokenizer.json", &text, error);
    zr_buffer_free(&text);
    return status;
}

// Names the token of this id in the configuration, unless a file names it already.
static bool name_special_token(const zr_tokenizer *tokenizer, const zr_token_settings *settings,
                               const char *role, int32_t id, json_t *config)
{
    zr_buffer content = {0};
    if (id < 0 || zr_token_setting(settings, role))
        return true;
    zr_tokenizer_decode(tokenizer, id, &content);
    bool put = !content.failed &&
               !json_object_set_new(config, role, json_stringn(content.data, content.length));
    zr_buffer_free(&content);
    return put;
}

// Naming a token of GPT-2's two files makes it a special token. Only this one is special already.
static bool may_name_special_tokens(const zr_tokenizer *tokenizer, bool two_files)
{
    int32_t id;
    return !two_files ||
           (zr_tokenizer_find(tokenizer, ZR_GPT2_END, &id) && id == zr_tokenizer_end(tokenizer));
}

static zero_status write_tokenizer_config(const zr_tokenizer *tokenizer,
                                          const zr_token_settings *settings, bool two_files,
                                          const char *directory, zero_error *error)
{
    json_t *config = settings->config ? json_deep_copy(settings->config) : json_object();
    bool made = config && !json_object_set_new(
                              config, "tokenizer_class",
                              json_string(two_files ? "GPT2Tokenizer" : "PreTrainedTokenizerFast"));
    if (may_name_special_tokens(tokenizer, two_files))
        made = made &&
               name_special_token(tokenizer, settings, "bos_token", zr_tokenizer_begin(tokenizer),
                                  config) &&
               name_special_token(tokenizer, settings, "eos_token", zr_tokenizer_end(tokenizer),
                                  config);
    char *dumped = made ? json_dumps(config, JSON_INDENT(2)) : NULL;
    zr_buffer text = {0};
    zr_buffer_printf(&text, "%s\n", dumped ? dumped : "");
    text.failed |= !dumped;
    free(dumped);
    json_decref(config);
    return zr_file_write_text_in(directory, "tokenizer_config.json", &text, error);
}

static zero_status write_missing_files(const zr_tokenizer *tokenizer,
                                       const zr_token_settings *settings, const char *directory,
                                       zero_error *error)
{
    bool two_files = !find_kept_file(tokenizer, "tokenizer.json");
    if (two_files)
        ZERO_TRY(write_json(tokenizer, settings, directory, error));
    if (json_is_string(json_object_get(settings->config, "tokenizer_class")))
        return ZERO_OK;
    return write_tokenizer_config(tokenizer, settings, two_files, directory, error);
}

zero_status zr_bpe_save(const zr_tokenizer *tokenizer, const char *directory, zero_error *error)
{
    zr_token_settings settings = {0};
    for (int i = 0; i < tokenizer->file_count; i++)
        ZERO_TRY(zr_file_write_in(directory, tokenizer->files[i].name, tokenizer->files[i].data,
                                  tokenizer->files[i].length, error));
    zero_status status = read_settings(tokenizer, &settings, error);
    if (status == ZERO_OK)
        status = write_missing_files(tokenizer, &settings, directory, error);
    zr_token_settings_free(&settings);
    return status;
}
