// What kernels get: one structure by value each, ZR_ARGS_KERNEL. gcc, g++ (for the emulated driver)
// and NVRTC read its declaration, and each checks that it has no gaps, so that all lay it out
// alike: members of eight bytes come first, and those of four in pairs.
//
//   #define ZR_ARGS_add(P, V, S, R)  P(const void, x) V(int64_t, n) ...
//
// P(type, name): an address in memory that the device reaches; V(type, name): a value; S(type,
// name, count): an array of such addresses; R(type, name, count): an array of values.
#ifndef ZR_CUDA_ARGS_H
#define ZR_CUDA_ARGS_H

#ifdef __CUDACC_RTC__ // which has no headers of C
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
typedef unsigned long long uintptr_t;
#define ZR_ARGS_ASSERT static_assert
#else
#include <stdint.h>
#ifdef __cplusplus
#define ZR_ARGS_ASSERT static_assert
#else
#define ZR_ARGS_ASSERT _Static_assert
#endif
#endif

// Types of elements, numbered as zero_dtype is (launch.h checks it).
enum zr_kernel_type { ZR_TYPE_F32 = 0, ZR_TYPE_BF16 = 1, ZR_TYPE_F16 = 2, ZR_TYPE_U8 = 6 };

#define ZR_ARGS_ADDRESS(type, name) type *name;
#define ZR_ARGS_VALUE(type, name) type name;
#define ZR_ARGS_ADDRESSES(type, name, count) type *name[count];
#define ZR_ARGS_VALUES(type, name, count) type name[count];
#define ZR_ARGS_BYTES_OF_ADDRESS(type, name) +sizeof(void *)
#define ZR_ARGS_BYTES_OF_VALUE(type, name) +sizeof(type)
#define ZR_ARGS_BYTES_OF_ADDRESSES(type, name, count) +(count) * sizeof(void *)
#define ZR_ARGS_BYTES_OF_VALUES(type, name, count) +(count) * sizeof(type)

// Declares the structure zr_KERNEL_args.
#define ZR_ARGS_DECLARE(kernel)                                                                    \
    typedef struct zr_##kernel##_args {                                                            \
        ZR_ARGS_##kernel(ZR_ARGS_ADDRESS, ZR_ARGS_VALUE, ZR_ARGS_ADDRESSES, ZR_ARGS_VALUES)        \
    } zr_##kernel##_args;                                                                          \
    ZR_ARGS_ASSERT(sizeof(zr_##kernel##_args) ==                                                   \
                       0 ZR_ARGS_##kernel(ZR_ARGS_BYTES_OF_ADDRESS, ZR_ARGS_BYTES_OF_VALUE,        \
                                          ZR_ARGS_BYTES_OF_ADDRESSES, ZR_ARGS_BYTES_OF_VALUES),    \
                   "the structure of " #kernel " has gaps");                                       \
    ZR_ARGS_ASSERT(sizeof(zr_##kernel##_args) <= 4096, "the structure of " #kernel " is too "      \
                                                       "large");

#endif
