// The inside of a corpus, shared by the files that open it and read it.
#ifndef ZR_DATA_CORPUS_INTERNAL_H
#define ZR_DATA_CORPUS_INTERNAL_H

#include "data/corpus.h"
#include "data/data_source.h"
#include "data/jsonl_records.h"
#include "data/text.h"
#include "tokenizer/document.h"

// What is known of a part once it is read. The ids of text and records are ~id where they are no
// targets.
typedef struct zr_part_facts {
    int64_t empty, plain; // records without text, and turns written without a chat template
    int64_t shortened;    // texts with labels that are longer than a window
    int64_t count, split; // number of tokens; where the held-out part begins
    int64_t masked[2];    // tokens that are no targets, before the split and from there on
    int64_t spilled_at;   // byte of the spill at which its ids begin
    // Number of records, and the byte of the spill at which their list (records_at) begins; 0: they
    // are not in it.
    int64_t records, records_spilled_at;
} zr_part_facts;

typedef enum zr_answer { // of a document of preferences
    ZR_ANSWER_NONE,
    ZR_ANSWER_CHOSEN,
    ZR_ANSWER_REJECTED, // of a record that has no other
    ZR_ANSWER_SECOND,   // the rejected one of a pair, after its chosen one
} zr_answer;

// Of preferences, records_at has for each document where it begins and what it is, in one number,
// so that both go where the list goes.
static inline int64_t zr_answer_place(int64_t begins, zr_answer answer)
{
    return begins << 2 | (int64_t)answer;
}
static inline int64_t zr_answer_begins(int64_t place) { return place >> 2; }
static inline zr_answer zr_answer_of(int64_t place) { return (zr_answer)(place & 3); }

typedef struct zr_part { // files that are read as one
    zr_data_kind kind;
    const char *name;   // name of its first file
    const char **paths; // (files) paths of text files
    size_t *ends;       // (files) end of each one, if they were joined
    bool *as_is;        // (files) whether any bytes are accepted ("text:PATH")
    int files;
    bool unopened; // its files have not been looked into
    int stream;
    int64_t bytes;          // bytes of its files
    zr_mapped_file records; // mapped JSONL file
    zr_token_file tokens;
    int32_t *ids;         // once read: tokens of text and records; NULL: they are in the spill
    zr_buffer records_at; // once read: where in `ids` each record begins (int64_t); also if that
                          // is in the spill, empty
    zr_part_facts facts;  // once read
} zr_part;

struct zr_corpus {
    zr_corpus_options options;
    zr_record_map map;       // of options.field, if it is given
    zr_data_source *sources; // (source_count)
    int source_count;
    zr_part *parts; // (part_count)
    int part_count, part_capacity;
    int stream_count; // 1; source_count if they have weights
    zr_spill *spill;  // ids that are too many for memory; NULL while they are not
    int64_t kept;     // ids in memory
};

// corpus.c. Looks into the files of a part, unless that was done.
zero_status zr_part_open(const zr_corpus *corpus, zr_part *part, zero_error *error);
// corpus_part.c. Fills ids and facts of one part; with `holds` the last tenth begins at the split.
zero_status zr_part_read(zr_corpus *corpus, zr_part *part, const zr_reading *reading, bool holds,
                         zero_error *error);
static inline int64_t zr_kept_bytes(const zr_reading *reading)
{
    return reading->kept_bytes ? reading->kept_bytes : ZR_SPILL_BEYOND;
}

// Calls `use` for every record of a part that has text; its number also counts records without
// text. `before` bytes of `total` were read before.
typedef zero_status (*zr_use_record)(void *user, zr_text_record *record, int64_t number,
                                     zero_error *error);
zero_status zr_part_each_record(const zr_corpus *corpus, zr_part *part, size_t before, size_t total,
                                zr_use_record use, void *user, zero_error *error);
// corpus_labels.c. Appends the tokens of a text, none of them a target, and its label as the target
// of the last. *shortened: a window of `seq` tokens has no room for all of them.
zero_status zr_labelled_encode(zr_encoding *encoding, const zr_text_record *record,
                               const zr_labels *labels, int64_t seq, bool *shortened,
                               zero_error *error);
// corpus_spill.c. Creates the corpus's spill.
zero_status zr_corpus_spill(zr_corpus *corpus, zero_error *error);
// Reads all parts, together with the other ranks of the machine if reading->sharing says so.
zero_status zr_corpus_read_parts(zr_corpus *corpus, const zr_reading *reading, bool holds,
                                 zero_error *error);
// Reads where records [first, first+count) of a part begin, in its tokens.
void zr_part_record_begins(const zr_corpus *corpus, const zr_part *part, int64_t first,
                           int64_t count, int64_t *out);
// preference_stream.c. Adds the answers in a range of a part to *list. zr_answers_pair then makes
// the stream's examples of those of all parts.
typedef struct zr_answer_tokens { // of a document: tokens of the stream
    int64_t first, count, prompt; // prompt: how many of them come before the answer
    zr_answer answer;
} zr_answer_tokens;
typedef struct zr_answers {
    zr_answer_tokens *at; // (count)
    int count, capacity;
} zr_answers;
typedef struct zr_answer_range { // tokens [first, end) of a part
    const zr_part *part;
    int64_t first, end;
    int64_t begin; // where in the stream the first of them is
} zr_answer_range;
zero_status zr_answers_add(const zr_corpus *corpus, const zr_answer_range *range,
                           const zr_stream *stream, zr_answers *list, zero_error *error);
zero_status zr_answers_pair(const zr_answers *list, zr_preferences preferences, int64_t seq,
                            zr_stream *out, zero_error *error);
void zr_corpus_beat(const zr_corpus *corpus, const char *name, size_t done, size_t total);
// Passes on the text of each record of a part. `before` bytes of `total` were read before.
zero_status zr_part_records_each(const zr_corpus *corpus, zr_part *part, size_t before,
                                 size_t total, zr_take_text take, void *user, zero_error *error);

#endif
