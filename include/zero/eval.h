// The loss of a model over a whole text.
#ifndef ZERO_EVAL_H
#define ZERO_EVAL_H

#include <zero/comm.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zero_eval_options {
    size_t struct_size;
    const char *model_dir;
    const char *const *data; // (data_count) as in zero_train_options, without weights
    int data_count;
    const char *field, *chat; // likewise
    int64_t seq;              // 0: the model's context
    int threads;
    const char *backend; // likewise
    // a DeepSpeed file: precision and offload_param are read, what only training reads is not;
    // NULL: none
    const char *config_path;
    const char *dtype; // "fp32", "bf16", "fp16", "auto"; NULL: the configuration's, or fp32
    // bytes of a rank, of all ranks of a machine; 0: the configuration's
    int64_t device_memory, host_memory;
    zero_logger logger;
    int ignore_unused; // likewise
} zero_eval_options;

// tokens: whose loss was measured, prompts not among them; bytes: of the text those tokens cover
typedef struct zero_eval_result {
    double loss;
    int64_t windows, tokens, bytes;
} zero_eval_result;

// Mean cross-entropy in nats over windows i*seq, i < floor((n-1)/seq), each token counting once.
// Collective over comm (windows are shared out; the sum is exact).
ZERO_API zero_status zero_eval(zero_comm *comm, const zero_eval_options *options,
                               zero_eval_result *out, zero_error *error);

#ifdef __cplusplus
}
#endif
#endif
