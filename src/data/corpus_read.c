// Turns the tokens of a corpus into streams, to train on and held out, and its characters into the
// tokenizer "chars".
#include "base/alloc.h"
#include "data/corpus_internal.h"
#include "tokenizer/vocabulary.h"

#include <utf8proc.h>

// Adds tokens [first, end) of a part.
static zero_status add_span(const zr_part *part, int64_t first, int64_t end, zr_stream *out,
                            zero_error *error)
{
    const zr_token_span span = {.count = end - first,
                                .tokens = part->ids ? part->ids + first : NULL,
                                .file = part->ids ? NULL : &part->tokens,
                                .at = first,
                                .name = part->name};
    return zr_stream_add(out, &span, error);
}

typedef enum which { ALL, KEPT, HELD } which;

static zero_status add_part_spans(const zr_corpus *corpus, int number, which what, zr_stream *out,
                                  zero_error *error)
{
    out->name = corpus->sources[number].written;
    for (int i = 0; i < corpus->part_count; i++) {
        const zr_part *part = &corpus->parts[i];
        if (part->stream == number)
            ZERO_TRY(add_span(part, what == HELD ? part->split : 0,
                              what == KEPT ? part->split : part->count, out, error));
    }
    return ZERO_OK;
}

static zero_status check_length(const zr_stream *stream, const char *name, int64_t seq,
                                zero_error *error)
{
    if (stream->count >= seq + 1)
        return ZERO_OK;
    return zr_fail(
        error, ZERO_ERR_DATA,
        "%s: %lld tokens, fewer than the %lld of one window (%lld and the last one's target)", name,
        (long long)stream->count, (long long)seq + 1, (long long)seq);
}

static zero_status allocate_streams(const zr_corpus *corpus, int64_t seq, zr_dataset *out,
                                    zero_error *error)
{
    *out = (zr_dataset){.seq = seq, .stream_count = corpus->stream_count};
    out->streams = zr_alloc((size_t)corpus->stream_count * sizeof *out->streams, error);
    out->weights =
        out->streams ? zr_alloc((size_t)corpus->stream_count * sizeof *out->weights, error) : NULL;
    if (!out->streams)
        out->stream_count = 0;
    return out->weights ? ZERO_OK : ZERO_ERR_MEMORY;
}

static int64_t count_masked(const zr_stream *stream)
{
    int64_t masked = 0;
    for (int s = 0; s < stream->span_count; s++)
        for (int64_t i = 0; stream->spans[s].tokens && i < stream->spans[s].count; i++)
            masked += stream->spans[s].tokens[i] < 0;
    return masked;
}

// The held-out part of a stream is used if it has at least one window; otherwise the whole stream
// is trained on.
static zero_status make_streams(const zr_corpus *corpus, int64_t seq, zr_dataset *train,
                                zr_dataset *held, zero_error *error)
{
    for (int i = 0; i < corpus->stream_count; i++) {
        bool holds = held != NULL;
        if (holds) {
            ZERO_TRY(add_part_spans(corpus, i, HELD, &held->streams[i], error));
            holds = held->streams[i].count >= seq + 1;
            held->streams[i].count = holds ? held->streams[i].count : 0;
            held->count += held->streams[i].count;
        }
        ZERO_TRY(add_part_spans(corpus, i, holds ? KEPT : ALL, &train->streams[i], error));
        ZERO_TRY(check_length(&train->streams[i], corpus->sources[i].paths[0], seq, error));
        train->weights[i] = corpus->sources[i].weight;
        train->count += train->streams[i].count;
        int64_t masked = count_masked(&train->streams[i]);
        train->masked += masked;
        train->bare += masked ? zr_stream_bare_windows(&train->streams[i], seq) : 0;
    }
    return ZERO_OK;
}

