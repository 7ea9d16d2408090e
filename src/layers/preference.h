// The losses of preferences, as functions of the losses of a micro-batch's rows:
//
//   l(y) = -the sum of the losses of y's rows        the logarithm of y's probability
//   a(y) = l(y) / rows of y                          its mean over the tokens
//   r(y) = l(y) - the same of the reference
//   S(x) = log(1 / (1 + e^-x)),  s(x) = e^S(x),  D = s' = s (1 - s)
//
//   DPO    x = beta (r(c) - r(d))                    c chosen, d rejected; e: smoothing
//          -(1 - e) S(x) - e S(-x)
//   SimPO  the same of x = beta (a(c) - a(d)) - gamma
//   ORPO   n(c) - beta S(o(c) - o(d))                o(y) = a(y) - log(1 - e^a(y)); n(c): the mean
//                                                    of the losses of c's rows [and its prompt's]
//   KTO    w+ (1 - s(beta (r(y) - z)))               of a wanted y
//          w- (1 - s(beta (z - r(y))))               of one that is not wanted
//          z = max(0, mean of r over the mismatched completions), a constant
//
// The derivative by the loss of a row is its weight. All is added up in double, in the order of the
// rows, so every rank that has the same rows computes the same bits.
#ifndef ZR_LAYERS_PREFERENCE_H
#define ZR_LAYERS_PREFERENCE_H

#include "model/preference_spec.h"
#include <stdint.h>
#include <zero/preference.h>

typedef struct zr_preference_rows { // of a micro-batch, each (rows): see <zero/preference.h>
    int64_t rows;
    const int32_t *positions, *roles;
    const float *reference, *row_loss;
} zr_preference_rows;

typedef struct zr_preference_sums { // of a micro-batch
    double loss;                    // of all pairs (KTO: examples), added up
    int64_t pairs;
    double rewards[2]; // of the chosen completions, and of the rejected ones: beta r, or beta a
    int64_t counted[2];
    int64_t correct; // pairs whose chosen completion has the larger reward
} zr_preference_sums;

// Computes the sums and, unless weight is NULL, the weights (rows). Returns ZERO_ERR_DATA for a
// chosen completion without a rejected one after it, and the reverse, and for two roles of
// completions in one document; under KTO only for the last.
zero_status zr_preference_compute(const zr_preference *preference, const zr_preference_rows *rows,
                                  float *weight, zr_preference_sums *out, zero_error *error);

typedef struct zr_completion { // of a document
    int64_t begin, end;        // the rows of the document
    int32_t role;              // ZERO_ROLE_none: it has no completion
    int64_t length;            // rows of the completion
    double log_probability;
    double reference;
    // Of ORPO's language loss: rows with a loss, and the sum of their losses.
    int64_t counted;
    double loss;
} zr_completion;

// Finds the document that begins at `row`. ZERO_ERR_DATA as above.
zero_status zr_completion_read(const zr_preference_rows *rows, int64_t row, zr_completion *out,
                               zero_error *error);

#endif
