// What every call of the emulated driver begins with: it counts, may fail on demand, and remembers
// its name. Also the handles that programs hold, and the report at exit.
#include "emulated.h"

#include <algorithm>
#include <map>
#include <unistd.h>

namespace emulated {

namespace {

struct driver {
    bool initialised = false;
    zr_cuda_result broken = 0;
    const char *last = "none";
    long calls = 0;
    std::map<std::string, long> calls_of;
    std::string fail_name, fail_how;
    long fail_number = 0;
    std::vector<emulated_handle *> handles;
    std::vector<std::string> misuses;
};

// Never destroyed, because programs may call while they exit.
driver &self()
{
    static driver &only = *new driver;
    return only;
}

thread_local bool context_is_current;

bool is_to_fail(const char *name)
{
    driver &d = self();
    long number = ++d.calls_of[name];
    d.calls++;
    if (d.fail_name == "*" ? d.calls != d.fail_number
                           : d.fail_name != name || number != d.fail_number)
        return false;
    if (d.fail_how == "abort")
        abort();
    while (d.fail_how == "hang")
        pause();
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
    write_count();
    if (!setting("EMULATED_LEAKS", 0))
        return;
    std::vector<std::string> found = self().misuses;
    list_memory(found);
    for (emulated_handle *handle : self().handles)
        found.push_back(std::string("not given back: a ") + handle->kind());
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

zr_cuda_result begin(const char *name, bool needs_context)
{
    driver &d = self();
    d.last = name;
    if (!strcmp(name, "cuInit") && !d.initialised) {
        d.initialised = true;
        read_failure();
        atexit(report);
    }
    if (is_to_fail(name))
        return ZR_CUDA_ERROR_UNKNOWN;
    if (!d.initialised)
        return ZR_CUDA_ERROR_NOT_INITIALIZED;
    if (d.broken)
        return d.broken;
    return needs_context && !context_is_current ? ZR_CUDA_ERROR_INVALID_CONTEXT : ZR_CUDA_SUCCESS;
}

const char *last_call() { return self().last; }

zr_cuda_result broken() { return self().broken; }

zr_cuda_result break_device(zr_cuda_result why) { return self().broken = why; }

void misuse(const std::string &what) { self().misuses.push_back(what); }

void make_current(bool is) { context_is_current = is; }

void keep(emulated_handle *handle) { self().handles.push_back(handle); }

const std::vector<emulated_handle *> &handles() { return self().handles; }

bool is_alive(const void *handle)
{
    const auto &all = self().handles;
    return std::find(all.begin(), all.end(), handle) != all.end();
}

bool destroy(emulated_handle *handle)
{
    auto &all = self().handles;
    auto at = std::find(all.begin(), all.end(), handle);
    if (at == all.end()) {
        misuse(std::string(last_call()) + " of what is not there");
        return false;
    }
    all.erase(at);
    delete handle;
    return true;
}

} // namespace emulated
