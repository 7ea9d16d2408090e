// Writes a list of tokens as the files that Hugging Face's `tokenizers` and transformers read.
#include "tokenizer/token_list.h"

#include "base/json_writer.h"
#include "tokenizer/bpe.h"
#include "tokenizer/token_list_spm.h"
#include "tokenizer/tokenizer_json.h"

#include <stdlib.h>
#include <string.h>

typedef struct writing {
    const zr_token_list *list;
    const char *name; // for messages
    zr_json_writer w;
    zr_text_span_map ids; // of all tokens but the unused
    zero_error *error;
} writing;

static const char *text_of(const zr_token_list *list, int32_t id)
{
    return list->text.data + list->tokens[id].at;
}

static bool is_added(const zr_token_list *list, int32_t id)
{
    int32_t kind = list->kinds[id];
    return kind == ZR_TOKEN_CONTROL || kind == ZR_TOKEN_ADDED ||
           (kind == ZR_TOKEN_UNKNOWN && list->scored);
}

// Returns whether the token is in the model's vocabulary, too. An unknown token has to be.
static bool is_in_vocabulary(const zr_token_list *list, int32_t id)
{
    return list->kinds[id] != ZR_TOKEN_UNUSED && (list->scored || !is_added(list, id));
}

static zero_status map_tokens(writing *c)
{
    ZERO_TRY(zr_text_span_map_create((const char *const *)&c->list->text.data, c->list->count,
                                     &c->ids, c->error));
    for (int32_t id = 0; id < c->list->count; id++) {
        zr_text_span span = c->list->tokens[id];
        const char *text = text_of(c->list, id);
        if (c->list->kinds[id] == ZR_TOKEN_UNUSED)
            continue;
        if (!span.length || memchr(text, 0, span.length))
            return zr_fail(c->error, ZERO_ERR_DATA, "\"%s\": the token %d is empty, or has a 0",
                           c->name, (int)id);
        if (!zr_text_span_map_insert(&c->ids, span, id))
            return zr_fail(c->error, ZERO_ERR_DATA,
                           "\"%s\": the tokens %d and %d are both \"%.*s\"", c->name,
                           (int)zr_text_span_map_find(&c->ids, text, span.length), (int)id,
                           (int)ZR_MIN(span.length, 100u), text);
    }
    return ZERO_OK;
}

static void write_added(writing *c)
{
    const zr_token_list *list = c->list;
    static const char *const off[] = {"single_word", "lstrip", "rstrip", "normalized"};
    zr_json_begin_array(&c->w, "added_tokens");
    for (int32_t id = 0; id < list->count; id++) {
        if (!is_added(list, id))
            continue;
        zr_json_line(&c->w, 0);
        zr_json_begin_object(&c->w, NULL);
        zr_json_integer(&c->w, "id", id);
        zr_json_text_of(&c->w, "content", text_of(list, id), list->tokens[id].length);
        for (int i = 0; i < ZR_COUNT(off); i++)
            zr_json_flag(&c->w, off[i], false);
        zr_json_flag(&c->w, "special", list->kinds[id] != ZR_TOKEN_ADDED);
        zr_json_end(&c->w);
    }
    zr_json_end(&c->w);
}

static void begin_part(writing *c, const char *key, const char *type)
{
    zr_json_begin_object(&c->w, key);
    zr_json_text(&c->w, "type", type);
}

static void write_pattern(writing *c, const char *kind, const char *text)
{
    zr_json_begin_object(&c->w, "pattern");
    zr_json_text(&c->w, kind, text);
    zr_json_end(&c->w);
}

static void write_byte_level(writing *c, const char *key, bool splits)
{
    begin_part(c, key, "ByteLevel");
    zr_json_flag(&c->w, "add_prefix_space", false);
    zr_json_flag(&c->w, "trim_offsets", false);
    zr_json_flag(&c->w, "use_regex", splits);
    zr_json_end(&c->w);
}

static void write_pieces(writing *c, const zr_token_pre *pre)
{
    bool own = pre->pieces() == zr_pieces_gpt2(); // ByteLevel has this expression itself
    begin_part(c, "pre_tokenizer", "Sequence");
    zr_json_begin_array(&c->w, "pretokenizers");
    if (pre->digits) {
        begin_part(c, NULL, "Digits");
        zr_json_flag(&c->w, "individual_digits", true);
        zr_json_end(&c->w);
    }
    if (!own) {
        begin_part(c, NULL, "Split");
        write_pattern(c, "Regex", zr_expression_of_pieces(pre->pieces()));
        zr_json_text(&c->w, "behavior", "Isolated");
        zr_json_flag(&c->w, "invert", false);
        zr_json_end(&c->w);
    }
    write_byte_level(c, NULL, own);
    zr_json_end(&c->w);
    zr_json_end(&c->w);
}

