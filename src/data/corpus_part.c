// Turns parts of a corpus into tokens, which are kept for a training, in memory or in the corpus's
// spill, or passed on piece by piece.
//
// Text is read file by file, each mapped while it is read. Files are joined first only if no end
// token can come between two of them, since a token or a character may then cross the border.
#include "base/alloc.h"
#include "data/corpus_internal.h"
#include "tokenizer/vocabulary.h"
#include "data/token_note.h"

#include <string.h>

enum { BYTES_AT_ONCE = 4 << 20, TOKENS_AT_ONCE = 16 << 20 }; // between two signs of life

// The caller closes *out.
static zero_status open_part_records(const zr_corpus *corpus, const zr_part *part, zr_records *out,
                                     zero_error *error)
{
    ZERO_TRY(zr_records_open(part->name, part->records.data, part->records.length, out, error));
    out->map = corpus->options.field ? &corpus->map : NULL;
    out->chat = corpus->options.chat;
    out->preferences = corpus->options.preferences;
    out->classifies = corpus->options.classifies;
    return ZERO_OK;
}

typedef struct reader {
    zr_corpus *corpus;
    zr_part *part;
    zr_encoding encoding;
    zr_encode_threads *pool; // for text
    zr_encode_mode mode;     // for text
    zr_take_ids take;        // NULL to keep the ids
    void *user;
    // Of ids that are kept: the most in memory, of the whole corpus; how many of the part are in
    // the spill, before those of `encoding`; how many of `encoding` have been looked at.
    int64_t most, spilled, seen;
    int64_t documents;
    const zr_labels *labels; // of texts with labels, in windows of `seq` tokens
    int64_t seq;
    size_t before, total; // bytes read before the pool's current text; bytes of everything
    // The mapping of the pool's current text, and up to where its pages have been released.
    const zr_mapped_file *text;
    size_t text_at, released;
} reader;

static int64_t tokens_so_far(const reader *r) { return r->spilled + r->encoding.ids.count; }

// Counts the ids of `encoding` that are no targets, once each. Those of text are all targets.
static void count_masked_ids(reader *r)
{
    const zr_ids *ids = &r->encoding.ids;
    int64_t masked = 0;
    for (int64_t i = r->seen; i < ids->count; i++)
        masked += ids->at[i] < 0;
    r->part->facts.masked[r->part->facts.split >= 0] += masked;
    r->seen = ids->count;
}

// Moves the ids of `encoding` to the spill, if the corpus has one or gets one because they are too
// many.
static zero_status spill_ids(reader *r, zero_error *error)
{
    zr_ids *ids = &r->encoding.ids;
    if (r->take || (!r->corpus->spill && r->corpus->kept + ids->count <= r->most))
        return ZERO_OK;
    if (!r->corpus->spill)
        ZERO_TRY(zr_corpus_spill(r->corpus, error));
    ZERO_TRY(
        zr_spill_append(r->corpus->spill, ids->at, (size_t)ids->count * sizeof *ids->at, error));
    r->spilled += ids->count;
    ids->count = r->seen = 0;
    return ZERO_OK;
}

static zero_status no_room(const reader *r, zero_error *error)
{
    return zr_fail(error, ZERO_ERR_MEMORY, "%s: no memory for more than %lld tokens", r->part->name,
                   (long long)tokens_so_far(r));
}

static zero_status take_ids(void *user, const int32_t *ids, int64_t count, zero_error *error)
{
    reader *r = user;
    if (r->take)
        return r->take(r->user, ids, count, error);
    if (!zr_ids_reserve(&r->encoding.ids, count))
        return no_room(r, error);
    memcpy(r->encoding.ids.at + r->encoding.ids.count, ids, (size_t)count * sizeof *ids);
    r->encoding.ids.count += count;
    r->seen = r->encoding.ids.count;
    return spill_ids(r, error);
}

static void report_taken_bytes(void *user, size_t bytes)
{
    reader *r = user;
    zr_file_release(r->text, r->released, r->text_at + bytes);
    r->released = r->text_at + bytes;
    zr_corpus_beat(r->corpus, r->part->name, r->before + bytes, r->total);
}

