#include "data/packing.h"

#include "base/alloc.h"

typedef struct packer {
    const zr_example *examples; // (count, together)
    int together;
    int64_t count, seq;    // count: of bunches of examples that stand together
    int32_t *order;        // (count) numbers of bunches, those with the most rows first
    int32_t *next, *last;  // (count) the bunch after one in its window; the last one of a window
    int32_t *first;        // (count) the first bunch of each window
    int32_t *room_next;    // (count) the next window with as much room
    int64_t *by_room;      // (seq + 1) a window with so much room; -1: there is none
    uint64_t *has, *group; // bit r of has: by_room[r] is a window; bit w of group: word w of has
    zr_packing *out;
} packer;

int64_t zr_example_rows(const zr_example *example, int64_t seq)
{
    return ZR_MIN(example->count - 1, seq);
}

static int64_t words_for(int64_t bits) { return bits / 64 + 1; }

static zero_status allocate(packer *p, zero_error *error)
{
    int32_t **const lists[] = {&p->order, &p->next, &p->last, &p->first, &p->room_next};
    for (int i = 0; i < ZR_COUNT(lists); i++)
        if (!(*lists[i] = zr_alloc((size_t)(p->count + 1) * sizeof **lists[i], error)))
            return ZERO_ERR_MEMORY;
    p->by_room = zr_alloc((size_t)(p->seq + 2) * sizeof *p->by_room, error);
    p->has = zr_alloc((size_t)words_for(p->seq) * sizeof *p->has, error);
    p->group = zr_alloc((size_t)words_for(words_for(p->seq)) * sizeof *p->group, error);
    return p->by_room && p->has && p->group ? ZERO_OK : ZERO_ERR_MEMORY;
}

static void release(packer *p)
{
    zr_free(p->order);
    zr_free(p->next);
    zr_free(p->last);
    zr_free(p->first);
    zr_free(p->room_next);
    zr_free(p->by_room);
    zr_free(p->has);
    zr_free(p->group);
}

static int64_t rows_of_bunch(const packer *p, int64_t bunch)
{
    int64_t rows = 0;
    for (int i = 0; i < p->together; i++)
        rows += zr_example_rows(&p->examples[bunch * p->together + i], p->seq);
    return rows;
}

// Sorts by rows, the most first; of equal ones, the earlier first. by_room counts.
static int64_t sort_examples(packer *p)
{
    int64_t *starts = p->by_room, packed = 0;
    for (int64_t e = 0; e < p->count; e++) {
        int64_t rows = rows_of_bunch(p, e);
        p->out->cut += p->together == 1 && p->examples[e].count - 1 > p->seq;
        if (rows > 0)
            starts[rows]++;
    }
    for (int64_t rows = p->seq; rows > 0; rows--) {
        int64_t number = starts[rows];
        starts[rows] = packed;
        packed += number;
    }
    for (int64_t e = 0; e < p->count; e++) {
        int64_t rows = rows_of_bunch(p, e);
        if (rows > 0)
            p->order[starts[rows]++] = (int32_t)e;
    }
    return packed;
}

// Returns the first set bit from `from` on; -1 if there is none.
static int64_t next_bit(const uint64_t *words, int64_t count, int64_t from)
{
    for (int64_t w = from / 64; w < count; w++) {
        uint64_t bits = w == from / 64 ? words[w] & ~UINT64_C(0) << (from % 64) : words[w];
        if (bits)
            return w * 64 + __builtin_ctzll(bits);
    }
    return -1;
}

// Returns the least room of at least `rows` that a window has; -1 if none has.
static int64_t find_room(const packer *p, int64_t rows)
{
    uint64_t bits = p->has[rows / 64] & ~UINT64_C(0) << (rows % 64);
    if (bits)
        return rows / 64 * 64 + __builtin_ctzll(bits);
    int64_t word = next_bit(p->group, words_for(words_for(p->seq)), rows / 64 + 1);
    return word < 0 ? -1 : word * 64 + __builtin_ctzll(p->has[word]);
}

static void put_window(packer *p, int64_t window, int64_t room)
{
    p->room_next[window] = (int32_t)p->by_room[room];
    p->by_room[room] = window;
    p->has[room / 64] |= UINT64_C(1) << (room % 64);
    p->group[room / 64 / 64] |= UINT64_C(1) << (room / 64 % 64);
}

static int64_t take_window(packer *p, int64_t room)
{
    int64_t window = p->by_room[room];
    p->by_room[room] = p->room_next[window];
    if (p->by_room[room] >= 0)
        return window;
    p->has[room / 64] &= ~(UINT64_C(1) << (room % 64));
    if (!p->has[room / 64])
        p->group[room / 64 / 64] &= ~(UINT64_C(1) << (room / 64 % 64));
    return window;
}

static void place_example(packer *p, int64_t example)
{
    int64_t rows = rows_of_bunch(p, example), room = find_room(p, rows),
            window = room < 0 ? p->out->windows++ : take_window(p, room);
    p->next[example] = -1;
    if (room < 0)
        p->first[window] = (int32_t)example;
    else
        p->next[p->last[window]] = (int32_t)example;
    p->last[window] = (int32_t)example;
    int64_t left = (room < 0 ? p->seq : room) - rows;
    if (left > 0)
        put_window(p, window, left);
}

static zero_status write_windows(const packer *p, int64_t packed, zero_error *error)
{
    zr_packing *out = p->out;
    int32_t at = 0;
    out->numbers = zr_alloc((size_t)(packed * p->together + 1) * sizeof *out->numbers, error);
    out->begins = zr_alloc((size_t)(out->windows + 1) * sizeof *out->begins, error);
    if (!out->numbers || !out->begins)
        return ZERO_ERR_MEMORY;
    for (int64_t w = 0; w < out->windows; w++) {
        out->begins[w] = at;
        for (int32_t e = p->first[w]; e >= 0; e = p->next[e])
            for (int i = 0; i < p->together; i++)
                out->numbers[at++] = e * p->together + i;
    }
    out->begins[out->windows] = at;
    return ZERO_OK;
}

zero_status zr_packing_make(const zr_example *examples, int64_t count, int together, int64_t seq,
                            zr_packing *out, zero_error *error)
{
    packer p = {.examples = examples,
                .together = together,
                .count = count / together,
                .seq = seq,
                .out = out};
    *out = (zr_packing){0};
    zero_status status = allocate(&p, error);
    if (status == ZERO_OK) {
        int64_t packed = sort_examples(&p);
        for (int64_t room = 0; room <= seq; room++)
            p.by_room[room] = -1;
        for (int64_t i = 0; i < packed; i++)
            place_example(&p, p.order[i]);
        status = write_windows(&p, packed, error);
    }
    release(&p);
    if (status != ZERO_OK)
        zr_packing_free(out);
    return status;
}

void zr_packing_free(zr_packing *packing)
{
    zr_free(packing->numbers);
    zr_free(packing->begins);
    *packing = (zr_packing){0};
}
