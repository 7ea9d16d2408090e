// Devices: where memory comes from that operations compute on.
//
// Memory is of one of three kinds. The host reads and writes what is its own, and pinned memory,
// which the queues of a device (compute.h) can copy from and to. Memory of a device belongs to its
// queues: on a far device the host can neither read nor write it, and work that a queue was given
// may run after the call has returned. On "host", the device of the CPU, all three kinds are the
// host's memory, and every call has finished when it returns.
//
// Rules, on every device (docs/devices.md):
//   1. All memory of a training is reserved when its engine is made, and none in a step.
//   2. The host touches device memory only through operations, and pinned memory that an operation
//      writes only after a finish (zr_mark_finish) that covers it.
//   3. Nobody relies on what fresh memory of a device holds.
#ifndef ZR_MEMORY_DEVICE_H
#define ZR_MEMORY_DEVICE_H

#include "base/errors.h"

typedef enum zr_memory {
    ZR_MEMORY_HOST,
    ZR_MEMORY_PINNED,
    ZR_MEMORY_DEVICE,
    ZR_MEMORY_KINDS
} zr_memory;

const char *zr_memory_name(zr_memory kind); // "host", "pinned", "device"

typedef struct zr_device zr_device;

// Names memory of a device to another rank of this machine. Its content is the device's own.
typedef struct zr_share {
    unsigned char bytes[64];
} zr_share;

typedef struct zr_device_ops {
    const char *name; // "host"
    // The host cannot read device memory, and work goes on after a call has returned.
    bool far;
    // Of what is reserved: a power of two, at least 64.
    size_t align;
    // Reserves memory (0 bytes are allowed). That of the host and pinned memory is zeroed and
    // touched; what fresh device memory holds is not defined. ZERO_ERR_MEMORY says what is left.
    zero_status (*reserve)(zr_device *device, zr_memory kind, size_t bytes, void **out,
                           zero_error *error);
    void (*release)(zr_device *device, zr_memory kind, void *at, size_t bytes); // NULL is allowed
    // Makes a range of the host's memory pinned, until unpin.
    zero_status (*pin)(zr_device *device, void *at, size_t bytes, zero_error *error);
    void (*unpin)(zr_device *device, void *at, size_t bytes);
    // Lets other ranks of this machine reach device memory that was reserved here, and reaches
    // theirs: *out is valid for this rank's queues until detach. The owner releases last.
    zero_status (*share)(zr_device *device, const void *at, zr_share *out, zero_error *error);
    zero_status (*attach)(zr_device *device, const zr_share *share, void **out, zero_error *error);
    void (*detach)(zr_device *device, void *at);
    void (*free_bytes)(zr_device *device, int64_t *unused, int64_t *all);
} zr_device_ops;

struct zr_device {
    const zr_device_ops *ops;
    void *impl;
};

// Returns the device of the CPU.
zr_device *zr_device_host(void);
static inline bool zr_device_is_far(const zr_device *device) { return device->ops->far; }

#endif
