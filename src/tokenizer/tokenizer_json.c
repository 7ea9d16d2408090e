#include "tokenizer/tokenizer_json.h"

static void write_added(zr_json_writer *w, const json_t *token)
{
    static const char *const flags[] = {"single_word", "lstrip", "rstrip", "normalized", "special"};
    const json_t *content = json_object_get(token, "content");
    zr_json_begin_object(w, NULL);
    zr_json_integer(w, "id", json_integer_value(json_object_get(token, "id")));
    zr_json_text_of(w, "content", json_string_value(content), json_string_length(content));
    for (int i = 0; i < ZR_COUNT(flags); i++)
        zr_json_flag(w, flags[i], json_is_true(json_object_get(token, flags[i])));
    zr_json_end(w);
}

void zr_tokenizer_json_begin(zr_json_writer *w, const zr_tokenizer_json *of)
{
    const json_t *token;
    size_t i;
    zr_json_begin_object(w, NULL);
    zr_json_text(w, "version", "1.0");
    zr_json_null(w, "truncation");
    zr_json_null(w, "padding");
    if (of->added_lines)
        zr_json_line(w, 0);
    zr_json_begin_array(w, "added_tokens");
    json_array_foreach(of->added, i, token)
    {
        if (of->added_lines)
            zr_json_line(w, 0);
        write_added(w, token);
    }
    zr_json_end(w);
    if (of->added)
        zr_json_line(w, 0);
    zr_json_null(w, "normalizer");
}

// Writes ByteLevel, or for characters what has that type; NULL: nothing.
static void write_byte_level(zr_json_writer *w, const char *key, const char *for_characters,
                             const zr_tokenizer_json *of)
{
    zr_json_line(w, 0);
    if (!of->byte_level && !for_characters) {
        zr_json_null(w, key);
        return;
    }
    zr_json_begin_object(w, key);
    zr_json_text(w, "type", of->byte_level ? "ByteLevel" : for_characters);
    if (of->byte_level) {
        zr_json_flag(w, "add_prefix_space", of->prefix);
        zr_json_flag(w, "trim_offsets", of->splits);
        zr_json_flag(w, "use_regex", of->splits);
    }
    zr_json_end(w);
}

static void write_template_part(zr_json_writer *w, const char *kind, const char *id, int type)
{
    zr_json_begin_object(w, NULL);
    zr_json_begin_object(w, kind);
    zr_json_text(w, "id", id);
    zr_json_integer(w, "type_id", type);
    zr_json_end(w);
    zr_json_end(w);
}

// Writes what puts the begin token before a text and before the second of a pair.
static void write_template(zr_json_writer *w, const zr_tokenizer_json *of)
{
    zr_json_begin_object(w, "post_processor");
    zr_json_text(w, "type", "TemplateProcessing");
    for (int texts = 1; texts <= 2; texts++) {
        zr_json_begin_array(w, texts == 1 ? "single" : "pair");
        for (int i = 0; i < texts; i++) {
            write_template_part(w, "SpecialToken", of->begin, i);
            write_template_part(w, "Sequence", i ? "B" : "A", i);
        }
        zr_json_end(w);
    }
    zr_json_begin_object(w, "special_tokens");
    zr_json_begin_object(w, of->begin);
    zr_json_text(w, "id", of->begin);
    zr_json_integers(w, "ids", &of->begin_id, 1);
    zr_json_begin_array(w, "tokens");
    zr_json_text(w, NULL, of->begin);
    zr_json_end(w);
    for (int i = 0; i < 3; i++)
        zr_json_end(w);
}

static void begin_model(zr_json_writer *w)
{
    static const char *const unset[] = {"dropout", "unk_token", "continuing_subword_prefix",
                                        "end_of_word_suffix"};
    static const char *const off[] = {"fuse_unk", "byte_fallback", "ignore_merges"};
    zr_json_begin_object(w, "model");
    zr_json_text(w, "type", "BPE");
    for (int i = 0; i < ZR_COUNT(unset); i++)
        zr_json_null(w, unset[i]);
    for (int i = 0; i < ZR_COUNT(off); i++)
        zr_json_flag(w, off[i], false);
}

void zr_tokenizer_json_parts(zr_json_writer *w, const zr_tokenizer_json *of)
{
    write_byte_level(w, "pre_tokenizer", NULL, of);
    zr_json_line(w, 0);
    if (of->begin)
        write_template(w, of);
    else
        zr_json_null(w, "post_processor");
    write_byte_level(w, "decoder", "Fuse", of);
    zr_json_line(w, 0);
    begin_model(w);
}

void zr_tokenizer_json_token(zr_json_writer *w, const char *token, int32_t id)
{
    zr_json_line(w, 0);
    zr_json_integer(w, token, id);
}

void zr_tokenizer_json_config(const char *end, zr_buffer *out)
{
    zr_json_writer w = zr_json_writer_on(out, ZR_JSON_COMPACT);
    zr_json_begin_object(&w, NULL);
    zr_json_text(&w, "tokenizer_class", "PreTrainedTokenizerFast");
    if (end) {
        zr_json_text(&w, "bos_token", end);
        zr_json_text(&w, "eos_token", end);
    }
    zr_json_flag(&w, "clean_up_tokenization_spaces", false);
    zr_json_finish(&w);
}
