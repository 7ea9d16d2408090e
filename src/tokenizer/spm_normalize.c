// Prepares a text as the library sentencepiece does (spm_normalize.h).
#include "tokenizer/spm_normalize.h"

#include <string.h>

typedef struct chunk { // what a part of the text becomes
    const char *text;
    size_t length;
    size_t taken; // bytes of the text
} chunk;

// Returns the bytes of the longest symbol with which the text begins; 0 if there is none.
static size_t find_symbol(const zr_piece_trie *trie, const char *text, size_t length)
{
    uint32_t node = ZR_TRIE_ROOT;
    size_t longest = 0;
    for (size_t i = 0; i < length && trie->edges; i++) {
        uint32_t child = zr_piece_trie_next(trie, node, (unsigned char)text[i]);
        if (!child)
            break;
        node = ZR_TRIE_NODE(child);
        if (child != node)
            longest = i + 1;
    }
    return longest;
}

static chunk next_chunk(const zr_bpe *bpe, const char *text, size_t length)
{
    size_t taken = find_symbol(&bpe->rules->found, text, length);
    int32_t unused;
    if (taken)
        return (chunk){text, taken, taken};
    const char *made = zr_charsmap_find(&bpe->charsmap, true, text, length, &taken);
    if (made)
        return (chunk){made, strlen(made), taken};
    taken = (size_t)zr_utf8_next(text, length, &unused);
    return taken ? (chunk){text, taken, taken} : (chunk){"\xef\xbf\xbd", 3, 1};
}

static bool is_space(const chunk *c) { return c->length == 1 && *c->text == ' '; }

static void append_escaped(const char *text, size_t length, const char *space, zr_buffer *out)
{
    for (const char *at = text, *end = text + length, *found; at < end; at = found + 1) {
        found = memchr(at, ' ', (size_t)(end - at));
        zr_buffer_append(out, at, (size_t)((found ? found : end) - at));
        if (!found)
            return;
        zr_buffer_append(out, space, strlen(space));
    }
}

// Returns the bytes from text[0] on that stay as they are, whatever comes before them.
static size_t plain_bytes(const zr_bpe *bpe, const char *text, size_t length)
{
    size_t at = 0;
    while (at + 1 < length && text[at] != ' ' && !(text[at] & 0x80) && !(text[at + 1] & 0x80) &&
           (!bpe->charsmap.count || bpe->charsmap.plain[(unsigned char)text[at]]))
        at++;
    return bpe->rules->found.edges ? 0 : at;
}

static zero_status check_growth(const zr_encoder *encoder, size_t length)
{
    const zr_buffer *out = &encoder->made;
    if (out->failed)
        return zr_fail(encoder->error, ZERO_ERR_MEMORY, "%s: no memory for its normalised text",
                       encoder->name);
    if (out->length / ZR_MOST_GROWTH <= length + 1)
        return ZERO_OK;
    return zr_fail(encoder->error, ZERO_ERR_DATA,
                   "%s: the tokenizer's normalizer makes more than %d times as many bytes of it",
                   encoder->name, ZR_MOST_GROWTH);
}

static zero_status append_chunks(zr_encoder *encoder, bool after_space, const char *text,
                                 size_t length, const char *space)
{
    const zr_bpe *bpe = encoder->tokenizer->bpe;
    zr_buffer *out = &encoder->made;
    for (size_t at = 0; at < length;) {
        size_t plain = plain_bytes(bpe, text + at, length - at);
        if (plain) {
            zr_buffer_append(out, text + at, plain);
            at += plain;
            after_space = false;
            continue;
        }
        chunk c = next_chunk(bpe, text + at, length - at);
        for (; after_space && c.length && *c.text == ' '; c.text++)
            c.length--;
        append_escaped(c.text, c.length, space, out);
        if (c.length)
            after_space = bpe->rules->trims && c.text[c.length - 1] == ' ';
        at += c.taken;
        ZERO_TRY(check_growth(encoder, length));
    }
    return ZERO_OK;
}

static void trim_end(zr_buffer *out, const char *space)
{
    size_t width = strlen(space);
    while (out->length >= width && !memcmp(out->data + out->length - width, space, width))
        out->length -= width;
}

