#include "predict/measure_kernels.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/file.h"
#include "predict/disk.h"
#include "predict/harness.h"
#include "predict/operations.h"
#include "predict/rate_tasks.h"

#include <stdio.h>
#include <string.h>

// Parts of the time for units, for vectors and for messages.
#define UNITS_PART 0.7
#define VECTORS_PART 0.15
#define MESSAGES_PART 0.15
enum { LEAST_SEQ = 32, RECORDS = 1 << 14 };
enum { MOST_UNITS = 16 }; // that differ; those after them are not timed
// Of caches, more than those of one rank's share.
#define MOST_ELSEWHERE ((int64_t)64 << 20)
enum { CHECKSUM_BYTES = 4 << 20, CHECKSUM_ROUNDS = 4, DISK_BYTES = 64 << 20 };
#define DISK_SECONDS 0.1
#define MOST_OVER 2.0 // times the share that one chunk of a head may take

// What a rank moves at the least. From this, and from what it computes (zr_rates_assumed_flops),
// follows how large a micro-batch is timed, so both have to be the same in every run.
#define ASSUMED_MEMORY 4e9 // bytes a second
#define FILLED 2e9         // most bytes that are filled with values for a second of measuring

typedef struct different { // a unit that is like none before it
    int unit;
    double seconds; // assumed, of a round of all samples
    double share;   // of the time
    zr_unit_task task;
} different;

typedef struct measuring {
    const zr_unit_rates_question *question;
    double seconds; // for all
    zr_members members;
    zr_rate_setting setting;
    const zr_rates *known; // of the setting; NULL: nothing is
    zr_rates *rates;       // to which is added
    zr_recorder *recorder; // of what is counted
    zr_plan_operations operations;
    different units[MOST_UNITS];
    int unit_count;
    zr_vector_task vectors;
    zr_message_task messages;
    zr_common_task tasks[MOST_UNITS + 2];
    int task_count;
} measuring;

zero_status zr_unit_rates_setting(const char *backend, zero_dtype dtype, int threads, int together,
                                  zr_rate_setting *out, zero_error *error)
{
    const zr_backend *found;
    *out = (zr_rate_setting){
        .dtype = dtype, .threads = ZR_MAX(threads, 1), .together = ZR_MAX(together, 1)};
    ZERO_TRY(zr_backend_find(backend, NULL, &found, error));
    snprintf(out->path, sizeof out->path, "%s", found->path());
    return ZERO_OK;
}

static zero_status setting_of_question(const zr_unit_rates_question *question, zr_rate_setting *out,
                                       zero_error *error)
{
    const zr_plan *plan = question->plan;
    return zr_unit_rates_setting(question->backend, plan->settings.precision.parameters,
                                 plan->shape.threads, question->together, out, error);
}

static double assumed_seconds(const measuring *m, const zr_unit_operations *of)
{
    double flops = zr_rates_assumed_flops(&m->setting), seconds = 0;
    for (int c = 0; c < ZR_OPERATION_CALLS; c++)
        for (int i = 0; i < of->calls[c].count && c != ZR_CALL_AGAIN; i++) {
            const zr_operation *o = &of->calls[c].at[i];
            double computed = (double)o->flops / flops, moved = (double)o->bytes / ASSUMED_MEMORY;
            seconds += o->calls * ZR_MAX(computed, moved);
        }
    return seconds;
}

static bool are_alike(const zr_unit_operations *a, const zr_unit_operations *b)
{
    for (int c = 0; c < ZR_OPERATION_CALLS; c++) {
        if (a->calls[c].count != b->calls[c].count)
            return false;
        for (int i = 0; i < a->calls[c].count; i++) {
            const zr_operation *x = &a->calls[c].at[i], *y = &b->calls[c].at[i];
            if (x->what != y->what || x->bytes != y->bytes || x->flops != y->flops ||
                x->calls != y->calls)
                return false;
        }
    }
    return true;
}

static bool is_like_earlier(const measuring *m, const zr_unit_operations *of)
{
    for (int i = 0; i < m->unit_count; i++)
        if (are_alike(&m->operations.units[m->units[i].unit], of))
            return true;
    return false;
}

