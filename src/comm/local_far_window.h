// Memory of a far device that the ranks of a machine reach: the regions of symmetric windows, and
// the slots of channels. Private to local_*.c.
#ifndef ZR_COMM_LOCAL_FAR_WINDOW_H
#define ZR_COMM_LOCAL_FAR_WINDOW_H

#include "comm/local_window.h"

// A region that was reserved, in the list of its window.
typedef struct zr_far_region {
    struct zr_far_region *next;
    char *at;
    int64_t bytes;
} zr_far_region;

// Reserves this rank's own region, and adds it to the window's. bytes(N): of the regions of all
// ranks. *out is to be freed also where this fails.
zero_status zr_far_regions_reserve(zero_comm *comm, zr_window_entry *entry, const int64_t *bytes,
                                   zr_far_regions **out, zero_error *error);
// Collective: finds the regions of the others.
zero_status zr_far_regions_attach(zr_far_regions *regions, zero_error *error);
// Before this rank leaves the window, also where one of these has failed. NULL is allowed.
void zr_far_regions_detach(const zr_far_regions *regions);
// By the last rank that leaves the window: until then others may reach any region.
void zr_far_regions_release(zero_comm *comm, zr_far_region *all);

#endif
