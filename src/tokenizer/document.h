// A document before it is encoded: its text, and the parts of it that the loss counts.
//
//   <|im_start|>user\nWhat is 2+2? | <|im_end|>\n |
//   <|im_start|>assistant\n [Four.] | [<|im_end|>] \n |        [trained], | a seam
//
// The text between two seams is encoded as a whole. A seam is before a special token, whose ids are
// the same whatever comes before it, so the tokens are those of the whole document. A token that
// crosses the border of a trained part belongs to the trained part; one that lies wholly before or
// after it does not.
#ifndef ZR_TOKENIZER_DOCUMENT_H
#define ZR_TOKENIZER_DOCUMENT_H

#include "tokenizer/tokenizer.h"

typedef struct zr_document_part {
    size_t end; // position in the text; the part begins where the one before ends
    bool trained;
    bool seam; // a seam comes after it
} zr_document_part;

typedef struct zr_document {
    zr_buffer text;             // its sticky error covers `segments` too
    zr_document_part *segments; // (count)
    int count, capacity;
    bool special; // strings of added tokens are encoded as these tokens
} zr_document;

void zr_document_clear(zr_document *document); // Keeps the memory.
void zr_document_free(zr_document *document);
// Appends text that is trained as a whole or not at all.
void zr_document_add(zr_document *document, const char *text, size_t length, bool trained);
void zr_document_add_seam(zr_document *document); // Puts a seam after what was added last.
// Everything after the first text that is trained is trained, too.
void zr_document_train_rest(zr_document *document);

// Turns documents into tokens one after another, in one list.
typedef struct zr_encoding {
    const zr_tokenizer *tokenizer;
    zr_encoder *encoder;
    zr_ids ids; // ~id if the token is not a target
    zr_ids scratch;
    zr_buffer work[2];
} zr_encoding;

zero_status zr_encoding_begin(const zr_tokenizer *tokenizer, zr_encoding *out, zero_error *error);
void zr_encoding_free(zr_encoding *encoding); // frees the ids too
// Appends the document's tokens. Fails as zr_encoder_append does, with `name`.
zero_status zr_encoding_add(zr_encoding *encoding, const zr_document *document, const char *name,
                            zero_error *error);
// Appends the end of a document: the tokenizer's end token. If the tokenizer has none, it appends a
// newline after a record and nothing after a file.
zero_status zr_encoding_end(zr_encoding *encoding, bool record, const char *name,
                            zero_error *error);

#endif
