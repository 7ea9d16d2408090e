// The update on virtual time: walks over the groups, whose vectors may travel through staging
// buffers between NVMe and host memory (engine/group_walk.c does the same in real time).
#include "base/numbers.h"
#include "base/quantised.h"
#include "comm/communicator.h"
#include "plan/accumulators.h"
#include "predict/virtual_rank.h"

// Elements for which bytes are counted: the scales of states in 8 bits have one for each block.
enum { BLOCK = ZR_STATE_BLOCK };

typedef struct span { // elements of a flat parameter
    int64_t first, count;
} span;

// Returns what an operation costs that is made for each tensor's part of a span.
static zr_cost cost_of_parts(const zr_virtual_rank *rank, const zr_flat_param *flat_param, span of,
                             zr_activity what, int64_t block_bytes)
{
    zr_cost sum = {0};
    for (const zr_plan_tensor *t = flat_param->tensors;
         t < flat_param->tensors + flat_param->tensor_count; t++) {
        int64_t begin = ZR_MAX(t->first, of.first),
                end = ZR_MIN(t->first + t->count, of.first + of.count);
        if (begin >= end)
            continue;
        zr_cost_add(&sum,
                    zr_virtual_rank_cost(rank, what, (end - begin) * block_bytes / BLOCK, 0, 1));
    }
    return sum;
}

// Returns the bytes that a walk reads and writes of a block of elements.
static int64_t bytes_of_walk(const zr_plan *plan, const zr_walk_vectors *walk)
{
    int64_t bytes = 0;
    for (int v = 0; v < ZR_VECTOR_COUNT; v++)
        if (zr_plan_has_vector(plan, v))
            bytes += (int64_t)((walk->reads >> v & 1) + (walk->writes >> v & 1)) *
                     zr_vector_bytes(&plan->settings, v, BLOCK);
    return bytes;
}

// Adds LAMB's norms, of the parameters and of the direction, as far as the own shard has them.
static void add_norms(const zr_virtual_rank *rank, const zr_shard_slice *shard_slice, zr_cost *sum)
{
    const zr_flat_param *flat_param = &rank->plan->flat_params[shard_slice->flat_param];
    const span own = {shard_slice->first,
                      ZR_MIN(shard_slice->count, flat_param->shard - shard_slice->first)};
    if (flat_param->counted)
        for (int norms = 0; norms < 2; norms++)
            zr_cost_add(sum, cost_of_parts(rank, flat_param, own, ZR_ACTIVITY_square_sum,
                                           BLOCK * sizeof(float)));
}

// Returns what a walk does with a shard slice. The master is copied with gaps and padding.
static zr_cost cost_of_shard_slice(const zr_virtual_rank *rank, int walk, int64_t bytes,
                                   const zr_shard_slice *shard_slice)
{
    if (walk == ZR_VIRTUAL_COPY)
        return zr_virtual_rank_cost(rank, ZR_ACTIVITY_element, shard_slice->count * bytes / BLOCK,
                                    0, 1);
    zr_cost sum =
        cost_of_parts(rank, &rank->plan->flat_params[shard_slice->flat_param],
                      (span){shard_slice->first, shard_slice->count}, ZR_ACTIVITY_optimizer, bytes);
    if (rank->plan->settings.per_tensor_norms && walk == 0)
        add_norms(rank, shard_slice, &sum);
    return sum;
}

// Finds the costs of a walk, of the first rank's shards, which have the least padding.
static zero_status find_walk(zr_virtual_rank *rank, int walk, const zr_walk_vectors *vectors,
                             zero_error *error)
{
    const zr_plan *plan = rank->plan;
    int64_t bytes = bytes_of_walk(plan, vectors);
    zr_cost *costs = zr_alloc((size_t)plan->shard_slice_count * sizeof *costs + 1, error);
    rank->walks[walk] = costs;
    for (int s = 0; costs && s < plan->shard_slice_count; s++)
        costs[s] = cost_of_shard_slice(rank, walk, bytes, &plan->shard_slices[s]);
    return costs ? ZERO_OK : ZERO_ERR_MEMORY;
}

static zero_status find_squares(zr_virtual_rank *rank, zero_error *error)
{
    const zr_plan *plan = rank->plan;
    rank->squares = zr_alloc((size_t)plan->flat_param_count * sizeof *rank->squares + 1, error);
    if (!rank->squares)
        return ZERO_ERR_MEMORY;
    for (int p = 0; p < plan->flat_param_count; p++) {
        const zr_flat_param *flat_param = &plan->flat_params[p];
        if (flat_param->counted)
            rank->squares[p] = cost_of_parts(
                rank, flat_param, (span){0, flat_param->shard}, ZR_ACTIVITY_square_sum,
                BLOCK * (int64_t)zero_dtype_bytes(flat_param->accumulator_dtype));
    }
    return ZERO_OK;
}

