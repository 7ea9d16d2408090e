// Memory of a far device that the ranks of a machine reach: the regions of symmetric windows, and
// the slots of channels. Private to local_*.c.
#ifndef ZR_COMM_LOCAL_FAR_WINDOW_H
#define ZR_COMM_LOCAL_FAR_WINDOW_H

#include "comm/local_window.h"

// Reserves this rank's own region. bytes(N): of the regions of all ranks. *out is to be released
// also where this fails.
zero_status zr_far_regions_reserve(zero_comm *comm, const int64_t *bytes, zr_far_regions **out,
                                   zero_error *error);
// Collective: finds the regions of the others.
zero_status zr_far_regions_attach(zr_far_regions *regions, zero_error *error);
// Undo both, also where one of them has failed: detach before this rank leaves the window that the
// regions go with, release afterwards; last: all ranks have left it. NULL is allowed.
void zr_far_regions_detach(const zr_far_regions *regions);
void zr_far_regions_release(zr_far_regions *regions, bool last);

#endif
