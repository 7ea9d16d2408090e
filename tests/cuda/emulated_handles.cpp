// The handles that programs hold, and the context that each thread has.
#include "emulated_schedule.h"

#include <set>

namespace emulated {

namespace {

struct holdings {
    std::set<const void *> handles; // each an emulated_handle
    std::set<const CUfunc_st *> functions;
    CUctx_st *contexts[emulated_most_devices] = {};
};

// Never destroyed, because programs may call while they exit.
holdings &self()
{
    static holdings &only = *new holdings;
    return only;
}

struct current {
    CUctx_st *context;
    unsigned life;
};
thread_local current of_thread;

} // namespace

CUctx_st &context_of(int device)
{
    CUctx_st *&context = self().contexts[device];
    if (!context) {
        context = new CUctx_st;
        context->device = device;
    }
    return *context;
}

void make_current(CUctx_st *context) { of_thread = {context, context ? context->life : 0}; }

CUctx_st *current_context()
{
    const current &c = of_thread;
    return c.context && c.context->users && c.context->life == c.life ? c.context : nullptr;
}

void keep(emulated_handle *handle) { self().handles.insert(handle); }

void forget(emulated_handle *handle) { self().handles.erase(handle); }

bool is_alive(const void *handle) { return self().handles.count(handle); }

bool destroy(emulated_handle *handle)
{
    if (!self().handles.erase(handle)) {
        misuse(std::string(last_call()) + " of what is not there");
        return false;
    }
    delete handle;
    return true;
}

void list_handles(std::vector<std::string> &out)
{
    for (const void *handle : self().handles)
        out.push_back(std::string("not given back: a ") + ((emulated_handle *)handle)->kind());
}

CUfunc_st *add_function(CUmod_st &module, const kernel *of)
{
    module.functions.emplace_back(new CUfunc_st{of, module.device});
    self().functions.insert(module.functions.back().get());
    return module.functions.back().get();
}

const CUfunc_st *find_function(zr_cuda_function function)
{
    return self().functions.count(function) ? function : nullptr;
}

} // namespace emulated

CUmod_st::~CUmod_st()
{
    for (const auto &function : functions)
        emulated::self().functions.erase(function.get());
}