static void write_replace(writing *c, const char *from, const char *to)
{
    begin_part(c, NULL, "Replace");
    write_pattern(c, "String", from);
    zr_json_text(&c->w, "content", to);
    zr_json_end(&c->w);
}

static void write_normalizer(writing *c)
{
    zr_json_line(&c->w, 0);
    if (!c->list->scored || c->list->scheme) {
        zr_json_null(&c->w, "normalizer");
        return;
    }
    if (c->list->ruled) {
        zr_token_list_write_normalizer(&c->w, c->list);
        return;
    }
    begin_part(c, "normalizer", "Sequence");
    zr_json_begin_array(&c->w, "normalizers");
    if (c->list->adds_space) {
        begin_part(c, NULL, "Prepend");
        zr_json_text(&c->w, "prepend", ZR_METASPACE);
        zr_json_end(&c->w);
    }
    write_replace(c, " ", ZR_METASPACE);
    zr_json_end(&c->w);
    zr_json_end(&c->w);
}

static void write_pre_tokenizer(writing *c)
{
    const zr_token_list *list = c->list;
    zr_json_line(&c->w, 0);
    if (!list->scored) {
        write_pieces(c, zr_token_pre_find(list->pre));
    } else if (!list->scheme) {
        zr_json_null(&c->w, "pre_tokenizer");
    } else {
        begin_part(c, "pre_tokenizer", "Metaspace");
        zr_json_text(&c->w, "replacement", ZR_METASPACE);
        zr_json_text(&c->w, "prepend_scheme", list->scheme);
        zr_json_flag(&c->w, "split", false);
        zr_json_end(&c->w);
    }
}

static void write_scored_decoder(writing *c)
{
    begin_part(c, "decoder", "Sequence");
    zr_json_begin_array(&c->w, "decoders");
    write_replace(c, ZR_METASPACE, " ");
    if (c->list->byte_fallback) {
        begin_part(c, NULL, "ByteFallback");
        zr_json_end(&c->w);
    }
    begin_part(c, NULL, "Fuse");
    zr_json_end(&c->w);
    bool escaped = !c->list->ruled || c->list->escapes;
    if (escaped && (c->list->adds_space || c->list->trims)) {
        begin_part(c, NULL, "Strip");
        zr_json_text(&c->w, "content", " ");
        zr_json_integer(&c->w, "start", c->list->trims ? 1000 : 1);
        zr_json_integer(&c->w, "stop", 0);
        zr_json_end(&c->w);
    }
    zr_json_end(&c->w);
    zr_json_end(&c->w);
}

// Writes one part of what is put around a text: a special token, or the text.
static void write_around(writing *c, const char *kind, const char *text, size_t length)
{
    zr_json_begin_object(&c->w, NULL);
    zr_json_begin_object(&c->w, kind);
    zr_json_text_of(&c->w, "id", text, length);
    zr_json_integer(&c->w, "type_id", 0);
    zr_json_end(&c->w);
    zr_json_end(&c->w);
}

static void write_around_text(writing *c, bool pair)
{
    const zr_token_list *list = c->list;
    zr_json_begin_array(&c->w, pair ? "pair" : "single");
    for (int i = 0; i <= pair; i++) {
        if (list->adds_begin)
            write_around(c, "SpecialToken", text_of(list, list->begin),
                         list->tokens[list->begin].length);
        write_around(c, "Sequence", i ? "B" : "A", 1);
        if (list->adds_end)
            write_around(c, "SpecialToken", text_of(list, list->end),
                         list->tokens[list->end].length);
    }
    zr_json_end(&c->w);
}

// A token's text is a key here: copied, so that it ends with a 0.
static zero_status write_special(writing *c, int32_t id)
{
    const zr_token_list *list = c->list;
    char *text = zr_sprintf(c->error, "%.*s", (int)list->tokens[id].length, text_of(list, id));
    if (!text)
        return ZERO_ERR_MEMORY;
    zr_json_begin_object(&c->w, text);
    zr_json_text(&c->w, "id", text);
    zr_json_integers(&c->w, "ids", &(int64_t){id}, 1);
    zr_json_begin_array(&c->w, "tokens");
    zr_json_text(&c->w, NULL, text);
    zr_json_end(&c->w);
    zr_json_end(&c->w);
    zr_free(text);
    return ZERO_OK;
}

