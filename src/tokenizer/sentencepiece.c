// Makes a tokenizer.json of SentencePiece's tokenizer.model, or says why no tokenizer.json has the
// same ids. Two readers count as the truth:
//
//   transformers' LlamaTokenizer  where tokenizer_config.json names it: merges in the order of
//                                 their tokens' ids; user-defined symbols are added tokens;
//                                 `legacy` and `add_prefix_space` say where a space is put
//   the library sentencepiece     otherwise: merges in the order of their scores
#include "tokenizer/sentencepiece.h"

#include <stdlib.h>
#include <string.h>

typedef struct mapping {
    const char *name; // for messages
    const zr_token_settings *settings;
    bool llama; // LlamaTokenizer reads it
    zr_spm_settings says;
    zr_token_list list;
    int32_t pieces; // of the file; added tokens come after them
    zero_error *error;
} mapping;

static zero_status refuse(const mapping *m, const char *what)
{
    return zr_fail(m->error, ZERO_ERR_UNSUPPORTED, "%s: %s: not built" ZR_SPM_OTHER_WAY, m->name,
                   what);
}

static const char *text_of(const mapping *m, int32_t id)
{
    return m->list.text.data + m->list.tokens[id].at;
}

static bool is_text(const mapping *m, int32_t id, const char *text, size_t length)
{
    return m->list.tokens[id].length == length && !memcmp(text_of(m, id), text, length);
}

static int32_t find_piece(const mapping *m, const char *text, size_t length)
{
    for (int32_t id = 0; id < m->list.count; id++)
        if (m->list.kinds[id] && is_text(m, id, text, length))
            return id;
    return -1;
}

// ---- What the file says

static zero_status check_type(const mapping *m)
{
    static const char *const types[] = {"?", "Unigram", "BPE", "Word", "Char"};
    uint64_t type = m->says.type.number;
    if (type == ZR_SPM_BPE || type == ZR_SPM_UNIGRAM)
        return ZERO_OK;
    return zr_fail(m->error, ZERO_ERR_UNSUPPORTED,
                   "%s: SentencePiece's kind %s: not built; BPE and Unigram are", m->name,
                   types[type < ZR_COUNT(types) ? type : 0]);
}

// Takes the rules of the normalizer. A BPE that escapes spaces and does nothing else needs none.
// The user-defined pieces of a Unigram model compete with all others, and are no added tokens.
static zero_status apply_normalizer(mapping *m)
{
    const zr_spm_settings *says = &m->says;
    zr_token_list *list = &m->list;
    if (says->decoded_characters.number)
        return refuse(m, "its denormalizer replaces characters (precompiled_charsmap)");
    list->unigram = says->type.number == ZR_SPM_UNIGRAM;
    list->adds_space = says->adds_space.number;
    list->trims = says->trims.number;
    list->escapes = says->escapes.number;
    list->suffix = says->suffix.number;
    list->charsmap = says->characters.bytes;
    list->charsmap_bytes = says->characters.number;
    list->ruled =
        list->unigram || list->charsmap_bytes || list->trims || list->suffix || !list->escapes;
    for (int32_t id = 0; id < list->count && list->unigram; id++)
        if (list->kinds[id] == ZR_TOKEN_ADDED)
            list->kinds[id] = ZR_TOKEN_SYMBOL;
    return ZERO_OK;
}

static zero_status check_bytes(const mapping *m)
{
    char name[8];
    int32_t bytes = 0;
    for (int32_t id = 0; id < m->list.count; id++) {
        if (m->list.kinds[id] != ZR_TOKEN_BYTE)
            continue;
        snprintf(name, sizeof name, "<0x%02X>", (unsigned)bytes++ & 255);
        if (!is_text(m, id, name, 6))
            return refuse(m, "its bytes are not all there, in order");
    }
    return bytes == (m->list.byte_fallback ? 256 : 0)
               ? ZERO_OK
               : zr_fail(m->error, ZERO_ERR_DATA, "%s: byte_fallback is %s, and it has %d bytes",
                         m->name, m->list.byte_fallback ? "true" : "false", (int)bytes);
}

static zero_status find_unknown(mapping *m)
{
    for (int32_t id = 0; id < m->list.count; id++) {
        if (m->list.kinds[id] == ZR_TOKEN_UNUSED)
            return refuse(m, "it has a piece that is not used");
        if (m->list.kinds[id] != ZR_TOKEN_UNKNOWN)
            continue;
        if (m->list.unknown >= 0)
            return zr_fail(m->error, ZERO_ERR_DATA, "%s: the pieces %d and %d are both unknown",
                           m->name, (int)m->list.unknown, (int)id);
        m->list.unknown = id;
    }
    return m->list.unknown >= 0
               ? ZERO_OK
               : zr_fail(m->error, ZERO_ERR_DATA,
                         "%s: no piece is the unknown one, and SentencePiece needs it", m->name);
}

