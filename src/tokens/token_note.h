// FILE.bin.json next to a token file: which tokenizer its ids are of. The formats themselves cannot
// say it, and ids of another tokenizer train without an error. A file without a note is taken as it
// is.
#ifndef ZR_TOKENS_TOKEN_NOTE_H
#define ZR_TOKENS_TOKEN_NOTE_H

#include "tokenizer/tokenizer_core.h"
#include "tokens/token_file.h"

typedef struct zr_token_note {
    char tokenizer[32];   // zr_tokenizer_name
    uint64_t fingerprint; // zr_tokenizer_fingerprint
    int64_t vocabulary, tokens, documents;
    int32_t end; // the id after each document, -1: none
} zr_token_note;

// Durable, next to the token file at `path`. Before the file itself is committed: a note that has
// come without its file counts other tokens, and is refused by zr_token_note_read.
char *zr_token_note_path(const char *path, zero_error *error); // zr_free
zero_status zr_token_note_write(const char *path, const zr_token_note *note, zero_error *error);
// *there false: there is no note. One that does not belong to the file (other number of tokens) or
// cannot be read: ZERO_ERR_DATA.
zero_status zr_token_note_read(const zr_token_file *file, zr_token_note *out, bool *there,
                               zero_error *error);
// Whether `path` is a note that was written here, and whether it is a token file with one next to
// it.
bool zr_token_note_is_one(const char *path);
bool zr_token_note_has_one(const char *path);
// Refuses a file whose note names another tokenizer.
zero_status zr_token_note_check(const zr_token_file *file, const zr_tokenizer *tokenizer,
                                zero_error *error);

#endif
