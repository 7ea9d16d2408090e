// What each instruction of a program costs a rank, and what it begins that overlaps with the rank.
#include "base/numbers.h"
#include "plan/accumulators.h"
#include "plan/plan_parts.h"
#include "predict/virtual_rank.h"

typedef void (*run_instruction)(zr_virtual_rank *rank, const zr_instruction *i);

static bool condition_holds(const zr_virtual_rank *rank, zr_when when)
{
    return rank->holds >> when & 1;
}

static const zr_flat_param *flat_param_of(const zr_virtual_rank *rank, const zr_instruction *i)
{
    return &rank->plan->flat_params[i->flat_param];
}

static int64_t bytes_of_dtype(zero_dtype dtype) { return (int64_t)zero_dtype_bytes(dtype); }

typedef struct exchange { // of data ranks
    zr_cost computed;     // by the thread that makes it: the rank's, or its comm thread
    double under_way;     // seconds in which its messages are, besides
} exchange;

// Begins an exchange: what the rank's thread or its comm thread computes, and what comes over the
// network afterwards.
static void begin_exchange(zr_virtual_rank *rank, zr_slot slot, exchange of)
{
    zr_begun *begun = &rank->begun[slot.kind][slot.index];
    *begun = (zr_begun){0};
    double overlapped = of.computed.seconds + of.under_way;
    if (!rank->question->overlaps) {
        rank->unknown += of.computed.unknown;
        begun->own = overlapped;
        return;
    }
    if (!rank->spare) {
        zr_virtual_rank_spend(rank, ZR_TIME_EXCHANGE, of.computed);
        overlapped = of.under_way;
    } else {
        rank->unknown += of.computed.unknown;
    }
    rank->comm_thread = ZR_MAX(rank->comm_thread, rank->now) + overlapped;
    begun->end = rank->comm_thread;
}

// Returns the bytes of an exchange that come over the link.
static int64_t far_bytes(const zr_virtual_rank *rank, bool gathers, int64_t bytes, bool coded)
{
    const zr_reach *reach = &rank->question->data.reach;
    if (reach->strangers == 0)
        return bytes;
    if (coded && !gathers)
        return zr_reach_coded_bytes(reach, bytes, reach->size - 1);
    return gathers
               ? zr_reach_bytes(reach, ZERO_COMM_all_gather, bytes, zr_plan_gathered(rank->plan))
               : zr_reach_bytes(reach, ZERO_COMM_reduce_scatter, bytes, reach->size - 1);
}

// Messages are copied on their way, and summed, which takes a thread's time.
static exchange exchange_over(const zr_virtual_rank *rank, const zr_link_speed *link,
                              zr_activity what, int64_t bytes, bool coded)
{
    int64_t far = far_bytes(rank, what == ZR_ACTIVITY_all_gather, bytes, coded);
    zr_cost all = far > 0 ? zr_virtual_link_cost(link, what, (double)far) : (zr_cost){0},
            copied = zr_virtual_rank_cost(rank, ZR_ACTIVITY_element, 2 * bytes, 0, 1);
    double computed = ZR_MIN(copied.seconds, all.seconds);
    return (exchange){.computed = {computed, all.unknown}, .under_way = all.seconds - computed};
}

static exchange cost_of_exchange(const zr_virtual_rank *rank, zr_activity what, int64_t bytes,
                                 bool coded)
{
    const zr_plan *plan = rank->plan;
    zr_link_speed link = rank->question->data;
    if (!zr_link_is_there(&link))
        return (exchange){.computed = zr_virtual_rank_cost(rank, what, bytes, 0, 1)};
    if (what == ZR_ACTIVITY_all_gather && link.one_copy && plan->holding == ZR_HOLDS_SHARDS &&
        plan->machine_ranks > 1)
        link.rates = link.one_copy;
    return exchange_over(rank, &link, what, bytes, coded);
}

// Copies the own shard to where it is gathered, unless it lies there, or the ranks of the machine
// share what they gather and the exchange itself brings it there.
static void copy_own_shard(zr_virtual_rank *rank, const zr_instruction *i)
{
    const zr_flat_param *flat_param = flat_param_of(rank, i);
    bool sums = i->place.buffer == ZR_BUFFER_FULL_GRADS || i->place.buffer == ZR_BUFFER_GRADIENTS;
    bool alone = i->place.buffer == ZR_BUFFER_GATHERED && rank->plan->machine_ranks <= 1 &&
                 !flat_param->coded;
    bool apart = alone || (sums && flat_param->accumulator_first >= 0);
    int64_t bytes =
        sums ? zr_flat_param_sum_bytes(flat_param) : zr_flat_param_shard_bytes(flat_param);
    if (apart)
        zr_virtual_rank_spend(rank, ZR_TIME_EXCHANGE,
                              zr_virtual_rank_cost(rank, ZR_ACTIVITY_element, 2 * bytes, 0, 1));
}

