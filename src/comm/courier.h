// The communication thread of a rank: carries out what was started while the rank's own thread
// computes.
//
// One thread, first come first served: since all ranks start the same operations in the same order,
// their couriers meet in that order too. What the rank's own thread exchanges itself (small
// operands, barriers, mail) waits until the courier has nothing left to do, so that every pair of
// ranks sees one order of messages. Bits do not depend on who sums.
#ifndef ZR_COMM_COURIER_H
#define ZR_COMM_COURIER_H

#include "comm/window.h"

typedef struct zr_courier zr_courier;

zero_status zr_courier_create(zr_courier **out, zero_error *error);
void zr_courier_destroy(zr_courier *courier); // NULL is allowed; has nothing left to do
// By the rank's own thread, whose waits for its courier the peers see (note, comm_ops.h):
// The handle stays where it is until zr_courier_await.
zero_status zr_courier_submit(zero_comm *comm, zr_handle *handle, zero_error *error);
// Until the handle's operation is done; its status, and its message.
zero_status zr_courier_await(zr_handle *handle, zero_error *error);
void zr_courier_drain(zero_comm *comm); // a communicator without a courier is allowed

#endif
