// The last step of loading a BPE: derives the bytes of each token, the token of each byte, and the
// pieces that are whole tokens.
#include "tokenizer/spm_normalize.h"
#include "tokenizer/unigram.h"

#include <stdio.h>
#include <string.h>
#include <utf8proc.h>

// Returns the byte of a token such as <0x0A>; -1 for any other token.
static int byte_of_name(const char *text, size_t length)
{
    int value = 0;
    if (length != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>')
        return -1;
    for (int i = 3; i < 5; i++) {
        const char *digits = "0123456789abcdef",
                   *at = strchr(digits, text[i] >= 'A' && text[i] <= 'F' ? text[i] + 32 : text[i]);
        if (!text[i] || !at)
            return -1;
        value = value * 16 + (int)(at - digits);
    }
    return value;
}

// Writes the bytes that a byte-level token spells; returns false if it has characters outside the
// alphabet.
static bool bytes_of_byte_level(const char *text, size_t length, zr_buffer *out)
{
    out->length = 0;
    for (size_t at = 0; at < length;) {
        int32_t code_point;
        int bytes = zr_utf8_next(text + at, length - at, &code_point),
            byte = bytes ? zr_symbol_byte(code_point) : -1;
        if (byte < 0)
            return false;
        zr_buffer_append(out, &(unsigned char){(unsigned char)byte}, 1);
        at += (size_t)bytes;
    }
    return true;
}

static void replace_all(const char *text, size_t length, const char *from, const char *to,
                        zr_buffer *out)
{
    out->length = 0;
    const char *end = text + length, *found;
    for (size_t width = strlen(from);
         (found = zr_find_text(text, (size_t)(end - text), from, width)); text = found + width) {
        zr_buffer_append(out, text, (size_t)(found - text));
        zr_buffer_append(out, to, strlen(to));
    }
    zr_buffer_append(out, text, (size_t)(end - text));
}

// Decodes a token of characters: its text, with real spaces, or the one byte that it names.
static void decode_characters(zr_bpe *bpe, int32_t id, zr_buffer *work)
{
    zr_text_span spelled = bpe->spelled[id];
    const char *text = bpe->text + spelled.at;
    const char *from = bpe->decoder.metaspace ? bpe->decoder.space : bpe->decoder.from;
    const char *to = bpe->decoder.metaspace ? " " : bpe->decoder.to;
    work->length = 0;
    if (from)
        replace_all(text, spelled.length, from, to, work);
    else
        zr_buffer_append(work, text, spelled.length);
    bool may_name = bpe->decoder.fallback && !work->failed;
    int byte = may_name ? byte_of_name(work->data, work->length) : -1;
    bpe->is_byte[id] = byte >= 0;
    if (byte < 0)
        return;
    work->length = 0;
    zr_buffer_append(work, &(unsigned char){(unsigned char)byte}, 1);
}

// Decodes token `id` by the steps that do not depend on its neighbours.
static zero_status decode_token(zr_bpe_loader *loader, int32_t id, zr_buffer *work,
                                zero_error *error)
{
    zr_bpe *bpe = loader->bpe;
    zr_text_span spelled = bpe->spelled[id];
    const char *text = bpe->text + spelled.at;
    bpe->bytes[id] = spelled;
    if (!bpe->decoder.byte_level)
        decode_characters(bpe, id, work);
    else if (!bytes_of_byte_level(text, spelled.length, work))
        return ZERO_OK;
    if (work->failed)
        return zr_fail(error, ZERO_ERR_MEMORY, "%s: no memory for the text of its tokens",
                       loader->path);
    if (work->length / ZR_MOST_GROWTH > spelled.length)
        return zr_fail(
            error, ZERO_ERR_DATA,
            "%s: the decoder makes more than %d times as many bytes of the token \"%.*s\"",
            loader->path, ZR_MOST_GROWTH, (int)ZR_MIN(spelled.length, 100u), text);
    if (work->length == spelled.length && memcmp(work->data, text, work->length) == 0)
        return ZERO_OK;
    return zr_bpe_append_text(loader, work->data, work->length, &bpe->bytes[id], error);
}

static void find_symbols(zr_bpe *bpe)
{
    for (int byte = 0; byte < 256; byte++) {
        char name[8];
        utf8proc_uint8_t symbol[4];
        if (bpe->byte_level) {
            utf8proc_ssize_t length = utf8proc_encode_char(zr_byte_symbol(byte), symbol);
            bpe->symbols[byte] =
                zr_text_span_map_find(&bpe->ids, (const char *)symbol, (size_t)length);
        } else {
            snprintf(name, sizeof name, "<0x%02X>", (unsigned)byte);
            bpe->symbols[byte] = zr_text_span_map_find(&bpe->ids, name, 6);
        }
    }
}

// For ignore_merges: maps each token by the text that it matches (a byte-level token by the bytes
// that it spells), so that a piece which is a whole token is found directly.
static zero_status map_whole_tokens(zr_bpe_loader *loader, zr_buffer *work, zero_error *error)
{
    zr_bpe *bpe = loader->bpe;
    if (!bpe->ignore_merges)
        return ZERO_OK;
    ZERO_TRY(zr_text_span_map_create((const char *const *)&bpe->text, bpe->model_tokens,
                                     &bpe->whole, error));
    for (int32_t id = 0; id < loader->tokenizer->vocabulary; id++) {
        zr_text_span span = bpe->spelled[id];
        if (!span.length ||
            zr_text_span_map_find(&bpe->ids, bpe->text + span.at, span.length) != id)
            continue;
        if (bpe->byte_level) {
            if (!bytes_of_byte_level(bpe->text + span.at, span.length, work))
                continue;
            ZERO_TRY(zr_bpe_append_text(loader, work->data, work->length, &span, error));
        }
        zr_text_span_map_insert(&bpe->whole, span, id);
    }
    return work->failed
               ? zr_fail(error, ZERO_ERR_MEMORY, "%s: no memory for its tokens", loader->path)
               : ZERO_OK;
}

static bool has_piece(const zr_bpe *bpe, const char *text)
{
    uint32_t child = ZR_TRIE_ROOT;
    if (!bpe->unigram)
        return zr_text_span_map_find(&bpe->ids, text, strlen(text)) >= 0;
    for (size_t i = 0; text[i] && (child || !i); i++)
        child =
            zr_piece_trie_next(&bpe->unigram->trie, ZR_TRIE_NODE(child), (unsigned char)text[i]);
    return child & ZR_TRIE_ENDS;
}

static bool writes_metaspaces(const zr_bpe *bpe)
{
    bool written = bpe->rules && bpe->rules->escapes;
    for (int i = 0; i < bpe->normal_count; i++)
        written |= bpe->normal[i].kind == ZR_NORMAL_REPLACE &&
                   strcmp(bpe->normal[i].from, " ") == 0 &&
                   strcmp(bpe->normal[i].to, ZR_METASPACE) == 0;
    for (int i = 0; i < bpe->split_count; i++)
        written |= bpe->split[i].kind == ZR_SPLIT_METASPACE &&
                   strcmp(bpe->split[i].space, ZR_METASPACE) == 0;
    return written;
}

// Returns whether spaces are written as U+2581, which is a token, and no token has one after
// another character.
static bool has_words_apart(const zr_tokenizer *tokenizer)
{
    const zr_bpe *bpe = tokenizer->bpe;
    size_t width = strlen(ZR_METASPACE);
    if (!writes_metaspaces(bpe) || bpe->byte_level || bpe->ignore_merges ||
        !has_piece(bpe, ZR_METASPACE) || (bpe->unigram && !bpe->unigram->exact))
        return false;
    for (int32_t id = 0; id < tokenizer->vocabulary; id++) {
        const char *text = bpe->text + bpe->spelled[id].at, *end = text + bpe->spelled[id].length;
        for (const char *at = text;
             (at = zr_find_text(at, (size_t)(end - at), ZR_METASPACE, width)); at += width)
            if (at != text &&
                ((size_t)(at - text) < width || memcmp(at - width, ZR_METASPACE, width) != 0))
                return false;
    }
    return true;
}

static zero_status index_added_tokens(zr_bpe_loader *loader, zero_error *error)
{
    zr_bpe *bpe = loader->bpe;
    zr_encoder work = {.tokenizer = loader->tokenizer, .name = loader->path, .error = error};
    zero_status status = ZERO_OK;
    for (int i = 0; i < bpe->added_count && status == ZERO_OK; i++) {
        zr_added_token *token = &bpe->added[i];
        const char *sought = token->content;
        token->length = strlen(sought);
        if (token->normalized)
            status =
                zr_normalize(&work, true, token->content, token->length, &sought, &token->length);
        if (status == ZERO_OK)
            token->sought = zr_alloc(token->length + 1, error);
        if (!token->sought) {
            status = status == ZERO_OK ? ZERO_ERR_MEMORY : status;
            break;
        }
        memcpy(token->sought, sought, token->length);
        if (token->normalized && token->length) // as the library decodes them, too
            status = zr_bpe_append_text(loader, token->sought, token->length,
                                        &bpe->spelled[token->id], error);
        bpe->ordinary_added += !token->special;
        bpe->added_starts[token->normalized][(unsigned char)*token->sought] = token->length > 0;
    }
    zr_free(work.normal.data);
    zr_free(work.other.data);
    zr_buffer_free(&work.made);
    return status == ZERO_OK ? zr_added_sort(bpe, loader->path, error) : status;
}

zero_status zr_bpe_finish(zr_bpe_loader *loader, zero_error *error)
{
    zr_bpe *bpe = loader->bpe;
    zr_buffer work = {0};
    zero_status status;
    zr_classes_fill(&bpe->classes);
    find_symbols(bpe);
    status = map_whole_tokens(loader, &work, error);
    if (status == ZERO_OK && bpe->unigram)
        status = zr_unigram_finish(loader, error);
    bpe->words_apart = status == ZERO_OK && has_words_apart(loader->tokenizer);
    if (status == ZERO_OK)
        // From here on the normalised spelling is the one that is looked for.
        status = index_added_tokens(loader, error);
    for (int32_t id = 0; id < loader->tokenizer->vocabulary && status == ZERO_OK; id++)
        if (bpe->spelled[id].length)
            status = decode_token(loader, id, &work, error);
    zr_buffer_free(&work);
    return status;
}
