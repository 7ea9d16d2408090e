// Writes GPT-2's two files and the settings next to them as one tokenizer.json, for readers that
// would take the two files for those of another architecture.
#include "tokenizer/bpe_load.h"
#include "tokenizer/tokenizer_json.h"

#include <stdlib.h>
#include <string.h>

bool zr_gpt2_json_is(const char *text, size_t length)
{
    static const char head[] =
        "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\n\"added_tokens\":[";
    return length >= sizeof head - 1 && !memcmp(text, head, sizeof head - 1);
}

static void write_merges(const char *merges, size_t length, zr_json_writer *w)
{
    size_t at = 0, bytes;
    const char *line;
    zr_json_begin_array(w, "merges");
    while (zr_merges_next_line(merges, length, &at, &line, &bytes)) {
        zr_json_line(w, 0);
        zr_json_text_of(w, NULL, line, bytes);
    }
    zr_json_line(w, 0);
    zr_json_end(w);
}

// Returns the token that add_bos_token puts before a text; NULL if there is none.
static const char *begin_token_of(const zr_token_settings *settings)
{
    const json_t *named = zr_token_setting(settings, "bos_token");
    if (!json_is_true(json_object_get(settings->config, "add_bos_token")))
        return NULL;
    return named || zr_token_setting(settings, "eos_token") ? zr_token_content(named) : ZR_GPT2_END;
}

static json_int_t id_of_token(const char *token, const json_t *added, const json_t *vocab)
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

// Writes all up to the model's vocabulary.
static void write_gpt2_head(const zr_token_settings *settings, const json_t *added,
                            const json_t *vocab, zr_json_writer *w)
{
    const char *begin = begin_token_of(settings);
    json_int_t id = begin ? id_of_token(begin, added, vocab) : -1;
    const zr_tokenizer_json head = {
        .added = added,
        .added_lines = true,
        .byte_level = true,
        .prefix = json_is_true(json_object_get(settings->config, "add_prefix_space")),
        .splits = true,
        .begin = id >= 0 ? begin : NULL,
        .begin_id = id};
    zr_tokenizer_json_begin(w, &head);
    zr_tokenizer_json_parts(w, &head);
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
        zr_json_writer w = zr_json_writer_on(out, ZR_JSON_COMPACT);
        write_gpt2_head(settings, added, vocab, &w);
        zr_json_verbatim(&w, "vocab", text);
        write_merges(merges, merges_length, &w);
        zr_json_finish(&w);
    }
    if (status == ZERO_OK && (!text || out->failed))
        status = zr_fail(error, ZERO_ERR_MEMORY, "%s: no memory for a tokenizer.json", path);
    free(text);
    json_decref(added);
    return status;
}
