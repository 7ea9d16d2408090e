// The model of a BPE: tokens, merges, settings. Everything that a file says is checked here: ids once each and not beyond all
// proportion, merges of tokens that there are, into tokens that there are. Since a merge makes a longer token, none can go in a circle.
#include "base/random.h"
#include "tokenizer/bpe_encode.h"
#include "tokenizer/bpe_load.h"

#include <stdio.h>
#include <string.h>
#include <utf8proc.h>

bool zr_json_is_off(const json_t *setting)
{
    return !setting || json_is_null(setting) || json_is_false(setting) || (json_is_string(setting) && !json_string_length(setting)) ||
           (json_is_array(setting) && !json_array_size(setting));
}

const char *zr_json_type(const json_t *part)
{
    if (!part || json_is_null(part))
        return "";
    const char *type = json_string_value(json_object_get(part, "type"));
    return type ? type : "?";
}

zero_status zr_fail_not_built(const char *path, const char *what, const char *value, zero_error *error)
{
    return zr_fail(error, ZERO_ERR_UNSUPPORTED, "%s: %s%.400s: not built", path, what, value);
}

static zero_status append_text(zr_bpe_loader *loader, const char *text, size_t length, zr_text_span *out, zero_error *error)
{
    *out = (zr_text_span){.at = (uint32_t)loader->text.length, .length = (uint32_t)length};
    zr_buffer_append(&loader->text, text, length);
    if (loader->text.failed || loader->text.length > UINT32_MAX / 2)
        return zr_fail(error, ZERO_ERR_MEMORY, "%s: no memory for the text of its tokens", loader->path);
    loader->bpe->text = loader->text.data;
    return ZERO_OK;
}

// An id of the file, in range; messages name the token.
static zero_status read_id(const zr_bpe_loader *loader, const char *token, const json_t *value, int32_t *out, zero_error *error)
{
    int64_t most = 2 * loader->entries + 65536; // some files leave gaps
    if (!json_is_integer(value))
        return zr_fail(error, ZERO_ERR_DATA, "%s: the id of the token \"%.100s\" is no integer", loader->path, token);
    json_int_t id = json_integer_value(value);
    if (id < 0 || id > most)
        return zr_fail(error, ZERO_ERR_DATA, "%s: the token \"%.100s\" has the id %lld, where %lld tokens have ids from 0 to %lld at most", loader->path, token, (long long)id,
                       (long long)loader->entries, (long long)most);
    *out = (int32_t)id;
    return ZERO_OK;
}

static zero_status put_token(zr_bpe_loader *loader, const char *token, int32_t id, zero_error *error)
{
    zr_text_span *spelled = loader->bpe->spelled;
    if (!*token)
        return zr_fail(error, ZERO_ERR_DATA, "%s: the token of id %d is empty", loader->path, id);
    if (spelled[id].length)
        return zr_fail(error, ZERO_ERR_DATA, "%s: the id %d is given to \"%.*s\" and to \"%.100s\"", loader->path, id, (int)ZR_MIN(spelled[id].length, 100u),
                       loader->bpe->text + spelled[id].at, token);
    return append_text(loader, token, strlen(token), &spelled[id], error);
}

// The largest id of all, which says how large the tables are.
static zero_status find_largest(zr_bpe_loader *loader, json_t *vocab, const json_t *added, int32_t *largest, zero_error *error)
{
    const char *token;
    json_t *value;
    int32_t id = 0;
    *largest = -1;
    json_object_foreach(vocab, token, value) {
        ZERO_TRY(read_id(loader, token, value, &id, error));
        *largest = ZR_MAX(*largest, id);
    }
    for (size_t i = 0; i < json_array_size(added); i++) {
        const json_t *entry = json_array_get(added, i);
        const char *content = json_string_value(json_object_get(entry, "content"));
        if (!content || !*content)
            return zr_fail(error, ZERO_ERR_DATA, "%s: added token %zu has no \"content\"", loader->path, i);
        ZERO_TRY(read_id(loader, content, json_object_get(entry, "id"), &id, error));
        *largest = ZR_MAX(*largest, id);
    }
    return ZERO_OK;
}

