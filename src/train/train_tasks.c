// What a training does besides its steps: what it takes on rank 0, how long it is expected to take,
// and what it teaches.
#include "base/clock.h"
#include "engine/engine_inner.h"
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

// Estimates the bytes from the fp32 vectors, without headers and manifest.
int64_t zr_train_checkpoint_bytes(const zr_train *train)
{
    const zr_plan *plan = zr_engine_plan(train->run.engine);
    int64_t fp32 = plan->parameters * (1 + plan->settings.state_vectors) * (int64_t)sizeof(float);
    return fp32 +
           (zr_plan_lags(plan)
                ? plan->parameters * (int64_t)zero_dtype_bytes(plan->settings.precision.parameters)
                : 0);
}

static int64_t amount_of(const zr_train *train, zr_task task)
{
    const zr_train_subject *subject = &train->subject;
    const zr_plan *plan = zr_engine_plan(train->run.engine);
    switch (task) {
    case ZR_TASK_READ:
        return zr_corpus_bytes(subject->corpus) +
               (subject->val_corpus ? zr_corpus_bytes(subject->val_corpus) : 0);
    case ZR_TASK_MAKE: return zr_plan_total_bytes(plan) + zr_plan_tier_bytes(plan, ZERO_TIER_nvme);
    case ZR_TASK_LOAD:
    case ZR_TASK_MODEL: return plan->parameters;
    case ZR_TASK_ARRANGE: return plan->shape.batch * plan->shape.seq * plan->settings.accumulation;
    case ZR_TASK_RESUME:
    case ZR_TASK_CHECKPOINT:
    case ZR_TASK_BESIDE: return zr_train_checkpoint_bytes(train);
    default: return 0;
    }
}

void zr_train_expect_tasks(zr_train *train, const zr_task_rates *rates)
{
    for (int task = 0; task < ZR_TASKS; task++)
        train->run.tasks.expected[task] = zr_task_rates_seconds(
            rates, (zr_task)task, zr_local_ranks(train->comm), amount_of(train, (zr_task)task));
}

// Returns what the calls of these tasks were expected to take; 0: it is unknown of one that was
// made.
static double expected_of(const zr_run_tasks *tasks, zr_task first, zr_task last)
{
    double sum = 0;
    for (int task = (int)first; task <= (int)last; task++) {
        if (tasks->calls[task] > 0 && tasks->expected[task] <= 0)
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
    for (int task = 0; task < ZR_TASKS; task++) {
        bool steps = task == ZR_TASK_ARRANGE;
        double seconds = steps ? times->measured[ZR_TIME_DATA] : tasks->seconds[task],
               calls = (double)(steps ? times->steps : tasks->calls[task]);
        const zr_task_sample sample = {.together = zr_local_ranks(train->comm),
                                       .amount = amount_of(train, (zr_task)task),
                                       .seconds = calls > 0 ? seconds / calls : 0,
                                       .seen = 1};
        if (!tasks->failed[task])
            zr_task_rates_add(out, (zr_task)task, &sample);
    }
}
