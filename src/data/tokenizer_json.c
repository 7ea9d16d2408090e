// tokenizer.json, as Hugging Face's `tokenizers` library reads it: a BPE model without merges, so that each symbol is a token.
//
//   bytes: the ByteLevel pre-tokenizer spells each byte as one printable character (GPT-2's alphabet), whose id is the byte
//   chars: no pre-tokenizer, each character is its own symbol; the decoder Fuse joins them without spaces
//
// Reading accepts exactly what gives the same ids here as there, and names what it does not.
#include "base/file.h"
#include "base/json.h"
#include "data/vocabulary.h"

#include <string.h>
#include <utf8proc.h>

#define TOKENIZER_JSON_LIMIT ((size_t)1 << 28) // bytes; the largest published ones have 3e7

#define BYTE_LEVEL "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":false,\"use_regex\":false}"

// GPT-2's alphabet: the printable bytes of Latin-1 stand for themselves, the others for U+0100 and up, in their order.
static int32_t byte_symbol(int byte)
{
    static const struct {
        int first, last;
    } printable[] = {{33, 126}, {161, 172}, {174, 255}};
    int32_t others = byte;
    for (int i = 0; i < ZR_COUNT(printable); i++) {
        if (byte >= printable[i].first && byte <= printable[i].last)
            return byte;
        if (byte > printable[i].last)
            others -= printable[i].last - printable[i].first + 1;
    }
    return 256 + others;
}

static int32_t symbol_of(const zr_tokenizer *tokenizer, int32_t id)
{
    return tokenizer->kind == ZR_TOKENIZER_BYTES ? byte_symbol(id) : tokenizer->code_points[id];
}

static void write_vocabulary(const zr_tokenizer *tokenizer, zr_buffer *out)
{
    for (int32_t id = 0; id < tokenizer->vocabulary; id++) {
        utf8proc_uint8_t symbol[4];
        utf8proc_ssize_t bytes = utf8proc_encode_char(symbol_of(tokenizer, id), symbol);
        zr_buffer_printf(out, id ? ",\n" : "\n");
        zr_json_append_string(out, (const char *)symbol, (size_t)bytes);
        zr_buffer_printf(out, ":%d", (int)id);
    }
}

static void write_tokenizer(const zr_tokenizer *tokenizer, zr_buffer *out)
{
    bool bytes = tokenizer->kind == ZR_TOKENIZER_BYTES;
    zr_buffer_printf(
        out, "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\"added_tokens\":[],\"normalizer\":null,\n");
    zr_buffer_printf(out, "\"pre_tokenizer\":%s,\n", bytes ? BYTE_LEVEL : "null");
    zr_buffer_printf(out, "\"post_processor\":null,\n\"decoder\":%s,\n", bytes ? BYTE_LEVEL : "{\"type\":\"Fuse\"}");
    zr_buffer_printf(
        out,
        "\"model\":{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":null,\"continuing_subword_prefix\":null,"
        "\"end_of_word_suffix\":null,\"fuse_unk\":false,\"byte_fallback\":false,\"ignore_merges\":false,\"vocab\":{");
    write_vocabulary(tokenizer, out);
    zr_buffer_printf(out, "\n},\"merges\":[]}}\n");
}

static zero_status save_file(const char *directory, const char *file, const char *text, size_t length,
                             zero_error *error)
{
    char *path = zr_sprintf(error, "%s/%s", directory, file);
    if (!path)
        return ZERO_ERR_MEMORY;
    zero_status status = zr_file_write_durable(path, text, length, error);
    zr_free(path);
    return status;
}

zero_status zr_tokenizer_save(const zr_tokenizer *tokenizer, const char *directory, zero_error *error)
{
    static const char config[] =
        "{\"tokenizer_class\":\"PreTrainedTokenizerFast\",\"clean_up_tokenization_spaces\":false}\n";
    zr_buffer text = {0};
    write_tokenizer(tokenizer, &text);
    zero_status status = text.failed ? zr_fail(error, ZERO_ERR_MEMORY, "no memory for the text of tokenizer.json")
                                     : save_file(directory, "tokenizer.json", text.data, text.length, error);
    zr_buffer_free(&text);
    ZERO_TRY(status);
    return save_file(directory, "tokenizer_config.json", config, sizeof config - 1, error);
}

