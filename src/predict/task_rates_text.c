// What is known of a run's tasks, as JSON and as an answer.
#include "predict/task_rates.h"

#include <limits.h>

static const struct {
    const char *name, *text, *of;
} tasks[ZR_TASKS] = {
#define ZR_TASK_ROW(task, name, text, of) [ZR_TASK_##task] = {#name, text, of},
    ZR_TASK_LIST(ZR_TASK_ROW)
#undef ZR_TASK_ROW
};

// The part of the turns that a sample had; a file of an older version, and a quiet machine, say
// nothing.
double zr_json_quiet(const json_t *entry)
{
    double quiet = json_number_value(json_object_get(entry, "quiet"));
    return quiet > 0 && quiet < 1 ? quiet : 1;
}

void zr_json_put_quiet(double quiet, zr_json_writer *w)
{
    if (quiet > 0 && quiet < 1)
        zr_json_real(w, "quiet", quiet);
}

static bool read_sample(const json_t *entry, zr_task_sample *out)
{
    int64_t together = json_integer_value(json_object_get(entry, "together")),
            element = json_integer_value(json_object_get(entry, "element"));
    *out = (zr_task_sample){
        .together = (int)together,
        .amount = json_integer_value(json_object_get(entry, "amount")),
        .element = (int)element,
        .seconds = json_number_value(json_object_get(entry, "seconds")),
        .seen = json_integer_value(json_object_get(entry, "seen")),
        .quiet = zr_json_quiet(entry),
    };
    return together > 0 && together <= INT_MAX && out->amount >= 0 && element >= 0 &&
           element <= INT_MAX && out->seen > 0 && out->seconds > 0;
}

bool zr_task_rates_read(const json_t *all, zr_task_rates *out)
{
    for (int task = 0; task < ZR_TASKS; task++) {
        const json_t *list = json_object_get(all, tasks[task].name);
        for (size_t i = 0; i < json_array_size(list); i++) {
            zr_task_sample sample;
            if (!read_sample(json_array_get(list, i), &sample))
                return false;
            zr_task_rates_add(out, (zr_task)task, &sample);
        }
    }
    return true;
}

static void write_sample(const zr_task_sample *sample, zr_json_writer *w)
{
    zr_json_line(w, 6);
    zr_json_begin_object(w, NULL);
    zr_json_integer(w, "together", sample->together);
    zr_json_integer(w, "amount", sample->amount);
    if (sample->element)
        zr_json_integer(w, "element", sample->element);
    zr_json_real(w, "seconds", sample->seconds);
    zr_json_integer(w, "seen", sample->seen);
    zr_json_put_quiet(sample->quiet, w);
    zr_json_end(w);
}

void zr_task_rates_json(const zr_task_rates *rates, const char *key, zr_json_writer *w)
{
    zr_json_begin_object(w, key);
    for (int task = 0; task < ZR_TASKS; task++) {
        if (!rates->count[task])
            continue;
        zr_json_line(w, 4);
        zr_json_begin_array(w, tasks[task].name);
        for (int i = 0; i < rates->count[task]; i++)
            write_sample(&rates->at[task][i], w);
        zr_json_end(w);
    }
    zr_json_end(w);
}

// Returns the sample of the largest amount.
static const zr_task_sample *sample_of_largest_amount(const zr_task_sample *list, int count)
{
    const zr_task_sample *most = list;
    for (int i = 1; i < count; i++)
        if (list[i].amount > most->amount)
            most = &list[i];
    return most;
}

static void report_task(const zr_task_rates *rates, int task, zr_report *r)
{
    const zr_task_sample *most = sample_of_largest_amount(rates->at[task], rates->count[task]);
    const char *of = tasks[task].of;
    zr_report_begin(r, NULL);
    zr_report_json_only(r, "task", zr_text(tasks[task].name));
    ZR_SENTENCE(r, "",
                "    {:-26} {seconds:s} by {ranks} rank{}[, {amount} {of}; {amounts} amount{}]",
                zr_text(tasks[task].text), zr_real(most->seconds), zr_integer(most->together),
                zr_plural(most->together), zr_integer(most->amount), of ? zr_text(of) : zr_absent(),
                zr_integer(rates->count[task]), zr_plural(rates->count[task]));
    zr_report_end(r);
}

void zr_task_rates_report(const zr_task_rates *rates, zr_report *r)
{
    if (!zr_task_rates_are_empty(rates))
        zr_report_line(r, "", "  besides the steps of runs");
    zr_report_begin_list(r, "tasks");
    for (int task = 0; task < ZR_TASKS; task++)
        if (rates->count[task])
            report_task(rates, task, r);
    zr_report_end(r);
}
