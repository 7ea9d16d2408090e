// Which loss of preferences a model is trained on, and its settings, with the names and the usual
// values of trl. layers/preference.h computes it.
#ifndef ZR_MODEL_PREFERENCE_SPEC_H
#define ZR_MODEL_PREFERENCE_SPEC_H

#include "base/errors.h"
#include <stdbool.h>
#include <stddef.h>

typedef enum zr_preference_kind {
    ZR_PREFERENCE_NONE,
    ZR_PREFERENCE_DPO,   // arXiv 2305.18290
    ZR_PREFERENCE_ORPO,  // arXiv 2403.07691
    ZR_PREFERENCE_SIMPO, // arXiv 2405.14734
    ZR_PREFERENCE_KTO,   // arXiv 2402.01306
} zr_preference_kind;

typedef struct zr_preference { // those that a loss does not have are 0
    zr_preference_kind kind;
    double beta;
    double gamma;                  // the margin that SimPO asks for
    double smoothing;              // the share of pairs that are labelled the wrong way round
    double desirable, undesirable; // KTO: weights of the two kinds of examples
    double prompt_loss;            // ORPO: 1: the language loss counts the prompt, too
} zr_preference;

enum { ZR_PREFERENCE_TEXT = 128 };

// Parses "dpo,beta=0.1". `name` says where the text is from, for messages. Returns ZERO_ERR_CONFIG
// for unknown words, with the known ones, and for values out of range. A text that is NULL or
// "none" sets no preference.
zero_status zr_preference_parse(const char *text, const char *name, zr_preference *out,
                                zero_error *error);
// Writes all settings as zr_preference_parse reads them; "none": there is no preference.
void zr_preference_write(const zr_preference *preference, char text[static ZR_PREFERENCE_TEXT]);
// Returns "dpo"; NULL: there is no loss of this number.
const char *zr_preference_name(zr_preference_kind kind);
// Returns whether the loss compares the model with a reference.
bool zr_preference_has_reference(const zr_preference *preference);
bool zr_preference_is_same(const zr_preference *a, const zr_preference *b);

#endif
