// Collectives among the ranks of a machine: reductions and gathers of shards, and what tensor ranks
// exchange.
#include "predict/rate_tasks.h"

#include "base/alloc.h"
#include "base/numbers.h"
#include "comm/agreement.h"
#include "comm/window.h"
#include "memory/arena.h"
#include "plan/exchanges.h"

enum { MOST_ELEMS = 1 << 20 }; // of a share: time grows in proportion above it

typedef struct state {
    const zr_message_task *task;
    const zr_member *member;
    zr_ledger ledger;
    zr_arena sums;
    zr_window window;
} state;

static const char *const slot_names[] = {"shares"};

static zero_status open_messages(const void *task, const zr_member *member, void **out,
                                 zero_error *error)
{
    const zr_message_task *of = task;
    int64_t most = 0;
    for (int i = 0; i < of->count; i++)
        most = ZR_MAX(most, of->items[i].elems);
    state *s = zr_alloc(sizeof *s, error);
    if (!s)
        return ZERO_ERR_MEMORY;
    *s = (state){.task = of, .member = member};
    size_t share = (size_t)most * sizeof(float);
    zero_status status = zr_arena_on_host(&s->ledger, ZERO_TIER_device, ZERO_MEM_workspace,
                                          2 * share, &s->sums, error);
    status = zr_comm_agree(member->comm, status, error); // before the members meet
    if (status == ZERO_OK)
        status = zr_window_create(member->comm, ZR_WINDOW_SYMMETRIC, (int64_t)share * of->members,
                                  ZR_COUNT(slot_names), slot_names, &s->window, error);
    if (status != ZERO_OK) {
        zr_arena_destroy(&s->sums);
        zr_free(s);
        return status;
    }
    *out = s;
    return ZERO_OK;
}

static zero_status move_shares(state *s, const zr_message_item *item, zero_comm_op op, bool adds,
                               zero_error *error)
{
    zr_handle handle;
    const zr_sum_target sum = {
        .data = s->sums.base, .dtype = s->task->accumulator, .adds = adds, .stride = item->elems};
    ZERO_TRY(zr_comm_start(&s->window, op, 0, 0, item->elems, item->dtype,
                           op == ZERO_COMM_reduce_scatter ? &sum : NULL, &handle, error));
    ZERO_TRY(zr_comm_wait(&handle, error));
    return zr_comm_quiesce(&s->window, 0, error);
}

static zero_status run_exchange_message(state *s, const zr_message_item *item, zero_error *error)
{
    int64_t begin = zr_recorder_begin(s->member->recorder);
    if (item->kind == ZERO_EXCHANGE_SUM)
        ZERO_TRY(zr_comm_all_reduce(&s->window, 0, 0, item->elems, error));
    else
        ZERO_TRY(move_shares(s, item, zr_exchange_op(item->kind), false, error));
    zr_recorder_add(s->member->recorder, ZR_ACTIVITY_exchange, begin,
                    zr_message_item_bytes(s->task, item), 0, -1);
    return ZERO_OK;
}

static zero_status run_message_item(state *s, const zr_message_item *item, zero_error *error)
{
    switch (item->what) {
    case ZR_ACTIVITY_exchange: return run_exchange_message(s, item, error);
    case ZR_ACTIVITY_all_gather: return move_shares(s, item, ZERO_COMM_all_gather, false, error);
    case ZR_ACTIVITY_all_reduce:
        return zr_comm_all_reduce_small(s->member->comm, s->sums.base, item->elems, item->dtype,
                                        ZR_SUM, error);
    default: return move_shares(s, item, ZERO_COMM_reduce_scatter, s->task->adds, error);
    }
}

static zero_status run_message_items(void *opened, zero_error *error)
{
    state *s = opened;
    for (int i = 0; i < s->task->count; i++)
        ZERO_TRY(run_message_item(s, &s->task->items[i], error));
    return ZERO_OK;
}

