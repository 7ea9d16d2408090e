// Turns the tokens of a corpus into streams, to train on and held out, and its characters into the
// tokenizer "chars".
#include "base/alloc.h"
#include "data/corpus_internal.h"
#include "tokenizer/vocabulary.h"

#include <utf8proc.h>

// Returns tokens [first, end) of a part.
static zr_token_span span_of(const zr_corpus *corpus, const zr_part *part, int64_t first,
                             int64_t end)
{
    zr_token_span span = {.count = end - first, .at = first, .name = part->name};
    if (part->kind == ZR_DATA_TOKENS)
        span.file = &part->tokens;
    else if (part->ids)
        span.tokens = part->ids + first;
    else
        span.spill = corpus->spill;
    if (span.spill)
        span.at += part->facts.spilled_at / (int64_t)sizeof(int32_t);
    return span;
}

typedef enum which { ALL, KEPT, HELD } which;

enum { RECORDS_AT_ONCE = 512 };

static zero_status add_part_spans(const zr_corpus *corpus, int number, which what, zr_stream *out,
                                  zero_error *error)
{
    out->name = corpus->sources[number].written;
    for (int i = 0; i < corpus->part_count; i++) {
        const zr_part *part = &corpus->parts[i];
        const zr_token_span span = span_of(corpus, part, what == HELD ? part->facts.split : 0,
                                           what == KEPT ? part->facts.split : part->facts.count);
        if (part->stream == number)
            ZERO_TRY(zr_stream_add(out, &span, error));
    }
    return ZERO_OK;
}

// Returns how many tokens of a part are no targets.
static int64_t masked_of(const zr_part *part, which what)
{
    return (what == HELD ? 0 : part->facts.masked[0]) + (what == KEPT ? 0 : part->facts.masked[1]);
}

// Returns whether a stream is packed.
static bool wants_packing(const zr_corpus *corpus, int number, zr_pack pack)
{
    bool masked = pack == ZR_PACK_ALL || corpus->options.preferences || corpus->options.classifies;
    for (int i = 0; i < corpus->part_count && pack == ZR_PACK_MASKED && !masked; i++)
        masked = corpus->parts[i].stream == number && masked_of(&corpus->parts[i], ALL) > 0;
    return masked;
}

typedef struct example_list { // of a part, as it becomes examples of a stream
    const zr_corpus *corpus;
    const zr_part *part;
    int64_t first, end; // tokens of the part that are in the stream
    int64_t offset;     // how much further they lie in the stream
    int64_t seq;
    zr_stream *out;
} example_list;

// Returns whether any of tokens [first, end) is no target.
static bool is_masked(const example_list *list, int64_t first, int64_t end)
{
    const zr_token_span span = span_of(list->corpus, list->part, first, end);
    return masked_of(list->part, ALL) > 0 &&
           zr_token_span_find(&span, 0, span.count, false) < span.count;
}

// Adds tokens [first, end) of a part as one example; or as several that fill windows if all of them
// are trained: text is cut, a conversation is not.
static zero_status add_example(const example_list *list, int64_t first, int64_t end,
                               zero_error *error)
{
    int64_t seq = list->seq, step = is_masked(list, first, end) ? ZR_MAX(end - first, 1) : seq;
    for (int64_t at = first; at + 1 < end; at += step)
        ZERO_TRY(zr_stream_add_example(list->out, at + list->offset,
                                       step == seq ? ZR_MIN(seq + 1, end - at) : end - at, error));
    return ZERO_OK;
}

// Adds the examples of a part: its records, or all of it as one.
static zero_status add_part_examples(const example_list *list, zero_error *error)
{
    const zr_part_facts *facts = &list->part->facts;
    int64_t begins[RECORDS_AT_ONCE + 1];
    if (!facts->records)
        return add_example(list, list->first, list->end, error);
    for (int64_t i = 0, count; i < facts->records; i += count) {
        count = ZR_MIN(facts->records - i, (int64_t)RECORDS_AT_ONCE);
        bool last = i + count == facts->records;
        begins[count] = facts->count;
        zr_part_record_begins(list->corpus, list->part, i, last ? count : count + 1, begins);
        for (int64_t k = 0; k < count; k++)
            if (begins[k] >= list->first && begins[k + 1] <= list->end)
                ZERO_TRY(add_example(list, begins[k], begins[k + 1], error));
    }
    return ZERO_OK;
}

