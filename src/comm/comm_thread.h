// The communication thread of a rank. It carries out what was started while the rank's own thread
// computes.
//
// A communicator has one such thread, which serves operations in the order in which they come; a
// group's is another one than the job's, so no operation waits for one of another group. All ranks
// start the same operations in the same order, so their comm threads meet in that order too. What
// the rank's own thread exchanges itself (small operands, barriers, mail) waits until the comm
// thread has nothing left to do, so that every pair of ranks sees one order of messages. Bits do
// not depend on which thread sums.
#ifndef ZR_COMM_COMM_THREAD_H
#define ZR_COMM_COMM_THREAD_H

#include "comm/window.h"

typedef struct zr_comm_thread zr_comm_thread;

zero_status zr_comm_thread_create(zr_comm_thread **out, zero_error *error);
void zr_comm_thread_destroy(
    zr_comm_thread *comm_thread); // NULL is allowed; it has nothing left to do
// These are called by the rank's own thread, and peers see when it waits for its comm thread (note,
// comm_ops.h).
//
// Starts an operation. The handle stays where it is until zr_comm_thread_await.
zero_status zr_comm_thread_submit(zero_comm *comm, zr_handle *handle, zero_error *error);
// Waits until the handle's operation is done; returns its status and its message.
zero_status zr_comm_thread_await(zr_handle *handle, zero_error *error);
// Waits until the comm thread has nothing left to do; a communicator without one is allowed.
void zr_comm_thread_drain(zero_comm *comm);

#endif