static zero_status read_added(zr_bpe_loader *loader, const json_t *entry, zr_added_token *out, zero_error *error)
{
    const char *content = json_string_value(json_object_get(entry, "content"));
    zr_bpe *bpe = loader->bpe;
    out->id = (int32_t)json_integer_value(json_object_get(entry, "id"));
    out->special = json_is_true(json_object_get(entry, "special"));
    out->lstrip = json_is_true(json_object_get(entry, "lstrip"));
    out->rstrip = json_is_true(json_object_get(entry, "rstrip"));
    out->single_word = json_is_true(json_object_get(entry, "single_word"));
    const json_t *normalized = json_object_get(entry, "normalized");
    out->normalized = normalized ? json_is_true(normalized) : !out->special;
    out->content = zr_strdup(content, error);
    if (!out->content)
        return ZERO_ERR_MEMORY;
    bpe->added_count++;
    int32_t of_model = zr_text_span_map_find(&bpe->ids, content, strlen(content));
    if (of_model >= 0 && of_model != out->id)
        return zr_fail(error, ZERO_ERR_DATA, "%s: the token \"%.100s\" has the id %d in the vocabulary and %d among the added tokens", loader->path, content, of_model, out->id);
    return of_model >= 0 ? ZERO_OK : put_token(loader, content, out->id, error);
}

static zero_status allocate(zr_bpe_loader *loader, int32_t vocabulary, size_t model_tokens, size_t added, zero_error *error)
{
    zr_bpe *bpe = loader->bpe;
    loader->tokenizer->vocabulary = vocabulary;
    bpe->model_tokens = (int32_t)model_tokens;
    bpe->spelled = zr_alloc((size_t)vocabulary * sizeof *bpe->spelled, error);
    bpe->bytes = bpe->spelled ? zr_alloc((size_t)vocabulary * sizeof *bpe->bytes, error) : NULL;
    bpe->is_byte = bpe->bytes ? zr_alloc((size_t)vocabulary, error) : NULL;
    bpe->added = bpe->is_byte ? zr_alloc((added + 1) * sizeof *bpe->added, error) : NULL;
    return bpe->added ? zr_text_span_map_create((const char *const *)&bpe->text, (int64_t)model_tokens, &bpe->ids, error) : ZERO_ERR_MEMORY;
}

zero_status zr_bpe_load_vocabulary(zr_bpe_loader *loader, json_t *vocab, const json_t *added, zero_error *error)
{
    const char *token;
    json_t *value;
    int32_t largest;
    loader->entries = (int64_t)json_object_size(vocab) + (int64_t)json_array_size(added);
    ZERO_TRY(find_largest(loader, vocab, added, &largest, error));
    if (largest < 0)
        return zr_fail(error, ZERO_ERR_DATA, "%s: a vocabulary without a token", loader->path);
    ZERO_TRY(allocate(loader, largest + 1, json_object_size(vocab), json_array_size(added), error));
    json_object_foreach(vocab, token, value) {
        int32_t id = (int32_t)json_integer_value(value);
        ZERO_TRY(put_token(loader, token, id, error));
        zr_text_span_map_insert(&loader->bpe->ids, loader->bpe->spelled[id], id); // keys of an object are distinct
    }
    for (size_t i = 0; i < json_array_size(added); i++)
        ZERO_TRY(read_added(loader, json_array_get(added, i), &loader->bpe->added[loader->bpe->added_count], error));
    return ZERO_OK;
}

// ---- merges ----------------------------------------------------------------------------------------------------

static zero_status fail_merge(const zr_bpe_loader *loader, int64_t rank, const char *left, size_t left_length, const char *right, size_t right_length, const char *why,
                              zero_error *error)
{
    return zr_fail(error, ZERO_ERR_DATA, "%s: merge %lld, \"%.*s\" and \"%.*s\": %s", loader->path, (long long)rank, (int)ZR_MIN(left_length, (size_t)100), left,
                   (int)ZR_MIN(right_length, (size_t)100), right, why);
}

