// Channels between ranks of several machines. Each end has slots of its own, and a message goes
// from one to the other:
//
//   receiver   Irecv at creation  . . . . . . . . . .  receive (completes)   release: Irecv
//   sender     take (the last one is gone)  send: Issend
//
// Sends are synchronous, so they complete only when the receiver has the slot free for them: a
// sender runs at most one message ahead of what lies in the receiver's slot, and MPI need not
// buffer more. The tag of a message is the number of its slot among those of all channels, and
// every set of channels has an MPI communicator of its own, so two sets that are alive at one time
// do not get each other's messages, and a receive that is given up (destroy) gets none.
#include "base/alloc.h"
#include "base/clock.h"
#include "comm/mpi_rank.h"
#include "comm/region.h"
#include "comm/operations.h"

#include <limits.h>
#include <stdio.h>

#define LEAVE_SECONDS 1.0 // that destroy waits for what was sent to leave
#define LOOK_SECONDS 0.0001

typedef struct place { // where a channel's slots are
    int tag;           // of slot 0
    int first;         // number of slot 0 among those of this rank; -1: this rank is not an end
    int64_t offset;    // bytes in the region
} place;

typedef struct mpi_channels {
    MPI_Comm data;
    char *region;
    int64_t bytes;
    zr_mpi_batch own; // a message for each slot of this rank; at other times MPI_REQUEST_NULL
    place at[];       // (count)
} mpi_channels;

static bool is_end(const zr_channel_shape *shape, int rank)
{
    return shape->from == rank || shape->to == rank;
}

static void lay_out_mpi_channel(const zr_channels *channels, mpi_channels *out)
{
    int tag = 0, rank = channels->comm->rank;
    for (int i = 0; i < channels->count; i++) {
        const zr_channel_shape *shape = &channels->shapes[i];
        out->at[i] = (place){.tag = tag, .first = -1};
        tag += shape->slots;
        if (!is_end(shape, rank))
            continue;
        out->at[i].first = out->own.count;
        out->at[i].offset = out->bytes;
        out->own.count += shape->slots;
        out->bytes += shape->slots * zr_channel_stride(shape);
    }
}

// MPI counts bytes with int, and knows tags up to a bound of its own.
static zero_status check_limits(const zr_channels *channels, zero_error *error)
{
    zr_mpi *mpi = channels->comm->impl;
    int64_t slots = 0, *bound = NULL;
    int found, most = 32767; // the bound that MPI guarantees
    pthread_mutex_lock(&mpi->job->lock);
    if (MPI_Comm_get_attr(mpi->data, MPI_TAG_UB, &bound, &found) == MPI_SUCCESS && found)
        most = *(const int *)bound;
    pthread_mutex_unlock(&mpi->job->lock);
    for (int i = 0; i < channels->count; i++) {
        const zr_channel_shape *shape = &channels->shapes[i];
        slots += shape->slots;
        if (shape->bytes > INT_MAX)
            return zr_fail(error, ZERO_ERR_UNSUPPORTED,
                           "channel %s: a message of MPI has at most %d bytes, and a slot %lld",
                           shape->name, INT_MAX, (long long)shape->bytes);
    }
    if (slots - 1 > most)
        return zr_fail(error, ZERO_ERR_UNSUPPORTED,
                       "channels of %lld slots: this MPI tells %d messages apart (MPI_TAG_UB)",
                       (long long)slots, most);
    return ZERO_OK;
}

static void mpi_channels_free(mpi_channels *made)
{
    if (!made)
        return;
    zr_free(made->own.requests);
    zr_free(made->own.peers);
    zr_region_destroy(made->region, made->bytes);
    zr_free(made);
}

static zero_status reserve_mpi_channel(const zr_channels *channels, mpi_channels *made,
                                       zero_error *error)
{
    lay_out_mpi_channel(channels, made);
    size_t own = (size_t)ZR_MAX(made->own.count, 1);
    made->own.requests = zr_alloc(sizeof *made->own.requests * own, error);
    made->own.peers = zr_alloc(sizeof *made->own.peers * own, error);
    if (!made->own.requests || !made->own.peers)
        return ZERO_ERR_MEMORY;
    for (int i = 0; i < made->own.count; i++)
        made->own.requests[i] = MPI_REQUEST_NULL;
    return zr_region_create(made->bytes, &made->region, error);
}

