#include "predict/measured_steps.h"

#include "base/numbers.h"

// Calls that warm up: of single steps, and of windows.
enum { COLD_STEPS = 2, COLD_WINDOWS = 1 };
// ENOUGH warm calls are measured among the first LONGEST_SEARCH; later ones are those whose number
// is a power of two from LATER on, so that of n steps about log2(n) are recorded.
enum { ENOUGH = 4, LONGEST_SEARCH = 100, LATER = 16 };
// The most kinds of operations of a step, and times of each kind, whose median counts.
enum { MOST_KINDS = 256, MOST_TIMES = 1024 };

bool zr_measured_is_cold(int64_t call, int64_t together)
{
    return call <= (together > 1 ? COLD_WINDOWS : COLD_STEPS);
}

bool zr_measured_begin(zr_measured *measured, int64_t together)
{
    int64_t call = ++measured->calls;
    bool first = zr_measured_is_cold(call, together);
    bool searched = measured->taken < ENOUGH && call <= LONGEST_SEARCH;
    bool later = call >= LATER && ZR_IS_POWER_OF_TWO(call);
    return first || searched || later;
}

// Returns the part to which a record inside of a phase belongs; that of the phase itself where it
// computes.
static zr_time_part time_part_of(zr_activity what, zr_time_part phase)
{
    if (what == ZR_ACTIVITY_delayed_wait)
        return ZR_TIME_UPDATE;
    if (zr_activity_track(what) == ZR_TRACK_COMM)
        return ZR_TIME_EXCHANGE;
    return zr_activity_track(what) == ZR_TRACK_DISK ? ZR_TIME_DISK : phase;
}

static bool is_wait(zr_activity what)
{
    return what == ZR_ACTIVITY_wait || what == ZR_ACTIVITY_delayed_wait ||
           what == ZR_ACTIVITY_checkpoint_wait;
}

// Returns whether the time of a record is that of the operation alone.
static bool is_operation(const zr_measured *measured, zr_activity what)
{
    zr_track track = zr_activity_track(what);
    bool overlapped = measured->overlaps &&
                      (what == ZR_ACTIVITY_all_gather || what == ZR_ACTIVITY_reduce_scatter);
    if (track == ZR_TRACK_COMM && measured->across)
        return false;
    return (track == ZR_TRACK_COMPUTE || track == ZR_TRACK_COMM) && !is_wait(what) && !overlapped;
}

// Divides the time of a phase among the parts. What operations leave unexplained is the phase's,
// and a sample of it by the number of operations that compute.
static void take_phase(zr_measured *measured, const zr_recorder *recorder, int64_t first,
                       int64_t phase, double parts[ZR_TIME_PARTS], bool warm)
{
    const zr_record *record = &recorder->records[phase];
    zr_time_part own_part = record->what == ZR_ACTIVITY_step ? ZR_TIME_UPDATE : ZR_TIME_COMPUTE;
    int64_t rest = record->end - record->begin, operations = 0;
    for (int64_t i = zr_records_inside(recorder, first, phase); i < phase; i++) {
        zr_activity what = recorder->records[i].what;
        if (zr_activity_is_overlapped(what))
            continue;
        int64_t own = zr_recorder_own_time(recorder, first, i);
        parts[time_part_of(what, own_part)] += (double)own * 1e-9;
        measured->waits += what == ZR_ACTIVITY_wait ? (double)own * 1e-9 : 0;
        operations += zr_activity_track(what) == ZR_TRACK_COMPUTE && !is_wait(what);
        rest -= own;
    }
    parts[own_part] += (double)rest * 1e-9;
    if (warm && operations)
        zr_rates_add(&measured->rates, record->what, operations, 0, (double)rest * 1e-9, 1);
}

typedef struct kind { // operations of one size
    zr_activity what;
    int64_t bytes, flops;
} kind;

static bool is_record_of_kind(const zr_record *record, const kind *of)
{
    return record->what == of->what && record->bytes == of->bytes && record->flops == of->flops;
}

// Returns whether the time of a record is that of an exchange over the network.
static bool is_message(const zr_measured *measured, zr_activity what)
{
    return measured->across && measured->reach.strangers > 0 &&
           (what == ZR_ACTIVITY_all_gather || what == ZR_ACTIVITY_reduce_scatter ||
            what == ZR_ACTIVITY_all_reduce);
}

typedef bool is_wanted(const zr_measured *measured, zr_activity what);

