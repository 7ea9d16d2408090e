// The comm thread of a rank. It carries out what was started while the rank's own thread computes.
// Private to this room.
//
// A communicator has one such thread, which serves operations in the order in which they come; a
// group has another one than the job, so no operation waits for one of another group. All ranks
// start the same operations in the same order, so their comm threads meet in that order too. What
// the rank's own thread exchanges itself (small operands, barriers, mail) waits until the comm
// thread has nothing left to do, so that every pair of ranks sees one order of messages. Bits do
// not depend on which thread sums.
#ifndef ZR_COMM_COMM_THREAD_H
#define ZR_COMM_COMM_THREAD_H

#include "comm/window.h"

typedef struct zr_comm_thread zr_comm_thread;

zero_status zr_comm_thread_create(zr_comm_thread **out, zero_error *error);
// NULL is allowed; the thread has nothing left to do.
void zr_comm_thread_destroy(zr_comm_thread *comm_thread);
// These are called by the rank's own thread, and peers see when it waits for its comm thread (note,
// comm_ops.h).
//
// Starts an operation. The handle stays where it is until zr_comm_thread_await.
zero_status zr_comm_thread_submit(zero_comm *comm, zr_handle *handle, zero_error *error);
// Waits until the handle's operation is done; returns its status and its message.
zero_status zr_comm_thread_await(zr_handle *handle, zero_error *error);
// Waits until the comm thread has nothing left to do; a communicator without one is allowed.
void zr_comm_thread_drain(zero_comm *comm);

// A word that a rank posts once its queue has done what it was given before. Notices are posted in
// their order, which is that of the queue. They wait for the own queue alone; but an operation that
// was started before waits for peers, so channels have a communicator without windows (that of a
// pipeline).
typedef struct zr_notice {
    zero_comm *comm;
    zr_mark made;
    void (*tell)(const struct zr_notice *notice);
    _Atomic uint64_t *word;
    uint64_t value;
} zr_notice;
// Has the comm thread finish the mark and tell. The notice stays as it is until the peer has heard.
zero_status zr_comm_thread_tell(zr_notice *notice, zero_error *error);

#endif