zero_status zr_corpus_read(zr_corpus *corpus, const zr_reading *reading, zr_dataset *train,
                           zr_dataset *held, zero_error *error)
{
    *train = (zr_dataset){0};
    if (held)
        *held = (zr_dataset){0};
    if (reading->seq < 1)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "%s: windows of %lld tokens, where at least 1 is needed",
                       zr_corpus_name(corpus), (long long)reading->seq);
    for (int i = 0; i < corpus->part_count; i++) {
        zero_status status = corpus->parts[i].count ? ZERO_OK
                                                    : zr_part_read(corpus, &corpus->parts[i],
                                                                   reading, held != NULL, error);
        zr_file_unmap(
            &corpus->parts[i].records); // not needed any more, because its tokens have been read
        ZERO_TRY(status);
    }
    zero_status status = allocate_streams(corpus, reading->seq, train, error);
    if (status == ZERO_OK && held)
        status = allocate_streams(corpus, reading->seq, held, error);
    if (status == ZERO_OK)
        status = make_streams(corpus, reading->seq, train, held, error);
    if (status != ZERO_OK) {
        zr_dataset_free(train);
        if (held)
            zr_dataset_free(held);
    }
    return status;
}

// ---- the tokenizer "chars" ----

static zero_status collect_characters(void *user, const char *text, size_t length,
                                      zero_error *error)
{
    unsigned char *seen = user;
    int32_t c;
    for (size_t at = 0; at < length;) {
        int bytes = zr_utf8_next(text + at, length - at, &c);
        if (bytes)
            seen[c] = 1;
        at += bytes ? (size_t)bytes : 1;
    }
    return ZERO_OK;
}

static zero_status collect_record_characters(const zr_corpus *corpus, zr_part *part,
                                             unsigned char *seen, zero_error *error)
{
    seen['\n'] = 1; // it ends a record
    return zr_part_records_each(corpus, part, 0, part->records.length, collect_characters, seen,
                                error);
}

// Files are joined because consecutive ones may share a character. If the text is wrong, a
// tokenizer made for this part alone reports the error.
static zero_status collect_text_characters(const zr_part *part, unsigned char *seen,
                                           zero_error *error)
{
    zr_text text;
    zr_tokenizer *own;
    ZERO_TRY(zr_text_load(part->paths, part->files, &text, error));
    zero_status status =
        zr_tokenizer_create(ZR_TOKENIZER_CHARS, text.data, text.length, part->name, &own, error);
    if (status == ZERO_OK) {
        zr_tokenizer_destroy(own);
        status = collect_characters(seen, text.data, text.length, error);
    }
    zr_text_free(&text);
    return status;
}

static zero_status create_char_tokenizer(const unsigned char *seen, const char *name,
                                         zr_tokenizer **out, zero_error *error)
{
    zr_buffer text = {0};
    for (int32_t c = 1; c < ZR_CODE_POINTS; c++) {
        utf8proc_uint8_t bytes[4];
        if (seen[c])
            zr_buffer_append(&text, bytes, (size_t)utf8proc_encode_char(c, bytes));
    }
    zero_status status =
        text.failed ? zr_fail(error, ZERO_ERR_MEMORY, "%s: no memory for its characters", name)
                    : zr_tokenizer_create(ZR_TOKENIZER_CHARS, text.data ? text.data : "",
                                          text.length, name, out, error);
    zr_buffer_free(&text);
    return status;
}

zero_status zr_corpus_characters(const zr_corpus *corpus, zr_tokenizer **out, zero_error *error)
{
    unsigned char *seen = zr_alloc(ZR_CODE_POINTS, error);
    zero_status status = seen ? ZERO_OK : ZERO_ERR_MEMORY;
    for (int i = 0; i < corpus->part_count && status == ZERO_OK; i++) {
        zr_part *part = &corpus->parts[i];
        if (part->kind == ZR_DATA_TOKENS)
            status = zr_fail(
                error, ZERO_ERR_USAGE,
                "\"%s\" holds tokens: the tokenizer \"chars\" is made of the characters of a text",
                part->name);
        else
            status = part->kind == ZR_DATA_TEXT
                         ? collect_text_characters(part, seen, error)
                         : collect_record_characters(corpus, part, seen, error);
    }
    if (status == ZERO_OK)
        status = create_char_tokenizer(seen, zr_corpus_name(corpus), out, error);
    zr_free(seen);
    return status;
}