static zero_status put_merge(zr_bpe_loader *loader, int64_t rank, const char *left, size_t left_length, const char *right, size_t right_length, zr_buffer *joined,
                             zero_error *error)
{
    const zr_text_span_map *ids = &loader->bpe->ids;
    joined->length = 0;
    zr_buffer_append(joined, left, left_length);
    zr_buffer_append(joined, right, right_length);
    if (joined->failed)
        return zr_fail(error, ZERO_ERR_MEMORY, "%s: no memory for its merges", loader->path);
    zr_merge merge = {.left = zr_text_span_map_find(ids, left, left_length), .right = zr_text_span_map_find(ids, right, right_length), .rank = (int32_t)rank,
                      .id = zr_text_span_map_find(ids, joined->data, joined->length)};
    if (merge.left < 0 || merge.right < 0)
        return fail_merge(loader, rank, left, left_length, right, right_length, merge.left < 0 ? "the first is no token of the vocabulary" : "the second is no token of the vocabulary", error);
    if (merge.id < 0)
        return fail_merge(loader, rank, left, left_length, right, right_length, "together they are no token of the vocabulary", error);
    zr_merge_map_insert(&loader->bpe->merges, merge);
    return ZERO_OK;
}

// "a b": two tokens with one space between.
static zero_status put_merge_line(zr_bpe_loader *loader, int64_t rank, const char *line, size_t length, zr_buffer *joined, zero_error *error)
{
    const char *space = memchr(line, ' ', length);
    size_t left = space ? (size_t)(space - line) : 0, right = space ? length - left - 1 : 0;
    if (!left || !right || memchr(space + 1, ' ', right))
        return zr_fail(error, ZERO_ERR_DATA, "%s: merge %lld is \"%.*s\", where two tokens with a space between are needed", loader->path, (long long)rank,
                       (int)ZR_MIN(length, (size_t)100), line);
    return put_merge(loader, rank, line, left, space + 1, right, joined, error);
}

static zero_status put_json_merge(zr_bpe_loader *loader, int64_t rank, const json_t *item, zr_buffer *joined, zero_error *error)
{
    if (json_is_string(item))
        return put_merge_line(loader, rank, json_string_value(item), json_string_length(item), joined, error);
    const json_t *left = json_array_get(item, 0), *right = json_array_get(item, 1);
    if (json_array_size(item) != 2 || !json_string_length(left) || !json_string_length(right))
        return zr_fail(error, ZERO_ERR_DATA, "%s: merge %lld is no pair of tokens", loader->path, (long long)rank);
    return put_merge(loader, rank, json_string_value(left), json_string_length(left), json_string_value(right), json_string_length(right), joined, error);
}

zero_status zr_bpe_load_merges(zr_bpe_loader *loader, const json_t *merges, zero_error *error)
{
    size_t count = json_array_size(merges);
    zr_buffer joined = {0};
    if (merges && !json_is_null(merges) && !json_is_array(merges))
        return zr_fail(error, ZERO_ERR_DATA, "%s: the model's \"merges\" is no list", loader->path);
    zero_status status = zr_merge_map_create((int64_t)count, &loader->bpe->merges, error);
    for (size_t i = 0; i < count && status == ZERO_OK; i++)
        status = put_json_merge(loader, (int64_t)i, json_array_get(merges, i), &joined, error);
    zr_buffer_free(&joined);
    return status;
}

static size_t line_length(const char *text, size_t length)
{
    const char *end = memchr(text, '\n', length);
    return end ? (size_t)(end - text) : length;
}