static zero_status fail_unsupported(const char *path, const char *what, const char *value, zero_error *error)
{
    return zr_fail(error, ZERO_ERR_UNSUPPORTED, "%s: %s%s: not built yet; the tokenizers \"bytes\" and \"chars\" are",
                   path, what, value);
}

// The `type` of a part of the tokenizer, "" where the part is null or absent, "?" where it has none.
static const char *type_of(const json_t *part)
{
    if (!part || json_is_null(part))
        return "";
    const char *type = json_string_value(json_object_get(part, "type"));
    return type ? type : "?";
}

// null, false, "", [] and absence all say that a setting is off.
static bool is_off(const json_t *setting)
{
    return !setting || json_is_null(setting) || json_is_false(setting) ||
           (json_is_string(setting) && !json_string_length(setting)) ||
           (json_is_array(setting) && !json_array_size(setting));
}

static zero_status check_model(const char *path, const json_t *root, const json_t *model, zero_error *error)
{
    static const char *const settings[] = {"dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
                                           "byte_fallback"};
    const char *type = type_of(model);
    if (!json_is_object(model) || !json_is_object(json_object_get(model, "vocab")))
        return zr_fail(error, ZERO_ERR_DATA, "%s: no \"model\" with an object \"vocab\", as a tokenizer.json has",
                       path);
    if (strcmp(type, "BPE") && strcmp(type, "?")) // the oldest files do not say that they are BPE
        return fail_unsupported(path, type, " tokenizer", error);
    if (!is_off(json_object_get(model, "merges"))) {
        bool byte_level = !strcmp(type_of(json_object_get(root, "pre_tokenizer")), "ByteLevel");
        return fail_unsupported(path, byte_level ? "GPT-2 " : "", "BPE merges", error);
    }
    for (int i = 0; i < ZR_COUNT(settings); i++) {
        if (!is_off(json_object_get(model, settings[i])))
            return fail_unsupported(path, "the model's ", settings[i], error);
    }
    return ZERO_OK;
}

// Whatever stands between the text and the model changes the ids, except ByteLevel, which the vocabulary accounts for.
static zero_status check_pipeline(const char *path, const json_t *root, zr_tokenizer_kind *kind, zero_error *error)
{
    static const char *const settings[] = {"normalizer", "truncation", "padding", "added_tokens"};
    for (int i = 0; i < ZR_COUNT(settings); i++) {
        if (!is_off(json_object_get(root, settings[i])))
            return fail_unsupported(path, "", settings[i], error);
    }
    const char *post = type_of(json_object_get(root, "post_processor"));
    if (*post && strcmp(post, "ByteLevel"))
        return fail_unsupported(path, "the post-processor ", post, error);
    const json_t *pre_tokenizer = json_object_get(root, "pre_tokenizer");
    const char *type = type_of(pre_tokenizer);
    if (*type && strcmp(type, "ByteLevel"))
        return fail_unsupported(path, "the pre-tokenizer ", type, error);
    if (*type && !json_is_false(json_object_get(pre_tokenizer, "add_prefix_space")))
        return fail_unsupported(path, "", "add_prefix_space", error);
    *kind = *type ? ZR_TOKENIZER_BYTES : ZR_TOKENIZER_CHARS;
    return ZERO_OK;
}

static zero_status load_bytes(const char *path, const json_t *vocab, zr_tokenizer **out, zero_error *error)
{
    if (json_object_size(vocab) != 256)
        return zr_fail(error, ZERO_ERR_UNSUPPORTED,
                       "%s: a vocabulary of %zu byte-level tokens: not built yet; 256 single bytes are", path,
                       json_object_size(vocab));
    for (int byte = 0; byte < 256; byte++) {
        utf8proc_uint8_t symbol[5] = {0};
        utf8proc_encode_char(byte_symbol(byte), symbol);
        const json_t *id = json_object_get(vocab, (const char *)symbol);
        if (!json_is_integer(id) || json_integer_value(id) != byte)
            return zr_fail(error, ZERO_ERR_UNSUPPORTED,
                           "%s: the byte %d (\"%s\") does not have the id %d: other orders are not built yet", path,
                           byte, (const char *)symbol, byte);
    }
    return zr_tokenizer_from_bytes(out, error);
}

