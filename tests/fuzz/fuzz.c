// What all targets share: the directory of their files, and libFuzzer's entry point.
#define _GNU_SOURCE
#include "fuzz.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

static char directory[256], path[512];

static void remove_directory(void) { zr_directory_remove(directory, NULL); }

const char *fuzz_directory(void)
{
    if (directory[0])
        return directory;
    const char *parent = access("/dev/shm", W_OK) ? getenv("TMPDIR") : "/dev/shm";
    snprintf(directory, sizeof directory, "%s/zero-fuzz-XXXXXX", parent ? parent : "/tmp");
    fuzz_must(mkdtemp(directory));
    atexit(remove_directory);
    return directory;
}

const char *fuzz_put(const char *name, const void *data, size_t size)
{
    snprintf(path, sizeof path, "%s/%s", fuzz_directory(), name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    fuzz_must(fd >= 0);
    fuzz_must(write(fd, data, size) == (ssize_t)size);
    close(fd);
    return path;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    zero_error error = {ZERO_OK, ""};
    zero_status status = fuzz_one(data, size, &error);
    fuzz_must(status == ZERO_OK || (error.status == status && error.message[0]));
    fuzz_must(status != ZERO_ERR_INTERNAL);
    return 0;
}
