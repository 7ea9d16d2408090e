// zero_verify: makes the steps between two checkpoints of a run once more, with the training's own
// code, from the configuration that the run resolved.
#include "base/errors.h"
#include "comm/agreement.h"
#include "checkpoint/receipt.h"
#include "checkpoint/run_directory.h"
#include "checkpoint/training_checkpoint.h"
#include "model/architecture.h"
#include "setup/backend_choice.h"
#include "train/training.h"
#include "train/verify_state.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// Returns the line of a step, and moves the reader to after it; NULL if the run has none.
static json_t *line_of(zr_verify *v, int64_t step)
{
    json_t *line;
    while (zr_metrics_reader_next(&v->metrics, &line, &v->unread) == ZERO_OK && line) {
        if (json_object_get(line, "loss") &&
            json_integer_value(json_object_get(line, "step")) == step)
            return line;
        json_decref(line);
    }
    return NULL;
}

// Earlier programs wrote the loss 0 of a step without targets, which has none.
static bool verify_run_is_same(const json_t *line, const char *key, double value)
{
    const json_t *written = json_object_get(line, key);
    return json_is_number(written) ? json_number_value(written) == (isnan(value) ? 0 : value)
                                   : !isfinite(value);
}

// Returns what the run's line says of a key, for the report.
static zr_value written_value(const json_t *line, const char *key)
{
    const json_t *written = json_object_get(line, key);
    return json_is_number(written) ? zr_real(json_number_value(written)) : zr_both("0", NULL);
}

static void report_step(const zr_verify *v, const json_t *line, const zero_event *event)
{
    zr_report_begin(v->report, "first_difference");
    ZR_SENTENCE(v->report, NULL,
                "step {step}: the run has loss {loss:.17g}, norm {norm:.17g}; replayed: "
                "{replayed_loss:.17g}, {replayed_norm:.17g}",
                zr_integer(event->step), written_value(line, "loss"),
                written_value(line, "grad_norm"), zr_real(event->loss), zr_real(event->grad_norm));
    zr_report_end(v->report);
}

static int compare_step(void *user, const zero_event *event)
{
    zr_verify *v = user;
    if (event->kind != ZERO_EVENT_STEP || v->wrong_step)
        return 0;
    json_t *line = line_of(v, event->step);
    v->compared++;
    // This is reported after the replay, because one rank alone cannot leave it.
    if (v->unread.status != ZERO_OK)
        v->wrong_step = event->step;
    else if (!line || !verify_run_is_same(line, "loss", event->loss) ||
             !verify_run_is_same(line, "grad_norm", event->grad_norm)) {
        v->wrong_step = event->step;
        report_step(v, line, event);
    }
    json_decref(line);
    return 0;
}

static int verify_run_threads_of(const zr_verify *v)
{
    return v->options->threads ? v->options->threads : v->config.run.threads;
}

// Returns the options with which the run was made, but for what the caller says is elsewhere now.
static zero_train_options verify_run_options_of(zr_verify *v)
{
    static const zero_override former_mean = {"libzero.loss_mean", "micro_batch", "zero verify"};
    const zero_verify_options *given = v->options;
    const zr_run_record *made = &v->config.run;
    return (zero_train_options){
        .struct_size = sizeof(zero_train_options),
        .new_spec = made->new_spec,
        .model_dir = made->model,
        .data = given->data ? given->data : made->data,
        .data_count = given->data ? given->data_count : made->data_count,
        .val = made->val,
        .field = made->field,
        .chat = made->chat,
        .chat_date = made->chat_date,
        .tokenizer = made->tokenizer_of_model ? NULL : made->tokenizer,
        .config_path = v->config.path,
        .seq = made->seq,
        .steps = made->steps,
        .seed = -1,
        .eval_every = -1,
        .threads = verify_run_threads_of(v),
        .overrides = &former_mean,
        // Earlier programs took the mean over micro-batches.
        .override_count = v->config.of_earlier_program,
        .backend = v->backend,
        .allow_change = made->allow_change,
        .dry_run = 1,
        .ignore_unused = 1, // the weights come from the checkpoint
        .logger = given->logger,
        .progress = compare_step,
        .progress_user = v,
    };
}