// Appends the end of a document. If ids are passed on, it passes on those in `encoding`.
static zero_status end_document(reader *r, bool ends, bool record, const char *name,
                                zero_error *error)
{
    zr_ids *ids = &r->encoding.ids;
    r->documents++;
    if (ends)
        ZERO_TRY(zr_encoding_end(&r->encoding, record, name, error));
    for (int64_t i = 0; i < ids->count && r->take; i++)
        if (ids->at[i] < 0)
            return zr_fail(
                error, ZERO_ERR_UNSUPPORTED,
                "%s: a part of this record is not a target (a prompt, or a user's message), which "
                "a token file cannot express: train on the records themselves",
                name);
    if (!r->take) {
        count_masked_ids(r);
        return spill_ids(r, error);
    }
    ZERO_TRY(r->take(r->user, ids->at, ids->count, error));
    ids->count = 0;
    return ZERO_OK;
}

// ---- text ---------------------------------------------------------------------------------------

static zero_status encode_bytes(reader *r, const char *name, size_t first, size_t end,
                                zero_error *error)
{
    r->text_at = r->released = first;
    if (first < end)
        ZERO_TRY(zr_encode_threads_run(r->pool, r->mode, r->text->data + first, end - first, name,
                                       take_ids, report_taken_bytes, r, error));
    r->before += end - first;
    return ZERO_OK;
}

// Encodes a text; from byte `split` on it is held out.
static zero_status encode_text(reader *r, const char *name, const zr_mapped_file *text,
                               size_t split, zero_error *error)
{
    r->text = text;
    ZERO_TRY(encode_bytes(r, name, 0, split, error));
    if (split < text->length && r->part->facts.split < 0)
        r->part->facts.split = tokens_so_far(r);
    ZERO_TRY(encode_bytes(r, name, split, text->length, error));
    return end_document(r, true, false, name, error);
}

static zero_status encode_file(reader *r, int i, size_t split, zero_error *error)
{
    size_t start = i ? r->part->ends[i - 1] : 0;
    zr_mapped_file file;
    ZERO_TRY(zr_text_map(r->part->paths[i], &r->corpus->options.watch, &file, error));
    size_t cut = split <= start ? 0
                 : split - start >= file.length
                     ? file.length
                     : zr_character_cut(file.data, split - start, file.length);
    zero_status status = encode_text(r, r->part->paths[i], &file, cut, error);
    zr_file_unmap(&file);
    return status;
}

static zero_status encode_joined(reader *r, bool holds, zero_error *error)
{
    zr_text text;
    ZERO_TRY(zr_text_load(r->part->paths, r->part->files, &r->corpus->options.watch, &text, error));
    const zr_mapped_file all = {
        .data = text.data, .length = text.length, .on_disk = text.mapped.on_disk};
    zero_status status =
        encode_text(r, r->part->name, &all, holds ? zr_text_split(&text) : text.length, error);
    zr_text_free(&text);
    return status;
}

static zero_status read_part_text(reader *r, int threads, bool holds, zero_error *error)
{
    const zr_tokenizer *tokenizer = r->encoding.tokenizer;
    zr_tokenizer_kind kind = zr_tokenizer_kind_of(tokenizer);
    size_t length = r->part->ends[r->part->files - 1],
           split = holds ? zr_text_nine_tenths(length) : length;
    bool apart =
        r->part->files == 1 || kind == ZR_TOKENIZER_BYTES || zr_tokenizer_end(tokenizer) >= 0;
    bool known = kind != ZR_TOKENIZER_BPE && !r->take && !r->corpus->spill &&
                 (int64_t)length <= r->most - r->corpus->kept; // a byte or more a token
    if (known && !zr_ids_reserve(&r->encoding.ids, (int64_t)length))
        return zr_fail(error, ZERO_ERR_MEMORY, "%s: no memory for its %zu tokens", r->part->name,
                       length);
    ZERO_TRY(zr_encode_threads_create(tokenizer, threads, &r->pool, error));
    r->part->facts.split = -1;
    zero_status status = apart ? ZERO_OK : encode_joined(r, holds, error);
    for (int i = 0; i < r->part->files && apart && status == ZERO_OK; i++)
        status = encode_file(r, i, split, error);
    zr_encode_threads_destroy(r->pool);
    if (r->part->facts.split < 0)
        r->part->facts.split = tokens_so_far(r);
    return status;
}