zero_status zr_virtual_walks_find(zr_virtual_rank *rank, zero_error *error)
{
    const zr_plan *plan = rank->plan;
    zr_walk_vectors walks[ZR_MOST_WALKS];
    int count = zr_plan_walks(plan, walks);
    for (int w = 0; w < count; w++)
        ZERO_TRY(find_walk(rank, w, &walks[w], error));
    ZERO_TRY(find_walk(rank, ZR_VIRTUAL_COPY, &zr_copy_walk, error));
    ZERO_TRY(find_squares(rank, error));
    if (!plan->settings.delayed)
        return ZERO_OK;
    rank->group_ends = zr_alloc((size_t)plan->group_count * sizeof *rank->group_ends + 1, error);
    return rank->group_ends ? ZERO_OK : ZERO_ERR_MEMORY;
}

typedef struct walk {
    zr_virtual_rank *rank;
    const zr_walk_vectors *vectors;
    const zr_cost *costs;                            // (shard slices)
    bool overlapped;                                 // it begins with the last group
    double staging_buffers[ZR_MOST_STAGING_BUFFERS]; // when the transfers of each have ended
} walk;

static int group_at(const walk *w, int i)
{
    return w->overlapped ? w->rank->plan->group_count - 1 - i : i;
}

static void await_staging_buffer(walk *w, int g)
{
    int count = w->rank->plan->staging_buffer.count;
    if (count)
        zr_virtual_rank_wait(w->rank, ZR_TIME_DISK, w->staging_buffers[g % count]);
}

// Begins to read or write the part of a group that is on NVMe, after what was begun before in its
// staging buffer.
static void move_group(walk *w, int g, bool write)
{
    const zr_plan *plan = w->rank->plan;
    zr_moved moved = {0};
    zr_group_moves(plan, &plan->groups[g], w->vectors, &moved);
    int64_t bytes = write ? moved.nvme_written : moved.nvme_read;
    if (!plan->staging_buffer.count || !bytes)
        return;
    await_staging_buffer(w, g);
    w->staging_buffers[g % plan->staging_buffer.count] =
        zr_virtual_disk_begin(w->rank, (double)bytes, w->rank->question->book->mix);
}

static void compute_group(walk *w, int g)
{
    const zr_group *group = &w->rank->plan->groups[g];
    for (int s = group->shard_slice_first; s < group->shard_slice_first + group->shard_slice_count;
         s++)
        zr_virtual_rank_spend(w->rank, ZR_TIME_UPDATE, w->costs[s]);
    if (w->overlapped)
        w->rank->group_ends[g] = w->rank->now;
}

static void run_walk(walk *w)
{
    const zr_plan *plan = w->rank->plan;
    const zr_tiering *tiering = &plan->settings.tiering;
    int fetched = -1;
    for (int i = 0; i < plan->group_count; i++) {
        int g = group_at(w, i),
            last = ZR_MIN(i + (tiering->read_ahead ? 1 : 0), plan->group_count - 1);
        while (fetched < i)
            move_group(w, group_at(w, ++fetched), false);
        await_staging_buffer(w, g);
        while (fetched < last)
            move_group(w, group_at(w, ++fetched), false);
        compute_group(w, g);
        move_group(w, g, true);
        if (!tiering->write_behind)
            await_staging_buffer(w, g);
    }
    for (int staging_buffer = 0; staging_buffer < plan->staging_buffer.count; staging_buffer++)
        await_staging_buffer(w, staging_buffer);
}

static void walk_at_once(zr_virtual_rank *rank, int which, const zr_walk_vectors *vectors)
{
    run_walk(&(walk){.rank = rank, .vectors = vectors, .costs = rank->walks[which]});
}

// Begins a walk on a thread and a clock of its own. Where it has no core of its own, it and the
// rank get half of what they share, as long as it computes.
static void walk_overlapped(zr_virtual_rank *rank, const zr_walk_vectors *vectors)
{
    zr_virtual_rank aside = *rank;
    double begin = rank->now, update = rank->parts[ZR_TIME_UPDATE];
    aside.disk = begin;
    run_walk(
        &(walk){.rank = &aside, .vectors = vectors, .costs = rank->walks[0], .overlapped = true});
    double busy = aside.parts[ZR_TIME_UPDATE] - update, taken = aside.now - begin;
    double stretched = rank->spare ? taken : ZR_MAX(taken, 2 * busy);
    for (int g = 0; g < rank->plan->group_count && taken > 0; g++)
        rank->group_ends[g] = begin + (rank->group_ends[g] - begin) * stretched / taken;
    rank->walk_end = begin + stretched;
    rank->unknown = aside.unknown;
    if (!rank->spare && stretched > 0) {
        rank->slow_until = rank->walk_end;
        rank->speed = 1 - busy / stretched;
    }
}

// Sets a buffer to the mean of its sums.
static void spend_mean(zr_virtual_rank *rank, const zr_instruction *i)
{
    int64_t bytes = 2 * zr_flat_param_sum_bytes(&rank->plan->flat_params[i->flat_param]);
    zr_virtual_rank_spend(rank, ZR_TIME_UPDATE,
                          zr_virtual_rank_cost(rank, ZR_ACTIVITY_element, bytes, 0, 1));
}

