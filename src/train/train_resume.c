// Chooses the checkpoint from which a run continues. training.c calls it before and after it locks
// --out.
#include "comm/agreement.h"
#include "checkpoint/run_directory.h"
#include "checkpoint/run_record.h"
#include "checkpoint/training_checkpoint.h"
#include "train/training.h"

#include <stdio.h>
#include <string.h>

// Finds the newest checkpoint on rank 0 before the lock is held. Another run may still be writing,
// so nothing is removed and nothing is reported.
static zero_status peek_at_newest(zr_train_asked *asked, zero_error *error)
{
    const char *out = asked->options->out_dir;
    char *newest = NULL;
    ZERO_TRY(zr_checkpoint_newest_whole(out, &newest, error));
    if (newest)
        zr_run_before_of_checkpoint(newest, &asked->before);
    else
        zr_run_before_read(out, &asked->before);
    zr_run_words_before(out, &asked->before);
    asked->has_checkpoint = newest;
    zr_free(newest);
    return ZERO_OK;
}

// A run that zero_run starts again continues with what it wrote itself. What another run left there
// it replaces or refuses, as at its first start.
static void choose_to_resume(zr_train_asked *asked)
{
    const zero_train_options *options = asked->options;
    bool ours =
        options->restarted && options->job && zr_outputs_are_of(options->out_dir, options->job);
    asked->resume = !options->dry_run && (options->resume || ours);
}

zero_status zr_train_foresee(zr_train_asked *asked, zero_comm *comm, zero_error *error)
{
    zero_status status = ZERO_OK;
    if (comm->rank == 0) {
        choose_to_resume(asked);
        status = asked->resume ? peek_at_newest(asked, error) : ZERO_OK;
    }
    ZERO_TRY(zr_comm_agree(comm, status, error));
    ZERO_TRY(zr_comm_broadcast(comm, &asked->before, sizeof asked->before, 0, error));
    return zr_comm_broadcast(comm, &asked->resume, sizeof asked->resume, 0, error);
}

static zero_status check_checkpoint_matches(zr_train *train, const char *path, json_t *state,
                                            zero_error *error)
{
    zr_run_state facts;
    int64_t seed = json_integer_value(json_object_get(state, "seed"));
    // A checkpoint of another program has no order of the data; ours begins at its step.
    if (!zr_run_state_read(state, &facts))
        return ZERO_OK;
    if (facts.seq != train->resolved.seq || seed != train->resolved.seed)
        return zr_fail(error, ZERO_ERR_CONFIG,
                       "the checkpoint \"%s\" is of windows of %lld tokens and seed %lld, this run "
                       "has %lld and %lld: it would read other text from here on",
                       path, (long long)facts.seq, (long long)seed, (long long)train->resolved.seq,
                       (long long)train->resolved.seed);
    if (facts.data_hash && strcmp(facts.data_hash, train->subject.data_hash))
        return zr_fail(error, ZERO_ERR_CONFIG,
                       "the checkpoint \"%s\" was made with text (and a tokenizer) whose hash is "
                       "%s, that of this run is %s: it would go on with other text%s",
                       path, facts.data_hash, train->subject.data_hash,
                       train->subject.data.documents ? "; runs of earlier programs read records "
                                                       "as --attention causal does"
                                                     : "");
    if (facts.base_hash && strcmp(facts.base_hash, train->subject.base_hash))
        return zr_fail(error, ZERO_ERR_CONFIG,
                       "the checkpoint \"%s\" has adapters of a model whose hash is %s, that of "
                       "\"%s\" is %s: they would go on with another model (--model)",
                       path, facts.base_hash, train->asked.options->model_dir,
                       train->subject.base_hash);
    train->run.first_lines = facts.lines;
    train->run.owed = facts.owed;
    train->run.evals.best = facts.best;
    train->run.evals.best_windows = facts.best_windows;
    return ZERO_OK;
}

// Gives every rank the path that rank 0 has found; "" if there is none.
static zero_status share_path(zero_comm *comm, const char *found, char out[4096], zero_error *error)
{
    memset(out, 0, 4096);
    if (found)
        snprintf(out, 4096, "%s", found);
    return zr_comm_broadcast(comm, out, 4096, 0, error);
}

