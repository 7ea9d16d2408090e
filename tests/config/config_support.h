// What the tests of config/ share: it parses and resolves a text in one call, and remembers what
// was logged.
#ifndef ZR_TESTS_CONFIG_SUPPORT_H
#define ZR_TESTS_CONFIG_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
// cmocka needs the four headers above.
#include <cmocka.h>

#include "config/config.h"

#define FACTS .world = 4, .micro_batch = 2

typedef struct recorder {
    char lines[16384];
    zero_logger logger;
} recorder;

static inline void record(void *user, zero_log_level level, const char *message)
{
    recorder *to = user;
    size_t used = strlen(to->lines);
    snprintf(to->lines + used, sizeof to->lines - used, "%s%s\n",
             level == ZERO_LOG_WARNING ? "warning: " : "", message);
}

static inline void recorder_begin(recorder *to)
{
    to->lines[0] = 0;
    to->logger = (zero_logger){record, to};
}

// Returns NULL if the text is refused; `error` then has the reason.
static inline zr_config *parsed(const char *text, zero_error *error)
{
    zr_config *config;
    *error = (zero_error){ZERO_OK, ""};
    zero_status status = zr_config_parse(text, strlen(text), "ds.json", &config, error);
    assert_int_equal(status == ZERO_OK, config != NULL);
    if (config && (status = zr_config_refuse_unknown(config, NULL, error)) != ZERO_OK) {
        zr_config_destroy(config);
        config = NULL;
    }
    if (status != ZERO_OK)
        assert_int_equal(status, error->status);
    return config;
}

static inline zr_config *resolved(const char *text, const zr_config_facts *facts, recorder *to,
                                  zero_error *error)
{
    zr_config *config = parsed(text, error);
    recorder_begin(to);
    if (config && zr_config_resolve(config, facts, &to->logger, error) != ZERO_OK) {
        zr_config_destroy(config);
        config = NULL;
    }
    return config;
}

static inline zr_config *resolved_well(const char *text, const zr_config_facts *facts, recorder *to)
{
    zero_error error;
    zr_config *config = resolved(text, facts, to, &error);
    if (!config)
        fail_msg("%s: %s", text, error.message);
    return config;
}

#define assert_contains(text, part)                                                                \
    do {                                                                                           \
        if (!strstr((text), (part)))                                                               \
            fail_msg("\"%s\" does not contain \"%s\"", (text), (part));                            \
    } while (0)

#define assert_lacks(text, part)                                                                   \
    do {                                                                                           \
        if (strstr((text), (part)))                                                                \
            fail_msg("\"%s\" contains \"%s\"", (text), (part));                                    \
    } while (0)

// Writes a JSON text that gives `value` (JSON) to the key `path`.
static inline void nest(const char *path, const char *value, char *out, size_t bytes)
{
    size_t used = (size_t)snprintf(out, bytes, "{");
    int depth = 1;
    for (const char *dot = strchr(path, '.'); dot; path = dot + 1, dot = strchr(path, '.'), depth++)
        used += (size_t)snprintf(out + used, bytes - used, "\"%.*s\": {", (int)(dot - path), path);
    used += (size_t)snprintf(out + used, bytes - used, "\"%s\": %s", path, value);
    while (depth--)
        used += (size_t)snprintf(out + used, bytes - used, "}");
}

#endif
