// What every job that reads data does around data/: signs of life to the other ranks, lines of
// progress, chat templates.
#ifndef ZR_INFER_READING_H
#define ZR_INFER_READING_H

#include "comm/communicator.h"
#include "corpus/corpus.h"

typedef struct zr_reading_progress {
    zero_comm *comm;           // NULL: no other rank waits
    const zero_logger *logger; // a line every few seconds where it takes longer
    double said_at;            // seconds
} zr_reading_progress;

// The watch of a corpus; `progress` stays where it is while the corpus is read.
zr_watch zr_reading_watch(zr_reading_progress *progress, zero_comm *comm,
                          const zero_logger *logger);
// What a rank reads with: the ranks share the check of token files and, of those on this machine at
// least, its cores.
zr_reading zr_reading_of(const zero_comm *comm, int threads, const zr_tokenizer *tokenizer,
                         int64_t vocabulary, int64_t seq);
// --tokenizer, where it is given, else the model's, else bytes. "chars" are those of the corpus.
zero_status zr_reading_tokenizer(const char *model_dir, const char *what, const zr_corpus *corpus,
                                 zr_tokenizer **out, zero_error *error);
// Says so where a BPE has no end token: documents then follow each other without a border.
void zr_reading_warn(const zr_tokenizer *tokenizer, const zero_logger *logger);
// Says how many records had no text, where there were any. Once they are read.
void zr_reading_warn_empty(const zr_corpus *corpus, const zero_logger *logger);
// The chat template of the tokenizer: of a directory that --tokenizer names, else of the model's.
zero_status zr_reading_chat(const char *model_dir, const char *tokenizer, const char *format,
                            zr_chat *out, zero_error *error);

#endif
