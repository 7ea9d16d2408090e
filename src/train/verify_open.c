// Finds the part of a run that is verified: its two checkpoints, how they were made, and the
// backend with which they can be made again.
#include "train/verify_state.h"

#include "formats/manifest.h"
#include "compute/compute.h"
#include "config/pipeline_spec.h"
#include "checkpoint/run_directory.h"
#include "checkpoint/training_checkpoint.h"
#include "setup/backend_choice.h"

#include <stdio.h>
#include <string.h>

enum { NUMBER_BYTES = 24, WORD_BYTES = 160 };

static zero_status read_run(const char *directory, zr_run_config_file *config, zero_error *error)
{
    ZERO_TRY(zr_run_config_read(directory, config, error));
    return zr_run_config_check(config, error);
}

zero_status zero_verify_ranks(const char *run, int *ranks, zero_error *error)
{
    ZR_NEED(error, run);
    ZR_NEED(error, ranks);
    zr_run_config_file config;
    zero_status status = read_run(run, &config, error);
    if (status == ZERO_OK)
        *ranks = config.run.ranks;
    zr_run_config_free(&config);
    return status;
}

// Chooses the two newest whole checkpoints, or those that the caller names.
static zero_status choose_steps(const zr_verify *v, int64_t steps[2], zero_error *error)
{
    zr_checkpoints found = {0};
    const zero_verify_options *o = v->options;
    zero_status status = zr_checkpoints_list(o->run, &found, error);
    int whole = 0;
    steps[0] = o->from;
    steps[1] = o->to;
    for (int i = 0; i < found.count && status == ZERO_OK; i++) {
        if (!zr_checkpoint_is_whole(o->run, found.steps[i]))
            continue;
        whole++;
        steps[1] = steps[1] ? steps[1] : found.steps[i];
        if (!steps[0] && found.steps[i] < steps[1])
            steps[0] = found.steps[i];
    }
    if (status == ZERO_OK && (steps[0] < 1 || steps[0] >= steps[1]))
        status =
            zr_fail(error, ZERO_ERR_USAGE,
                    "\"%s\" has %d intact checkpoint%s; two are needed, an earlier and a later one "
                    "(found %lld and %lld)",
                    o->run, whole, whole == 1 ? "" : "s", (long long)steps[0], (long long)steps[1]);
    zr_checkpoints_free(&found);
    return status;
}

static zero_status name_checkpoints(zr_verify *v, zero_error *error)
{
    int64_t steps[2];
    ZERO_TRY(choose_steps(v, steps, error));
    v->result->from = steps[0];
    v->result->to = steps[1];
    v->from = zr_checkpoint_path(v->options->run, steps[0], error);
    v->to = zr_checkpoint_path(v->options->run, steps[1], error);
    return v->from && v->to ? ZERO_OK : ZERO_ERR_MEMORY;
}

static zero_status refuse_maker(const zr_verify *v, int64_t step, const char *what,
                                const char *made, const char *said, zero_error *error)
{
    return zr_fail(error, ZERO_ERR_USAGE,
                   "\"%s\" was resumed in another way than step %lld was made: %s %s then, %s in "
                   "its config.json; only steps that were made as that says can be replayed",
                   v->options->run, (long long)step, what, made, said);
}

static zero_status same_number(const zr_verify *v, int64_t step, const char *what, int64_t made,
                               int64_t said, zero_error *error)
{
    char then[NUMBER_BYTES], now[NUMBER_BYTES];
    if (!made || !said || made == said) // one of them does not say
        return ZERO_OK;
    snprintf(then, sizeof then, "%lld", (long long)made);
    snprintf(now, sizeof now, "%lld", (long long)said);
    return refuse_maker(v, step, what, then, now, error);
}

static zero_status same_word(const zr_verify *v, int64_t step, const char *what, const char *made,
                             const char *said, zero_error *error)
{
    char then[WORD_BYTES], now[WORD_BYTES];
    if (!made || !said || !strcmp(made, said))
        return ZERO_OK;
    snprintf(then, sizeof then, "\"%s\"", made);
    snprintf(now, sizeof now, "\"%s\"", said);
    return refuse_maker(v, step, what, then, now, error);
}

// Returns whether the bits depend on whether there is a pipeline: the gradient of a table that
// embedding and head share is one sum, or two on several pipeline stages.
static bool sums_a_table(const json_t *state)
{
    const json_t *libzero = json_object_get(json_object_get(state, "config"), "libzero"),
                 *model = json_object_get(state, "model_config");
    return !json_is_true(json_object_get(libzero, "exact_pipeline")) &&
           !json_is_false(json_object_get(model, "tie_word_embeddings"));
}

// Which updates the parameters of a micro-batch contain. Equal kinds compute the same.
typedef struct age {
    enum { NEWEST, ONE_UPDATE_OLD, BY_STAGE } of; // BY_STAGE: pipedream
    const char *schedule;                         // of a pipeline
    const json_t *pipeline;                       // "libzero": {"pipeline": ...}
    const json_t *partition;                      // "pipeline": {"partition": ...}
    int64_t flush_every;
} age;

