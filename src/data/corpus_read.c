// Parts of a corpus become tokens, and tokens streams.
#include "data/corpus_internal.h"
#include "base/alloc.h"
#include "data/crew.h"
#include "data/token_note.h"
#include "data/vocabulary.h"

#include <string.h>
#include <utf8proc.h>

enum { RECORDS_AT_ONCE = 256, TOKENS_AT_ONCE = 16 << 20 }; // between two signs of life

zr_records zr_part_records(const zr_corpus *corpus, const zr_part *part)
{
    return (zr_records){.path = part->name, .text = part->records.data, .length = part->records.length, .field = corpus->options.field, .chat = corpus->options.chat};
}

typedef struct reader {
    const zr_corpus *corpus;
    zr_part *part;
    zr_encoding encoding;
    zr_crew *crew; // of text
    size_t before; // bytes of text that were read before what the crew is at
} reader;

static zero_status take_ids(void *user, const int32_t *ids, int64_t count, zero_error *error)
{
    reader *r = user;
    if (!zr_ids_reserve(&r->encoding.ids, count))
        return zr_fail(error, ZERO_ERR_MEMORY, "%s: no memory for more than %lld tokens", r->part->name, (long long)r->encoding.ids.count);
    memcpy(r->encoding.ids.at + r->encoding.ids.count, ids, (size_t)count * sizeof *ids);
    r->encoding.ids.count += count;
    return ZERO_OK;
}

static void say_taken(void *user, size_t bytes)
{
    const reader *r = user;
    zr_corpus_beat(r->corpus, r->part->name, r->before + bytes, r->part->text.length);
}

// Bytes [first, end) of the joined text.
static zero_status encode_text(reader *r, const char *name, size_t first, size_t end, zero_error *error)
{
    r->before = first;
    return end > first ? zr_crew_encode(r->crew, ZR_ENCODE_TEXT, r->part->text.data + first, end - first, name, take_ids, say_taken, r, error) : ZERO_OK;
}

// A document each where the tokenizer can end one; else one text, whose files may even share a character.
static zero_status encode_files(reader *r, size_t split, zero_error *error)
{
    const zr_text *text = &r->part->text;
    bool apart = zr_tokenizer_end(r->encoding.tokenizer) >= 0;
    for (int i = 0; i < (apart ? text->files : 1); i++) {
        size_t start = i ? text->ends[i - 1] : 0, end = apart ? text->ends[i] : text->length, cut = ZR_MIN(ZR_MAX(split, start), end);
        const char *name = apart ? r->part->paths[i] : r->part->name;
        ZERO_TRY(encode_text(r, name, start, cut, error));
        if (cut == split && split < end)
            r->part->split = r->encoding.ids.count;
        ZERO_TRY(encode_text(r, name, cut, end, error));
        ZERO_TRY(zr_encoding_end(&r->encoding, false, name, error));
    }
    return ZERO_OK;
}

static zero_status read_text(reader *r, int threads, bool holds, zero_error *error)
{
    size_t length = r->part->text.length;
    bool every = zr_tokenizer_kind_of(r->encoding.tokenizer) == ZR_TOKENIZER_BYTES || zr_tokenizer_kind_of(r->encoding.tokenizer) == ZR_TOKENIZER_CHARS;
    if (every && !zr_ids_reserve(&r->encoding.ids, (int64_t)length))
        return zr_fail(error, ZERO_ERR_MEMORY, "%s: no memory for its %zu tokens", r->part->name, length);
    ZERO_TRY(zr_crew_create(r->encoding.tokenizer, threads, &r->crew, error));
    r->part->split = -1;
    zero_status status = encode_files(r, holds ? zr_text_split(&r->part->text) : length, error);
    zr_crew_destroy(r->crew);
    if (r->part->split < 0)
        r->part->split = r->encoding.ids.count;
    return status;
}

static zero_status refuse_untrained(const reader *r, zero_error *error)
{
    for (int64_t i = 0; i < r->encoding.ids.count; i++)
        if (r->encoding.ids.at[i] >= 0)
            return ZERO_OK;
    return zr_fail(error, ZERO_ERR_DATA, "\"%s\": no record has anything to train on: no text, completion or message of the assistant", r->part->name);
}

