// Files of gzip and zstd: what comes out is whole, or the file is refused.
#include "fuzz.h"

#include "data/unpack.h"

zero_status fuzz_one(const uint8_t *data, size_t size, zero_error *error)
{
    zr_mapped_file file, packed = {.data = (const char *)data, .length = size};
    zero_status status = zr_unpack("x", &packed, NULL, &file, error);
    fuzz_must(status == ZERO_OK ? !file.data == !file.length : !file.data);
    uint32_t sum = zr_crc32c(0, file.data, file.length); // every byte can be read
    (void)sum;
    zr_file_unmap(&file);
    return status;
}
