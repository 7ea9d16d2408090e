// FILE.bin.json next to a token file names the tokenizer of its ids. The formats themselves have no
// place for that, and training on ids of another tokenizer would fail without an error. A file
// without a note is accepted as it is.
#ifndef ZR_DATA_TOKEN_NOTE_H
#define ZR_DATA_TOKEN_NOTE_H

#include "tokenizer/tokenizer.h"
#include "data/token_file.h"

typedef struct zr_token_note {
    char tokenizer[32];   // zr_tokenizer_name
    uint64_t fingerprint; // zr_tokenizer_fingerprint
    int64_t vocabulary, tokens, documents;
    int32_t end; // the id after each document; -1 if there is none
} zr_token_note;

// Writes the note durably, next to the token file at `path`. Call it before the file itself is
// committed: a note whose file was not written has another count of tokens, so zr_token_note_read
// refuses it.
char *zr_token_note_path(const char *path, zero_error *error); // zr_free
zero_status zr_token_note_write(const char *path, const zr_token_note *note, zero_error *error);
// Reads the note of a file; *there is false if the file has none. Returns ZERO_ERR_DATA for a note
// that cannot be read or does not belong to the file (another number of tokens).
zero_status zr_token_note_read(const zr_token_file *file, zr_token_note *out, bool *there,
                               zero_error *error);
// Return whether `path` is a note that this program wrote, and whether it is a token file with such
// a note next to it.
bool zr_token_note_is_one(const char *path);
bool zr_token_note_has_one(const char *path);
// Refuses a file whose note names another tokenizer.
zero_status zr_token_note_check(const zr_token_file *file, const zr_tokenizer *tokenizer,
                                zero_error *error);

#endif
