// The model that a command is about: its shape, from a SPEC or a directory, and the tokens of its
// windows. zero train, plan, tune, compare, simulate and bench read it here. No weights are read.
// Not collective.
#ifndef ZR_SETUP_MODEL_CHOICE_H
#define ZR_SETUP_MODEL_CHOICE_H

#include "config/config.h"
#include "model/architecture.h"
#include "tokenizer/tokenizer.h"

typedef struct zr_subject_question {
    const char *new_spec, *model; // exactly one: a SPEC; or a directory or a run
    bool needs_no_weights;        // `model` may be a config.json, too
    bool as_known; // a SPEC that says no vocabulary has that of its architecture, not that of bytes
    int64_t seq;   // tokens of a window; 0: zr_default_window
    // Of the data: its ids must fit into the vocabulary, and a SPEC that says none takes its. NULL:
    // nothing is checked, and a SPEC without a vocabulary gets that of the tokenizer "bytes".
    const zr_tokenizer *tokenizer;
    const zero_logger *logger; // gets the model and the window that are taken; may be NULL
} zr_subject_question;

typedef struct zr_model_choice {
    char *path;         // to which `model` leads; NULL: it is a SPEC
    const char *name;   // for messages: the SPEC, or path. It lives as long as both.
    zr_lm_config model; // checked
    zr_lm_shape shape;
    int64_t parameters;
    int64_t seq;             // tokens of a window, within the context
    bool assumed_vocabulary; // the SPEC has none, and there was no tokenizer
} zr_model_choice;

// The caller frees *out with zr_model_choice_free, also after an error. ZERO_ERR_USAGE: a SPEC or a
// window that is wrong, or a tokenizer that does not fit; ZERO_ERR_CONFIG, ZERO_ERR_IO: the
// model's config.json.
zero_status zr_model_choice_read(const zr_subject_question *question, zr_model_choice *out,
                                 zero_error *error);
void zr_model_choice_free(zr_model_choice *subject);

// Returns the facts with which the configuration of a run of `world` ranks is resolved that nobody
// has begun: the usual number of steps, the usual batch, the width of the model.
zr_config_facts zr_model_choice_facts(const zr_model_choice *subject, int world);

#endif
