// Channels between two ranks (pipelines): a rank writes operands into slots, and the other one
// reads them there, in order, without a barrier.
//
//   sender     zr_channel_take (the slot is free)  writes it  zr_channel_send
//   receiver   zr_channel_receive (it has come)    reads it   zr_channel_release
//
// Where ranks share memory a slot lies once, with the sender: the receiver reads it in place, and
// may write there until it releases it; nothing is copied. Elsewhere each end has a slot of its
// own, and messages go from one to the other. A send never waits. Slots may be used in any order,
// which has to be the same at both ends.
//
// On a far device (zr_comm_use_queue) slots lie in the sender's device memory, and the queues of
// both ends use them there. What the queue was given before a send or a release comes before it:
// the comm thread tells the other end once that has ended. What it is given after a take or a
// receive comes after it.
#ifndef ZR_COMM_CHANNEL_H
#define ZR_COMM_CHANNEL_H

#include "comm/window.h"

typedef struct zr_channel_shape {
    int from, to;     // ranks of the communicator; they differ
    int slots;        // at least 1
    int64_t bytes;    // of a slot
    int64_t first;    // byte of a slot where messages begin; below `bytes`
    const char *name; // for messages: "h.5 to h.6"; outlives the channels
    bool on_host;     // the host writes and reads the slots, also of ranks on a far device
} zr_channel_shape;

typedef struct zr_channels { // of one communicator
    zero_comm *comm;
    int count;
    const zr_channel_shape *shapes; // (count), outlives the channels
    void *impl;
} zr_channels;

// Makes the channels of a communicator. Collective, between operations: all ranks pass the same
// shapes. count 0, or one rank: nothing is made. A rank may have several sets at one time.
// ZERO_ERR_INTERNAL: a shape is impossible, or not the same on all ranks; ZERO_ERR_MEMORY: a rank
// has no memory for its slots; ZERO_ERR_UNSUPPORTED: they are larger or more than MPI can number.
zero_status zr_channels_create(zero_comm *comm, const zr_channel_shape *shapes, int count,
                               zr_channels *out, zero_error *error);
void zr_channels_destroy(zr_channels *channels); // not collective; zeroed ones are fine
// Returns the bytes that rank `rank` holds for slots: of what it sends and, unless `mapped`, of
// what it receives; slots begin at multiples of 64 bytes. For plans, which know it before there are
// channels.
int64_t zr_channel_shapes_bytes(const zr_channel_shape *shapes, int count, int rank, bool mapped);
// Returns where a slot lies for this rank, which is one of the channel's ends.
char *zr_channel_at(const zr_channels *channels, int channel, int slot);
// Sender: waits until the receiver has released what the slot last held; where each end has a slot
// of its own, until that has left.
zero_status zr_channel_take(zr_channels *channels, int channel, int slot, zero_error *error);
// Sender: the slot's `bytes` from where messages begin are complete; afterwards this
// rank must not touch them.
// Counted as a message of the communicator (ZERO_COMM_send) with its bytes.
zero_status zr_channel_send(zr_channels *channels, int channel, int slot, int64_t bytes,
                            zero_error *error);
// Receiver: waits until the slot holds what was sent. Counted as a message (ZERO_COMM_recv), with
// its bytes where they were not mapped. ZERO_ERR_INTERNAL: the message has another number of bytes.
zero_status zr_channel_receive(zr_channels *channels, int channel, int slot, int64_t bytes,
                               zero_error *error);
// Receiver: the sender may write the slot again.
zero_status zr_channel_release(zr_channels *channels, int channel, int slot, zero_error *error);

#endif
