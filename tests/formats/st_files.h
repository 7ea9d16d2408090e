// Safetensors files for tests: raw ones made from a header and a number of data bytes, and the
// golden one of the reference implementation.
#ifndef TESTS_CHECKPOINT_ST_FILES_H
#define TESTS_CHECKPOINT_ST_FILES_H

#include "../base/scratch_directory.h"
#include "base/alloc.h"
#include "formats/safetensors.h"

#include <fcntl.h>
#include <unistd.h>

typedef struct golden_tensor {
    zr_st_entry entry;
    int64_t elements;
} golden_tensor;

// The tensors that tests/oracle/safetensors_golden.py writes. Element i is (i - 3) / 4 in floating
// types, i - 3 in signed integers, and i in bytes.
static const golden_tensor golden[] = {
    {{"transformer.wte.weight", ZERO_F32, 2, (const int64_t[]){3, 4}}, 12},
    {{"transformer.h.0.ln_1.bias", ZERO_F32, 1, (const int64_t[]){5}}, 5},
    {{"scalar", ZERO_F32, 0, NULL}, 1},
    {{"empty", ZERO_F32, 2, (const int64_t[]){0, 3}}, 0},
    {{"half", ZERO_F16, 2, (const int64_t[]){2, 5}}, 10},
    {{"brain", ZERO_BF16, 1, (const int64_t[]){7}}, 7},
    {{"double", ZERO_F64, 3, (const int64_t[]){2, 1, 3}}, 6},
    {{"int", ZERO_I32, 1, (const int64_t[]){3}}, 3},
    {{"long", ZERO_I64, 2, (const int64_t[]){2, 2}}, 4},
    {{"byte", ZERO_U8, 1, (const int64_t[]){5}}, 5},
};

static inline char *golden_read(size_t *length)
{
    char *data = NULL;
    assert_int_equal(zr_file_read(GOLDEN_FILE, 1 << 16, &data, length, NULL), ZERO_OK);
    return data;
}

// Writes a file, overwriting it in place, because on ext4 a file that is truncated to nothing and
// written again goes to the disk each time.
static inline const char *st_write_bytes(scratch *made, const char *name, const void *bytes,
                                         size_t length)
{
    int fd = open(scratch_path(made, name), O_WRONLY | O_CREAT, 0666);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, bytes, length, 0), length);
    assert_int_equal(ftruncate(fd, (off_t)length), 0);
    assert_int_equal(close(fd), 0);
    return made->path;
}

// Writes a file from the length of the header, the header, and data_bytes of zeros.
static inline const char *st_write(scratch *made, const char *name, const char *header,
                                   size_t data_bytes)
{
    uint64_t length = strlen(header);
    zr_buffer file = {0};
    zr_buffer_append(&file, &length, 8);
    zr_buffer_append(&file, header, length);
    for (size_t i = 0; i < data_bytes; i++)
        zr_buffer_append(&file, "", 1);
    st_write_bytes(made, name, file.data, file.length);
    zr_buffer_free(&file);
    return made->path;
}

#endif
