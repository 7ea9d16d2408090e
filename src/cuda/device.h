// Memory of a card, as a device (memory/device.h).
#ifndef ZR_CUDA_DEVICE_H
#define ZR_CUDA_DEVICE_H

#include "memory/device.h"

// Of a zr_device whose impl is a zr_cuda_card.
extern const zr_device_ops zr_cuda_device_ops;

#endif
