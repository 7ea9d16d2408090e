// The instructions, one row of a table each. They work on the machine of pickle_machine.h.
#include "formats/pickle_machine.h"

#include "base/alloc.h"

#include <stdio.h>
#include <string.h>

enum { MOST_INTEGER_BYTES = 8 };

typedef struct zr_pickle_machine machine;

static zero_status push_tuple(machine *m, const zr_pickle_items *items)
{
    zr_pickle_value *tuple = zr_pickle_make(m, ZR_PICKLE_TUPLE);
    if (!tuple)
        return zr_pickle_failed(m);
    ZERO_TRY(zr_pickle_extend(m, &tuple->items, items));
    return zr_pickle_push(m, tuple);
}

static zero_status push_integer(machine *m, zr_pickle_kind kind, int64_t number)
{
    zr_pickle_value *made = zr_pickle_make(m, kind);
    if (made)
        made->integer = number;
    return zr_pickle_push(m, made);
}

static uint64_t little_endian_number(const unsigned char *bytes, size_t count)
{
    uint64_t number = 0;
    for (size_t i = count; i-- > 0;)
        number = number << 8 | bytes[i];
    return number;
}

// The instructions. Each gets its fixed argument at `a`; the number of its bytes is in the table.

static zero_status check_protocol(machine *m, const unsigned char *a)
{
    return *a >= 2 && *a <= 5 ? ZERO_OK : zr_pickle_refuse(m, "it is not of protocol 2 to 5");
}

// A frame says how many bytes follow, for readers of streams.
static zero_status skip_frame(machine *m, const unsigned char *a) { return ZERO_OK; }

static zero_status stop(machine *m, const unsigned char *a)
{
    if (m->height != 1 || m->mark_count)
        return zr_pickle_refuse(m, "it ends with other than one value");
    m->stopped = true;
    return ZERO_OK;
}

static zero_status push_mark(machine *m, const unsigned char *a) { return zr_pickle_mark(m); }
static zero_status push_none(machine *m, const unsigned char *a)
{
    return zr_pickle_push(m, zr_pickle_make(m, ZR_PICKLE_NONE));
}
static zero_status push_true(machine *m, const unsigned char *a)
{
    return push_integer(m, ZR_PICKLE_BOOL, 1);
}
static zero_status push_false(machine *m, const unsigned char *a)
{
    return push_integer(m, ZR_PICKLE_BOOL, 0);
}
static zero_status integer_1(machine *m, const unsigned char *a)
{
    return push_integer(m, ZR_PICKLE_INTEGER, *a);
}
static zero_status integer_2(machine *m, const unsigned char *a)
{
    return push_integer(m, ZR_PICKLE_INTEGER, (int64_t)little_endian_number(a, 2));
}
static zero_status integer_4(machine *m, const unsigned char *a)
{
    return push_integer(m, ZR_PICKLE_INTEGER, (int32_t)little_endian_number(a, 4));
}
static zero_status empty_list(machine *m, const unsigned char *a)
{
    return zr_pickle_push(m, zr_pickle_make(m, ZR_PICKLE_LIST));
}
static zero_status empty_dict(machine *m, const unsigned char *a)
{
    return zr_pickle_push(m, zr_pickle_make(m, ZR_PICKLE_DICT));
}
static zero_status empty_tuple(machine *m, const unsigned char *a)
{
    return zr_pickle_push(m, zr_pickle_make(m, ZR_PICKLE_TUPLE));
}

static zero_status long_integer(machine *m, const unsigned char *a)
{
    if (*a > MOST_INTEGER_BYTES)
        return zr_pickle_refuse(m, "an integer of more than 64 bits");
    const unsigned char *bytes = zr_pickle_next_bytes(m, *a);
    if (!bytes)
        return zr_pickle_failed(m);
    uint64_t number = little_endian_number(bytes, *a);
    if (*a && *a < MOST_INTEGER_BYTES && bytes[*a - 1] & 0x80)
        number |= UINT64_MAX << 8 * *a; // two's complement
    return push_integer(m, ZR_PICKLE_INTEGER, (int64_t)number);
}

static zero_status push_real(machine *m, const unsigned char *a)
{
    uint64_t bits = 0;
    zr_pickle_value *made = zr_pickle_make(m, ZR_PICKLE_REAL);
    for (int i = 0; i < 8; i++)
        bits = bits << 8 | a[i];
    if (made)
        memcpy(&made->real, &bits, sizeof bits);
    return zr_pickle_push(m, made);
}