// This rank's own part of creating channels.
static zero_status prepare_mpi_channel(const zr_channels *channels, mpi_channels **out,
                                       zero_error *error)
{
    ZERO_TRY(check_limits(channels, error));
    *out = zr_alloc(sizeof **out + sizeof(*out)->at[0] * (size_t)channels->count, error);
    return *out ? reserve_mpi_channel(channels, *out, error) : ZERO_ERR_MEMORY;
}

static char *mpi_at(const zr_channels *channels, int channel, int slot)
{
    const mpi_channels *mine = channels->impl;
    return mine->region + mine->at[channel].offset +
           slot * zr_channel_stride(&channels->shapes[channel]);
}

static int mpi_channel_number_of(const zr_channels *channels, int channel, int slot)
{
    return ((const mpi_channels *)channels->impl)->at[channel].first + slot;
}

// Lets the next message come into a slot of this receiver.
static zero_status post_receive(zr_channels *channels, int channel, int slot, zero_error *error)
{
    mpi_channels *mine = channels->impl;
    const zr_channel_shape *shape = &channels->shapes[channel];
    zr_mpi_job *job = ((zr_mpi *)channels->comm->impl)->job;
    pthread_mutex_lock(&job->lock);
    int code = MPI_Irecv(mpi_at(channels, channel, slot) + shape->first,
                         (int)(shape->bytes - shape->first), MPI_BYTE, shape->from,
                         mine->at[channel].tag + slot, mine->data,
                         &mine->own.requests[mpi_channel_number_of(channels, channel, slot)]);
    pthread_mutex_unlock(&job->lock);
    return zr_mpi_check(channels->comm, code, "receiving", error);
}

// Notes the other end of this rank's slots of a channel, and lets their first messages come.
static zero_status open_channel(zr_channels *channels, int channel, zero_error *error)
{
    mpi_channels *mine = channels->impl;
    const zr_channel_shape *shape = &channels->shapes[channel];
    bool sends = shape->from == channels->comm->rank;
    for (int s = 0; s < shape->slots; s++) {
        mine->own.peers[mpi_channel_number_of(channels, channel, s)] =
            sends ? shape->to : shape->from;
        if (!sends)
            ZERO_TRY(post_receive(channels, channel, s, error));
    }
    return ZERO_OK;
}

// Where this fails, messages may still arrive, so nothing is freed.
static zero_status open_all(zr_channels *channels, zero_error *error)
{
    zr_mpi *mpi = channels->comm->impl;
    mpi_channels *mine = channels->impl;
    pthread_mutex_lock(&mpi->job->lock);
    int code = MPI_Comm_dup(mpi->data, &mine->data);
    if (code == MPI_SUCCESS)
        MPI_Comm_set_errhandler(mine->data, MPI_ERRORS_RETURN);
    pthread_mutex_unlock(&mpi->job->lock);
    ZERO_TRY(zr_mpi_check(channels->comm, code, "opening channels", error));
    for (int i = 0; i < channels->count; i++)
        if (is_end(&channels->shapes[i], channels->comm->rank))
            ZERO_TRY(open_channel(channels, i, error));
    mpi->job->channels++;
    return ZERO_OK;
}

static zero_status mpi_create(zr_channels *channels, zero_error *error)
{
    zero_error own = {0};
    mpi_channels *made = NULL;
    zero_status status = prepare_mpi_channel(channels, &made, &own);
    status = zr_mpi_agree(channels->comm, status, &own, "make its channels", error);
    if (status != ZERO_OK) {
        mpi_channels_free(made);
        return status;
    }
    channels->impl = made;
    return open_all(channels, error);
}

static void give_receives_up(zr_channels *channels)
{
    mpi_channels *mine = channels->impl;
    for (int i = 0; i < channels->count; i++)
        for (int s = 0; s < channels->shapes[i].slots; s++) {
            if (channels->shapes[i].to != channels->comm->rank)
                continue;
            MPI_Request *request = &mine->own.requests[mpi_channel_number_of(channels, i, s)];
            if (*request != MPI_REQUEST_NULL)
                MPI_Cancel(request);
        }
}

