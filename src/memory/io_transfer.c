// The life of a transfer, from the queue of requests to the message of its failure. Lanes call
// these functions.
//
// Invariant, under the lock: a request's `unfinished` counts its extents that have not begun,
// [next, begin + count), and its transfers under way. Only the first request of the queue can have
// begun in part.
#define _GNU_SOURCE
#include "base/clock.h"
#include "base/file.h"
#include "memory/io_internal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define PATIENT_RESULTS 16 // in vain, before pauses begin
#define MOST_STUBS 64
#define LONGEST_PAUSE 0.01 // seconds

void zr_io_push(zr_io_list *list, zr_io_transfer *transfer)
{
    transfer->next = NULL;
    if (list->first)
        list->last->next = transfer;
    else
        list->first = transfer;
    list->last = transfer;
}

zr_io_transfer *zr_io_pop(zr_io_list *list)
{
    zr_io_transfer *transfer = list->first;
    if (transfer)
        list->first = transfer->next;
    return transfer;
}

void zr_io_remove(zr_io_list *list, zr_io_transfer *transfer)
{
    zr_io_list kept = {0};
    for (zr_io_transfer *one; (one = zr_io_pop(list));)
        if (one != transfer)
            zr_io_push(&kept, one);
    *list = kept;
}

static int first_file(const zr_io *io, const zr_scratch *scratch)
{
    int file = 0;
    for (int i = 0; io->options.scratches[i] != scratch; i++)
        file += io->options.scratches[i]->count;
    return file;
}

static zr_io_transfer *begin_next_extent(zr_io *io, zr_io_request *request)
{
    const zr_io_extents *extents = request->extents;
    const zr_scratch *scratch = extents->scratch;
    int extent = request->next++;
    zr_io_transfer *transfer = zr_io_pop(&io->free);
    int64_t first = extents->bounds[extent], place = extents->place + first, offset = 0;
    int file = zr_scratch_find(scratch, place, &offset);
    *transfer = (zr_io_transfer){
        .request = request,
        .extent = extent,
        .write = request->write,
        .zeros = !request->write && !extents->written[extent],
        .name = scratch->names[file],
        .file = first_file(io, scratch) + file,
        .fd = scratch->fds[file],
        .place = place,
        .offset = offset,
        .data = request->buffer + (first - extents->bounds[request->begin]),
        .bytes = extents->bounds[extent + 1] - first,
        .checksum = extents->checksums[extent],
        .begun = zr_clock_seconds(),
    };
    if (request->next == request->begin + request->count)
        io->first = request->later;
    return transfer;
}

zr_io_transfer *zr_io_take(zr_io *io)
{
    zr_io_transfer *transfer = NULL;
    while (io->first && (transfer = begin_next_extent(io, io->first))->zeros) {
        pthread_mutex_unlock(&io->lock);
        memset(transfer->data, 0, (size_t)transfer->bytes);
        pthread_mutex_lock(&io->lock);
        zr_io_end(io, transfer);
        transfer = NULL;
    }
    return transfer;
}

// A fault may shorten the result, but the kernel is given aligned bytes nevertheless.
int64_t zr_io_next_bytes(zr_io *io, zr_io_transfer *transfer)
{
    const zr_io_faults *faults = io->options.faults;
    int64_t left = transfer->bytes - transfer->done;
    transfer->limit = left;
    if (!faults || !faults->transfer)
        return left;
    int64_t answer =
        faults->transfer(faults->user, transfer->write, transfer->place + transfer->done, left);
    transfer->limit = ZR_MIN(left, answer);
    return answer <= 0 ? answer : ZR_MIN(left, ZR_ROUND_UP(answer, ZR_IO_ALIGN));
}

static bool fail_transfer(zr_io_transfer *transfer, const char *format, ...) ZERO_PRINTF(2, 3);
static bool fail_transfer(zr_io_transfer *transfer, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(transfer->found, sizeof transfer->found, format, arguments);
    va_end(arguments);
    transfer->status = ZERO_ERR_IO;
    return true;
}