// Lists the kinds of operations among the records, as many as there is room for.
static int list_kinds(const zr_measured *measured, const zr_recorder *recorder, int64_t first,
                      is_wanted *wanted, kind kinds[MOST_KINDS])
{
    int count = 0;
    for (int64_t i = first; i < recorder->count; i++) {
        const zr_record *record = &recorder->records[i];
        int k = 0;
        if (!wanted(measured, record->what))
            continue;
        while (k < count && !is_record_of_kind(record, &kinds[k]))
            k++;
        if (k == count && count < MOST_KINDS)
            kinds[count++] = (kind){record->what, record->bytes, record->flops};
    }
    return count;
}

// Adds the usual mean of a kind's times, because single operations are interrupted.
static void add_times_of_kind(zr_measured *measured, const zr_recorder *recorder, int64_t first,
                              const kind *of)
{
    double times[MOST_TIMES], all = 0;
    int count = 0;
    for (int64_t i = first; i < recorder->count && count < MOST_TIMES; i++)
        if (is_record_of_kind(&recorder->records[i], of)) {
            times[count] = (double)zr_recorder_own_time(recorder, first, i) * 1e-9;
            all += times[count++];
        }
    double median = zr_median(times, count);
    zr_rates_add(&measured->rates, of->what, of->bytes, of->flops, zr_usual_mean(times, count),
                 count);
    if (zr_activity_track(of->what) == ZR_TRACK_COMPUTE) {
        measured->all += all;
        measured->usual += median * count;
    }
}

// Returns the bytes of an exchange that came over the network.
static int64_t far_bytes(const zr_measured *measured, const kind *of)
{
    const zr_reach *reach = &measured->reach;
    bool gathers = of->what == ZR_ACTIVITY_all_gather;
    return zr_reach_bytes(reach, gathers ? ZERO_COMM_all_gather : ZERO_COMM_reduce_scatter,
                          of->bytes,
                          gathers && measured->one_copy ? reach->fetches : reach->size - 1);
}

// Adds what exchanges of a kind have taken, with the waits in them: the network's are there, too.
// Most of those in which ranks waited for each other are among the longer ones.
static void take_messages(zr_measured *measured, const zr_recorder *recorder, int64_t first,
                          const kind *of)
{
    double times[MOST_TIMES];
    int count = 0;
    int64_t bytes = far_bytes(measured, of);
    bool one_copy = of->what == ZR_ACTIVITY_all_gather && measured->one_copy;
    for (int64_t i = first; i < recorder->count && count < MOST_TIMES; i++) {
        const zr_record *record = &recorder->records[i];
        if (is_record_of_kind(record, of))
            times[count++] = (double)(record->end - record->begin) * 1e-9;
    }
    if (bytes == 0)
        return;
    zr_median(times, count); // sorts them
    zr_rates_add(&measured->links[one_copy], of->what, bytes, 0, times[count / 4], count);
}

double zr_measured_interrupted(const zr_measured *measured)
{
    return measured->usual > 0 ? measured->all / measured->usual - 1 : 0;
}

static bool waits_for_a_checkpoint(const zr_recorder *recorder, int64_t first)
{
    for (int64_t i = first; i < recorder->count; i++)
        if (recorder->records[i].what == ZR_ACTIVITY_checkpoint_wait)
            return true;
    return false;
}

// Forgets the cold steps, which counted as long as there were no others.
static void forget_cold_steps(zr_measured *measured)
{
    for (int part = 0; part < ZR_TIME_PARTS; part++)
        measured->seconds[part] = 0;
    measured->waits = 0;
    measured->steps = 0;
    measured->warm = true;
}

void zr_measured_take(zr_measured *measured, const zr_recorder *recorder, int64_t first,
                      int64_t steps)
{
    kind kinds[MOST_KINDS];
    bool warm = !zr_measured_is_cold(measured->calls, steps);
    if (waits_for_a_checkpoint(recorder, first))
        return;
    if (warm && !measured->warm)
        forget_cold_steps(measured);
    for (int64_t i = first; i < recorder->count; i++)
        if (zr_activity_track(recorder->records[i].what) == ZR_TRACK_PHASE)
            take_phase(measured, recorder, first, i, measured->seconds, warm);
    measured->steps += steps;
    measured->taken += warm;
    if (!warm)
        return;
    int count = list_kinds(measured, recorder, first, is_operation, kinds);
    for (int k = 0; k < count; k++)
        add_times_of_kind(measured, recorder, first, &kinds[k]);
    count = list_kinds(measured, recorder, first, is_message, kinds);
    for (int k = 0; k < count; k++)
        take_messages(measured, recorder, first, &kinds[k]);
}
