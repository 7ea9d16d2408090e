// The emulated driver's device, context, images and texts of errors.
#include "emulated_schedule.h"

using namespace emulated;

namespace {

struct attribute {
    unsigned number;
    int value;
};

const attribute attributes[] = {
    {ZR_CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1000000},
    {ZR_CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 2},
    {ZR_CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 1000000},
    {ZR_CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 64},
    {ZR_CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 1 << 20},
    {ZR_CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 2},
    {ZR_CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, 0},
    {ZR_CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1},
    {ZR_CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 48 << 10},
};

struct error_text {
    zr_cuda_result number;
    const char *text;
};

const error_text error_texts[] = {
    {ZR_CUDA_SUCCESS, "no error"},
    {ZR_CUDA_ERROR_INVALID_VALUE, "invalid argument"},
    {ZR_CUDA_ERROR_OUT_OF_MEMORY, "out of memory"},
    {ZR_CUDA_ERROR_NOT_INITIALIZED, "initialization error"},
    {ZR_CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"},
    {ZR_CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"},
    {ZR_CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid"},
    {ZR_CUDA_ERROR_INVALID_CONTEXT, "invalid device context"},
    {ZR_CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"},
    {ZR_CUDA_ERROR_NOT_FOUND, "named symbol not found"},
    {ZR_CUDA_ERROR_NOT_READY, "device not ready"},
    {ZR_CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"},
    {ZR_CUDA_ERROR_LAUNCH_TIMEOUT, "the launch timed out and was terminated"},
    {ZR_CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
     "part or all of the requested memory range is already mapped"},
    {ZR_CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED,
     "pointer does not correspond to a registered memory region"},
    {ZR_CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure"},
    {ZR_CUDA_ERROR_UNKNOWN, "unknown error"},
};

int device_count()
{
    const long count = setting("EMULATED_DEVICES", 1);
    return count < 0 ? 0 : count > emulated_most_devices ? emulated_most_devices : (int)count;
}

bool is_device(zr_cuda_device device) { return device >= 0 && device < device_count(); }

constexpr uint32_t fatbin_magic = 0xba55ed50, elf_magic = 0x464c457f;
constexpr uint16_t cuda_machine = 190;

// Reads an unsigned number of an image.
template <class T> T read_at(const char *image, size_t offset)
{
    T value;
    memcpy(&value, image + offset, sizeof value);
    return value;
}

// The bytes of an image of one architecture, an ELF file, up to the end of its table of sections.
std::string elf_bytes(const char *image)
{
    uint64_t table = read_at<uint64_t>(image, 40);
    uint16_t entry = read_at<uint16_t>(image, 58), count = read_at<uint16_t>(image, 60);
    return std::string(image, table + (uint64_t)entry * count);
}

} // namespace

zr_cuda_result cuInit(unsigned flags)
{
    const call here("cuInit", false);
    if (here.result)
        return here.result;
    if (flags)
        return ZR_CUDA_ERROR_INVALID_VALUE;
    return is_device(0) ? ZR_CUDA_SUCCESS : ZR_CUDA_ERROR_NO_DEVICE;
}

zr_cuda_result cuGetErrorString(zr_cuda_result error, const char **text)
{
    for (const error_text &known : error_texts)
        if (known.number == error) {
            *text = known.text;
            return ZR_CUDA_SUCCESS;
        }
    *text = nullptr;
    return ZR_CUDA_ERROR_INVALID_VALUE;
}

zr_cuda_result cuDriverGetVersion(int *version)
{
    const call here("cuDriverGetVersion", false);
    if (here.result)
        return here.result;
#ifdef EMULATED_CUDA12
    const int usual = 12040;
#else
    const int usual = 13000;
#endif
    *version = (int)setting("EMULATED_DRIVER", usual);
    return ZR_CUDA_SUCCESS;
}

zr_cuda_result cuDeviceGetCount(int *count)
{
    const call here("cuDeviceGetCount", false);
    if (here.result)
        return here.result;
    *count = device_count();
    return ZR_CUDA_SUCCESS;
}

zr_cuda_result cuDeviceGet(zr_cuda_device *device, int number)
{
    const call here("cuDeviceGet", false);
    if (here.result)
        return here.result;
    if (!is_device(number))
        return ZR_CUDA_ERROR_INVALID_DEVICE;
    *device = number;
    return ZR_CUDA_SUCCESS;
}

zr_cuda_result cuDeviceGetName(char *name, int bytes, zr_cuda_device device)
{
    const call here("cuDeviceGetName", false);
    if (here.result)
        return here.result;
    if (!is_device(device) || bytes < 1)
        return ZR_CUDA_ERROR_INVALID_VALUE;
    snprintf(name, bytes, "emulated");
    return ZR_CUDA_SUCCESS;
}

zr_cuda_result cuDeviceGetAttribute(int *value, unsigned wanted, zr_cuda_device device)
{
    const call here("cuDeviceGetAttribute", false);
    if (here.result)
        return here.result;
    if (!is_device(device))
        return ZR_CUDA_ERROR_INVALID_DEVICE;
    const int capability = setting("EMULATED_CAPABILITY", 90);
    if (wanted == ZR_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
        return *value = capability / 10, ZR_CUDA_SUCCESS;
    if (wanted == ZR_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
        return *value = capability % 10, ZR_CUDA_SUCCESS;
    for (const attribute &known : attributes)
        if (known.number == wanted)
            return *value = known.value, ZR_CUDA_SUCCESS;
    return ZR_CUDA_ERROR_INVALID_VALUE;
}

zr_cuda_result cuDevicePrimaryCtxRetain(zr_cuda_context *context, zr_cuda_device device)
{
    const call here("cuDevicePrimaryCtxRetain", false);
    if (here.result)
        return here.result;
    if (!is_device(device))
        return ZR_CUDA_ERROR_INVALID_DEVICE;
    CUctx_st &of = context_of(device);
    if (of.users++ == 0) {
        keep(&of);
        read_schedule();
    }
    *context = &of;
    return ZR_CUDA_SUCCESS;
}

zr_cuda_result cuDevicePrimaryCtxRelease_v2(zr_cuda_device device)
{
    call here("cuDevicePrimaryCtxRelease_v2", false);
    here.wait_for_device();
    zr_cuda_result r = ZR_CUDA_SUCCESS;
    if (!is_device(device))
        r = ZR_CUDA_ERROR_INVALID_DEVICE;
    else if (!context_of(device).users)
        r = ZR_CUDA_ERROR_INVALID_CONTEXT;
    else if (--context_of(device).users == 0) {
        forget(&context_of(device));
        context_of(device).life++;
    }
    return here.result ? here.result : r;
}

zr_cuda_result cuCtxSetCurrent(zr_cuda_context context)
{
    const call here("cuCtxSetCurrent", false);
    if (here.result)
        return here.result;
    if (context && !find(context))
        return ZR_CUDA_ERROR_INVALID_CONTEXT;
    make_current(context);
    return ZR_CUDA_SUCCESS;
}

zr_cuda_result cuModuleLoadData(zr_cuda_module *module, const void *image)
{
    const call here("cuModuleLoadData");
    if (here.result)
        return here.result;
    const char *bytes = (const char *)image;
    std::string text;
    if (!image)
        return ZR_CUDA_ERROR_INVALID_VALUE;
    if (read_at<uint32_t>(bytes, 0) == elf_magic && read_at<uint16_t>(bytes, 18) == cuda_machine)
        text = elf_bytes(bytes);
    else if (!memcmp(bytes, image_head.data(), image_head.size()))
        text = bytes + image_head.size();
    else if (read_at<uint32_t>(bytes, 0) != fatbin_magic)
        return ZR_CUDA_ERROR_INVALID_IMAGE;
    keep(*module = new CUmod_st);
    (*module)->device = current_context()->device;
    (*module)->text = text;
    return ZR_CUDA_SUCCESS;
}

zr_cuda_result cuModuleUnload(zr_cuda_module module)
{
    call here("cuModuleUnload");
    here.wait_for_device();
    zr_cuda_result r = destroy(module) ? ZR_CUDA_SUCCESS : ZR_CUDA_ERROR_INVALID_HANDLE;
    return here.result ? here.result : r;
}

zr_cuda_result cuModuleGetFunction(zr_cuda_function *function, zr_cuda_module module,
                                   const char *name)
{
    const call here("cuModuleGetFunction");
    if (here.result)
        return here.result;
    if (!find(module))
        return ZR_CUDA_ERROR_INVALID_HANDLE;
    const kernel *of = find_kernel(name);
    if (!of || (!module->text.empty() && module->text.find(name) == std::string::npos))
        return ZR_CUDA_ERROR_NOT_FOUND;
    *function = add_function(*module, of);
    return ZR_CUDA_SUCCESS;
}

zr_cuda_result cuFuncGetAttribute(int *value, unsigned wanted, zr_cuda_function function)
{
    const call here("cuFuncGetAttribute");
    if (here.result)
        return here.result;
    if (!find_function(function) || wanted > 15)
        return ZR_CUDA_ERROR_INVALID_VALUE;
    *value = 0; // the CPU has neither registers nor local memory to count
    return ZR_CUDA_SUCCESS;
}

// NVRTC and cuBLASLt ask the driver for tables of undocumented functions: the first goes on without
// them, the second refuses to begin.
EMULATED_API zr_cuda_result cuGetExportTable(const void **table, const void *)
{
    *table = nullptr;
    return ZR_CUDA_ERROR_NOT_FOUND;
}