// Returns what it takes to widen codes in memory: those that this rank brings to where they are
// gathered, or the contributions of all ranks to its sum.
static zr_cost cost_of_codes(const zr_virtual_rank *rank, const zr_flat_param *flat_param,
                             bool gathers)
{
    int64_t shards = zr_link_is_there(&rank->question->data) ? zr_plan_gathered(rank->plan) + 1 : 1;
    int64_t bytes = gathers ? shards * (zr_flat_param_own_bytes(flat_param, flat_param->shard) +
                                        zr_flat_param_shard_bytes(flat_param))
                            : rank->plan->ranks * zr_flat_param_gradient_shard_bytes(flat_param) +
                                  zr_flat_param_sum_bytes(flat_param);
    return zr_virtual_rank_cost(rank, ZR_ACTIVITY_element, bytes, 0, 1);
}

static void run_gather(zr_virtual_rank *rank, const zr_instruction *i)
{
    if (i->place.buffer == ZR_BUFFER_NONE)
        return;
    copy_own_shard(rank, i);
    const zr_flat_param *flat_param = flat_param_of(rank, i);
    exchange of = cost_of_exchange(rank, ZR_ACTIVITY_all_gather, i->bytes, flat_param->coded);
    if (flat_param->coded)
        zr_cost_add(&of.computed, cost_of_codes(rank, flat_param, true));
    begin_exchange(rank, (zr_slot){ZR_SLOT_GATHER, i->flat_param}, of);
}

// Returns what one rank alone does to add its contributions to the sum, which may be where they
// are.
static zr_cost cost_of_adding_alone(const zr_virtual_rank *rank, const zr_flat_param *flat_param)
{
    bool later = condition_holds(rank, ZR_LATER);
    int64_t sums = later ? 2 : 1;
    if (!later && flat_param->accumulator_first < 0)
        return (zr_cost){0};
    return zr_virtual_rank_cost(rank, ZR_ACTIVITY_element,
                                flat_param->shard *
                                    (bytes_of_dtype(flat_param->gradient_dtype) +
                                     sums * bytes_of_dtype(flat_param->accumulator_dtype)),
                                0, 1);
}

static void run_reduce(zr_virtual_rank *rank, const zr_instruction *i)
{
    const zr_flat_param *flat_param = flat_param_of(rank, i);
    bool coded = flat_param->gradient_bits > 0;
    exchange sum = rank->plan->ranks == 1
                       ? (exchange){.computed = cost_of_adding_alone(rank, flat_param)}
                       : cost_of_exchange(rank, ZR_ACTIVITY_reduce_scatter, i->bytes, coded);
    if (coded && rank->plan->ranks > 1)
        zr_cost_add(&sum.computed, cost_of_codes(rank, flat_param, false));
    begin_exchange(rank, (zr_slot){ZR_SLOT_SUM, i->flat_param}, sum);
}

// Returns the link over which all ranks of the job exchange; NULL: they share memory.
static const zr_link_speed *link_of_job(const zr_forecast_question *question)
{
    const zr_link_speed *links[] = {&question->data, &question->tensor, &question->pipeline},
                        *found = NULL;
    for (int i = 0; i < ZR_COUNT(links); i++)
        if (zr_link_is_there(links[i]) &&
            (!found || links[i]->reach.strangers > found->reach.strangers))
            found = links[i];
    return found;
}

void zr_virtual_rank_sum_small(zr_virtual_rank *rank, int64_t others, int64_t words)
{
    int64_t bytes = others * words * (int64_t)sizeof(int64_t);
    const zr_link_speed *link = link_of_job(rank->question);
    zr_virtual_rank_spend(rank, ZR_TIME_EXCHANGE,
                          link && others > 0
                              ? zr_virtual_link_cost(link, ZR_ACTIVITY_all_reduce, (double)bytes)
                              : zr_virtual_rank_cost(rank, ZR_ACTIVITY_all_reduce, bytes, 0, 1));
}

void zr_virtual_rank_sum_words(zr_virtual_rank *rank, int64_t words)
{
    const zr_plan *plan = rank->plan;
    if (!zr_plan_is_asynchronous(plan)) {
        zr_virtual_rank_sum_small(rank, plan->world - 1, words);
        return;
    }
    zr_virtual_rank_sum_small(rank, plan->ranks - 1, words);
    zr_virtual_rank_sum_small(rank, plan->tensor_ranks - 1, words);
}

