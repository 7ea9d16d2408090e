// Operations on windows: every rank reads its peers' regions in place, as soon as each peer has
// sealed its operand.
//
// reduce-scatter: rank r sums shard r of all regions. No other rank reads or writes shard r of any
// region meanwhile, so the sum may go in place.
// all-gather: rank r copies shard p from rank p's region. In a shared window nothing moves, and in
// a machine window each rank copies its own shard to where all find it.
#include "comm/local_window.h"
#include "comm/operations.h"

#define CHECK_BITS 24

static uint64_t hash_operation(const zr_handle *handle)
{
    uint64_t hash = (uint64_t)handle->op * 0x9e3779b97f4a7c15ull ^
                    (uint64_t)handle->offset * 0xff51afd7ed558ccdull ^
                    (uint64_t)handle->shard_elems * 0xc4ceb9fe1a85ec53ull ^
                    (uint64_t)handle->dtype ^ (uint64_t)handle->bits << 8;
    hash *= 0xff51afd7ed558ccdull;
    return hash >> (64 - CHECK_BITS);
}

static const char *slot_name(const zr_window *window, int slot)
{
    return window->slot_names ? window->slot_names[slot] : NULL;
}

void zr_local_number(zr_handle *handle)
{
    zr_local_window *mine = handle->window->impl;
    handle->sequence = ++mine->sequence[handle->slot];
}

zero_status zr_local_start(zr_handle *handle, zero_error *error)
{
    zr_window *window = handle->window;
    zr_local *local = window->comm->impl;
    if (!handle->sequence)
        zr_local_number(handle);
    zr_slot_words *words = zr_slot_words_of(window, handle->slot, window->comm->rank);
    zr_local_post(local, &words->sealed, handle->sequence << CHECK_BITS | hash_operation(handle));
    return ZERO_OK;
}

static zero_status await_sealed(const zr_handle *handle, int rank, const char *doing,
                                zero_error *error)
{
    zr_window *window = handle->window;
    const _Atomic uint64_t *word = &zr_slot_words_of(window, handle->slot, rank)->sealed;
    zr_wait wait = {.word = word,
                    .shift = CHECK_BITS,
                    .target = handle->sequence,
                    .peer = rank,
                    .thread = handle->thread,
                    .doing = doing,
                    .slot = slot_name(window, handle->slot)};
    ZERO_TRY(zr_local_await(window->comm, &wait, error));
    uint64_t sealed = atomic_load_explicit(word, memory_order_relaxed);
    if (sealed >> CHECK_BITS == handle->sequence &&
        sealed != (handle->sequence << CHECK_BITS | hash_operation(handle)))
        return zr_local_mismatch(window->comm, &wait, error);
    return ZERO_OK;
}

void zr_local_drained(const zr_handle *handle)
{
    zero_comm *comm = handle->window->comm;
    zr_slot_words *words = zr_slot_words_of(handle->window, handle->slot, comm->rank);
    zr_local_post(comm->impl, &words->drained, handle->sequence);
}

// On a far device the reading has only been submitted: the comm thread tells when it has ended.
static void end_reading(const zr_handle *handle)
{
    if (!zr_comm_seals_late(handle->window->comm))
        zr_local_drained(handle);
}

zero_status zr_local_reduce_scatter_wait(zr_handle *handle, const zr_sum_target *to,
                                         zero_error *error)
{
    zero_comm *comm = handle->window->comm;
    const void *source[ZERO_MAX_RANKS];
    int64_t shard_bytes = zr_handle_shard_bytes(handle);
    for (int i = 0; i < comm->size; i++) {
        int r = (comm->rank + i) % comm->size;
        ZERO_TRY(await_sealed(handle, r, "reduce_scatter", error));
        source[r] = zr_local_region(handle->window, r) + handle->offset + comm->rank * shard_bytes;
    }
    zr_handle_sum(handle, to, source, comm->size, handle->shard_elems);
    end_reading(handle);
    return ZERO_OK;
}

