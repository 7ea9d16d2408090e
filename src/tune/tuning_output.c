// What a search leaves on the disk, under DeepSpeed's names: in one directory, or in two that
// the file names.
#include "base/file.h"
#include "base/json_writer.h"
#include "tune/tuning.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define DIRECTORY "tuned"         // of everything, where neither options nor file say one
#define EXPERIMENTS "experiments" // in it
#define TUNED "tuned.json"
#define OPTIMAL "ds_config_optimal.json"
#define COMMAND "cmd_optimal.txt"
#define TABLE "summary.txt"
#define SUMMARY "summary.json"
#define EXPERIMENT "exp_%03d.json" // by its number

static zero_status refuse_earlier_search(const char *directory, const char *name, zero_error *error)
{
    return zr_fail(error, ZERO_ERR_USAGE,
                   "\"%s\" has %s of an earlier search, and autotuning.overwrite is false",
                   directory, name);
}

static bool is_experiment(const char *name)
{
    char own[40];
    int number = 0;
    if (sscanf(name, "exp_%d", &number) != 1 || number < 0)
        return false;
    snprintf(own, sizeof own, EXPERIMENT, number);
    return strcmp(name, own) == 0;
}

// Goes through the experiments of an earlier search: refuses if there are any and they stay, or
// removes them.
static zero_status visit_experiments(const zr_tuning *t, bool remove, zero_error *error)
{
    DIR *entries = opendir(t->exps_dir);
    zero_status status = ZERO_OK;
    if (!entries)
        return ZERO_OK; // the first write says what is wrong
    for (struct dirent *entry; status == ZERO_OK && (entry = readdir(entries));) {
        if (!is_experiment(entry->d_name))
            continue;
        if (!t->settings.overwrite)
            status = refuse_earlier_search(t->exps_dir, entry->d_name, error);
        else if (remove && unlinkat(dirfd(entries), entry->d_name, 0))
            status = zr_fail_errno(error, ZERO_ERR_IO, errno, "cannot remove \"%s/%s\"",
                                   t->exps_dir, entry->d_name);
    }
    closedir(entries);
    return status;
}

zero_status zr_tuning_open_files(zr_tuning *t, zero_error *error)
{
    const char *asked = t->options->out_dir, *said = t->settings.results_dir;
    t->out_dir = asked ? asked : said ? said : DIRECTORY;
    t->exps_dir = !asked && t->settings.exps_dir ? zr_strdup(t->settings.exps_dir, error)
                                                 : zr_sprintf(error, "%s/" EXPERIMENTS, t->out_dir);
    if (!t->exps_dir)
        return ZERO_ERR_MEMORY;
    if (!t->settings.overwrite && zr_path_has(t->out_dir, TUNED))
        return refuse_earlier_search(t->out_dir, TUNED, error);
    ZERO_TRY(zr_directory_create(t->out_dir, error));
    ZERO_TRY(zr_directory_create(t->exps_dir, error));
    return visit_experiments(t, false, error);
}

static void put_text(zr_json_writer *w, const char *key, const char *text)
{
    zr_json_line(w, 1);
    zr_json_text(w, key, text);
}

static void put_seconds(zr_json_writer *w, const char *key, double seconds)
{
    zr_json_line(w, 1);
    zr_json_real(w, key, seconds);
}

static void write_outcome(const zr_trial_answer *trial, zr_json_writer *w)
{
    if (trial->good) {
        put_seconds(w, "seconds", trial->seconds);
        put_seconds(w, "tokens_per_second", trial->token_rate);
        zr_json_line(w, 1);
        zr_json_integer(w, "steps", trial->count);
        zr_json_integer(w, "memory", trial->memory);
    } else {
        put_text(w, "failed", trial->why);
    }
    put_seconds(w, "wall_seconds", trial->wall);
}

// config: what the experiment was run with, as JSON.
static void write_experiment(int number, const zr_run_candidate *c, const zr_trial_answer *trial,
                             const char *config, zr_buffer *out)
{
    char name[200];
    zr_json_writer w = zr_json_writer_on(out, ZR_JSON_SPACED);
    zr_candidate_text(c, name, sizeof name);
    zr_json_begin_object(&w, NULL);
    zr_json_integer(&w, "exp_id", number);
    put_text(&w, "name", name);
    zr_json_line(&w, 1);
    zr_json_integer(&w, "ranks", c->ranks);
    zr_json_integer(&w, "threads", c->threads);
    put_seconds(&w, "predicted_seconds", c->step.seconds);
    put_seconds(&w, "predicted_low", c->step.low);
    put_seconds(&w, "predicted_high", c->step.high);
    zr_json_line(&w, 1);
    zr_json_integer(&w, "predicted_memory", c->memory);
    write_outcome(trial, &w);
    zr_json_line(&w, 1);
    zr_json_verbatim(&w, "ds_config", config);
    zr_json_finish(&w);
}

zero_status zr_tuning_write_experiment(zr_tuning *t, int finalist, const zr_trial_answer *trial,
                                       zero_error *error)
{
    const zr_run_candidate *c = zr_tuning_candidate(t, finalist);
    char file[40];
    if (t->experiments == 0) // those of an earlier search stay until there are others
        ZERO_TRY(visit_experiments(t, true, error));
    char *config = zr_tuning_file_of(&t->file, c, true, error);
    if (!config)
        return ZERO_ERR_MEMORY;
    zr_buffer out = {0};
    snprintf(file, sizeof file, EXPERIMENT, t->experiments);
    write_experiment(t->experiments++, c, trial, config, &out);
    zr_free(config);
    return zr_file_write_text_in(t->exps_dir, file, &out, error);
}

static zero_status write_reports(zr_tuning *t, zero_error *error)
{
    zr_buffer command = {0}, table = {0}, summary = {0};
    zr_tuning_command(t, &command);
    ZERO_TRY(zr_file_write_text_in(t->out_dir, COMMAND, &command, error));
    zr_tuning_table(t, &table);
    ZERO_TRY(zr_file_write_text_in(t->out_dir, TABLE, &table, error));
    zr_tuning_json(t, &summary);
    return zr_file_write_text_in(t->out_dir, SUMMARY, &summary, error);
}

zero_status zr_tuning_write_answer(zr_tuning *t, zero_error *error)
{
    char *config = zr_tuning_file_of(&t->file, zr_tuning_candidate(t, t->best), false, error);
    if (!config)
        return ZERO_ERR_MEMORY;
    zero_status status = zr_file_write_in(t->out_dir, TUNED, config, strlen(config), error);
    if (status == ZERO_OK)
        status = zr_file_write_in(t->out_dir, OPTIMAL, config, strlen(config), error);
    zr_free(config);
    ZERO_TRY(status);
    return write_reports(t, error);
}
