// The functions of all tokenizers call those of their kind through its table. Encoder and decoder
// hold the state between calls.
#include "base/file.h"
#include "tokenizer/bpe_encode.h"

#include <string.h>

void zr_tokenizer_destroy(zr_tokenizer *tokenizer)
{
    if (!tokenizer)
        return;
    tokenizer->ops->free(tokenizer);
    for (int i = 0; i < tokenizer->file_count; i++)
        zr_free(tokenizer->files[i].data);
    zr_free(tokenizer);
}

zr_tokenizer_kind zr_tokenizer_kind_of(const zr_tokenizer *tokenizer)
{
    return tokenizer->ops->kind;
}

const char *zr_tokenizer_name(const zr_tokenizer *tokenizer)
{
    static const char *const names[] = {
        [ZR_TOKENIZER_BYTES] = "bytes", [ZR_TOKENIZER_CHARS] = "chars", [ZR_TOKENIZER_BPE] = "BPE"};
    if (tokenizer->bpe && tokenizer->bpe->unigram)
        return "Unigram";
    return tokenizer->bpe && tokenizer->bpe->byte_level ? "byte-level BPE"
                                                        : names[tokenizer->ops->kind];
}

int32_t zr_tokenizer_vocabulary(const zr_tokenizer *tokenizer) { return tokenizer->vocabulary; }

uint64_t zr_tokenizer_fingerprint(const zr_tokenizer *tokenizer) { return tokenizer->fingerprint; }

int32_t zr_tokenizer_end(const zr_tokenizer *tokenizer) { return tokenizer->end; }

int32_t zr_tokenizer_begin(const zr_tokenizer *tokenizer) { return tokenizer->begin; }

zero_status zr_tokenizer_open(const char *what, const char *text, size_t length, const char *name,
                              zr_tokenizer **out, zero_error *error)
{
    if (strcmp(what, "bytes") == 0 || strcmp(what, "chars") == 0)
        return zr_tokenizer_create(*what == 'b' ? ZR_TOKENIZER_BYTES : ZR_TOKENIZER_CHARS, text,
                                   length, name, out, error);
    if (!zr_path_exists(what))
        return zr_fail(
            error, ZERO_ERR_USAGE,
            "tokenizer \"%s\": neither bytes nor chars, nor a directory or file that is there",
            what);
    return zr_tokenizer_load(what, out, error);
}

zero_status zr_tokenizer_save(const zr_tokenizer *tokenizer, const char *directory,
                              zero_error *error)
{
    return tokenizer->ops->save(tokenizer, directory, error);
}

size_t zr_tokenizer_cut(const zr_tokenizer *tokenizer, const char *text, size_t first, size_t limit,
                        size_t length)
{
    return limit >= length ? length : tokenizer->ops->cut(tokenizer, text, first, limit, length);
}

void zr_tokenizer_decode(const zr_tokenizer *tokenizer, int32_t id, zr_buffer *out)
{
    tokenizer->ops->decode(tokenizer, id, out);
}

zero_status zr_encoder_create(const zr_tokenizer *tokenizer, zr_encoder **out, zero_error *error)
{
    zr_encoder *encoder = zr_alloc(sizeof *encoder, error);
    *out = encoder;
    if (!encoder)
        return ZERO_ERR_MEMORY;
    encoder->tokenizer = tokenizer;
    encoder->words = tokenizer->bpe ? zr_alloc(ZR_WORDS * sizeof *encoder->words, error) : NULL;
    if (encoder->words || !tokenizer->bpe)
        return ZERO_OK;
    zr_encoder_destroy(encoder);
    *out = NULL;
    return ZERO_ERR_MEMORY;
}

void zr_encoder_destroy(zr_encoder *encoder)
{
    if (!encoder)
        return;
    zr_free(encoder->words);
    zr_free(encoder->symbols.data);
    zr_free(encoder->heap.data);
    zr_free(encoder->normal.data);
    zr_free(encoder->other.data);
    zr_buffer_free(&encoder->made);
    for (int i = 0; i < ZR_STEPS; i++)
        zr_free(encoder->stripped[i].data);
    zr_free(encoder);
}