static zero_status write_post_processor(writing *c)
{
    const zr_token_list *list = c->list;
    zr_json_line(&c->w, 0);
    if (!list->adds_begin && !list->adds_end) {
        zr_json_null(&c->w, "post_processor");
        return ZERO_OK;
    }
    begin_part(c, "post_processor", "TemplateProcessing");
    write_around_text(c, false);
    write_around_text(c, true);
    zr_json_begin_object(&c->w, "special_tokens");
    if (list->adds_begin)
        ZERO_TRY(write_special(c, list->begin));
    if (list->adds_end && !(list->adds_begin && list->begin == list->end))
        ZERO_TRY(write_special(c, list->end));
    zr_json_end(&c->w);
    zr_json_end(&c->w);
    return ZERO_OK;
}

// ---- Model

static zero_status write_vocabulary(writing *c)
{
    const zr_token_list *list = c->list;
    zr_json_begin_object(&c->w, "vocab");
    for (int32_t id = 0; id < list->count; id++) {
        if (!is_in_vocabulary(list, id))
            continue;
        char *text = zr_sprintf(c->error, "%.*s", (int)list->tokens[id].length, text_of(list, id));
        if (!text)
            return ZERO_ERR_MEMORY;
        zr_tokenizer_json_token(&c->w, text, id);
        zr_free(text);
    }
    zr_json_end(&c->w);
    return ZERO_OK;
}

typedef struct pair { // of tokens that together are one
    zr_text_span left, right;
    float score; // of the whole
    int32_t id, first, second;
    bool by_length; // of pairs of one token, those with a shorter first half come first
} pair;

static int by_score(const void *a, const void *b)
{
    const pair *x = a, *y = b;
    if (x->score != y->score)
        return x->score < y->score ? 1 : -1;
    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    if (x->left.length != y->left.length && x->by_length)
        return x->left.length < y->left.length ? -1 : 1;
    return x->first != y->first ? (x->first > y->first) - (x->first < y->first)
                                : (x->second > y->second) - (x->second < y->second);
}

// Appends every pair whose texts make the token.
static zero_status list_pairs(const writing *c, int32_t id, pair **pairs, int *count, int *room)
{
    const zr_token_list *list = c->list;
    zr_text_span span = list->tokens[id];
    for (uint32_t cut = 1; cut < span.length; cut++) {
        pair *grown = zr_list_grow(*pairs, *count, room, sizeof **pairs, c->error);
        if (!grown)
            return ZERO_ERR_MEMORY;
        *pairs = grown;
        pair *made = &grown[*count];
        *made = (pair){.left = {span.at, cut},
                       .right = {span.at + cut, span.length - cut},
                       .score = list->scores[id],
                       .id = id,
                       .by_length = list->scheme != NULL};
        made->first = zr_text_span_map_find(&c->ids, text_of(list, id), cut);
        made->second = zr_text_span_map_find(&c->ids, text_of(list, id) + cut, span.length - cut);
        *count += made->first >= 0 && made->second >= 0;
    }
    return ZERO_OK;
}

static void write_merge(writing *c, zr_text_span left, zr_text_span right)
{
    const char *text = c->list->text.data;
    zr_json_line(&c->w, 0);
    zr_json_begin_array(&c->w, NULL);
    zr_json_text_of(&c->w, NULL, text + left.at, left.length);
    zr_json_text_of(&c->w, NULL, text + right.at, right.length);
    zr_json_end(&c->w);
}

static zero_status write_scored_merges(writing *c)
{
    pair *pairs = NULL;
    int count = 0, room = 0;
    zero_status status = ZERO_OK;
    for (int32_t id = 0; id < c->list->count && status == ZERO_OK; id++)
        if (c->list->kinds[id] == ZR_TOKEN_NORMAL)
            status = list_pairs(c, id, &pairs, &count, &room);
    if (count && status == ZERO_OK)
        qsort(pairs, (size_t)count, sizeof *pairs, by_score);
    for (int i = 0; i < count && status == ZERO_OK; i++)
        write_merge(c, pairs[i].left, pairs[i].right);
    zr_free(pairs);
    return status;
}

static zero_status write_listed_merges(writing *c)
{
    for (int32_t i = 0; i < c->list->merge_count; i++) {
        zr_text_span span = c->list->merges[i];
        const char *text = c->list->text.data + span.at,
                   *space = span.length > 2 ? memchr(text + 1, ' ', span.length - 2) : NULL;
        if (!space)
            return zr_fail(c->error, ZERO_ERR_DATA, "\"%s\": merge %d is no pair of tokens",
                           c->name, (int)i);
        uint32_t left = (uint32_t)(space - text);
        write_merge(c, (zr_text_span){span.at, left},
                    (zr_text_span){span.at + left + 1, span.length - left - 1});
    }
    return ZERO_OK;
}

