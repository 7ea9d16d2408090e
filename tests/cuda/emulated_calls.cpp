// What every call of the emulated driver begins with: it takes the lock, counts, may fail on
// demand, and remembers its name. Also the report at exit.
#include "emulated.h"

#include <map>
#include <unistd.h>

namespace emulated {

namespace {

struct driver {
    bool initialised = false, stuck = false;
    zr_cuda_result broken = 0;
    long calls = 0;
    std::map<std::string, long> calls_of;
    std::string fail_name, fail_how;
    long fail_number = 0;
    std::vector<std::string> misuses;
};

// Never destroyed, because programs may call while they exit.
driver &self()
{
    static driver &only = *new driver;
    return only;
}

thread_local const char *last = "none";

// Whether this call fails. One that is to hang lets the others go on without it.
bool is_to_fail(const char *name, std::unique_lock<std::recursive_mutex> &held)
{
    driver &d = self();
    long number = ++d.calls_of[name];
    d.calls++;
    if (d.fail_name == "*" ? d.calls != d.fail_number
                           : d.fail_name != name || number != d.fail_number)
        return false;
    if (d.fail_how == "abort")
        abort();
    if (d.fail_how == "hang") {
        held.unlock();
        for (;;)
            pause();
    }
    return true;
}

// NAME:NUMBER or NAME:NUMBER:HOW
void read_failure()
{
    const char *text = getenv("EMULATED_FAIL"), *colon = text ? strchr(text, ':') : nullptr;
    if (!colon)
        return;
    char *end;
    self().fail_name = std::string(text, colon);
    self().fail_number = strtol(colon + 1, &end, 10);
    self().fail_how = *end == ':' ? end + 1 : "";
}

void write_count()
{
    const char *path = getenv("EMULATED_COUNT");
    FILE *file = path ? fopen(path, "w") : nullptr;
    if (!file)
        return;
    fprintf(file, "%ld\n", self().calls);
    fclose(file);
}

void report()
{
    std::lock_guard<std::recursive_mutex> alone(driver_lock());
    write_count();
    if (!setting("EMULATED_LEAKS", 0))
        return;
    std::vector<std::string> found = self().misuses;
    list_memory(found);
    list_handles(found);
    for (const std::string &what : found)
        fprintf(stderr, "emulated driver: %s\n", what.c_str());
    if (!found.empty())
        _exit(86);
}

} // namespace

long setting(const char *name, long otherwise)
{
    const char *text = getenv(name);
    return text ? atol(text) : otherwise;
}

simt::order thread_order()
{
    const char *text = getenv("EMULATED_ORDER");
    if (text && !strcmp(text, "backward"))
        return simt::order::backward;
    return text && !strcmp(text, "drawn") ? simt::order::drawn : simt::order::forward;
}

std::recursive_mutex &driver_lock()
{
    static std::recursive_mutex &only = *new std::recursive_mutex;
    return only;
}

call::call(const char *name, bool needs_context) : result(ZR_CUDA_SUCCESS), held(driver_lock())
{
    driver &d = self();
    last = name;
    if (!strcmp(name, "cuInit") && !d.initialised) {
        d.initialised = true;
        read_failure();
        atexit(report);
    }
    if (is_to_fail(name, held))
        result = ZR_CUDA_ERROR_UNKNOWN;
    else if (!d.initialised)
        result = ZR_CUDA_ERROR_NOT_INITIALIZED;
    else if (d.broken)
        result = d.broken;
    else if (needs_context && !current_context())
        result = ZR_CUDA_ERROR_INVALID_CONTEXT;
}

void call::pause()
{
    held.unlock();
    usleep(20);
    held.lock();
}

void call::wait_for_device()
{
    while (is_stuck())
        pause();
}

zr_cuda_result begin(const char *name, bool needs_context)
{
    return call(name, needs_context).result;
}

const char *last_call() { return last; }

zr_cuda_result broken() { return self().broken; }

bool is_stuck() { return self().stuck; }

void get_stuck() { self().stuck = true; }

void break_process(zr_cuda_result why)
{
    if (!self().broken)
        self().broken = why;
}

void misuse(const std::string &what) { self().misuses.push_back(what); }

} // namespace emulated
