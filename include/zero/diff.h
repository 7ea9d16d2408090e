// zero_diff: whether two runs, or two models, are identical.
#ifndef ZERO_DIFF_H
#define ZERO_DIFF_H

#include <zero/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zero_diff_options {
    size_t struct_size;
    // Two runs (--out); or two of: a checkpoint, a Hugging Face directory, a file *.safetensors.
    const char *a, *b;
} zero_diff_options;

typedef struct zero_diff_result {
    int identical;
    int64_t steps;   // runs: steps whose losses were compared
    int64_t tensors; // tensors that were compared
} zero_diff_result;

// Compares `a` with `b`. Of runs it compares what each step computed (loss, gradient norm, learning
// rate, loss scale, held-out loss), the checkpoints of the same steps, and the models; otherwise it
// compares the tensors. Times and byte counts are ignored.
// Writes "identical, 2,000 steps", or the first step and tensor that differ and by how much. If
// only one run has a model, that is a difference; so are checkpoints that only one has, if there
// are no other tensors. If the runs have no tensors of a common step, it writes that no tensors
// were compared.
// Returns ZERO_ERR_DATA for damage and for what cannot be compared. Not collective.
ZERO_API zero_status zero_diff(const zero_diff_options *options,
                               void (*write)(void *user, const char *text), void *user,
                               zero_diff_result *out, zero_error *error);

#ifdef __cplusplus
}
#endif
#endif