static zero_status push_text_of(machine *m, size_t length)
{
    const unsigned char *bytes = zr_pickle_next_bytes(m, length);
    if (!bytes)
        return zr_pickle_failed(m);
    zr_pickle_value *made = zr_pickle_make(m, ZR_PICKLE_TEXT);
    char *copy = made ? zr_pickle_alloc(m, length + 1) : NULL;
    if (!copy)
        return zr_pickle_failed(m);
    memcpy(copy, bytes, length);
    made->text.at = copy;
    made->text.length = length;
    return zr_pickle_push(m, made);
}

static zero_status push_text(machine *m, const unsigned char *a)
{
    return push_text_of(m, (size_t)little_endian_number(a, 4));
}
static zero_status push_short_text(machine *m, const unsigned char *a)
{
    return push_text_of(m, *a);
}

static zero_status read_pickled_line(machine *m, const char **out, size_t *length)
{
    const unsigned char *begin = m->text + m->at, *end = memchr(begin, '\n', m->length - m->at);
    if (!end)
        return zr_pickle_refuse(m, "it was cut short");
    *out = (const char *)begin;
    *length = (size_t)(end - begin);
    m->at += *length + 1;
    return ZERO_OK;
}

static zero_status push_global(machine *m, const unsigned char *a)
{
    const char *module = NULL, *name = NULL;
    size_t module_length = 0, length = 0;
    ZERO_TRY(read_pickled_line(m, &module, &module_length));
    ZERO_TRY(read_pickled_line(m, &name, &length));
    const zr_pickle_name *found = zr_pickle_name_find(module, module_length, name, length);
    if (!found)
        return zr_fail(m->error, ZERO_ERR_DATA,
                       "\"%s\": the pickle asks for Python's \"%.*s.%.*s\" at byte %zu, which no "
                       "checkpoint needs: refused",
                       m->name, (int)ZR_MIN(module_length, 200), module, (int)ZR_MIN(length, 200),
                       name, m->start);
    zr_pickle_value *made = zr_pickle_make(m, ZR_PICKLE_NAME);
    if (made)
        made->name = found;
    return zr_pickle_push(m, made);
}

static zero_status put_1(machine *m, const unsigned char *a) { return zr_pickle_memo_put(m, *a); }
static zero_status put_4(machine *m, const unsigned char *a)
{
    return zr_pickle_memo_put(m, (size_t)little_endian_number(a, 4));
}
static zero_status put_next(machine *m, const unsigned char *a)
{
    return zr_pickle_memo_put(m, m->memo_count);
}
static zero_status get_1(machine *m, const unsigned char *a) { return zr_pickle_memo_get(m, *a); }
static zero_status get_4(machine *m, const unsigned char *a)
{
    return zr_pickle_memo_get(m, (size_t)little_endian_number(a, 4));
}

static zero_status tuple_of_top(machine *m, size_t count)
{
    if (zr_pickle_count_above_mark(m) < count)
        return zr_pickle_refuse(m, "an instruction finds too little on the stack");
    m->height -= count;
    return push_tuple(m, &(zr_pickle_items){.at = m->stack + m->height, .count = count});
}

static zero_status tuple_1(machine *m, const unsigned char *a) { return tuple_of_top(m, 1); }
static zero_status tuple_2(machine *m, const unsigned char *a) { return tuple_of_top(m, 2); }
static zero_status tuple_3(machine *m, const unsigned char *a) { return tuple_of_top(m, 3); }

static zero_status tuple_above_mark(machine *m, const unsigned char *a)
{
    zr_pickle_items items = {0};
    ZERO_TRY(zr_pickle_pop_mark(m, &items));
    return push_tuple(m, &items);
}

// Adds the items to the container on top of the stack; to a dict, as pairs.
static zero_status add_items_to_top(machine *m, zr_pickle_kind kind, const zr_pickle_items *items)
{
    if (!zr_pickle_count_above_mark(m) || m->stack[m->height - 1]->kind != kind ||
        (kind == ZR_PICKLE_DICT && items->count % 2))
        return zr_pickle_refuse(m, "it adds to something that is neither a list nor a dict");
    return zr_pickle_extend(m, &((zr_pickle_value *)m->stack[m->height - 1])->items, items);
}

static zero_status add_items_above_mark(machine *m, zr_pickle_kind kind)
{
    zr_pickle_items items = {0};
    ZERO_TRY(zr_pickle_pop_mark(m, &items));
    return add_items_to_top(m, kind, &items);
}

