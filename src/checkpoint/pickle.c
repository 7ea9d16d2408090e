// The machine: a stack of values, marks on it, a memo, and one row of a table for each instruction.
#include "checkpoint/pickle_machine.h"

#include "base/alloc.h"

#include <stdio.h>
#include <string.h>

enum { MOST_STACK = 1 << 20, MOST_MARKS = 1000, BLOCK_BYTES = 1 << 16, MOST_INTEGER_BYTES = 8, ALIGNMENT = 16 };

struct zr_pickle_block { struct zr_pickle_block *next; size_t used, room; _Alignas(ALIGNMENT) char data[]; };

typedef struct zr_pickle_machine machine;

struct zr_pickle_machine {
    const char *name; // of the file
    const unsigned char *text;
    size_t length, at, start; // start: of the instruction
    value *stack;
    size_t height, stack_room;
    size_t marks[MOST_MARKS]; // heights
    int mark_count;
    value *memo;
    size_t memo_count, memo_room;
    struct zr_pickle_block *blocks;
    size_t memory;
    bool stopped;
    zero_error *error;
};

zero_status zr_pickle_refuse(const machine *m, const char *what)
{
    return zr_fail(m->error, ZERO_ERR_DATA, "\"%s\": the pickle cannot be read, at byte %zu: %s", m->name, m->start, what);
}