static void find_different_units(measuring *m)
{
    for (int u = 0; u < m->operations.unit_count && m->unit_count < MOST_UNITS; u++) {
        const zr_unit_operations *of = &m->operations.units[u];
        if (!is_like_earlier(m, of))
            m->units[m->unit_count++] = (different){.unit = u, .seconds = assumed_seconds(m, of)};
    }
}

// Gives each unit an equal share of the time; what one does not need, the others divide.
static void divide_time(measuring *m, double seconds)
{
    for (int left = m->unit_count; left > 0; left--) {
        different *least = NULL;
        for (int i = 0; i < m->unit_count; i++)
            if (m->units[i].share == 0 && (!least || m->units[i].seconds < least->seconds))
                least = &m->units[i];
        least->share = seconds / left;
        seconds -= ZR_MIN(least->seconds, least->share);
    }
}

// Returns the rows of the chunks in which a head takes a micro-batch of one sample, or all rows.
static int64_t rows_at_once(const zr_plan *plan, int unit, int64_t batch, int64_t seq)
{
    zero_unit_sizes sizes;
    zero_shape shape = plan->shape;
    shape.batch = batch;
    shape.seq = seq;
    int64_t rows = batch * seq;
    bool told = zr_harness_sizes(plan, unit, &shape, &sizes) == ZERO_OK && sizes.product_count > 0;
    return told ? ZR_MIN(sizes.products[0].m, rows) : rows;
}

// Returns a part of a sample that is about as long as wanted: one chunk, since all make products of
// one size, or a power of two.
static int64_t part_of_sample(const zr_plan *plan, int unit, double wanted)
{
    int64_t chunk = rows_at_once(plan, unit, plan->shape.batch, plan->shape.seq), seq = LEAST_SEQ;
    while (chunk > LEAST_SEQ && rows_at_once(plan, unit, 1, chunk) != chunk)
        chunk--; // chunks are even, so that of fewer rows may be smaller
    if (chunk < plan->shape.seq && (double)chunk <= MOST_OVER * wanted)
        return chunk;
    while (2 * (double)seq <= wanted)
        seq *= 2;
    return ZR_MIN(seq, plan->shape.seq);
}

// Returns the micro-batch that fits into a unit's share: fewer samples, then a shorter one.
static zero_shape fit_micro_batch_to_share(const zr_plan *plan, const different *of)
{
    zero_shape shape = plan->shape;
    double samples = (double)shape.batch * of->share / of->seconds;
    if (of->seconds <= of->share)
        return shape;
    shape.batch = samples > 1 ? (int64_t)samples : 1;
    if (samples < 1)
        shape.seq = part_of_sample(plan, of->unit, (double)shape.seq * samples);
    return shape;
}

// Returns what a micro-batch touches, as far as a cache might hold it.
static int64_t bytes_touched_elsewhere(const zr_plan *plan)
{
    static const zero_memory_category touched[] = {ZERO_MEM_parameters, ZERO_MEM_gradients,
                                                   ZERO_MEM_activations};
    int64_t bytes = 0;
    for (int i = 0; i < ZR_COUNT(touched); i++)
        bytes += plan->bytes[ZERO_TIER_device][touched[i]];
    return ZR_MIN(bytes, MOST_ELSEWHERE);
}

// A last unit that does both in one call makes its forward alone in an evaluation.
static void describe_task(const measuring *m, different *of)
{
    const zr_plan *plan = m->question->plan;
    const zr_operation_list *calls = m->operations.units[of->unit].calls;
    zr_unit_task task = {.plan = plan,
                         .unit = of->unit,
                         .shape = fit_micro_batch_to_share(plan, of),
                         .elsewhere = bytes_touched_elsewhere(plan)};
    for (int c = 0; c < ZR_OPERATION_CALLS; c++)
        if (calls[c].count > 0 && c != ZR_CALL_AGAIN)
            task.training |= 1u << c;
    if (calls[ZR_CALL_BOTH].count > 0 || plan->settings.inference) {
        task.training &= ~(1u << ZR_CALL_FORWARD);
        task.evaluation = 1u << ZR_CALL_FORWARD;
    }
    of->task = task;
}

static bool is_known(const zr_rates *rates, zr_activity what, int64_t bytes, int64_t flops)
{
    double unknown = 0;
    zr_rates_seconds(rates, what, bytes, flops, &unknown);
    return unknown == 0;
}

