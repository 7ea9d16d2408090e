#include "backend_tables.h"

typedef struct table {
    const char *header, *type;
    size_t at, bytes; // at: of the pointer to it, in zr_backend
} table;

#define TABLE(file, name, field)                                                                   \
    {                                                                                              \
        .header = COMPUTE_HEADERS "/" file, .type = #name, .at = offsetof(zr_backend, field),      \
        .bytes = sizeof(name),                                                                     \
    }

static const table tables[BACKEND_TABLES] = {
    TABLE("product_ops.h", zr_product_ops, product),
    TABLE("row_ops.h", zr_row_ops, rows),
    TABLE("attention_ops.h", zr_attention_ops, attention),
    TABLE("element_ops.h", zr_element_ops, elements),
    TABLE("optimizer_ops.h", zr_optimizer_ops, optimizer),
};

enum { OTHER_FIELDS = 5 }; // name, path, multiply_add, open and close
_Static_assert(sizeof(zr_backend) == (BACKEND_TABLES + OTHER_FIELDS) * sizeof(void *),
               "a table of zr_backend has no row above");

static table_slots slots_of(const table *table)
{
    return read_slots(table->header, table->type, table->bytes);
}

static const void *table_of(const zr_backend *backend, const table *table)
{
    const void *first;
    memcpy(&first, (const char *)backend + table->at, sizeof first);
    return first;
}

void slot_covered(slot_coverage *covered, const slot_called *called)
{
    for (int t = 0; t < BACKEND_TABLES; t++)
        if (tables[t].at == called->table)
            covered->slot[t][called->slot / sizeof(slot_function)] = true;
}

void check_every_slot_covered(const slot_coverage *covered)
{
    for (int t = 0; t < BACKEND_TABLES; t++) {
        const table_slots slots = slots_of(&tables[t]);
        for (int s = 0; s < slots.count; s++)
            if (!covered->slot[t][s])
                fail_msg("%s.%s is called by no case of this test", tables[t].type, slots.name[s]);
    }
}

void check_every_slot_wrapped(const zr_backend *backend, const zr_backend *wrapper)
{
    for (int t = 0; t < BACKEND_TABLES; t++) {
        const table_slots slots = slots_of(&tables[t]);
        const void *inner = table_of(backend, &tables[t]), *outer = table_of(wrapper, &tables[t]);
        for (int s = 0; s < slots.count; s++) {
            slot_function own = slot_at(inner, s), wrapped = slot_at(outer, s);
            if (!own || !wrapped || own == wrapped)
                fail_msg("%s.%s of %s (%s) is %s", tables[t].type, slots.name[s], backend->name,
                         backend->path(), own ? "not wrapped" : "empty");
        }
    }
}