static int32_t find_control(const mapping *m, const zr_proto_value *name)
{
    int32_t id = find_piece(m, name->bytes, name->number);
    return id >= 0 && m->list.kinds[id] == ZR_TOKEN_CONTROL ? id : -1;
}

static zero_status apply_file(mapping *m)
{
    ZERO_TRY(check_type(m));
    ZERO_TRY(apply_normalizer(m));
    m->list.byte_fallback = m->says.byte_fallback.number;
    m->list.begin = find_control(m, &m->says.begin);
    m->list.end = find_control(m, &m->says.end);
    ZERO_TRY(find_unknown(m));
    return check_bytes(m);
}

// ---- What the files next to it say

static zero_status choose_reader(mapping *m)
{
    const json_t *named = json_object_get(m->settings->config, "tokenizer_class");
    const char *class = json_string_value(named);
    m->llama = zr_token_class_is_llama(m->settings);
    return !class || m->llama
               ? ZERO_OK
               : zr_fail(m->error, ZERO_ERR_UNSUPPORTED,
                         "%s: tokenizer_config.json has the tokenizer_class %.100s: not built for "
                         "such a file; LlamaTokenizer is" ZR_SPM_OTHER_WAY,
                         m->name, class);
}

// Adds a token that one of the files lists, or finds it among the pieces.
static zero_status add_token(mapping *m, const char *content, json_int_t id, bool special)
{
    zr_token_list *list = &m->list;
    size_t length = content ? strlen(content) : 0;
    if (!length || id < 0 || id >= list->count)
        return zr_fail(m->error, ZERO_ERR_DATA,
                       "%s: the added token \"%.100s\" has the id %lld, and %d would be the next",
                       m->name, content ? content : "", (long long)id, (int)m->pieces);
    if (list->kinds[id] && !is_text(m, (int32_t)id, content, length))
        return zr_fail(m->error, ZERO_ERR_UNSUPPORTED,
                       "%s: the added token \"%.100s\" has the id %lld, which is \"%.*s\" already: "
                       "not built" ZR_SPM_OTHER_WAY,
                       m->name, content, (long long)id, (int)ZR_MIN(list->tokens[id].length, 100u),
                       text_of(m, (int32_t)id));
    if (!list->kinds[id]) {
        list->tokens[id] = (zr_text_span){(uint32_t)list->text.length, (uint32_t)length};
        zr_buffer_append(&list->text, content, length);
    }
    if (list->kinds[id] != ZR_TOKEN_UNKNOWN)
        list->kinds[id] = special ? ZR_TOKEN_CONTROL : ZR_TOKEN_ADDED;
    return list->text.failed
               ? zr_fail(m->error, ZERO_ERR_MEMORY, "%s: no memory for its added tokens", m->name)
               : ZERO_OK;
}

static zero_status add_described(mapping *m, const char *key, const json_t *token)
{
    static const char *const flags[] = {"lstrip", "rstrip", "single_word"};
    char *end;
    long long id = strtoll(key, &end, 10);
    for (int i = 0; i < ZR_COUNT(flags); i++)
        if (json_is_true(json_object_get(token, flags[i])))
            return zr_fail(m->error, ZERO_ERR_UNSUPPORTED,
                           "%s: the added token %.40s has %s: not built" ZR_SPM_OTHER_WAY, m->name,
                           key, flags[i]);
    return add_token(m, zr_token_content(token), *key && !*end ? id : -1,
                     json_is_true(json_object_get(token, "special")));
}

static json_t *added_of(const zr_token_settings *settings)
{
    json_t *described = json_object_get(settings->config, "added_tokens_decoder");
    return described ? described : settings->added;
}

static zero_status add_tokens(mapping *m)
{
    bool described = json_object_get(m->settings->config, "added_tokens_decoder") != NULL;
    int32_t room = m->list.count + (int32_t)json_object_size(added_of(m->settings));
    const char *key;
    json_t *value;
    m->pieces = m->list.count;
    m->list.count = room; // without kinds so far
    json_object_foreach(added_of(m->settings), key, value)
    {
        ZERO_TRY(described
                     ? add_described(m, key, value)
                     : add_token(m, key, json_is_integer(value) ? json_integer_value(value) : -1,
                                 false));
    }
    m->list.count = m->pieces;
    while (m->list.count < room && m->list.kinds[m->list.count])
        m->list.count++;
    for (int32_t id = m->list.count; id < room; id++)
        if (m->list.kinds[id])
            return zr_fail(m->error, ZERO_ERR_DATA,
                           "%s: an added token has the id %d, and none has %d", m->name, (int)id,
                           (int)m->list.count);
    return ZERO_OK;
}

