// The table that an implementation of channels fills, and what implementations share. Private to
// this room: all others call what channel.h declares.
//
// An implementation only exchanges. Ends, slots and byte counts are checked in channel.c, which
// also counts messages and reports failures to the others.
#ifndef ZR_COMM_CHANNEL_OPS_H
#define ZR_COMM_CHANNEL_OPS_H

#include "base/errors.h"
#include "comm/channel.h"

#include <stdio.h>

#define ZR_CHANNEL_ALIGN 64 // bytes; where slots begin
#define ZR_CHANNEL_LABEL 96 // bytes of what messages call a slot

typedef struct zr_channel_ops {
    // Collective. The ranks have compared their shapes; there is at least one, and more than one
    // rank. Fails on all ranks.
    zero_status (*create)(zr_channels *channels, zero_error *error);
    void (*destroy)(zr_channels *channels);
    char *(*at)(const zr_channels *channels, int channel, int slot);
    zero_status (*take)(zr_channels *channels, int channel, int slot, zero_error *error);
    zero_status (*send)(zr_channels *channels, int channel, int slot, int64_t bytes,
                        zero_error *error);
    // bytes: of the message that has come.
    zero_status (*receive)(zr_channels *channels, int channel, int slot, int64_t *bytes,
                           zero_error *error);
    zero_status (*release)(zr_channels *channels, int channel, int slot, zero_error *error);
} zr_channel_ops;

// Returns the bytes from one slot to the next.
static inline int64_t zr_channel_stride(const zr_channel_shape *shape)
{
    return ZR_ROUND_UP(shape->bytes, ZR_CHANNEL_ALIGN);
}

// Writes what messages call a slot: "h.5 to h.6, slot 1".
static inline void zr_channel_label(const zr_channels *channels, int channel, int slot,
                                    char out[ZR_CHANNEL_LABEL])
{
    snprintf(out, ZR_CHANNEL_LABEL, "%s, slot %d", channels->shapes[channel].name, slot);
}

#endif
