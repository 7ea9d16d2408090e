// The group area: what the ranks of one communicator of a machine share, apart from windows. The
// job has one, and each group that it is split into. Private to local_*.c; it begins zeroed.
//
//   [zr_area: table of windows | zr_area_rank (N) | sent (N,N) | taken (N,N)]
//   [small (N,2,64K) | mail (N,2,32K)]                  whole pages
#ifndef ZR_COMM_LOCAL_AREA_H
#define ZR_COMM_LOCAL_AREA_H

#include "base/errors.h"

#include <stdatomic.h>

#define ZR_LINE 64
#define ZR_PAGE 4096
#define ZR_MAIL_BYTES 32768
#define ZR_WINDOWS 64 // of a communicator that exist at one time

typedef struct zr_window_entry { // rank 0 writes it before the ranks agree
    _Atomic int32_t users;       // ranks that have not left, and one more; 0: the entry is free
    _Atomic int32_t entered;     // ranks that had agreed on it; negative: no more may
    int64_t offset;              // in the memfd
    char *base;                  // used by threads
    // Memory of a far device that goes with the window (local_far_window.h); a rank adds its own.
    struct zr_far_region *_Atomic regions;
} zr_window_entry;

typedef struct zr_area_rank {                  // only this rank writes it
    _Alignas(ZR_LINE) _Atomic uint64_t posted; // rounds of small operations: (round, check)
    _Atomic int32_t left;                      // 1: it has destroyed its communicator of the group
} zr_area_rank;

typedef struct zr_area {
    zr_window_entry windows[ZR_WINDOWS];
    zr_area_rank ranks[]; // (N)
} zr_area;

int64_t zr_area_bytes(int ranks); // of a group of `ranks` ranks; whole pages
// Counts of chunks of mail, from one rank of the group to another.
_Atomic uint64_t *zr_area_sent(zr_area *area, int ranks, int from, int to);
_Atomic uint64_t *zr_area_taken(zr_area *area, int ranks, int from, int to);
// The two buffers of each rank.
char *zr_area_small(zr_area *area, int ranks, int rank, int parity);
char *zr_area_mail(zr_area *area, int ranks, int rank, int buffer);

#endif
