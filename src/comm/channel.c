// What the channels of all communicators have in common: arguments are checked, messages counted
// and hashed, waits recorded, and every failure reported to the others.
//
// Both ends fold a message into their hash, with the number of its channel and its bytes. Its bytes
// count once, at the sender; a receiver counts them only where they were fetched.
#include "comm/channel.h"

#include "base/random.h"
#include "comm/channel_ops.h"
#include "comm/comm_ops.h"
#include "comm/comm_thread.h"
#include "comm/operations.h"

static const zr_channel_ops *channel_ops_of(const zr_channels *channels)
{
    return channels->comm->ops->channels;
}

// Describes what is wrong with a slot, or with a channel if slot is negative.
static zero_status refuse_channel(const zr_channels *channels, const char *doing, int channel,
                                  int slot, const char *why, zero_error *error)
{
    char label[ZR_CHANNEL_LABEL], where[ZERO_MESSAGE_BYTES];
    if (slot >= 0)
        zr_channel_label(channels, channel, slot, label);
    else
        snprintf(label, sizeof label, "channel %d", channel);
    zr_comm_where(channels->comm, doing, label, where, sizeof where);
    return zr_fail(error, ZERO_ERR_INTERNAL, "%s: %s", where, why);
}

static zero_status check_shape(const zr_channels *channels, int channel, zero_error *error)
{
    const zr_channel_shape *shape = &channels->shapes[channel];
    int ranks = channels->comm->size;
    char why[160];
    if (!shape->name)
        return refuse_channel(channels, "creation", channel, -1, "it has no name", error);
    if (shape->from >= 0 && shape->from < ranks && shape->to >= 0 && shape->to < ranks &&
        shape->from != shape->to && shape->slots >= 1 && shape->bytes >= 1 && shape->first >= 0 &&
        shape->first < shape->bytes &&
        shape->bytes <= (INT64_MAX >> 2) / channels->count / shape->slots)
        return ZERO_OK;
    snprintf(why, sizeof why,
             "%d slots of %lld bytes from rank %d to rank %d of %d: it has slots, and two ends",
             shape->slots, (long long)shape->bytes, shape->from, shape->to, ranks);
    return refuse_channel(channels, "creation", channel, -1, why, error);
}

static uint64_t hash_shapes(const zr_channels *channels)
{
    uint64_t hash = (uint64_t)channels->count;
    for (int i = 0; i < channels->count; i++) {
        const zr_channel_shape *shape = &channels->shapes[i];
        int64_t fields[] = {shape->from,  shape->to,    shape->slots,
                            shape->bytes, shape->first, shape->on_host};
        hash = zr_hash_bytes(fields, sizeof fields, hash);
    }
    return hash;
}

// Collective. Fails on all ranks if they request different channels.
static zero_status compare_shapes(const zr_channels *channels, zero_error *error)
{
    zero_comm *comm = channels->comm;
    int64_t hash = (int64_t)(hash_shapes(channels) >> 1);
    int64_t extremes[] = {channels->count, -channels->count, hash, -hash};
    ZERO_TRY(
        comm->ops->all_reduce_small(comm, extremes, ZR_COUNT(extremes), ZERO_I64, ZR_MAX, error));
    if (extremes[0] == -extremes[1] && extremes[2] == -extremes[3])
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_INTERNAL,
                   "the ranks ask for different channels: %lld to %lld of them; rank %d "
                   "asks for %d",
                   (long long)-extremes[1], (long long)extremes[0],
                   zr_comm_job_rank(comm, comm->rank), channels->count);
}

static zero_status create_channels(zr_channels *channels, zero_error *error)
{
    const zero_comm *comm = channels->comm;
    for (int i = 0; i < channels->count; i++)
        ZERO_TRY(check_shape(channels, i, error));
    ZERO_TRY(compare_shapes(channels, error));
    if (channels->count == 0)
        return ZERO_OK;
    if (!channel_ops_of(channels))
        return zr_fail(error, ZERO_ERR_UNSUPPORTED, "a communicator of kind \"%s\" has no channels",
                       comm->ops->name);
    return channel_ops_of(channels)->create(channels, error);
}

