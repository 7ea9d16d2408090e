#include "channel_ring.h"

#include "comm_grid.h"

#include "base/clock.h"
#include "base/random.h"
#include "comm/window.h"

#include <sched.h>
#include <string.h>

// ---- rings ----

enum { KINDS = 3, RING_RANKS = 8, RING_SLOTS = 3, RINGS = 4, STEPS = 600 };

typedef struct held { // what a receiver has not released
    bool is;
    int64_t number, bytes; // of the message
} held;

typedef struct ring { // the channels of one communicator
    zero_comm *comm;
    zr_channel_shape shapes[KINDS * RING_RANKS];
    zr_channels channels;
    int64_t sent[KINDS * RING_RANKS]; // messages so far
    held held[KINDS * RING_RANKS][RING_SLOTS];
    zr_window window; // of other operations in between: (size) floats
    zr_handle gather;
    int gathered; // at which step it was started
} ring;

static zero_status ring_open(zero_comm *comm, bool comm_thread, ring *out, zero_error *error)
{
    static const zr_channel_shape kinds[KINDS] = {
        {.slots = 2, .bytes = 4096, .name = "forward"},
        {.slots = 3, .bytes = 100, .name = "backward"},
        {.slots = 1, .bytes = 200001, .name = "large"},
    };
    *out = (ring){.comm = comm};
    for (int r = 0; r < comm->size; r++)
        for (int k = 0; k < KINDS; k++) {
            int next = (r + 1) % comm->size;
            zr_channel_shape *shape = &out->shapes[r * KINDS + k];
            *shape = kinds[k];
            shape->from = k == 1 ? next : r;
            shape->to = k == 1 ? r : next;
        }
    ZERO_TRY(zr_channels_create(comm, out->shapes, KINDS * comm->size, &out->channels, error));
    ZERO_TRY(zr_window_create(comm, ZR_WINDOW_SYMMETRIC, (int64_t)sizeof(float) * comm->size, 1,
                              NULL, &out->window, error));
    return comm_thread ? zr_comm_overlap(comm, error) : ZERO_OK;
}

static void ring_close(ring *ring)
{
    zr_window_destroy(&ring->window);
    zr_channels_destroy(&ring->channels);
}

static zero_status wrong(const ring *ring, int channel, const char *what, zero_error *error)
{
    return zr_fail(error, ZERO_ERR_DATA, "rank %d of %d: message %lld of channel %d: %s",
                   ring->comm->rank, ring->comm->size, (long long)ring->sent[channel] - 1, channel,
                   what);
}

static unsigned char byte_at(int channel, int64_t number, int64_t i)
{
    return (unsigned char)(number * 131 + channel * 17 + i * 7 + (i >> 8));
}

static zero_status send_one(ring *ring, int channel, int slot, int64_t bytes, zero_error *error)
{
    int64_t number = ring->sent[channel] - 1;
    ZERO_TRY(zr_channel_take(&ring->channels, channel, slot, error));
    unsigned char *data = (unsigned char *)zr_channel_at(&ring->channels, channel, slot);
    for (int64_t i = 0; i < bytes; i++)
        data[i] = byte_at(channel, number, i);
    return zr_channel_send(&ring->channels, channel, slot, bytes, error);
}

// Checks what the receiver has written, and gives the slot back.
static zero_status release_held(ring *ring, int channel, int slot, zero_error *error)
{
    held *held = &ring->held[channel][slot];
    const unsigned char *data = (unsigned char *)zr_channel_at(&ring->channels, channel, slot);
    for (int64_t i = 0; i < held->bytes; i++)
        if (data[i] != (unsigned char)~byte_at(channel, held->number, i))
            return wrong(ring, channel, "overwritten before it was released", error);
    held->is = false;
    return zr_channel_release(&ring->channels, channel, slot, error);
}

static zero_status receive_one(ring *ring, int channel, int slot, int64_t bytes, zero_error *error)
{
    held *held = &ring->held[channel][slot];
    if (held->is)
        ZERO_TRY(release_held(ring, channel, slot, error));
    ZERO_TRY(zr_channel_receive(&ring->channels, channel, slot, bytes, error));
    *held = (struct held){.is = true, .number = ring->sent[channel] - 1, .bytes = bytes};
    unsigned char *data = (unsigned char *)zr_channel_at(&ring->channels, channel, slot);
    for (int64_t i = 0; i < bytes; i++) {
        if (data[i] != byte_at(channel, held->number, i))
            return wrong(ring, channel, "other bytes than were sent", error);
        data[i] = (unsigned char)~data[i];
    }
    return ZERO_OK;
}

// Does this rank's part of one message.
static zero_status pass_one(ring *ring, const zr_philox *all, zero_error *error)
{
    int channel = (int)(all->v[0] % (uint32_t)ring->channels.count);
    const zr_channel_shape *shape = &ring->shapes[channel];
    int slot = (int)(all->v[1] % (uint32_t)shape->slots);
    int64_t bytes = all->v[2] % (uint32_t)(shape->bytes + 1);
    ring->sent[channel]++;
    if (shape->from == ring->comm->rank)
        return send_one(ring, channel, slot, bytes, error);
    if (shape->to == ring->comm->rank)
        return receive_one(ring, channel, slot, bytes, error);
    return ZERO_OK;
}