// ---- records ------------------------------------------------------------------------------------

static zero_status count_records(const reader *r, int64_t *count, zero_error *error)
{
    zr_records records;
    ZERO_TRY(open_part_records(r->corpus, r->part, &records, error));
    for (size_t at = 0; records.split.at < records.split.length; at = records.split.at) {
        *count += zr_records_skip(&records, BYTES_AT_ONCE);
        if (!records.rows)
            zr_file_release(&r->part->records, at, records.split.at);
        zr_corpus_beat(r->corpus, r->part->name, records.split.at, records.split.length);
    }
    zr_records_close(&records);
    return ZERO_OK;
}

static zero_status refuse_untrained(const reader *r, zero_error *error)
{
    const int64_t *masked = r->part->facts.masked;
    return r->take || masked[0] + masked[1] < tokens_so_far(r)
               ? ZERO_OK
               : zr_fail(error, ZERO_ERR_DATA,
                         "\"%s\": no record has anything to train on: no text, completion or "
                         "message of the assistant",
                         r->part->name);
}

zero_status zr_part_each_record(const zr_corpus *corpus, zr_part *part, size_t before, size_t total,
                                zr_use_record use, void *user, zero_error *error)
{
    zr_records records;
    ZERO_TRY(open_part_records(corpus, part, &records, error));
    zr_text_record *record = zr_alloc(sizeof *record, error);
    zero_status status = record ? ZERO_OK : ZERO_ERR_MEMORY;
    bool more = true;
    size_t told = 0;
    while (status == ZERO_OK) {
        if ((status = zr_records_next(&records, record, &more, error)) != ZERO_OK || !more)
            break;
        status = use(user, record, records.seen - 1, error);
        if (records.split.at - told < BYTES_AT_ONCE)
            continue;
        // Columns of Parquet are read at several places of the file.
        zr_file_release(&part->records, records.rows ? 0 : told,
                        records.rows ? part->records.length : records.split.at);
        told = records.split.at;
        zr_corpus_beat(corpus, part->name, before + told, total);
    }
    part->facts.empty = records.empty;
    part->facts.plain = records.plain;
    zr_records_close(&records);
    if (record)
        zr_text_record_free(record);
    zr_free(record);
    return status;
}

typedef struct splitting { // records that are being encoded
    reader *r;
    int64_t kept; // how many are trained on, with or without text
} splitting;

// Encodes a document of a record. role: of preferences, else ZR_ANSWER_NONE. An answer that is
// written with its end token gets no second one, as in trl.
static zero_status encode_document(reader *r, const zr_text_record *record,
                                   const zr_document *document, zr_answer role, zero_error *error)
{
    const zr_ids *ids = &r->encoding.ids;
    const int64_t begins = role ? zr_answer_place(tokens_so_far(r), role) : tokens_so_far(r);
    if (!r->take)
        zr_buffer_append(&r->part->records_at, &begins, sizeof begins);
    ZERO_TRY(zr_encoding_add(&r->encoding, document, record->name, error));
    bool ended =
        role && ids->count && ids->at[ids->count - 1] == zr_tokenizer_end(r->encoding.tokenizer);
    return end_document(r, record->ends && !ended, true, record->name, error);
}

// Encodes a text with its label.
static zero_status encode_labelled(reader *r, const zr_text_record *record, zero_error *error)
{
    const int64_t begins = tokens_so_far(r);
    bool shortened;
    zr_buffer_append(&r->part->records_at, &begins, sizeof begins);
    ZERO_TRY(zr_labelled_encode(&r->encoding, record, r->labels, r->seq, &shortened, error));
    r->part->facts.shortened += shortened;
    return end_document(r, false, true, record->name, error);
}

static zero_status encode_record(void *user, zr_text_record *record, int64_t number,
                                 zero_error *error)
{
    const splitting *s = user;
    reader *r = s->r;
    if (number >= s->kept && r->part->facts.split < 0)
        r->part->facts.split = tokens_so_far(r);
    if (r->labels)
        return encode_labelled(r, record, error);
    ZERO_TRY(encode_document(r, record, &record->document,
                             !r->corpus->options.preferences ? ZR_ANSWER_NONE
                             : record->unwanted              ? ZR_ANSWER_REJECTED
                                                             : ZR_ANSWER_CHOSEN,
                             error));
    return record->pair ? encode_document(r, record, &record->rejected, ZR_ANSWER_SECOND, error)
                        : ZERO_OK;
}