// Finds whether the book has all operations of a task.
static zero_status find_if_task_known(measuring *m, const zr_common_task *task, bool *known,
                                      zero_error *error)
{
    zr_recorder_clear(m->recorder);
    ZERO_TRY(zr_concurrent_count(&m->members, task, m->recorder, error));
    *known = true;
    for (int64_t i = 0; i < m->recorder->count; i++) {
        const zr_record *r = &m->recorder->records[i];
        *known = *known && is_known(m->known, r->what, r->bytes, r->flops);
    }
    return ZERO_OK;
}

// Returns the most bytes that each member may take.
static int64_t most_bytes(const measuring *m)
{
    char reason[128];
    double available = (double)zr_memory_available(reason, sizeof reason);
    return (int64_t)(ZR_MIN(available / 2, FILLED * m->seconds) / m->members.count);
}

// Says whether there is memory for a unit, if need be without what is touched elsewhere, and notes
// that it is needed.
static bool fits_unit_in_memory(measuring *m, different *of)
{
    const zr_plan *plan = of->task.plan;
    int64_t most = most_bytes(m), bytes = zr_unit_task_bytes(&of->task),
            less = ZR_MIN(ZR_MAX(bytes - most, 0), of->task.elsewhere);
    of->task.elsewhere -= less;
    bytes -= less;
    if (bytes <= most) {
        m->members.bytes = ZR_MAX(m->members.bytes, (size_t)bytes);
        return true;
    }
    zr_log(
        m->question->logger, ZERO_LOG_WARNING,
        "unit \"%s\" is not timed, because it takes %lld bytes for each of %d ranks to do so, and "
        "%lld are the most for each: half of what is free, and what is filled in the time",
        plan->model->units[of->unit].name, (long long)bytes, m->members.count, (long long)most);
    return false;
}

static zero_status add_units(measuring *m, double seconds, zero_error *error)
{
    find_different_units(m);
    divide_time(m, seconds);
    for (int i = 0; i < m->unit_count; i++) {
        different *of = &m->units[i];
        bool known;
        describe_task(m, of);
        const zr_common_task task = {
            .work = &zr_unit_work, .task = &of->task, .seconds = of->share};
        ZERO_TRY(find_if_task_known(m, &task, &known, error));
        if (!known && fits_unit_in_memory(m, of))
            m->tasks[m->task_count++] = task;
    }
    return ZERO_OK;
}

// Keeps the items that are not known yet.
static zero_status add_vectors(measuring *m, double seconds, zero_error *error)
{
    zr_vector_task all, one;
    zr_vector_task_list(m->question->plan, m->question->update, &all);
    one = m->vectors = all;
    one.count = 1;
    m->vectors.count = 0;
    for (int i = 0; i < all.count; i++) {
        const zr_common_task task = {.work = &zr_vector_work, .task = &one};
        bool known;
        one.items[0] = all.items[i];
        ZERO_TRY(find_if_task_known(m, &task, &known, error));
        if (!known)
            m->vectors.items[m->vectors.count++] = all.items[i];
    }
    if (m->vectors.count == 0)
        return ZERO_OK;
    zr_vector_task_shorten(&m->vectors, most_bytes(m));
    m->tasks[m->task_count++] =
        (zr_common_task){.work = &zr_vector_work, .task = &m->vectors, .seconds = seconds};
    m->members.bytes = ZR_MAX(m->members.bytes, zr_vector_task_bytes(&m->vectors));
    return ZERO_OK;
}

static void add_messages(measuring *m, double seconds)
{
    zr_message_task all;
    zr_message_task_list(m->question->plan, m->members.count, &all);
    m->messages = all;
    m->messages.count = 0;
    for (int i = 0; i < all.count; i++) {
        const zr_message_item *item = &all.items[i];
        if (!is_known(m->known, item->what, zr_message_item_bytes(&all, item), 0))
            m->messages.items[m->messages.count++] = *item;
    }
    if (m->messages.count > 0)
        m->tasks[m->task_count++] = (zr_common_task){
            .work = &zr_message_work, .task = &m->messages, .seconds = seconds, .messages = true};
}

static bool uses_nvme(const zr_plan *plan) { return zr_plan_tier_bytes(plan, ZERO_TIER_nvme) > 0; }

