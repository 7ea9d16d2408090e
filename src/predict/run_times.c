#include "predict/run_times.h"

#include "base/clock.h"
#include "base/dtype.h"
#include "base/file.h"
#include "base/json.h"
#include "base/numbers.h"
#include "base/text.h"
#include "predict/measured_steps.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 16 << 20, DIGITS = 9 };
static const double SHOWN = 1e-6; // seconds of a part of the run; less is not worth a word

void zr_run_clock_start(zr_run_clock *clock)
{
    *clock = (zr_run_clock){.began = zr_clock_seconds(), .now = ZR_TIME_REST};
    clock->since = clock->began;
}

zr_time_part zr_run_clock_turn(zr_run_clock *clock, zr_time_part to)
{
    double now = zr_clock_seconds();
    zr_time_part before = clock->now;
    clock->seconds[before] += now - clock->since;
    clock->since = now;
    clock->now = to;
    return before;
}

void zr_run_clock_move(zr_run_clock *clock, zr_time_part from, zr_time_part to, double seconds)
{
    clock->seconds[from] -= seconds;
    clock->seconds[to] += seconds;
}

void zr_run_clock_end_steps(zr_run_clock *clock, int64_t steps)
{
    zr_run_clock_turn(clock, ZR_TIME_REST);
    double made = clock->seconds[ZR_TIME_COMPUTE] - clock->counted;
    clock->counted += made;
    clock->steps += steps;
    if (!zr_measured_is_cold(++clock->calls, steps)) {
        int64_t warm_calls = clock->calls - clock->cold_calls;
        clock->recent[(warm_calls - 1) % ZR_RECENT_CALLS] = made / (double)steps;
        return;
    }
    clock->cold_calls = clock->calls;
    clock->cold_steps = clock->steps;
    clock->cold_seconds = clock->counted;
}

int64_t zr_run_clock_warm_steps(const zr_run_clock *clock)
{
    return clock->steps - clock->cold_steps;
}

double zr_run_clock_step(const zr_run_clock *clock)
{
    int64_t warm = zr_run_clock_warm_steps(clock);
    double seconds = clock->seconds[ZR_TIME_COMPUTE];
    if (warm > 0)
        return (seconds - clock->cold_seconds) / (double)warm;
    return clock->steps ? seconds / (double)clock->steps : 0;
}

double zr_run_clock_median(const zr_run_clock *clock, double *spread)
{
    double sorted[ZR_RECENT_CALLS];
    int count = (int)ZR_MIN(clock->calls - clock->cold_calls, ZR_RECENT_CALLS);
    *spread = 0;
    if (count == 0)
        return zr_run_clock_step(clock);
    memcpy(sorted, clock->recent, (size_t)count * sizeof *sorted);
    double median = zr_median(sorted, count);
    *spread = (zr_quantile(sorted, count, 0.75) - zr_quantile(sorted, count, 0.25)) / median;
    return median;
}

void zr_run_times_take(zr_run_times *times, const zr_run_clock *clock)
{
    times->steps = clock->steps;
    times->seconds = clock->since - clock->began;
    times->step = zr_run_clock_step(clock);
    times->median = zr_run_clock_median(clock, &times->spread);
    times->start = clock->seconds[ZR_TIME_COMPUTE] - (double)clock->steps * times->step;
    times->rest = clock->seconds[ZR_TIME_REST];
    for (int part = ZR_TIME_DATA; part < ZR_TIME_PARTS; part++)
        times->measured[part] = clock->seconds[part];
}

void zr_run_times_divide(zr_run_times *times, const double recorded[ZR_TIME_PARTS])
{
    double all = 0;
    for (int part = 0; part <= ZR_TIME_DISK; part++)
        all += recorded[part];
    for (int part = 0; part <= ZR_TIME_DISK && all > 0; part++)
        times->measured[part] = times->step * recorded[part] / all;
}

static double flops_per_second(const zr_run_times *times)
{
    return times->step > 0 ? times->flops / times->step : 0;
}

double zr_run_times_share(const zr_run_times *times)
{
    return times->product_rate > 0 ? flops_per_second(times) / times->product_rate : 0;
}

// ---- in words -----------------------------------------------------------------------------------

static void append_seconds(const char *before, double seconds, zr_buffer *out)
{
    char text[ZR_SECONDS_TEXT];
    zr_seconds_text(seconds, text);
    zr_buffer_printf(out, "%s%s", before, text);
}

