// Channels between ranks of one machine. All slots lie in one shared window of the communicator,
// and both ends map them, so a message is a word that its sender publishes:
//
//   [slot_words of channel 0, 1, ...] [slots of channel 0] [slots of channel 1] ...
//
// On a far device the window has the words, and the slots that the host uses; all others lie in the
// device memory of their senders, in regions that go with the window.
//
// For each slot, the sender counts the messages that it has sent there, and the receiver those that
// it has released. The sender owns the slot while the two are equal, and the receiver while the
// first is one ahead. Each end keeps its own count, because on a far device the comm thread
// publishes it later.
#include "base/alloc.h"
#include "comm/agreement.h"
#include "comm/comm_thread.h"
#include "comm/local_far_window.h"
#include "comm/operations.h"

typedef struct slot_words {
    // Written by the sender; `sent` last, with release. bytes: of the last message.
    _Alignas(ZR_LINE) _Atomic uint64_t sent;
    int64_t bytes;
    _Alignas(ZR_LINE) _Atomic uint64_t released; // written by the receiver
} slot_words;

typedef struct own_end { // of a slot
    uint64_t count;      // messages that this rank has sent, or released
    zr_notice notice;    // on a far device: of the last of them
} own_end;

typedef struct place { // where a channel's slots are
    int64_t first;     // number of its slot 0 among all slots
    char *slots;       // slot 0
} place;

typedef struct local_channels {
    zr_window window;
    slot_words *words; // (slots of all channels)
    own_end *ends;     // (slots of all channels)
    place at[];        // (count)
} local_channels;

static int64_t bytes_of_slots(const zr_channel_shape *shape)
{
    return shape->slots * zr_channel_stride(shape);
}

// Says whether a channel's slots lie in the window, else in the sender's device memory.
static bool lies_in_window(const zr_channels *channels, const zr_channel_shape *shape)
{
    return !channels->comm->queue || shape->on_host;
}

// Returns the number of all slots; bytes: of those in the window.
static int64_t count_slots(const zr_channels *channels, int64_t *bytes)
{
    int64_t slots = 0;
    *bytes = 0;
    for (int i = 0; i < channels->count; i++) {
        const zr_channel_shape *shape = &channels->shapes[i];
        slots += shape->slots;
        *bytes += lies_in_window(channels, shape) ? bytes_of_slots(shape) : 0;
    }
    return slots;
}

// Fills at(count). in_window: the first slot there.
static void place_slots(const zr_channels *channels, local_channels *made, char *in_window)
{
    const zr_far_regions *far = ((zr_local_window *)made->window.impl)->far;
    int64_t slots = 0, used[ZERO_MAX_RANKS] = {0};
    for (int i = 0; i < channels->count; i++) {
        const zr_channel_shape *shape = &channels->shapes[i];
        bool here = lies_in_window(channels, shape);
        made->at[i] =
            (place){slots, here ? in_window : far->of[shape->from].at + used[shape->from]};
        slots += shape->slots;
        if (here)
            in_window += bytes_of_slots(shape);
        else
            used[shape->from] += bytes_of_slots(shape);
    }
}

// Collective, on a far device: reserves what this rank sends, and finds what the others have.
static zero_status reserve_far_slots(const zr_channels *channels, local_channels *made,
                                     zero_error *error)
{
    zero_comm *comm = channels->comm;
    zr_local_window *window = made->window.impl;
    int64_t bytes[ZERO_MAX_RANKS] = {0};
    if (!comm->queue)
        return ZERO_OK;
    for (int i = 0; i < channels->count; i++)
        if (!channels->shapes[i].on_host)
            bytes[channels->shapes[i].from] += bytes_of_slots(&channels->shapes[i]);
    ZERO_TRY(zr_comm_agree(
        comm, zr_far_regions_reserve(comm, window->entry, bytes, &window->far, error), error));
    return zr_far_regions_attach(window->far, error);
}