void zr_virtual_rank_sum_exact(zr_virtual_rank *rank, int64_t sums)
{
    zr_virtual_rank_sum_words(rank, sums * ZR_EXACT_WORDS);
}

// The loss and the norm; and where ranks have to have the same samples, whether they have. Sums
// that are not all ranks' or the stage's go through a link.
static void run_scalars(zr_virtual_rank *rank, const zr_instruction *i)
{
    bool shared = rank->plan->tensor_ranks > 1 || rank->plan->pipeline;
    if (i->what == ZR_SCALARS_OF_ALL)
        zr_virtual_rank_sum_exact(rank, shared ? 3 : 2);
    else if (i->what == ZR_SCALARS_OF_PIPELINE_STAGE)
        zr_virtual_rank_sum_exact(rank, 2);
}

double zr_virtual_disk_rate(const zr_virtual_rank *rank, double rate)
{
    static const double GUESSED = 5e8; // bytes a second
    return (rate > 0 ? rate : GUESSED) / ZR_MAX(rank->question->kv_replicas, 1);
}

// Checksums overlap with the rank, too.
double zr_virtual_disk_begin(zr_virtual_rank *rank, double bytes, double rate)
{
    const zr_rate_book *book = rank->question->book;
    double seconds = bytes / zr_virtual_disk_rate(rank, rate),
           sums = book->checksum > 0 ? bytes / book->checksum : 0;
    if (!rank->spare)
        zr_virtual_rank_spend(rank, ZR_TIME_DISK, (zr_cost){sums, 0});
    rank->unknown += rate > 0 ? 0 : seconds;
    rank->disk = ZR_MAX(rank->disk, rank->now) + seconds;
    return rank->disk;
}

// Moves a slot between a buffer and its tier: memory is copied at once.
static void run_transfer(zr_virtual_rank *rank, const zr_instruction *i)
{
    const zr_rate_book *book = rank->question->book;
    zr_moved moved = {0};
    zr_instruction_moves(rank->plan, i, &moved);
    bool disk = moved.nvme_read + moved.nvme_written > 0,
         through = i->slot.kind == ZR_SLOT_FETCHED || i->slot.kind == ZR_SLOT_TRAVELLED;
    if (disk)
        rank->begun[i->slot.kind][i->slot.index].end =
            moved.nvme_read ? zr_virtual_disk_begin(rank, (double)moved.nvme_read, book->read)
                            : zr_virtual_disk_begin(rank, (double)moved.nvme_written, book->write);
    else if (!through)
        zr_virtual_rank_spend(rank, ZR_TIME_COMPUTE,
                              zr_virtual_rank_cost(rank, ZR_ACTIVITY_element, 2 * i->bytes, 0, 1));
}

// Tensor ranks bring a boundary's shares together; the own one is copied to their window, and all
// from there.
static void charge_share_exchange(zr_virtual_rank *rank, const zr_instruction *i)
{
    const zr_link_speed *link = &rank->question->tensor;
    zr_virtual_rank_spend(rank, ZR_TIME_EXCHANGE,
                          zr_link_is_there(link)
                              ? zr_virtual_tensor_cost(link, ZR_ACTIVITY_exchange, i->bytes)
                              : zr_virtual_rank_cost(rank, ZR_ACTIVITY_exchange, i->bytes, 0, 1));
}

static void await_group(zr_virtual_rank *rank, int group)
{
    double end = group < 0 || !rank->group_ends ? rank->walk_end : rank->group_ends[group];
    zr_virtual_rank_wait(rank, rank->plan->staging_buffer.count ? ZR_TIME_DISK : ZR_TIME_UPDATE,
                         end);
}

static void run_await(zr_virtual_rank *rank, const zr_instruction *i)
{
    bool exchange = i->slot.kind == ZR_SLOT_SUM || i->slot.kind == ZR_SLOT_GATHER;
    zr_time_part part = exchange ? ZR_TIME_EXCHANGE : ZR_TIME_DISK;
    if (i->slot.kind == ZR_SLOT_GROUP)
        await_group(rank, i->slot.index);
    if (!rank->begun[i->slot.kind])
        return; // what other ranks do in the meantime: they are as fast
    zr_begun *begun = &rank->begun[i->slot.kind][i->slot.index];
    zr_virtual_rank_spend(rank, part, (zr_cost){begun->own, 0});
    zr_virtual_rank_wait(rank, part, begun->end);
    *begun = (zr_begun){0};
}

static void run_gradient_rounding(zr_virtual_rank *rank, const zr_instruction *i)
{
    const zr_flat_param *flat_param = flat_param_of(rank, i);
    int64_t bytes = flat_param->padded * (int64_t)sizeof(float) +
                    rank->plan->ranks * zr_flat_param_gradient_shard_bytes(flat_param);
    if (flat_param->carry_first >= 0)
        bytes += 2 * zr_flat_param_open_bytes(flat_param);
    zr_virtual_rank_spend(rank, ZR_TIME_COMPUTE,
                          zr_virtual_rank_cost(rank, ZR_ACTIVITY_element, bytes, 0, 1));
}