static void append_predicted(double seconds, zr_buffer *out)
{
    if (seconds <= 0)
        return;
    append_seconds(" (predicted ", seconds, out);
    zr_buffer_printf(out, ")");
}

static void append_total_and_parts(const zr_run_times *times, zr_buffer *out)
{
    append_seconds("took     ", times->seconds, out);
    zr_buffer_printf(out, ": %lld step%s", (long long)times->steps, times->steps == 1 ? "" : "s");
    append_seconds(" ", (double)times->steps * times->step + times->start, out);
    for (int part = ZR_TIME_DATA; part < ZR_TIME_PARTS; part++) {
        if (times->measured[part] < SHOWN)
            continue;
        zr_buffer_printf(out, ", %s", zr_time_part_names[part]);
        append_seconds(" ", times->measured[part], out);
        append_predicted(times->predicted[part], out);
    }
    append_seconds(", the rest ", times->rest, out);
    append_seconds("; before the first step ", times->to_first, out);
    append_predicted(times->predicted_to_first, out);
    zr_buffer_printf(out, "\n");
}

// Appends the parts that take a hundredth of a step or more, as measured or as predicted.
static void append_parts(const zr_run_times *times, zr_buffer *out)
{
    const char *separator = "; ";
    for (int part = 0; part <= ZR_TIME_DISK; part++) {
        if (times->measured[part] < 0.01 * times->step &&
            times->predicted[part] < 0.01 * times->step)
            continue;
        zr_buffer_printf(out, "%s%s", separator, zr_time_part_names[part]);
        append_seconds(" ", times->measured[part], out);
        if (times->predicted_step > 0)
            append_seconds(" (", times->predicted[part], out);
        zr_buffer_printf(out, times->predicted_step > 0 ? ")" : "");
        separator = ", ";
    }
}

static void append_step_time(const zr_run_times *times, zr_buffer *out)
{
    append_seconds("         a step ", times->step, out);
    if (times->predicted_step > 0) {
        append_seconds(", predicted ", times->predicted_step, out);
        append_seconds(" (", times->low, out);
        append_seconds(" to ", times->high, out);
        zr_buffer_printf(out, ")");
    }
    append_parts(times, out);
    zr_buffer_printf(out, "\n");
}

static void append_spent(const zr_run_times *times, zr_buffer *out)
{
    zr_buffer_printf(out, "spent    %.4g GFLOP a step, %.4g GFLOP/s", times->flops * 1e-9,
                     flops_per_second(times) * 1e-9);
    if (times->product_rate > 0)
        zr_buffer_printf(out,
                         ": %.1f%% of the %.4g GFLOP/s that the best products of %d rank%s "
                         "reach here",
                         100 * zr_run_times_share(times), times->product_rate * 1e-9, times->ranks,
                         times->ranks == 1 ? "" : "s");
    zr_buffer_printf(out, " (%s + 12LCT a token, causal attention counted whole)\n",
                     times->adapts ? "4N + 6 of adapters" : "6N");
}

void zr_run_times_text(const zr_run_times *times, zr_buffer *out)
{
    append_total_and_parts(times, out);
    if (times->steps == 0)
        return;
    append_step_time(times, out);
    append_spent(times, out);
}

// ---- the rest of a run --------------------------------------------------------------------------

// What is left of a step's weight after each later one.
static const double KEPT = 0.9;

void zr_run_pace_add(zr_run_pace *pace, double seconds, bool cold)
{
    if (!cold && !pace->warm)
        *pace = (zr_run_pace){.steps = pace->steps, .warm = true};
    pace->sum = KEPT * pace->sum + (1 - KEPT) * seconds;
    pace->weight = KEPT * pace->weight + (1 - KEPT);
    pace->steps++;
}

double zr_run_pace_step(const zr_run_pace *pace)
{
    return pace->weight > 0 ? pace->sum / pace->weight : 0;
}

static double seconds_of_item(zr_work_item item) { return (double)item.count * item.seconds; }

double zr_work_left_seconds(const zr_work_left *work)
{
    if (work->steps.count > 0 && !(work->steps.seconds > 0))
        return 0;
    return seconds_of_item(work->steps) + seconds_of_item(work->micro_batches) +
           seconds_of_item(work->checkpoints) + seconds_of_item(work->models) +
           seconds_of_item(work->samples);
}