zero_status zr_bpe_load_merges_text(zr_bpe_loader *loader, const char *text, size_t length, zero_error *error)
{
    int64_t lines = 1, rank = 0;
    zr_buffer joined = {0};
    for (size_t i = 0; i < length; i++)
        lines += text[i] == '\n';
    zero_status status = zr_merge_map_create(lines, &loader->bpe->merges, error);
    for (size_t at = 0, whole; at < length && status == ZERO_OK; at += whole + 1) {
        whole = line_length(text + at, length - at);
        size_t line = whole - (whole > 0 && text[at + whole - 1] == '\r');
        if (line && !(line >= 8 && memcmp(text + at, "#version", 8) == 0))
            status = put_merge_line(loader, rank++, text + at, line, &joined, error);
    }
    zr_buffer_free(&joined);
    return status;
}

// ---- settings, and what follows --------------------------------------------------------------------------------

zero_status zr_bpe_load_model(zr_bpe_loader *loader, const json_t *model, zero_error *error)
{
    static const char *const refused[] = {"dropout", "continuing_subword_prefix", "end_of_word_suffix"};
    zr_bpe *bpe = loader->bpe;
    for (int i = 0; i < ZR_COUNT(refused); i++) {
        const json_t *setting = json_object_get(model, refused[i]);
        if (!zr_json_is_off(setting) && !(json_is_number(setting) && json_number_value(setting) == 0))
            return zr_fail_not_built(loader->path, "the model's ", refused[i], error);
    }
    bpe->byte_fallback = json_is_true(json_object_get(model, "byte_fallback"));
    bpe->fuse_unk = json_is_true(json_object_get(model, "fuse_unk"));
    bpe->ignore_merges = json_is_true(json_object_get(model, "ignore_merges"));
    bpe->unk = -1;
    const json_t *unk = json_object_get(model, "unk_token");
    if (zr_json_is_off(unk))
        return ZERO_OK;
    const char *name = json_string_value(unk);
    bpe->unk = name ? zr_text_span_map_find(&bpe->ids, name, strlen(name)) : -1;
    return bpe->unk >= 0 ? ZERO_OK : zr_fail(error, ZERO_ERR_DATA, "%s: the unk_token \"%.100s\" is no token of the vocabulary", loader->path, name ? name : "?");
}

