// Memory of the emulated driver. An address of a device lies in a large range that nobody may
// touch, and is given again as late as that allows; the bytes lie elsewhere, up against a page that
// nobody may touch, where kernels and copies reach them. So a program that reads device
// memory by itself, and a kernel that leaves an allocation, end with a message. Fresh memory is
// full of NaN. Memory has to outlive the work that was given it: what is done after it was given
// back fails.
#include "emulated_schedule.h"

#include <csignal>
#include <map>
#include <unistd.h>

using namespace emulated;

namespace {

enum class kind { device, pinned, registered };

const char *const names[] = {"cuMemAlloc_v2", "cuMemHostAlloc", "cuMemHostRegister_v2"};

struct range {
    kind what;
    int device; // that it is of; -1: memory of the host
    size_t bytes;
    char *real; // where the bytes lie
    char *map;  // begins the mapping that holds them, with its last page untouchable
    size_t map_bytes;
    unsigned number; // of its kind
};

constexpr size_t page = 4096;

struct memory {
    char *window = nullptr; // addresses of the devices
    size_t window_bytes = 0;
    size_t next = 0;                         // of the window: where it is looked first
    size_t used[emulated_most_devices] = {}; // bytes of each device's memory
    unsigned counts[3] = {};
    std::map<zr_cuda_address, range> ranges;
    struct sigaction before;
};

memory &self()
{
    static memory &only = *new memory;
    return only;
}

size_t round_up(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

// The last size of the list is that of all further devices, too.
size_t device_bytes(int device)
{
    const char *text = getenv("EMULATED_MEMORY");
    for (const char *comma; text && device > 0 && (comma = strchr(text, ',')); device--)
        text = comma + 1;
    return text ? strtoull(text, nullptr, 10) : (size_t)1 << 30;
}

bool is_device_address(zr_cuda_address at)
{
    zr_cuda_address first = (zr_cuda_address)self().window;
    return first && at >= first && at < first + self().window_bytes;
}

// The range that holds this address, or is followed by it directly.
const std::pair<const zr_cuda_address, range> *find_range(zr_cuda_address at)
{
    auto next = self().ranges.upper_bound(at);
    if (next == self().ranges.begin())
        return nullptr;
    const auto &found = *std::prev(next);
    return at <= found.first + found.second.bytes ? &found : nullptr;
}

struct words { // that a handler of signals may make
    char text[200];
};

words describe(const range &r)
{
    words w;
    snprintf(w.text, sizeof w.text, "%zu bytes of %s number %u", r.bytes, names[(int)r.what],
             r.number);
    return w;
}

words describe_touch(zr_cuda_address at)
{
    words w = {"none that is allocated"};
    if (const auto *found = find_range(at))
        snprintf(w.text, sizeof w.text, "byte %llu of the %.150s", at - found->first,
                 describe(found->second).text);
    return w;
}

void tell(const char *what, const char *of)
{
    const char *kernel = now_working().kernel;
    fprintf(stderr, "emulated driver: %s%s%s%s%s; the last call was %s\n", what, of,
            kernel ? "; " : "", kernel ? kernel : "", kernel ? " ran" : "", last_call());
}

// Says what a fault at this address means; nothing where the driver knows nothing of it.
void explain_fault(char *at)
{
    if (is_device_address((zr_cuda_address)at))
        return tell("the host touched memory of the device: ",
                    describe_touch((zr_cuda_address)at).text);
    for (const auto &[address, r] : self().ranges)
        if (r.map && at >= r.map + r.map_bytes - page && at < r.map + r.map_bytes)
            return tell("something went past the end of the ", describe(r).text);
}

// The lock, unless another thread keeps it for a second: a message is better than none.
bool lock_in_time()
{
    for (int tries = 0; tries < 1000; tries++) {
        if (driver_lock().try_lock())
            return true;
        usleep(1000);
    }
    return false;
}

// Says what happened, and lets the fault come again for whoever handled it before.
void on_fault(int, siginfo_t *info, void *)
{
    const bool is_alone = lock_in_time();
    explain_fault((char *)info->si_addr);
    sigaction(SIGSEGV, &self().before, nullptr);
    if (is_alone)
        driver_lock().unlock();
}

bool open_window()
{
    memory &m = self();
    if (m.window)
        return true;
    m.window_bytes = (size_t)setting("EMULATED_WINDOW", 64L << 30) / page * page;
    void *got = mmap(nullptr, m.window_bytes, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (got == MAP_FAILED)
        return false;
    m.window = (char *)got;
    struct sigaction action = {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGSEGV, &action, &m.before);
    return true;
}

// Looks for addresses that are not in use, from where it found some last.
bool find_addresses(size_t bytes, zr_cuda_address &at)
{
    memory &m = self();
    const zr_cuda_address first = (zr_cuda_address)m.window, end = first + m.window_bytes;
    bool has_turned = false;
    for (at = first + m.next;;) {
        if (bytes > end - at) {
            if (has_turned || bytes > m.window_bytes)
                return false;
            has_turned = true;
            at = first;
        }
        auto next = m.ranges.lower_bound(at + bytes);
        if (next == m.ranges.begin())
            break;
        const auto &[other, r] = *std::prev(next);
        const zr_cuda_address over = other + round_up(r.bytes, page) + page;
        if (other < first || over <= at)
            break;
        at = over;
    }
    m.next = at + bytes - first;
    return true;
}

// Maps memory whose end lies at an untouchable page, as far as 16 bytes of alignment allow.
bool map_range(size_t bytes, range &out)
{
    out.bytes = bytes;
    out.map_bytes = round_up(bytes, page) + page;
    void *got = mmap(nullptr, out.map_bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (got == MAP_FAILED)
        return false;
    out.map = (char *)got;
    out.real = out.map + out.map_bytes - page - round_up(bytes, 16);
    mprotect(out.map + out.map_bytes - page, page, PROT_NONE);
    memset(out.real, 0xff, bytes);
    return true;
}

void add_range(zr_cuda_address at, kind what, int device, range r)
{
    r.what = what;
    r.device = device;
    r.number = ++self().counts[(int)what];
    self().ranges[at] = r;
}

zr_cuda_result remove_range(zr_cuda_address at, kind what, zr_cuda_result otherwise)
{
    auto found = self().ranges.find(at);
    if (found == self().ranges.end() || found->second.what != what) {
        misuse(std::string(last_call()) + " of what is not there");
        return otherwise;
    }
    if (found->second.map)
        munmap(found->second.map, found->second.map_bytes);
    if (what == kind::device)
        self().used[found->second.device] -= found->second.bytes;
    self().ranges.erase(found);
    return ZR_CUDA_SUCCESS;
}

} // namespace

void emulated::list_memory(std::vector<std::string> &out)
{
    for (const auto &[at, r] : self().ranges)
        out.push_back(std::string("not given back: ") + describe(r).text);
}

void *emulated::reach(zr_cuda_address at, size_t bytes, bool host)
{
    std::lock_guard<std::recursive_mutex> alone(driver_lock());
    const auto *found = find_range(at);
    const CUctx_st *context = current_context();
    const int device = now_working().device >= 0 ? now_working().device
                       : context                 ? context->device
                                                 : -1;
    if (found && at < found->first + found->second.bytes) {
        if (!host && found->second.device >= 0 && found->second.device != device)
            return nullptr;
        size_t offset = at - found->first;
        return bytes <= found->second.bytes - offset ? found->second.real + offset : nullptr;
    }
    return host && at && !is_device_address(at) ? (void *)at : nullptr;
}

zr_cuda_result cuMemGetInfo_v2(size_t *unused, size_t *all)
{
    const call here("cuMemGetInfo_v2");
    if (here.result)
        return here.result;
    const int device = current_context()->device;
    *all = device_bytes(device);
    *unused = *all - self().used[device];
    return ZR_CUDA_SUCCESS;
}

zr_cuda_result cuMemAlloc_v2(zr_cuda_address *at, size_t bytes)
{
    const call here("cuMemAlloc_v2");
    if (here.result)
        return here.result;
    memory &m = self();
    const int device = current_context()->device;
    if (!bytes)
        return ZR_CUDA_ERROR_INVALID_VALUE;
    const size_t taken = round_up(bytes, page) + page; // so that no two of them touch
    range r = {};
    if (bytes > device_bytes(device) - m.used[device] || !open_window() ||
        !find_addresses(taken, *at) || !map_range(bytes, r))
        return ZR_CUDA_ERROR_OUT_OF_MEMORY;
    m.used[device] += bytes;
    add_range(*at, kind::device, device, r);
    return ZR_CUDA_SUCCESS;
}

zr_cuda_result cuMemFree_v2(zr_cuda_address at)
{
    call here("cuMemFree_v2");
    here.wait_for_device();
    zr_cuda_result r = at ? remove_range(at, kind::device, ZR_CUDA_ERROR_INVALID_VALUE) : 0;
    return here.result ? here.result : r;
}

zr_cuda_result cuMemHostAlloc(void **at, size_t bytes, unsigned flags)
{
    const call here("cuMemHostAlloc");
    if (here.result)
        return here.result;
    range r = {};
    if (!bytes || flags > 7)
        return ZR_CUDA_ERROR_INVALID_VALUE;
    if (!map_range(bytes, r))
        return ZR_CUDA_ERROR_OUT_OF_MEMORY;
    *at = r.real;
    add_range((zr_cuda_address)r.real, kind::pinned, -1, r);
    return ZR_CUDA_SUCCESS;
}

zr_cuda_result cuMemFreeHost(void *at)
{
    call here("cuMemFreeHost");
    here.wait_for_device();
    zr_cuda_result r = remove_range((zr_cuda_address)at, kind::pinned, ZR_CUDA_ERROR_INVALID_VALUE);
    return here.result ? here.result : r;
}

zr_cuda_result cuMemHostRegister_v2(void *at, size_t bytes, unsigned flags)
{
    const call here("cuMemHostRegister_v2");
    if (here.result)
        return here.result;
    const zr_cuda_address first = (zr_cuda_address)at;
    if (!at || !bytes || flags > 15 || is_device_address(first))
        return ZR_CUDA_ERROR_INVALID_VALUE;
    auto next = self().ranges.lower_bound(first + bytes);
    if (next != self().ranges.begin() &&
        std::prev(next)->first + std::prev(next)->second.bytes > first)
        return ZR_CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    range r = {};
    r.bytes = bytes;
    r.real = (char *)at;
    add_range(first, kind::registered, -1, r);
    return ZR_CUDA_SUCCESS;
}

zr_cuda_result cuMemHostUnregister(void *at)
{
    call here("cuMemHostUnregister");
    here.wait_for_device();
    zr_cuda_result r = remove_range((zr_cuda_address)at, kind::registered,
                                    ZR_CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    return here.result ? here.result : r;
}

zr_cuda_result cuMemHostGetDevicePointer_v2(zr_cuda_address *at, void *host, unsigned flags)
{
    const call here("cuMemHostGetDevicePointer_v2");
    if (here.result)
        return here.result;
    if (flags || is_device_address((zr_cuda_address)host) ||
        !reach((zr_cuda_address)host, 1, false))
        return ZR_CUDA_ERROR_INVALID_VALUE;
    *at = (zr_cuda_address)host;
    return ZR_CUDA_SUCCESS;
}

zr_cuda_result cuPointerGetAttribute(void *value, unsigned attribute, zr_cuda_address at)
{
    const call here("cuPointerGetAttribute");
    if (here.result)
        return here.result;
    if (attribute != ZR_CU_POINTER_ATTRIBUTE_MEMORY_TYPE || !reach(at, 1, false))
        return ZR_CUDA_ERROR_INVALID_VALUE;
    const unsigned type = is_device_address(at) ? ZR_CU_MEMORYTYPE_DEVICE : ZR_CU_MEMORYTYPE_HOST;
    memcpy(value, &type, sizeof type);
    return ZR_CUDA_SUCCESS;
}
