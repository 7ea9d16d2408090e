// Writes GPT-2's two files and the settings next to them as one tokenizer.json, for readers that
// would take the two files for those of another architecture.
#include "tokenizer/bpe_load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAD "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\n\"added_tokens\":["

bool zr_gpt2_json_is(const char *text, size_t length)
{
    return length >= sizeof HEAD - 1 && !memcmp(text, HEAD, sizeof HEAD - 1);
}

static void write_added(const json_t *added, zr_buffer *out)
{
    static const char *const flags[] = {"single_word", "lstrip", "rstrip", "normalized", "special"};
    const json_t *token;
    size_t i;
    json_array_foreach(added, i, token)
    {
        const json_t *content = json_object_get(token, "content");
        zr_buffer_printf(out, "%s{\"id\":%lld,\"content\":", i ? ",\n" : "\n",
                         (long long)json_integer_value(json_object_get(token, "id")));
        zr_json_append_string(out, json_string_value(content), json_string_length(content));
        for (int f = 0; f < ZR_COUNT(flags); f++)
            zr_buffer_printf(out, ",\"%s\":%s", flags[f],
                             json_is_true(json_object_get(token, flags[f])) ? "true" : "false");
        zr_buffer_printf(out, "}");
    }
}

static void write_merges(const char *merges, size_t length, zr_buffer *out)
{
    size_t at = 0, bytes;
    const char *line;
    for (bool first = true; zr_merges_next(merges, length, &at, &line, &bytes); first = false) {
        zr_buffer_printf(out, first ? "\n" : ",\n");
        zr_json_append_string(out, line, bytes);
    }
}

// Returns the token that add_bos_token puts before a text; NULL if there is none.
static const char *begin_of(const zr_token_settings *settings)
{
    const json_t *named = zr_token_setting(settings, "bos_token");
    if (!json_is_true(json_object_get(settings->config, "add_bos_token")))
        return NULL;
    return named || zr_token_setting(settings, "eos_token") ? zr_token_content(named) : ZR_GPT2_END;
}

static json_int_t id_of(const char *token, const json_t *added, const json_t *vocab)
{
    const json_t *entry, *id = json_object_get(vocab, token);
    size_t i;
    json_array_foreach(added, i, entry)
    {
        if (!strcmp(token, json_string_value(json_object_get(entry, "content"))))
            id = json_object_get(entry, "id");
    }
    return json_is_integer(id) ? json_integer_value(id) : -1;
}

static void write_special(const zr_buffer *token, int type, zr_buffer *out)
{
    zr_buffer_printf(out, "{\"SpecialToken\":{\"id\":%s,\"type_id\":%d}},", token->data, type);
}

// Writes the post-processor that puts the begin token, if there is one, before a text and before
// the second text of a pair.
static void write_post_processor(const char *begin, json_int_t id, zr_buffer *out)
{
    static const char text[] = "{\"Sequence\":{\"id\":\"%c\",\"type_id\":%d}}%s";
    zr_buffer token = {0};
    if (id < 0) {
        zr_buffer_printf(out, "\"post_processor\":null,\n");
        return;
    }
    zr_json_append_string(&token, begin, strlen(begin));
    out->failed |= token.failed;
    if (!out->failed) {
        zr_buffer_printf(out, "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[");
        write_special(&token, 0, out);
        zr_buffer_printf(out, text, 'A', 0, "],\"pair\":[");
        write_special(&token, 0, out);
        zr_buffer_printf(out, text, 'A', 0, ",");
        write_special(&token, 1, out);
        zr_buffer_printf(out, text, 'B', 1, "],");
        zr_buffer_printf(out,
                         "\"special_tokens\":{%s:{\"id\":%s,\"ids\":[%lld],\"tokens\":[%s]}}},\n",
                         token.data, token.data, (long long)id, token.data);
    }
    zr_buffer_free(&token);
}

// Writes everything before the merges.
static void write_gpt2_json_all(const zr_token_settings *settings, const json_t *added,
                                const json_t *vocab, const char *vocab_text, zr_buffer *out)
{
    char byte_level[128];
    const char *begin = begin_of(settings);
    bool prefix = json_is_true(json_object_get(settings->config, "add_prefix_space"));
    snprintf(byte_level, sizeof byte_level,
             "{\"type\":\"ByteLevel\",\"add_prefix_space\":%s,\"trim_offsets\":true,"
             "\"use_regex\":true}",
             prefix ? "true" : "false");
    zr_buffer_printf(out, HEAD);
    write_added(added, out);
    zr_buffer_printf(out, "],\n\"normalizer\":null,\n\"pre_tokenizer\":%s,\n", byte_level);
    write_post_processor(begin, begin ? id_of(begin, added, vocab) : -1, out);
    zr_buffer_printf(out, "\"decoder\":%s,\n\"model\":{\"type\":\"BPE\",\"dropout\":null,",
                     byte_level);
    zr_buffer_printf(out, "\"unk_token\":null,\"continuing_subword_prefix\":null,"
                          "\"end_of_word_suffix\":null,\"fuse_unk\":false,\"byte_fallback\":false,"
                          "\"ignore_merges\":false,\"vocab\":");
    zr_buffer_append(out, vocab_text, strlen(vocab_text));
}

zero_status zr_gpt2_json(const char *path, const zr_token_settings *settings, const json_t *vocab,
                         const char *merges, size_t merges_length, zr_buffer *out,
                         zero_error *error)
{
    uint64_t unused;
    json_t *added = NULL;
    zero_status status = zr_gpt2_added(path, settings, vocab, &added, &unused, error);
    char *text = status == ZERO_OK ? json_dumps(vocab, JSON_COMPACT) : NULL;
    if (text) {
        write_gpt2_json_all(settings, added, vocab, text, out);
        zr_buffer_printf(out, ",\"merges\":[");
        write_merges(merges, merges_length, out);
        zr_buffer_printf(out, "\n]}}\n");
    }
    if (status == ZERO_OK && (!text || out->failed))
        status = zr_fail(error, ZERO_ERR_MEMORY, "%s: no memory for a tokenizer.json", path);
    free(text);
    json_decref(added);
    return status;
}
