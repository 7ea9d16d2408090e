// Token files: ids on a disk, mapped and read in place.
//
//   llm.c     256 int32 of header ([0] magic 20240520, [1] version 1, [2] count), then uint16;
//             magic 20240801, version 7: uint32
//   nanoGPT   nothing but uint16
//   Megatron  PREFIX.bin, the ids of all sequences one after another, and PREFIX.idx, which says
//             where each begins (token_megatron.c)
//
// Everything is little-endian. A file whose size is not exactly what its header says is refused.
#ifndef ZR_DATA_TOKEN_FILE_H
#define ZR_DATA_TOKEN_FILE_H

#include "base/file.h"

typedef enum zr_token_format {
    // Megatron if PREFIX.idx is next to the file, llm.c if the file begins with one of its magics,
    // else nanoGPT.
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
    char *path;             // path of the file with the ids
    uint64_t device, inode; // identify that file
    zr_token_format format; // never DETECT
    zr_token_type type;
    int bytes;         // bytes of one token
    int64_t count;     // tokens, including the ends that are put after documents
    int64_t stored;    // tokens in the file
    int64_t documents; // 0: the format does not separate them
    // An id that is read after each document, although the file does not have it; -1: none.
    int32_t end;
    const char *tokens; // (stored x bytes), not aligned; valid until the file is closed
    zr_mapped_file ids, index;
    // Tables in `index`: int32 (sequences), int64 (sequences), int64 (documents + 1).
    const char *lengths, *pointers, *first_sequences;
} zr_token_file;

// Returns whether a path given as data names a token file rather than text: its name ends in .bin
// or .idx.
bool zr_token_file_is_name(const char *path);
// Opens a token file; for Megatron `path` is either of its files. Returns ZERO_ERR_IO if the file
// is missing; ZERO_ERR_DATA, with what was found, if it is no token file.
zero_status zr_token_file_open(const char *path, zr_token_format format, zr_token_file *out,
                               zero_error *error);
void zr_token_file_close(zr_token_file *file);
// Returns ZERO_ERR_DATA if the file has become shorter since it was opened: beyond its end, the
// rest of the last page reads as zeros without any error. A file that was replaced by another
// (renamed over it) is still read as it was. Call this after each batch, before the batch counts.
zero_status zr_token_file_check_length(const zr_token_file *file, zero_error *error);

// Reads tokens [first, first+count) as int32; the range must lie inside. An id that does not fit
// into int32 becomes -1.
void zr_token_file_read(const zr_token_file *file, int64_t first, int64_t count, int32_t *out);
// Finds where document d begins among the tokens of the file and how many it has; 0 <= d <
// documents.
void zr_token_file_document(const zr_token_file *file, int64_t d, int64_t *first, int64_t *count);
// From now on reads `end` after each document, if the format separates documents and none of those
// looked at (up to 4,096) ends with it: some sets are made without an end token. end -1: changes
// nothing.
void zr_token_file_end_documents(zr_token_file *file, int32_t end);
// Refuses ids outside [0, vocabulary) among tokens [first, first+count), and names the first of
// them, its position and the file. Several threads may check ranges of one file at once. Call it
// before training reads.
zero_status zr_token_file_check(const zr_token_file *file, int64_t first, int64_t count,
                                int64_t vocabulary, zero_error *error);

// Writes llm.c's format in pieces with bounded memory: uint16 (what train_gpt2 reads) if all ids
// below `vocabulary` fit, else uint32 (what train_llama3 reads). The path has the old content or
// the whole new one: nothing changes there before commit.
typedef struct zr_token_writer {
    zr_durable file;
    int bytes;     // bytes of one token
    int64_t count; // appended so far
    char *room;    // a few KiB that are not yet in the file
} zr_token_writer;

zero_status zr_token_writer_open(const char *path, int64_t vocabulary, zr_token_writer *out,
                                 zero_error *error);
// Appends ids; the caller must not pass an id outside of [0, vocabulary). Returns ZERO_ERR_DATA for
// more tokens than the header can count (2^31 - 1).
zero_status zr_token_writer_append(zr_token_writer *writer, const int32_t *ids, int64_t count,
                                   zero_error *error);
// Ends the writer in any case.
zero_status zr_token_writer_commit(zr_token_writer *writer, zero_error *error);
// An ended writer is allowed.
void zr_token_writer_discard(zr_token_writer *writer);

// Shared by token_file.c, token_megatron.c, token_writer.c and others of this room.
#define ZR_LLMC_HEADER 1024 // bytes

enum {
    ZR_LLMC_MAGIC_16 = 20240520,
    ZR_LLMC_VERSION_16 = 1,
    ZR_LLMC_MAGIC_32 = 20240801,
    ZR_LLMC_VERSION_32 = 7
};

int zr_token_bytes(zr_token_type type);
bool zr_token_path_ends(const char *path, const char *suffix);
// Returns the name of the other file: `from` at the end of the path becomes `to`. NULL: no memory.
char *zr_token_path_with(const char *path, const char *from, const char *to, zero_error *error);

// Opens PREFIX.bin and PREFIX.idx into an empty `file`, which the caller closes in any case.
zero_status zr_token_megatron_open(const char *path, zr_token_file *file, zero_error *error);

#endif
