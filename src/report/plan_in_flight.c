#include "report/plan_in_flight.h"

#include "base/alloc.h"

static bool belongs(const zr_instruction *i, zr_in_flight_lane lane)
{
    bool exchange = i->code == ZR_GATHER || i->code == ZR_REDUCE;
    bool transfer = i->code == ZR_FETCH || i->code == ZR_STORE;
    if (i->code == ZR_JOIN)
        return lane == ZR_LANE_EXCHANGES;
    return i->slot.kind != ZR_NO_SLOT && (lane == ZR_LANE_EXCHANGES ? exchange : transfer);
}

static int count_flights(const zr_pass *pass, zr_in_flight_lane lane)
{
    int count = 0;
    for (int i = 0; i < pass->count; i++)
        count += belongs(&pass->at[i], lane);
    return count;
}

// Ends the open flights of the slot that instruction `at` awaits. Flights before *oldest have all
// ended.
static void end_flight(const zr_pass *pass, zr_in_flight *flights, int *oldest, int at)
{
    const zr_slot slot = pass->at[at].slot;
    for (int f = flights->count - 1; f >= *oldest; f--) {
        zr_in_flight_range *flight = &flights->at[f];
        const zr_slot begun = pass->at[flight->from].slot;
        bool ends = begun.kind == slot.kind && begun.index == slot.index;
        if (flight->to == pass->count && ends)
            flight->to = at;
    }
    while (*oldest < flights->count && flights->at[*oldest].to < pass->count)
        ++*oldest;
}

static void find_in_flight(const zr_pass *pass, zr_in_flight_lane lane, zr_in_flight *flights)
{
    int oldest = 0;
    for (int i = 0; i < pass->count; i++) {
        int ends = pass->at[i].code == ZR_JOIN ? i + 1 : pass->count;
        if (pass->at[i].code == ZR_AWAIT)
            end_flight(pass, flights, &oldest, i);
        else if (belongs(&pass->at[i], lane))
            flights->at[flights->count++] = (zr_in_flight_range){.from = i, .to = ends};
    }
}

// Gives each flight a row. ends: (rows) where the last flight of each row ends.
static void pack_in_flight(zr_in_flight *flights, int *ends)
{
    for (zr_in_flight_range *f = flights->at; f < flights->at + flights->count; f++) {
        while (f->row < flights->rows && ends[f->row] > f->from)
            f->row++;
        ends[f->row] = f->to;
        flights->rows = ZR_MAX(flights->rows, f->row + 1);
    }
}

zero_status zr_in_flight_of(const zr_pass *pass, zr_in_flight_lane lane, zr_in_flight *out,
                            zero_error *error)
{
    size_t count = (size_t)count_flights(pass, lane);
    *out = (zr_in_flight){0};
    if (!count)
        return ZERO_OK;
    int *ends = zr_alloc(count * sizeof *ends, error);
    if (!ends)
        return ZERO_ERR_MEMORY;
    out->at = zr_alloc(count * sizeof *out->at, error);
    if (out->at) {
        find_in_flight(pass, lane, out);
        pack_in_flight(out, ends);
    }
    zr_free(ends);
    return out->at ? ZERO_OK : ZERO_ERR_MEMORY;
}

void zr_in_flight_free(zr_in_flight *flights)
{
    zr_free(flights->at);
    *flights = (zr_in_flight){0};
}
