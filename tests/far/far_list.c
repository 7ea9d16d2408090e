// Finds rows that meet without being ordered, by vector clocks: a clock says of each queue which of
// its rows have ended. Each queue and each thread of the host has one. A row is compared only with
// rows that its clock lacks, which are the last of each other queue.
#include "far_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct checker {
    const far_row *rows;
    int count, queues, hosts;
    bool *left_out;                        // waits that do not count
    uint64_t *of_queue, *of_host, *of_row; // clocks
    int *told_by;                          // of a POST, AWAIT: the POST whose clock it joins, or -1
    int *placed[FAR_MOST_QUEUES];          // the rows of each queue, in order
    int places[FAR_MOST_QUEUES];           // and how many there are so far
} checker;

static uint64_t *clock_at(const checker *c, uint64_t *clocks, int index)
{
    return clocks + (size_t)index * (size_t)c->queues;
}

static void join(const checker *c, uint64_t *clock, const uint64_t *with)
{
    for (int i = 0; i < c->queues; i++)
        clock[i] = ZR_MAX(clock[i], with[i]);
}

// ---- what a row knows ----

static void join_mark(checker *c, uint64_t *clock, const far_row *row)
{
    int queue = row->mark_queue, low = 0, high = c->places[queue];
    while (low < high) { // the first row after the mark
        int middle = (low + high) / 2;
        if (c->rows[c->placed[queue][middle]].number <= row->mark_number)
            low = middle + 1;
        else
            high = middle;
    }
    if (low)
        join(c, clock, clock_at(c, c->of_row, c->placed[queue][low - 1]));
}

static void place_row(checker *c, int index)
{
    const far_row *row = &c->rows[index];
    uint64_t *clock = clock_at(c, c->of_queue, row->queue);
    join(c, clock, clock_at(c, c->of_host, row->host));
    if (row->kind == FAR_AFTER && !c->left_out[index])
        join_mark(c, clock, row);
    clock[row->queue] = row->number;
    memcpy(clock_at(c, c->of_row, index), clock, (size_t)c->queues * sizeof *clock);
    c->placed[row->queue][c->places[row->queue]++] = index;
}

static void post(checker *c, int index)
{
    uint64_t *told = clock_at(c, c->of_row, index);
    memcpy(told, clock_at(c, c->of_host, c->rows[index].host), (size_t)c->queues * sizeof *told);
    if (c->told_by[index] >= 0)
        join(c, told, clock_at(c, c->of_row, c->told_by[index]));
}

static void await(checker *c, int index)
{
    if (c->told_by[index] >= 0 && !c->left_out[index])
        join(c, clock_at(c, c->of_host, c->rows[index].host),
             clock_at(c, c->of_row, c->told_by[index]));
}

static void know(checker *c, int index)
{
    if (!c->left_out[index])
        join_mark(c, clock_at(c, c->of_host, c->rows[index].host), &c->rows[index]);
}

static void touch(checker *c, int index)
{
    memcpy(clock_at(c, c->of_row, index), clock_at(c, c->of_host, c->rows[index].host),
           (size_t)c->queues * sizeof *c->of_row);
}

// ---- where rows meet ----

static bool meet(const far_row *a, const far_row *b, uintptr_t *at)
{
    for (int i = 0; i < a->range_count; i++)
        for (int k = 0; k < b->range_count; k++) {
            const far_range *x = &a->ranges[i], *y = &b->ranges[k];
            *at = ZR_MAX(x->first, y->first);
            if ((x->writes || y->writes) && *at < ZR_MIN(x->end, y->end))
                return true;
        }
    return false;
}

// Of each other queue, the rows that the row's clock lacks.
static bool find_race(const checker *c, int index, far_race *out)
{
    const far_row *row = &c->rows[index];
    const uint64_t *clock = clock_at(c, c->of_row, index);
    for (int queue = 0; queue < c->queues; queue++)
        for (int i = row->kind != FAR_TOUCH && queue == row->queue ? -1 : c->places[queue] - 1;
             i >= 0; i--) {
            const far_row *other = &c->rows[c->placed[queue][i]];
            if (other->number <= clock[queue])
                break;
            out->first = c->placed[queue][i];
            out->second = index;
            if (meet(other, row, &out->at))
                return true;
        }
    return false;
}

static bool check(checker *c, far_race *out)
{
    static void (*const take[FAR_ROW_KINDS])(checker *, int) = {
        [FAR_OPERATION] = place_row, [FAR_AFTER] = place_row, [FAR_FINISH] = know,
        [FAR_POST] = post,           [FAR_AWAIT] = await,     [FAR_TOUCH] = touch};
    static const bool meets_others[FAR_ROW_KINDS] = {[FAR_OPERATION] = true, [FAR_TOUCH] = true};
    size_t clock = (size_t)c->queues * sizeof *c->of_queue;
    memset(c->places, 0, sizeof c->places);
    memset(c->of_queue, 0, (size_t)c->queues * clock);
    memset(c->of_host, 0, (size_t)c->hosts * clock);
    for (int i = 0; i < c->count; i++) {
        if (take[c->rows[i].kind])
            take[c->rows[i].kind](c, i);
        if (meets_others[c->rows[i].kind] && find_race(c, i, out))
            return true;
    }
    return false;
}

