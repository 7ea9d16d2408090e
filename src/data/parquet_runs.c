#include "data/parquet_runs.h"

// Takes `width` bits, from bit `bit` of bits[] on, the lowest first. They must lie before `end`.
static uint64_t take_bits(const uint8_t *bits, uint64_t bit, int width)
{
    uint64_t value = 0;
    for (int done = 0; done < width;) {
        int from = (int)((bit + (uint64_t)done) % 8), count = ZR_MIN(8 - from, width - done);
        uint64_t part = bits[(bit + (uint64_t)done) / 8] >> from & ((1u << count) - 1);
        value |= part << done;
        done += count;
    }
    return value;
}

zr_runs zr_runs_of(const uint8_t *data, size_t length, int width)
{
    return (zr_runs){.bytes = {.at = data, .end = data + length}, .width = width};
}

static void begin_packed_run(zr_runs *r, uint64_t groups)
{
    size_t there = (size_t)(r->bytes.end - r->bytes.at);
    if (groups > UINT32_MAX)
        return;
    // Some writers leave out the bytes of the last group that no value needs.
    uint64_t bytes = groups * (uint64_t)r->width;
    r->left = bytes > there ? (uint64_t)there * 8 / (uint64_t)r->width : groups * 8;
    r->packed = true;
    r->bits = r->bytes.at;
    r->bit = 0;
    r->bytes.at += ZR_MIN(bytes, (uint64_t)there);
}

static void begin_repeated_run(zr_runs *r, uint64_t count)
{
    size_t width = (size_t)(r->width + 7) / 8;
    if (width > (size_t)(r->bytes.end - r->bytes.at))
        return;
    r->value = (uint32_t)take_bits(r->bytes.at, 0, (int)width * 8);
    r->bytes.at += width;
    r->packed = false;
    r->left = count;
}

bool zr_runs_next(zr_runs *r, uint32_t *out)
{
    while (!r->left) {
        if (r->bytes.at == r->bytes.end)
            return false;
        uint64_t head = zr_thrift_varint(&r->bytes);
        if (r->bytes.failed)
            return false;
        if (head & 1)
            begin_packed_run(r, head >> 1);
        else
            begin_repeated_run(r, head >> 1);
    }
    *out = r->packed ? (uint32_t)take_bits(r->bits, r->bit, r->width) : r->value;
    r->bit += (uint64_t)r->width;
    r->left--;
    return true;
}

zr_deltas zr_deltas_of(const uint8_t *data, size_t length)
{
    zr_deltas d = {.bytes = {.at = data, .end = data + length}};
    d.block = zr_thrift_varint(&d.bytes);
    d.miniblocks = zr_thrift_varint(&d.bytes);
    d.left = zr_thrift_varint(&d.bytes);
    d.last = (uint64_t)zr_thrift_zigzag(&d.bytes);
    bool right = !d.bytes.failed && d.miniblocks && d.block <= INT32_MAX &&
                 d.block % d.miniblocks == 0 && d.block / d.miniblocks % 8 == 0 && d.block;
    if (!right)
        d.bytes.failed = true;
    d.miniblock = d.miniblocks;
    return d;
}

static bool begin_block(zr_deltas *d)
{
    d->least = (uint64_t)zr_thrift_zigzag(&d->bytes);
    if (d->bytes.failed || d->miniblocks > (uint64_t)(d->bytes.end - d->bytes.at))
        return false;
    d->widths = d->bytes.at;
    d->bytes.at += d->miniblocks;
    d->miniblock = 0;
    return true;
}

static bool begin_miniblock(zr_deltas *d)
{
    if (d->miniblock == d->miniblocks && !begin_block(d))
        return false;
    uint64_t values = d->block / d->miniblocks, bytes = values / 8 * d->widths[d->miniblock];
    if (d->widths[d->miniblock] > 64 || bytes > (uint64_t)(d->bytes.end - d->bytes.at))
        return false;
    d->bits = d->bytes.at;
    d->bytes.at += bytes;
    d->in_miniblock = 0;
    return true;
}

// After the last difference of a miniblock the next one is due, which begins when it is needed.
bool zr_deltas_next(zr_deltas *d, int64_t *out)
{
    if (!d->left || d->bytes.failed)
        return false;
    if (d->began) {
        if (!d->bits && !begin_miniblock(d))
            return false;
        int width = d->widths[d->miniblock];
        d->last += d->least + take_bits(d->bits, d->in_miniblock * (uint64_t)width, width);
        if (++d->in_miniblock == d->block / d->miniblocks) {
            d->miniblock++;
            d->bits = NULL;
        }
    }
    d->began = true;
    d->left--;
    *out = (int64_t)d->last;
    return true;
}

const uint8_t *zr_deltas_end(zr_deltas d)
{
    if (d.bytes.failed)
        return NULL;
    uint64_t values = d.block / d.miniblocks;
    for (uint64_t left = d.left ? d.left - 1 : 0; left; left -= ZR_MIN(left, values)) {
        if (!begin_miniblock(&d))
            return NULL;
        d.miniblock++;
    }
    return d.bytes.at;
}
