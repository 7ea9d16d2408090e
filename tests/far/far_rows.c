// What far queues were given, as a list that the tests read.
#include "far_state.h"

#include <stdlib.h>
#include <string.h>

static struct {
    far_row *all;
    int count, capacity;
} rows;

static far_row *next_row(void)
{
    if (rows.count == rows.capacity) {
        int capacity = ZR_MAX(1024, 2 * rows.capacity);
        far_row *all = far_alloc((size_t)capacity * sizeof *all);
        if (rows.count)
            memcpy(all, rows.all, (size_t)rows.count * sizeof *all);
        free(rows.all);
        rows.all = all;
        rows.capacity = capacity;
    }
    return &rows.all[rows.count++];
}

static far_range *ranges_of(const far_piece *pieces, int count)
{
    far_range *ranges = far_alloc((size_t)count * sizeof *ranges);
    for (int i = 0; i < count; i++)
        ranges[i] = (far_range){.first = (uintptr_t)pieces[i].at,
                                .end = (uintptr_t)pieces[i].at + pieces[i].bytes,
                                .writes = pieces[i].writes};
    return ranges;
}

void far_record(const far_row *row, const far_piece *pieces, int count)
{
    if (!far_options_now()->keeps_rows)
        return;
    far_row *kept = next_row();
    *kept = *row;
    kept->range_count = count;
    kept->ranges = count ? ranges_of(pieces, count) : NULL;
}

const far_row *far_rows(int *count)
{
    far_lock();
    *count = rows.count;
    far_unlock();
    return rows.all;
}

void far_rows_forget(void)
{
    far_lock();
    for (int i = 0; i < rows.count; i++)
        free((void *)rows.all[i].ranges);
    free(rows.all);
    rows.all = NULL;
    rows.count = rows.capacity = 0;
    far_unlock();
}

static void note(far_row row)
{
    row.host = far_host();
    far_lock();
    far_record(&row, NULL, 0);
    far_unlock();
}

void far_note_post(const void *word, uint64_t value)
{
    note((far_row){.kind = FAR_POST, .word = word, .value = value});
}

void far_note_await(const void *word, uint64_t target, int place)
{
    note((far_row){.kind = FAR_AWAIT, .word = word, .value = target, .place = place});
}

void far_note_unmap(const void *first, uint64_t bytes)
{
    const far_row row = {.kind = FAR_UNMAP, .word = first, .value = bytes};
    if (far_is_locked_here())
        return; // memory of the far device, where no words are
    far_lock();
    far_record(&row, NULL, 0);
    far_unlock();
}