// Makes pairs of a stream whose spans have been added.
static zero_status pair_stream(const zr_corpus *corpus, int number, which what, int64_t seq,
                               zr_stream *out, zero_error *error)
{
    zr_answers list = {0};
    zero_status status = ZERO_OK;
    int64_t begin = 0;
    for (int i = 0; i < corpus->part_count && status == ZERO_OK; i++) {
        const zr_part *part = &corpus->parts[i];
        const zr_answer_range range = {
            .part = part,
            .first = what == HELD ? part->facts.split : 0,
            .end = what == KEPT ? part->facts.split : part->facts.count,
            .begin = begin,
        };
        if (part->stream != number)
            continue;
        status = zr_answers_add(corpus, &range, out, &list, error);
        begin += range.end - range.first;
    }
    if (status == ZERO_OK)
        status = zr_answers_pair(&list, corpus->options.preferences, seq, out, error);
    zr_free(list.at);
    return status;
}

// Packs a stream whose spans have been added.
static zero_status pack_stream(const zr_corpus *corpus, int number, which what, int64_t seq,
                               zr_stream *out, zero_error *error)
{
    int64_t begin = 0;
    if (corpus->options.preferences)
        return pair_stream(corpus, number, what, seq, out, error);
    for (int i = 0; i < corpus->part_count; i++) {
        const zr_part *part = &corpus->parts[i];
        int64_t first = what == HELD ? part->facts.split : 0,
                end = what == KEPT ? part->facts.split : part->facts.count;
        if (part->stream != number)
            continue;
        const example_list list = {.corpus = corpus,
                                   .part = part,
                                   .first = first,
                                   .end = end,
                                   .offset = begin - first,
                                   .seq = seq,
                                   .out = out};
        ZERO_TRY(add_part_examples(&list, error));
        begin += end - first;
    }
    return zr_stream_pack(out, seq, error);
}

static zero_status check_length(const zr_stream *stream, const char *name, int64_t seq,
                                zero_error *error)
{
    if (stream->marks)
        return zr_fail(
            error, ZERO_ERR_DATA,
            "%s: no two answers with their prompts of which a part of both fits a window "
            "of %lld tokens (--seq)",
            name, (long long)seq);
    if (stream->examples)
        return zr_fail(error, ZERO_ERR_DATA, "%s: no example of two tokens or more", name);
    return zr_fail(
        error, ZERO_ERR_DATA,
        "%s: %lld tokens, fewer than the %lld of one window (%lld and the last one's target)", name,
        (long long)stream->count, (long long)seq + 1, (long long)seq);
}

static zero_status allocate_streams(const zr_corpus *corpus, int64_t seq, zr_dataset *out,
                                    zero_error *error)
{
    *out = (zr_dataset){.seq = seq,
                        .stream_count = corpus->stream_count,
                        .preferences = corpus->options.preferences,
                        .prompt_loss = corpus->options.prompt_loss};
    out->streams = zr_alloc((size_t)corpus->stream_count * sizeof *out->streams, error);
    out->weights =
        out->streams ? zr_alloc((size_t)corpus->stream_count * sizeof *out->weights, error) : NULL;
    if (!out->streams)
        out->stream_count = 0;
    return out->weights ? ZERO_OK : ZERO_ERR_MEMORY;
}

static int64_t count_masked(const zr_corpus *corpus, int number, which what)
{
    int64_t masked = 0;
    for (int i = 0; i < corpus->part_count; i++)
        if (corpus->parts[i].stream == number)
            masked += masked_of(&corpus->parts[i], what);
    return masked;
}

