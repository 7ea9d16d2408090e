// The functions of NVIDIA's driver (libcuda.so.1) that are called, with their types and constants.
// They are declared here, so that neither building nor running needs CUDA's headers; the library
// is loaded where a program starts. CUDA 12 and 13 are alike in all of them.
#ifndef ZR_DRIVER_API_H
#define ZR_DRIVER_API_H

#include <stddef.h>
#include <stdint.h>

typedef unsigned zr_cuda_result;            // 0: no error
typedef int zr_cuda_device;                 // its number
typedef unsigned long long zr_cuda_address; // in the memory of a device, or of the host once pinned
typedef struct CUctx_st *zr_cuda_context;
typedef struct CUstream_st *zr_cuda_stream;
typedef struct CUevent_st *zr_cuda_event;
typedef struct CUmod_st *zr_cuda_module;
typedef struct CUfunc_st *zr_cuda_function;
typedef struct CUgraph_st *zr_cuda_graph;
typedef struct CUgraphExec_st *zr_cuda_graph_exec;

// X(NAME, VALUE): ZR_NAME is a constant of that value.
#define ZR_CUDA_CONSTANTS(X)                                                                       \
    X(CUDA_SUCCESS, 0)                                                                             \
    X(CUDA_ERROR_INVALID_VALUE, 1)                                                                 \
    X(CUDA_ERROR_OUT_OF_MEMORY, 2)                                                                 \
    X(CUDA_ERROR_NOT_INITIALIZED, 3)                                                               \
    X(CUDA_ERROR_NO_DEVICE, 100)                                                                   \
    X(CUDA_ERROR_INVALID_DEVICE, 101)                                                              \
    X(CUDA_ERROR_INVALID_IMAGE, 200)                                                               \
    X(CUDA_ERROR_INVALID_CONTEXT, 201)                                                             \
    X(CUDA_ERROR_INVALID_HANDLE, 400)                                                              \
    X(CUDA_ERROR_NOT_FOUND, 500)                                                                   \
    X(CUDA_ERROR_NOT_READY, 600)                                                                   \
    X(CUDA_ERROR_ILLEGAL_ADDRESS, 700)                                                             \
    X(CUDA_ERROR_LAUNCH_TIMEOUT, 702)                                                              \
    X(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, 712)                                              \
    X(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, 713)                                                  \
    X(CUDA_ERROR_LAUNCH_FAILED, 719)                                                               \
    X(CUDA_ERROR_UNKNOWN, 999)                                                                     \
    X(CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 13)                                                          \
    X(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 16)                                                \
    X(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 36)                                                   \
    X(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 37)                                             \
    X(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 38)                                                       \
    X(CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 40)                                                  \
    X(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 75)                                            \
    X(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 76)                                            \
    X(CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, 88)                                              \
    X(CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 91)                             \
    X(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 97)                                   \
    X(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 2)                                                         \
    X(CU_MEMORYTYPE_HOST, 1)                                                                       \
    X(CU_MEMORYTYPE_DEVICE, 2)                                                                     \
    X(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, 3)                                                       \
    X(CU_FUNC_ATTRIBUTE_NUM_REGS, 4)                                                               \
    X(CU_STREAM_NON_BLOCKING, 1)                                                                   \
    X(CU_STREAM_WAIT_VALUE_GEQ, 0)                                                                 \
    X(CU_STREAM_WRITE_VALUE_DEFAULT, 0)                                                            \
    X(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, 1)                                                      \
    X(CU_EVENT_DEFAULT, 0)                                                                         \
    X(CU_EVENT_DISABLE_TIMING, 2)                                                                  \
    X(CU_MEMHOSTALLOC_PORTABLE, 1)                                                                 \
    X(CU_MEMHOSTALLOC_DEVICEMAP, 2)                                                                \
    X(CU_MEMHOSTREGISTER_PORTABLE, 1)                                                              \
    X(CU_MEMHOSTREGISTER_DEVICEMAP, 2)

#define ZR_CUDA_CONSTANT(name, value) ZR_##name = value,
enum { ZR_CUDA_CONSTANTS(ZR_CUDA_CONSTANT) };
#undef ZR_CUDA_CONSTANT