static zero_status write_model(writing *c)
{
    const zr_token_list *list = c->list;
    const zr_token_pre *pre = list->scored ? NULL : zr_token_pre_find(list->pre);
    if (list->unigram) {
        zr_token_list_write_unigram(&c->w, list);
        return ZERO_OK;
    }
    zr_json_line(&c->w, 0);
    begin_part(c, "model", "BPE");
    if (list->ruled)
        zr_token_list_write_rules(&c->w, list);
    if (list->scored && list->unknown >= 0)
        zr_json_text_of(&c->w, "unk_token", text_of(list, list->unknown),
                        list->tokens[list->unknown].length);
    else
        zr_json_null(&c->w, "unk_token");
    zr_json_flag(&c->w, "fuse_unk", list->scored);
    zr_json_flag(&c->w, "byte_fallback", list->byte_fallback);
    zr_json_flag(&c->w, "ignore_merges", pre && pre->ignores_merges);
    ZERO_TRY(write_vocabulary(c));
    zr_json_line(&c->w, 0);
    zr_json_begin_array(&c->w, "merges");
    ZERO_TRY(list->scored ? write_scored_merges(c) : write_listed_merges(c));
    zr_json_end(&c->w);
    zr_json_end(&c->w);
    return ZERO_OK;
}

static zero_status write_file(writing *c)
{
    ZERO_TRY(map_tokens(c));
    zr_json_begin_object(&c->w, NULL);
    zr_json_text(&c->w, "version", "1.0");
    zr_json_null(&c->w, "truncation");
    zr_json_null(&c->w, "padding");
    write_added(c);
    write_normalizer(c);
    write_pre_tokenizer(c);
    ZERO_TRY(write_post_processor(c));
    zr_json_line(&c->w, 0);
    if (c->list->scored)
        write_scored_decoder(c);
    else
        write_byte_level(c, "decoder", true);
    ZERO_TRY(write_model(c));
    zr_json_finish(&c->w);
    return ZERO_OK;
}

// Names the token, unless it is one of those that zr_token_list_of takes because there is none.
static void write_named(zr_json_writer *w, const zr_token_list *list, const char *key, int32_t id)
{
    if (id >= 0 && list->kinds[id] == ZR_TOKEN_CONTROL)
        zr_json_text_of(w, key, text_of(list, id), list->tokens[id].length);
    else
        zr_json_null(w, key);
}

static void write_config(const zr_token_list *list, zr_buffer *out)
{
    zr_json_writer w = zr_json_writer_on(out, ZR_JSON_INDENTED);
    zr_json_begin_object(&w, NULL);
    zr_json_text(&w, "tokenizer_class", "PreTrainedTokenizerFast");
    write_named(&w, list, "bos_token", list->begin);
    write_named(&w, list, "eos_token", list->end);
    if (list->scored && list->unknown >= 0)
        zr_json_text_of(&w, "unk_token", text_of(list, list->unknown),
                        list->tokens[list->unknown].length);
    zr_json_flag(&w, "clean_up_tokenization_spaces", false);
    zr_json_finish(&w);
}

static zero_status check_ids(const zr_token_list *list, const char *name, zero_error *error)
{
    const int32_t ids[] = {list->begin, list->end, list->unknown};
    for (int i = 0; i < ZR_COUNT(ids); i++)
        if (ids[i] < -1 || ids[i] >= list->count)
            return zr_fail(error, ZERO_ERR_DATA,
                           "\"%s\": the special token has the id %d, of %d tokens", name,
                           (int)ids[i], (int)list->count);
    return (list->adds_begin && list->begin < 0) || (list->adds_end && list->end < 0)
               ? zr_fail(error, ZERO_ERR_DATA,
                         "\"%s\": a token is put around a text, and has no id", name)
               : ZERO_OK;
}

zero_status zr_token_list_json(const zr_token_list *list, const char *name, zr_buffer *json,
                               zr_buffer *config, zero_error *error)
{
    writing c = {
        .list = list, .name = name, .w = zr_json_writer_on(json, ZR_JSON_COMPACT), .error = error};
    ZERO_TRY(check_ids(list, name, error));
    zero_status status = write_file(&c);
    zr_text_span_map_free(&c.ids);
    write_config(list, config);
    return status == ZERO_OK && (json->failed || config->failed)
               ? zr_fail(error, ZERO_ERR_MEMORY, "\"%s\": no memory for its tokenizer", name)
               : status;
}