// Makes the token special that the settings name for a role. *id stays if they name none.
static zero_status name_token(mapping *m, const char *role, const json_t *named,
                              const char *standard, int32_t *id)
{
    const char *content = named ? zr_token_content(named) : standard;
    if (named && !content)
        *id = -1;
    if (!content || !*content)
        return ZERO_OK;
    *id = find_piece(m, content, strlen(content));
    if (*id < 0)
        return zr_fail(m->error, ZERO_ERR_UNSUPPORTED,
                       "%s: the %s \"%.100s\" is none of its tokens: not built" ZR_SPM_OTHER_WAY,
                       m->name, role, content);
    if (m->list.kinds[*id] != ZR_TOKEN_UNKNOWN)
        m->list.kinds[*id] = ZR_TOKEN_CONTROL;
    return ZERO_OK;
}

static const char *const lists[] = {"additional_special_tokens", "extra_special_tokens"};

// Where tokenizer_config.json has a list, LlamaTokenizer takes it in place of the file's own
// special tokens and symbols.
static zero_status forget_unlisted(mapping *m)
{
    bool listed = false;
    for (int l = 0; l < ZR_COUNT(lists); l++) {
        const json_t *list = json_object_get(m->settings->config, lists[l]);
        if (json_object_size(list))
            return refuse(m, "tokenizer_config.json has special tokens of roles of its own "
                             "(extra_special_tokens)");
        listed |= json_is_array(list);
    }
    for (int32_t id = 0; id < m->list.count && listed && m->llama; id++)
        if (m->list.kinds[id] == ZR_TOKEN_CONTROL || m->list.kinds[id] == ZR_TOKEN_ADDED)
            m->list.kinds[id] = ZR_TOKEN_NORMAL;
    return ZERO_OK;
}

static zero_status name_tokens(mapping *m)
{
    int32_t unused = -1;
    const struct {
        const char *role, *of_llama; // the class has a name for some of them
        int32_t *id;
    } roles[] = {
        {"bos_token", "<s>", &m->list.begin}, {"eos_token", "</s>", &m->list.end},
        {"unk_token", "<unk>", &unused},      {"pad_token", NULL, &unused},
        {"sep_token", NULL, &unused},         {"cls_token", NULL, &unused},
        {"mask_token", NULL, &unused},
    };
    for (int i = 0; i < ZR_COUNT(roles); i++)
        ZERO_TRY(name_token(m, roles[i].role, zr_token_setting(m->settings, roles[i].role),
                            m->llama ? roles[i].of_llama : NULL, roles[i].id));
    for (int l = 0; l < ZR_COUNT(lists); l++) {
        const json_t *list = zr_token_setting(m->settings, lists[l]);
        for (size_t i = 0; i < json_array_size(list); i++)
            ZERO_TRY(name_token(m, lists[l], json_array_get(list, i), NULL, &unused));
    }
    return ZERO_OK;
}

static bool is_on(const mapping *m, const char *key)
{
    return json_is_true(json_object_get(m->settings->config, key));
}

// LlamaTokenizer does not look at the file for all of this.
static zero_status apply_llama(mapping *m)
{
    zr_token_list *list = &m->list;
    if (list->unigram)
        return refuse(m, "LlamaTokenizer is a BPE, and the file's kind is Unigram");
    if (list->ruled)
        return refuse(m, "LlamaTokenizer does not follow the file's normalizer "
                         "(precompiled_charsmap, remove_extra_whitespaces, "
                         "treat_whitespace_as_suffix, or escape_whitespaces false)");
    const json_t *prefix = json_object_get(m->settings->config, "add_prefix_space");
    if (!list->byte_fallback)
        return refuse(m, "LlamaTokenizer for a file without byte_fallback drops characters");
    if (!list->adds_space && !json_is_boolean(prefix))
        return refuse(m, "LlamaTokenizer puts a space before a text where add_dummy_prefix is "
                         "false and tokenizer_config.json has no add_prefix_space");
    list->adds_space = !json_is_false(prefix);
    list->scheme = !list->adds_space ? "never" : is_on(m, "legacy") ? "always" : "first";
    for (int32_t id = 0; id < list->count; id++)
        list->scores[id] = (float)-id;
    return ZERO_OK;
}

