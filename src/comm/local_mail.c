// Moves small operands through buffers in the group area: all-reduce and barrier in rounds, send
// and receive in chunks.
//
// Rounds use two buffers a rank in turn. This is safe because a rank that posts round k+2 has seen
// all ranks post k+1, which they do after reading k.
// A sender has at most two chunks on their way, to any ranks; a third one waits until the receiver
// has taken the first.
#include "comm/comm_ops.h"
#include "comm/local_control.h"

#include <string.h>

#define CHECK_BITS 24
#define BUFFER_BITS 8

static zero_status await_round(zero_comm *comm, const char *doing, uint64_t check,
                               zero_error *error)
{
    zr_local *local = comm->impl;
    for (int i = 1; i < comm->size; i++) {
        int r = (comm->rank + i) % comm->size;
        const _Atomic uint64_t *word = &local->area->ranks[r].posted;
        zr_wait wait = {
            .word = word, .shift = CHECK_BITS, .target = local->round, .peer = r, .doing = doing};
        ZERO_TRY(zr_local_await(comm, &wait, error));
        uint64_t posted = atomic_load_explicit(word, memory_order_relaxed);
        if (posted >> CHECK_BITS == local->round && posted != (local->round << CHECK_BITS | check))
            return zr_local_mismatch(comm, &wait, error);
    }
    return ZERO_OK;
}

// Posts this rank's operand of the next round and waits for those of all ranks.
static zero_status run_round(zero_comm *comm, const char *doing, const void *data, int64_t bytes,
                             int kind, zero_error *error)
{
    zr_local *local = comm->impl;
    local->round++;
    if (bytes > 0)
        memcpy(zr_area_small(local->area, comm->size, comm->rank, (int)(local->round & 1)), data,
               (size_t)bytes);
    uint64_t check = (uint64_t)(bytes << 5 | kind) & ((1u << CHECK_BITS) - 1);
    zr_local_post(local, &local->area->ranks[comm->rank].posted,
                  local->round << CHECK_BITS | check);
    return await_round(comm, doing, check, error);
}

zero_status zr_local_all_reduce_small(zero_comm *comm, void *data, int64_t count, zero_dtype dtype,
                                      zr_reduction how, zero_error *error)
{
    zr_local *local = comm->impl;
    int64_t bytes = count * (int64_t)zero_dtype_bytes(dtype);
    ZERO_TRY(
        run_round(comm, "small all_reduce", data, bytes, 1 + (int)how + 3 * (int)dtype, error));
    int parity = (int)(local->round & 1);
    memcpy(data, zr_area_small(local->area, comm->size, 0, parity), (size_t)bytes);
    for (int r = 1; r < comm->size; r++)
        zr_comm_combine(data, zr_area_small(local->area, comm->size, r, parity), count, dtype, how);
    return ZERO_OK;
}

zero_status zr_local_barrier(zero_comm *comm, zero_error *error)
{
    return run_round(comm, "barrier", NULL, 0, 0, error);
}

static zero_status await_taken(zero_comm *comm, int to, uint64_t count, zero_error *error)
{
    zr_local *local = comm->impl;
    zr_wait wait = {.word = zr_area_taken(local->area, comm->size, comm->rank, to),
                    .target = count,
                    .peer = to,
                    .doing = "send"};
    return zr_local_await(comm, &wait, error);
}

static zero_status send_chunk(zero_comm *comm, const char *data, int64_t bytes, int to,
                              zero_error *error)
{
    zr_local *local = comm->impl;
    int buffer = (int)(local->mails & 1);
    if (local->mail[buffer].count > 0)
        ZERO_TRY(await_taken(comm, local->mail[buffer].to, local->mail[buffer].count, error));
    memcpy(zr_area_mail(local->area, comm->size, comm->rank, buffer), data, (size_t)bytes);
    _Atomic uint64_t *sent = zr_area_sent(local->area, comm->size, comm->rank, to);
    uint64_t count = (atomic_load_explicit(sent, memory_order_relaxed) >> BUFFER_BITS) + 1;
    zr_local_post(local, sent, count << BUFFER_BITS | (uint64_t)buffer);
    local->mail[buffer].to = to;
    local->mail[buffer].count = count;
    local->mails++;
    return ZERO_OK;
}

zero_status zr_local_send(zero_comm *comm, const void *data, int64_t bytes, int to,
                          zero_error *error)
{
    for (int64_t at = 0; at < bytes; at += ZR_MAIL_BYTES)
        ZERO_TRY(send_chunk(comm, (const char *)data + at, ZR_MIN(ZR_MAIL_BYTES, bytes - at), to,
                            error));
    return ZERO_OK;
}

// Receives one chunk. Two chunks on their way to one receiver fill both buffers, and `sent` then
// names the later one's.
static zero_status recv_chunk(zero_comm *comm, char *data, int64_t bytes, int from,
                              zero_error *error)
{
    zr_local *local = comm->impl;
    _Atomic uint64_t *taken = zr_area_taken(local->area, comm->size, from, comm->rank);
    uint64_t count = atomic_load_explicit(taken, memory_order_relaxed) + 1;
    const _Atomic uint64_t *sent = zr_area_sent(local->area, comm->size, from, comm->rank);
    zr_wait wait = {
        .word = sent, .shift = BUFFER_BITS, .target = count, .peer = from, .doing = "recv"};
    ZERO_TRY(zr_local_await(comm, &wait, error));
    uint64_t word = atomic_load_explicit(sent, memory_order_acquire);
    int buffer = (int)(word & 1) ^ (word >> BUFFER_BITS != count);
    memcpy(data, zr_area_mail(local->area, comm->size, from, buffer), (size_t)bytes);
    zr_local_post(local, taken, count);
    return ZERO_OK;
}

zero_status zr_local_recv(zero_comm *comm, void *data, int64_t bytes, int from, zero_error *error)
{
    for (int64_t at = 0; at < bytes; at += ZR_MAIL_BYTES)
        ZERO_TRY(
            recv_chunk(comm, (char *)data + at, ZR_MIN(ZR_MAIL_BYTES, bytes - at), from, error));
    return ZERO_OK;
}
