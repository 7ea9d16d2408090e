// The parameters and gradients that a unit gets when it asks its context for them, and the
// instructions that run meanwhile if flat parameters come and go inside of the call.
#include "engine/engine_internal.h"
#include "engine/interpret.h"

#include <stddef.h>

#define ENGINE_OF(pointer, member)                                                                 \
    ((zero_engine *)((char *)(pointer)-offsetof(zero_engine, member)))

static const void *parameter(const struct zr_accessor *self, const zero_context *context,
                             int flat_param, int tensor)
{
    zero_engine *engine = ENGINE_OF(self, accessor);
    int number = engine->plan->units[engine->unit].flat_params[flat_param];
    assert(engine->at[number] && "a unit reads a flat parameter that was not acquired for it");
    return engine->at[number] +
           engine->plan->flat_params[number].tensors[tensor].first *
               (int64_t)zero_dtype_bytes(engine->plan->flat_params[number].dtype);
}

static float *gradient(const struct zr_sink *self, zero_context *context, int flat_param,
                       int tensor, int *add)
{
    zero_engine *engine = ENGINE_OF(self, sink);
    int number = engine->plan->units[engine->unit].flat_params[flat_param];
    const zr_collecting *collecting = &engine->collecting[number];
    if (!collecting->at) // frozen, or a buffer that another unit owns
        return NULL;
    *add = engine->unit != collecting->opened_by;
    return collecting->at + engine->plan->flat_params[number].tensors[tensor].first;
}

static zero_status begin_flat_param(const struct zr_accessor *self, zero_context *context,
                                    int flat_param)
{
    zero_engine *engine = ENGINE_OF(self, accessor);
    zr_comm_progress(engine->grid.world, engine->step);
    return zr_program_run_to_mark(engine, ZR_BEGUN, flat_param, "zero_flat_param_begin");
}

static zero_status end_flat_param(const struct zr_accessor *self, zero_context *context,
                                  int flat_param)
{
    return zr_program_run_to_mark(ENGINE_OF(self, accessor), ZR_ENDED, flat_param,
                                  "zero_flat_param_end");
}

struct zr_accessor zr_engine_accessor(void)
{
    return (struct zr_accessor){
        .parameter = parameter, .begin = begin_flat_param, .end = end_flat_param};
}

struct zr_sink zr_engine_sink(void) { return (struct zr_sink){.gradient = gradient}; }