zero_status zr_spm_normalize(zr_encoder *encoder, bool begins, const char *text, size_t length,
                             const char **out, size_t *out_length)
{
    const zr_bpe *bpe = encoder->tokenizer->bpe;
    const zr_spm_rules *rules = bpe->rules;
    const char *space = rules->escapes ? ZR_METASPACE : " ";
    size_t at = 0;
    encoder->made.length = 0;
    zr_buffer_append(&encoder->made, "", 0);
    for (chunk c; rules->trims && begins && at < length; at += c.taken) {
        c = next_chunk(bpe, text + at, length - at);
        if (!is_space(&c))
            break;
    }
    if (at < length) {
        if (rules->adds_space && !rules->suffix && begins)
            zr_buffer_append(&encoder->made, space, strlen(space));
        ZERO_TRY(append_chunks(encoder, rules->trims && begins, text + at, length - at, space));
        if (rules->trims)
            trim_end(&encoder->made, space);
        if (rules->adds_space && rules->suffix)
            zr_buffer_append(&encoder->made, space, strlen(space));
    }
    *out = encoder->made.data;
    *out_length = encoder->made.length;
    return check_growth(encoder, length);
}

bool zr_charsmap_keeps_words(const zr_charsmap *map)
{
    bool keeps = !map->count || map->plain[' '];
    for (int letter = 'A'; letter <= 'Z'; letter++)
        keeps &= !map->count || (map->plain[letter] && map->plain[letter | 32]);
    return keeps;
}

// ---- Loading

static zero_status refuse_rules(const zr_bpe_loader *loader, const char *what, zero_error *error)
{
    return zr_fail(error, ZERO_ERR_DATA,
                   "%s: the model's " ZR_SPM_RULES " has no %s as a tokenizer.json of libzero has",
                   loader->path, what);
}

static zero_status load_symbols(zr_bpe_loader *loader, const json_t *list, zr_spm_rules *rules,
                                zero_error *error)
{
    const zr_bpe *bpe = loader->bpe;
    size_t count = json_array_size(list), bytes = 0;
    rules->symbols = zr_alloc((count + 1) * sizeof *rules->symbols, error);
    if (!rules->symbols)
        return ZERO_ERR_MEMORY;
    for (size_t i = 0; i < count; i++) {
        const json_t *id = json_array_get(list, i);
        json_int_t value = json_is_integer(id) ? json_integer_value(id) : -1;
        if (value < 0 || value >= bpe->model_tokens ||
            (i && value <= rules->symbols[rules->symbol_count - 1]))
            return refuse_rules(loader, "user_defined with rising ids of its vocabulary", error);
        rules->symbols[rules->symbol_count++] = (int32_t)value;
        bytes += bpe->spelled[value].length;
    }
    if (!count)
        return ZERO_OK;
    ZERO_TRY(zr_piece_trie_create(loader->path, bytes, &rules->found, error));
    for (int32_t i = 0; i < rules->symbol_count; i++) {
        zr_text_span span = bpe->spelled[rules->symbols[i]];
        zr_piece_trie_add(&rules->found, bpe->text + span.at, span.length, rules->symbols[i]);
    }
    return ZERO_OK;
}

zero_status zr_spm_rules_load(zr_bpe_loader *loader, const json_t *model, zero_error *error)
{
    const json_t *said = json_object_get(model, ZR_SPM_RULES);
    if (!said)
        return ZERO_OK;
    zr_spm_rules *rules = zr_alloc(sizeof *rules, error);
    loader->bpe->rules = rules;
    if (!rules)
        return ZERO_ERR_MEMORY;
    const struct {
        const char *key;
        bool *flag;
    } flags[] = {
        {"add_dummy_prefix", &rules->adds_space},
        {"remove_extra_whitespaces", &rules->trims},
        {"escape_whitespaces", &rules->escapes},
        {"treat_whitespace_as_suffix", &rules->suffix},
    };
    for (int i = 0; i < ZR_COUNT(flags); i++) {
        const json_t *value = json_object_get(said, flags[i].key);
        if (!json_is_boolean(value))
            return refuse_rules(loader, flags[i].key, error);
        *flags[i].flag = json_is_true(value);
    }
    return load_symbols(loader, json_object_get(said, "user_defined"), rules, error);
}

void zr_spm_rules_free(zr_spm_rules *rules)
{
    if (!rules)
        return;
    zr_free(rules->symbols);
    zr_piece_trie_free(&rules->found);
    zr_free(rules);
}
