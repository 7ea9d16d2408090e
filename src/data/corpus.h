// The data of a run: the files that the arguments of --data name are opened, then turned into
// streams of tokens to train and to evaluate on.
//
//   without weights   one stream: the arguments one after another
//   with weights      one stream for each argument, and every argument must have a weight
//
// A stream's parts are: consecutive text files, which are one text (each file is a document), a
// JSONL file, or a token file. The last tenth of each part is held out: of the bytes of a text,
// moved to the beginning of a character; of the records; of the tokens. If the tokens held out of a
// whole stream are too few for a window, the whole stream is trained on.
//
// Callers use it in the order open, [characters], read (or write, or each_text), close. Every rank
// does all of this for itself, except that with zr_reading.sharing the ranks of a machine read
// together what is large.
//
// Ids are kept in memory up to ZR_SPILL_BEYOND bytes, then in a spill, from which windows are read
// piece by piece. Both ways give the same streams, windows, hashes and fingerprints.
#ifndef ZR_DATA_CORPUS_H
#define ZR_DATA_CORPUS_H

#include "chat/chat.h"
#include "tokenizer/tokenizer.h"
#include "data/dataset.h"
#include "data/record_document.h"

typedef struct zr_corpus zr_corpus;

typedef struct zr_corpus_options {
    const char *const *arguments; // (count)
    int count;
    // Of JSON records: the name of a field, or KEY=FIELD,... (record_shape.h); or NULL.
    const char *field;
    const zr_chat *chat; // format of messages
    // Records are read for their answers, and text and tokens are refused.
    zr_preferences preferences;
    bool prompt_loss; // prompts of chosen answers are targets, too
    // Records are texts with labels (record_label.c), and text and tokens are refused.
    bool classifies;
    zr_watch watch;
    // Another rank of this machine looks into compressed files and reports what is wrong; this one
    // unpacks them only when it needs their text.
    bool follows;
} zr_corpus_options;

// Opens every file, and looks into it. Returns ZERO_ERR_IO for a missing file; ZERO_ERR_DATA for an
// empty one, a directory or a broken token file; the error names it. The options' texts and chat
// must outlive the corpus.
zero_status zr_corpus_open(const zr_corpus_options *options, zr_corpus **out, zero_error *error);
void zr_corpus_close(zr_corpus *corpus); // NULL is allowed

// Makes the tokenizer "chars" of all texts and records.
zero_status zr_corpus_characters(const zr_corpus *corpus, zr_tokenizer **out, zero_error *error);

// Adds the labels of all records, of a corpus that classifies, to *out, which is sorted.
zero_status zr_corpus_labels(zr_corpus *corpus, zr_labels *out, zero_error *error);

// Returns whether any text has to be turned into tokens; false if all files are token files.
bool zr_corpus_has_text(const zr_corpus *corpus);

// The choice of streams that are packed: attention sees one of their examples at a time.
typedef enum zr_pack {
    ZR_PACK_MASKED, // those with records that train in part: prompts, conversations
    ZR_PACK_NONE,
    ZR_PACK_ALL
} zr_pack;

enum { ZR_SHARED_WORDS = 6 };

// How the ranks of a machine share one copy of tokens that are too many for memory: one of them
// makes the tokens, and the others open its spill.
typedef struct zr_sharing {
    // Collective over all ranks of the job; NULL: nothing is shared. Fails on all ranks if `mine`
    // is the failure of any. Then gives the words of the machine's leader to the machine's ranks.
    zero_status (*tell)(void *user, zero_status mine, int64_t words[ZR_SHARED_WORDS],
                        zero_error *error);
    void *user;
    bool leads; // this rank makes its machine's tokens
    int ranks;  // of this machine: the one that leads encodes with the threads of all
} zr_sharing;

typedef struct zr_reading {
    // May be NULL if there is no text. Then it is not checked which tokenizer the token files are
    // from, and nothing is put between their documents.
    const zr_tokenizer *tokenizer;
    // Size of the model's vocabulary: larger ids in token files are refused, with file and
    // position.
    int64_t vocabulary;
    int64_t seq;             // T
    int threads;             // threads that encode text; 0 means 1
    const zr_labels *labels; // of the model, if the corpus classifies; another one is refused
    zr_pack pack;
    // The share of token files that this caller checks; the ranks of a job together check
    // everything.
    int share, shares;
    // Bytes of ids that are kept in memory; what is more goes into a spill (spill.h). 0 means
    // ZR_SPILL_BEYOND.
    int64_t kept_bytes;
    zr_sharing sharing;
} zr_reading;

// Turns text and records into tokens; token files stay where they are. If `held` is NULL, nothing
// is held out. Collective if reading->sharing.tell is given. The datasets read from the corpus and
// must be freed before it is closed. Returns ZERO_ERR_DATA for a stream shorter than one window,
// and for a file that is refused; fails as zr_spill_create and zr_spill_append do.
zero_status zr_corpus_read(zr_corpus *corpus, const zr_reading *reading, zr_dataset *train,
                           zr_dataset *held, zero_error *error);

// Passes on the same tokens in order, piece by piece, in bounded memory. Only tokenizer and threads
// of `reading` are used. `mode` is for text; records are encoded as in a training. Returns
// ZERO_ERR_DATA for token files, ZERO_ERR_USAGE for weights, and ZERO_ERR_UNSUPPORTED for records
// with tokens that are not targets, because ids alone cannot express that.
zero_status zr_corpus_write(zr_corpus *corpus, const zr_reading *reading, zr_encode_mode mode,
                            zr_take_ids take, void *user, int64_t *documents, zero_error *error);

// Passes on the text of each file and each record. Returns ZERO_ERR_DATA for token files,
// ZERO_ERR_USAGE for weights.
typedef zero_status (*zr_take_text)(void *user, const char *text, size_t length, zero_error *error);
zero_status zr_corpus_each_text(zr_corpus *corpus, zr_take_text take, void *user,
                                zero_error *error);

int64_t zr_corpus_bytes(const zr_corpus *corpus); // bytes of all files
// Returns how many records without text were skipped; valid once they are read.
int64_t zr_corpus_empty(const zr_corpus *corpus);
// Returns how many turns were written as text because there is no chat template; as above.
int64_t zr_corpus_plain(const zr_corpus *corpus);
// Returns how many texts with labels lost their ends, because a window has no room for them.
int64_t zr_corpus_shortened(const zr_corpus *corpus);
const char *zr_corpus_name(const zr_corpus *corpus); // name of the first file

#endif