zero_status zr_encoder_append(zr_encoder *encoder, zr_encode_mode mode, const char *text,
                              size_t first, size_t end, const char *name, zr_ids *out,
                              zero_error *error)
{
    encoder->mode = mode;
    encoder->goes_on = first > 0;
    encoder->name = name;
    encoder->out = out;
    encoder->error = error;
    return encoder->tokenizer->ops->encode(encoder, text, first, end);
}

zero_status zr_tokenizer_encode(const zr_tokenizer *tokenizer, const char *text, size_t length,
                                const char *name, zr_ids *out, zero_error *error)
{
    zr_encoder *encoder;
    ZERO_TRY(zr_encoder_create(tokenizer, &encoder, error));
    zero_status status =
        zr_encoder_append(encoder, ZR_ENCODE_TEXT, text, 0, length, name, out, error);
    zr_encoder_destroy(encoder);
    return status;
}

bool zr_tokenizer_find(const zr_tokenizer *tokenizer, const char *content, int32_t *id)
{
    const zr_bpe *bpe = tokenizer->bpe;
    *id = -1;
    for (int i = 0; bpe && i < bpe->added_count; i++)
        if (strcmp(bpe->added[i].content, content) == 0)
            *id = bpe->added[i].id;
    if (bpe && *id < 0)
        *id = zr_text_span_map_find(&bpe->ids, content, strlen(content));
    return *id >= 0;
}

bool zr_tokenizer_is_special(const zr_tokenizer *tokenizer, int32_t id)
{
    const zr_bpe *bpe = tokenizer->bpe;
    for (int i = 0; bpe && i < bpe->added_count; i++)
        if (bpe->added[i].id == id && bpe->added[i].special)
            return true;
    return false;
}

bool zr_tokenizer_is_qwen2(const zr_tokenizer *tokenizer)
{
    const zr_bpe *bpe = tokenizer->bpe;
    return bpe && bpe->byte_level && bpe->normal_count == 1 &&
           bpe->normal[0].kind == ZR_NORMAL_NFC && bpe->split_count == 1 &&
           bpe->split[0].next == zr_pieces_qwen2();
}

void zr_tokenizer_template(const zr_tokenizer *tokenizer, const int32_t **before, int *before_count,
                           const int32_t **after, int *after_count)
{
    const zr_bpe *bpe = tokenizer->bpe;
    *before = bpe ? bpe->prefix : NULL;
    *after = bpe ? bpe->suffix : NULL;
    *before_count = bpe ? bpe->prefix_count : 0;
    *after_count = bpe ? bpe->suffix_count : 0;
}

void zr_decoder_begin(zr_decoder *decoder, const zr_tokenizer *tokenizer, bool skip_special)
{
    *decoder = (zr_decoder){.tokenizer = tokenizer, .skip_special = skip_special};
}

void zr_decoder_push(zr_decoder *decoder, int32_t id, zr_buffer *out)
{
    if (decoder->skip_special && zr_tokenizer_is_special(decoder->tokenizer, id))
        return;
    decoder->tokenizer->ops->push(decoder, id, false, out);
    decoder->tokens++;
}

void zr_decoder_end(zr_decoder *decoder, zr_buffer *out)
{
    decoder->tokenizer->ops->push(decoder, -1, true, out);
    zr_buffer_free(&decoder->pending);
    zr_decoder_begin(decoder, decoder->tokenizer, decoder->skip_special);
}

bool zr_ids_reserve(zr_ids *ids, int64_t more)
{
    if (ids->failed || more <= ids->capacity - ids->count)
        return !ids->failed;
    int64_t capacity = ZR_MAX(ids->count + more, ids->capacity + ids->capacity / 2 + 64);
    int32_t *at =
        capacity > INT64_MAX / 8 ? NULL : zr_realloc(ids->at, (size_t)capacity * sizeof *at, NULL);
    ids->failed = !at;
    if (!at)
        return false;
    ids->at = at;
    ids->capacity = capacity;
    return true;
}

void zr_ids_free(zr_ids *ids)
{
    zr_free(ids->at);
    *ids = (zr_ids){0};
}
