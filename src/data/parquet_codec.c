#include "data/parquet_codec.h"
#include "data/unpack.h"

static zero_status unpack_snappy(const void *data, size_t length, void *out, size_t room,
                                 const char *name, zero_error *error)
{
    return zr_snappy_unpack(data, length, out, room)
               ? ZERO_OK
               : zr_fail(error, ZERO_ERR_DATA, "%s: a page is damaged (snappy)", name);
}

// The codecs of a footer, by number. The last two are read if the program has their libraries.
static const struct {
    const char *name;
    zero_status (*unpack)(const void *data, size_t length, void *out, size_t room, const char *name,
                          zero_error *error);
} codecs[] = {
    [1] = {"snappy", unpack_snappy},
    [2] = {"gzip",
#ifdef ZR_DATA_ZLIB
           zr_unpack_gzip_block
#endif
    },
    [3] = {"LZO"},
    [4] = {"Brotli"},
    [5] = {"LZ4"},
    [6] = {"zstd",
#ifdef ZR_DATA_ZSTD
           zr_unpack_zstd_block
#endif
    },
    [7] = {"LZ4 (raw)"},
};

zero_status zr_parquet_unpack(int codec, const void *data, size_t length, void *out, size_t room,
                              const char *name, zero_error *error)
{
    bool known = codec > 0 && codec < ZR_COUNT(codecs);
    if (known && codecs[codec].unpack)
        return codecs[codec].unpack(data, length, out, room, name, error);
    return zr_fail(error, ZERO_ERR_UNSUPPORTED,
                   "%s: its pages are compressed by %s, which %s: write the file anew with snappy, "
                   "gzip or zstd, or none",
                   name, known ? codecs[codec].name : "a codec of a later version",
                   codec == 2 || codec == 6 ? "this program was built without" : "is not built");
}
