// What every job that reads data needs around data/: signs of life for the other ranks, lines of
// progress, chat templates.
#ifndef ZR_INFER_TOKEN_READING_H
#define ZR_INFER_TOKEN_READING_H

#include "comm/communicator.h"
#include "data/corpus.h"
#include "model/preference_spec.h"

typedef struct zr_reading_progress {
    zero_comm *comm;           // NULL: no other rank waits
    const zero_logger *logger; // gets a line every few seconds if reading takes longer
    double began_at, said_at;  // seconds; when the file was begun and the last line was written
    size_t had;                // what was read of the file at began_at
    char name[256];            // of the file; "": none yet
} zr_reading_progress;

// Returns the watch for a corpus. `progress` must not move while the corpus is read.
zr_watch zr_reading_watch(zr_reading_progress *progress, zero_comm *comm,
                          const zero_logger *logger);
// Returns what records are read for, to train on a preference.
zr_preferences zr_reading_preferences(const zr_preference *preference);
// Warns of examples that are longer than a window, and of pairs that have no place in one.
void zr_reading_warn_cut(const zr_dataset *data, const zero_logger *logger);
// Warns of texts with labels that are longer than a window.
void zr_reading_warn_shortened(const zr_corpus *corpus, const zr_dataset *data,
                               const zero_logger *logger);
// Returns whether another rank of this machine makes its tokens where they are many.
bool zr_reading_follows(const zero_comm *comm);
// Returns how a rank reads: the ranks share the check of token files, and those on this machine
// also share its cores, and one copy of many tokens. So zr_corpus_read is collective where `comm`
// has several ranks. A rank that fails before it takes part through the zr_comm_agree that ends
// the phase.
zr_reading zr_token_reader_options(zero_comm *comm, int threads, const zr_tokenizer *tokenizer,
                                   int64_t vocabulary, int64_t seq);
// Makes the tokenizer that --tokenizer names, or else the model's, or else bytes. "chars" takes the
// characters of the corpus. A model without one is refused with the way out, --tokenizer.
zero_status zr_reading_tokenizer(const char *model_dir, const char *what, const zr_corpus *corpus,
                                 zr_tokenizer **out, zero_error *error);
// Makes the tokenizer with which a model of `vocabulary` tokens measures or shows the corpus: as
// above, but never that of other characters. *out NULL: nothing is to be turned into tokens, and
// there is none.
zero_status zr_reading_tokenizer_of(const char *model_dir, const char *what,
                                    const zr_corpus *corpus, int64_t vocabulary, zr_tokenizer **out,
                                    zero_error *error);
// Warns if a BPE has no end token, because documents then follow each other without a border.
void zr_reading_warn(const zr_tokenizer *tokenizer, const zero_logger *logger);
// Warns how many records had no text, and how many turns were written without a chat template, if
// any. Call it after they have been read.
void zr_reading_warn_records(const zr_corpus *corpus, const zero_logger *logger);
// Reads which streams are packed: "auto" (or NULL), "causal" or "document", as libzero.attention
// has them. ZERO_ERR_USAGE for any other word.
zero_status zr_reading_pack(const char *attention, zr_pack *out, zero_error *error);
// Warns how many conversations had answers that are not trained on (zr_chat_render), if any. Call
// it after they have been read.
void zr_reading_warn_chat(const zr_chat *chat, const zero_logger *logger);
// Takes the chat template of the tokenizer: from the directory that --tokenizer names, or else from
// the model's. format, date: as zr_chat_load takes them.
zero_status zr_reading_chat(const char *model_dir, const char *tokenizer, const char *format,
                            const char *date, zr_chat *out, zero_error *error);

#endif