static zero_status check_same_text(const zr_verify *v, const char *data_hash, zero_error *error)
{
    const char *hash = v->config.run.data_hash;
    if (!hash || strcmp(hash, data_hash))
        return zr_fail(error, ZERO_ERR_DATA,
                       "the text (or its tokenizer) is not the one that \"%s\" was made with: its "
                       "hash is %s, not %s",
                       v->options->run, data_hash, hash ? hash : "known");
    return ZERO_OK;
}

static int64_t elements_of(const zr_manifest_file *file)
{
    int64_t elements = 0;
    for (int t = 0; file && t < file->tensor_count; t++) {
        int64_t count = 1;
        for (int d = 0; d < file->tensors[t].dims; d++)
            count *= file->tensors[t].shape[d];
        elements += count;
    }
    return elements;
}

static void report_states(const zr_verify *v, const zr_manifest *manifest,
                          const zr_state_vectors *vectors, const zr_states_difference *d,
                          bool same_progress)
{
    zr_report *r = v->report;
    int64_t elements = 0;
    zr_report_begin(r, "states");
    zr_report_begin_list(r, "vectors");
    for (int i = 0; i < vectors->count; i++) {
        char file[ZERO_MESSAGE_BYTES];
        snprintf(file, sizeof file, "%s.safetensors", vectors->of[i].name);
        elements += elements_of(zr_manifest_find(manifest, file));
        zr_report_json_only(r, NULL, zr_text(vectors->of[i].name));
    }
    zr_report_end(r);
    zr_report_json_only(r, "elements", zr_integer(elements));
    zr_report_json_only(r, "same_progress", zr_flag(same_progress));
    if (d->elements)
        ZR_SENTENCE(r, NULL,
                    "step {}: {first_difference.vector} \"{first_difference.tensor}\" is the first "
                    "of {differing} elements in all that differ, by {largest_difference:.3g} at "
                    "most",
                    zr_integer(v->result->to), zr_text(d->vector), zr_text(d->tensor),
                    zr_integer(d->elements), zr_real(d->largest));
    else
        zr_report_json_only(r, "differing", zr_integer(0));
    if (!d->elements && !same_progress)
        zr_report_line(r, NULL, "step %lld: the count of updates or the loss scale differs",
                       (long long)v->result->to);
    zr_report_end(r);
}

static zero_status compare_states(zr_verify *v, zero_engine *engine, const zr_manifest *manifest,
                                  zero_error *error)
{
    zr_state_vectors vectors;
    zr_states_difference d = {0};
    json_t *state = NULL;
    zero_status status =
        zr_checkpoint_describe(engine, ZR_VIEW_COMPARES, v->to, NULL, &vectors, &state, error);
    if (status == ZERO_OK)
        status = zr_states_compare(v->comm, v->to, manifest, vectors.of, vectors.count, &d, error);
    bool same = status == ZERO_OK && zr_checkpoint_is_same_progress(state, manifest->state);
    if (status == ZERO_OK)
        report_states(v, manifest, &vectors, &d, same);
    v->result->confirmed = same && !d.elements && v->result->confirmed;
    json_decref(state);
    zr_state_vectors_free(&vectors);
    return status;
}

// Reads the last checkpoint and checks that this training's model made it. The first one may be
// from before an intended change of the model, so it is not compared.
static zero_status read_end(const zr_verify *v, const zero_engine *engine, zr_manifest *manifest,
                            zero_error *error)
{
    zr_lm_difference d;
    ZERO_TRY(zr_manifest_read(v->to, manifest, error));
    ZERO_TRY(zr_checkpoint_compare_model(engine, v->to, manifest->state, 0, &d, error));
    if (!d.found)
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_CONFIG,
                   "the checkpoint \"%s\" is of a model whose \"%s\" is %s, this training's has "
                   "%s: only steps that were made as the run's config.json says can be replayed",
                   v->to, d.key, d.values[0], d.values[1]);
}

