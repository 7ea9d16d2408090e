// `zero bench memory`: bytes per second that a copy, a triad, an update in place and sums over
// neighbours read and write, by number of threads.
#include "base/numbers.h"
#include "commands/bench_shared.h"
#include "commands/bench_sums.h"
#include "memory/arena.h"
#include "predict/meter.h"
#include "predict/rates.h"

enum { ROUNDS = 5, UPDATED = 16 << 20 }; // UPDATED is in elements

typedef struct memory_bench {
    zr_range_states states; // (UPDATED)
    int threads;            // for the row that is being measured
} memory_bench;

static zero_status triad(void *user, zero_error *error)
{
    const memory_bench *m = user;
    zr_memory_triad(m->states.master, m->states.state0, m->states.state1, UPDATED, m->threads);
    return ZERO_OK;
}

static zero_status update_in_place(void *user, zero_error *error)
{
    const memory_bench *m = user;
    zr_memory_update(&m->states, UPDATED, m->threads);
    return ZERO_OK;
}

// Rates in bytes per second.
typedef struct memory_row {
    int threads;
    double copy, triad, update;
} memory_row;

static zero_status measure_row(const zr_bench *bench, memory_bench *m, memory_row *row,
                               zero_error *error)
{
    double copies[ROUNDS], triads[ROUNDS], updates[ROUNDS], seconds;
    zr_meter meter = bench->meter;
    m->threads = meter.threads = row->threads;
    for (int i = 0; i < ROUNDS; i++) {
        ZERO_TRY(zr_memory_rate_of_copy(&meter, &copies[i], error));
        ZERO_TRY(zr_meter_time(&meter, triad, m, &seconds, error));
        triads[i] = 3.0 * sizeof(float) * UPDATED / seconds;
        ZERO_TRY(zr_meter_time(&meter, update_in_place, m, &seconds, error));
        updates[i] = ZR_MEMORY_UPDATE_BYTES(ZERO_F32) * UPDATED / seconds;
    }
    *row = (memory_row){row->threads, zr_median(copies, ROUNDS), zr_median(triads, ROUNDS),
                        zr_median(updates, ROUNDS)};
    return ZERO_OK;
}

static void write_row(zr_json_writer *w, const memory_row *row)
{
    zr_json_begin_object(w, NULL);
    zr_json_integer(w, "threads", row->threads);
    zr_json_fixed(w, "copy", 0, row->copy);
    zr_json_fixed(w, "triad", 0, row->triad);
    zr_json_fixed(w, "update", 0, row->update);
    zr_json_end(w);
}

static void keep_memory_rates(const zr_bench *bench, const memory_row *row)
{
    char *file;
    const zr_storage_rates measured = {.copy = row->copy, .update = row->update};
    zr_storage_keep(NULL, &measured, bench->logger, &file);
    if (file && !bench->json)
        zr_bench_say(bench, "kept for plans of this machine in %s\n", file);
    zr_free(file);
}

static int next_threads(const zr_bench *bench, int threads) // 1, 2, 4, ... and all
{
    return threads ? ZR_MIN(2 * threads, bench->meter.threads) : 1;
}

// Rows are said at once, except as JSON.
static zero_status measure_rows(const zr_bench *bench, memory_bench *m, zr_json_writer *w,
                                zero_error *error)
{
    memory_row row = {0};
    if (!bench->json)
        zr_bench_say(bench,
                     "what is read and written together, the median of %d:\nthreads      "
                     "copy     triad  update in place\n",
                     ROUNDS);
    while (row.threads < bench->meter.threads) {
        row.threads = next_threads(bench, row.threads);
        ZERO_TRY(measure_row(bench, m, &row, error));
        write_row(w, &row);
        if (!bench->json)
            zr_bench_say(bench, "%7d  %8.2f  %8.2f  %8.2f GB/s\n", row.threads, row.copy * 1e-9,
                         row.triad * 1e-9, row.update * 1e-9);
    }
    keep_memory_rates(bench, &row);
    return ZERO_OK;
}

static void report_sums(const zr_bench *bench, const zr_sums_rates *row, zr_json_writer *w)
{
    zr_json_begin_object(w, NULL);
    zr_json_integer(w, "threads", row->threads);
    zr_json_integer(w, "width", row->width);
    zr_json_fixed(w, "read", 0, row->read);
    zr_json_fixed(w, "sums", 0, row->sums);
    zr_json_end(w);
    if (!bench->json)
        zr_bench_say(bench, "%7d  %8d  %8.2f  %8.2f GB/s, %.2f of it\n", row->threads, row->width,
                     row->read * 1e-9, row->sums * 1e-9, row->sums / row->read);
}

static zero_status measure_sums(const zr_bench *bench, const float *x, zr_json_writer *w,
                                zero_error *error)
{
    zr_meter meter = bench->meter;
    if (!bench->json)
        zr_bench_say(bench, "sums over 16 neighbours in no order, next to reading these alone:\n"
                            "threads     width      read      sums\n");
    for (meter.threads = 0; meter.threads < bench->meter.threads;) {
        zr_sums_rates rows[ZR_SUM_WIDTHS];
        meter.threads = next_threads(bench, meter.threads);
        ZERO_TRY(zr_sums_measure(&meter, x, UPDATED, rows, error));
        for (int i = 0; i < ZR_SUM_WIDTHS; i++)
            report_sums(bench, &rows[i], w);
    }
    return ZERO_OK;
}

static zero_status measure_and_report(const zr_bench *bench, memory_bench *m, zero_error *error)
{
    zr_buffer text = {0};
    zr_json_writer w = zr_json_writer_on(&text, ZR_JSON_SPACED);
    zr_json_begin_object(&w, NULL);
    zr_json_begin_array(&w, "rows");
    zero_status status = measure_rows(bench, m, &w, error);
    zr_json_end(&w);
    zr_json_begin_array(&w, "sums");
    if (status == ZERO_OK)
        status = measure_sums(bench, m->states.master, &w, error);
    if (status == ZERO_OK && bench->json)
        return zr_bench_say_json(bench, &w, error);
    zr_buffer_free(&text);
    return status;
}

zero_status zr_bench_memory(const zr_bench *bench, const zero_bench_options *options,
                            zero_error *error)
{
    zr_ledger ledger = {0};
    zr_arena arena = {0};
    memory_bench m = {0};
    size_t wide = UPDATED * sizeof(float), narrow = UPDATED * sizeof(uint16_t);
    ZERO_TRY(zr_arena_on_host(&ledger, ZERO_TIER_host, ZERO_MEM_workspace, 3 * wide + 2 * narrow,
                              &arena, error));
    m.states = (zr_range_states){.master = zr_arena_take(&arena, wide),
                                 .state0 = zr_arena_take(&arena, wide),
                                 .state1 = zr_arena_take(&arena, wide),
                                 .gradient = zr_arena_take(&arena, narrow),
                                 .parameters = zr_arena_take(&arena, narrow)};
    zero_status status = measure_and_report(bench, &m, error);
    zr_arena_destroy(&arena);
    return status;
}
