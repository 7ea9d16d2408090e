// The book as JSON:
//
//   {"format": 1,
//    "processor": NAME,
//    "settings": [{"path": "avx512_bf16", "dtype": "bf16", "threads": 1, "together": 2,
//                  "machines": N, "measured": SECONDS,
//                  "samples": {"product": [
//                    {"bytes": N, "flops": N, "seconds": S, "seen": N, "quiet": X},
//                    ...], ...}}, ...],
//    "corrections": {"compute": {"factor": X, "spread": X, "runs": N}, ..., "step": {...}},
//    "disk": {"read": B/s, "write": B/s, "mix": B/s},                    (measured last)
//    "storage": [{"host": NAME, "disk": "MAJOR:MINOR MOUNT", "measured": SECONDS,
//                 "read": B/s, "write": B/s, "mix": B/s,
//                 "direct": BOOL, "block": BYTES, "depth": N}, ...,
//                {"host": NAME, "measured": SECONDS, "copy": B/s, "update": B/s}, ...],
//    "checksum": B/s,
//    "tasks": {...}}                                    (task_rates.h)
//
// Members that are not there are unknown; "quiet" is there where it is below 1. Activities of other
// versions are passed over.
#include "base/dtype.h"
#include "predict/rates.h"

#include <limits.h>
#include <math.h>
#include <string.h>

enum { FORMAT = 1 };

static const zero_dtype dtypes[] = {ZERO_F32, ZERO_BF16, ZERO_F16};

typedef struct reading {
    const char *name;
    zero_error *error;
} reading;

static zero_status refuse_damaged_book(const reading *r, const char *what)
{
    return zr_fail(r->error, ZERO_ERR_DATA, "\"%s\" is damaged: %s", r->name, what);
}

// Returns the number of that name, or 0 if there is none.
static double number_or_zero(const json_t *object, const char *name)
{
    return json_number_value(json_object_get(object, name));
}

static int64_t integer_or_zero(const json_t *object, const char *name)
{
    return json_integer_value(json_object_get(object, name));
}

static bool read_count(const json_t *object, const char *name, int *out)
{
    int64_t value = integer_or_zero(object, name);
    *out = (int)value;
    return value > 0 && value <= INT_MAX;
}

static bool read_setting(const json_t *entry, zr_rate_setting *out)
{
    const char *path = json_string_value(json_object_get(entry, "path")),
               *dtype = json_string_value(json_object_get(entry, "dtype"));
    *out = (zr_rate_setting){0};
    if (!path || strlen(path) >= sizeof out->path || !dtype)
        return false;
    strcpy(out->path, path);
    int which = 0;
    while (which < ZR_COUNT(dtypes) && strcmp(dtype, zr_dtype_name(dtypes[which])))
        which++;
    if (which == ZR_COUNT(dtypes))
        return false;
    out->dtype = dtypes[which];
    int64_t machines = integer_or_zero(entry, "machines");
    out->machines = (int)machines;
    return machines >= 0 && machines <= INT_MAX && read_count(entry, "threads", &out->threads) &&
           read_count(entry, "together", &out->together);
}

static bool read_sample(const json_t *entry, zr_rate_sample *out)
{
    *out = (zr_rate_sample){
        .bytes = integer_or_zero(entry, "bytes"),
        .flops = integer_or_zero(entry, "flops"),
        .seconds = number_or_zero(entry, "seconds"),
        .seen = integer_or_zero(entry, "seen"),
        .quiet = zr_json_quiet(entry),
    };
    return out->bytes >= 0 && out->flops >= 0 && out->seen > 0 && isfinite(out->seconds) &&
           out->seconds > 0;
}

static bool read_samples(const json_t *list, zr_activity what, zr_rates *out)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        zr_rate_sample s;
        if (!read_sample(json_array_get(list, i), &s))
            return false;
        zr_rates_add_sample(out, what, &s);
    }
    return true;
}