// Makes the spans of a stream and, if it is packed, its windows.
static zero_status make_stream(const zr_corpus *corpus, int number, which what, int64_t seq,
                               bool packed, zr_stream *out, zero_error *error)
{
    ZERO_TRY(add_part_spans(corpus, number, what, out, error));
    return packed ? pack_stream(corpus, number, what, seq, out, error) : ZERO_OK;
}

static bool has_window(const zr_stream *stream, int64_t seq)
{
    return stream->examples || stream->marks ? stream->packing.windows > 0
                                             : stream->count >= seq + 1;
}

// Makes the held-out part of a stream; false if it has no window, and is not used.
static zero_status make_held(const zr_corpus *corpus, int number, int64_t seq, bool packed,
                             zr_dataset *held, bool *holds, zero_error *error)
{
    zr_stream *stream = &held->streams[number];
    ZERO_TRY(make_stream(corpus, number, HELD, seq, packed, stream, error));
    *holds = has_window(stream, seq);
    if (!*holds) {
        stream->count = 0;
        stream->packing.windows = 0;
    }
    held->count += stream->count;
    held->documents = held->documents || packed;
    return ZERO_OK;
}

// The held-out part of a stream is used if it has at least one window; otherwise the whole stream
// is trained on.
static zero_status make_streams(const zr_corpus *corpus, int64_t seq, zr_pack pack,
                                zr_dataset *train, zr_dataset *held, zero_error *error)
{
    for (int i = 0; i < corpus->stream_count; i++) {
        bool holds = false, packed = wants_packing(corpus, i, pack);
        zr_stream *stream = &train->streams[i];
        if (held)
            ZERO_TRY(make_held(corpus, i, seq, packed, held, &holds, error));
        ZERO_TRY(make_stream(corpus, i, holds ? KEPT : ALL, seq, packed, stream, error));
        if (!has_window(stream, seq))
            ZERO_TRY(check_length(stream, corpus->sources[i].paths[0], seq, error));
        train->weights[i] = corpus->sources[i].weight;
        train->count += stream->count;
        train->documents = train->documents || packed;
        int64_t masked = count_masked(corpus, i, holds ? KEPT : ALL);
        train->masked += masked;
        train->bare += masked ? zr_stream_bare_windows(stream, seq) : 0;
    }
    // Where any has positions, all micro-batches have them.
    if (held)
        held->documents = train->documents = held->documents || train->documents;
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
    ZERO_TRY(zr_corpus_read_parts(corpus, reading, held != NULL, error));
    zero_status status = allocate_streams(corpus, reading->seq, train, error);
    if (status == ZERO_OK && held)
        status = allocate_streams(corpus, reading->seq, held, error);
    if (status == ZERO_OK)
        status = make_streams(corpus, reading->seq, reading->pack, train, held, error);
    if (status == ZERO_OK && corpus->spill)
        status = zr_spill_check(corpus->spill, error);
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
static zero_status collect_text_characters(const zr_corpus *corpus, const zr_part *part,
                                           unsigned char *seen, zero_error *error)
{
    zr_text text;
    zr_tokenizer *own;
    ZERO_TRY(zr_text_load(part->paths, part->files, &corpus->options.watch, &text, error));
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
        status = zr_part_open(corpus, part, error);
        if (status == ZERO_OK && part->kind == ZR_DATA_TOKENS)
            status = zr_fail(
                error, ZERO_ERR_USAGE,
                "\"%s\" holds tokens: the tokenizer \"chars\" is made of the characters of a text",
                part->name);
        else if (status == ZERO_OK)
            status = part->kind == ZR_DATA_TEXT
                         ? collect_text_characters(corpus, part, seen, error)
                         : collect_record_characters(corpus, part, seen, error);
    }
    if (status == ZERO_OK)
        status = create_char_tokenizer(seen, zr_corpus_name(corpus), out, error);
    zr_free(seen);
    return status;
}
