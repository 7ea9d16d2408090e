// Whether two runs, or two models, are one.
#ifndef ZERO_DIFF_H
#define ZERO_DIFF_H

#include <zero/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zero_diff_options {
    size_t struct_size;
    // two runs (--out), or two of: a checkpoint, a Hugging Face directory, a file *.safetensors
    const char *a, *b;
} zero_diff_options;

typedef struct zero_diff_result {
    int identical;
    int64_t steps;   // of runs: steps whose losses were compared
    int64_t tensors; // that were compared
} zero_diff_result;

// Of runs what a step computed (loss, gradient norm, learning rate, loss scale, held-out loss), the
// checkpoints of the same steps, and the models; else the tensors. Writes "identical, 2,000 steps",
// or the first step and tensor that differ and by how much. A model that one alone has is a
// difference, and so are checkpoints where they are all the tensors there are; where neither has
// tensors of a common step it says that no tensors were compared. Times and bytes are not looked
// at. Damage, and what cannot be compared, is ZERO_ERR_DATA. Not collective.
ZERO_API zero_status zero_diff(const zero_diff_options *options,
                               void (*write)(void *user, const char *text), void *user,
                               zero_diff_result *out, zero_error *error);

#ifdef __cplusplus
}
#endif
#endif
