#include "plan/predict.h"

#include "plan/piece_sums.h"

static double bytes_at(double bytes, double rate) { return rate > 0 ? bytes / rate : 0; }

static double larger(double a, double b) { return a > b ? a : b; }

static zr_moved sum_of(const zr_moved *a, double times, const zr_moved *b)
{
    return (zr_moved){.to_host = a->to_host + (int64_t)(times * (double)b->to_host),
                      .to_device = a->to_device + (int64_t)(times * (double)b->to_device),
                      .nvme_read = a->nvme_read + (int64_t)(times * (double)b->nvme_read),
                      .nvme_written = a->nvme_written + (int64_t)(times * (double)b->nvme_written)};
}

static zr_moved moved_by_micro_batches(const zr_plan *plan)
{
    const zr_moves *moves = &plan->moves;
    double later = (double)plan->settings.accumulation - 1;
    zr_moved all = sum_of(&moves->micro_batch, later, &moves->micro_batch);
    all = sum_of(&all, later, &moves->earlier_sum);
    return sum_of(&all, 1, &moves->kept);
}

// Returns the seconds of the kernels, of one more forward where activations are computed again (a
// third of forward and backward, except for the last segment), and of rounding each unit's
// contributions to the gradients' type.
static double compute_seconds(const zr_plan *plan, const zr_speed *speed)
{
    double again = plan->segment_count > 0 ? (1 - 1.0 / plan->segment_count) / 3 : 0, rounded = 0;
    for (int p = 0; p < plan->piece_count; p++)
        if (plan->pieces[p].open_first >= 0)
            rounded += (double)(plan->pieces[p].padded *
                                (int64_t)(sizeof(float) +
                                          zero_dtype_bytes(plan->pieces[p].gradient_dtype)));
    return (double)plan->settings.accumulation *
           (speed->micro_batch * (1 + again) + bytes_at(rounded, speed->copy));
}

// Returns the seconds of fetching from other ranks, and of gathering shards that lie elsewhere than
// units read them: each byte is read once and written once.
static double exchange_seconds(const zr_plan *plan, const zr_speed *speed, const zr_moved *moved)
{
    double bytes = (double)moved->to_device;
    for (zr_pass_kind kind = 0; kind < ZR_PASS_COUNT; kind++)
        for (int op = 0; op < ZERO_COMM_OP_COUNT && kind != ZR_PASS_EVALUATION; op++)
            bytes +=
                (double)(plan->traffic[kind].data.bytes[op] + plan->traffic[kind].tensor.bytes[op] +
                         plan->traffic[kind].holders.bytes[op]) *
                (kind == ZR_PASS_MICRO_BATCH ? (double)plan->settings.accumulation : 1);
    return bytes_at(2 * bytes, speed->copy);
}

static double bytes_of_walk(const zr_plan *plan, const zr_walk_vectors *walk)
{
    double elems = 0, bytes = 0;
    for (int g = 0; g < plan->group_count; g++)
        elems += (double)plan->groups[g].count;
    for (int v = 0; v < ZR_VECTOR_COUNT; v++)
        if (zr_plan_has_vector(plan, v))
            bytes += elems * (double)((int64_t)((walk->reads >> v & 1) + (walk->writes >> v & 1)) *
                                      zr_vector_size(plan, v));
    return bytes;
}

// Adds one walk of the update: what goes on in memory, and how much longer NVMe takes.
static void add_walk(const zr_plan *plan, const zr_speed *speed, const zr_walk_vectors *walk,
                     const zr_moved *moved, zr_prediction *to)
{
    double bytes = (double)(moved->nvme_read + moved->nvme_written);
    double busy =
        bytes_at(bytes_of_walk(plan, walk), speed->update) + bytes_at(bytes, speed->checksum);
    to->update += busy;
    to->disk += larger(bytes_at(bytes, speed->mix) - busy, 0);
}

static double norm_seconds(const zr_plan *plan, const zr_speed *speed)
{
    double bytes = 0;
    for (int p = 0; p < plan->piece_count; p++)
        if (plan->pieces[p].state_first >= 0)
            bytes += (double)zr_piece_sum_bytes(&plan->pieces[p]);
    return bytes_at(bytes, speed->copy);
}

// Returns how long NVMe takes for the micro-batches beyond what goes on meanwhile.
static double waiting_seconds(const zr_speed *speed, const zr_moved *moved,
                              const zr_prediction *meanwhile)
{
    double read = bytes_at((double)moved->nvme_read, speed->read);
    double written = bytes_at((double)moved->nvme_written, speed->write);
    return larger(read + written - meanwhile->compute - meanwhile->exchange, 0);
}

// Adds the first walk of the update. If it is delayed, it goes on while forward and backward
// compute.
static void add_first_walk(const zr_plan *plan, const zr_prediction *walk, zr_prediction *to)
{
    if (plan->settings.delayed) {
        double room = to->compute + to->exchange + to->disk;
        to->disk += larger(walk->update + walk->disk - room, 0);
    } else {
        to->update += walk->update;
        to->disk += walk->disk;
    }
}

zr_prediction zr_predict(const zr_plan *plan, const zr_speed *speed)
{
    zr_prediction p = {0}, first = {0};
    zr_walk_vectors walks[2];
    zr_moved moved = moved_by_micro_batches(plan);
    double checked = (double)(moved.nvme_read + moved.nvme_written);
    int count = zr_plan_walks(plan, walks);
    p.compute = compute_seconds(plan, speed) + bytes_at(checked, speed->checksum);
    p.exchange = exchange_seconds(plan, speed, &moved);
    p.disk = waiting_seconds(speed, &moved, &p);
    p.update = norm_seconds(plan, speed);
    for (int i = 0; i < count; i++)
        add_walk(plan, speed, &walks[i], &plan->moves.update[i], i == 0 ? &first : &p);
    add_first_walk(plan, &first, &p);
    p.total = p.compute + p.exchange + p.update + p.disk;
    return p;
}

const char *zr_prediction_bottleneck(const zr_prediction *p)
{
    const struct {
        double seconds;
        const char *name;
    } parts[] = {{p->compute, "compute"},
                 {p->exchange, "exchange between ranks"},
                 {p->update, "update"},
                 {p->disk, "NVMe"}};
    int most = 0;
    for (int i = 1; i < ZR_COUNT(parts); i++)
        if (parts[i].seconds > parts[most].seconds)
            most = i;
    return parts[most].name;
}
