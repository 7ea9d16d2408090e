// The machine that instructions work on: the text, the stack and its marks, the memo, and the
// memory of values.
#include "formats/pickle_machine.h"

#include "base/alloc.h"

#include <string.h>

enum { MOST_STACK = 1 << 20, BLOCK_BYTES = 1 << 16, ALIGNMENT = 16 };

struct zr_pickle_block {
    struct zr_pickle_block *next;
    size_t used, room;
    _Alignas(ALIGNMENT) char data[];
};

typedef struct zr_pickle_machine machine;

zero_status zr_pickle_refuse(const machine *m, const char *what)
{
    return zr_fail(m->error, ZERO_ERR_DATA, "\"%s\": the pickle cannot be read, at byte %zu: %s",
                   m->name, m->start, what);
}

void *zr_pickle_alloc(machine *m, size_t bytes)
{
    bytes = ZR_ROUND_UP(bytes, ALIGNMENT);
    if (!m->blocks || m->blocks->room - m->blocks->used < bytes) {
        size_t room = ZR_MAX(bytes, (size_t)BLOCK_BYTES);
        if (room > ZR_PICKLE_MOST_MEMORY - m->memory) {
            zr_fail(m->error, ZERO_ERR_DATA,
                    "\"%s\": the pickle takes more than %zu bytes of memory: it is no checkpoint's",
                    m->name, ZR_PICKLE_MOST_MEMORY);
            return NULL;
        }
        struct zr_pickle_block *block = zr_alloc(sizeof *block + room, m->error);
        if (!block)
            return NULL;
        *block = (struct zr_pickle_block){.next = m->blocks, .room = room};
        m->blocks = block;
        m->memory += room;
    }
    void *taken = m->blocks->data + m->blocks->used;
    m->blocks->used += bytes;
    return taken;
}

zero_status zr_pickle_failed(const machine *m) { return m->error->status; }

zr_pickle_value *zr_pickle_make(machine *m, zr_pickle_kind kind)
{
    zr_pickle_value *made = zr_pickle_alloc(m, sizeof *made);
    if (made)
        made->kind = kind;
    return made;
}

static zero_status make_room_for_value(machine *m, value **array, size_t *room, size_t count)
{
    if (count < *room)
        return ZERO_OK;
    size_t more = *room ? 2 * *room : 256;
    value *grown = zr_realloc(*array, more * sizeof *grown, m->error);
    if (!grown)
        return ZERO_ERR_MEMORY;
    *array = grown;
    *room = more;
    return ZERO_OK;
}

zero_status zr_pickle_push(machine *m, value v)
{
    if (!v)
        return zr_pickle_failed(m);
    if (m->height >= MOST_STACK)
        return zr_pickle_refuse(m, "its stack is too high");
    ZERO_TRY(make_room_for_value(m, &m->stack, &m->stack_room, m->height));
    m->stack[m->height++] = v;
    return ZERO_OK;
}

size_t zr_pickle_count_above_mark(const machine *m)
{
    return m->height - (m->mark_count ? m->marks[m->mark_count - 1] : 0);
}

zero_status zr_pickle_pop(machine *m, value *out)
{
    if (!zr_pickle_count_above_mark(m))
        return zr_pickle_refuse(m, "an instruction finds too little on the stack");
    *out = m->stack[--m->height];
    return ZERO_OK;
}

zero_status zr_pickle_mark(machine *m)
{
    if (m->mark_count == ZR_PICKLE_MOST_MARKS)
        return zr_pickle_refuse(m, "it is nested too deeply");
    m->marks[m->mark_count++] = m->height;
    return ZERO_OK;
}

zero_status zr_pickle_pop_mark(machine *m, zr_pickle_items *out)
{
    if (!m->mark_count)
        return zr_pickle_refuse(m, "an instruction finds no mark on the stack");
    size_t mark = m->marks[--m->mark_count];
    *out = (zr_pickle_items){.at = m->stack ? m->stack + mark : NULL, .count = m->height - mark};
    m->height = mark;
    return ZERO_OK;
}

zero_status zr_pickle_extend(machine *m, zr_pickle_items *list, const zr_pickle_items *with)
{
    if (list->count + with->count > list->room) {
        size_t room = ZR_MAX(2 * list->room, list->count + with->count);
        const zr_pickle_value **grown = zr_pickle_alloc(m, room * sizeof *grown);
        if (!grown)
            return zr_pickle_failed(m);
        if (list->count)
            memcpy(grown, list->at, list->count * sizeof *grown);
        list->at = grown;
        list->room = room;
    }
    if (with->count)
        memcpy(list->at + list->count, with->at, with->count * sizeof *with->at);
    list->count += with->count;
    return ZERO_OK;
}

zero_status zr_pickle_memo_put(machine *m, size_t index)
{
    if (!zr_pickle_count_above_mark(m))
        return zr_pickle_refuse(m, "an instruction finds too little on the stack");
    if (index > m->memo_count)
        return zr_pickle_refuse(m, "its memo has a hole");
    ZERO_TRY(make_room_for_value(m, &m->memo, &m->memo_room, index));
    m->memo[index] = m->stack[m->height - 1];
    m->memo_count += index == m->memo_count;
    return ZERO_OK;
}

zero_status zr_pickle_memo_get(machine *m, size_t index)
{
    return index < m->memo_count ? zr_pickle_push(m, m->memo[index])
                                 : zr_pickle_refuse(m, "it asks for what its memo has not");
}

const unsigned char *zr_pickle_next_bytes(machine *m, size_t bytes)
{
    if (bytes > m->length - m->at) {
        zr_pickle_refuse(m, "it was cut short");
        return NULL;
    }
    m->at += bytes;
    return m->text + m->at - bytes;
}

void zr_pickle_free(zr_pickle *pickle)
{
    for (struct zr_pickle_block *block = pickle->blocks, *next; block; block = next) {
        next = block->next;
        zr_free(block);
    }
    *pickle = (zr_pickle){0};
}
