// What lies on disk: a look into checkpoints and models.
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
    // a checkpoint, a run (--out), a Hugging Face directory, a file *.safetensors, or a DeepSpeed
    // checkpoint (ZeRO 1 to 3)
    const char *path;
    // reads every tensor: least, most, mean, root mean square, numbers that are none, CRC32C of the
    // bytes
    int sums;
    // reads every byte that has a checksum; of a run, of all checkpoints that are kept
    int verify;
    int json; // one object, on one line
} zero_inspect_options;

// Writes what it is through `write`: step, lineage, schedule, tensors. One rank, one block of
// memory. With verify, damage is listed with file, tensor and bytes, and the answer is
// ZERO_ERR_DATA.
ZERO_API zero_status zero_inspect(const zero_inspect_options *options,
                                  void (*write)(void *user, const char *text), void *user,
                                  zero_error *error);

#ifdef __cplusplus
}
#endif
#endif
