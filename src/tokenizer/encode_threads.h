// Several threads that encode one text. The text is cut where no token crosses, so the ids are
// those of the whole text, in order.
#ifndef ZR_TOKENIZER_ENCODE_THREADS_H
#define ZR_TOKENIZER_ENCODE_THREADS_H

#include "tokenizer/tokenizer.h"

typedef struct zr_encode_threads zr_encode_threads;

// Takes ids as they come, in order, on the caller's thread. A status other than ZERO_OK ends the
// encoding.
typedef zero_status (*zr_take_ids)(void *user, const int32_t *ids, int64_t count,
                                   zero_error *error);

zero_status zr_encode_threads_create(const zr_tokenizer *tokenizer, int threads,
                                     zr_encode_threads **out, zero_error *error);
void zr_encode_threads_destroy(zr_encode_threads *crew);
// Encodes a text with all threads. It needs memory for about 1 MiB of text for each thread at a
// time, and its ids; more only if the text cannot be cut. `taken` (may be NULL) gets the bytes
// encoded so far now and then, and as a sign of life while a long part is encoded.
zero_status zr_encode_threads_run(zr_encode_threads *crew, zr_encode_mode mode, const char *text,
                                  size_t length, const char *name, zr_take_ids take,
                                  void (*taken)(void *user, size_t bytes), void *user,
                                  zero_error *error);

#endif