static zero_status replay_steps(zr_verify *v, zr_train *train, zero_error *error)
{
    int64_t wrong;
    ZERO_TRY(zr_checkpoint_load(train->run.engine, v->from, NULL, error));
    train->run.first_step = v->result->from;
    zr_report_begin(v->report, "steps");
    zero_status status = zr_train_loop(train, error);
    zr_report_json_only(v->report, "replayed", zr_integer(v->result->to - v->result->from));
    zr_report_json_only(v->report, "compared", zr_integer(v->compared));
    zr_report_end(v->report);
    ZERO_TRY(status);
    if (v->unread.status != ZERO_OK)
        *error = v->unread;
    ZERO_TRY(zr_comm_agree(v->comm, v->unread.status, error));
    wrong = v->wrong_step;
    ZERO_TRY(zr_comm_agree_on_largest(v->comm, &wrong, error));
    v->result->confirmed = wrong == 0;
    return ZERO_OK;
}

static zero_status compare_end(zr_verify *v, zero_engine *engine, const zr_manifest *manifest,
                               zero_error *error)
{
    // Without that file the checkpoint was saved with every update made.
    bool all_made = !zr_manifest_find(manifest, "parameters.safetensors");
    if (all_made)
        ZERO_TRY(zero_finish_update(engine, error));
    return compare_states(v, engine, manifest, error);
}

static void begin_doubt(zr_report *r, const char *about)
{
    zr_report_begin(r, NULL);
    zr_report_json_only(r, "about", zr_text(about));
}

// Reports what may be the reason that a replay got other bits.
static void report_doubts(const zr_verify *v)
{
    zr_report *r = v->report;
    int made_with = v->config.run.threads;
    if (verify_run_threads_of(v) != made_with) {
        begin_doubt(r, "threads");
        ZR_SENTENCE(r, NULL,
                    "threads per rank were {run} when the run was made, and {replay} now, which "
                    "may round differently: only a replay with {} can tell",
                    zr_integer(made_with), zr_integer(verify_run_threads_of(v)),
                    zr_integer(made_with));
        zr_report_end(r);
    }
    if (!strcmp(v->backend, "cpu")) {
        char here[256];
        zr_said_instructions(v->backend, here, sizeof here, NULL);
        begin_doubt(r, "instructions");
        ZR_SENTENCE(r, NULL,
                    "the run does not say which of the AVX-512 paths made it, and the replay took "
                    "this machine's ({replay}): another one rounds differently",
                    zr_text(here));
        zr_report_end(r);
    }
    if (v->resumed) {
        begin_doubt(r, "resumed");
        ZR_SENTENCE(r, NULL,
                    "the run was resumed from step {from_step}, and its config.json is of what "
                    "came then: steps before that which were made with other options (rate, "
                    "precision, threads) replay otherwise",
                    zr_integer(v->resumed));
        zr_report_end(r);
    }
}

static void report_outcome(const zr_verify *v)
{
    const zero_verify_result *result = v->result;
    zr_report *r = v->report;
    zr_report_json_only(r, "confirmed", zr_flag(result->confirmed != 0));
    zr_report_json_only(r, "from_step", zr_integer(result->from));
    ZR_SENTENCE(r, NULL,
                result->confirmed
                    ? "confirmed: steps {} to {to_step}, replayed on {ranks} rank{}, have the same "
                      "losses and states, bit for bit"
                    : "not confirmed: steps {} to {to_step}, replayed on {ranks} rank{}, are not "
                      "what the run has kept",
                zr_integer(result->from + 1), zr_integer(result->to), zr_integer(v->comm->size),
                zr_plural(v->comm->size));
    zr_report_json_only(r, "threads", zr_integer(verify_run_threads_of(v)));
    zr_report_json_only(r, "backend", zr_text(v->backend));
    zr_report_begin_list(r, "doubts");
    if (!result->confirmed)
        report_doubts(v);
    zr_report_end(r);
}

static zero_status replay(zr_verify *v, zr_train *train, zero_error *error)
{
    zr_manifest manifest = {0};
    ZERO_TRY(zr_train_make_engine(train, error));
    zero_status status =
        zr_comm_agree(v->comm, read_end(v, train->run.engine, &manifest, error), error);
    if (status == ZERO_OK)
        status = replay_steps(v, train, error);
    if (status == ZERO_OK)
        status = compare_end(v, train->run.engine, &manifest, error);
    zr_manifest_free(&manifest);
    if (status == ZERO_OK)
        report_outcome(v);
    return status;
}