static void run_squares(zr_virtual_rank *rank, const zr_instruction *i)
{
    zr_virtual_rank_spend(rank, ZR_TIME_UPDATE, rank->squares[i->flat_param]);
}

// The shard of a tied flat parameter is copied to its slot or from there, or added to another.
static void run_tied_weight(zr_virtual_rank *rank, const zr_instruction *i)
{
    const zr_flat_param *flat_param = flat_param_of(rank, i);
    bool sum = i->what == ZR_TIED_WEIGHT_GIVE_SUM || i->what == ZR_TIED_WEIGHT_ADD_SUM;
    int64_t bytes =
                sum ? zr_flat_param_sum_bytes(flat_param) : zr_flat_param_shard_bytes(flat_param),
            times = i->what == ZR_TIED_WEIGHT_ADD_SUM ? 3 : 2;
    zr_virtual_rank_spend(rank, ZR_TIME_UPDATE,
                          zr_virtual_rank_cost(rank, ZR_ACTIVITY_element, times * bytes, 0, 1));
}

// What is sent to a rank that maps it costs nothing, unless that was measured; what goes over a
// link is under way beside the rank.
static void run_send(zr_virtual_rank *rank, const zr_instruction *i)
{
    bool known = rank->rates && rank->rates->count[ZR_ACTIVITY_send];
    if (zr_virtual_link_between(rank->question, &rank->plan->links[i->slot.index]))
        return;
    if (known || !rank->plan->pipeline->mapped)
        zr_virtual_rank_spend(rank, ZR_TIME_EXCHANGE,
                              zr_virtual_rank_cost(rank, ZR_ACTIVITY_send, i->bytes, 0, 1));
}

// Spends a part of a call.
static void spend_call(zr_virtual_rank *rank, const zr_instruction *call, double part)
{
    const zr_call_cost *cost = &rank->calls[call->unit * ZR_OPERATION_CALLS + call->what];
    zr_cost compute = {part * cost->compute.seconds, part * cost->compute.unknown},
            exchange = {part * cost->exchange.seconds, part * cost->exchange.unknown};
    zr_virtual_rank_spend(rank, ZR_TIME_COMPUTE, compute);
    zr_virtual_rank_spend(rank, ZR_TIME_EXCHANGE, exchange);
}

static void run_if_condition_holds(zr_virtual_rank *rank, const zr_instruction *i);

// The unit runs the instructions of its body from inside of the call: evenly, for all that is
// known.
static void run_call(zr_virtual_rank *rank, const zr_instruction *call)
{
    int parts = 1;
    for (const zr_instruction *i = call + 1; i <= call + call->body; i++)
        parts += i->mark != ZR_UNMARKED;
    spend_call(rank, call, 1.0 / parts);
    for (const zr_instruction *i = call + 1; i <= call + call->body; i++) {
        run_if_condition_holds(rank, i);
        if (i->mark != ZR_UNMARKED)
            spend_call(rank, call, 1.0 / parts);
    }
}

// Instructions that are not listed take no measurable time.
static const run_instruction run[ZR_CODE_COUNT] = {
    [ZR_GATHER] = run_gather,
    [ZR_REDUCE] = run_reduce,
    [ZR_SCALARS] = run_scalars,
    [ZR_FETCH] = run_transfer,
    [ZR_STORE] = run_transfer,
    [ZR_JOIN] = charge_share_exchange,
    [ZR_AWAIT] = run_await,
    [ZR_ROUND] = run_gradient_rounding,
    [ZR_SQUARES] = run_squares,
    [ZR_CALL] = run_call,
    [ZR_UPDATE] = zr_virtual_update,
    [ZR_SEND] = run_send,
    [ZR_TIED_WEIGHT] = run_tied_weight,
};

static void run_if_condition_holds(zr_virtual_rank *rank, const zr_instruction *i)
{
    if (condition_holds(rank, i->when) && run[i->code])
        run[i->code](rank, i);
}

void zr_virtual_rank_run(zr_virtual_rank *rank, zr_pass_kind kind, uint32_t held)
{
    const zr_pass *pass = &rank->plan->program.passes[kind];
    rank->holds = held | 1u << ZR_ALWAYS;
    for (const zr_instruction *i = pass->at; i < pass->at + pass->count; i++) {
        run_if_condition_holds(rank, i);
        i += i->code == ZR_CALL ? i->body : 0;
    }
}
