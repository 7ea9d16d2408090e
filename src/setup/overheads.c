#include "setup/estimate.h"

#include "base/text.h"
#include "base/json.h"
#include "predict/rates.h"

static double expected_seconds(const zr_rate_book *book, zr_task task,
                               const zr_task_subject *subject)
{
    const zr_task_facts facts = zr_rate_book_facts(book);
    return zr_task_expected(&book->tasks, task, subject, &facts);
}

// Returns the seconds before the first step of a run that resumes nothing. A forecast that nobody
// has timed counts as nothing.
static double seconds_before_first_step(const zr_overheads_question *question,
                                        const zr_rate_book *book)
{
    static const zr_task always[] = {ZR_TASK_BEGIN, ZR_TASK_RESERVE, ZR_TASK_SHARE, ZR_TASK_DRAW};
    const zr_task_subject *subject = &question->subject;
    double sum = expected_seconds(book, ZR_TASK_FORECAST, subject);
    for (int i = 0; i < ZR_COUNT(always); i++) {
        double seconds = expected_seconds(book, always[i], subject);
        if (seconds <= 0)
            return 0;
        sum += seconds;
    }
    double reading = expected_seconds(book, ZR_TASK_READ, subject),
           loading = expected_seconds(book, ZR_TASK_LOAD, subject);
    if ((subject->text > 0 && reading <= 0) || (question->loads && loading <= 0))
        return 0;
    return sum + (subject->text > 0 ? reading : 0) + (question->loads ? loading : 0);
}

static double seconds_of_micro_batch(zr_estimate *estimate, const zr_rate_book *book)
{
    double seconds;
    bool across = estimate->machines.count > 1;
    if (zr_estimate_evaluation(estimate, book, 1, &seconds, NULL) != ZERO_OK)
        return 0;
    return seconds * (across ? 1 : zr_correction_factor(&book->corrections[ZR_TIME_EVALUATION]));
}

// Only generations teach how long choosing takes, and operations of one row.
static double seconds_of_token(const zr_overheads_question *question, zr_estimate *estimate,
                               const zr_rate_book *book)
{
    const zr_task_sample choice = {.together = question->subject.together,
                                   .amount = question->vocabulary};
    double choosing = zr_task_rates_seconds(&book->tasks, ZR_TASK_CHOOSE, &choice, NULL), seconds;
    if (choosing <= 0 || zr_estimate_token(estimate, book, &seconds, NULL) != ZERO_OK)
        return 0;
    return seconds > 0 ? seconds + choosing : 0;
}

void zr_overheads_find(const zr_overheads_question *question, zr_estimate *estimate,
                       const zr_rate_book *book, zr_overheads *out)
{
    const zr_task_subject *subject = &question->subject;
    bool computes = estimate && zr_rate_book_knows_kernels(book);
    *out = (zr_overheads){
        .start = seconds_before_first_step(question, book),
        .micro_batch = computes ? seconds_of_micro_batch(estimate, book) : 0,
        .checkpoint = expected_seconds(book, ZR_TASK_CHECKPOINT, subject),
        .model = expected_seconds(book, ZR_TASK_MODEL, subject),
        .token = computes ? seconds_of_token(question, estimate, book) : 0,
    };
}

bool zr_overheads_are_known(const zr_overheads *b)
{
    return b->start > 0 || b->micro_batch > 0 || b->checkpoint > 0 || b->model > 0 || b->token > 0;
}

static void append_seconds(double seconds, const char *of, const char **before, zr_buffer *out)
{
    char text[ZR_SECONDS_TEXT];
    if (seconds <= 0)
        return;
    zr_seconds_text(seconds, text);
    zr_buffer_printf(out, "%s%s %s", *before, text, of);
    *before = ", ";
}

void zr_overheads_text(const zr_overheads *overheads, zr_buffer *out)
{
    const char *before = "besides steps: ";
    append_seconds(overheads->start, "before the first one", &before, out);
    append_seconds(overheads->micro_batch, "to evaluate a micro-batch", &before, out);
    append_seconds(overheads->checkpoint, "a checkpoint", &before, out);
    append_seconds(overheads->model, "a model", &before, out);
    append_seconds(overheads->token, "a generated token", &before, out);
}

void zr_overheads_json(const zr_overheads *overheads, zr_json_writer *w, const char *key)
{
    const struct {
        const char *name;
        double seconds;
    } all[] = {
        {"before_first_step", overheads->start}, {"evaluated_micro_batch", overheads->micro_batch},
        {"checkpoint", overheads->checkpoint},   {"model", overheads->model},
        {"generated_token", overheads->token},
    };
    zr_json_begin_object(w, key);
    for (int i = 0; i < ZR_COUNT(all); i++)
        if (all[i].seconds > 0)
            zr_json_real(w, all[i].name, all[i].seconds);
        else
            zr_json_null(w, all[i].name);
    zr_json_end(w);
}