// Decides about a result that moved nothing, because the next one may move something. The limit is
// half of the wait's deadline, so that the caller sees this message.
static bool moved_in_vain(zr_io *io, zr_io_transfer *transfer, int64_t result)
{
    char reason[64];
    double now = zr_clock_seconds(), limit = io->options.timeout / 2;
    if (transfer->vain++ == 0)
        transfer->vain_since = now;
    if (result > 0 && ++transfer->stubs == MOST_STUBS)
        return fail_transfer(transfer, "only %lld bytes, %d times in a row", (long long)result,
                             MOST_STUBS);
    const char *found =
        result > 0 ? "too few bytes" : strerror_r((int)-result, reason, sizeof reason);
    if (atomic_load(&io->ending))
        return fail_transfer(transfer, "%s, and the end of the run", found);
    if (limit > 0 && now - transfer->vain_since > limit)
        return fail_transfer(transfer, "%s, for %.1f seconds", found, now - transfer->vain_since);
    if (transfer->vain > PATIENT_RESULTS)
        zr_sleep_seconds(ZR_MIN(1e-4 * (transfer->vain - PATIENT_RESULTS), LONGEST_PAUSE));
    return false;
}

bool zr_io_moved(zr_io *io, zr_io_transfer *transfer, int64_t result)
{
    char reason[64];
    if (result == 0 && transfer->write)
        return fail_transfer(transfer, "nothing was written");
    if (result == 0)
        return fail_transfer(transfer, "the file ends at %lld",
                             (long long)(transfer->offset + transfer->done));
    if (result < 0 && result != -EINTR && result != -EAGAIN)
        return fail_transfer(transfer, "%s", strerror_r((int)-result, reason, sizeof reason));
    result = ZR_MIN(result, transfer->limit);
    int64_t done = transfer->done + ZR_MAX(result, 0);
    if (done < transfer->bytes)
        done = done / ZR_IO_ALIGN * ZR_IO_ALIGN;
    if (done == transfer->done)
        return moved_in_vain(io, transfer, result);
    transfer->done = done;
    transfer->vain = transfer->stubs = 0;
    return done == transfer->bytes;
}

void zr_io_sum(zr_io *io, zr_io_transfer *transfer)
{
    const zr_io_faults *faults = io->options.faults;
    if (!transfer->write && faults && faults->arrived)
        faults->arrived(faults->user, transfer->place, transfer->bytes, transfer->data);
    uint32_t checksum = zr_crc32c(0, transfer->data, (size_t)transfer->bytes);
    if (!transfer->write && checksum != transfer->checksum)
        fail_transfer(transfer,
                      "its checksum is %08x, written was %08x: what is on the disk is damaged",
                      checksum, transfer->checksum);
    transfer->checksum = checksum;
}

// Writes the transfer's description. Of a path that is too long it keeps the end, which tells the
// path from others.
static void describe_transfer(const zr_io_transfer *transfer, char *message, size_t room)
{
    char what[80];
    int length = snprintf(what, sizeof what, "%s %lld bytes at %lld of ",
                          transfer->write ? "writing" : "reading", (long long)transfer->bytes,
                          (long long)transfer->offset);
    size_t left = room - (size_t)length - strlen(transfer->found) - sizeof ": ",
           name = strlen(transfer->name);
    const char *cut = name > left ? "..." : "";
    const char *shown = name > left ? transfer->name + name - left + strlen(cut) : transfer->name;
    snprintf(message, room, "%s%s%s: %s", what, cut, shown, transfer->found);
}

void zr_io_abandon(zr_io *io, zr_io_request *request)
{
    int rest = request->begin + request->count - request->next;
    if (rest && io->first == request)
        io->first = request->later;
    request->next += rest;
    request->unfinished -= rest;
}

static void record_failure(zr_io *io, const zr_io_transfer *transfer)
{
    zr_io_request *request = transfer->request;
    if (request->status != ZERO_OK)
        return;
    request->status = transfer->status;
    describe_transfer(transfer, request->message, sizeof request->message);
    zr_io_abandon(io, request);
}

static void record_success(zr_io *io, const zr_io_transfer *transfer)
{
    zr_io_extents *extents = transfer->request->extents;
    if (transfer->write) {
        extents->checksums[transfer->extent] = transfer->checksum;
        extents->written[transfer->extent] = 1;
        io->counts.written += transfer->bytes;
    } else if (!transfer->zeros) {
        io->counts.read += transfer->bytes;
    }
}

void zr_io_end(zr_io *io, zr_io_transfer *transfer)
{
    zr_io_request *request = transfer->request;
    if (transfer->status == ZERO_OK)
        record_success(io, transfer);
    else
        record_failure(io, transfer);
    io->ended_at = zr_clock_seconds();
    transfer->request = NULL;
    zr_io_push(&io->free, transfer);
    request->ended = zr_clock_nanoseconds();
    if (--request->unfinished == 0)
        pthread_cond_broadcast(&io->ended);
}
