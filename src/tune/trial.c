#define _GNU_SOURCE
#include "tune/trial.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/numbers.h"
#include "base/traffic.h"
#include "checkpoint/run_directory.h"
#include "monitor/metrics.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zero/run.h>

enum { OWN_ARGUMENTS = 24, LEAST_MEASURED = 2, ENOUGH_STEPS = 3 };

// A trial has all cores, so it is looked at seldom, and only what is new is read then.
#define POLL_SECONDS 0.05
#define REMOVE_SECONDS 0.01 // between tries to remove its files

typedef struct places { // of a trial, in its scratch directory; owned
    char *scratch, *config, *out, *log;
} places;

// ---- the program

static bool is_zero(const char *path)
{
    const char *slash = strrchr(path, '/');
    return strcmp(slash ? slash + 1 : path, "zero") == 0;
}

static bool find_in_path(char out[static 4096])
{
    const char *at = getenv("PATH");
    for (at = at ? at : "/usr/bin:/bin"; *at; at += strspn(at, ":")) {
        int length = (int)strcspn(at, ":");
        if (snprintf(out, 4096, "%.*s/zero", length, at) < 4096 && zr_path_is_file(out) &&
            access(out, X_OK) == 0)
            return true;
        at += length;
    }
    return false;
}

zero_status zr_trial_program(const char *requested, char out[static 4096], zero_error *error)
{
    if (requested) {
        if (snprintf(out, 4096, "%s", requested) < 4096 && zr_path_is_file(out) &&
            access(out, X_OK) == 0)
            return ZERO_OK;
        return zr_fail(error, ZERO_ERR_USAGE, "cannot run trials with %s: it is no program",
                       requested);
    }
    ssize_t length = readlink("/proc/self/exe", out, 4095);
    out[length > 0 ? length : 0] = 0;
    if (is_zero(out) || find_in_path(out))
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_USAGE,
                   "trials run the program zero, which is not in PATH: name it in options.program");
}

zero_status zr_trial_check_alone(const char *command, zero_error *error)
{
    int launched = 0;
    ZERO_TRY(zero_launched_ranks(&launched, error));
    return launched ? zr_fail(error, ZERO_ERR_USAGE,
                              "%s starts the ranks of its trials itself: a launcher has started "
                              "this process as one of %d",
                              command, launched)
                    : ZERO_OK;
}

// ---- the scratch directory

zero_status zr_trial_scratch(const char *parent, char **out, zero_error *error)
{
    const char *temporary = getenv("TMPDIR");
    if (!parent)
        parent = temporary && *temporary ? temporary : "/tmp";
    char *scratch = zr_sprintf(error, "%s/zero-trial-XXXXXX", parent);
    if (!scratch)
        return ZERO_ERR_MEMORY;
    if (!mkdtemp(scratch)) {
        int reason = errno;
        zr_free(scratch);
        return zr_fail_errno(error, ZERO_ERR_IO, reason,
                             "cannot make a scratch directory for trials in \"%s\"", parent);
    }
    *out = scratch;
    return ZERO_OK;
}

static zero_status make_places(const zr_trial_question *q, places *out, zero_error *error)
{
    ZERO_TRY(zr_trial_scratch(q->parent, &out->scratch, error));
    out->config = zr_sprintf(error, "%s/config.json", out->scratch);
    out->out = zr_sprintf(error, "%s/out", out->scratch);
    out->log = zr_sprintf(error, "%s/log", out->scratch);
    if (!out->config || !out->out || !out->log)
        return ZERO_ERR_MEMORY;
    return q->config ? zr_file_write_durable(out->config, q->config, strlen(q->config), error)
                     : ZERO_OK;
}

// A rank that is being killed may still make a file, so that one removal may not be enough.
static void remove_places(places *p)
{
    for (int i = 0; i < 3 && p->scratch && zr_path_exists(p->scratch); i++)
        if (zr_directory_remove(p->scratch, NULL) != ZERO_OK)
            zr_sleep_seconds(REMOVE_SECONDS);
    zr_free(p->scratch);
    zr_free(p->config);
    zr_free(p->out);
    zr_free(p->log);
}

// ---- the configuration

void zr_trial_quiet(json_t *root)
{
    static const char *const keys[] = {"tensorboard",
                                       "csv_monitor",
                                       "wandb",
                                       "comet",
                                       "flops_profiler",
                                       "comms_logger",
                                       "wall_clock_breakdown",
                                       "memory_breakdown",
                                       "autotuning"};
    for (int i = 0; i < ZR_COUNT(keys); i++)
        json_object_del(root, keys[i]);
}