static zero_status read_rates(const reading *r, const json_t *entry, zr_rate_book *out)
{
    zr_rate_setting setting;
    if (!read_setting(entry, &setting))
        return refuse_damaged_book(r, "one of its settings is none");
    zr_rates *rates = zr_rate_book_take(out, &setting, r->error);
    if (!rates)
        return ZERO_ERR_MEMORY;
    rates->measured = integer_or_zero(entry, "measured");
    const json_t *samples = json_object_get(entry, "samples");
    for (int what = 0; what < ZR_ACTIVITY_COUNT; what++) {
        const char *name = zr_activity_name((zr_activity)what);
        if (!read_samples(json_object_get(samples, name), (zr_activity)what, rates))
            return refuse_damaged_book(r, "one of its samples is none");
    }
    return ZERO_OK;
}

static bool read_correction(const json_t *entry, zr_correction *out)
{
    if (!entry)
        return true;
    *out = (zr_correction){
        .factor = number_or_zero(entry, "factor"),
        .spread = number_or_zero(entry, "spread"),
        .runs = integer_or_zero(entry, "runs"),
    };
    return isfinite(out->factor) && out->factor > 0 && isfinite(out->spread) && out->spread >= 0 &&
           out->runs > 0;
}

static const char *name_of_correction(int part)
{
    return part < ZR_TIME_PARTS ? zr_time_part_names[part] : "step";
}

static bool read_corrections(const json_t *entries, zr_rate_book *out)
{
    bool fine = true;
    for (int part = 0; part <= ZR_TIME_PARTS; part++)
        fine =
            fine && read_correction(json_object_get(entries, name_of_correction(part)),
                                    part < ZR_TIME_PARTS ? &out->corrections[part] : &out->whole);
    return fine;
}

// Takes a rate if it is one; else it stays unknown.
static double rate_or_zero(const json_t *object, const char *name)
{
    double value = number_or_zero(object, name);
    return isfinite(value) && value > 0 ? value : 0;
}

static zero_status read_storage(const reading *r, const json_t *list, zr_rate_book *out)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        zr_storage_rates row;
        if (!zr_storage_read(json_array_get(list, i), &row))
            return refuse_damaged_book(r, "one of its disks or memories is none");
        ZERO_TRY(zr_rate_book_set_storage(out, &row, r->error));
    }
    return ZERO_OK;
}

static zero_status read_book(const reading *r, const json_t *root, const char *processor,
                             zr_rate_book *out)
{
    const char *whose = json_string_value(json_object_get(root, "processor"));
    const json_t *settings = json_object_get(root, "settings"),
                 *disk = json_object_get(root, "disk");
    if (integer_or_zero(root, "format") != FORMAT)
        return zr_fail(r->error, ZERO_ERR_DATA, "\"%s\" is not of the format %d", r->name, FORMAT);
    if (!whose || strcmp(whose, processor))
        return zr_fail(r->error, ZERO_ERR_DATA, "\"%s\" is of another processor (\"%s\")", r->name,
                       whose ? whose : "");
    for (size_t i = 0; i < json_array_size(settings); i++)
        ZERO_TRY(read_rates(r, json_array_get(settings, i), out));
    if (!read_corrections(json_object_get(root, "corrections"), out))
        return refuse_damaged_book(r, "one of its corrections is none");
    ZERO_TRY(read_storage(r, json_object_get(root, "storage"), out));
    out->read = rate_or_zero(disk, "read");
    out->write = rate_or_zero(disk, "write");
    out->mix = rate_or_zero(disk, "mix");
    out->checksum = rate_or_zero(root, "checksum");
    if (!zr_task_rates_read(json_object_get(root, "tasks"), &out->tasks))
        return refuse_damaged_book(r, "one of its tasks is none");
    return ZERO_OK;
}