// The last tenth of the records is held out.
static zero_status read_records(reader *r, bool holds, zero_error *error)
{
    zr_records records = zr_part_records(r->corpus, r->part);
    int64_t count = zr_records_count(records), kept = holds ? count - count / 10 : count;
    zr_record *record = zr_alloc(sizeof *record, error);
    zero_status status = record ? ZERO_OK : ZERO_ERR_MEMORY;
    bool more = true;
    for (int64_t n = 0; status == ZERO_OK; n++) {
        if (n == kept)
            r->part->split = r->encoding.ids.count;
        if ((status = zr_records_next(&records, record, &more, error)) != ZERO_OK || !more)
            break;
        status = zr_encoding_add(&r->encoding, &record->document, record->name, error);
        if (status == ZERO_OK && record->ends)
            status = zr_encoding_end(&r->encoding, true, record->name, error);
        if (n % RECORDS_AT_ONCE == 0)
            zr_corpus_beat(r->corpus, r->part->name, records.at, records.length);
    }
    if (record)
        zr_document_free(&record->document);
    zr_free(record);
    return status == ZERO_OK ? refuse_untrained(r, error) : status;
}

static zero_status check_tokens(const zr_corpus *corpus, zr_part *part, const zr_reading *reading, bool holds, zero_error *error)
{
    const zr_token_file *file = &part->tokens;
    ZERO_TRY(zr_token_note_check(file, reading->tokenizer, error));
    int64_t shares = ZR_MAX(reading->shares, 1), first = file->count / shares * reading->share, end = reading->share + 1 >= shares ? file->count : first + file->count / shares;
    for (int64_t at = first, count; at < end; at += count) {
        count = ZR_MIN((int64_t)TOKENS_AT_ONCE, end - at);
        ZERO_TRY(zr_token_file_check(file, at, count, reading->vocabulary, error));
        zr_corpus_beat(corpus, part->name, (size_t)(at + count - first), (size_t)(end - first));
    }
    part->count = file->count;
    part->split = holds ? part->count - part->count / 10 : part->count;
    return ZERO_OK;
}

static zero_status read_part(const zr_corpus *corpus, zr_part *part, const zr_reading *reading, bool holds, zero_error *error)
{
    reader r = {.corpus = corpus, .part = part};
    if (part->kind == ZR_SOURCE_TOKENS)
        return check_tokens(corpus, part, reading, holds, error);
    zero_status status = zr_encoding_begin(reading->tokenizer, &r.encoding, error);
    if (status == ZERO_OK)
        status = part->kind == ZR_SOURCE_TEXT ? read_text(&r, reading->threads, holds, error) : read_records(&r, holds, error);
    if (status == ZERO_OK && r.encoding.ids.count < r.encoding.ids.capacity) {
        int32_t *smaller = zr_realloc(r.encoding.ids.at, (size_t)ZR_MAX(r.encoding.ids.count, (int64_t)1) * sizeof *smaller, error);
        r.encoding.ids.at = smaller ? smaller : r.encoding.ids.at;
        status = smaller ? ZERO_OK : ZERO_ERR_MEMORY;
    }
    if (status == ZERO_OK) {
        part->ids = r.encoding.ids.at;
        part->count = r.encoding.ids.count;
        r.encoding.ids = (zr_ids){0};
    }
    zr_encoding_free(&r.encoding);
    return status;
}

// Tokens [first, end) of a part.
static zero_status add_span(const zr_part *part, int64_t first, int64_t end, zr_stream *out, zero_error *error)
{
    const zr_token_span span = {.count = end - first, .tokens = part->ids ? part->ids + first : NULL, .file = part->ids ? NULL : &part->tokens, .at = first, .name = part->name};
    return zr_stream_add(out, &span, error);
}

typedef enum which { ALL, KEPT, HELD } which;

static zero_status fill(const zr_corpus *corpus, int number, which what, zr_stream *out, zero_error *error)
{
    out->name = corpus->sources[number].written;
    for (int i = 0; i < corpus->part_count; i++) {
        const zr_part *part = &corpus->parts[i];
        if (part->stream == number)
            ZERO_TRY(add_span(part, what == HELD ? part->split : 0, what == KEPT ? part->split : part->count, out, error));
    }
    return ZERO_OK;
}

static zero_status check_length(const zr_stream *stream, const char *name, int64_t seq, zero_error *error)
{
    if (stream->count >= seq + 1)
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_DATA, "%s: %lld tokens, fewer than the %lld of one window (%lld and the last one's target)", name, (long long)stream->count,
                   (long long)seq + 1, (long long)seq);
}

