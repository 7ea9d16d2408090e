#include "predict/run_tasks.h"

#include "base/clock.h"

void zr_run_tasks_end(zr_run_tasks *tasks, zr_task task)
{
    double now = zr_clock_seconds();
    tasks->seconds[task] += now - tasks->since;
    tasks->calls[task] = 1;
    tasks->since = now;
}

void zr_run_tasks_move(zr_run_tasks *tasks, zr_task from, zr_task to, double seconds)
{
    tasks->seconds[from] -= seconds;
    tasks->seconds[to] += seconds;
    tasks->calls[to] = 1;
}

void zr_run_tasks_end_saving(zr_run_tasks *tasks, zr_task task, zr_run_clock *clock,
                             zr_time_part before)
{
    zr_run_clock_turn(clock, before);
    double saving = clock->seconds[ZR_TIME_SAVING];
    tasks->seconds[task] += saving - tasks->saving;
    tasks->saving = saving;
}

void zr_run_tasks_count_saving(zr_run_tasks *tasks, zr_task task, zero_status status)
{
    tasks->calls[task]++;
    tasks->failed[task] |= status != ZERO_OK;
}

void zr_run_tasks_expect(zr_run_tasks *tasks, const zr_task_subject *subject,
                         const zr_rate_book *book)
{
    const zr_task_facts facts = zr_rate_book_facts(book);
    for (int task = 0; task < ZR_TASKS; task++)
        tasks->expected[task] = zr_task_expected(&book->tasks, (zr_task)task, subject, &facts);
}

// Returns the expected seconds of the calls of these tasks; 0 if those of one that was called are
// unknown. The first forecast of a book counts as nothing: it is short, and no run before it could
// teach how long it takes.
static double expected_seconds_of(const zr_run_tasks *tasks, zr_task first, zr_task last)
{
    double sum = 0;
    for (int task = (int)first; task <= (int)last; task++) {
        if (tasks->calls[task] > 0 && tasks->expected[task] <= 0 && task != ZR_TASK_FORECAST)
            return 0;
        sum += (double)tasks->calls[task] * tasks->expected[task];
    }
    return sum;
}

void zr_run_tasks_take(const zr_run_tasks *tasks, zr_run_times *times)
{
    for (int task = ZR_TASK_BEGIN; task <= ZR_TASK_RESUME; task++)
        times->to_first += tasks->seconds[task];
    times->predicted_to_first = expected_seconds_of(tasks, ZR_TASK_BEGIN, ZR_TASK_RESUME);
    times->predicted[ZR_TIME_DATA] = (double)times->steps * tasks->expected[ZR_TASK_ARRANGE];
    times->predicted[ZR_TIME_SAVING] =
        expected_seconds_of(tasks, ZR_TASK_CHECKPOINT, ZR_TASK_MODEL);
}

void zr_run_tasks_teach(const zr_run_tasks *tasks, const zr_run_times *times,
                        const zr_task_subject *subject, zr_task_rates *out)
{
    for (int task = 0; task < ZR_TASKS; task++) {
        bool of_steps = task == ZR_TASK_ARRANGE; // each step arranges its samples
        double seconds = of_steps ? times->measured[ZR_TIME_DATA] : tasks->seconds[task],
               calls = (double)(of_steps ? times->steps : tasks->calls[task]);
        zr_task_sample sample = zr_task_sample_of((zr_task)task, subject);
        sample.quiet = times->quiet;
        sample.seconds = calls > 0 ? seconds / calls : 0;
        if (!tasks->failed[task])
            zr_task_rates_add(out, (zr_task)task, &sample);
    }
}