zero_status zr_rate_book_parse(const char *text, size_t length, const char *name,
                               const char *processor, zr_rate_book *out, zero_error *error)
{
    json_t *root;
    *out = (zr_rate_book){0};
    ZERO_TRY(zr_json_parse(text, length, name, &root, error));
    zero_status status = read_book(&(reading){name, error}, root, processor, out);
    json_decref(root);
    if (status != ZERO_OK)
        zr_rate_book_free(out);
    return status;
}

static void write_samples(const zr_rates *rates, int what, zr_json_writer *w)
{
    zr_json_line(w, 8);
    zr_json_begin_array(w, zr_activity_name((zr_activity)what));
    for (int i = 0; i < rates->count[what]; i++) {
        const zr_rate_sample *s = &rates->at[what][i];
        zr_json_line(w, 10);
        zr_json_begin_object(w, NULL);
        zr_json_integer(w, "bytes", s->bytes);
        zr_json_integer(w, "flops", s->flops);
        zr_json_real(w, "seconds", s->seconds);
        zr_json_integer(w, "seen", s->seen);
        zr_json_put_quiet(s->quiet, w);
        zr_json_end(w);
    }
    zr_json_end(w);
}

static void write_rates(const zr_rates *rates, zr_json_writer *w)
{
    const zr_rate_setting *s = &rates->setting;
    zr_json_line(w, 4);
    zr_json_begin_object(w, NULL);
    zr_json_text(w, "path", s->path);
    zr_json_text(w, "dtype", zr_dtype_name(s->dtype));
    zr_json_integer(w, "threads", s->threads);
    zr_json_integer(w, "together", s->together);
    if (s->machines)
        zr_json_integer(w, "machines", s->machines);
    zr_json_integer(w, "measured", rates->measured);
    zr_json_line(w, 6);
    zr_json_begin_object(w, "samples");
    for (int what = 0; what < ZR_ACTIVITY_COUNT; what++)
        if (rates->count[what])
            write_samples(rates, what, w);
    zr_json_end(w);
    zr_json_end(w);
}

static void write_corrections(const zr_rate_book *book, zr_json_writer *w)
{
    zr_json_begin_object(w, "corrections");
    for (int part = 0; part <= ZR_TIME_PARTS; part++) {
        const zr_correction *correction =
            part < ZR_TIME_PARTS ? &book->corrections[part] : &book->whole;
        if (!correction->runs)
            continue;
        zr_json_line(w, 4);
        zr_json_begin_object(w, name_of_correction(part));
        zr_json_real(w, "factor", correction->factor);
        zr_json_real(w, "spread", correction->spread);
        zr_json_integer(w, "runs", correction->runs);
        zr_json_end(w);
    }
    zr_json_end(w);
}

static void write_disks(const zr_rate_book *book, zr_json_writer *w)
{
    zr_json_begin_object(w, "disk");
    zr_json_real(w, "read", book->read);
    zr_json_real(w, "write", book->write);
    zr_json_real(w, "mix", book->mix);
    zr_json_end(w);
    zr_json_begin_array(w, "storage");
    for (int i = 0; i < book->storage_count; i++) {
        zr_json_line(w, 4);
        zr_storage_json(&book->storage[i], w);
    }
    zr_json_end(w);
}

void zr_rate_book_json(const zr_rate_book *book, const char *processor, zr_buffer *out)
{
    zr_json_writer w = zr_json_writer_on(out, ZR_JSON_INDENTED);
    zr_json_begin_object(&w, NULL);
    zr_json_integer(&w, "format", FORMAT);
    zr_json_text(&w, "processor", processor);
    zr_json_begin_array(&w, "settings");
    for (int i = 0; i < book->count; i++)
        write_rates(&book->settings[i], &w);
    zr_json_end(&w);
    write_corrections(book, &w);
    write_disks(book, &w);
    zr_json_real(&w, "checksum", book->checksum);
    zr_task_rates_json(&book->tasks, "tasks", &w);
    zr_json_finish(&w);
}
