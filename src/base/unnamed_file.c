#define _GNU_SOURCE
#include "base/alloc.h"
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

// Most files of one prefix that a process leaves linked at the same moment.
#define MOST_NUMBERS 1000

static int make_name(const char *prefix, int number, char **name)
{
    zr_free(*name);
    *name = zr_sprintf(NULL, "%s.%d", prefix, number);
    return *name ? 0 : ENOMEM;
}

// Opens a file that is linked until it is open, where the file system has no O_TMPFILE. Returns an
// errno, or 0.
static int open_named(const char *prefix, int number, char **name, int *fd)
{
    int reason = EEXIST;
    for (int i = 0; i < MOST_NUMBERS && reason == EEXIST; i++) {
        reason = make_name(prefix, number + i, name);
        if (reason)
            return reason;
        *fd = open(*name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        reason = *fd < 0 ? errno : 0;
    }
    if (!reason && unlink(*name)) {
        reason = errno;
        close(*fd);
    }
    return reason;
}

int zr_file_open_unnamed(const char *directory, const char *prefix, int number, char **name,
                         int *fd)
{
    *name = NULL;
    int reason = make_name(prefix, number, name);
    if (!reason) {
        *fd = open(directory, O_TMPFILE | O_RDWR | O_EXCL | O_CLOEXEC, 0600);
        reason = *fd < 0 ? open_named(prefix, number, name, fd) : 0;
    }
    if (reason) {
        zr_free(*name);
        *name = NULL;
    }
    return reason;
}