// The byte that <0x0A> stands for, -1: the token is another.
static int byte_of_name(const char *text, size_t length)
{
    int value = 0;
    if (length != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>')
        return -1;
    for (int i = 3; i < 5; i++) {
        const char *digits = "0123456789abcdef", *at = strchr(digits, text[i] >= 'A' && text[i] <= 'F' ? text[i] + 32 : text[i]);
        if (!text[i] || !at)
            return -1;
        value = value * 16 + (int)(at - digits);
    }
    return value;
}

// The bytes that a byte-level token spells, in `out`; false: it has characters beyond the alphabet.
static bool unspell(const char *text, size_t length, zr_buffer *out)
{
    out->length = 0;
    for (size_t at = 0; at < length;) {
        int32_t code_point;
        int bytes = zr_utf8_next(text + at, length - at, &code_point), byte = bytes ? zr_symbol_byte(code_point) : -1;
        if (byte < 0)
            return false;
        zr_buffer_append(out, &(unsigned char){(unsigned char)byte}, 1);
        at += (size_t)bytes;
    }
    return true;
}

static void replace_all(const char *text, size_t length, const char *from, const char *to, zr_buffer *out)
{
    out->length = 0;
    const char *end = text + length, *found;
    for (size_t width = strlen(from); (found = zr_find(text, (size_t)(end - text), from, width)); text = found + width) {
        zr_buffer_append(out, text, (size_t)(found - text));
        zr_buffer_append(out, to, strlen(to));
    }
    zr_buffer_append(out, text, (size_t)(end - text));
}

// What token `id` decodes to, as far as that does not depend on its neighbours.
static zero_status decode_token(zr_bpe_loader *loader, int32_t id, zr_buffer *work, zero_error *error)
{
    zr_bpe *bpe = loader->bpe;
    zr_text_span spelled = bpe->spelled[id];
    const char *text = bpe->text + spelled.at;
    bpe->bytes[id] = spelled;
    if (bpe->decoder.byte_level) {
        if (!unspell(text, spelled.length, work))
            return ZERO_OK;
    } else {
        const char *from = bpe->decoder.metaspace ? bpe->decoder.space : bpe->decoder.from;
        replace_all(text, spelled.length, from ? from : text, from ? bpe->decoder.metaspace ? " " : bpe->decoder.to : text, work);
        if (!from) {
            work->length = 0;
            zr_buffer_append(work, text, spelled.length);
        }
        int byte = bpe->decoder.fallback && !work->failed ? byte_of_name(work->data, work->length) : -1;
        bpe->is_byte[id] = byte >= 0;
        if (byte >= 0) {
            work->length = 0;
            zr_buffer_append(work, &(unsigned char){(unsigned char)byte}, 1);
        }
    }
    if (work->failed)
        return zr_fail(error, ZERO_ERR_MEMORY, "%s: no memory for the text of its tokens", loader->path);
    if (work->length / ZR_MOST_GROWTH > spelled.length)
        return zr_fail(error, ZERO_ERR_DATA, "%s: the decoder makes more than %d times as many bytes of the token \"%.*s\"", loader->path, ZR_MOST_GROWTH, (int)ZR_MIN(spelled.length, 100u), text);
    if (work->length == spelled.length && memcmp(work->data, text, work->length) == 0)
        return ZERO_OK;
    return append_text(loader, work->data, work->length, &bpe->bytes[id], error);
}

static void find_symbols(zr_bpe *bpe)
{
    for (int byte = 0; byte < 256; byte++) {
        char name[8];
        utf8proc_uint8_t symbol[4];
        if (bpe->byte_level) {
            utf8proc_ssize_t length = utf8proc_encode_char(zr_byte_symbol(byte), symbol);
            bpe->symbols[byte] = zr_text_span_map_find(&bpe->ids, (const char *)symbol, (size_t)length);
        } else {
            snprintf(name, sizeof name, "<0x%02X>", (unsigned)byte);
            bpe->symbols[byte] = zr_text_span_map_find(&bpe->ids, name, 6);
        }
    }
}

// ignore_merges: byte-level tokens by the bytes they spell, so that a piece that is one is found as it stands in the text.
static zero_status find_wholes(zr_bpe_loader *loader, zr_buffer *work, zero_error *error)
{
    zr_bpe *bpe = loader->bpe;
    if (!bpe->ignore_merges)
        return ZERO_OK;
    ZERO_TRY(zr_text_span_map_create((const char *const *)&bpe->text, bpe->model_tokens, &bpe->whole, error));
    for (int32_t id = 0; id < loader->tokenizer->vocabulary; id++) {
        zr_text_span span = bpe->spelled[id];
        if (!span.length || zr_text_span_map_find(&bpe->ids, bpe->text + span.at, span.length) != id)
            continue;
        if (bpe->byte_level) {
            if (!unspell(bpe->text + span.at, span.length, work))
                continue;
            ZERO_TRY(append_text(loader, work->data, work->length, &span, error));
        }
        zr_text_span_map_insert(&bpe->whole, span, id);
    }
    return work->failed ? zr_fail(error, ZERO_ERR_MEMORY, "%s: no memory for its tokens", loader->path) : ZERO_OK;
}

// Whether spaces are written as U+2581, that is a token, and no token has one that another character precedes.
static bool find_words_apart(const zr_tokenizer *tokenizer)
{
    const zr_bpe *bpe = tokenizer->bpe;
    size_t width = strlen(ZR_METASPACE);
    bool written = false;
    for (int i = 0; i < bpe->normal_count; i++)
        written |= bpe->normal[i].kind == ZR_NORMAL_REPLACE && strcmp(bpe->normal[i].from, " ") == 0 && strcmp(bpe->normal[i].to, ZR_METASPACE) == 0;
    for (int i = 0; i < bpe->split_count; i++)
        written |= bpe->split[i].kind == ZR_SPLIT_METASPACE && strcmp(bpe->split[i].space, ZR_METASPACE) == 0;
    if (!written || bpe->byte_level || bpe->ignore_merges || zr_text_span_map_find(&bpe->ids, ZR_METASPACE, width) < 0)
        return false;
    for (int32_t id = 0; id < tokenizer->vocabulary; id++) {
        const char *text = bpe->text + bpe->spelled[id].at, *end = text + bpe->spelled[id].length;
        for (const char *at = text; (at = zr_find(at, (size_t)(end - at), ZR_METASPACE, width)); at += width)
            if (at != text && ((size_t)(at - text) < width || memcmp(at - width, ZR_METASPACE, width) != 0))
                return false;
    }
    return true;
}

static zero_status finish_added(zr_bpe_loader *loader, zero_error *error)
{
    zr_bpe *bpe = loader->bpe;
    zr_encoder work = {.tokenizer = loader->tokenizer, .name = loader->path, .error = error};
    zero_status status = ZERO_OK;
    for (int i = 0; i < bpe->added_count && status == ZERO_OK; i++) {
        zr_added_token *token = &bpe->added[i];
        const char *sought = token->content;
        token->length = strlen(sought);
        if (token->normalized)
            status = zr_normalize(&work, true, token->content, token->length, &sought, &token->length);
        if (status == ZERO_OK)
            token->sought = zr_alloc(token->length + 1, error);
        if (!token->sought) {
            status = status == ZERO_OK ? ZERO_ERR_MEMORY : status;
            break;
        }
        memcpy(token->sought, sought, token->length);
        if (token->normalized && token->length) // the library decodes them so too
            status = append_text(loader, token->sought, token->length, &bpe->spelled[token->id], error);
        bpe->ordinary_added += !token->special;
        bpe->added_starts[token->normalized][(unsigned char)*token->sought] = token->length > 0;
    }
    zr_free(work.normal.data);
    zr_free(work.other.data);
    return status == ZERO_OK ? zr_added_sort(bpe, loader->path, error) : status;
}

zero_status zr_bpe_finish(zr_bpe_loader *loader, zero_error *error)
{
    zr_bpe *bpe = loader->bpe;
    zr_buffer work = {0};
    zero_status status;
    zr_classes_fill(&bpe->classes);
    find_symbols(bpe);
    status = find_wholes(loader, &work, error);
    bpe->words_apart = find_words_apart(loader->tokenizer);
    if (status == ZERO_OK)
        status = finish_added(loader, error); // from here on these are spelled as they are sought
    for (int32_t id = 0; id < loader->tokenizer->vocabulary && status == ZERO_OK; id++)
        if (bpe->spelled[id].length)
            status = decode_token(loader, id, &work, error);
    zr_buffer_free(&work);
    return status;
}

void zr_bpe_free(zr_bpe *bpe)
{
    if (!bpe)
        return;
    for (int i = 0; i < bpe->added_count; i++) {
        zr_free(bpe->added[i].content);
        zr_free(bpe->added[i].sought);
    }
    for (int i = 0; i < ZR_STEPS; i++) {
        zr_free(bpe->normal[i].from);
        zr_free(bpe->normal[i].to);
        zr_free(bpe->split[i].space);
    }
    void *const rest[] = {bpe->text, bpe->spelled, bpe->bytes, bpe->is_byte, bpe->merges.slots, bpe->added, bpe->decoder.from, bpe->decoder.to, bpe->decoder.strip,
                          bpe->decoder.space, bpe->prefix, bpe->suffix, bpe->added_order[0], bpe->added_order[1]};
    for (int i = 0; i < ZR_COUNT(rest); i++)
        zr_free(rest[i]);
    zr_text_span_map_free(&bpe->ids);
    zr_text_span_map_free(&bpe->whole);
    zr_free(bpe);
}
