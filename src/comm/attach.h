// Which engine computes with a communicator. A communicator counts messages and traffic, knows a
// step and is recorded for one engine; two engines would find each other's messages among their
// own. So an engine attaches itself before it uses the communicator, and a second one is refused
// until the first has detached itself.
#ifndef ZR_COMM_ATTACH_H
#define ZR_COMM_ATTACH_H

#include "base/recorder.h"
#include "comm/communicator.h"

// Attaches an engine. Sums and copies use `threads` threads, or one under a comm thread.
// ZERO_ERR_USAGE: another engine is attached. Not collective.
zero_status zr_comm_attach(zero_comm *comm, int threads, zero_error *error);
void zr_comm_detach(zero_comm *comm); // also ends recording
// Sets what records collectives and waits from now on; NULL: nothing does. Called by the attached
// engine.
void zr_comm_record(zero_comm *comm, zr_recorder *recorder);

#endif