// code_points: (V), zeroed; 0 stands for "not seen yet", since JSON keys cannot hold U+0000.
static zero_status read_characters(const char *path, json_t *vocab, int32_t *code_points, zero_error *error)
{
    const char *token;
    json_t *value;
    json_object_foreach(vocab, token, value) {
        int32_t code_point = 0;
        size_t length = strlen(token);
        if (!length || (size_t)zr_utf8_next(token, length, &code_point) != length)
            return zr_fail(error, ZERO_ERR_UNSUPPORTED, "%s: the token \"%s\" is not one character: not built yet",
                           path, token);
        json_int_t id = json_is_integer(value) ? json_integer_value(value) : -1;
        if (id < 0 || (size_t)id >= json_object_size(vocab) || code_points[id])
            return zr_fail(error, ZERO_ERR_DATA,
                           "%s: the id of the token \"%s\" is %s, where each of 0 to %zu is needed once", path, token,
                           json_is_integer(value) ? "out of range or given twice" : "no integer",
                           json_object_size(vocab) - 1);
        code_points[id] = code_point;
    }
    return ZERO_OK;
}

static zero_status load_chars(const char *path, json_t *vocab, zr_tokenizer **out, zero_error *error)
{
    size_t count = json_object_size(vocab);
    if (!count || count >= ZR_CODE_POINTS)
        return zr_fail(error, ZERO_ERR_DATA, "%s: a vocabulary of %zu characters", path, count);
    int32_t *code_points = zr_alloc(count * sizeof(int32_t), error);
    if (!code_points)
        return ZERO_ERR_MEMORY;
    zero_status status = read_characters(path, vocab, code_points, error);
    if (status == ZERO_OK)
        status = zr_tokenizer_from_code_points(code_points, (int32_t)count, out, error);
    zr_free(code_points);
    return status;
}

static zero_status load_root(const char *path, const json_t *root, zr_tokenizer **out, zero_error *error)
{
    const json_t *model = json_object_get(root, "model");
    zr_tokenizer_kind kind = ZR_TOKENIZER_CHARS;
    ZERO_TRY(check_model(path, root, model, error));
    ZERO_TRY(check_pipeline(path, root, &kind, error));
    json_t *vocab = json_object_get(model, "vocab");
    return kind == ZR_TOKENIZER_BYTES ? load_bytes(path, vocab, out, error) : load_chars(path, vocab, out, error);
}

// Says which tokenizer a directory without tokenizer.json has.
static zero_status fail_absent(const char *directory, zero_error *error)
{
    static const struct {
        const char *file, *kind;
    } others[] = {
        {.file = "merges.txt", .kind = "GPT-2 BPE merges"},
        {.file = "tokenizer.model", .kind = "SentencePiece"},
        {.file = "vocab.txt", .kind = "WordPiece tokenizer"},
    };
    for (int i = 0; i < ZR_COUNT(others); i++) {
        char *path = zr_sprintf(error, "%s/%s", directory, others[i].file);
        if (!path)
            return ZERO_ERR_MEMORY;
        zero_status status = zr_path_exists(path) ? fail_unsupported(path, others[i].kind, "", error) : ZERO_OK;
        zr_free(path);
        ZERO_TRY(status);
    }
    return zr_fail(error, ZERO_ERR_IO, "no tokenizer.json in \"%s\"", directory);
}

zero_status zr_tokenizer_load(const char *directory, zr_tokenizer **out, zero_error *error)
{
    char *path = zr_sprintf(error, "%s/tokenizer.json", directory);
    if (!path)
        return ZERO_ERR_MEMORY;
    json_t *root = NULL;
    zero_status status =
        zr_path_exists(path) ? zr_json_load(path, TOKENIZER_JSON_LIMIT, &root, error) : fail_absent(directory, error);
    if (status == ZERO_OK)
        status = load_root(path, root, out, error);
    json_decref(root);
    zr_free(path);
    return status;
}
