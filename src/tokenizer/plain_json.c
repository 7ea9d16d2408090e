// tokenizer.json of bytes and chars, as Hugging Face's `tokenizers` library reads it: a BPE model
// without merges, so that each symbol is a token.
//
//   bytes: the ByteLevel pre-tokenizer spells each byte as one printable character (GPT-2's
//          alphabet), whose id is the byte
//   chars: there is no pre-tokenizer, and each character is its own symbol; the decoder Fuse joins
//          them without spaces
//
// A file is read as one of these only if it is equivalent to one that this code writes; every other
// file is a BPE (tokenizer_files.c).
#include "base/file.h"
#include "tokenizer/bpe_load.h"
#include "tokenizer/tokenizer_json.h"

#include <string.h>
#include <utf8proc.h>

static int32_t code_point_of_id(const zr_tokenizer *tokenizer, int32_t id)
{
    return tokenizer->ops->kind == ZR_TOKENIZER_BYTES ? zr_byte_symbol(id)
                                                      : tokenizer->code_points[id];
}

static void write_vocabulary(const zr_tokenizer *tokenizer, zr_json_writer *w)
{
    zr_json_begin_object(w, "vocab");
    for (int32_t id = 0; id < tokenizer->vocabulary; id++) {
        utf8proc_uint8_t symbol[5] = {0};
        utf8proc_encode_char(code_point_of_id(tokenizer, id), symbol);
        zr_tokenizer_json_token(w, (const char *)symbol, id);
    }
    zr_json_line(w, 0);
    zr_json_end(w);
}

zero_status zr_plain_save(const zr_tokenizer *tokenizer, const char *directory, zero_error *error)
{
    const zr_tokenizer_json head = {.byte_level = tokenizer->ops->kind == ZR_TOKENIZER_BYTES};
    zr_buffer text = {0}, config = {0};
    zr_json_writer w = zr_json_writer_on(&text, ZR_JSON_COMPACT);
    zr_tokenizer_json_begin(&w, &head);
    zr_tokenizer_json_parts(&w, &head);
    write_vocabulary(tokenizer, &w);
    zr_json_begin_array(&w, "merges");
    zr_json_end(&w);
    zr_json_finish(&w);
    ZERO_TRY(zr_file_write_text_in(directory, "tokenizer.json", &text, error));
    zr_tokenizer_json_config(NULL, &config);
    return zr_file_write_text_in(directory, "tokenizer_config.json", &config, error);
}

// Finds the plain kind that a tokenizer.json describes; *plain is false if it describes a BPE. A
// plain file has no merges, nothing between the text and the model except ByteLevel, if the
// vocabulary allows that, and only settings that do not change ids.
static void find_kind(const json_t *root, const json_t *model, bool *plain, zr_tokenizer_kind *kind)
{
    static const char *const of_root[] = {"normalizer", "truncation", "padding", "added_tokens"};
    static const char *const of_model[] = {
        "merges",       "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
        "byte_fallback"};
    const json_t *pre_tokenizer = json_object_get(root, "pre_tokenizer");
    const char *pre = zr_json_type(pre_tokenizer),
               *post = zr_json_type(json_object_get(root, "post_processor"));
    *plain = (!*pre || !strcmp(pre, "ByteLevel")) && (!*post || !strcmp(post, "ByteLevel"));
    for (int i = 0; i < ZR_COUNT(of_root); i++)
        *plain = *plain && zr_json_is_off(json_object_get(root, of_root[i]));
    for (int i = 0; i < ZR_COUNT(of_model); i++)
        *plain = *plain && zr_json_is_off(json_object_get(model, of_model[i]));
    if (*pre)
        *plain = *plain && json_is_false(json_object_get(pre_tokenizer, "add_prefix_space")) &&
                 json_object_size(json_object_get(model, "vocab")) == 256;
    *kind = *pre ? ZR_TOKENIZER_BYTES : ZR_TOKENIZER_CHARS;
}

static bool has_all_byte_tokens(const json_t *vocab)
{
    for (int byte = 0; byte < 256; byte++) {
        utf8proc_uint8_t symbol[5] = {0};
        utf8proc_encode_char(zr_byte_symbol(byte), symbol);
        const json_t *id = json_object_get(vocab, (const char *)symbol);
        if (!json_is_integer(id) || json_integer_value(id) != byte)
            return false;
    }
    return true;
}

// Reads the vocabulary of chars. code_points: (V), zeroed; 0 stands for "not seen yet", since JSON
// keys cannot hold U+0000. *plain is false if some token is not a character.
static zero_status read_characters(const char *path, json_t *vocab, int32_t *code_points,
                                   bool *plain, zero_error *error)
{
    const char *token;
    json_t *value;
    json_object_foreach(vocab, token, value)
    {
        int32_t code_point = 0;
        size_t length = strlen(token);
        *plain = length && (size_t)zr_utf8_next(token, length, &code_point) == length;
        if (!*plain)
            return ZERO_OK;
        json_int_t id = json_is_integer(value) ? json_integer_value(value) : -1;
        if (id < 0 || (size_t)id >= json_object_size(vocab) || code_points[id])
            return zr_fail(
                error, ZERO_ERR_DATA,
                "%s: the id of the token \"%s\" is %s, where each of 0 to %zu is needed once", path,
                token, json_is_integer(value) ? "out of range or given twice" : "no integer",
                json_object_size(vocab) - 1);
        code_points[id] = code_point;
    }
    return ZERO_OK;
}

static zero_status load_chars(const char *path, json_t *vocab, zr_tokenizer **out,
                              zero_error *error)
{
    size_t count = json_object_size(vocab);
    bool plain = true;
    if (!count || count >= ZR_CODE_POINTS)
        return zr_fail(error, ZERO_ERR_DATA, "%s: a vocabulary of %zu characters", path, count);
    int32_t *code_points = zr_alloc(count * sizeof(int32_t), error);
    if (!code_points)
        return ZERO_ERR_MEMORY;
    zero_status status = read_characters(path, vocab, code_points, &plain, error);
    if (status == ZERO_OK && plain)
        status = zr_tokenizer_from_code_points(code_points, (int32_t)count, out, error);
    zr_free(code_points);
    return status;
}

zero_status zr_plain_load(const char *path, const json_t *root, zr_tokenizer **out,
                          zero_error *error)
{
    const json_t *model = json_object_get(root, "model");
    json_t *vocab = json_object_get(model, "vocab");
    zr_tokenizer_kind kind;
    bool plain;
    *out = NULL;
    find_kind(root, model, &plain, &kind);
    if (!plain)
        return ZERO_OK;
    if (kind == ZR_TOKENIZER_CHARS)
        return load_chars(path, vocab, out, error);
    return has_all_byte_tokens(vocab) ? zr_tokenizer_from_bytes(out, error) : ZERO_OK;
}
