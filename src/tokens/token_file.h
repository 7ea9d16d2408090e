// Token files: ids on a disk, mapped and read in place.
//
//   llm.c     256 int32 of header ([0] magic 20240520, [1] version 1, [2] count), then uint16;
//             magic 20240801, version 7: uint32
//   nanoGPT   nothing but uint16
//   Megatron  PREFIX.bin, the ids of all sequences one after another, and PREFIX.idx, which says
//             where each begins (token_megatron.c)
//
// Everything is little-endian. A file whose size is not exactly what its header says is refused.
#ifndef ZR_TOKENS_TOKEN_FILE_H
#define ZR_TOKENS_TOKEN_FILE_H

#include "base/file.h"

typedef enum zr_token_format {
    // Megatron where PREFIX.idx lies next to it, llm.c where one of its magics begins the file,
    // else nanoGPT
    ZR_TOKENS_DETECT,
    ZR_TOKENS_LLMC,
    ZR_TOKENS_NANOGPT,
    ZR_TOKENS_MEGATRON,
} zr_token_format;

typedef enum zr_token_type {
    ZR_TOKEN_U8,
    ZR_TOKEN_I8,
    ZR_TOKEN_I16,
    ZR_TOKEN_U16,
    ZR_TOKEN_I32,
    ZR_TOKEN_U32,
    ZR_TOKEN_I64,
    ZR_TOKEN_TYPES
} zr_token_type;

typedef struct zr_token_file {
    char *path;             // of the ids
    uint64_t device, inode; // the same
    zr_token_format format; // never DETECT
    zr_token_type type;
    int bytes;         // of one token
    int64_t count;     // tokens, with the ends that were put after documents
    int64_t stored;    // tokens in the file
    int64_t documents; // 0: the format does not tell them apart
    // an id that is read after each document, though the file has it not; -1: none
    int32_t end;
    const char *tokens; // (count x bytes), not aligned; valid until the file is closed
    zr_mapped_file ids, index;
    // inside `index`: int32 (sequences), int64 (sequences), int64 (documents + 1)
    const char *lengths, *pointers, *first_sequences;
} zr_token_file;

// Whether a path given as data names a token file and not text: its name ends in .bin or .idx.
bool zr_token_file_is_name(const char *path);
// `path` of Megatron: either file. Missing file: ZERO_ERR_IO; one that is no such file:
// ZERO_ERR_DATA, saying what was found.
zero_status zr_token_file_open(const char *path, zr_token_format format, zr_token_file *out,
                               zero_error *error);
void zr_token_file_close(zr_token_file *file);
// ZERO_ERR_DATA where the file has been made shorter since: beyond its end, what is left of the
// last page reads as zeros, and nobody hears of it. One that was replaced by another (renamed over
// it) is still read as it was. To be asked after each batch, before it counts.
zero_status zr_token_file_check_length(const zr_token_file *file, zero_error *error);

// Tokens [first, first+count) as int32; the range must lie inside. An id that no int32 holds comes
// out as -1.
void zr_token_file_read(const zr_token_file *file, int64_t first, int64_t count, int32_t *out);
// Where document d begins among the tokens of the file and how many of them it has; 0 <= d <
// documents.
void zr_token_file_document(const zr_token_file *file, int64_t d, int64_t *first, int64_t *count);
// From here on `end` is read after each document, where the format tells them apart and none of
// them ends with it (of up to 4,096 that are looked at): sets that were made without an end token.
// end -1: nothing changes.
void zr_token_file_end_documents(zr_token_file *file, int32_t end);
// Refuses ids outside [0, vocabulary) among tokens [first, first+count), naming the first of them,
// its position and the file.
// Several threads may check ranges of one file at once. Call it before training reads.
zero_status zr_token_file_check(const zr_token_file *file, int64_t first, int64_t count,
                                int64_t vocabulary, zero_error *error);

// Writes llm.c's format in pieces with bounded memory: uint16 (what train_gpt2 reads) where all ids
// below `vocabulary` fit, else uint32 (what train_llama3 reads). The path holds the old content or
// the whole new one: nothing is there before commit.
typedef struct zr_token_writer {
    zr_durable file;
    int bytes;     // of one token
    int64_t count; // appended so far
    char *room;    // a few KiB on their way to the file
} zr_token_writer;

zero_status zr_token_writer_open(const char *path, int64_t vocabulary, zr_token_writer *out,
                                 zero_error *error);
// An id outside of [0, vocabulary) is the caller's mistake. More tokens than the header counts
// (2^31 - 1): ZERO_ERR_DATA.
zero_status zr_token_writer_append(zr_token_writer *writer, const int32_t *ids, int64_t count,
                                   zero_error *error);
// ends the writer in any case
zero_status zr_token_writer_commit(zr_token_writer *writer, zero_error *error);
// an ended one is fine
void zr_token_writer_discard(zr_token_writer *writer);

#endif
