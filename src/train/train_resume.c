// Which checkpoint a run goes on from. Called by train.c, before and after the lock of --out.
#include "base/crc32c.h"
#include "base/file.h"
#include "base/json.h"
#include "checkpoint/manifest.h"
#include "checkpoint/state_check.h"
#include "comm/agree.h"
#include "files/run_directory.h"
#include "files/training_checkpoint.h"
#include "train/train.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CONFIG = 1 << 24 }; // bytes

static int64_t integer_in(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

enum { RESUMES = 3, DECAY = 4, FORMULAS = 7, FACTS = 9 }; // after the batch's; from DECAY on: zr_decay_before, whether its value is known, and the bits of that; from FORMULAS
// on: zr_train's keeps_loss_mean and keeps_rate_0

// Which tensors the configuration of a checkpoint decays, and, of a run of DeepSpeed or one that has kept its value, with what.
static void read_decay(const json_t *state, int64_t facts[3])
{
    const json_t *config = json_object_get(state, "config"), *all = json_object_get(json_object_get(config, "libzero"), "decay_all");
    facts[0] = !all ? ZR_DECAY_UNKNOWN : json_is_true(all) ? ZR_DECAY_ALL : json_is_false(all) ? ZR_DECAY_MATRICES : ZR_DECAY_OTHER;
    const json_t *decay = json_object_get(json_object_get(json_object_get(config, "optimizer"), "params"), "weight_decay");
    bool kept = json_object_get(json_object_get(state, "lineage"), "imported_from") || json_is_true(json_object_get(json_object_get(state, "train"), "keeps_weight_decay"));
    double value = json_number_value(decay);
    facts[1] = kept && json_is_number(decay) && value >= 0;
    memcpy(&facts[2], &value, sizeof value);
}

// Earlier programs knew these formulas alone, and wrote no key for them.
static void read_formulas(const json_t *state, int64_t facts[2])
{
    const json_t *own = json_object_get(json_object_get(state, "config"), "libzero");
    const char *mean = json_string_value(json_object_get(own, "loss_mean"));
    bool ours = json_object_get(state, "train");
    facts[0] = ours && (!mean || !strcmp(mean, "micro_batch"));
    facts[1] = ours && !json_is_true(json_object_get(own, "schedule_from_one"));
}

// Samples of a step, of a micro-batch, and ranks, and the decay: of the checkpoint, or of a run that ended before its first one (its config.json).
static void read_batch(const char *checkpoint, const char *config, int64_t facts[FACTS])
{
    zr_manifest manifest;
    json_t *root = NULL;
    if (checkpoint && zr_manifest_read(checkpoint, &manifest, NULL) == ZERO_OK) {
        const json_t *more = json_object_get(manifest.state, "train");
        bool possible = zr_state_check(manifest.state, checkpoint, NULL) == ZERO_OK; // else it is refused when it is loaded
        facts[0] = possible ? integer_in(manifest.state, "train_batch_size") : 0;
        facts[1] = possible ? integer_in(more, "micro_batch") : 0;
        facts[2] = possible ? integer_in(more, "ranks") : 0;
        read_decay(manifest.state, &facts[DECAY]);
        read_formulas(manifest.state, &facts[FORMULAS]);
        zr_manifest_free(&manifest);
    } else if (!checkpoint && zr_path_exists(config) && zr_json_load(config, MOST_CONFIG, &root, NULL) == ZERO_OK) {
        facts[0] = integer_in(root, "train_batch_size");
        facts[1] = integer_in(root, "train_micro_batch_size_per_gpu");
        facts[2] = integer_in(json_object_get(json_object_get(root, "libzero"), "run"), "ranks");
        json_decref(root);
    }
}

// Rank 0, before the lock: another run may still be writing, so nothing is removed, and nothing said.
static zero_status look_ahead(zr_train *train, int64_t facts[FACTS], zero_error *error)
{
    const char *out = train->options->out_dir;
    char *config = zr_sprintf(error, "%s/config.json", out), *newest = NULL;
    zero_status status = config ? zr_newest_whole(out, &newest, error) : ZERO_ERR_MEMORY;
    if (status == ZERO_OK)
        read_batch(newest, config, facts);
    train->has_checkpoint = newest;
    zr_free(newest);
    zr_free(config);
    return status;
}

// A run that zero_run starts again goes on with what it wrote itself; what another run has left there it replaces, or refuses, as at first.
static void choose_way(zr_train *train)
{
    const zero_train_options *options = train->options;
    bool ours = options->restarted && options->job && zr_outputs_are_of(options->out_dir, options->job);
    train->resume = !options->dry_run && (options->resume || ours);
}

zero_status zr_train_foresee(zr_train *train, zero_error *error)
{
    int64_t facts[FACTS] = {0};
    zero_status status = ZERO_OK;
    if (train->comm->rank == 0) {
        choose_way(train);
        status = train->resume ? look_ahead(train, facts, error) : ZERO_OK;
        facts[RESUMES] = train->resume;
    }
    ZERO_TRY(zr_comm_agree(train->comm, status, error));
    ZERO_TRY(zr_comm_broadcast(train->comm, facts, sizeof facts, 0, error));
    train->before.batch = facts[0];
    train->before.micro_batch = facts[1];
    train->before.ranks = facts[2];
    train->before.decay = (zr_decay_before)facts[DECAY];
    train->before.has_weight_decay = facts[DECAY + 1];
    memcpy(&train->before.weight_decay, &facts[DECAY + 2], sizeof train->before.weight_decay);
    train->keeps_loss_mean = facts[FORMULAS];
    train->keeps_rate_0 = facts[FORMULAS + 1];
    train->resume = facts[RESUMES];
    return ZERO_OK;
}

static zero_status read_facts(zr_train *train, const char *path, json_t *state, zero_error *error)
{
    const json_t *facts = json_object_get(state, "train"), *best = json_object_get(facts, "best");
    int64_t seq = integer_in(facts, "seq"), seed = integer_in(state, "seed");
    if (!facts) // of another program: it has no order of the data, ours begins at its step
        return ZERO_OK;
    if (seq != train->seq || seed != train->seed)
        return zr_fail(error, ZERO_ERR_CONFIG, "the checkpoint \"%s\" is of windows of %lld tokens and seed %lld, this run has %lld and %lld: it would read other text from here on", path,
                       (long long)seq, (long long)seed, (long long)train->seq, (long long)train->seed);
    const char *data = json_string_value(json_object_get(facts, "data"));
    if (data && strcmp(data, train->data_hash))
        return zr_fail(error, ZERO_ERR_CONFIG, "the checkpoint \"%s\" was made with text (and a tokenizer) whose hash is %s, that of this run is %s: it would go on with other text", path, data, train->data_hash);
    train->first_lines = integer_in(facts, "lines");
    train->owed = json_is_true(json_object_get(facts, "owed"));
    train->best = json_is_number(best) ? json_number_value(best) : INFINITY;
    train->best_windows = integer_in(facts, "best_windows");
    return ZERO_OK;
}

// The path that rank 0 has found, on every rank; "" where there is none.
static zero_status share_path(const zr_train *train, const char *found, char out[4096], zero_error *error)
{
    memset(out, 0, 4096);
    if (found)
        snprintf(out, 4096, "%s", found);
    return zr_comm_broadcast(train->comm, out, 4096, 0, error);
}

typedef struct candidates { // rank 0
    zr_checkpoints found;
    int next; // that has not been looked at
} candidates;

static zero_status list_candidates(const zr_train *train, candidates *c, zero_error *error)
{
    const char *out = train->options->out_dir;
    ZERO_TRY(zr_checkpoints_list(out, &c->found, error));
    if (c->found.count)
        zr_check_latest(out, &c->found, &train->logger);
    return ZERO_OK;
}

// The next that looks whole, on every rank; "" where there is none.
static zero_status next_candidate(const zr_train *train, candidates *c, char path[4096], zero_error *error)
{
    const char *out = train->options->out_dir;
    char *found = NULL;
    for (; train->comm->rank == 0 && c->next < c->found.count && !found; c->next++) {
        int64_t step = c->found.steps[c->next];
        if (zr_checkpoint_is_whole(out, step))
            found = zr_checkpoint_path(out, step, error);
        else
            zr_log(&train->logger, ZERO_LOG_WARNING, "the checkpoint \"%s/" ZR_CHECKPOINTS "/" ZR_CHECKPOINT_NAME "\" is passed over: it is not intact", out, (long long)step);
    }
    zero_status status = share_path(train, found, path, error);
    zr_free(found);
    return status;
}

// The newest that can be read. One that is damaged is passed over, but a run whose checkpoints all are does not begin anew by itself.
static zero_status load_newest(zr_train *train, candidates *c, char path[4096], json_t **state, zero_error *error)
{
    zero_error first = {0};
    *state = NULL;
    for (;;) {
        ZERO_TRY(next_candidate(train, c, path, error));
        if (!path[0])
            break;
        zero_status status = zr_checkpoint_load(train->engine, path, state, error);
        if (status != ZERO_ERR_DATA)
            return status;
        zr_log(&train->logger, ZERO_LOG_WARNING, "the checkpoint \"%s\" is passed over: %s", path, error->message);
        first = first.status == ZERO_OK ? *error : first;
    }
    if (first.status != ZERO_OK) {
        *error = first;
        return first.status;
    }
    int64_t count = c->found.count; // rank 0's
    ZERO_TRY(zr_comm_agree_on_largest(train->comm, &count, error));
    if (count)
        return zr_fail(error, ZERO_ERR_DATA, "none of the %lld checkpoints of \"%s\" is intact: --overwrite starts over", (long long)count, train->options->out_dir);
    return ZERO_OK;
}

static zero_status go_on(zr_train *train, candidates *c, zero_error *error)
{
    char path[4096];
    json_t *state;
    int64_t none;
    ZERO_TRY(zr_comm_agree(train->comm, train->comm->rank == 0 ? list_candidates(train, c, error) : ZERO_OK, error));
    ZERO_TRY(load_newest(train, c, path, &state, error));
    if (!path[0]) {
        zr_log(&train->logger, ZERO_LOG_INFO, "resume   there is no checkpoint yet: starting from the beginning");
        return ZERO_OK;
    }
    zero_position(train->engine, &train->first_step, &none);
    zero_status status = read_facts(train, path, state, error);
    json_decref(state);
    if (status == ZERO_OK && train->first_step > train->steps)
        status = zr_fail(error, ZERO_ERR_CONFIG, "the checkpoint \"%s\" is of step %lld, this run ends after step %lld (--steps)", path, (long long)train->first_step, (long long)train->steps);
    ZERO_TRY(zr_comm_agree(train->comm, status, error));
    zr_log(&train->logger, ZERO_LOG_INFO, "resume   from step %lld of \"%s\"", (long long)train->first_step, path);
    train->saved_step = train->first_step;
    if (train->comm->rank == 0)
        zr_train_announce_checkpoint(train); // a run that was killed may not have come to it
    return ZERO_OK;
}

zero_status zr_train_resume(zr_train *train, zero_error *error)
{
    candidates c = {0};
    zero_status status = go_on(train, &c, error);
    zr_checkpoints_free(&c.found);
    return status;
}