// Reads the records; the last tenth of them is held out.
static zero_status read_records(reader *r, bool holds, zero_error *error)
{
    int64_t count = 0;
    if (holds)
        ZERO_TRY(count_records(r, &count, error));
    splitting s = {.r = r, .kept = holds ? count - count / 10 : INT64_MAX};
    r->part->facts.split = -1;
    ZERO_TRY(
        zr_part_each_record(r->corpus, r->part, r->before, r->total, encode_record, &s, error));
    if (r->part->records_at.failed)
        return zr_fail(error, ZERO_ERR_MEMORY, "%s: no memory for the list of its records",
                       r->part->name);
    r->before += r->part->records.length;
    if (r->part->facts.split < 0)
        r->part->facts.split = tokens_so_far(r);
    return refuse_untrained(r, error);
}

// ---- token files --------------------------------------------------------------------------------

static zero_status check_tokens(const zr_corpus *corpus, zr_part *part, const zr_reading *reading,
                                bool holds, zero_error *error)
{
    const zr_token_file *file = &part->tokens;
    if (reading->tokenizer)
        ZERO_TRY(zr_token_note_check(file, reading->tokenizer, error));
    int64_t shares = ZR_MAX(reading->shares, 1), first = file->count / shares * reading->share,
            end = reading->share + 1 >= shares ? file->count : first + file->count / shares;
    for (int64_t at = first, count; at < end; at += count) {
        count = ZR_MIN((int64_t)TOKENS_AT_ONCE, end - at);
        ZERO_TRY(zr_token_file_check(file, at, count, reading->vocabulary, error));
        zr_corpus_beat(corpus, part->name, (size_t)(at + count - first), (size_t)(end - first));
    }
    if (reading->tokenizer)
        zr_token_file_end_documents(&part->tokens, zr_tokenizer_end(reading->tokenizer));
    part->facts.count = file->count;
    part->facts.split = holds ? file->count - file->count / 10 : file->count;
    return ZERO_OK;
}

// ---- all kinds ----------------------------------------------------------------------------------

// Ends a part whose ids are in the spill: the list of its records follows them there.
static zero_status keep_in_spill(reader *r, zero_error *error)
{
    zr_buffer *begins = &r->part->records_at;
    if (r->part->facts.records) {
        r->part->facts.records_spilled_at = zr_spill_bytes(r->corpus->spill);
        ZERO_TRY(zr_spill_append(r->corpus->spill, begins->data, begins->length, error));
    }
    zr_buffer_free(begins);
    return ZERO_OK;
}

// Moves the ids to the part, and gives back the memory that they do not need.
static zero_status keep_ids(reader *r, zero_error *error)
{
    zr_ids *ids = &r->encoding.ids;
    r->part->facts.count = tokens_so_far(r);
    r->part->facts.records = (int64_t)(r->part->records_at.length / sizeof(int64_t));
    if (r->corpus->spill)
        return keep_in_spill(r, error);
    int32_t *smaller =
        ids->count < ids->capacity
            ? zr_realloc(ids->at, (size_t)ZR_MAX(ids->count, (int64_t)1) * sizeof *smaller, error)
            : ids->at;
    if (!smaller)
        return ids->count < ids->capacity ? ZERO_ERR_MEMORY : ZERO_OK;
    r->part->ids = smaller;
    r->corpus->kept += ids->count;
    *ids = (zr_ids){0};
    return ZERO_OK;
}

zero_status zr_part_read(zr_corpus *corpus, zr_part *part, const zr_reading *reading, bool holds,
                         zero_error *error)
{
    reader r = {.corpus = corpus,
                .part = part,
                .mode = ZR_ENCODE_TEXT,
                .most = zr_kept_bytes(reading) / (int64_t)sizeof(int32_t),
                .labels = reading->labels,
                .seq = reading->seq,
                .total = (size_t)part->bytes};
    part->facts = (zr_part_facts){0};
    if (part->kind == ZR_DATA_TOKENS)
        return check_tokens(corpus, part, reading, holds, error);
    part->facts.spilled_at = corpus->spill ? zr_spill_bytes(corpus->spill) : 0;
    zero_status status = zr_encoding_begin(reading->tokenizer, &r.encoding, error);
    if (status == ZERO_OK)
        status = part->kind == ZR_DATA_TEXT ? read_part_text(&r, reading->threads, holds, error)
                                            : read_records(&r, holds, error);
    if (status == ZERO_OK)
        status = keep_ids(&r, error);
    zr_encoding_free(&r.encoding);
    return status;
}