// Norms of tensors are summed over ranks, as many at a time as are small.
static void sum_norms(zr_virtual_rank *rank, int count)
{
    enum { AT_ONCE = ZR_COMM_SMALL_BYTES / sizeof(zr_exact) };
    for (int left = count; left > 0; left -= AT_ONCE)
        zr_virtual_rank_sum_exact(rank, ZR_MIN(left, (int)AT_ONCE));
}

// Adafactor's sums by rows and columns, two words each.
static void sum_factors(zr_virtual_rank *rank)
{
    enum { AT_ONCE = ZR_COMM_SMALL_BYTES / sizeof(int64_t) };
    for (int64_t left = 2 * rank->plan->factor_elems; left > 0; left -= AT_ONCE)
        zr_virtual_rank_sum_words(rank, ZR_MIN(left, (int64_t)AT_ONCE));
}

// What the ranks sum between two walks.
static void sum_between(zr_virtual_rank *rank, int walk)
{
    const zr_settings *settings = &rank->plan->settings;
    int norms = rank->plan->tensor_count;
    if (settings->factored && walk == 0)
        sum_factors(rank);
    if (settings->factored || settings->per_tensor_norms)
        sum_norms(rank, settings->factored ? norms : 2 * norms);
}

// Returns the cost of Muon's iteration on a matrix: of its products, all of their mean size.
static zr_cost cost_of_iteration(const zr_virtual_rank *rank, const zr_muon_matrix *matrix)
{
    const zr_orthogonal of = zr_plan_orthogonal(rank->plan, matrix->rows, matrix->cols);
    int64_t n = ZR_MIN(of.rows, of.cols), m = ZR_MAX(of.rows, of.cols);
    int64_t products = 3 * ZR_MAX(of.steps, 1), operands = 2 * n * m + n * n;
    return zr_virtual_rank_cost(rank, ZR_ACTIVITY_product, operands * (int64_t)sizeof(uint16_t),
                                (int64_t)zr_orthogonal_flops(&of) / products, (double)products);
}

// Returns the cost of the messages that come to a rank for one of the matrices that the ranks have,
// with what others give to the owner and what it gives back: shares, or at stage 0 all.
static zr_cost cost_of_pieces(const zr_virtual_rank *rank, const zr_muon_matrix *matrix)
{
    const zr_plan *plan = rank->plan;
    const zr_forecast_question *question = rank->question;
    const zr_link_speed *link =
        zr_link_is_there(&question->data) ? &question->data : &question->tensor;
    int64_t ranks = plan->ranks * plan->tensor_ranks,
            copies = 1 + (plan->settings.stage == 0 ? plan->ranks : 1);
    int64_t elements = matrix->rows * matrix->cols * copies * (ranks - 1) / (ranks * ranks),
            bytes = elements * (int64_t)sizeof(uint16_t);
    return zr_link_is_there(link) ? zr_virtual_link_cost(link, ZR_ACTIVITY_send, (double)bytes)
                                  : zr_virtual_rank_cost(rank, ZR_ACTIVITY_send, bytes, 0, 1);
}

// Muon's rounds (engine/muon.h): in each all wait for the rank whose matrix takes longest.
static void make_orthogonal(zr_virtual_rank *rank)
{
    const zr_plan *plan = rank->plan;
    for (int i = 0, end; i < plan->matrix_count; i = end) {
        zr_cost longest = {0};
        for (end = i;
             end < plan->matrix_count && plan->matrices[end].round == plan->matrices[i].round;
             end++) {
            zr_cost cost = cost_of_iteration(rank, &plan->matrices[end]);
            longest = cost.seconds > longest.seconds ? cost : longest;
            if (plan->ranks * plan->tensor_ranks > 1)
                zr_virtual_rank_spend(rank, ZR_TIME_EXCHANGE,
                                      cost_of_pieces(rank, &plan->matrices[end]));
        }
        zr_virtual_rank_spend(rank, ZR_TIME_UPDATE, longest);
    }
}

static void update_at_once(zr_virtual_rank *rank)
{
    const zr_settings *settings = &rank->plan->settings;
    zr_walk_vectors walks[ZR_MOST_WALKS];
    int count = zr_plan_walks(rank->plan, walks);
    if (settings->delayed) // its second walk makes parameters, at another time
        count = 1;
    for (int w = 0; w < count; w++) {
        walk_at_once(rank, w, &walks[w]);
        if (w + 1 < count)
            sum_between(rank, w);
        if (settings->orthogonal && w == 0)
            make_orthogonal(rank);
    }
}

void zr_virtual_update(zr_virtual_rank *rank, const zr_instruction *i)
{
    zr_walk_vectors walks[ZR_MOST_WALKS];
    zr_plan_walks(rank->plan, walks);
    if (i->what == ZR_PART_MEAN) {
        spend_mean(rank, i);
    } else if (i->what == ZR_PART_COPY) {
        walk_at_once(rank, ZR_VIRTUAL_COPY, &zr_copy_walk);
    } else if (i->slot.kind == ZR_SLOT_GROUP) {
        walk_overlapped(rank, &walks[0]);
    } else {
        update_at_once(rank);
    }
}