// ---- the command

typedef struct command {
    const char **words; // (count), and a NULL
    int count;
    char ranks[16], threads[16], steps[24];
} command;

static void add_word(command *c, const char *word)
{
    c->words[c->count++] = word;
    c->words[c->count] = NULL;
}

static void add_pair(command *c, const char *name, const char *value)
{
    add_word(c, name);
    add_word(c, value);
}

static zero_status make_command(const zr_trial_question *q, const char *program, const places *p,
                                command *c, zero_error *error)
{
    size_t given = 0;
    while (q->arguments[given])
        given++;
    *c = (command){.words = zr_alloc((given + OWN_ARGUMENTS) * sizeof *c->words, error)};
    if (!c->words)
        return ZERO_ERR_MEMORY;
    snprintf(c->ranks, sizeof c->ranks, "%d", q->ranks);
    snprintf(c->threads, sizeof c->threads, "%d", q->threads);
    snprintf(c->steps, sizeof c->steps, "%lld", (long long)q->steps);
    add_pair(c, program, "train");
    for (size_t i = 0; i < given; i++)
        add_word(c, q->arguments[i]);
    if (q->config)
        add_pair(c, "--config", p->config);
    add_pair(c, "--ranks", c->ranks);
    if (q->threads)
        add_pair(c, "--threads", c->threads);
    add_pair(c, "--steps", c->steps);
    add_pair(c, "--out", p->out);
    add_pair(c, "--val", "none");
    add_pair(c, "--no-final-checkpoint", "--no-learn");
    add_word(c, "--quiet");
    return ZERO_OK;
}

// ---- what the steps say of themselves

static double number_in_line(const json_t *line, const char *key)
{
    return json_number_value(json_object_get(line, key));
}

static int64_t held_by(const json_t *line)
{
    int64_t bytes = 0;
    const char *name;
    json_t *category;
    json_object_foreach(json_object_get(line, "mem"), name, category) bytes +=
        json_integer_value(json_object_get(category, "held"));
    return bytes;
}

// Returns the bytes that a line says were fetched in a group, or sent. Where all ranks share the
// batch there are no groups, and an all-reduce is of scalars.
static int64_t exchanged_in(const json_t *line, zero_axis axis)
{
    const json_t *groups = json_object_get(line, "groups");
    const char *scalars = groups ? "" : "all_reduce", *name;
    const json_t *group = groups                   ? json_object_get(groups, zr_axis_name(axis))
                          : axis == ZERO_AXIS_data ? json_object_get(line, "comm")
                                                   : NULL;
    int64_t bytes = 0;
    json_t *op;
    json_object_foreach((json_t *)group, name,
                        op) if (strcmp(name, "recv") != 0 && strcmp(name, scalars) != 0) bytes +=
        json_integer_value(json_object_get(op, "bytes"));
    return bytes;
}

typedef struct reading { // of metrics.jsonl, while it is written
    zr_metrics_reader reader;
    bool open, failed;
    int64_t steps; // made so far
    const zr_trial_question *question;
    zr_trial_answer *trial;
} reading;

static void take_line(reading *r, const json_t *line)
{
    zr_trial_answer *trial = r->trial;
    if (!json_object_get(line, "loss"))
        return;
    r->steps++;
    trial->tokens = (int64_t)number_in_line(line, "tokens");
    trial->memory = ZR_MAX(trial->memory, held_by(line));
    for (zero_axis axis = 0; axis < ZERO_AXIS_COUNT; axis++)
        trial->exchanged[axis] = ZR_MAX(trial->exchanged[axis], exchanged_in(line, axis));
    if (r->steps > r->question->skipped && trial->count < ZR_TRIAL_STEPS)
        trial->at[trial->count++] = number_in_line(line, "ms") * 1e-3;
}

// Opens the file once it is there.
static void open_steps(reading *r, const places *p)
{
    if (r->open || r->failed || !zr_path_has(p->out, ZR_METRICS_FILE))
        return;
    r->failed = zr_metrics_reader_open(p->out, &r->reader, NULL) != ZERO_OK;
    r->open = !r->failed;
}

// Reads what was written since the last time.
static void read_steps(reading *r, const places *p)
{
    json_t *line = NULL;
    open_steps(r, p);
    while (r->open && !r->failed && r->steps < r->question->steps) {
        r->failed = zr_metrics_reader_next(&r->reader, &line, NULL) != ZERO_OK;
        if (!line)
            return;
        take_line(r, line);
        json_decref(line);
    }
}

