// Who computes with a communicator. It counts messages and traffic, knows a step and is recorded
// for one engine; two of them would find each other's messages in their own. So an engine attaches
// itself before it uses the communicator, and a second one is refused until the first has detached
// itself.
#ifndef ZR_COMM_ATTACH_H
#define ZR_COMM_ATTACH_H

#include "base/recorder.h"
#include "comm/communicator.h"

// Sums and copies use so many threads, or one under a courier. ZERO_ERR_USAGE where another engine
// is attached. Not collective.
zero_status zr_comm_attach(zero_comm *comm, int threads, zero_error *error);
void zr_comm_detach(zero_comm *comm); // also ends what is recorded
// What records collectives and waits from here on; NULL: nothing does. By the engine that is
// attached.
void zr_comm_record(zero_comm *comm, zr_recorder *recorder);

#endif