zero_status zr_channels_create(zero_comm *comm, const zr_channel_shape *shapes, int count,
                               zr_channels *out, zero_error *error)
{
    zr_channels made = {.comm = comm, .count = count, .shapes = shapes};
    error = ZR_OR_OWN_ERROR(error);
    *out = (zr_channels){0};
    if (comm->size == 1)
        return ZERO_OK;
    zr_comm_thread_drain(comm);
    ZERO_TRY(zr_comm_abort_on_failure(comm, create_channels(&made, error), error));
    if (count > 0)
        *out = made;
    return ZERO_OK;
}

void zr_channels_destroy(zr_channels *channels)
{
    if (channels->comm) {
        zr_comm_end_work(channels->comm);
        channel_ops_of(channels)->destroy(channels);
    }
    *channels = (zr_channels){0};
}

int64_t zr_channel_shapes_bytes(const zr_channel_shape *shapes, int count, int rank, bool mapped)
{
    int64_t bytes = 0;
    for (int i = 0; i < count; i++)
        if (shapes[i].from == rank || (shapes[i].to == rank && !mapped))
            bytes += shapes[i].slots * zr_channel_stride(&shapes[i]);
    return bytes;
}

char *zr_channel_at(const zr_channels *channels, int channel, int slot)
{
    assert(channel >= 0 && channel < channels->count);
    assert(slot >= 0 && slot < channels->shapes[channel].slots);
    return channel_ops_of(channels)->at(channels, channel, slot);
}

// Checks that there is such a slot, and that this rank is the end of its channel that may do this.
static zero_status check_end(const zr_channels *channels, const char *doing, int channel, int slot,
                             bool sends, zero_error *error)
{
    const zero_comm *comm = channels->comm;
    char why[96];
    if (channel < 0 || channel >= channels->count)
        return refuse_channel(channels, doing, channel, -1, "there is no such channel", error);
    const zr_channel_shape *shape = &channels->shapes[channel];
    int end = sends ? shape->from : shape->to;
    if (slot < 0 || slot >= shape->slots) {
        snprintf(why, sizeof why, "%s has %d slots, and no slot %d", shape->name, shape->slots,
                 slot);
        return refuse_channel(channels, doing, channel, -1, why, error);
    }
    if (end == comm->rank)
        return ZERO_OK;
    snprintf(why, sizeof why, "rank %d %s there", zr_comm_job_rank(comm, end),
             sends ? "sends" : "receives");
    return refuse_channel(channels, doing, channel, slot, why, error);
}

static zero_status check_bytes(const zr_channels *channels, const char *doing, int channel,
                               int slot, int64_t bytes, zero_error *error)
{
    int64_t room = channels->shapes[channel].bytes - channels->shapes[channel].first;
    char why[96];
    if (bytes >= 0 && bytes <= room)
        return ZERO_OK;
    snprintf(why, sizeof why, "%lld bytes do not fit into its %lld", (long long)bytes,
             (long long)room);
    return refuse_channel(channels, doing, channel, slot, why, error);
}

// Returns where the wait of an operation is recorded here. Under a comm thread the waits inside of
// operations are not recorded (zr_wait_recorder), but channels wait on the rank's own thread.
static zr_recorder *own_wait_recorder(const zero_comm *comm)
{
    return comm->comm_thread ? comm->recorder : NULL;
}

static zero_status take_slot(zr_channels *channels, int channel, int slot, zero_error *error)
{
    zr_recorder *recorder = own_wait_recorder(channels->comm);
    ZERO_TRY(check_end(channels, "take", channel, slot, true, error));
    int64_t begin = zr_recorder_begin(recorder);
    zero_status status = channel_ops_of(channels)->take(channels, channel, slot, error);
    zr_recorder_add(recorder, ZR_ACTIVITY_wait, begin, 0, 0, -1);
    return status;
}

