// What a training does besides its steps: what it takes on rank 0, how long it is expected to take,
// and what it teaches.
#include "base/clock.h"
#include "engine/engine_api.h"
#include "predict/task_amounts.h"
#include "setup/machine_facts.h"
#include "train/training.h"

void zr_train_end_task(zr_train *train, zr_task task)
{
    zr_run_tasks *tasks = &train->run.tasks;
    double now = zr_clock_seconds();
    tasks->seconds[task] += now - tasks->since;
    tasks->calls[task] = 1;
    tasks->since = now;
}

void zr_task_time_move(zr_train *train, zr_task from, zr_task to, double seconds)
{
    zr_run_tasks *tasks = &train->run.tasks;
    tasks->seconds[from] -= seconds;
    tasks->seconds[to] += seconds;
    tasks->calls[to] = 1;
}

void zr_train_end_saving(zr_train *train, zr_task task, zr_time_part before)
{
    zr_run_tasks *tasks = &train->run.tasks;
    zr_run_clock_turn(&train->run.clock, before);
    double saving = train->run.clock.seconds[ZR_TIME_SAVING];
    tasks->seconds[task] += saving - tasks->saving;
    tasks->saving = saving;
}

void zr_train_count_saving(zr_train *train, zr_task task, zero_status status)
{
    train->run.tasks.calls[task]++;
    train->run.tasks.failed[task] |= status != ZERO_OK;
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

void zr_train_expect_tasks(zr_train *train, const zr_rate_book *book)
{
    const zr_task_facts facts = zr_rate_book_facts(book);
    const zr_task_subject subject = zr_train_task_subject(train);
    for (int task = 0; task < ZR_TASKS; task++)
        train->run.tasks.expected[task] =
            zr_task_expected(&book->tasks, (zr_task)task, &subject, &facts);
}

// Returns what the calls of these tasks were expected to take; 0: it is unknown of one that was
// made. The first forecast of a book counts as nothing, because it is short, and runs before it had
// none to teach.
static double expected_of(const zr_run_tasks *tasks, zr_task first, zr_task last)
{
    double sum = 0;
    for (int task = (int)first; task <= (int)last; task++) {
        if (tasks->calls[task] > 0 && tasks->expected[task] <= 0 && task != ZR_TASK_FORECAST)
            return 0;
        sum += (double)tasks->calls[task] * tasks->expected[task];
    }
    return sum;
}

void zr_train_take_tasks(const zr_train *train, zr_run_times *times)
{
    const zr_run_tasks *tasks = &train->run.tasks;
    for (int task = ZR_TASK_BEGIN; task <= ZR_TASK_RESUME; task++)
        times->to_first += tasks->seconds[task];
    times->predicted_to_first = expected_of(tasks, ZR_TASK_BEGIN, ZR_TASK_RESUME);
    times->predicted[ZR_TIME_DATA] = (double)times->steps * tasks->expected[ZR_TASK_ARRANGE];
    times->predicted[ZR_TIME_SAVING] = expected_of(tasks, ZR_TASK_CHECKPOINT, ZR_TASK_MODEL);
}

void zr_train_teach_tasks(const zr_train *train, const zr_run_times *times, zr_task_rates *out)
{
    const zr_run_tasks *tasks = &train->run.tasks;
    const zr_task_subject subject = zr_train_task_subject(train);
    for (int task = 0; task < ZR_TASKS; task++) {
        bool steps = task == ZR_TASK_ARRANGE;
        double seconds = steps ? times->measured[ZR_TIME_DATA] : tasks->seconds[task],
               calls = (double)(steps ? times->steps : tasks->calls[task]);
        zr_task_sample sample = zr_task_sample_of((zr_task)task, &subject);
        sample.quiet = times->quiet;
        sample.seconds = calls > 0 ? seconds / calls : 0;
        if (!tasks->failed[task])
            zr_task_rates_add(out, (zr_task)task, &sample);
    }
}
