// A directory of a test's own, which is removed together with its contents.
#ifndef TESTS_BASE_SCRATCH_DIRECTORY_H
#define TESTS_BASE_SCRATCH_DIRECTORY_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/file.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct scratch {
    char directory[256];
    char path[512]; // the path that scratch_path returned last
} scratch;

static inline int scratch_open_below(void **state, const char *parent)
{
    scratch *made = calloc(1, sizeof *made);
    const char *chosen = getenv("TMPDIR");
    snprintf(made->directory, sizeof made->directory, "%s/zero-test-XXXXXX",
             chosen ? chosen : parent);
    *state = made;
    return mkdtemp(made->directory) ? 0 : -1;
}

static inline int scratch_open(void **state) { return scratch_open_below(state, "/tmp"); }

// The same for files that no disk has to see, because many are written and a disk takes its time.
static inline int scratch_in_ram(void **state)
{
    return scratch_open_below(state, access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
}

static inline int scratch_close(void **state)
{
    scratch *made = *state;
    zero_status status = zr_directory_remove(made->directory, NULL);
    free(made);
    return status == ZERO_OK ? 0 : -1;
}

static inline const char *scratch_path(scratch *made, const char *name)
{
    snprintf(made->path, sizeof made->path, "%s/%s", made->directory, name);
    return made->path;
}

static inline void scratch_write(scratch *made, const char *name, const char *text)
{
    FILE *file = fopen(scratch_path(made, name), "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
}

// Returns how many files and directories are in it, including hidden ones.
static inline int scratch_entries(const char *directory)
{
    DIR *stream = opendir(directory);
    int count = 0;
    assert_non_null(stream);
    while (readdir(stream))
        count++;
    closedir(stream);
    return count - 2; // . and ..
}

#define assert_contains(text, part)                                                                \
    do {                                                                                           \
        if (!strstr(text, part))                                                                   \
            fail_msg("\"%s\" does not contain \"%s\"", text, part);                                \
    } while (0)

#endif
