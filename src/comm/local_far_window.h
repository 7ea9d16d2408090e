// Windows of the local communicator on a far device. Private to local_*.c.
#ifndef ZR_COMM_LOCAL_FAR_WINDOW_H
#define ZR_COMM_LOCAL_FAR_WINDOW_H

#include "comm/local_window.h"

// Reserves this rank's own region.
zero_status zr_far_window_reserve(zr_window *window, zero_error *error);
zero_status zr_far_window_attach(zr_window *window, zero_error *error);
// Undo both, also where one of them has failed: detach before this rank leaves the window, release
// afterwards; last: all ranks have left it.
void zr_far_window_detach(zr_window *window);
void zr_far_window_release(zr_window *window, bool last);

#endif