int64_t zr_run_multiples(int64_t after, int64_t last, int64_t every)
{
    return every > 0 && last > after ? last / every - after / every : 0;
}

// ---- the file -----------------------------------------------------------------------------------

// Returns a number, or null for what is none, which JSON cannot write.
static json_t *finite_or_null(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

// Returns null, too, where it is 0, which means that it is unknown.
static json_t *positive_or_null(double value)
{
    return value > 0 ? finite_or_null(value) : json_null();
}

static json_t *json_of_pair(json_t *measured, json_t *predicted)
{
    return json_pack("{s:o, s:o}", "measured", measured, "predicted", predicted);
}

static json_t *json_of_parts(const zr_run_times *times)
{
    json_t *parts = json_object();
    double recorded = 0;
    for (int part = 0; part <= ZR_TIME_DISK; part++)
        recorded += times->measured[part];
    for (int part = 0; part < ZR_TIME_PARTS; part++) {
        bool of_step = part <= ZR_TIME_DISK;
        bool is_known = !of_step || recorded > 0,
             predicted = of_step ? times->predicted_step > 0 : times->predicted[part] > 0;
        json_object_set_new(
            parts, zr_time_part_names[part],
            json_of_pair(is_known ? finite_or_null(times->measured[part]) : json_null(),
                         predicted ? finite_or_null(times->predicted[part]) : json_null()));
    }
    return parts;
}

static json_t *json_of_setting(const zr_run_times *times)
{
    const zr_rate_setting *setting = &times->setting;
    return json_pack("{s:s, s:s, s:i, s:i, s:i}", "path", setting->path, "dtype",
                     zr_dtype_name(setting->dtype), "threads", setting->threads, "together",
                     setting->together, "ranks", times->ranks);
}

static json_t *json_of_step(const zr_run_times *times)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "measured",
                     positive_or_null(times->step), "median", positive_or_null(times->median),
                     "spread", finite_or_null(times->spread), "interrupted",
                     finite_or_null(times->interrupted), "quiet", positive_or_null(times->quiet),
                     "predicted", positive_or_null(times->predicted_step), "low",
                     positive_or_null(times->low), "high", positive_or_null(times->high));
}

static json_t *json_of_times(const zr_run_times *times)
{
    return json_pack(
        "{s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "first_step",
        (json_int_t)times->first_step, "steps", (json_int_t)times->steps, "setting",
        json_of_setting(times), "to_first_step",
        json_of_pair(finite_or_null(times->to_first), positive_or_null(times->predicted_to_first)),
        "seconds", finite_or_null(times->seconds), "step", json_of_step(times), "parts",
        json_of_parts(times), "start", finite_or_null(times->start), "rest",
        finite_or_null(times->rest), "flops", finite_or_null(times->flops), "flops_per_second",
        positive_or_null(flops_per_second(times)), "product_rate",
        positive_or_null(times->product_rate), "share",
        positive_or_null(zr_run_times_share(times)));
}

// Returns what earlier starts of the run have left: an array, empty if there is none.
static json_t *load_earlier_times(const char *path, const zero_logger *logger)
{
    json_t *root = NULL;
    zero_error error = {0};
    if (!zr_path_exists(path))
        return json_array();
    if (zr_json_load(path, MOST_BYTES, &root, &error) != ZERO_OK)
        zr_log(logger, ZERO_LOG_WARNING, "times of earlier starts are replaced: %s", error.message);
    else if (!json_is_array(root))
        zr_log(logger, ZERO_LOG_WARNING, "times of earlier starts are replaced: \"%s\" is no list",
               path);
    if (json_is_array(root))
        return root;
    json_decref(root);
    return json_array();
}

zero_status zr_run_times_write(const zr_run_times *times, const char *path,
                               const zero_logger *logger, zero_error *error)
{
    json_t *root = load_earlier_times(path, logger);
    char *text = json_array_append_new(root, json_of_times(times)) == 0
                     ? json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(DIGITS))
                     : NULL;
    zero_status status =
        text ? zr_file_write_durable(path, text, strlen(text), error)
             : zr_fail(error, ZERO_ERR_MEMORY, "no memory for the text of \"%s\"", path);
    free(text);
    json_decref(root);
    return status;
}
