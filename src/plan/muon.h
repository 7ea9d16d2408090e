// Muon in a plan (Jordan et al., Muon, 2024; torch.optim.Muon): which tensors are its matrices, who
// computes each one's direction, and what that costs.
//
// A matrix is a tensor of two dimensions of any unit but the first and the last, whose tables and
// heads AdamW updates, like all vectors. Its direction is made orthogonal once a step by one rank,
// its owner, among the data and tensor ranks of a pipeline stage; so all of them get the same bits.
// Owners take matrices in rounds, at most one each in a round:
//
//   owners     rank 0   rank 1   rank 2
//   round 0    m4       m9       m2        the largest, by FLOPs
//   round 1    m7       m1                 each goes to the rank with the least so far
#ifndef ZR_PLAN_MUON_H
#define ZR_PLAN_MUON_H

#include "base/errors.h"
#include <zero/model.h>

typedef struct zr_plan zr_plan;
struct zr_machine;

typedef enum zr_orthogonal_method {
    ZR_ORTHOGONAL_STANDARD,
    ZR_ORTHOGONAL_GRAM
} zr_orthogonal_method;

typedef struct zr_orthogonal { // the iteration on one matrix (rows, cols); engine/orthogonal.h
    int64_t rows, cols;
    zr_orthogonal_method method;
    int steps;
    double a, b, c, eps;
} zr_orthogonal;

// Returns torch's steps and coefficients, for the standard method.
zr_orthogonal zr_orthogonal_standard(int64_t rows, int64_t cols);
// Returns the bytes that zr_orthogonal_run takes next to the matrix, and those of its parts.
int64_t zr_orthogonal_workspace(const zr_orthogonal *of);
int64_t zr_orthogonal_sums_bytes(const zr_orthogonal *of);
int64_t zr_orthogonal_square_bytes(const zr_orthogonal *of);
double zr_orthogonal_flops(const zr_orthogonal *of); // of its products
// Says whether the steps of "gram" are made on a square matrix alone.
bool zr_orthogonal_on_gram(const zr_orthogonal *of);
enum { ZR_ORTHOGONAL_RESTART = 2 }; // before this step gram begins again, as half precision drifts
static inline bool zr_orthogonal_begins(int step)
{
    return step == 0 || step == ZR_ORTHOGONAL_RESTART;
}
// Says whether the step after this one needs a gram matrix that is made from this step's.
bool zr_orthogonal_goes_on(const zr_orthogonal *of, int step);

typedef struct zr_muon_matrix { // one that Muon updates
    int number;                 // zr_plan_tensor.number
    int64_t rows, cols;         // of the whole
    int owner;                  // data rank x tensor ranks + tensor rank
    int round;
} zr_muon_matrix;

// Says whether Muon updates a tensor of a model's unit. The model is whole.
bool zr_is_muon_matrix(const zero_model *model, int unit, zero_class kind,
                       const zero_tensor_desc *tensor);
// Lists the plan's matrices by rounds, and sets the bytes of the space in which one is computed:
// the matrix, the workspace, and a message of as many elements. ZERO_ERR_CONFIG: a matrix is
// streamed.
zero_status zr_plan_muon(zr_plan *plan, const struct zr_machine *machine, zero_error *error);
// Returns the iteration on a matrix of the plan.
zr_orthogonal zr_plan_orthogonal(const zr_plan *plan, int64_t rows, int64_t cols);

#endif
