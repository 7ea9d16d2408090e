// The trainings of a comparison: every way that fits, one after another, in rounds, so that
// changes of the machine affect all of them.
#include "tune/comparison.h"

#include "base/file.h"

#include <stdio.h>
#include <string.h>

enum { LEAST_TEXT = 1 << 18, BATCHES_OF_TEXT = 8, FIXED_ARGUMENTS = 11, LINE_WORDS = 12 };
#define DEADLINE 600.0 // seconds of a training

// ---- the text

// Makes words up, so that no file has to be there. Every token of it is a letter, a space, a full
// stop or the end of a line.
static void write_words(int64_t bytes, zr_buffer *out)
{
    static const char *const syllables[] = {"ba", "do", "ri", "ne", "lum", "ka", "ser", "to"};
    for (int64_t word = 0; (int64_t)out->length < bytes && !out->failed; word++) {
        bool ends = word % LINE_WORDS == LINE_WORDS - 1;
        uint64_t number = (uint64_t)word * 2654435761u;
        zr_buffer_printf(out, "%s%s%s%s", syllables[number >> 8 & 7], syllables[number >> 16 & 7],
                         syllables[number >> 24 & 7], ends ? ".\n" : " ");
    }
}

static zero_status make_text(zr_comparison *c, zero_error *error)
{
    zr_buffer words = {0};
    if (c->options->data_count)
        return ZERO_OK;
    ZERO_TRY(zr_trial_scratch(NULL, &c->scratch, error));
    c->made = zr_sprintf(error, "%s/words.txt", c->scratch);
    if (!c->made)
        return ZERO_ERR_MEMORY;
    write_words(ZR_MAX(BATCHES_OF_TEXT * c->batch.samples * c->subject.seq, LEAST_TEXT), &words);
    return zr_file_write_text(c->made, &words, error);
}

// ---- one training

typedef struct command { // flags of a training, in addition to its configuration
    const char **words;  // NULL-terminated
    int count;
    char seq[24], tensor[16], pipeline[16];
} command;

static void add_pair(command *command, const char *name, const char *value)
{
    command->words[command->count++] = name;
    command->words[command->count++] = value;
}

static zero_status make_command(const zr_comparison *c, const zr_way *way, command *out,
                                zero_error *error)
{
    const zero_compare_options *options = c->options;
    size_t most = (size_t)(FIXED_ARGUMENTS + options->data_count);
    *out = (command){.words = zr_alloc(most * sizeof *out->words, error)};
    if (!out->words)
        return ZERO_ERR_MEMORY;
    snprintf(out->seq, sizeof out->seq, "%lld", (long long)c->subject.seq);
    snprintf(out->tensor, sizeof out->tensor, "%d", way->tensor);
    snprintf(out->pipeline, sizeof out->pipeline, "%d", way->stages);
    add_pair(out, options->new_spec ? "--new" : "--model", c->subject.name);
    add_pair(out, "--seq", out->seq);
    add_pair(out, "--tensor", out->tensor);
    add_pair(out, "--pipeline", out->pipeline);
    add_pair(out, "--data", c->made ? c->made : options->data[0]);
    for (int i = 1; i < options->data_count; i++)
        out->words[out->count++] = options->data[i];
    return ZERO_OK;
}

// Adds the steps of a round to those of the rounds before.
static void add_round(const zr_trial_answer *round, zr_trial_answer *all)
{
    int room = ZR_TRIAL_STEPS - all->count, count = ZR_MIN(round->count, room);
    memcpy(all->at + all->count, round->at, (size_t)count * sizeof *all->at);
    all->count += count;
    all->good = true;
    all->tokens = round->tokens;
    all->memory = ZR_MAX(all->memory, round->memory);
    for (int axis = 0; axis < ZERO_AXIS_COUNT; axis++)
        all->exchanged[axis] = ZR_MAX(all->exchanged[axis], round->exchanged[axis]);
    zr_trial_summarize(all);
}

static zero_status train_one_way(zr_comparison *c, zr_compare_row *row, zero_error *error)
{
    command command;
    ZERO_TRY(make_command(c, &row->way, &command, error));
    int64_t steps = c->options->steps ? c->options->steps : ZR_COMPARE_STEPS;
    const zr_trial_question question = {.program = c->options->program,
                                        .arguments = command.words,
                                        .config = row->text,
                                        .ranks = c->ranks,
                                        .threads = c->threads,
                                        .steps = ZR_COMPARE_SKIPPED + steps,
                                        .skipped = ZR_COMPARE_SKIPPED,
                                        .deadline = DEADLINE,
                                        .stop = c->options->stop};
    zr_trial_answer round;
    zero_status status = zr_trial_run(&question, &round, error);
    zr_free(command.words);
    if (status != ZERO_OK)
        return status;
    if (round.good)
        add_round(&round, &row->measured);
    else
        snprintf(row->why, sizeof row->why, "%s", round.why);
    return ZERO_OK;
}

// ---- all of them

static zero_status train_each_way(zr_comparison *c, int round, zero_error *error)
{
    for (int i = 0; i < c->count; i++) {
        zr_compare_row *row = &c->rows[i];
        if (!row->fits || row->why[0])
            continue;
        zr_log(&c->options->logger, ZERO_LOG_INFO, "round %d of %d: %s", round + 1,
               ZR_COMPARE_ROUNDS, row->way.name);
        ZERO_TRY(train_one_way(c, row, error));
    }
    return ZERO_OK;
}

// If no way can train, because data are missing for example, the comparison fails.
static zero_status check_any_trains(const zr_comparison *c, zero_error *error)
{
    const zr_compare_row *failed = NULL;
    for (int i = 0; i < c->count; i++) {
        const zr_compare_row *row = &c->rows[i];
        if (row->measured.count)
            return ZERO_OK;
        if (row->fits && !failed)
            failed = row;
    }
    return failed ? zr_fail(error, ZERO_ERR_USAGE, "no way could be trained; %s: %s",
                            failed->way.name, failed->why)
                  : ZERO_OK;
}

static zero_status run_training_rounds(zr_comparison *c, zero_error *error)
{
    for (int round = 0; round < ZR_COMPARE_ROUNDS; round++) {
        ZERO_TRY(train_each_way(c, round, error));
        ZERO_TRY(check_any_trains(c, error));
    }
    return ZERO_OK;
}

zero_status zr_compare_measure(zr_comparison *c, zero_error *error)
{
    zero_status status = make_text(c, error);
    if (status == ZERO_OK)
        status = run_training_rounds(c, error);
    if (c->scratch && zr_directory_remove(c->scratch, NULL) != ZERO_OK)
        zr_log(&c->options->logger, ZERO_LOG_WARNING, "%s: cannot be removed", c->scratch);
    return status;
}
