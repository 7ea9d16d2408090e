// Checks what must hold for a tokenizer that was accepted, whatever its files say. For the targets
// that read one.
#ifndef TESTS_USE_TOKENIZER_H
#define TESTS_USE_TOKENIZER_H

#include "fuzz.h"

#include "base/file.h"
#include "tokenizer/vocabulary.h"

#include <string.h>

// Makes a text of letters, numbers, marks and white space, and the spellings of the tokenizer's
// first and last tokens, including added ones, next to words and apart from them.
static inline zero_status fuzz_sample(const zr_tokenizer *tokenizer, zr_buffer *out,
                                      zero_error *error)
{
    static const char fixed[] =
        "Hello, w\xc3\xb6rld! 12345 \xf0\x9f\x99\x82\n\n\tthe  end's A\xcc\x8ak e\xcc\x81 "
        "x\xc2\xa0y\r\ncut here\nA\xcc\x8ak e\xcc\x81\nz";
    static const char *const between[] = {"", " ", "a word ", "\n", "b", "A\xcc\x8a"};
    int32_t vocabulary = zr_tokenizer_vocabulary(tokenizer);
    zr_buffer_append(out, fixed, sizeof fixed - 1);
    for (int32_t i = 0; i < ZR_MIN(vocabulary, 48); i++) {
        const char *gap = between[i % (int32_t)ZR_COUNT(between)];
        zr_tokenizer_decode(tokenizer, i % 2 ? vocabulary - 1 - i / 2 : i / 2, out);
        zr_buffer_append(out, gap, strlen(gap));
        if (out->length > 2000)
            break;
    }
    zr_buffer_append(out, fixed, sizeof fixed - 1);
    return out->failed ? zr_fail(error, ZERO_ERR_MEMORY, "no memory for a sample") : ZERO_OK;
}

static inline zero_status fuzz_in_parts(const zr_tokenizer *tokenizer, zr_encode_mode mode,
                                        const zr_buffer *text, size_t part, zr_ids *out,
                                        zero_error *error)
{
    zr_encoder *encoder;
    ZERO_TRY(zr_encoder_create(tokenizer, &encoder, error));
    zero_status status = ZERO_OK;
    for (size_t at = 0, end; at < text->length && status == ZERO_OK; at = end) {
        end = zr_tokenizer_cut(tokenizer, text->data, at, ZR_MIN(text->length, at + part),
                               text->length);
        fuzz_must(end > at && end <= text->length);
        status = zr_encoder_append(encoder, mode, text->data, at, end, "sample", out, error);
    }
    zr_encoder_destroy(encoder);
    return status;
}

// Checks text that is decoded token by token: it consists of whole characters and is never taken
// back.
static inline void fuzz_decode(const zr_tokenizer *tokenizer, const zr_ids *ids, bool skip_special)
{
    zr_decoder decoder;
    zr_buffer text = {0};
    int32_t code_point;
    zr_decoder_begin(&decoder, tokenizer, skip_special);
    for (int64_t i = 0; i < ids->count; i++)
        zr_decoder_push(&decoder, ids->at[i], &text);
    zr_decoder_end(&decoder, &text);
    for (size_t at = 0, bytes; at < text.length && !text.failed; at += bytes) {
        bytes = (size_t)zr_utf8_next(text.data + at, text.length - at, &code_point);
        fuzz_must(bytes > 0);
    }
    zr_buffer_free(&text);
}

static inline zero_status fuzz_use_mode(const zr_tokenizer *tokenizer, zr_encode_mode mode,
                                        const zr_buffer *text, zero_error *error)
{
    zr_ids whole = {0}, parts = {0};
    zero_status status = fuzz_in_parts(tokenizer, mode, text, text->length, &whole, error);
    for (int64_t i = 0; i < whole.count && status == ZERO_OK; i++)
        fuzz_must(whole.at[i] >= 0 && whole.at[i] < zr_tokenizer_vocabulary(tokenizer));
    if (status == ZERO_OK)
        status = fuzz_in_parts(tokenizer, mode, text, 5, &parts, error);
    if (status == ZERO_OK) { // encoding the text as a whole must work too, with the same result
        fuzz_must(whole.count == parts.count);
        fuzz_must(!whole.count ||
                  memcmp(whole.at, parts.at, (size_t)whole.count * sizeof *whole.at) == 0);
        fuzz_decode(tokenizer, &whole, mode == ZR_ENCODE_SPECIAL);
    }
    zr_ids_free(&whole);
    zr_ids_free(&parts);
    return status;
}

static inline zero_status fuzz_use_tokenizer(const zr_tokenizer *tokenizer, zero_error *error)
{
    zr_buffer text = {0};
    fuzz_must(zr_tokenizer_vocabulary(tokenizer) >= 0);
    zero_status status = fuzz_sample(tokenizer, &text, error);
    if (status == ZERO_OK)
        status = fuzz_use_mode(tokenizer, ZR_ENCODE_TEXT, &text, error);
    if (status == ZERO_OK)
        status = fuzz_use_mode(tokenizer, ZR_ENCODE_SPECIAL, &text, error);
    for (int32_t id = -1; id <= ZR_MIN(zr_tokenizer_vocabulary(tokenizer), 300); id++)
        zr_tokenizer_decode(tokenizer, id, &text);
    zr_buffer_free(&text);
    return status;
}

// Checks that what is saved is the same tokenizer.
static inline zero_status fuzz_save_tokenizer(const zr_tokenizer *tokenizer, zero_error *error)
{
    char saved[512];
    zr_tokenizer *again = NULL;
    snprintf(saved, sizeof saved, "%s/saved", fuzz_directory());
    ZERO_TRY(zr_directory_create(saved, error));
    zero_status status = zr_tokenizer_save(tokenizer, saved, error);
    if (status == ZERO_OK)
        status = zr_tokenizer_load(saved, &again, error);
    fuzz_must(status == ZERO_ERR_MEMORY || status == ZERO_OK);
    fuzz_must(!again || zr_tokenizer_fingerprint(again) == zr_tokenizer_fingerprint(tokenizer));
    zr_tokenizer_destroy(again);
    return status;
}

#endif