static zero_status apply_settings(mapping *m)
{
    ZERO_TRY(forget_unlisted(m));
    ZERO_TRY(add_tokens(m));
    ZERO_TRY(name_tokens(m));
    m->list.adds_begin = m->list.begin >= 0 && is_on(m, "add_bos_token");
    m->list.adds_end = m->list.end >= 0 && is_on(m, "add_eos_token");
    return m->llama ? apply_llama(m) : ZERO_OK;
}

// In a tokenizer.json, text between added tokens is a text of its own.
static zero_status check_symbols(const mapping *m)
{
    for (int32_t id = 0; id < m->list.count; id++) {
        const char *text = text_of(m, id);
        size_t length = m->list.tokens[id].length;
        if (m->list.kinds[id] != ZR_TOKEN_ADDED)
            continue;
        if (m->list.adds_space || m->list.trims)
            return refuse(m, "it has user-defined symbols, and puts a space before a text "
                             "(add_dummy_prefix) or removes spaces (remove_extra_whitespaces)");
        if (memchr(text, ' ', length) || zr_find_text(text, length, ZR_METASPACE, 3))
            return refuse(m, "it has a user-defined symbol with a space");
    }
    return ZERO_OK;
}

// ---- The configuration

// Describes a token as added_tokens_decoder does, unless it is described.
static bool describe_token(const mapping *m, int32_t id, json_t *decoder)
{
    static const char *const off[] = {"lstrip", "rstrip", "single_word", "normalized"};
    char key[16];
    snprintf(key, sizeof key, "%d", (int)id);
    if (json_object_get(decoder, key))
        return true;
    json_t *token = json_object();
    bool made =
        token &&
        !json_object_set_new(token, "content",
                             json_stringn(text_of(m, id), m->list.tokens[id].length)) &&
        !json_object_set_new(token, "special", json_boolean(m->list.kinds[id] != ZR_TOKEN_ADDED));
    for (int i = 0; i < ZR_COUNT(off); i++)
        made = made && !json_object_set_new(token, off[i], json_false());
    made = made && !json_object_set(decoder, key, token);
    json_decref(token);
    return made;
}

// Completes the configuration that is there by what is in `added` only, and by the tokens that its
// added_tokens_decoder lacks: with a tokenizer.json transformers would not know them as added ones.
static bool complete_config(const mapping *m, const json_t *added, json_t *config)
{
    json_t *decoder = json_object_get(config, "added_tokens_decoder");
    bool made = !json_object_update_missing(config, (json_t *)added);
    for (int32_t id = 0; id < m->list.count && decoder && made; id++) {
        int32_t kind = m->list.kinds[id];
        if (kind == ZR_TOKEN_CONTROL || kind == ZR_TOKEN_ADDED || kind == ZR_TOKEN_UNKNOWN)
            made = describe_token(m, id, decoder);
    }
    return made;
}

static zero_status write_config(const mapping *m, const zr_buffer *of_list, json_t **config)
{
    if (!json_is_object(m->settings->config))
        return zr_json_parse(of_list->data, of_list->length, m->name, config, m->error);
    json_t *added;
    ZERO_TRY(zr_json_parse(of_list->data, of_list->length, m->name, &added, m->error));
    *config = json_deep_copy(m->settings->config);
    bool made = *config && complete_config(m, added, *config);
    json_decref(added);
    return made ? ZERO_OK
                : zr_fail(m->error, ZERO_ERR_MEMORY, "%s: no memory for its settings", m->name);
}

static zero_status map_all(mapping *m, zr_buffer *json, json_t **config)
{
    zr_buffer of_list = {0};
    ZERO_TRY(choose_reader(m));
    ZERO_TRY(apply_file(m));
    ZERO_TRY(apply_settings(m));
    if (!m->llama && !m->list.unigram) {
        ZERO_TRY(check_symbols(m));
        ZERO_TRY(zr_spm_check_merges(m->name, &m->list, m->error));
    }
    zero_status status = zr_token_list_json(&m->list, m->name, json, &of_list, m->error);
    if (status == ZERO_OK)
        status = write_config(m, &of_list, config);
    zr_buffer_free(&of_list);
    return status;
}

zero_status zr_spm_json(const char *name, const char *data, size_t length,
                        const zr_token_settings *settings, zr_buffer *json, json_t **config,
                        zero_error *error)
{
    mapping m = {.name = name, .settings = settings, .error = error};
    size_t more = json_object_size(added_of(settings));
    if (more > INT32_MAX / 8)
        return zr_fail(error, ZERO_ERR_DATA, "%s: there are too many added tokens", name);
    ZERO_TRY(zr_spm_read(name, data, length, (int32_t)more, &m.says, &m.list, error));
    zero_status status = map_all(&m, json, config);
    zr_token_list_free(&m.list);
    return status;
}
