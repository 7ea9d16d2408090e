// A model of one's own that is split over tensor ranks: a perceptron of two layers between a linear
// layer and a loss that all ranks have whole.
//
//   x -> in (C, C) -> [ fc (H, C), its bias (H) -> s + s*s/10 -> proj (C, H) ] + bias (C) -> loss
//                        cut along H, the sums of all ranks meet in zero_tensor_sum
#ifndef TEST_ENGINE_SPLIT_MLP_H
#define TEST_ENGINE_SPLIT_MLP_H

#include <zero/model.h>

enum { SPLIT_WIDTH = 96, SPLIT_BATCH = 3, SPLIT_TENSORS = 5 };

typedef struct split_hyper {
    int64_t inner; // of this part
    int ranks;     // among which the sums meet
} split_hyper;

typedef struct split_mlp { // a whole model, or the part of it that one tensor rank holds
    split_hyper hyper;
    char names[3][16];
    zero_tensor_desc tensors[SPLIT_TENSORS];
    zero_flat_param_desc flat_params[3];
    zero_unit units[3];
    zero_model model;
} split_mlp;

extern const char *const split_names[SPLIT_TENSORS]; // of the whole's tensors

void split_whole(split_mlp *m, int64_t inner);
// Makes tensor rank `rank`'s part; with more ranks than inner elements, the last parts are empty.
void split_part(split_mlp *m, const split_mlp *whole, int rank, int ranks);
// Returns the elements of a tensor of the whole.
int64_t split_elements(const split_mlp *whole, int tensor);

#endif
