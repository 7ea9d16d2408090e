#include "tune/tuning_judge.h"

#include "base/clock.h"
#include "base/cpu.h"
#include "setup/backend_choice.h"
#include "setup/machine_facts.h"
#include "setup/estimate.h"
#include "setup/resolve.h"

#include <stdio.h>
#include <string.h>

enum { LEAST_JUDGED = 16 };

void zr_tuning_judge_open(const zr_tuning_asked *asked, zr_tuning_judge *out)
{
    char reason[128];
    *out = (zr_tuning_judge){.asked = asked, .memory = zr_memory_available(reason, sizeof reason)};
    zr_rate_book_read(&asked->options->logger, &out->book);
}

void zr_tuning_judge_close(zr_tuning_judge *judge)
{
    for (int i = 0; i < judge->queue_count; i++)
        zr_queue_close(judge->queues[i]);
    zr_rate_book_free(&judge->book);
    *judge = (zr_tuning_judge){0};
}

static zero_status find_queue(zr_tuning_judge *j, int threads, zr_queue **out, zero_error *error)
{
    for (int i = 0; i < j->queue_count; i++)
        if (j->queues[i]->threads == threads) {
            *out = j->queues[i];
            return ZERO_OK;
        }
    assert(j->queue_count < ZR_JUDGE_QUEUES); // a space has no more numbers of ranks
    ZERO_TRY(zr_said_queue_open(j->asked->options->backend, threads, out, error));
    j->queues[j->queue_count++] = *out;
    return ZERO_OK;
}

static zero_status resolve_candidate(const zr_tuning_judge *j, const zr_run_candidate *c,
                                     zr_config **out, zero_error *error)
{
    const zr_model_choice *subject = j->asked->subject;
    char *text = zr_tuning_file_of(j->asked->file, c, true, error);
    if (!text)
        return ZERO_ERR_MEMORY;
    zr_resolution how = {.text = text,
                         .length = strlen(text),
                         .name = j->asked->file->name,
                         .quiet = true,
                         .facts = zr_model_choice_facts(subject, c->ranks)};
    how.facts.batch = c->micro_batch * c->accumulation * c->ranks / (c->tensor * c->stages);
    zero_status status = zr_resolve(&how, out, error);
    zr_free(text);
    return status;
}

static int64_t most_plan_bytes(const zr_estimate *r)
{
    int64_t most = 0;
    for (int s = 0; s < r->stages; s++)
        most = ZR_MAX(most, zr_plan_total_bytes(r->at[s].plan));
    return most;
}

// What ends a search, of all that can go wrong with one candidate.
static bool ends_search(zero_status status)
{
    return status == ZERO_ERR_MEMORY || status == ZERO_ERR_CANCELLED || status == ZERO_ERR_INTERNAL;
}

// Measures what a candidate that fits does, if much of its time is only guessed. Where that fails,
// for instance because a directory on NVMe is full, guesses have to do for all.
static zero_status measure_if_guessed(zr_tuning_judge *j, zr_estimate *r, zr_run_candidate *c,
                                      zero_error *error)
{
    if (c->step.unknown <= ZR_JUDGE_UNKNOWN || j->measuring <= 0)
        return ZERO_OK;
    const zero_logger *logger = &j->asked->options->logger;
    double begun = zr_clock_seconds();
    zero_error reason = {0};
    zero_status status = zr_estimate_measure(r, logger, &j->book, &reason);
    if (ends_search(status))
        return zr_fail(error, status, "%s", reason.message);
    if (status != ZERO_OK) {
        zr_log(logger, ZERO_LOG_WARNING, "kernels cannot be timed, so times are guessed: %s",
               reason.message);
        j->measuring = 0;
        return ZERO_OK;
    }
    j->measuring -= zr_clock_seconds() - begun;
    j->measured++;
    return zr_estimate_forecast(r, &j->book, &c->step, error);
}

static zero_status judge_by_estimate(zr_tuning_judge *j, zr_estimate *r, zr_run_candidate *c,
                                     zero_error *error)
{
    c->memory = most_plan_bytes(r);
    c->state = r->fits ? ZR_CANDIDATE_FITS : ZR_CANDIDATE_TOO_LARGE;
    if (!r->fits)
        snprintf(c->why, sizeof c->why, "%s", r->excess);
    ZERO_TRY(zr_estimate_forecast(r, &j->book, &c->step, error));
    return r->fits ? measure_if_guessed(j, r, c, error) : ZERO_OK;
}

static zero_status estimate_candidate(zr_tuning_judge *j, const zr_config *config,
                                      zr_run_candidate *c, zero_error *error)
{
    const zr_model_choice *subject = j->asked->subject;
    zr_queue *queue;
    zr_estimate estimate;
    ZERO_TRY(find_queue(j, c->threads, &queue, error));
    zr_estimate_question question = {.shape = &subject->model,
                                     .name = subject->name,
                                     .config = config,
                                     .seq = subject->seq,
                                     .ranks = c->ranks,
                                     .threads = c->threads,
                                     .backend = j->asked->options->backend};
    zr_machine_fill(queue, NULL, &question.machine);
    question.machine.memory_limit = j->memory / c->ranks;
    c->micro_batch = config->micro_batch;
    c->accumulation = config->accumulation;
    c->tokens = config->train_batch * subject->seq;
    zero_status status = zr_estimate_make(&question, &estimate, error);
    if (status == ZERO_OK)
        status = judge_by_estimate(j, &estimate, c, error);
    zr_estimate_free(&estimate);
    return status;
}

zero_status zr_tuning_judge_one(void *user, zr_run_candidate *c, zero_error *error)
{
    zr_tuning_judge *j = user;
    const volatile int *stop = j->asked->options->stop;
    zr_config *config = NULL;
    zero_error why = {0};
    c->state = ZR_CANDIDATE_UNJUDGED;
    if (stop && *stop)
        return zr_fail(error, ZERO_ERR_CANCELLED, "stopped by signal %d", *stop);
    if (zr_clock_seconds() > j->until && j->judged >= LEAST_JUDGED)
        return ZERO_OK;
    j->judged++;
    zero_status status = resolve_candidate(j, c, &config, &why);
    if (status == ZERO_OK)
        status = estimate_candidate(j, config, c, &why);
    zr_config_destroy(config);
    if (status == ZERO_OK)
        return ZERO_OK;
    if (ends_search(status))
        return zr_fail(error, status, "%s", why.message);
    c->state = ZR_CANDIDATE_REFUSED;
    snprintf(c->why, sizeof c->why, "%.*s", (int)sizeof c->why - 1, why.message);
    return ZERO_OK;
}
