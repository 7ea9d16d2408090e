// Checks that all ranks of a job were given, and have read, the same: configuration, model,
// tokenizer, text. Each rank adds what it has to a list, then zr_comm_compare_fingerprints compares
// the lists. A job of one rank adds nothing.
#ifndef ZR_SETUP_INPUT_FINGERPRINTS_H
#define ZR_SETUP_INPUT_FINGERPRINTS_H

#include "comm/agreement.h"
#include "config/config.h"
#include "model/architecture.h"
#include "tokenizer/tokenizer.h"
#include "data/dataset.h"

// Add the value of an option: "--steps".
void zr_fingerprint_number(zr_fingerprints *list, const char *name, int64_t value);
void zr_fingerprint_real(zr_fingerprints *list, const char *name, double value);
// Adds the configuration key by key, as resolved.
void zr_fingerprint_config(zr_fingerprints *list, const zr_config *config);
void zr_fingerprint_model(zr_fingerprints *list, const zr_lm_config *model); // field by field
// text NULL: there is none.
void zr_fingerprint_text(zr_fingerprints *list, const char *what, const char *name,
                         const char *text);
void zr_fingerprint_tokenizer(zr_fingerprints *list, const char *name,
                              const zr_tokenizer *tokenizer);
// Adds the hash of the data. Text that a rank has tokenised is hashed whole; of token files the
// length and 4,096 blocks of 1,024 tokens are hashed, at positions that follow from the seed.
void zr_fingerprint_dataset(zr_fingerprints *list, const char *what, const zr_dataset *dataset,
                            uint64_t seed, const zr_watch *watch);

#endif