// X(NAME, OLDER, PARAMETERS): a function that returns a zr_cuda_result; OLDER names the same in
// drivers that do not have NAME yet, or is NULL.
#define ZR_CUDA_FUNCTIONS(X)                                                                       \
    X(cuInit, NULL, (unsigned flags))                                                              \
    X(cuGetErrorString, NULL, (zr_cuda_result error, const char **text))                           \
    X(cuDriverGetVersion, NULL, (int *version))                                                    \
    X(cuDeviceGetCount, NULL, (int *count))                                                        \
    X(cuDeviceGet, NULL, (zr_cuda_device * device, int number))                                    \
    X(cuDeviceGetName, NULL, (char *name, int bytes, zr_cuda_device device))                       \
    X(cuDeviceGetAttribute, NULL, (int *value, unsigned attribute, zr_cuda_device device))         \
    X(cuDevicePrimaryCtxRetain, NULL, (zr_cuda_context * context, zr_cuda_device device))          \
    X(cuDevicePrimaryCtxRelease_v2, NULL, (zr_cuda_device device))                                 \
    X(cuCtxSetCurrent, NULL, (zr_cuda_context context))                                            \
    X(cuMemGetInfo_v2, NULL, (size_t * unused, size_t * all))                                      \
    X(cuMemAlloc_v2, NULL, (zr_cuda_address * at, size_t bytes))                                   \
    X(cuMemFree_v2, NULL, (zr_cuda_address at))                                                    \
    X(cuMemHostAlloc, NULL, (void **at, size_t bytes, unsigned flags))                             \
    X(cuMemFreeHost, NULL, (void *at))                                                             \
    X(cuMemHostRegister_v2, NULL, (void *at, size_t bytes, unsigned flags))                        \
    X(cuMemHostUnregister, NULL, (void *at))                                                       \
    X(cuMemHostGetDevicePointer_v2, NULL, (zr_cuda_address * at, void *host, unsigned flags))      \
    X(cuPointerGetAttribute, NULL, (void *value, unsigned attribute, zr_cuda_address at))          \
    X(cuMemcpyAsync, NULL,                                                                         \
      (zr_cuda_address to, zr_cuda_address from, size_t bytes, zr_cuda_stream stream))             \
    X(cuMemsetD8Async, NULL,                                                                       \
      (zr_cuda_address to, unsigned char value, size_t bytes, zr_cuda_stream stream))              \
    X(cuStreamCreate, NULL, (zr_cuda_stream * stream, unsigned flags))                             \
    X(cuStreamDestroy_v2, NULL, (zr_cuda_stream stream))                                           \
    X(cuStreamSynchronize, NULL, (zr_cuda_stream stream))                                          \
    X(cuStreamWaitEvent, NULL, (zr_cuda_stream stream, zr_cuda_event event, unsigned flags))       \
    X(cuStreamWaitValue64_v2, NULL,                                                                \
      (zr_cuda_stream stream, zr_cuda_address at, uint64_t value, unsigned flags))                 \
    X(cuStreamWriteValue64_v2, NULL,                                                               \
      (zr_cuda_stream stream, zr_cuda_address at, uint64_t value, unsigned flags))                 \
    X(cuStreamBeginCapture_v2, NULL, (zr_cuda_stream stream, unsigned mode))                       \
    X(cuStreamEndCapture, NULL, (zr_cuda_stream stream, zr_cuda_graph * graph))                    \
    X(cuEventCreate, NULL, (zr_cuda_event * event, unsigned flags))                                \
    X(cuEventDestroy_v2, NULL, (zr_cuda_event event))                                              \
    X(cuEventRecord, NULL, (zr_cuda_event event, zr_cuda_stream stream))                           \
    X(cuEventQuery, NULL, (zr_cuda_event event))                                                   \
    X(cuEventSynchronize, NULL, (zr_cuda_event event))                                             \
    X(cuEventElapsedTime_v2, "cuEventElapsedTime",                                                 \
      (float *milliseconds, zr_cuda_event from, zr_cuda_event to))                                 \
    X(cuModuleLoadData, NULL, (zr_cuda_module * module, const void *image))                        \
    X(cuModuleUnload, NULL, (zr_cuda_module module))                                               \
    X(cuModuleGetFunction, NULL,                                                                   \
      (zr_cuda_function * function, zr_cuda_module module, const char *name))                      \
    X(cuFuncGetAttribute, NULL, (int *value, unsigned attribute, zr_cuda_function function))       \
    X(cuLaunchKernel, NULL,                                                                        \
      (zr_cuda_function function, unsigned blocks_x, unsigned blocks_y, unsigned blocks_z,         \
       unsigned threads_x, unsigned threads_y, unsigned threads_z, unsigned shared_bytes,          \
       zr_cuda_stream stream, void **arguments, void **extra))                                     \
    X(cuGraphInstantiateWithFlags, NULL,                                                           \
      (zr_cuda_graph_exec * exec, zr_cuda_graph graph, unsigned long long flags))                  \
    X(cuGraphLaunch, NULL, (zr_cuda_graph_exec exec, zr_cuda_stream stream))                       \
    X(cuGraphExecDestroy, NULL, (zr_cuda_graph_exec exec))                                         \
    X(cuGraphDestroy, NULL, (zr_cuda_graph graph))

#define ZR_CUDA_MEMBER(name, older, parameters) zr_cuda_result(*name) parameters;
typedef struct zr_cuda_driver {
    ZR_CUDA_FUNCTIONS(ZR_CUDA_MEMBER)
} zr_cuda_driver;
#undef ZR_CUDA_MEMBER

#endif
