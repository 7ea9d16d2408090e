// The DeepSpeed configuration as a table, and flags that win over a file.
#ifndef ZERO_CONFIGURATION_H
#define ZERO_CONFIGURATION_H

#include <zero/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zero_override { // one flag that wins over the configuration file
    const char *key;           // "zero_optimization.stage"
    const char *value;         // as JSON: "3", "\"AdamW\""
    const char *flag;          // "--stage", for messages
} zero_override;

// The markdown table of every configuration key and what becomes of it (docs/configuration.md is
// its output).
ZERO_API zero_status zero_describe_configuration(void (*write)(void *user, const char *text),
                                                 void *user, zero_error *error);

#ifdef __cplusplus
}
#endif
#endif
