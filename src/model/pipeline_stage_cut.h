// What one pipeline stage holds of a model: the units of its chunks, as a model of its own.
//
//   whole      embedding  h.0  h.1  h.2  h.3  head        (head borrows the embedding's table)
//   stage 0    embedding  h.0  h.1                        chunk [0, 3)
// stage 1                         h.2  h.3  head        chunk [3, 6), with a tied copy of it
//
// A unit that borrows a flat parameter which its chunk does not own gets a *tied copy*: a flat
// parameter of its own with the same tensors, after those that it owns. Units number the flat
// parameters that they borrow after their own, so a tied copy has the number by which the unit
// knows the flat parameter, as long as no borrowed flat parameter before it stays borrowed: those
// become tied copies too. Parameters of a tied copy come from its owner, to which its gradients go;
// it has no optimizer states, and never counts. The functions of a unit get the unit of the model
// that was cut (zr_pipeline_stage_origin), so their numbers of owned and borrowed flat parameters
// stay valid.
#ifndef ZR_MODEL_PIPELINE_STAGE_CUT_H
#define ZR_MODEL_PIPELINE_STAGE_CUT_H

#include "base/errors.h"
#include <zero/model.h>

typedef struct zr_unit_range { // units first .. end - 1
    int first, end;
} zr_unit_range;

typedef struct zr_tied_copy {
    zero_flat_param_ref at;    // of the pipeline stage's own model
    zero_flat_param_ref owner; // of the model that was cut
} zr_tied_copy;

// Makes the model of one pipeline stage from `count` chunks of a model: a whole one, or the part of
// one that a tensor rank holds. The chunks are ascending, not empty, and do not overlap. exact:
// every borrowed flat parameter becomes a tied copy, also where its owner is in the same chunk, so
// that a table that is shared is summed as two contributions at any number of pipeline stages. The
// model that is cut outlives it; free it with zr_pipeline_stage_free. ZERO_ERR_UNSUPPORTED if a
// unit borrows a buffer, because a buffer cannot have a tied copy.
zero_status zr_pipeline_stage_cut(const zero_model *model, const zr_unit_range *chunks, int count,
                                  bool exact, zero_model **out, zero_error *error);
void zr_pipeline_stage_free(zero_model *stage); // NULL is allowed

typedef struct zr_tied_weight { // a tied copy and its owner, in the model that is cut
    int borrower;               // the unit that has the tied copy
    zero_flat_param_ref owner;
    int chunks[2]; // of the borrower, and of the owner
} zr_tied_weight;

// Lists the tied copies of all stages of a model that is cut into `chunks` chunks, ascending by
// borrower, and returns their number. first_unit: (chunks + 1) the first unit of each chunk, and
// the end. out: (number of borrowed flat parameters), or NULL. exact: as for zr_pipeline_stage_cut.
int zr_pipeline_stage_tied_weights(const zero_model *model, const int *first_unit, int chunks,
                                   bool exact, zr_tied_weight *out);

// The following take any model. A model that is not a pipeline stage's counts as its own origin.
const zero_model *zr_pipeline_stage_origin(const zero_model *model); // the model that was cut
int zr_pipeline_stage_unit(const zero_model *model, int unit);       // its number in that one
// Returns all tied copies, ascending by unit and flat parameter; they live as long as the model.
const zr_tied_copy *zr_pipeline_stage_tied_copies(const zero_model *model, int *count);
// Returns the tied copy with this reference; NULL if the flat parameter is not a tied copy.
const zr_tied_copy *zr_pipeline_stage_tied_copy_at(const zero_model *model,
                                                   zero_flat_param_ref ref);

#endif