static zero_status create(const zr_corpus *corpus, int64_t seq, zr_dataset *out, zero_error *error)
{
    *out = (zr_dataset){.seq = seq, .stream_count = corpus->stream_count};
    out->streams = zr_alloc((size_t)corpus->stream_count * sizeof *out->streams, error);
    out->weights = out->streams ? zr_alloc((size_t)corpus->stream_count * sizeof *out->weights, error) : NULL;
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

// What is held out of a stream counts where it is a window at least; else all of the stream is trained on.
static zero_status make_streams(const zr_corpus *corpus, int64_t seq, zr_dataset *train, zr_dataset *held, zero_error *error)
{
    for (int i = 0; i < corpus->stream_count; i++) {
        bool holds = held != NULL;
        if (holds) {
            ZERO_TRY(fill(corpus, i, HELD, &held->streams[i], error));
            holds = held->streams[i].count >= seq + 1;
            held->streams[i].count = holds ? held->streams[i].count : 0;
            held->count += held->streams[i].count;
        }
        ZERO_TRY(fill(corpus, i, holds ? KEPT : ALL, &train->streams[i], error));
        ZERO_TRY(check_length(&train->streams[i], corpus->sources[i].paths[0], seq, error));
        train->weights[i] = corpus->sources[i].weight;
        train->count += train->streams[i].count;
        train->masked += count_masked(&train->streams[i]);
    }
    return ZERO_OK;
}

zero_status zr_corpus_read(zr_corpus *corpus, const zr_reading *reading, zr_dataset *train, zr_dataset *held, zero_error *error)
{
    *train = (zr_dataset){0};
    if (held)
        *held = (zr_dataset){0};
    if (reading->seq < 1)
        return zr_fail(error, ZERO_ERR_USAGE, "%s: windows of %lld tokens, where at least 1 is needed", zr_corpus_name(corpus), (long long)reading->seq);
    for (int i = 0; i < corpus->part_count; i++) {
        zero_status status = corpus->parts[i].count ? ZERO_OK : read_part(corpus, &corpus->parts[i], reading, held != NULL, error);
        zr_text_free(&corpus->parts[i].text); // its tokens are there
        zr_file_unmap(&corpus->parts[i].records);
        ZERO_TRY(status);
    }
    zero_status status = create(corpus, reading->seq, train, error);
    if (status == ZERO_OK && held)
        status = create(corpus, reading->seq, held, error);
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

static void mark(const char *text, size_t length, unsigned char *seen)
{
    int32_t c;
    for (size_t at = 0; at < length;) {
        int bytes = zr_utf8_next(text + at, length - at, &c);
        if (bytes)
            seen[c] = 1;
        at += bytes ? (size_t)bytes : 1;
    }
}

static zero_status mark_records(const zr_corpus *corpus, const zr_part *part, unsigned char *seen, zero_error *error)
{
    zr_records records = zr_part_records(corpus, part);
    zr_record *record = zr_alloc(sizeof *record, error);
    zero_status status = record ? ZERO_OK : ZERO_ERR_MEMORY;
    for (bool more = true; status == ZERO_OK && more;) {
        status = zr_records_next(&records, record, &more, error);
        if (status == ZERO_OK && more)
            mark(record->document.text.data, record->document.text.length, seen);
    }
    if (record)
        zr_document_free(&record->document);
    zr_free(record);
    seen['\n'] = 1; // what ends a record
    return status;
}

// A tokenizer of the part's own says what is wrong with its text.
static zero_status mark_text(const zr_part *part, unsigned char *seen, zero_error *error)
{
    zr_tokenizer *own;
    ZERO_TRY(zr_tokenizer_create(ZR_TOKENIZER_CHARS, part->text.data, part->text.length, part->name, &own, error));
    zr_tokenizer_destroy(own);
    mark(part->text.data, part->text.length, seen);
    return ZERO_OK;
}

static zero_status create_from(const unsigned char *seen, const char *name, zr_tokenizer **out, zero_error *error)
{
    zr_buffer text = {0};
    for (int32_t c = 1; c < ZR_CODE_POINTS; c++) {
        utf8proc_uint8_t bytes[4];
        if (seen[c])
            zr_buffer_append(&text, bytes, (size_t)utf8proc_encode_char(c, bytes));
    }
    zero_status status = text.failed ? zr_fail(error, ZERO_ERR_MEMORY, "%s: no memory for its characters", name)
                                     : zr_tokenizer_create(ZR_TOKENIZER_CHARS, text.data ? text.data : "", text.length, name, out, error);
    zr_buffer_free(&text);
    return status;
}

zero_status zr_corpus_characters(const zr_corpus *corpus, zr_tokenizer **out, zero_error *error)
{
    unsigned char *seen = zr_alloc(ZR_CODE_POINTS, error);
    zero_status status = seen ? ZERO_OK : ZERO_ERR_MEMORY;
    for (int i = 0; i < corpus->part_count && status == ZERO_OK; i++) {
        const zr_part *part = &corpus->parts[i];
        if (part->kind == ZR_SOURCE_TOKENS)
            status = zr_fail(error, ZERO_ERR_USAGE, "\"%s\" holds tokens: the tokenizer \"chars\" is made of the characters of a text", part->name);
        else
            status = part->kind == ZR_SOURCE_TEXT ? mark_text(part, seen, error) : mark_records(corpus, part, seen, error);
    }
    if (status == ZERO_OK)
        status = create_from(seen, zr_corpus_name(corpus), out, error);
    zr_free(seen);
    return status;
}
