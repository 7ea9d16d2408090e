// The inside of a corpus, shared by the files that open it and read it.
#ifndef ZR_DATA_CORPUS_INTERNAL_H
#define ZR_DATA_CORPUS_INTERNAL_H

#include "data/corpus.h"
#include "data/data_source.h"
#include "data/jsonl_records.h"
#include "data/text.h"
#include "tokenizer/document.h"

typedef struct zr_part { // files that are read as one
    zr_data_kind kind;
    const char *name;   // name of its first file
    const char **paths; // (files) paths of text files
    size_t *ends;       // (files) end of each one, if they were joined
    int files;
    int stream;
    int64_t bytes;          // bytes of its files
    zr_mapped_file records; // mapped JSONL file
    zr_token_file tokens;
    // Once read: number of records without text, and of turns written without a chat template.
    int64_t empty, plain;
    int32_t *ids;         // once read: tokens of text and records; ~id if one is not a target
    int64_t count, split; // number of tokens; where the held-out part begins
    zr_buffer records_at; // once read: where in `ids` each record begins (int64_t)
} zr_part;

struct zr_corpus {
    zr_corpus_options options;
    zr_record_map map;       // of options.field, if it is given
    zr_data_source *sources; // (source_count)
    int source_count;
    zr_part *parts; // (part_count)
    int part_count, part_capacity;
    int stream_count; // 1; source_count if they have weights
};

// corpus_part.c. Fills ids, count and split of one part; with `holds` the last tenth begins at
// `split`.
zero_status zr_part_read(const zr_corpus *corpus, zr_part *part, const zr_reading *reading,
                         bool holds, zero_error *error);
void zr_corpus_beat(const zr_corpus *corpus, const char *name, size_t done, size_t total);
// Passes on the text of each record of a part. `before` bytes of `total` were read before.
zero_status zr_part_records_each(const zr_corpus *corpus, zr_part *part, size_t before,
                                 size_t total, zr_take_text take, void *user, zero_error *error);

#endif
