// Channels between ranks of one machine. All slots lie in one shared window of the communicator,
// and both ends map them, so a message is a word that its sender publishes:
//
//   [slot_words of channel 0, 1, ...] [slots of channel 0] [slots of channel 1] ...
//
// For each slot, the sender counts the messages that it has sent there, and the receiver those that
// it has released. The sender owns the slot while the two are equal, and the receiver while the
// first is one ahead. So each rank reads its own count where it has written it.
#include "base/alloc.h"
#include "comm/agreement.h"
#include "comm/local_window.h"

typedef struct slot_words {
    // Written by the sender; `sent` last, with release. bytes: of the last message.
    _Alignas(ZR_LINE) _Atomic uint64_t sent;
    int64_t bytes;
    _Alignas(ZR_LINE) _Atomic uint64_t released; // written by the receiver
} slot_words;

typedef struct place { // where a channel's slots are
    int64_t first;     // number of its slot 0 among all slots
    int64_t offset;    // bytes from the first slot of all
} place;

typedef struct local_channels {
    zr_window window;
    slot_words *words; // (slots of all channels)
    char *slots;       // the first of all
    place at[];        // (count)
} local_channels;

// Fills at(count). Returns the number of all slots; bytes: of all of them.
static int64_t lay_out_slots(const zr_channels *channels, place *at, int64_t *bytes)
{
    int64_t slots = 0;
    *bytes = 0;
    for (int i = 0; i < channels->count; i++) {
        const zr_channel_shape *shape = &channels->shapes[i];
        at[i] = (place){.first = slots, .offset = *bytes};
        slots += shape->slots;
        *bytes += shape->slots * zr_channel_stride(shape);
    }
    return slots;
}

static zero_status local_create(zr_channels *channels, zero_error *error)
{
    zero_comm *comm = channels->comm;
    int64_t bytes;
    local_channels *made =
        zr_alloc(sizeof *made + sizeof made->at[0] * (size_t)channels->count, error);
    zero_status status = zr_comm_agree(comm, made ? ZERO_OK : ZERO_ERR_MEMORY, error);
    if (status != ZERO_OK)
        goto undo_alloc;
    int64_t words = lay_out_slots(channels, made->at, &bytes) * (int64_t)sizeof(slot_words);
    made->window = (zr_window){.comm = comm, .kind = ZR_WINDOW_SHARED, .bytes = words + bytes};
    status = zr_local_window_create(comm, &made->window, error);
    if (status != ZERO_OK)
        goto undo_alloc;
    made->words = (slot_words *)made->window.mine;
    made->slots = made->window.mine + words;
    channels->impl = made;
    return ZERO_OK;
undo_alloc:
    zr_free(made);
    return status;
}

static void local_destroy(zr_channels *channels)
{
    local_channels *mine = channels->impl;
    zr_local_window_destroy(&mine->window);
    zr_free(mine);
}

static char *local_at(const zr_channels *channels, int channel, int slot)
{
    const local_channels *mine = channels->impl;
    return mine->slots + mine->at[channel].offset +
           slot * zr_channel_stride(&channels->shapes[channel]);
}

static slot_words *words_of_slot(const zr_channels *channels, int channel, int slot)
{
    const local_channels *mine = channels->impl;
    return &mine->words[mine->at[channel].first + slot];
}

// Waits until a count of the rank at the other end has reached a target.
static zero_status await_count(zr_channels *channels, int channel, int slot,
                               const _Atomic uint64_t *word, uint64_t target, int peer,
                               const char *doing, zero_error *error)
{
    char label[ZR_CHANNEL_LABEL];
    zr_channel_label(channels, channel, slot, label);
    zr_wait wait = {.word = word,
                    .target = target,
                    .peer = peer,
                    .thread = ZR_OWN_THREAD,
                    .doing = doing,
                    .slot = label};
    return zr_local_await(channels->comm, &wait, error);
}

static zero_status local_take(zr_channels *channels, int channel, int slot, zero_error *error)
{
    const slot_words *words = words_of_slot(channels, channel, slot);
    uint64_t sent = atomic_load_explicit(&words->sent, memory_order_relaxed);
    return await_count(channels, channel, slot, &words->released, sent,
                       channels->shapes[channel].to, "take", error);
}

static zero_status local_send(zr_channels *channels, int channel, int slot, int64_t bytes,
                              zero_error *error)
{
    slot_words *words = words_of_slot(channels, channel, slot);
    uint64_t sent = atomic_load_explicit(&words->sent, memory_order_relaxed);
    assert(atomic_load_explicit(&words->released, memory_order_relaxed) == sent); // it was taken
    words->bytes = bytes;
    zr_local_post(channels->comm->impl, &words->sent, sent + 1);
    return ZERO_OK;
}

static zero_status local_receive(zr_channels *channels, int channel, int slot, int64_t *bytes,
                                 zero_error *error)
{
    const slot_words *words = words_of_slot(channels, channel, slot);
    uint64_t released = atomic_load_explicit(&words->released, memory_order_relaxed);
    ZERO_TRY(await_count(channels, channel, slot, &words->sent, released + 1,
                         channels->shapes[channel].from, "receive", error));
    *bytes = words->bytes;
    return ZERO_OK;
}

static zero_status local_release(zr_channels *channels, int channel, int slot, zero_error *error)
{
    slot_words *words = words_of_slot(channels, channel, slot);
    uint64_t released = atomic_load_explicit(&words->released, memory_order_relaxed);
    assert(atomic_load_explicit(&words->sent, memory_order_relaxed) > released); // it was received
    zr_local_post(channels->comm->impl, &words->released, released + 1);
    return ZERO_OK;
}

const zr_channel_ops zr_local_channels = {
    .create = local_create,
    .destroy = local_destroy,
    .at = local_at,
    .take = local_take,
    .send = local_send,
    .receive = local_receive,
    .release = local_release,
};