// Refuses weights, which only training uses, and token files, which have no text to encode.
static zero_status check_texts(const zr_corpus *corpus, zero_error *error)
{
    for (int i = 0; i < corpus->source_count; i++)
        if (corpus->sources[i].weight > 0)
            return zr_fail(error, ZERO_ERR_USAGE, "\"%s\" has a weight, which only zero train uses",
                           corpus->sources[i].written);
    for (int i = 0; i < corpus->part_count; i++)
        if (corpus->parts[i].kind == ZR_DATA_TOKENS)
            return zr_fail(error, ZERO_ERR_DATA,
                           "\"%s\" holds tokens already, where text or JSON is needed (text:PATH "
                           "is read as text under any name)",
                           corpus->parts[i].name);
    return ZERO_OK;
}

zero_status zr_corpus_write(zr_corpus *corpus, const zr_reading *reading, zr_encode_mode mode,
                            zr_take_ids take, void *user, int64_t *documents, zero_error *error)
{
    reader r = {.corpus = corpus,
                .mode = mode,
                .take = take,
                .user = user,
                .total = (size_t)zr_corpus_bytes(corpus)};
    ZERO_TRY(check_texts(corpus, error));
    zero_status status = zr_encoding_begin(reading->tokenizer, &r.encoding, error);
    for (int i = 0; i < corpus->part_count && status == ZERO_OK; i++) {
        r.part = &corpus->parts[i];
        status = r.part->kind == ZR_DATA_TEXT ? read_part_text(&r, reading->threads, false, error)
                                              : read_records(&r, false, error);
    }
    *documents = r.documents;
    zr_encoding_free(&r.encoding);
    return status;
}

typedef struct taking { // the function that gets each record's text
    zr_take_text take;
    void *user;
} taking;

static zero_status pass_record_text(void *user, zr_text_record *record, int64_t number,
                                    zero_error *error)
{
    const taking *t = user;
    const zr_buffer *text = &record->document.text;
    return text->failed
               ? zr_fail(error, ZERO_ERR_MEMORY, "%s: no memory for its text", record->name)
               : t->take(t->user, text->data, text->length, error);
}

zero_status zr_part_records_each(const zr_corpus *corpus, zr_part *part, size_t before,
                                 size_t total, zr_take_text take, void *user, zero_error *error)
{
    taking t = {.take = take, .user = user};
    return zr_part_each_record(corpus, part, before, total, pass_record_text, &t, error);
}

static zero_status take_files(const zr_corpus *corpus, const zr_part *part, size_t before,
                              size_t total, zr_take_text take, void *user, zero_error *error)
{
    for (int i = 0; i < part->files; i++) {
        zr_mapped_file file;
        ZERO_TRY(zr_text_map(part->paths[i], &corpus->options.watch, &file, error));
        zero_status status = take(user, file.data, file.length, error);
        zr_file_unmap(&file);
        ZERO_TRY(status);
        zr_corpus_beat(corpus, part->paths[i], before + part->ends[i], total);
    }
    return ZERO_OK;
}

zero_status zr_corpus_each_text(zr_corpus *corpus, zr_take_text take, void *user, zero_error *error)
{
    size_t before = 0, total = (size_t)zr_corpus_bytes(corpus);
    ZERO_TRY(check_texts(corpus, error));
    for (int i = 0; i < corpus->part_count; i++) {
        zr_part *part = &corpus->parts[i];
        ZERO_TRY(part->kind == ZR_DATA_TEXT
                     ? take_files(corpus, part, before, total, take, user, error)
                     : zr_part_records_each(corpus, part, before, total, take, user, error));
        before += (size_t)part->bytes;
    }
    return ZERO_OK;
}
