#include "plan/plan.h"

#include "base/alloc.h"
#include "plan/accumulators.h"

// Live ranges that are not the last ones of their buffer are found under buffers that are not
// followed.
//   read           what units read, because the flat parameter may come once more while they do
//   parked         what parked contributions come to or leave
//   gathered_from  the own shard from NVMe that the gather under way reads
static const zr_buffer_id read = ZR_BUFFER_NONE, parked = ZR_BUFFER_STORED,
                          gathered_from = ZR_BUFFER_SHARDS;

typedef struct walk {
    const zr_plan *plan;
    zr_live_ranges *live_ranges;
    int *last; // (flat parameter, buffer) index of the last life of a flat parameter in a buffer;
               // -1: none
    int at;    // instruction
    zero_status status;
    zero_error *error;
} walk;

int64_t zr_bytes_in_buffer(const zr_plan *plan, const zr_flat_param *flat_param,
                           zr_buffer_id buffer)
{
    switch (buffer) {
    case ZR_BUFFER_GATHERED: return plan->ranks * zr_flat_param_shard_bytes(flat_param);
    case ZR_BUFFER_GRADIENTS: return plan->ranks * zr_flat_param_gradient_shard_bytes(flat_param);
    case ZR_BUFFER_OPEN_SUMS: return zr_flat_param_open_bytes(flat_param);
    case ZR_BUFFER_STAGED_PARAMETERS: return zr_flat_param_own_bytes(flat_param, flat_param->shard);
    default: return zr_flat_param_accumulator_bytes(&plan->settings, flat_param);
    }
}

static bool is_followed(zr_buffer_id buffer)
{
    return buffer == ZR_BUFFER_GATHERED || buffer == ZR_BUFFER_GRADIENTS ||
           buffer == ZR_BUFFER_OPEN_SUMS || buffer == ZR_BUFFER_STAGED_PARAMETERS ||
           buffer == ZR_BUFFER_STAGED_SUMS;
}

static int *last_range_of(walk *w, int flat_param, zr_buffer_id buffer)
{
    return &w->last[flat_param * ZR_BUFFER_COUNT + (int)buffer];
}

static void begin_live_range(walk *w, int flat_param, zr_buffer_ref place)
{
    zr_live_ranges *live_ranges = w->live_ranges;
    if (w->status != ZERO_OK || !is_followed(place.buffer))
        return;
    void *grown = zr_list_grow(live_ranges->at, live_ranges->count, &live_ranges->capacity,
                               sizeof *live_ranges->at, w->error);
    w->status = grown ? ZERO_OK : ZERO_ERR_MEMORY;
    if (!grown)
        return;
    live_ranges->at = grown;
    *last_range_of(w, flat_param, place.buffer) = live_ranges->count;
    int64_t bytes = zr_bytes_in_buffer(w->plan, &w->plan->flat_params[flat_param], place.buffer);
    live_ranges->at[live_ranges->count++] =
        (zr_live_range){place.buffer, flat_param, place.value, place.first, bytes, w->at, w->at};
}

static void extend_last_range(walk *w, int flat_param, zr_buffer_id buffer)
{
    int last = flat_param >= 0 ? *last_range_of(w, flat_param, buffer) : -1;
    if (last >= 0)
        w->live_ranges->at[last].to = w->at;
}

// Prolongs the life of a flat parameter in just this place, because a flat parameter may be there
// for two visits at a time. Returns the life; -1: there is none.
static int extend_range_at_place(walk *w, int flat_param, zr_buffer_ref place)
{
    for (int i = *last_range_of(w, flat_param, place.buffer); i >= 0; i--) {
        zr_live_range *live_range = &w->live_ranges->at[i];
        if (live_range->flat_param != flat_param || live_range->buffer != place.buffer ||
            live_range->value != place.value || live_range->first != place.first)
            continue;
        live_range->to = w->at;
        return i;
    }
    return -1;
}

static void follow_bind(walk *w, const zr_instruction *i)
{
    int live_range = extend_range_at_place(w, i->flat_param, i->place);
    if (i->place.buffer == ZR_BUFFER_GATHERED)
        *last_range_of(w, i->flat_param, read) = live_range;
}

// What is not read may be unbound all the same, because a mark needs an instruction.
static void follow_unbind(walk *w, const zr_instruction *i)
{
    if (i->place.buffer != ZR_BUFFER_PARAMETERS || i->flat_param < 0)
        return;
    extend_last_range(w, i->flat_param, read);
    *last_range_of(w, i->flat_param, read) = -1;
}