// Zeroed; NULL where the memory that a pickle may take is used up.
static void *take(machine *m, size_t bytes)
{
    bytes = ZR_ROUND_UP(bytes, ALIGNMENT);
    if (!m->blocks || m->blocks->room - m->blocks->used < bytes) {
        size_t room = ZR_MAX(bytes, (size_t)BLOCK_BYTES);
        if (room > ZR_PICKLE_MOST_MEMORY - m->memory) {
            zr_fail(m->error, ZERO_ERR_DATA, "\"%s\": the pickle takes more than %zu bytes of memory: it is no checkpoint's", m->name, ZR_PICKLE_MOST_MEMORY);
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

zero_status zr_pickle_failed(const machine *m)
{
    return m->error->status;
}

zr_pickle_value *zr_pickle_make(machine *m, zr_pickle_kind kind)
{
    zr_pickle_value *made = take(m, sizeof *made);
    if (made)
        made->kind = kind;
    return made;
}

static zero_status grow(machine *m, value **array, size_t *room, size_t count)
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
    ZERO_TRY(grow(m, &m->stack, &m->stack_room, m->height));
    m->stack[m->height++] = v;
    return ZERO_OK;
}

static size_t floor_of(const machine *m) // values below the topmost mark are out of reach
{
    return m->mark_count ? m->marks[m->mark_count - 1] : 0;
}

zero_status zr_pickle_pop(machine *m, value *out)
{
    if (m->height <= floor_of(m))
        return zr_pickle_refuse(m, "an instruction finds too little on the stack");
    *out = m->stack[--m->height];
    return ZERO_OK;
}

// What lies on the topmost mark, which goes away; the items stay where they are until the next push.
static zero_status pop_mark(machine *m, zr_pickle_items *out)
{
    if (!m->mark_count)
        return zr_pickle_refuse(m, "an instruction finds no mark on the stack");
    size_t mark = m->marks[--m->mark_count];
    *out = (zr_pickle_items){.at = m->stack ? m->stack + mark : NULL, .count = m->height - mark};
    m->height = mark;
    return ZERO_OK;
}

static zero_status extend(machine *m, zr_pickle_items *list, const zr_pickle_items *with)
{
    if (list->count + with->count > list->room) {
        size_t room = ZR_MAX(2 * list->room, list->count + with->count);
        const zr_pickle_value **grown = take(m, room * sizeof *grown);
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

static zero_status push_tuple(machine *m, const zr_pickle_items *items)
{
    zr_pickle_value *tuple = zr_pickle_make(m, ZR_PICKLE_TUPLE);
    if (!tuple)
        return zr_pickle_failed(m);
    ZERO_TRY(extend(m, &tuple->items, items));
    return zr_pickle_push(m, tuple);
}

static zero_status push_integer(machine *m, zr_pickle_kind kind, int64_t number)
{
    zr_pickle_value *made = zr_pickle_make(m, kind);
    if (made)
        made->integer = number;
    return zr_pickle_push(m, made);
}

// The next bytes of the text; NULL: zr_pickle_failed.
static const unsigned char *need(machine *m, size_t bytes)
{
    if (bytes > m->length - m->at) {
        zr_pickle_refuse(m, "it was cut short");
        return NULL;
    }
    m->at += bytes;
    return m->text + m->at - bytes;
}

static uint64_t little(const unsigned char *bytes, size_t count)
{
    uint64_t number = 0;
    for (size_t i = count; i-- > 0;)
        number = number << 8 | bytes[i];
    return number;
}

// The instructions. Each finds its fixed argument, of as many bytes as its row says, at `a`.

static zero_status protocol(machine *m, const unsigned char *a)
{
    return *a == 2 ? ZERO_OK : zr_pickle_refuse(m, "it is not of protocol 2, which torch.save writes");
}

static zero_status stop(machine *m, const unsigned char *a)
{
    if (m->height != 1 || m->mark_count)
        return zr_pickle_refuse(m, "it ends with other than one value");
    m->stopped = true;
    return ZERO_OK;
}

static zero_status mark(machine *m, const unsigned char *a)
{
    if (m->mark_count == MOST_MARKS)
        return zr_pickle_refuse(m, "it is nested too deeply");
    m->marks[m->mark_count++] = m->height;
    return ZERO_OK;
}

static zero_status none(machine *m, const unsigned char *a) { return zr_pickle_push(m, zr_pickle_make(m, ZR_PICKLE_NONE)); }
static zero_status yes(machine *m, const unsigned char *a) { return push_integer(m, ZR_PICKLE_BOOL, 1); }
static zero_status no(machine *m, const unsigned char *a) { return push_integer(m, ZR_PICKLE_BOOL, 0); }
static zero_status integer_1(machine *m, const unsigned char *a) { return push_integer(m, ZR_PICKLE_INTEGER, *a); }
static zero_status integer_2(machine *m, const unsigned char *a) { return push_integer(m, ZR_PICKLE_INTEGER, (int64_t)little(a, 2)); }
static zero_status integer_4(machine *m, const unsigned char *a) { return push_integer(m, ZR_PICKLE_INTEGER, (int32_t)little(a, 4)); }
static zero_status empty_list(machine *m, const unsigned char *a) { return zr_pickle_push(m, zr_pickle_make(m, ZR_PICKLE_LIST)); }
static zero_status empty_dict(machine *m, const unsigned char *a) { return zr_pickle_push(m, zr_pickle_make(m, ZR_PICKLE_DICT)); }
static zero_status empty_tuple(machine *m, const unsigned char *a) { return zr_pickle_push(m, zr_pickle_make(m, ZR_PICKLE_TUPLE)); }

static zero_status long_integer(machine *m, const unsigned char *a)
{
    if (*a > MOST_INTEGER_BYTES)
        return zr_pickle_refuse(m, "an integer of more than 64 bits");
    const unsigned char *bytes = need(m, *a);
    if (!bytes)
        return zr_pickle_failed(m);
    uint64_t number = little(bytes, *a);
    if (*a && *a < MOST_INTEGER_BYTES && bytes[*a - 1] & 0x80)
        number |= UINT64_MAX << 8 * *a; // two's complement
    return push_integer(m, ZR_PICKLE_INTEGER, (int64_t)number);
}

static zero_status real(machine *m, const unsigned char *a)
{
    uint64_t bits = 0;
    zr_pickle_value *made = zr_pickle_make(m, ZR_PICKLE_REAL);
    for (int i = 0; i < 8; i++)
        bits = bits << 8 | a[i];
    if (made)
        memcpy(&made->real, &bits, sizeof bits);
    return zr_pickle_push(m, made);
}

static zero_status text(machine *m, const unsigned char *a)
{
    size_t length = (size_t)little(a, 4);
    const unsigned char *bytes = need(m, length);
    if (!bytes)
        return zr_pickle_failed(m);
    zr_pickle_value *made = zr_pickle_make(m, ZR_PICKLE_TEXT);
    char *copy = made ? take(m, length + 1) : NULL;
    if (!copy)
        return zr_pickle_failed(m);
    memcpy(copy, bytes, length);
    made->text.at = copy;
    made->text.length = length;
    return zr_pickle_push(m, made);
}

static zero_status line(machine *m, const char **out, size_t *length)
{
    const unsigned char *begin = m->text + m->at, *end = memchr(begin, '\n', m->length - m->at);
    if (!end)
        return zr_pickle_refuse(m, "it was cut short");
    *out = (const char *)begin;
    *length = (size_t)(end - begin);
    m->at += *length + 1;
    return ZERO_OK;
}

static zero_status global(machine *m, const unsigned char *a)
{
    const char *module = NULL, *name = NULL;
    size_t module_length = 0, length = 0;
    ZERO_TRY(line(m, &module, &module_length));
    ZERO_TRY(line(m, &name, &length));
    const zr_pickle_name *found = zr_pickle_name_find(module, module_length, name, length);
    if (!found)
        return zr_fail(m->error, ZERO_ERR_DATA, "\"%s\": the pickle asks for Python's \"%.*s.%.*s\" at byte %zu, which no checkpoint needs: refused", m->name,
                       (int)ZR_MIN(module_length, 200), module, (int)ZR_MIN(length, 200), name, m->start);
    zr_pickle_value *made = zr_pickle_make(m, ZR_PICKLE_NAME);
    if (made)
        made->name = found;
    return zr_pickle_push(m, made);
}

// The memo's numbers follow each other, as Python's pickler gives them.
static zero_status put(machine *m, size_t index)
{
    if (m->height <= floor_of(m))
        return zr_pickle_refuse(m, "an instruction finds too little on the stack");
    if (index > m->memo_count)
        return zr_pickle_refuse(m, "its memo has a hole");
    ZERO_TRY(grow(m, &m->memo, &m->memo_room, index));
    m->memo[index] = m->stack[m->height - 1];
    m->memo_count += index == m->memo_count;
    return ZERO_OK;
}

static zero_status get(machine *m, size_t index)
{
    return index < m->memo_count ? zr_pickle_push(m, m->memo[index]) : zr_pickle_refuse(m, "it asks for what its memo has not");
}

static zero_status put_1(machine *m, const unsigned char *a) { return put(m, *a); }
static zero_status put_4(machine *m, const unsigned char *a) { return put(m, (size_t)little(a, 4)); }
static zero_status get_1(machine *m, const unsigned char *a) { return get(m, *a); }
static zero_status get_4(machine *m, const unsigned char *a) { return get(m, (size_t)little(a, 4)); }

static zero_status tuple_of(machine *m, size_t count)
{
    if (m->height - floor_of(m) < count)
        return zr_pickle_refuse(m, "an instruction finds too little on the stack");
    m->height -= count;
    return push_tuple(m, &(zr_pickle_items){.at = m->stack + m->height, .count = count});
}

static zero_status tuple_1(machine *m, const unsigned char *a) { return tuple_of(m, 1); }
static zero_status tuple_2(machine *m, const unsigned char *a) { return tuple_of(m, 2); }
static zero_status tuple_3(machine *m, const unsigned char *a) { return tuple_of(m, 3); }

static zero_status tuple(machine *m, const unsigned char *a)
{
    zr_pickle_items items = {0};
    ZERO_TRY(pop_mark(m, &items));
    return push_tuple(m, &items);
}

// The container that the stack ends in takes the items; pairs where it is a dict.
static zero_status add(machine *m, zr_pickle_kind kind, const zr_pickle_items *items)
{
    if (m->height <= floor_of(m) || m->stack[m->height - 1]->kind != kind || (kind == ZR_PICKLE_DICT && items->count % 2))
        return zr_pickle_refuse(m, "it adds to something that is neither a list nor a dict");
    return extend(m, &((zr_pickle_value *)m->stack[m->height - 1])->items, items);
}

static zero_status add_marked(machine *m, zr_pickle_kind kind)
{
    zr_pickle_items items = {0};
    ZERO_TRY(pop_mark(m, &items));
    return add(m, kind, &items);
}

static zero_status add_some(machine *m, zr_pickle_kind kind, size_t count)
{
    if (m->height - floor_of(m) < count + 1)
        return zr_pickle_refuse(m, "an instruction finds too little on the stack");
    m->height -= count;
    return add(m, kind, &(zr_pickle_items){.at = m->stack + m->height, .count = count});
}

static zero_status append(machine *m, const unsigned char *a) { return add_some(m, ZR_PICKLE_LIST, 1); }
static zero_status set_item(machine *m, const unsigned char *a) { return add_some(m, ZR_PICKLE_DICT, 2); }
static zero_status appends(machine *m, const unsigned char *a) { return add_marked(m, ZR_PICKLE_LIST); }
static zero_status set_items(machine *m, const unsigned char *a) { return add_marked(m, ZR_PICKLE_DICT); }

typedef struct instruction {
    zero_status (*run)(machine *m, const unsigned char *argument);
    size_t argument; // bytes
} instruction;

static const instruction instructions[256] = {
    [0x80] = {protocol, 1}, ['.'] = {stop}, ['('] = {mark},
    ['N'] = {none}, [0x88] = {yes}, [0x89] = {no}, ['K'] = {integer_1, 1}, ['M'] = {integer_2, 2}, ['J'] = {integer_4, 4}, [0x8a] = {long_integer, 1}, ['G'] = {real, 8},
    ['X'] = {text, 4}, ['c'] = {global},
    ['q'] = {put_1, 1}, ['r'] = {put_4, 4}, ['h'] = {get_1, 1}, ['j'] = {get_4, 4},
    [')'] = {empty_tuple}, [0x85] = {tuple_1}, [0x86] = {tuple_2}, [0x87] = {tuple_3}, ['t'] = {tuple},
    [']'] = {empty_list}, ['a'] = {append}, ['e'] = {appends}, ['}'] = {empty_dict}, ['s'] = {set_item}, ['u'] = {set_items},
    ['Q'] = {zr_pickle_persistent}, ['R'] = {zr_pickle_reduce}, [0x81] = {zr_pickle_reduce}, ['b'] = {zr_pickle_build},
};

static zero_status run(machine *m)
{
    char what[64];
    while (!m->stopped) {
        m->start = m->at;
        const unsigned char *code = need(m, 1), *argument;
        if (!code)
            return zr_pickle_failed(m);
        const instruction *row = &instructions[*code];
        if (!row->run) {
            snprintf(what, sizeof what, "the instruction 0x%02x is not one that torch.save uses", *code);
            return zr_pickle_refuse(m, what);
        }
        if (m->start == 0 && *code != 0x80)
            return zr_pickle_refuse(m, "it does not begin as one");
        if (!(argument = need(m, row->argument)))
            return zr_pickle_failed(m);
        ZERO_TRY(row->run(m, argument));
    }
    m->start = m->at;
    return m->at == m->length ? ZERO_OK : zr_pickle_refuse(m, "there is more after its end");
}

zero_status zr_pickle_read(const char *bytes, size_t length, const char *name, zr_pickle *out, zero_error *error)
{
    zero_error local = {0};
    *out = (zr_pickle){0};
    if (length > ZR_PICKLE_MOST_BYTES)
        return zr_fail(error, ZERO_ERR_DATA, "\"%s\": a pickle of %zu bytes, more than the %zu that are read", name, length, ZR_PICKLE_MOST_BYTES);
    machine *m = zr_alloc(sizeof *m, error);
    if (!m)
        return ZERO_ERR_MEMORY;
    *m = (machine){.name = name, .text = (const unsigned char *)bytes, .length = length, .error = error ? error : &local};
    zero_status status = run(m);
    out->blocks = m->blocks;
    out->root = status == ZERO_OK ? m->stack[0] : NULL;
    zr_free(m->stack);
    zr_free(m->memo);
    zr_free(m);
    if (status != ZERO_OK)
        zr_pickle_free(out);
    return status;
}

void zr_pickle_free(zr_pickle *pickle)
{
    for (struct zr_pickle_block *block = pickle->blocks, *next; block; block = next) {
        next = block->next;
        zr_free(block);
    }
    *pickle = (zr_pickle){0};
}
