// Files of the user's cache: ~/.cache/libzero, or libzero below XDG_CACHE_HOME. What is in them was
// measured, and can be measured again.
#ifndef ZR_BASE_USER_CACHE_H
#define ZR_BASE_USER_CACHE_H

#include "base/errors.h"

// Returns the path of a file of the cache (zr_free), which need not exist. `what` is said of its
// content: "bandwidths". ZERO_ERR_USAGE: there is no place for it; ZERO_ERR_MEMORY.
zero_status zr_user_cache_file(const char *name, const char *what, char **file, zero_error *error);
// Creates the directory of such a file.
zero_status zr_user_cache_reserve(const char *file, zero_error *error);

#endif