// An own shard from NVMe stays until its gather has ended, because a communicator may read it as
// late as that.
static void follow_gather(walk *w, const zr_instruction *i)
{
    bool staged = i->from.buffer == ZR_BUFFER_STAGED_PARAMETERS;
    *last_range_of(w, i->flat_param, gathered_from) =
        staged ? extend_range_at_place(w, i->flat_param, i->from) : -1;
    begin_live_range(w, i->flat_param, i->place);
}

// Where a flat parameter has sums of earlier micro-batches, they were fetched to where this one's
// is added to them.
static void follow_reduce(walk *w, const zr_instruction *i)
{
    const zr_flat_param *flat_param = &w->plan->flat_params[i->flat_param];
    extend_last_range(w, i->flat_param, ZR_BUFFER_GRADIENTS);
    if (!zr_flat_param_sums_on_nvme(flat_param))
        return;
    if (w->plan->settings.accumulation == 1)
        begin_live_range(w, i->flat_param,
                         (zr_buffer_ref){ZR_BUFFER_STAGED_SUMS, flat_param->accumulator_first});
    extend_last_range(w, i->flat_param, ZR_BUFFER_STAGED_SUMS);
}

static void follow_await(walk *w, const zr_instruction *i)
{
    switch (i->slot.kind) {
    case ZR_SLOT_SUM:
        extend_last_range(w, i->slot.index, ZR_BUFFER_GRADIENTS);
        extend_last_range(w, i->slot.index, ZR_BUFFER_STAGED_SUMS);
        break;
    case ZR_SLOT_GATHER:
        extend_last_range(w, i->slot.index, ZR_BUFFER_GATHERED);
        extend_last_range(w, i->slot.index, gathered_from);
        *last_range_of(w, i->slot.index, gathered_from) = -1;
        break;
    case ZR_SLOT_PARKED:
        extend_last_range(w, i->slot.index, parked);
        *last_range_of(w, i->slot.index, parked) = -1;
        break;
    default: break;
    }
}

static void follow_fetch(walk *w, const zr_instruction *i)
{
    if (i->flat_param < 0)
        return;
    begin_live_range(w, i->flat_param, i->place);
    if (i->slot.kind == ZR_SLOT_PARKED)
        *last_range_of(w, i->flat_param, parked) =
            *last_range_of(w, i->flat_param, ZR_BUFFER_OPEN_SUMS);
}

static void follow_store(walk *w, const zr_instruction *i)
{
    int live_range = i->flat_param >= 0 ? extend_range_at_place(w, i->flat_param, i->from) : -1;
    if (i->slot.kind == ZR_SLOT_PARKED)
        *last_range_of(w, i->flat_param, parked) = live_range;
}

static void follow_instruction(walk *w, const zr_instruction *i)
{
    switch (i->code) {
    case ZR_GATHER: follow_gather(w, i); break;
    case ZR_REDUCE: follow_reduce(w, i); break;
    case ZR_AWAIT: follow_await(w, i); break;
    case ZR_SQUARES: extend_last_range(w, i->flat_param, ZR_BUFFER_STAGED_SUMS); break;
    case ZR_BIND: follow_bind(w, i); break;
    case ZR_UNBIND: follow_unbind(w, i); break;
    case ZR_OPEN: begin_live_range(w, i->flat_param, i->place); break;
    case ZR_FETCH: follow_fetch(w, i); break;
    case ZR_STORE: follow_store(w, i); break;
    case ZR_ROUND:
        extend_range_at_place(w, i->flat_param, i->from);
        begin_live_range(w, i->flat_param, i->place);
        break;
    default: break;
    }
}

zero_status zr_live_ranges_of(const zr_plan *plan, zr_pass_kind kind, zr_live_ranges *out,
                              zero_error *error)
{
    const zr_pass *pass = &plan->program.passes[kind];
    size_t lasts = (size_t)plan->flat_param_count * ZR_BUFFER_COUNT;
    walk w = {.plan = plan, .live_ranges = out, .error = error};
    *out = (zr_live_ranges){0};
    w.last = zr_alloc(lasts * sizeof *w.last, error);
    if (!w.last)
        return ZERO_ERR_MEMORY;
    for (size_t i = 0; i < lasts; i++)
        w.last[i] = -1;
    for (; w.at < pass->count; w.at++)
        follow_instruction(&w, &pass->at[w.at]);
    zr_free(w.last);
    return w.status;
}

void zr_live_ranges_free(zr_live_ranges *live_ranges)
{
    zr_free(live_ranges->at);
    *live_ranges = (zr_live_ranges){0};
}

int64_t zr_live_ranges_end(const zr_live_ranges *live_ranges, zr_buffer_id buffer)
{
    int64_t end = 0;
    for (int i = 0; i < live_ranges->count; i++)
        if (live_ranges->at[i].buffer == buffer)
            end = ZR_MAX(end, live_ranges->at[i].first + live_ranges->at[i].bytes);
    return end;
}
