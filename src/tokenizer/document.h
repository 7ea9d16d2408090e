// A document on its way to tokens: its text, and which parts of it the loss counts.
//
//   <|im_start|>user\nWhat is 2+2? | <|im_end|>\n |
//   <|im_start|>assistant\n [Four.] | [<|im_end|>] \n |        [trained], | a seam
//
// Between two seams the text is encoded as a whole. A seam stands before a special token, whose
// tokens are the same whatever comes before it: so the tokens are those of the whole document. A
// token that lies across the border of a trained part belongs to that part, none that lies before
// it.
#ifndef ZR_TOKENIZER_DOCUMENT_H
#define ZR_TOKENIZER_DOCUMENT_H

#include "tokenizer/tokenizer_core.h"

typedef struct zr_document_part {
    size_t end; // in the text; it begins where the one before ends
    bool trained;
    bool seam; // one comes after it
} zr_document_part;

typedef struct zr_document {
    zr_buffer text;             // its sticky error covers `segments` too
    zr_document_part *segments; // (count)
    int count, capacity;
    bool special; // the strings of added tokens stand for these tokens
} zr_document;

void zr_document_clear(zr_document *document); // keeps its memory
void zr_document_free(zr_document *document);
// Text that follows, of which all is trained or none.
void zr_document_add(zr_document *document, const char *text, size_t length, bool trained);
void zr_document_seam(zr_document *document); // after what was added last

// Documents become tokens one after another, in one list.
typedef struct zr_encoding {
    const zr_tokenizer *tokenizer;
    zr_encoder *encoder;
    zr_ids ids; // ~id where a token is no target
    zr_ids scratch;
    zr_buffer work[2];
} zr_encoding;

zero_status zr_encoding_begin(const zr_tokenizer *tokenizer, zr_encoding *out, zero_error *error);
void zr_encoding_free(zr_encoding *encoding); // ids too
// Appends the document's tokens. Fails as zr_encoder_append does, with `name`.
zero_status zr_encoding_add(zr_encoding *encoding, const zr_document *document, const char *name,
                            zero_error *error);
// Appends what ends a document: the tokenizer's end token; where it has none, after a record a new
// line, after a file nothing.
zero_status zr_encoding_end(zr_encoding *encoding, bool record, const char *name,
                            zero_error *error);

#endif
