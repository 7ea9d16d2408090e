// An argument of --data: [KIND:]PATH[:WEIGHT].
//
//   a.txt   shard-*.jsonl   jsonl:answers   corpus.bin:0.3   tokens:train.dat:2
//
// KIND is text; jsonl, json or parquet, which are all the same; tokens (any format of
// token_file.h), llmc, nanogpt or megatron. Without a KIND the end of the name (.jsonl, .ndjson,
// .json; .bin, .idx) and the magics of Parquet and llm.c decide; everything else is text. WEIGHT is
// a number after the last colon. PATH may have *, ? and [...], which stand for the files that
// match, in the order of their bytes. If there is a file with exactly the name that was written,
// the argument is that file, and none of this applies.
#ifndef ZR_DATA_DATA_SOURCE_H
#define ZR_DATA_DATA_SOURCE_H

#include "data/token_file.h"

typedef enum zr_data_kind { ZR_DATA_TEXT, ZR_DATA_JSONL, ZR_DATA_TOKENS } zr_data_kind;

typedef struct zr_data_source {
    char *written;          // the argument
    double weight;          // 0 if not given
    bool named;             // the kind was given
    zr_data_kind kind;      // the kind, if given
    zr_token_format format; // format of token files
    char **paths;           // (path_count), at least one
    int path_count;
} zr_data_source;

// Parses an argument. It looks only at names, so the files need not exist. Returns ZERO_ERR_USAGE
// for a weight that is not above 0, and for a pattern that matches nothing.
zero_status zr_data_source_parse(const char *written, zr_data_source *out, zero_error *error);
void zr_data_source_free(zr_data_source *source);
// Checks that the files of all arguments are there, before anything else is done; their content,
// and whether they may be read, is checked when they are opened. Returns ZERO_ERR_IO for the first
// that is not.
zero_status zr_data_sources_are_there(const char *const *arguments, int count, zero_error *error);
// Returns the kind of one of its files. A file that cannot be read counts as text; opening it
// reports the reason.
zr_data_kind zr_data_source_kind_of(const zr_data_source *source, const char *path);

#endif
