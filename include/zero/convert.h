// zero_convert: makes a model or a checkpoint from another one.
#ifndef ZERO_CONVERT_H
#define ZERO_CONVERT_H

#include <zero/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zero_convert_options {
    size_t struct_size;
    // As zero_inspect_options.path, but not a single file. If it is a run, its newest intact
    // checkpoint is taken.
    const char *from;
    const char *to; // a directory
    // "hf": a Hugging Face directory; "libzero": TO/checkpoints/step-N, from which zero_train can
    // continue; NULL: "hf".
    const char *format;
    // hf: the type of the weights, "fp32", "bf16" or "fp16". NULL: fp32, but if `from` is a Hugging
    // Face directory, the type in its files.
    const char *dtype;
    int64_t shard_bytes; // hf: the most bytes of tensors in one file; 0: 5 GB
    // The directory with config.json and the tokenizer; NULL: `from`, if they are there.
    const char *model_dir;
    // hf: 1: replaces a model that libzero wrote to `to`, provided that nothing else is in there
    // and none of it is being read.
    int overwrite;
    zero_logger logger;
    void (*progress)(void *user, int64_t done, int64_t total); // bytes; NULL: not wanted
    void *progress_user;
} zero_convert_options;

// Converts `from` into `to`. Takes one rank and a few MiB of memory, whatever the size. The result
// is either complete or absent. Checksums of what is read are verified: damage is ZERO_ERR_DATA,
// naming file and tensor. The pickles of DeepSpeed are parsed, never executed.
// Returns ZERO_ERR_USAGE if something that may not be replaced is at `to`, and ZERO_ERR_UNSUPPORTED
// for a conversion that does not exist (to make a checkpoint from a model, use zero_load_weights).
ZERO_API zero_status zero_convert(const zero_convert_options *options, zero_error *error);

#ifdef __cplusplus
}
#endif
#endif
