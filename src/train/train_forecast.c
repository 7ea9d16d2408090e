// What a training foresees of its own time, before the first step.
#include "layers/layers.h"
#include "predict/rates.h"
#include "setup/machine_facts.h"
#include "setup/estimate.h"
#include "train/training.h"

static zr_estimate_question make_question(const zr_train *train)
{
    const zero_train_options *options = train->asked.options;
    zr_estimate_question question = {
        .model = train->subject.model,
        .name = options->new_spec ? options->new_spec : options->model_dir,
        .config = zr_engine_config(train->run.engine),
        .seq = train->resolved.seq,
        .ranks = train->comm->size,
        .together = zr_local_ranks(train->comm),
        .threads = train->resolved.threads.count,
        .backend = options->backend,
        .division = zr_engine_plan(train->run.engine)->pipeline,
    };
    zr_machine_fill(zr_engine_queue(train->run.engine), NULL, &question.machine);
    return question;
}

zr_task_subject zr_train_task_subject(const zr_train *train)
{
    const zr_train_subject *subject = &train->subject;
    return (zr_task_subject){
        .plan = zr_engine_plan(train->run.engine),
        .together = zr_local_ranks(train->comm),
        .text = zr_corpus_bytes(subject->corpus) +
                (subject->val_corpus ? zr_corpus_bytes(subject->val_corpus) : 0),
    };
}

// estimate: NULL if the kernels' times are unknown.
static void find_overheads(zr_train *train, zr_estimate *estimate, const zr_rate_book *book)
{
    const zr_overheads_question question = {.subject = zr_train_task_subject(train),
                                            .loads = train->asked.options->model_dir,
                                            .vocabulary = train->subject.shape.vocab};
    zr_overheads_find(&question, estimate, book, &train->resolved.overheads);
}

static zero_status forecast_run(zr_train *train, const zr_rate_book *book, zero_error *error)
{
    const zr_estimate_question question = make_question(train);
    zr_estimate estimate;
    zr_run_tasks_end(&train->run.tasks, ZR_TASK_BEGIN);
    zero_status status = zr_estimate_make(&question, &estimate, error);
    if (status == ZERO_OK)
        status = zr_estimate_forecast(&estimate, book, &train->resolved.forecast, error);
    for (int i = 0; i < 2 && status == ZERO_OK; i++)
        status =
            zr_estimate_evaluation(&estimate, book, i + 1, &train->resolved.evaluations[i], error);
    if (status == ZERO_OK)
        find_overheads(train, &estimate, book);
    zr_estimate_free(&estimate);
    zr_run_tasks_end(&train->run.tasks, ZR_TASK_FORECAST);
    return status;
}

// Looks how busy others keep the machine, and takes it into account.
static void find_busy(zr_train *train)
{
    int ranks = zr_local_ranks(train->comm), threads = ranks * train->resolved.threads.count;
    zr_busy *busy = &train->resolved.busy;
    zr_busy_find(threads, ranks, &train->run.turns, busy);
    zr_forecast_slow(&train->resolved.forecast, busy->slowdown);
    train->resolved.overheads.micro_batch *= busy->slowdown;
    train->resolved.overheads.token *= busy->slowdown;
}

static void log_forecast(const zr_train *train)
{
    zr_buffer text = {0};
    zr_forecast_text(&train->resolved.forecast, &text);
    if (!text.failed)
        zr_log(&train->logger, ZERO_LOG_INFO, "predict  %s", text.data);
    zr_buffer_free(&text);
}

static void log_overheads(const zr_train *train)
{
    zr_buffer text = {0};
    zr_overheads_text(&train->resolved.overheads, &text);
    if (!text.failed && text.length)
        zr_log(&train->logger, ZERO_LOG_DEBUG, "predict  %s", text.data);
    zr_buffer_free(&text);
}

void zr_train_foretell(zr_train *train)
{
    zr_rate_book book;
    zero_error error = {0};
    if (train->comm->rank > 0 || train->asked.replay_to)
        return;
    bool alone = zr_local_ranks(train->comm) == train->comm->size;
    zr_rate_book_read(&train->logger, &book);
    const zr_task_subject subject = zr_train_task_subject(train);
    zr_run_tasks_expect(&train->run.tasks, &subject, &book);
    find_overheads(train, NULL, &book);
    bool links = alone || zr_rate_book_knows_network(&book),
         kernels = zr_rate_book_knows_kernels(&book),
         predicted = links && kernels && forecast_run(train, &book, &error) == ZERO_OK;
    find_busy(train);
    if (!links)
        zr_log(&train->logger, ZERO_LOG_INFO,
               "predict  nothing: ranks exchange over a network that nobody has "
               "measured; " ZR_LINK_TEACHER " does");
    else if (!kernels)
        zr_log(&train->logger, ZERO_LOG_INFO,
               "predict  nothing is known of this machine yet: runs of a few steps teach it, or "
               "zero plan --predict times it in a second");
    else if (predicted)
        log_forecast(train);
    else
        zr_log(&train->logger, ZERO_LOG_WARNING, "no prediction of a step: %s", error.message);
    log_overheads(train);
    zr_rate_book_free(&book);
}
