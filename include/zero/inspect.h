// zero_inspect: describes checkpoints and models on disk.
#ifndef ZERO_INSPECT_H
#define ZERO_INSPECT_H

#include <zero/bench.h> // this and the next three were declared here once
#include <zero/configuration.h>
#include <zero/doctor.h>
#include <zero/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zero_inspect_options {
    size_t struct_size;
    // A checkpoint, a run (--out), a Hugging Face directory, a file *.safetensors, or a DeepSpeed
    // checkpoint (ZeRO 1 to 3).
    const char *path;
    // 1: reads every tensor, and writes its minimum, maximum, mean and root mean square, how many
    // values are NaN or infinite, and the CRC32C of its bytes.
    int sums;
    // 1: reads every byte that has a checksum; of a run, those of all checkpoints that it keeps.
    int verify;
    int json; // 1: writes one JSON object, on one line
} zero_inspect_options;

// Describes `path` through `write`: its step, lineage, schedule and tensors. Takes one rank and one
// block of memory. With `verify` it lists damage with file, tensor and bytes, and then returns
// ZERO_ERR_DATA.
ZERO_API zero_status zero_inspect(const zero_inspect_options *options,
                                  void (*write)(void *user, const char *text), void *user,
                                  zero_error *error);

#ifdef __cplusplus
}
#endif
#endif