void zr_trial_summarize(zr_trial_answer *trial)
{
    double sorted[ZR_TRIAL_STEPS];
    if (trial->count == 0)
        return;
    memcpy(sorted, trial->at, (size_t)trial->count * sizeof *sorted);
    zr_sort_numbers(sorted, trial->count);
    trial->seconds = zr_quantile(sorted, trial->count, 0.5);
    trial->low = zr_quantile(sorted, trial->count, 0.25);
    trial->high = zr_quantile(sorted, trial->count, 0.75);
    trial->token_rate = trial->seconds > 0 ? (double)trial->tokens / trial->seconds : 0;
}

// ---- the trial

typedef enum ending { MADE_STEPS, ENDED_ITSELF, AT_DEADLINE, STOPPED } ending;

static bool has_enough(const zr_trial_question *q, const zr_trial_answer *trial)
{
    double seconds = 0;
    for (int i = 0; i < trial->count; i++)
        seconds += trial->at[i];
    return q->enough > 0 && trial->count >= ENOUGH_STEPS && seconds >= q->enough;
}

// Returns the seconds after which the whole trial is over, as far as that is known by now.
static double seconds_allowed(const zr_trial_question *q, const zr_trial_answer *trial)
{
    bool counts = q->after_first > 0 && trial->until_first > 0;
    return counts ? ZR_MIN(trial->until_first + q->after_first, q->deadline) : q->deadline;
}

static ending watch_trial(reading *r, const places *p, double begun, zr_trial_process *process)
{
    const zr_trial_question *q = r->question;
    zr_trial_answer *trial = r->trial;
    for (;;) {
        bool ended = zr_trial_ended(process);
        read_steps(r, p);
        if (r->steps > 0 && trial->until_first == 0)
            trial->until_first = zr_clock_seconds() - begun;
        if (ended)
            return ENDED_ITSELF;
        bool stopped = q->stop && *q->stop, done = r->steps >= q->steps || has_enough(q, trial);
        if (!done && !stopped && zr_clock_seconds() - begun < seconds_allowed(q, trial)) {
            zr_sleep_seconds(POLL_SECONDS);
            continue;
        }
        zr_trial_kill(process);
        return stopped ? STOPPED : done ? MADE_STEPS : AT_DEADLINE;
    }
}

static void judge_trial(const zr_trial_question *q, const places *p, ending how,
                        const zr_trial_process *process, zr_trial_answer *trial)
{
    int64_t wanted = q->steps - q->skipped;
    int64_t enough = how == AT_DEADLINE ? ZR_MIN(wanted, LEAST_MEASURED) : wanted;
    trial->good = trial->count >= enough || how == MADE_STEPS;
    zr_trial_summarize(trial);
    if (trial->good)
        return;
    if (how == AT_DEADLINE)
        snprintf(trial->why, sizeof trial->why,
                 "not done within %.3g s, with %d of %lld steps measured",
                 seconds_allowed(q, trial), trial->count, (long long)wanted);
    else
        zr_trial_tell_end(process, p->log, trial->why, sizeof trial->why);
}

static zero_status run_in(const zr_trial_question *q, const places *p, zr_trial_answer *trial,
                          zero_error *error)
{
    char program[4096];
    command c;
    zr_trial_process process;
    reading steps = {.question = q, .trial = trial};
    ZERO_TRY(zr_trial_program(q->program, program, error));
    ZERO_TRY(make_command(q, program, p, &c, error));
    double begun = zr_clock_seconds();
    zero_status status = zr_trial_start(c.words, p->log, &process, error);
    zr_free(c.words);
    ZERO_TRY(status);
    ending how = watch_trial(&steps, p, begun, &process);
    zr_metrics_reader_close(&steps.reader);
    trial->wall = zr_clock_seconds() - begun;
    if (how == STOPPED)
        return zr_fail(error, ZERO_ERR_CANCELLED, "stopped by signal %d during a trial", *q->stop);
    judge_trial(q, p, how, &process, trial);
    return ZERO_OK;
}

zero_status zr_trial_run(const zr_trial_question *question, zr_trial_answer *out, zero_error *error)
{
    assert(question->steps > question->skipped && question->steps <= ZR_TRIAL_STEPS);
    places p = {0};
    *out = (zr_trial_answer){0};
    zero_status status = make_places(question, &p, error);
    if (status == ZERO_OK)
        status = run_in(question, &p, out, error);
    remove_places(&p);
    return status;
}