// ---- words ----

// Returns the last POST in the word before a row that was not forgotten.
static int post_before(const far_row *rows, int index, const bool *forgotten)
{
    int found = index - 1;
    while (found >= 0 && (rows[found].kind != FAR_POST || forgotten[found] ||
                          rows[found].word != rows[index].word))
        found--;
    return found;
}

// A word that is set to no more than it had before begins anew, in other memory at its address:
// what was posted before is forgotten. Otherwise a POST tells what those before it told, too.
static void tell_post(checker *c, int index, bool *forgotten)
{
    const far_row *row = &c->rows[index];
    bool anew = false;
    int last = post_before(c->rows, index, forgotten);
    for (int i = last; i >= 0; i = post_before(c->rows, i, forgotten))
        anew |= c->rows[i].value >= row->value;
    for (int i = last; i >= 0 && anew; i = post_before(c->rows, i, forgotten))
        forgotten[i] = true;
    c->told_by[index] = anew ? -1 : last;
}

// The least value that reaches the target is what the thread has certainly seen.
static void tell_await(checker *c, int index, const bool *forgotten)
{
    const far_row *row = &c->rows[index];
    int seen = -1;
    for (int i = post_before(c->rows, index, forgotten); i >= 0;
         i = post_before(c->rows, i, forgotten))
        if (c->rows[i].value >= row->value && (seen < 0 || c->rows[i].value < c->rows[seen].value))
            seen = i;
    c->told_by[index] = seen;
}

static void forget(const far_row *rows, int index, bool *forgotten)
{
    const far_row *gone = &rows[index];
    const uintptr_t first = (uintptr_t)gone->word, end = first + gone->value;
    for (int i = 0; i < index; i++)
        forgotten[i] |= rows[i].kind == FAR_POST && (uintptr_t)rows[i].word >= first &&
                        (uintptr_t)rows[i].word < end;
}

static void tell(checker *c)
{
    bool *forgotten = far_alloc((size_t)c->count * sizeof *forgotten);
    for (int i = 0; i < c->count; i++) {
        if (c->rows[i].kind == FAR_POST)
            tell_post(c, i, forgotten);
        else if (c->rows[i].kind == FAR_AWAIT)
            tell_await(c, i, forgotten);
        else if (c->rows[i].kind == FAR_UNMAP)
            forget(c->rows, i, forgotten);
    }
    free(forgotten);
}

// ---- a list ----

static void open_checker(checker *c, const far_row *rows, int count)
{
    *c = (checker){.rows = rows, .count = count};
    for (int i = 0; i < count; i++) {
        c->queues = ZR_MAX(c->queues, ZR_MAX(rows[i].queue, rows[i].mark_queue) + 1);
        c->hosts = ZR_MAX(c->hosts, rows[i].host + 1);
    }
    size_t clock = (size_t)c->queues * sizeof *c->of_row;
    c->of_queue = far_alloc((size_t)c->queues * clock);
    c->of_host = far_alloc((size_t)c->hosts * clock);
    c->of_row = far_alloc((size_t)count * clock);
    c->told_by = far_alloc((size_t)count * sizeof *c->told_by);
    c->left_out = far_alloc((size_t)count * sizeof *c->left_out);
    for (int i = 0; i < c->queues; i++)
        c->placed[i] = far_alloc((size_t)count * sizeof *c->placed[i]);
    tell(c);
}

static void close_checker(checker *c)
{
    free(c->of_queue);
    free(c->of_host);
    free(c->of_row);
    free(c->told_by);
    free(c->left_out);
    for (int i = 0; i < c->queues; i++)
        free(c->placed[i]);
}

bool far_races_without(const far_row *rows, int count, const bool *left_out, far_race *out)
{
    checker c;
    open_checker(&c, rows, count);
    if (left_out && count)
        memcpy(c.left_out, left_out, (size_t)count * sizeof *left_out);
    bool found = check(&c, out);
    close_checker(&c);
    return found;
}

bool far_races(const far_row *rows, int count, far_race *out)
{
    return far_races_without(rows, count, NULL, out);
}

void far_thin(const far_row *rows, int count, far_thinned *told, void *user)
{
    checker c;
    open_checker(&c, rows, count);
    for (int i = 0; i < count; i++) {
        far_race race;
        if (rows[i].kind != FAR_AFTER && rows[i].kind != FAR_FINISH)
            continue;
        c.left_out[i] = true;
        told(user, i, check(&c, &race) ? &race : NULL);
        c.left_out[i] = false;
    }
    close_checker(&c);
}

void far_race_write(const far_row *rows, const far_race *race, char *out, size_t size)
{
    const far_row *a = &rows[race->first], *b = &rows[race->second];
    snprintf(
        out, size, "%s, number %llu of queue %d, and %s, number %llu of queue %d, meet at %#llx",
        zr_op_kind_name(a->op), (unsigned long long)a->number, a->queue, zr_op_kind_name(b->op),
        (unsigned long long)b->number, b->queue, (unsigned long long)race->at);
}
