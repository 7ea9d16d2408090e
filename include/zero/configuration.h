// The table of DeepSpeed configuration keys, and the flags that override a configuration file.
#ifndef ZERO_CONFIGURATION_H
#define ZERO_CONFIGURATION_H

#include <zero/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zero_override { // one flag that overrides the configuration file
    const char *key;           // "zero_optimization.stage"
    const char *value;         // as JSON: "3", "\"AdamW\""
    const char *flag;          // "--stage", for messages
} zero_override;

// How the ranks of a job are divided, as flags give it (grid.h). Each field overrides a key of the
// configuration file, and must agree with it where the file sets that key, too.
typedef struct zero_parallel {
    // Ranks that compute one model together (tensor parallelism); 0: as the configuration says.
    int tensor;
    // 1: these ranks also divide rows, Megatron's sequence parallelism; 0: as the configuration
    // says.
    int sequence_parallel;
    // Pipeline stages, ranks that compute different layers of one model; 0: as the configuration
    // says.
    int pipeline;
    // In which order they work: "1f1b", "gpipe", "interleaved:2", "zb-h1", "pipedream", "2bw"; and
    // the first units of their chunks: "0,6". NULL: as the configuration says.
    const char *schedule, *split;
} zero_parallel;

// Writes a markdown table of every configuration key and what libzero does with it;
// docs/configuration.md is its output.
ZERO_API zero_status zero_describe_configuration(void (*write)(void *user, const char *text),
                                                 void *user, zero_error *error);

// Reads a number of bytes as people write it: "24GB", "24 gb", "80G", "512 MiB", "1.5TiB", "4096".
// kB, MB, GB, TB and PB are powers of 1000; KiB, MiB, ... and K, M, G, T, P alone are powers of
// 1024; capitals do not matter. Returns -1 if the text is no such number.
ZERO_API double zero_bytes_read(const char *text);

#ifdef __cplusplus
}
#endif
#endif
