// Making a model or a checkpoint of another.
#ifndef ZERO_CONVERT_H
#define ZERO_CONVERT_H

#include <zero/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zero_convert_options {
    size_t struct_size;
    // as zero_inspect_options.path, but no single file; of a run its newest whole checkpoint
    const char *from;
    const char *to; // a directory
    // "hf": a Hugging Face directory; "libzero": TO/checkpoints/step-N, which zero_train goes on
    // from. NULL: hf
    const char *format;
    // hf: of the weights, "fp32", "bf16", "fp16"; NULL: fp32, or of a Hugging Face directory the
    // files' own
    const char *dtype;
    int64_t shard_bytes; // hf: of tensors in a file; 0: 5 GB
    // where config.json and the tokenizer come from; NULL: from `from`, where they are
    const char *model_dir;
    // hf: a model that libzero wrote to `to` is replaced, where nothing else lies there and none of
    // it is read
    int overwrite;
    zero_logger logger;
    void (*progress)(void *user, int64_t done, int64_t total); // bytes; NULL: not wanted
    void *progress_user;
} zero_convert_options;

// One rank; a few MiB of memory, whatever the size. What is written is there whole or not at all,
// and checksums of what is read are compared: damage is ZERO_ERR_DATA with file and tensor. Pickles
// of DeepSpeed are parsed, never executed.
// ZERO_ERR_USAGE where `to` is taken; ZERO_ERR_UNSUPPORTED for what there is no way to (a model as
// a checkpoint: zero_load_weights).
ZERO_API zero_status zero_convert(const zero_convert_options *options, zero_error *error);

#ifdef __cplusplus
}
#endif
#endif
