// --profile: every rank sends the records of a few steps to rank 0, which writes them as one trace.
//
// Ranks on one machine read the same clock. The clock of another machine is aligned with rank 0's
// by what both showed right after a barrier, so the alignment is as exact as the barrier's end is
// simultaneous.
#include "base/clock.h"
#include "base/cpu.h"
#include "base/file.h"
#include "comm/agreement.h"
#include "checkpoint/ownership.h"
#include "monitor/trace.h"
#include "train/training.h"

#include <stdio.h>
#include <string.h>

enum { WARM_UP = 2, RECORDED = 3 }; // in steps

zr_step_range zr_train_profile_steps(const zr_train *train)
{
    int64_t window = zero_window(train->run.engine), steps = train->resolved.steps;
    int64_t first = ZR_MIN(WARM_UP + 1, steps), count = RECORDED;
    if (window > 1) { // steps that overlap are recorded together
        first = steps > window ? window + 1 : 1;
        count = window;
    }
    return train->asked.options->profile ? (zr_step_range){first, ZR_MIN(first + count - 1, steps)}
                                         : (zr_step_range){0};
}

// Checks that only an earlier profile is replaced, and nothing that this run is about to write.
zero_status zr_train_profile_check(const zr_train *train, zero_error *error)
{
    if (train->asked.options->out_dir)
        ZERO_TRY(zr_ownership_check_outside(train->asked.options->out_dir,
                                            train->asked.options->profile, true, "--profile",
                                            error));
    return train->asked.options->profile
               ? zr_ownership_check_file(train->asked.options->profile, "profile", zr_trace_is_one,
                                         &train->run.place.reads, error)
               : ZERO_OK;
}

zero_status zr_train_profile_try(const zr_train *train, zero_error *error)
{
    zr_durable file;
    if (!train->asked.options->profile || train->comm->rank > 0)
        return ZERO_OK;
    // Checked again for files made since, including config.json of this run.
    ZERO_TRY(zr_train_profile_check(train, error));
    ZERO_TRY(zr_durable_open(train->asked.options->profile, &file, error));
    zr_durable_discard(&file);
    return ZERO_OK;
}

typedef struct machine_clock {
    int64_t shown; // nanoseconds
    char boot[ZR_BOOT_ID];
} machine_clock;

// Computes *ahead: the nanoseconds by which this rank's clock is ahead of rank 0's. Collective.
static zero_status compare_clocks(zero_comm *comm, int64_t *ahead, zero_error *error)
{
    machine_clock own = {0};
    zr_boot_id(own.boot);
    ZERO_TRY(zr_comm_barrier(comm, error));
    own.shown = zr_clock_nanoseconds();
    machine_clock first = own;
    ZERO_TRY(zr_comm_broadcast(comm, &first, sizeof first, 0, error));
    bool same = own.boot[0] && !strcmp(own.boot, first.boot);
    *ahead = same ? 0 : own.shown - first.shown;
    return ZERO_OK;
}

// Finds when the earliest of all ranks' records began, in nanoseconds on this rank's clock.
// Collective.
static zero_status find_origin(zero_comm *comm, const zr_recorder *recorder, int64_t *origin,
                               zero_error *error)
{
    int64_t ahead = 0, earliest = INT64_MAX;
    ZERO_TRY(compare_clocks(comm, &ahead, error));
    for (int64_t i = 0; i < recorder->count; i++)
        earliest = ZR_MIN(earliest, recorder->records[i].begin - ahead);
    ZERO_TRY(zr_comm_all_reduce_small(comm, &earliest, 1, ZERO_I64, ZR_MIN, error));
    *origin = earliest == INT64_MAX ? 0 : earliest + ahead;
    return ZERO_OK;
}

// Returns what this rank's records name: ranks of a pipeline have units and flat parameters of
// their own.
static zr_trace_names names_in_records(const zr_train *train)
{
    const zr_plan *plan = zr_engine_plan(train->run.engine);
    return (zr_trace_names){.units = zr_observation_units(train->run.observed),
                            .unit_count = plan->unit_count,
                            .slots = zr_observation_flat_params(train->run.observed),
                            .slot_count = plan->flat_param_count,
                            .stage = plan->pipeline ? plan->pipeline->stage : -1,
                            .chunks = plan->chunk_count};
}

// Is sent before the names and the records of a rank.
typedef struct parcel {
    int64_t count, origin;
    int64_t units, slots, text; // names: how many, and the bytes of all of them with their ends
    int64_t stage, chunks;      // as in zr_trace_names
} parcel;

static void pack_names(const char *const *names, int count, zr_buffer *out)
{
    for (int i = 0; i < count; i++)
        zr_buffer_append(out, names[i], strlen(names[i]) + 1);
}

static zero_status send_packed(zero_comm *comm, const parcel *parcel, const zr_buffer *text,
                               const zr_recorder *recorder, zero_error *error)
{
    ZERO_TRY(zr_comm_send(comm, parcel, sizeof *parcel, 0, error));
    ZERO_TRY(zr_comm_send(comm, text->data, parcel->text, 0, error));
    return zr_comm_send(comm, recorder->records, parcel->count * (int64_t)sizeof *recorder->records,
                        0, error);
}

