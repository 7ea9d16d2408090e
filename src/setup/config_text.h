// The text of a configuration file, read once: a job may resolve it more than once, and it may be a pipe.
#ifndef ZR_SETUP_CONFIG_TEXT_H
#define ZR_SETUP_CONFIG_TEXT_H

#include "base/errors.h"

// path NULL: *text NULL. ZERO_ERR_CONFIG for what is there and cannot be one; zr_free(*text).
zero_status zr_config_text_read(const char *path, char **text, size_t *length, zero_error *error);

#endif
