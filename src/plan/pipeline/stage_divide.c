#include "plan/pipeline/stage_divide.h"

#include "base/alloc.h"

#include <math.h>
#include <string.h>

enum goal { LEAST_TIME, LEAST_SQUARES, LEAST_BYTES, LEAST_DIFFERENCE };

typedef struct cell { // of a table: the best division of the first units into the first parts
    double value;     // of the goal; LEAST_DIFFERENCE: the largest part's time. INFINITY: none
    double smallest;  // part's time
    int from;         // where the last of these parts begins
} cell;

typedef struct division { // one dynamic programming
    const zr_division_of_units *of;
    enum goal goal;
    double most_time;   // of a part
    int64_t most_bytes; // of a part; 0: no limit
    int parts;
    cell *table; // (parts + 1, units + 1)
} division;

typedef struct sums { // of units next to each other
    double time;
    int64_t states, version, activations, workspace;
} sums;

static void add_unit_to_sums(sums *s, const zr_unit_cost *unit)
{
    s->time += unit->time;
    s->states += unit->states;
    s->version += unit->version;
    s->activations += unit->activations;
    s->workspace = ZR_MAX(s->workspace, unit->workspace);
}

static int64_t bytes_of_part(const zr_division_of_units *of, const sums *s, int chunk)
{
    int more = of->versions ? of->versions[chunk] - 1 : 0;
    return s->states + more * s->version + of->sets[chunk] * s->activations + s->workspace;
}

static cell *cell_of_table(const division *d, int part, int unit)
{
    return &d->table[(size_t)part * (size_t)(d->of->count + 1) + (size_t)unit];
}

// Returns the cell of parts whose last one is `s` and begins at `from`; `before` is that of the
// others.
static cell cell_with_part(const division *d, const cell *before, const sums *s, int64_t bytes,
                           int from)
{
    cell next = {.value = before->value + s->time * s->time,
                 .smallest = fmin(before->smallest, s->time),
                 .from = from};
    if (d->goal != LEAST_SQUARES)
        next.value = fmax(before->value, d->goal == LEAST_BYTES ? (double)bytes : s->time);
    return next;
}

// Finds where part `part` begins if it ends before unit `end`, from its last unit to its first.
static void find_best_begin(division *d, int part, int end)
{
    sums s = {0};
    double least = INFINITY;
    cell *best = cell_of_table(d, part + 1, end);
    best->value = INFINITY;
    for (int first = end - 1; first >= part; first--) {
        add_unit_to_sums(&s, &d->of->units[first]);
        int64_t bytes = bytes_of_part(d->of, &s, part);
        if (s.time > d->most_time || (d->most_bytes && bytes > d->most_bytes))
            return;
        const cell next = cell_with_part(d, cell_of_table(d, part, first), &s, bytes, first);
        double worth = next.value - (d->goal == LEAST_DIFFERENCE ? next.smallest : 0);
        if (worth < least) {
            least = worth;
            *best = next;
        }
    }
}

// Runs the dynamic programming. Returns the value of the best division; INFINITY: there is none.
static double divide_for_goal(division *d, enum goal goal, double most_time, int64_t most_bytes,
                              int *first)
{
    int units = d->of->count;
    d->goal = goal;
    d->most_time = most_time;
    d->most_bytes = most_bytes;
    for (int u = 0; u <= units; u++)
        d->table[u] = (cell){.value = u ? INFINITY : 0, .smallest = INFINITY};
    for (int part = 0; part < d->parts; part++)
        for (int end = part + 1; end <= units - (d->parts - 1 - part); end++)
            find_best_begin(d, part, end);
    double value = cell_of_table(d, d->parts, units)->value;
    first[d->parts] = units;
    for (int part = d->parts; part > 0 && value < INFINITY; part--)
        first[part - 1] = cell_of_table(d, part, first[part])->from;
    return value;
}

static sums sums_of_chunk(const zr_division_of_units *of, const int *first, int chunk)
{
    sums s = {0};
    for (int u = first[chunk]; u < first[chunk + 1]; u++)
        add_unit_to_sums(&s, &of->units[u]);
    return s;
}

double zr_divided_time(const zr_division_of_units *of, const int *first, int stage)
{
    double time = 0;
    for (int chunk = stage; chunk < of->stages * of->chunks; chunk += of->stages)
        time += sums_of_chunk(of, first, chunk).time;
    return time;
}

int64_t zr_divided_bytes(const zr_division_of_units *of, const int *first, int stage)
{
    int64_t bytes = 0, workspace = 0;
    for (int chunk = stage; chunk < of->stages * of->chunks; chunk += of->stages) {
        const sums s = sums_of_chunk(of, first, chunk);
        bytes += bytes_of_part(of, &s, chunk) - s.workspace;
        workspace = ZR_MAX(workspace, s.workspace);
    }
    return bytes + workspace;
}

typedef struct worth { // of a division; what stands first counts first, and less is better
    double excess;     // bytes above the limit, of all stages
    double largest;    // stage's time
    double squares;    // of the stages' times
} worth;

