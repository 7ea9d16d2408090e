// What an argument of --data names: [KIND:]PATH[:WEIGHT].
//
//   a.txt   shard-*.jsonl   jsonl:answers   corpus.bin:0.3   tokens:train.dat:2
//
// KIND is text, jsonl, tokens (any format of token_file.h), llmc, nanogpt or megatron; without it
// the name's end (.jsonl, .ndjson, .json;
// .bin, .idx) and the magic of llm.c decide, else it is text. WEIGHT is a number after the last
// colon. PATH may hold *, ? and [...]:
// the files they match, in the order of their bytes. A file that has just the name that was written
// is that file: it wins over all of this.
#ifndef ZR_CORPUS_DATA_SOURCE_H
#define ZR_CORPUS_DATA_SOURCE_H

#include "tokens/token_file.h"

typedef enum zr_data_kind { ZR_DATA_TEXT, ZR_DATA_JSONL, ZR_DATA_TOKENS } zr_data_kind;

typedef struct zr_data_source {
    char *written;          // the argument
    double weight;          // 0: none was given
    bool named;             // the kind was given
    zr_data_kind kind;      // where it was
    zr_token_format format; // of tokens
    char **paths;           // (path_count), at least one
    int path_count;
} zr_data_source;

// Looks at names alone: files need not be there. ZERO_ERR_USAGE: a weight that is not above 0, a
// pattern that matches nothing.
zero_status zr_data_source_parse(const char *written, zr_data_source *out, zero_error *error);
void zr_data_source_free(zr_data_source *source);
// Of one of its files. What cannot be read is text: opening it says why.
zr_data_kind zr_data_source_kind_of(const zr_data_source *source, const char *path);

#endif