static zero_status finish_gather(ring *ring, zero_error *error)
{
    const float *found = (const float *)ring->window.mine;
    if (!ring->gather.pending)
        return ZERO_OK;
    ZERO_TRY(zr_comm_wait(&ring->gather, error));
    for (int r = 0; r < ring->comm->size; r++)
        if (found[r] != (float)(ring->gathered + r))
            return wrong(ring, 0, "wrong shard beside it", error);
    return zr_comm_quiesce(&ring->window, 0, error);
}

static zero_status begin_gather(ring *ring, int step, zero_error *error)
{
    ZERO_TRY(finish_gather(ring, error));
    ((float *)ring->window.mine)[ring->comm->rank] = (float)(step + ring->comm->rank);
    ring->gathered = step;
    return zr_comm_start(&ring->window, ZERO_COMM_all_gather, 0, 0, 1, ZERO_F32, NULL,
                         &ring->gather, error);
}

// Lets a rank be late now and then, and release something.
static zero_status dawdle(ring *rings, int count, const zr_philox *own, zero_error *error)
{
    ring *ring = &rings[own->v[0] % (uint32_t)count];
    int channel = (int)(own->v[1] % (uint32_t)ring->channels.count),
        slot = (int)(own->v[2] % RING_SLOTS);
    if (own->v[3] % 16 == 0)
        zr_sleep_seconds(0.0002);
    else if (own->v[3] % 2)
        sched_yield();
    return ring->held[channel][slot].is ? release_held(ring, channel, slot, error) : ZERO_OK;
}

static zero_status release_all(ring *ring, zero_error *error)
{
    for (int c = 0; c < ring->channels.count; c++)
        for (int s = 0; s < ring->shapes[c].slots; s++)
            if (ring->held[c][s].is)
                ZERO_TRY(release_held(ring, c, s, error));
    return finish_gather(ring, error);
}

static zero_status run_rings(ring *rings, int count, uint64_t seed, zero_error *error)
{
    for (int step = 0; step < STEPS; step++) {
        zr_philox all = zr_philox4x32(seed, 0, (uint64_t)step),
                  own = zr_philox4x32(seed, 1 + (uint64_t)rings->comm->job->rank, (uint64_t)step);
        ring *ring = &rings[all.v[3] % (uint32_t)count];
        zr_comm_progress(ring->comm, step);
        ZERO_TRY(pass_one(ring, &all, error));
        if (count > 1 && all.v[3] / 8 % 8 == 0)
            ZERO_TRY(begin_gather(ring, step, error));
        if (count > 1 && all.v[3] / 64 % 16 == 0)
            ZERO_TRY(zr_comm_barrier(ring->comm, error));
        ZERO_TRY(dawdle(rings, count, &own, error));
    }
    for (int i = 0; i < count; i++)
        ZERO_TRY(release_all(&rings[i], error));
    return ZERO_OK;
}

static zero_status exchange(zero_comm *const *comms, int count, bool comm_threads, uint64_t seed,
                            zero_error *error)
{
    ring rings[RINGS] = {0};
    zero_status status = ZERO_OK;
    for (int i = 0; i < count && status == ZERO_OK; i++)
        status = ring_open(comms[i], comm_threads, &rings[i], error);
    if (status == ZERO_OK)
        status = run_rings(rings, count, seed, error);
    for (int i = 0; i < count; i++)
        ring_close(&rings[i]);
    return status;
}

zero_status exchange_in_ring(zero_comm *comm, uint64_t seed, zero_error *error)
{
    return exchange(&comm, 1, false, seed, error);
}

zero_status exchange_in_rings(zero_comm *job, bool comm_threads, uint64_t seed, zero_error *error)
{
    grid grid;
    ZERO_TRY(grid_open(job, &grid, error));
    zero_comm *const comms[RINGS] = {grid.data, grid.tensor, job, job};
    zero_status status = exchange(comms, RINGS, comm_threads, seed, error);
    grid_close(&grid);
    return status;
}

// ---- a chain ----

static zero_status send_for_ever(zr_channels *channels, zero_error *error)
{
    for (;;) {
        ZERO_TRY(zr_channel_take(channels, 0, 0, error));
        memset(zr_channel_at(channels, 0, 0), 1, CHAIN_BYTES);
        ZERO_TRY(zr_channel_send(channels, 0, 0, CHAIN_BYTES, error));
    }
}

zero_status break_chain(zero_comm *comm, zero_status (*end)(zero_comm *comm, zero_error *error),
                        zero_error *error)
{
    static const zr_channel_shape shapes[] = {
        {.from = 0, .to = 1, .slots = 1, .bytes = CHAIN_BYTES, .name = "h.0 to h.1"},
        {.from = 1, .to = 2, .slots = 1, .bytes = CHAIN_BYTES, .name = "h.1 to h.2"},
    };
    zr_channels channels;
    zero_status status = ZERO_OK;
    zr_comm_progress(comm, 41);
    ZERO_TRY(zr_channels_create(comm, shapes, ZR_COUNT(shapes), &channels, error));
    if (comm->rank == 0)
        status = send_for_ever(&channels, error);
    if (comm->rank == 1)
        status = zr_channel_receive(&channels, 0, 0, CHAIN_BYTES, error);
    if (comm->rank == 1 && status == ZERO_OK)
        status = end(comm, error);
    if (comm->rank == 2)
        status = zr_channel_receive(&channels, 1, 0, CHAIN_BYTES, error);
    if (status != ZERO_OK) // before others can miss this rank
        zero_comm_abort(comm, error->message);
    zr_channels_destroy(&channels);
    return status;
}
