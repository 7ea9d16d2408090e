// Ids to text. Decoder steps that concern each token alone were done when the tokenizer was loaded;
// this file does the steps that depend on neighbours.
#include "base/file.h"
#include "tokenizer/bpe_encode.h"
#include "tokenizer/unigram.h"

#include <string.h>

static const char replacement[] = "\xef\xbf\xbd";

static zr_text_span span_of_id(const zr_tokenizer *tokenizer, const zr_text_span *spans, int32_t id)
{
    return id >= 0 && id < tokenizer->vocabulary ? spans[id] : (zr_text_span){0};
}

static bool is_token(const zr_tokenizer *tokenizer, int32_t id)
{
    return span_of_id(tokenizer, tokenizer->bpe->spelled, id).length > 0;
}

static void append_token_bytes(const zr_tokenizer *tokenizer, int32_t id, zr_buffer *out)
{
    zr_text_span span = span_of_id(tokenizer, tokenizer->bpe->bytes, id);
    if (is_token(tokenizer, id))
        zr_buffer_append(out, tokenizer->bpe->text + span.at, span.length);
    else
        zr_buffer_append(out, replacement, 3);
}

// Appends text, after removing up to strip_count times `strip` from the beginning of the whole
// text.
static void append_stripped_text(zr_decoder *decoder, const char *text, size_t length,
                                 zr_buffer *out)
{
    const zr_bpe *bpe = decoder->tokenizer->bpe;
    size_t width = bpe->decoder.strip ? strlen(bpe->decoder.strip) : 0;
    while (length && decoder->stripped < bpe->decoder.strip_count) {
        bool same = length >= width && memcmp(text, bpe->decoder.strip, width) == 0;
        decoder->stripped = same ? decoder->stripped + 1 : bpe->decoder.strip_count;
        text += same ? width : 0;
        length -= same ? width : 0;
    }
    zr_buffer_append(out, text, length);
}

static bool is_valid(const char *text, size_t length)
{
    for (size_t at = 0; at < length;) {
        int32_t code_point;
        int bytes = zr_utf8_next(text + at, length - at, &code_point);
        if (!bytes)
            return false;
        at += (size_t)bytes;
    }
    return true;
}

// Ends a run of tokens that stand for bytes. A run of valid UTF-8 becomes text; otherwise each of
// its bytes becomes U+FFFD.
static void end_run(zr_decoder *decoder, zr_buffer *out)
{
    zr_buffer *run = &decoder->pending;
    if (is_valid(run->data, run->length))
        append_stripped_text(decoder, run->data, run->length, out);
    else
        for (size_t i = 0; i < run->length; i++)
            append_stripped_text(decoder, replacement, 3, out);
    run->length = 0;
}

// Appends a token without its spaces, because Metaspace's decoder removes all of them from the
// first token.
static void emit_without_spaces(zr_decoder *decoder, zr_text_span spelled, zr_buffer *out)
{
    const zr_bpe *bpe = decoder->tokenizer->bpe;
    const char *at = bpe->text + spelled.at, *end = at + spelled.length, *found;
    size_t width = strlen(bpe->decoder.space);
    for (; (found = zr_find_text(at, (size_t)(end - at), bpe->decoder.space, width));
         at = found + width)
        append_stripped_text(decoder, at, (size_t)(found - at), out);
    append_stripped_text(decoder, at, (size_t)(end - at), out);
}

static void push(zr_decoder *decoder, int32_t id, bool last, zr_buffer *out)
{
    const zr_tokenizer *tokenizer = decoder->tokenizer;
    const zr_bpe *bpe = tokenizer->bpe;
    if (bpe->decoder.byte_level) {
        if (!last)
            append_token_bytes(tokenizer, id, &decoder->pending);
        zr_utf8_flush(&decoder->pending, last, out);
        return;
    }
    if (!last && bpe->decoder.fallback && is_token(tokenizer, id) && bpe->is_byte[id]) {
        append_token_bytes(tokenizer, id, &decoder->pending);
        return;
    }
    end_run(decoder, out);
    if (last)
        return;
    if (bpe->decoder.spaced && decoder->tokens)
        append_stripped_text(decoder, " ", 1, out);
    zr_text_span span = span_of_id(tokenizer, bpe->bytes, id);
    if (!is_token(tokenizer, id))
        append_stripped_text(decoder, replacement, 3, out);
    else if (bpe->decoder.metaspace && !bpe->decoder.keeps_first && decoder->tokens == 0)
        emit_without_spaces(decoder, bpe->spelled[id], out);
    else
        append_stripped_text(decoder, bpe->text + span.at, span.length, out);
}

static zero_status encode(zr_encoder *encoder, const char *text, size_t first, size_t end)
{
    const zr_unigram *unigram = encoder->tokenizer->bpe->unigram;
    encoder->rounds = unigram && unigram->fp32 && first == 0 && end <= ZR_UNIGRAM_ROUNDED;
    return zr_bpe_encode(encoder, text + first, end - first);
}

static void free_bpe(zr_tokenizer *tokenizer) { zr_bpe_free(tokenizer->bpe); }

const zr_tokenizer_ops zr_bpe_ops = {
    .kind = ZR_TOKENIZER_BPE,
    .encode = encode,
    .cut = zr_bpe_cut,
    .decode = append_token_bytes,
    .push = push,
    .save = zr_bpe_save,
    .free = free_bpe,
};
