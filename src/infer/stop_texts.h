// Texts that end an answer where they first occur (--stop). A token may end within one, so text
// that may be the beginning of one is held back until it is clear.
#ifndef ZR_INFER_STOP_TEXTS_H
#define ZR_INFER_STOP_TEXTS_H

#include "base/alloc.h"

typedef struct zr_stop_texts {
    const char *const *at; // (count) none is empty
    int count;
} zr_stop_texts;

// Returns how many bytes of an answer's text, as far as it is known and not yet emitted, belong to
// the answer and can be emitted. *found: one of the texts follows them. `last`: no more will come,
// so nothing is held back.
size_t zr_stop_scan(const zr_stop_texts *stops, const char *text, size_t length, bool last,
                    bool *found);

#endif