// Reads again what the run was made from, compares it, and then makes the steps.
static zero_status train_again(zr_verify *v, zr_train *train, zero_error *error)
{
    ZERO_TRY(zr_comm_agree(v->comm, zr_train_prepare(train, error), error));
    ZERO_TRY(zr_train_compare_inputs(train, error));
    ZERO_TRY(zr_train_hash_data(train, error));
    ZERO_TRY(zr_comm_agree(v->comm, check_same_text(v, train->subject.data_hash, error), error));
    return replay(v, train, error);
}

static zero_status check_receipt(const zr_verify *v, const char *model, zero_error *error)
{
    json_t *receipt = NULL;
    char *directory = zr_sprintf(error, "%s/%s", v->options->run, model);
    zero_status status = directory ? zr_receipt_check(directory, &receipt, error) : ZERO_ERR_MEMORY;
    if (status == ZERO_OK && receipt) {
        zr_report_begin(v->report, NULL);
        ZR_SENTENCE(v->report, NULL,
                    "receipt of {model}: the weights are those of step {step} that it names",
                    zr_text(model),
                    zr_integer(json_integer_value(json_object_get(receipt, "step"))));
        zr_report_end(v->report);
    }
    json_decref(receipt);
    zr_free(directory);
    return status;
}

// Checks the models of the run against their receipts. Rank 0 does it.
static zero_status check_receipts(const zr_verify *v, zero_error *error)
{
    static const char *const names[] = {ZR_LAST_MODEL, ZR_RUN_ADAPTER_DIRECTORY, ZR_BEST_MODEL};
    zero_status status = ZERO_OK;
    zr_report_begin_list(v->report, "receipts");
    for (int i = 0; i < ZR_COUNT(names) && v->comm->rank == 0 && status == ZERO_OK; i++)
        status = check_receipt(v, names[i], error);
    zr_report_end(v->report);
    return status;
}

static zero_status begin_verification(zr_verify *v, zero_error *error)
{
    if (v->comm->rank == 0 && !(v->report = zr_report_create(error)))
        return ZERO_ERR_MEMORY;
    zr_report_json_only(v->report, "run", zr_text(v->options->run));
    return zr_verify_open(v, error);
}

static zero_status verify_on_ranks(zr_verify *v, zero_error *error)
{
    ZERO_TRY(zr_comm_agree(v->comm, begin_verification(v, error), error));
    ZERO_TRY(zr_comm_agree(v->comm, check_receipts(v, error), error));
    const zero_train_options options = verify_run_options_of(v);
    zr_train train;
    zr_train_init(&train, v->comm, &options, v->result->to);
    zero_status status = train_again(v, &train, error);
    zr_train_free(&train);
    return status;
}

zero_status zero_verify(zero_comm *comm, const zero_verify_options *options,
                        void (*write)(void *user, const char *text), void *user,
                        zero_verify_result *out, zero_error *error)
{
    ZR_NEED(error, comm);
    ZR_NEED(error, options);
    ZR_NEED(error, write);
    ZR_NEED(error, out);
    zero_error local = {0};
    if (!error)
        error = &local;
    if (!options->run)
        return zr_fail(error, ZERO_ERR_USAGE, "zero_verify: options.run is missing");
    if (options->threads < 0)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "zero_verify: %d threads per rank; 0 are as many as made the run",
                       options->threads);
    *out = (zero_verify_result){0};
    zr_verify v = {.comm = comm, .options = options, .result = out};
    zero_status status = verify_on_ranks(&v, error);
    // People read what was found before a failure, too.
    if (v.report && (status == ZERO_OK || !options->json)) {
        zero_status written = zr_report_print(v.report, options->json != 0, write, user,
                                              status == ZERO_OK ? error : NULL);
        status = status == ZERO_OK ? written : status;
    } else {
        zr_report_destroy(v.report);
    }
    zr_run_config_free(&v.config);
    zr_free(v.from);
    zr_free(v.to);
    zr_metrics_reader_close(&v.metrics);
    return status;
}
