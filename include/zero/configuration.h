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