zero_status zr_channel_take(zr_channels *channels, int channel, int slot, zero_error *error)
{
    error = ZR_OR_OWN_ERROR(error);
    return zr_comm_abort_on_failure(channels->comm, take_slot(channels, channel, slot, error),
                                    error);
}

// Returns the bytes of a message that go from one machine to another.
static int64_t over_network(const zr_channels *channels, int channel, int64_t bytes)
{
    const zr_channel_shape *shape = &channels->shapes[channel];
    const int *machines = channels->comm->machines;
    return machines && machines[shape->from] != machines[shape->to] ? bytes : 0;
}

static zero_status send_slot(zr_channels *channels, int channel, int slot, int64_t bytes,
                             zero_error *error)
{
    ZERO_TRY(check_end(channels, "send", channel, slot, true, error));
    ZERO_TRY(check_bytes(channels, "send", channel, slot, bytes, error));
    zr_recorder *recorder = channels->comm->recorder;
    int64_t begin = zr_recorder_begin(recorder);
    ZERO_TRY(channel_ops_of(channels)->send(channels, channel, slot, bytes, error));
    zr_recorder_add(recorder, ZR_ACTIVITY_send, begin, bytes, 0, -1);
    zr_comm_count(channels->comm, ZERO_COMM_send, channel, bytes, bytes,
                  over_network(channels, channel, bytes));
    return ZERO_OK;
}

zero_status zr_channel_send(zr_channels *channels, int channel, int slot, int64_t bytes,
                            zero_error *error)
{
    error = ZR_OR_OWN_ERROR(error);
    return zr_comm_abort_on_failure(channels->comm,
                                    send_slot(channels, channel, slot, bytes, error), error);
}

static zero_status await_message(zr_channels *channels, int channel, int slot, int64_t *bytes,
                                 zero_error *error)
{
    zr_recorder *recorder = own_wait_recorder(channels->comm);
    int64_t begin = zr_recorder_begin(recorder);
    zero_status status = channel_ops_of(channels)->receive(channels, channel, slot, bytes, error);
    zr_recorder_add(recorder, ZR_ACTIVITY_wait, begin, 0, 0, -1);
    return status;
}

static zero_status receive_slot(zr_channels *channels, int channel, int slot, int64_t bytes,
                                zero_error *error)
{
    zero_comm *comm = channels->comm;
    int64_t came = 0;
    char why[128];
    ZERO_TRY(check_end(channels, "receive", channel, slot, false, error));
    ZERO_TRY(check_bytes(channels, "receive", channel, slot, bytes, error));
    ZERO_TRY(await_message(channels, channel, slot, &came, error));
    if (came != bytes) {
        snprintf(why, sizeof why, "rank %d sent %lld bytes, where %lld are expected",
                 zr_comm_job_rank(comm, channels->shapes[channel].from), (long long)came,
                 (long long)bytes);
        return refuse_channel(channels, "receive", channel, slot, why, error);
    }
    zr_comm_count(comm, ZERO_COMM_recv, channel, bytes, comm->versions ? 0 : bytes,
                  over_network(channels, channel, bytes));
    return ZERO_OK;
}

zero_status zr_channel_receive(zr_channels *channels, int channel, int slot, int64_t bytes,
                               zero_error *error)
{
    error = ZR_OR_OWN_ERROR(error);
    return zr_comm_abort_on_failure(channels->comm,
                                    receive_slot(channels, channel, slot, bytes, error), error);
}

static zero_status release_slot(zr_channels *channels, int channel, int slot, zero_error *error)
{
    ZERO_TRY(check_end(channels, "release", channel, slot, false, error));
    return channel_ops_of(channels)->release(channels, channel, slot, error);
}

zero_status zr_channel_release(zr_channels *channels, int channel, int slot, zero_error *error)
{
    error = ZR_OR_OWN_ERROR(error);
    return zr_comm_abort_on_failure(channels->comm, release_slot(channels, channel, slot, error),
                                    error);
}