static zero_status send_records(const zr_train *train, const zr_recorder *recorder, int64_t origin,
                                zero_error *error)
{
    zr_buffer text = {0};
    const zr_trace_names names = names_in_records(train);
    pack_names(names.units, names.unit_count, &text);
    pack_names(names.slots, names.slot_count, &text);
    const parcel parcel = {.count = recorder->count,
                           .origin = origin,
                           .units = names.unit_count,
                           .slots = names.slot_count,
                           .text = (int64_t)text.length,
                           .stage = names.stage,
                           .chunks = names.chunks};
    zero_status status = text.failed
                             ? zr_fail(error, ZERO_ERR_MEMORY, "no memory for names of a trace")
                             : send_packed(train->comm, &parcel, &text, recorder, error);
    zr_buffer_free(&text);
    return status;
}

// Makes a list of the names in `text`, which the caller frees.
static const char **unpack_names(const parcel *parcel, const char *text, zero_error *error)
{
    const char **names = zr_alloc((size_t)(parcel->units + parcel->slots) * sizeof *names, error);
    for (int64_t i = 0; i < parcel->units + parcel->slots && names; i++) {
        names[i] = text;
        text += strlen(text) + 1;
    }
    return names;
}

// Receives the records into `recorder`, and writes them. text: the names, (parcel->text).
static zero_status receive_records(zero_comm *comm, int rank, const parcel *parcel, char *text,
                                   zr_recorder *recorder, zr_buffer *out, zero_error *error)
{
    ZERO_TRY(zr_comm_recv(comm, text, parcel->text, rank, error));
    ZERO_TRY(zr_comm_recv(comm, recorder->records,
                          parcel->count * (int64_t)sizeof *recorder->records, rank, error));
    recorder->count = parcel->count;
    const char **list = unpack_names(parcel, text, error);
    if (!list)
        return ZERO_ERR_MEMORY;
    const zr_trace_names names = {.units = list,
                                  .unit_count = (int)parcel->units,
                                  .slots = list + parcel->units,
                                  .slot_count = (int)parcel->slots,
                                  .stage = (int)parcel->stage,
                                  .chunks = (int)parcel->chunks};
    zr_trace_rank(rank, recorder, parcel->origin, &names, out);
    zr_free(list);
    return ZERO_OK;
}

static zero_status receive_rank(zero_comm *comm, int rank, zr_buffer *out, zero_error *error)
{
    parcel parcel;
    zr_recorder *recorder = NULL;
    ZERO_TRY(zr_comm_recv(comm, &parcel, sizeof parcel, rank, error));
    char *text = zr_alloc((size_t)parcel.text, error);
    zero_status status =
        text ? zr_recorder_create(parcel.count, &recorder, error) : ZERO_ERR_MEMORY;
    if (status == ZERO_OK)
        status = receive_records(comm, rank, &parcel, text, recorder, out, error);
    zr_recorder_destroy(recorder);
    zr_free(text);
    return status;
}

// Writes rank 0's own records, then those of the other ranks as they arrive. Rank 0 calls it.
static zero_status collect_records(const zr_train *train, const zr_recorder *own, int64_t origin,
                                   zr_buffer *out, zero_error *error)
{
    const zr_trace_names names = names_in_records(train);
    zr_trace_begin(out);
    zr_trace_rank(0, own, origin, &names, out);
    for (int r = 1; r < train->comm->size; r++) {
        ZERO_TRY(receive_rank(train->comm, r, out, error));
        zr_comm_progress(train->comm, train->resolved.profiled.last);
    }
    zr_trace_end(out);
    return ZERO_OK;
}

static zero_status write_trace(const zr_train *train, const zr_buffer *text, zero_error *error)
{
    const char *path = train->asked.options->profile;
    if (text->failed)
        return zr_fail(error, ZERO_ERR_MEMORY, "no memory for the trace \"%s\"", path);
    ZERO_TRY(zr_file_write_durable(path, text->data, text->length, error));
    zr_log(&train->logger, ZERO_LOG_INFO,
           "profile  %s: steps %lld to %lld of %d ranks, for ui.perfetto.dev or chrome://tracing",
           path, (long long)train->resolved.profiled.first,
           (long long)train->resolved.profiled.last, train->comm->size);
    return ZERO_OK;
}

zero_status zr_train_profile_write(const zr_train *train, zero_error *error)
{
    const zr_recorder *recorder = zr_observation_kept(train->run.observed);
    zr_buffer text = {0};
    int64_t origin;
    ZERO_TRY(find_origin(train->comm, recorder, &origin, error));
    if (train->comm->rank > 0) {
        ZERO_TRY(send_records(train, recorder, origin, error));
        return zr_comm_agree(train->comm, ZERO_OK, error);
    }
    zero_status status = collect_records(train, recorder, origin, &text, error);
    if (status == ZERO_OK)
        status = zr_comm_agree(train->comm, write_trace(train, &text, error), error);
    zr_buffer_free(&text);
    return status;
}
