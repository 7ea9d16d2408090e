// Everything that the arguments of --data name: files opened and hashed, then made into streams of
// tokens to train and to evaluate on.
//
//   without weights   one stream: the arguments one after another
//   with weights      one stream for each argument, which must then all have one
//
// A stream's files are its parts: text files that follow each other are one text (a document each),
// a JSONL file, a token file. The last tenth of each part is held out: of the bytes of a text,
// moved to a character's beginning; of the records; of the tokens. Where the held out tokens of a
// whole stream are too few for a window, all of it is trained on.
//
// Called by infer/, train/ and tools/ in the order open, [characters], read (or write, or visit),
// close. Every rank does all of it for itself: nothing here communicates.
#ifndef ZR_CORPUS_CORPUS_H
#define ZR_CORPUS_CORPUS_H

#include "chat/chat.h"
#include "tokenizer/crew.h"
#include "tokens/dataset.h"

typedef struct zr_corpus zr_corpus;

typedef struct zr_corpus_options {
    const char *const *arguments; // (count)
    int count;
    const char *field;   // of JSONL records, zr_records.field
    const zr_chat *chat; // of messages
    zr_watch watch;
} zr_corpus_options;

// Opens every file. Missing: ZERO_ERR_IO; empty, a directory, a broken token file: ZERO_ERR_DATA;
// each named. The options' texts and chat must outlive the corpus.
zero_status zr_corpus_open(const zr_corpus_options *options, zr_corpus **out, zero_error *error);
void zr_corpus_close(zr_corpus *corpus); // NULL is allowed

// The tokenizer "chars" of all texts and records.
zero_status zr_corpus_characters(const zr_corpus *corpus, zr_tokenizer **out, zero_error *error);

typedef struct zr_reading {
    const zr_tokenizer *tokenizer;
    // of the model: larger ids in token files are refused, with file and position
    int64_t vocabulary;
    int64_t seq; // T
    int threads; // that encode text; 0: 1
    // which part of token files this caller checks: the ranks of a job together all of them
    int share, shares;
} zr_reading;

// Text and records become tokens; token files stay where they are. held NULL: nothing is held out.
// The datasets read from the corpus and must be freed before it is closed. ZERO_ERR_DATA: a stream
// shorter than one window, and what its files are refused for.
zero_status zr_corpus_read(zr_corpus *corpus, const zr_reading *reading, zr_dataset *train,
                           zr_dataset *held, zero_error *error);

// The same tokens in order, piece by piece, in bounded memory; of `reading` tokenizer and threads
// count. mode: of text; records are encoded as in a training. ZERO_ERR_DATA: token files;
// ZERO_ERR_USAGE: weights; ZERO_ERR_UNSUPPORTED: records of which some tokens are no targets, which
// ids alone cannot say.
zero_status zr_corpus_write(zr_corpus *corpus, const zr_reading *reading, zr_encode_mode mode,
                            zr_take_ids take, void *user, int64_t *documents, zero_error *error);

// The text of each file and each record. ZERO_ERR_DATA: token files; ZERO_ERR_USAGE: weights.
typedef zero_status (*zr_visit_text)(void *user, const char *text, size_t length,
                                     zero_error *error);
zero_status zr_corpus_visit(zr_corpus *corpus, zr_visit_text visit, void *user, zero_error *error);

int64_t zr_corpus_bytes(const zr_corpus *corpus); // of all files
// records without text, which were passed over; once they are read
int64_t zr_corpus_empty(const zr_corpus *corpus);
const char *zr_corpus_name(const zr_corpus *corpus); // of the first file

#endif
