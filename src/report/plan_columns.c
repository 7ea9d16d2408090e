// Columns of the SVG of a micro-batch: what takes time is wide.
#include "report/plan_timeline.h"

#include "base/alloc.h"

enum {
    MOST_WIDTH = 1080, // of all columns
    FOLD_WIDTH = 132,  // of a fold
    CALL_WIDTH = 66,
    PART_WIDTH = 16, // a CALL; a part of one that has a body
    WIDTH = 6,       // any other instruction
};

// Returns an instruction's width. A call with a body computes between the instructions of its body.
static int instruction_width(const zr_instruction *i)
{
    int part = i->mark == ZR_BEGUN ? PART_WIDTH : 0;
    switch (i->code) {
    case ZR_CALL: return i->body ? PART_WIDTH : CALL_WIDTH;
    case ZR_AWAIT:
    case ZR_BIND:
    case ZR_UNBIND:
    case ZR_RELEASE:
    case ZR_PUBLISH: return part;
    case ZR_GATHER: return part + (i->slot.kind != ZR_NO_SLOT ? WIDTH : 0);
    default: return part + WIDTH;
    }
}

const zr_fold *zr_fold_of(const zr_columns *columns, int at)
{
    for (int f = 0; f < columns->fold_count; f++)
        if (at >= columns->folds[f].from && at < columns->folds[f].to)
            return &columns->folds[f];
    return NULL;
}

bool zr_is_folded(const zr_columns *columns, int from, int to)
{
    const zr_fold *in = zr_fold_of(columns, from);
    return in && to <= in->to;
}

// Returns the width of all columns that are not in folds, as wide as they would like to be.
static int64_t wanted_width(const zr_columns *columns, const zr_pass *pass)
{
    int64_t sum = 0;
    for (int i = 0; i < pass->count; i++)
        sum += zr_fold_of(columns, i) ? 0 : instruction_width(&pass->at[i]);
    return sum;
}

// Finds the runs of calls that fold. What stands between two of them folds with them.
static void find_folds(const zr_plan *plan, const zr_pass *pass, zr_columns *out)
{
    zr_fold *open = NULL;
    for (int i = 0; i < pass->count; i++) {
        const zr_instruction *call = &pass->at[i];
        if (call->code != ZR_CALL)
            continue;
        bool shown = call->unit < ZR_SHOWN_ENDS || call->unit >= plan->unit_count - ZR_SHOWN_ENDS;
        if (!shown && !open) {
            open = &out->folds[out->fold_count++];
            *open = (zr_fold){i, i, call->unit, call->unit};
        }
        if (shown) {
            open = NULL;
            continue;
        }
        open->first = ZR_MIN(open->first, call->unit);
        open->last = ZR_MAX(open->last, call->unit);
        open->to = i + 1 + call->body;
    }
}

// Places all columns. If the sum is too wide, all but folds become narrower.
static void place_columns(const zr_pass *pass, zr_columns *out)
{
    int64_t whole = wanted_width(out, pass), sum = 0, folds = 0;
    int64_t room = ZR_MIN(whole, ZR_MAX(MOST_WIDTH - out->fold_count * FOLD_WIDTH, MOST_WIDTH / 2));
    for (int i = 0; i <= pass->count; i++) {
        const zr_fold *in = zr_fold_of(out, i);
        int part = in ? FOLD_WIDTH * (i - in->from) / (in->to - in->from) : 0;
        out->x[i] = (int)(sum * room / ZR_MAX(whole, 1) + folds) + part;
        if (i < pass->count)
            sum += in ? 0 : instruction_width(&pass->at[i]);
        folds += in && i + 1 == in->to ? FOLD_WIDTH : 0;
    }
}

zero_status zr_columns_of(const zr_plan *plan, const zr_pass *pass, zr_columns *out,
                          zero_error *error)
{
    size_t count = (size_t)pass->count + 1;
    *out = (zr_columns){0};
    out->x = zr_alloc(count * sizeof *out->x, error);
    out->folds = zr_alloc(count * sizeof *out->folds, error);
    if (!out->x || !out->folds)
        return ZERO_ERR_MEMORY;
    if (wanted_width(out, pass) > MOST_WIDTH)
        find_folds(plan, pass, out);
    place_columns(pass, out);
    return ZERO_OK;
}

void zr_columns_free(zr_columns *columns)
{
    zr_free(columns->folds);
    zr_free(columns->x);
    *columns = (zr_columns){0};
}
