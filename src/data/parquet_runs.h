// The integers of Parquet's pages: runs (levels, indices of a dictionary) and deltas.
//
//   runs     varint n: if it is odd, n/2 groups of 8 values of `width` bits each; otherwise one
//            value of ceil(width/8) bytes, n/2 times
//   deltas   DELTA_BINARY_PACKED: the first value, then blocks of differences, which are packed in
//            miniblocks after the smallest of them is subtracted
//
// Both are read value by value, never beyond `end`.
#ifndef ZR_DATA_PARQUET_RUNS_H
#define ZR_DATA_PARQUET_RUNS_H

#include "data/parquet_thrift.h"

typedef struct zr_runs {
    zr_thrift bytes;
    int width;     // bits of a value, 0 to 32
    uint64_t left; // values of the current run
    bool packed;
    uint32_t value;      // of a run that is not packed
    const uint8_t *bits; // of a packed one
    uint64_t bit;        // position in it
} zr_runs;

zr_runs zr_runs_of(const uint8_t *data, size_t length, int width);
// Reads the next value; false if there is none.
bool zr_runs_next(zr_runs *runs, uint32_t *out);

typedef struct zr_deltas {
    zr_thrift bytes;
    uint64_t block, miniblocks; // values of a block, and its miniblocks
    uint64_t left;              // values not read yet
    uint64_t last, least;       // modulo 2^64: the value before; the smallest difference
    const uint8_t *widths;      // (miniblocks) of the current block
    uint64_t miniblock, in_miniblock;
    const uint8_t *bits; // of the current miniblock
    bool began;
} zr_deltas;

// Reads the header.
zr_deltas zr_deltas_of(const uint8_t *data, size_t length);
bool zr_deltas_next(zr_deltas *deltas, int64_t *out);
// Returns where the deltas end, and what comes after them begins; NULL if they are damaged.
const uint8_t *zr_deltas_end(zr_deltas deltas);

#endif