// Waits a little until what was sent has been received; it does not depend on the other ranks.
static bool await_leaving(zero_comm *comm, zr_mpi_batch *own)
{
    double start = zr_clock_seconds();
    while (!zr_mpi_is_done(comm, own)) {
        if (zr_clock_seconds() - start > LEAVE_SECONDS)
            return false;
        zr_sleep_seconds(LOOK_SECONDS);
    }
    return true;
}

static void mpi_destroy(zr_channels *channels)
{
    mpi_channels *mine = channels->impl;
    zr_mpi_job *job = ((zr_mpi *)channels->comm->impl)->job;
    job->channels--;
    if (job->failed)
        return; // messages may still arrive in this memory
    pthread_mutex_lock(&job->lock);
    give_receives_up(channels);
    pthread_mutex_unlock(&job->lock);
    bool gone = await_leaving(channels->comm, &mine->own);
    pthread_mutex_lock(&job->lock);
    MPI_Comm_free(&mine->data); // once its messages are complete; this waits for nobody
    pthread_mutex_unlock(&job->lock);
    if (gone) // else the memory stays, because a message may still leave it
        mpi_channels_free(mine);
}

// Waits for the message of one slot. status: of a message that was received.
static zero_status await_slot(zr_channels *channels, int channel, int slot, const char *doing,
                              MPI_Status *status, zero_error *error)
{
    const mpi_channels *mine = channels->impl;
    int number = mpi_channel_number_of(channels, channel, slot);
    char label[ZR_CHANNEL_LABEL];
    zr_mpi_batch one = {
        .requests = &mine->own.requests[number], .peers = &mine->own.peers[number], .count = 1};
    zr_channel_label(channels, channel, slot, label);
    ZERO_TRY(zr_mpi_await(channels->comm, &one, doing, label, error));
    *status = one.last;
    return ZERO_OK;
}

static zero_status mpi_take(zr_channels *channels, int channel, int slot, zero_error *error)
{
    MPI_Status status;
    return await_slot(channels, channel, slot, "take", &status, error);
}

static zero_status mpi_send(zr_channels *channels, int channel, int slot, int64_t bytes,
                            zero_error *error)
{
    mpi_channels *mine = channels->impl;
    const zr_channel_shape *shape = &channels->shapes[channel];
    zr_mpi_job *job = ((zr_mpi *)channels->comm->impl)->job;
    MPI_Request *request = &mine->own.requests[mpi_channel_number_of(channels, channel, slot)];
    assert(*request == MPI_REQUEST_NULL); // it was taken
    pthread_mutex_lock(&job->lock);
    int code = MPI_Issend(mpi_at(channels, channel, slot) + shape->first, (int)bytes, MPI_BYTE,
                          shape->to, mine->at[channel].tag + slot, mine->data, request);
    pthread_mutex_unlock(&job->lock);
    return zr_mpi_check(channels->comm, code, "sending", error);
}

static zero_status mpi_receive(zr_channels *channels, int channel, int slot, int64_t *bytes,
                               zero_error *error)
{
    const mpi_channels *mine = channels->impl;
    MPI_Status status;
    int count = 0;
    assert(mine->own.requests[mpi_channel_number_of(channels, channel, slot)] !=
           MPI_REQUEST_NULL); // released
    ZERO_TRY(await_slot(channels, channel, slot, "receive", &status, error));
    ZERO_TRY(
        zr_mpi_check(channels->comm, MPI_Get_count(&status, MPI_BYTE, &count), "receiving", error));
    *bytes = count;
    return ZERO_OK;
}

static zero_status mpi_release(zr_channels *channels, int channel, int slot, zero_error *error)
{
    const mpi_channels *mine = channels->impl;
    assert(mine->own.requests[mpi_channel_number_of(channels, channel, slot)] ==
           MPI_REQUEST_NULL); // received
    return post_receive(channels, channel, slot, error);
}

const zr_channel_ops zr_mpi_channels = {
    .create = mpi_create,
    .destroy = mpi_destroy,
    .at = mpi_at,
    .take = mpi_take,
    .send = mpi_send,
    .receive = mpi_receive,
    .release = mpi_release,
};