static zero_status add_top_items(machine *m, zr_pickle_kind kind, size_t count)
{
    if (zr_pickle_count_above_mark(m) < count + 1)
        return zr_pickle_refuse(m, "an instruction finds too little on the stack");
    m->height -= count;
    return add_items_to_top(m, kind,
                            &(zr_pickle_items){.at = m->stack + m->height, .count = count});
}

static zero_status append_item(machine *m, const unsigned char *a)
{
    return add_top_items(m, ZR_PICKLE_LIST, 1);
}
static zero_status set_item(machine *m, const unsigned char *a)
{
    return add_top_items(m, ZR_PICKLE_DICT, 2);
}
static zero_status append_items(machine *m, const unsigned char *a)
{
    return add_items_above_mark(m, ZR_PICKLE_LIST);
}
static zero_status set_items(machine *m, const unsigned char *a)
{
    return add_items_above_mark(m, ZR_PICKLE_DICT);
}

typedef struct instruction {
    zero_status (*run)(machine *m, const unsigned char *argument);
    size_t argument; // bytes
} instruction;

static const instruction instructions[256] = {
    [0x80] = {check_protocol, 1},
    [0x95] = {skip_frame, 8},
    ['.'] = {stop},
    ['('] = {push_mark},
    ['N'] = {push_none},
    [0x88] = {push_true},
    [0x89] = {push_false},
    ['K'] = {integer_1, 1},
    ['M'] = {integer_2, 2},
    ['J'] = {integer_4, 4},
    [0x8a] = {long_integer, 1},
    ['G'] = {push_real, 8},
    ['X'] = {push_text, 4},
    [0x8c] = {push_short_text, 1},
    ['c'] = {push_global},
    ['q'] = {put_1, 1},
    ['r'] = {put_4, 4},
    [0x94] = {put_next},
    ['h'] = {get_1, 1},
    ['j'] = {get_4, 4},
    [')'] = {empty_tuple},
    [0x85] = {tuple_1},
    [0x86] = {tuple_2},
    [0x87] = {tuple_3},
    ['t'] = {tuple_above_mark},
    [']'] = {empty_list},
    ['a'] = {append_item},
    ['e'] = {append_items},
    ['}'] = {empty_dict},
    ['s'] = {set_item},
    ['u'] = {set_items},
    ['Q'] = {zr_pickle_persistent},
    ['R'] = {zr_pickle_reduce},
    [0x81] = {zr_pickle_reduce},
    ['b'] = {zr_pickle_build},
};

static zero_status run_instructions(machine *m)
{
    char what[64];
    while (!m->stopped) {
        m->start = m->at;
        const unsigned char *code = zr_pickle_next_bytes(m, 1), *argument;
        if (!code)
            return zr_pickle_failed(m);
        const instruction *row = &instructions[*code];
        if (!row->run) {
            snprintf(what, sizeof what, "the instruction 0x%02x is not one that torch.save uses",
                     *code);
            return zr_pickle_refuse(m, what);
        }
        if (m->start == 0 && *code != 0x80)
            return zr_pickle_refuse(m, "it does not begin as one");
        if (!(argument = zr_pickle_next_bytes(m, row->argument)))
            return zr_pickle_failed(m);
        ZERO_TRY(row->run(m, argument));
    }
    m->start = m->at;
    return m->at == m->length ? ZERO_OK : zr_pickle_refuse(m, "there is more after its end");
}

zero_status zr_pickle_read(const char *bytes, size_t length, const char *name, zr_pickle *out,
                           zero_error *error)
{
    zero_error local = {0};
    *out = (zr_pickle){0};
    if (length > ZR_PICKLE_MOST_BYTES)
        return zr_fail(error, ZERO_ERR_DATA,
                       "\"%s\": a pickle of %zu bytes, more than the %zu that are read", name,
                       length, ZR_PICKLE_MOST_BYTES);
    machine *m = zr_alloc(sizeof *m, error);
    if (!m)
        return ZERO_ERR_MEMORY;
    *m = (machine){.name = name,
                   .text = (const unsigned char *)bytes,
                   .length = length,
                   .error = error ? error : &local};
    zero_status status = run_instructions(m);
    out->blocks = m->blocks;
    out->root = status == ZERO_OK ? m->stack[0] : NULL;
    zr_free(m->stack);
    zr_free(m->memo);
    zr_free(m);
    if (status != ZERO_OK)
        zr_pickle_free(out);
    return status;
}