static void close_messages(void *opened)
{
    state *s = opened;
    zr_window_destroy(&s->window);
    zr_arena_destroy(&s->sums);
    zr_free(s);
}

const zr_common_work zr_message_work = {
    .open = open_messages, .round = run_message_items, .close = close_messages};

int64_t zr_message_item_bytes(const zr_message_task *task, const zr_message_item *item)
{
    bool sums = item->what == ZR_ACTIVITY_exchange && item->kind == ZERO_EXCHANGE_SUM;
    return zr_exchange_fetched(sums ? ZERO_EXCHANGE_SUM : ZERO_EXCHANGE_GATHER, task->members,
                               item->elems, item->dtype);
}

static void add_message_once(zr_message_task *task, zr_message_item item)
{
    item.elems = ZR_MIN(item.elems, (int64_t)MOST_ELEMS);
    if (item.elems <= 0 || task->count == ZR_MOST_MESSAGE_ITEMS)
        return;
    for (int i = 0; i < task->count; i++) {
        const zr_message_item *known = &task->items[i];
        if (known->what == item.what && known->kind == item.kind && known->elems == item.elems &&
            known->dtype == item.dtype)
            return;
    }
    task->items[task->count++] = item;
}

// Returns the elements of a share if a member fetches `bytes` in all.
static int64_t elements_per_member(const zr_message_task *task, int64_t bytes, zero_dtype dtype)
{
    return bytes / (task->members - 1) / (int64_t)zero_dtype_bytes(dtype);
}

static void list_pass(zr_message_task *task, const zr_plan *plan, const zr_pass *pass)
{
    for (int i = 0; i < pass->count; i++) {
        const zr_instruction *at = &pass->at[i];
        if (at->flat_param < 0)
            continue;
        const zr_flat_param *flat_param = &plan->flat_params[at->flat_param];
        zero_dtype read = flat_param->dtype, summed = flat_param->gradient_dtype;
        if (at->code == ZR_GATHER)
            add_message_once(task,
                             (zr_message_item){.what = ZR_ACTIVITY_all_gather,
                                               .elems = elements_per_member(task, at->bytes, read),
                                               .dtype = read});
        if (at->code == ZR_REDUCE)
            add_message_once(
                task, (zr_message_item){.what = ZR_ACTIVITY_reduce_scatter,
                                        .elems = elements_per_member(task, at->bytes, summed),
                                        .dtype = summed});
    }
}

static void list_unit_exchanges(zr_message_task *task, const zr_plan *plan,
                                const zero_unit_sizes *sizes)
{
    for (int i = 0; i < sizes->exchange_count; i++) {
        const zero_exchange *e = &sizes->exchanges[i];
        int ranks = e->replicas ? e->replicas : plan->tensor_ranks;
        add_message_once(
            task,
            (zr_message_item){
                .what = ZR_ACTIVITY_exchange,
                .kind = e->kind,
                .elems = elements_per_member(
                    task, zr_exchange_fetched(ZERO_EXCHANGE_GATHER, ranks, e->elements, e->dtype),
                    e->dtype),
                .dtype = e->dtype});
    }
}

void zr_message_task_list(const zr_plan *plan, int members, zr_message_task *out)
{
    *out = (zr_message_task){.members = members,
                             .adds = plan->settings.accumulation > 1,
                             .accumulator = plan->settings.precision.accumulator};
    if (members == 1)
        return;
    if (!plan->settings.inference)
        add_message_once(out, (zr_message_item){.what = ZR_ACTIVITY_all_reduce,
                                                .elems = ZR_STEP_SUMS_WORDS,
                                                .dtype = ZERO_I64});
    for (int p = 0; p < ZR_PASSES && plan->ranks > 1; p++)
        list_pass(out, plan, &plan->program.passes[p]);
    for (int u = 0; u < plan->unit_count && plan->tensor_ranks > 1; u++)
        list_unit_exchanges(out, plan, &plan->units[u].sizes);
}