typedef struct candidates { // rank 0
    zr_checkpoints found;
    int next; // the next one to look at
} candidates;

static zero_status list_candidates(const zr_train *train, candidates *c, zero_error *error)
{
    const char *out = train->asked.options->out_dir;
    ZERO_TRY(zr_checkpoints_list(out, &c->found, error));
    if (c->found.count)
        zr_checkpoint_check_latest(out, &c->found, &train->logger);
    return ZERO_OK;
}

// Finds the next checkpoint that looks whole, for every rank; "" if there is none.
static zero_status next_candidate(const zr_train *train, candidates *c, char path[4096],
                                  zero_error *error)
{
    const char *out = train->asked.options->out_dir;
    char *found = NULL;
    for (; train->comm->rank == 0 && c->next < c->found.count && !found; c->next++) {
        int64_t step = c->found.steps[c->next];
        if (zr_checkpoint_is_whole(out, step))
            found = zr_checkpoint_path(out, step, error);
        else
            zr_log(&train->logger, ZERO_LOG_WARNING,
                   "the checkpoint \"%s/" ZR_CHECKPOINTS "/" ZR_CHECKPOINT_NAME
                   "\" is passed over: it is not intact",
                   out, (long long)step);
    }
    zero_status status = share_path(train->comm, found, path, error);
    zr_free(found);
    return status;
}

// Loads the newest checkpoint that can be read. A damaged one is passed over, but if all are
// damaged the run fails instead of starting over by itself.
static zero_status load_newest(zr_train *train, candidates *c, char path[4096], json_t **state,
                               zero_error *error)
{
    zero_error first = {0};
    *state = NULL;
    for (;;) {
        ZERO_TRY(next_candidate(train, c, path, error));
        if (!path[0])
            break;
        zero_status status = zr_checkpoint_load(train->run.engine, path, state, error);
        if (status != ZERO_ERR_DATA)
            return status;
        zr_log(&train->logger, ZERO_LOG_WARNING, "the checkpoint \"%s\" is passed over: %s", path,
               error->message);
        first = first.status == ZERO_OK ? *error : first;
    }
    if (first.status != ZERO_OK) {
        *error = first;
        return first.status;
    }
    int64_t count = c->found.count; // rank 0's count
    ZERO_TRY(zr_comm_agree_on_largest(train->comm, &count, error));
    if (count)
        return zr_fail(error, ZERO_ERR_DATA,
                       "none of the %lld checkpoints of \"%s\" is intact: --overwrite starts over",
                       (long long)count, train->asked.options->out_dir);
    return ZERO_OK;
}

static zero_status resume_from_newest(zr_train *train, candidates *c, zero_error *error)
{
    char path[4096];
    json_t *state;
    int64_t none;
    ZERO_TRY(zr_comm_agree(
        train->comm, train->comm->rank == 0 ? list_candidates(train, c, error) : ZERO_OK, error));
    ZERO_TRY(load_newest(train, c, path, &state, error));
    if (!path[0]) {
        zr_log(&train->logger, ZERO_LOG_INFO,
               "resume   there is no checkpoint yet: starting from the beginning");
        return ZERO_OK;
    }
    zero_position(train->run.engine, &train->run.first_step, &none);
    zero_status status = check_checkpoint_matches(train, path, state, error);
    json_decref(state);
    if (status == ZERO_OK && train->run.first_step > train->resolved.steps)
        status = zr_fail(
            error, ZERO_ERR_CONFIG,
            "the checkpoint \"%s\" is of step %lld, this run ends after step %lld (--steps)", path,
            (long long)train->run.first_step, (long long)train->resolved.steps);
    ZERO_TRY(zr_comm_agree(train->comm, status, error));
    zr_log(&train->logger, ZERO_LOG_INFO, "resume   from step %lld of \"%s\"",
           (long long)train->run.first_step, path);
    train->run.saves.saved_step = train->run.first_step;
    if (train->comm->rank == 0)
        zr_train_announce_checkpoint(train); // a killed run may have ended before it did this
    return ZERO_OK;
}

zero_status zr_train_resume(zr_train *train, zero_error *error)
{
    candidates c = {0};
    zero_status status = resume_from_newest(train, &c, error);
    zr_checkpoints_free(&c.found);
    return status;
}