static zero_status measure_checksum(zr_rate_book *book, zero_error *error)
{
    char *bytes = zr_alloc(CHECKSUM_BYTES, error);
    volatile uint32_t sum = 0; // it is used, so that it is computed
    double seconds = 0;
    if (!bytes)
        return ZERO_ERR_MEMORY;
    for (int i = 0; i < CHECKSUM_ROUNDS; i++) { // the first one is not counted
        double begin = zr_clock_seconds();
        sum = zr_crc32c(sum, bytes, CHECKSUM_BYTES);
        seconds += i ? zr_clock_seconds() - begin : 0;
    }
    zr_free(bytes);
    book->checksum = CHECKSUM_BYTES * (CHECKSUM_ROUNDS - 1) / seconds;
    return ZERO_OK;
}

static zero_status measure_disk_rates(const zr_unit_rates_question *question, zr_rate_book *book,
                                      zero_error *error)
{
    zr_storage_rates row;
    zr_disk disk;
    const zr_disk_options options = {.directory = question->directory,
                                     .bytes = DISK_BYTES,
                                     .block = 1 << 20,
                                     .depth = 8,
                                     .seconds = DISK_SECONDS,
                                     .rounds = 3};
    ZERO_TRY(zr_disk_measure(&options, &disk, error));
    ZERO_TRY(zr_storage_name(question->directory, &row, error));
    row.read = book->read = disk.read.median;
    row.write = book->write = disk.write.median;
    row.mix = book->mix = disk.mix.median;
    row.direct = disk.direct;
    row.block = options.block;
    row.depth = options.depth;
    return zr_rate_book_set_storage(book, &row, error);
}

static zero_status measure_storage(const zr_unit_rates_question *question,
                                   const zr_rate_book *known, zr_rate_book *found,
                                   zero_error *error)
{
    if (!uses_nvme(question->plan))
        return ZERO_OK;
    if (known->checksum <= 0)
        ZERO_TRY(measure_checksum(found, error));
    if (question->directory && !zr_rate_book_storage(known, question->directory))
        ZERO_TRY(measure_disk_rates(question, found, error));
    return ZERO_OK;
}

// Returns what is known of exactly this setting.
static const zr_rates *known_rates_of(const zr_rate_book *book, const zr_rate_setting *setting)
{
    bool exact;
    const zr_rates *rates = zr_rate_book_find(book, setting, &exact);
    return exact ? rates : NULL;
}

static zero_status measure_kernel_rates(measuring *m, zero_error *error)
{
    double seconds = m->seconds;
    ZERO_TRY(zr_recorder_create(RECORDS, &m->recorder, error));
    ZERO_TRY(
        zr_plan_operations_find(m->question->plan, m->question->backend, &m->operations, error));
    ZERO_TRY(add_units(m, seconds * UNITS_PART, error));
    ZERO_TRY(add_vectors(m, seconds * VECTORS_PART, error));
    add_messages(m, seconds * MESSAGES_PART);
    if (m->task_count == 0)
        return ZERO_OK;
    return zr_concurrent_run(&m->members, m->tasks, m->task_count, m->rates, error);
}

zero_status zr_unit_rates_measure(const zr_unit_rates_question *question, const zr_rate_book *known,
                                  zr_rate_book *found, zero_error *error)
{
    static const zr_rate_book nothing;
    measuring *m = zr_alloc(sizeof *m, error);
    if (!m)
        return ZERO_ERR_MEMORY;
    m->question = question;
    m->seconds = question->seconds > 0 ? question->seconds : 1;
    zero_status status = setting_of_question(question, &m->setting, error);
    m->members = (zr_members){
        .backend = question->backend, .count = m->setting.together, .threads = m->setting.threads};
    if (status == ZERO_OK) {
        m->known = known_rates_of(known ? known : &nothing, &m->setting);
        m->rates = zr_rate_book_take(found, &m->setting, error);
        status = m->rates ? measure_kernel_rates(m, error) : ZERO_ERR_MEMORY;
    }
    zr_plan_operations_free(&m->operations);
    zr_recorder_destroy(m->recorder);
    zr_free(m);
    return status == ZERO_OK ? measure_storage(question, known ? known : &nothing, found, error)
                             : status;
}