// Finds it in a configuration, for steps after `from` on `stages` pipeline stages.
static age age_of(const json_t *config, int64_t stages, int64_t from)
{
    const json_t *libzero = json_object_get(config, "libzero"),
                 *delayed = json_object_get(libzero, "delayed_update");
    int64_t start = json_integer_value(json_object_get(delayed, "start_step"));
    age out = {.pipeline = json_object_get(libzero, "pipeline"),
               .partition = json_object_get(json_object_get(config, "pipeline"), "partition")};
    const char *schedule = json_string_value(json_object_get(out.pipeline, "schedule"));
    out.flush_every = json_integer_value(json_object_get(out.pipeline, "flush_every"));
    out.schedule = start && start <= from + 1 ? "a delayed update" : "a synchronous one";
    out.of = start && start <= from + 1 ? ONE_UPDATE_OLD : NEWEST;
    if (stages < 2 || !schedule)
        return out;
    if (!strcmp(schedule, zr_pipeline_kind_name(ZR_PIPELINE_2BW)))
        out.of = ONE_UPDATE_OLD;
    else if (!strcmp(schedule, zr_pipeline_kind_name(ZR_PIPELINE_PIPEDREAM)))
        out.of = BY_STAGE;
    else
        return out;
    out.schedule = schedule;
    return out;
}

// A run that is resumed has drained its pipeline where it ended before. Under pipedream that
// changes what follows, and a replay does not know it if it is between two drains.
static zero_status check_drains(const zr_verify *v, int64_t every, int64_t resumed,
                                zero_error *error)
{
    if (resumed <= v->result->from || resumed >= v->result->to || resumed % every == 0)
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_USAGE,
                   "\"%s\" was resumed from step %lld, where pipedream had drained between two of "
                   "every %lld steps, which changes what follows: steps from %lld on can be "
                   "replayed (--from-step)",
                   v->options->run, (long long)resumed, (long long)every, (long long)resumed);
}

// PipeDream's ages follow from the stages that units are on, and from where the pipeline drains.
static zero_status same_stages(const zr_verify *v, int64_t step, const age *made, const age *said,
                               const zr_run_state *state, zero_error *error)
{
    ZERO_TRY(same_number(v, step, "pipeline stages", state->stages, v->config.run.stages, error));
    ZERO_TRY(same_number(v, step, "libzero.pipeline.flush_every", made->flush_every,
                         said->flush_every, error));
    if (!json_equal(json_object_get(made->pipeline, "split"),
                    json_object_get(said->pipeline, "split")))
        return refuse_maker(v, step, "libzero.pipeline.split", "another", "this one", error);
    if (!json_equal(made->partition, said->partition))
        return refuse_maker(v, step, "pipeline.partition", "another", "this one", error);
    return check_drains(v, ZR_MAX(said->flush_every, 1), state->resumed_from, error);
}

// Refuses steps that were made with parameters of another age than config.json says. Synchronous
// schedules all compute the same, and so do 2bw, on any pipeline stages, and a delayed update.
static zero_status check_age(const zr_verify *v, int64_t step, const json_t *state,
                             const zr_run_state *made, zero_error *error)
{
    int64_t from = v->result->from;
    const age then = age_of(json_object_get(state, "config"), made->stages, from),
              now = age_of(v->config.root, v->config.run.stages, from);
    bool pipelines =
        then.of == BY_STAGE || now.of == BY_STAGE || made->stages > 1 || v->config.run.stages > 1;
    if (then.of != now.of && pipelines)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "\"%s\" was resumed in another way than step %lld was made: with %s then, "
                       "with %s in its config.json; synchronous schedules have one set of bits, "
                       "2bw has those of a delayed update, and pipedream its own",
                       v->options->run, (long long)step, then.schedule, now.schedule);
    return now.of == BY_STAGE ? same_stages(v, step, &then, &now, made, error) : ZERO_OK;
}

// Checks who made the steps before a checkpoint, as it says itself, because config.json describes
// only the last part of the run. What no resume can change (seed, batch, windows) is not compared:
// where that differs the checkpoint is not this run's, and its bits show that.
static zero_status check_maker(const zr_verify *v, int64_t step, const json_t *state,
                               const zr_run_state *made, zero_error *error)
{
    const zr_run_config_file *config = &v->config;
    const json_t *libzero = json_object_get(json_object_get(state, "config"), "libzero");
    bool any_ranks = json_integer_value(json_object_get(state, "exact_micro_batch")) > 0,
         any_tensor = json_is_integer(json_object_get(libzero, "exact_tensor"));
    if (!any_tensor)
        ZERO_TRY(same_number(v, step, "tensor ranks", made->tensor, config->run.tensor, error));
    bool other_sums = (made->stages > 1) != (config->run.stages > 1);
    if (other_sums && sums_a_table(state))
        ZERO_TRY(same_number(v, step, "pipeline stages", made->stages, config->run.stages, error));
    if (!any_ranks) // the data ranks
        ZERO_TRY(same_number(v, step, "ranks", made->ranks / (made->tensor * made->stages),
                             zr_run_data_ranks(&config->run), error));
    ZERO_TRY(same_number(v, step, "train_micro_batch_size_per_gpu", made->micro_batch,
                         config->micro_batch, error));
    ZERO_TRY(check_age(v, step, state, made, error));
    return same_word(v, step, "instructions", zr_checkpoint_instructions(state),
                     config->run.instructions, error);
}