static worth worth_of_division(const zr_division_of_units *of, const int *first)
{
    worth w = {0};
    for (int s = 0; s < of->stages; s++) {
        double time = zr_divided_time(of, first, s);
        int64_t bytes = of->memory_limit ? zr_divided_bytes(of, first, s) : 0;
        w.excess += (double)ZR_MAX(bytes - of->memory_limit, 0);
        w.largest = fmax(w.largest, time);
        w.squares += time * time;
    }
    return w;
}

static bool is_better_worth(const worth *a, const worth *b)
{
    if (a->excess != b->excess)
        return a->excess < b->excess;
    return a->largest != b->largest ? a->largest < b->largest : a->squares < b->squares;
}

// Moves the beginnings of chunks begin .. end, so that chunk begin - 1 has one unit more and chunk
// `end` one less, or the other way round. Takes this back unless it makes the division better, and
// moves nothing if one had none left.
static bool move_bounds_if_better(const zr_division_of_units *of, int *first, int begin, int end,
                                  int by, worth *now)
{
    int shrinks = by > 0 ? end : begin - 1;
    if (first[shrinks + 1] - first[shrinks] < 2)
        return false;
    for (int c = begin; c <= end; c++)
        first[c] += by;
    const worth then = worth_of_division(of, first);
    if (is_better_worth(&then, now)) {
        *now = then;
        return true;
    }
    for (int c = begin; c <= end; c++)
        first[c] -= by;
    return false;
}

// Moves units from stage to stage, also past the chunks of others, as long as that is better.
static worth improve_by_moves(const zr_division_of_units *of, int *first)
{
    int parts = of->stages * of->chunks;
    worth now = worth_of_division(of, first);
    for (bool better = true; better;) {
        better = false;
        for (int begin = 1; begin < parts; begin++)
            for (int end = begin; end < ZR_MIN(begin + of->stages, parts); end++)
                better = move_bounds_if_better(of, first, begin, end, 1, &now) ||
                         move_bounds_if_better(of, first, begin, end, -1, &now) || better;
    }
    return now;
}

// Makes the largest part as small as possible, and then the others alike. Returns false if no
// division has only parts that keep within the limit.
static bool divide_by_time(division *d, int *first)
{
    int64_t limit = d->of->memory_limit;
    double largest = divide_for_goal(d, LEAST_TIME, INFINITY, limit, first);
    if (largest == INFINITY)
        return false;
    divide_for_goal(d, LEAST_SQUARES, largest, limit, first);
    return true;
}

// Improves what `start` has, and keeps it in *first if it is better than that.
static void improve_from_start(const zr_division_of_units *of, int *start, int *first, worth *best)
{
    const worth now = improve_by_moves(of, start);
    if (!is_better_worth(&now, best))
        return;
    *best = now;
    memcpy(first, start, (size_t)(of->stages * of->chunks + 1) * sizeof *first);
}

// Begins with several divisions of chunks, because from each only some can be reached.
static bool divide_chunks(division *d, int *start, int *first)
{
    worth best = {INFINITY, INFINITY, INFINITY};
    if (divide_by_time(d, start))
        improve_from_start(d->of, start, first, &best);
    divide_for_goal(d, LEAST_BYTES, INFINITY, 0, start);
    improve_from_start(d->of, start, first, &best);
    zr_divide_evenly(d->of->count, d->parts, start);
    improve_from_start(d->of, start, first, &best);
    return best.excess == 0;
}

static bool divide_stages(division *d, int *start, int *first)
{
    if (d->of->chunks > 1)
        return divide_chunks(d, start, first);
    if (divide_by_time(d, first))
        return true;
    divide_for_goal(d, LEAST_BYTES, INFINITY, 0, first);
    return false;
}

// Makes room for the table; d->table is NULL if there is none.
static division begin_division(const zr_division_of_units *of, zero_error *error)
{
    int parts = of->stages * of->chunks;
    size_t cells = (size_t)(parts + 1) * (size_t)(of->count + 1);
    assert(of->count >= parts && parts > 0);
    return (division){.of = of, .parts = parts, .table = zr_alloc(cells * sizeof(cell), error)};
}

zero_status zr_divide_best(const zr_division_of_units *of, int *first, bool *fits,
                           zero_error *error)
{
    division d = begin_division(of, error);
    int *start = zr_alloc((size_t)(d.parts + 1) * sizeof *start, error);
    bool all = d.table && start;
    if (all)
        *fits = divide_stages(&d, start, first);
    zr_free(d.table);
    zr_free(start);
    return all ? ZERO_OK : ZERO_ERR_MEMORY;
}

void zr_divide_evenly(int units, int parts, int *first)
{
    assert(units >= parts && parts > 0);
    for (int part = 0; part <= parts; part++)
        first[part] = part * (units / parts) + ZR_MIN(part, units % parts);
}

zero_status zr_divide_balanced(const zr_division_of_units *of, int *first, zero_error *error)
{
    division d = begin_division(of, error);
    if (!d.table)
        return ZERO_ERR_MEMORY;
    divide_for_goal(&d, LEAST_DIFFERENCE, INFINITY, 0, first);
    zr_free(d.table);
    return ZERO_OK;
}