static zero_status make_window(zr_channels *channels, local_channels *made, int64_t slots,
                               int64_t bytes, zero_error *error)
{
    zero_comm *comm = channels->comm;
    int64_t words = slots * (int64_t)sizeof(slot_words);
    made->window = (zr_window){.comm = comm, .kind = ZR_WINDOW_SHARED, .bytes = words + bytes};
    ZERO_TRY(zr_local_window_create(comm, &made->window, error));
    zero_status status = reserve_far_slots(channels, made, error);
    if (status != ZERO_OK) {
        zr_local_window_destroy(&made->window);
        return status;
    }
    made->words = (slot_words *)made->window.mine;
    place_slots(channels, made, made->window.mine + words);
    return ZERO_OK;
}

static void free_channels(local_channels *mine)
{
    if (mine)
        zr_free(mine->ends);
    zr_free(mine);
}

static zero_status local_create(zr_channels *channels, zero_error *error)
{
    zero_comm *comm = channels->comm;
    int64_t bytes, slots = count_slots(channels, &bytes);
    local_channels *made =
        zr_alloc(sizeof *made + sizeof made->at[0] * (size_t)channels->count, error);
    if (made)
        made->ends = zr_alloc((size_t)slots * sizeof *made->ends, error);
    zero_status status = zr_comm_agree(comm, made && made->ends ? ZERO_OK : ZERO_ERR_MEMORY, error);
    if (status == ZERO_OK)
        status = make_window(channels, made, slots, bytes, error);
    if (status == ZERO_OK)
        channels->impl = made;
    else
        free_channels(made);
    return status;
}

static void local_destroy(zr_channels *channels)
{
    local_channels *mine = channels->impl;
    zr_local_window_destroy(&mine->window);
    free_channels(mine);
}

static char *local_at(const zr_channels *channels, int channel, int slot)
{
    const local_channels *mine = channels->impl;
    return mine->at[channel].slots + slot * zr_channel_stride(&channels->shapes[channel]);
}

static slot_words *words_of_slot(const zr_channels *channels, int channel, int slot)
{
    const local_channels *mine = channels->impl;
    return &mine->words[mine->at[channel].first + slot];
}

static own_end *own_end_of_slot(const zr_channels *channels, int channel, int slot)
{
    const local_channels *mine = channels->impl;
    return &mine->ends[mine->at[channel].first + slot];
}

static void post_notice(const zr_notice *notice)
{
    zr_local_post(notice->comm->impl, notice->word, notice->value);
}

// Publishes the own count: at once, or, on a far device, once the queue has done what it was given.
static zero_status publish_count(zr_channels *channels, own_end *end, _Atomic uint64_t *word,
                                 zero_error *error)
{
    zero_comm *comm = channels->comm;
    end->count++;
    if (!comm->queue) {
        zr_local_post(comm->impl, word, end->count);
        return ZERO_OK;
    }
    end->notice = (zr_notice){.comm = comm,
                              .made = zr_queue_mark(comm->compute),
                              .tell = post_notice,
                              .word = word,
                              .value = end->count};
    return zr_comm_thread_tell(&end->notice, error);
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
    return await_count(channels, channel, slot, &words->released,
                       own_end_of_slot(channels, channel, slot)->count,
                       channels->shapes[channel].to, "take", error);
}

static zero_status local_send(zr_channels *channels, int channel, int slot, int64_t bytes,
                              zero_error *error)
{
    slot_words *words = words_of_slot(channels, channel, slot);
    own_end *end = own_end_of_slot(channels, channel, slot);
    assert(atomic_load_explicit(&words->released, memory_order_relaxed) == end->count); // taken
    words->bytes = bytes;
    return publish_count(channels, end, &words->sent, error);
}

static zero_status local_receive(zr_channels *channels, int channel, int slot, int64_t *bytes,
                                 zero_error *error)
{
    const slot_words *words = words_of_slot(channels, channel, slot);
    ZERO_TRY(await_count(channels, channel, slot, &words->sent,
                         own_end_of_slot(channels, channel, slot)->count + 1,
                         channels->shapes[channel].from, "receive", error));
    *bytes = words->bytes;
    return ZERO_OK;
}

static zero_status local_release(zr_channels *channels, int channel, int slot, zero_error *error)
{
    slot_words *words = words_of_slot(channels, channel, slot);
    own_end *end = own_end_of_slot(channels, channel, slot);
    assert(atomic_load_explicit(&words->sent, memory_order_relaxed) > end->count); // received
    return publish_count(channels, end, &words->released, error);
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