static zero_status check_checkpoint_maker(zr_verify *v, int64_t step, zero_error *error)
{
    zr_manifest manifest = {0};
    char *path = zr_checkpoint_path(v->options->run, step, error);
    bool needed = step == v->result->to;
    zero_status status = path ? zr_manifest_read(path, &manifest, error) : ZERO_ERR_MEMORY;
    zr_run_state made;
    zr_run_state_read(manifest.state, &made);
    if (status == ZERO_OK && step <= v->result->to)
        status = check_maker(v, step, manifest.state, &made, error);
    else if (status != ZERO_OK && !needed)
        status = ZERO_OK; // a damaged one says nothing
    if (made.resumed_from > v->result->from)
        v->resumed = ZR_MAX(v->resumed, made.resumed_from);
    zr_manifest_free(&manifest);
    zr_free(path);
    return status;
}

// Checks the checkpoints after the first one. Who made the first one does not matter, because a
// state is the same for all ranks. Rank 0 calls it.
static zero_status check_makers(zr_verify *v, zero_error *error)
{
    zr_checkpoints found;
    ZERO_TRY(zr_checkpoints_list(v->options->run, &found, error));
    zero_status status = ZERO_OK;
    for (int i = found.count - 1; i >= 0 && status == ZERO_OK; i--)
        if (found.steps[i] > v->result->from)
            status = check_checkpoint_maker(v, found.steps[i], error);
    zr_checkpoints_free(&found);
    return status;
}

// Returns whether this processor's best path uses AVX-512. An earlier program called every such
// path "avx512", and would have taken the best path here too.
static bool has_avx512(void)
{
    const zr_backend *best;
    if (zr_backend_find("cpu", NULL, &best, NULL) != ZERO_OK)
        return false;
    return !strncmp(best->path(), "avx512", strlen("avx512")) || !strcmp(best->path(), "amx");
}

// Refuses another card than made the run, or none.
static zero_status check_card(const zr_verify *v, zero_error *error)
{
    char here[256];
    const char *made = v->config.run.instructions;
    ZERO_TRY(zr_said_instructions(v->backend, here, sizeof here, error));
    if (made && strcmp(here, made) == 0)
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_UNSUPPORTED,
                   "\"%s\" was made with %s, and %s is %s: others round differently",
                   v->options->run, made ? made : "an unknown card", v->backend, here);
}

// Chooses the run's backend and names its path, because another machine's best path may be another.
static zero_status choose_backend(zr_verify *v, zero_error *error)
{
    const char *instructions = v->config.run.instructions, *backend = v->config.run.backend;
    const zr_backend *found;
    char offered[160];
    if (backend && !strcmp(backend, "ref"))
        snprintf(v->backend, sizeof v->backend, "ref");
    else if (backend && !strncmp(backend, "cuda", strlen("cuda")))
        snprintf(v->backend, sizeof v->backend, "%s", backend);
    else if (v->config.of_earlier_program && instructions && !strcmp(instructions, "avx512") &&
             has_avx512())
        snprintf(v->backend, sizeof v->backend, "cpu");
    else
        snprintf(v->backend, sizeof v->backend, "cpu:%s", instructions ? instructions : "unknown");
    if (zr_said_backend_find(v->backend, &found, NULL) == ZERO_OK)
        return zr_backend_is_far(found) ? check_card(v, error) : ZERO_OK;
    zr_backends_offered(offered, sizeof offered);
    return zr_fail(error, ZERO_ERR_UNSUPPORTED,
                   "\"%s\" was made with %s instructions, this machine offers %s: other "
                   "instructions round differently",
                   v->options->run, instructions ? instructions : "unknown", offered);
}

zero_status zr_verify_open(zr_verify *v, zero_error *error)
{
    ZERO_TRY(read_run(v->options->run, &v->config, error));
    if (v->config.run.ranks != v->comm->size)
        return zr_fail(
            error, ZERO_ERR_USAGE,
            "\"%s\" was made by %d ranks, these are %d: another number of ranks rounds differently",
            v->options->run, v->config.run.ranks, v->comm->size);
    ZERO_TRY(choose_backend(v, error));
    ZERO_TRY(name_checkpoints(v, error));
    if (v->comm->rank > 0)
        return ZERO_OK;
    ZERO_TRY(check_makers(v, error));
    return zr_metrics_reader_open(v->options->run, &v->metrics, error);
}