zero_status zr_local_quiesce(zr_window *window, int slot, zero_error *error)
{
    const zr_local_window *mine = window->impl;
    for (int i = 1; i < window->comm->size; i++) {
        int r = (window->comm->rank + i) % window->comm->size;
        zr_wait wait = {.word = &zr_slot_words_of(window, slot, r)->drained,
                        .target = mine->sequence[slot],
                        .peer = r,
                        .doing = "quiesce",
                        .slot = slot_name(window, slot)};
        ZERO_TRY(zr_local_await(window->comm, &wait, error));
    }
    return ZERO_OK;
}

static zero_status await_all(zr_window *window, int slot, size_t word, uint64_t version,
                             zr_rank_thread thread, const char *doing, zero_error *error)
{
    for (int i = 0; i < window->comm->size; i++) {
        int r = (window->comm->rank + i) % window->comm->size;
        const char *words = (const char *)zr_slot_words_of(window, slot, r);
        zr_wait wait = {.word = (const _Atomic uint64_t *)(words + word),
                        .target = version,
                        .peer = r,
                        .thread = thread,
                        .doing = doing,
                        .slot = slot_name(window, slot)};
        ZERO_TRY(zr_local_await(window->comm, &wait, error));
    }
    return ZERO_OK;
}

static zero_status publish_version(zr_window *window, int slot, uint64_t version, zero_error *error)
{
    zero_comm *comm = window->comm;
    zr_local_post(comm->impl, &zr_slot_words_of(window, slot, comm->rank)->published, version);
    return ZERO_OK;
}

static zero_status release_version(zr_window *window, int slot, uint64_t version, zero_error *error)
{
    zero_comm *comm = window->comm;
    zr_local_post(comm->impl, &zr_slot_words_of(window, slot, comm->rank)->released, version);
    return ZERO_OK;
}

static zero_status await_published(zr_window *window, int slot, uint64_t version, zero_error *error)
{
    return await_all(window, slot, offsetof(zr_slot_words, published), version, ZR_OWN_THREAD,
                     "waiting for publication", error);
}

static zero_status await_released(zr_window *window, int slot, uint64_t version, zero_error *error)
{
    return await_all(window, slot, offsetof(zr_slot_words, released), version, ZR_OWN_THREAD,
                     "waiting for release", error);
}

// Gathers where every rank maps the machine's region: each rank puts its own shard there once all
// have started, and waits for the others' shards.
static zero_status gather_into_machine(zr_handle *handle, zero_error *error)
{
    zr_window *window = handle->window;
    int64_t stride = zr_handle_stride(handle);
    for (int i = 1; i < window->comm->size; i++)
        ZERO_TRY(await_sealed(handle, (window->comm->rank + i) % window->comm->size, "all_gather",
                              error));
    if (handle->own)
        zr_handle_put(handle, window->mine + handle->offset + window->comm->rank * stride,
                      handle->own);
    ZERO_TRY(publish_version(window, handle->slot, handle->sequence, error));
    ZERO_TRY(await_all(window, handle->slot, offsetof(zr_slot_words, published), handle->sequence,
                       handle->thread, "all_gather", error));
    end_reading(handle);
    return ZERO_OK;
}

zero_status zr_local_all_gather_wait(zr_handle *handle, zero_error *error)
{
    zr_window *window = handle->window;
    int64_t bytes = zr_handle_shard_bytes(handle);
    if (window->kind == ZR_WINDOW_MACHINE)
        return gather_into_machine(handle, error);
    for (int i = 1; i < window->comm->size; i++) {
        int r = (window->comm->rank + i) % window->comm->size;
        int64_t at = handle->offset + r * bytes;
        ZERO_TRY(await_sealed(handle, r, "all_gather", error));
        if (window->kind == ZR_WINDOW_SYMMETRIC)
            zr_comm_copy(window->comm, window->mine + at, zr_local_region(window, r) + at, bytes);
    }
    end_reading(handle);
    return ZERO_OK;
}

const zr_version_ops zr_local_versions = {
    .publish = publish_version,
    .await_published = await_published,
    .release = release_version,
    .await_released = await_released,
};
