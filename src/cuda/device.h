// Memory of a card, as a device (memory/device.h).
#ifndef ZR_CUDA_DEVICE_H
#define ZR_CUDA_DEVICE_H

#include "memory/device.h"

// Of what a rank's queues and libraries are planned to take by themselves (zr_backend), the part
// that is taken when a card is open: its context and kernels.
enum { ZR_CUDA_RUNTIME_BYTES = 768 << 20, ZR_CUDA_CONTEXT_BYTES = 512 << 20 };

// Of a zr_device whose impl is a zr_cuda_card.
extern const zr_device_ops zr_cuda_device_ops;

#endif
