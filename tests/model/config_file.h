// A directory of the test's own, and the path of a config.json in it.
#ifndef TESTS_MODEL_CONFIG_FILE_H
#define TESTS_MODEL_CONFIG_FILE_H

#include "base/file.h"

#include <stdio.h>
#include <stdlib.h>

static char directory[] = "/tmp/zero-config-XXXXXX";
static char path[64];

static inline int config_file_begin(void **state)
{
    if (!mkdtemp(directory))
        return -1;
    snprintf(path, sizeof path, "%s/config.json", directory);
    return 0;
}

static inline int config_file_end(void **state) { return zr_directory_remove(directory, NULL); }

#endif
