#include "setup/placement.h"

#include "comm/agree.h"
#include "config/config_ranks.h"
#include "layers/layers.h"
#include "measure/disk.h"
#include "measure/speed.h"
#include "setup/machine_facts.h"
#include "setup/part.h"
#include "setup/tiling.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int64_t sub_groups[] = {0, 1 << 18, 1 << 16}; // 0: as configured

#define STAGE "zero_optimization.stage"
#define OPTIMIZER "zero_optimization.offload_optimizer."
#define PARAMETERS "zero_optimization.offload_param."
#define SUB_GROUP "zero_optimization.sub_group_size"

static bool was_said(const zr_config *config, const char *path)
{
    int origin = zr_config_setting(config, path)->origin;
    return origin == ZR_FROM_FILE || origin == ZR_FROM_FLAG;
}

// Returns the directories that states may be put into, from the first of these keys that names any.
static const json_t *find_paths(const zr_config *config)
{
    static const char *const keys[] = {"libzero.nvme_path", OPTIMIZER "nvme_path",
                                       PARAMETERS "nvme_path"};
    for (int i = 0; i < ZR_COUNT(keys); i++) {
        const json_t *paths = zr_config_setting(config, keys[i])->value;
        if (json_is_string(paths) || json_array_size(paths) > 0)
            return paths;
    }
    return NULL;
}

static const char *first_path(const zr_config *config)
{
    const json_t *paths = find_paths(config);
    return json_string_value(json_is_array(paths) ? json_array_get(paths, 0) : paths);
}

typedef struct search {
    const zr_placement_question *question;
    zr_machine machine;
    zero_model *models[ZR_TILINGS];  // of the question's shape, made as they are needed
    zr_model_part parts[ZR_TILINGS]; // of those, or of the question's model: what this rank has
    zr_placement_answer *answer;
} search;

// Returns the configuration with placement `at`. The copy is shallow, which is enough because only
// plain fields are changed.
static zr_config config_at(const search *s, const zr_placement *at)
{
    zr_config config = *s->question->config;
    config.stage = at->stage;
    config.offload.optimizer = (int)at->optimizer;
    config.offload.parameters = (int)at->parameters;
    if (!was_said(&config, OPTIMIZER "ratio"))
        config.offload.ratio = 1;
    if (at->optimizer == ZERO_TIER_device)
        config.offload.ratio = 0;
    if (at->sub_group)
        config.offload.sub_group = at->sub_group;
    return config;
}

// Makes the model of the question's shape; tiling 0 keeps the tiles that were given, if any.
static zero_status create_model(search *s, int tiles, zero_error *error)
{
    zr_lm_config shape = *s->question->shape;
    if (tiles)
        zr_lm_set_tiles(&shape, &zr_tilings[tiles]);
    return zr_lm_create(&shape, &s->models[tiles], error);
}

// Finds what this rank has of the model with these tiles.
static zero_status find_model(search *s, int tiles, const zero_model **out, zero_error *error)
{
    const zr_placement_question *q = s->question;
    zr_model_part *part = &s->parts[tiles];
    if (!part->model && q->shape && !s->models[tiles])
        ZERO_TRY(create_model(s, tiles, error));
    const zero_model *whole = q->shape ? s->models[tiles] : q->model;
    if (!part->model)
        ZERO_TRY(
            zr_model_part_make(whole, whole->name, q->config, q->machine.tensor_rank, part, error));
    *out = part->model;
    return ZERO_OK;
}

static zero_status make_plan(search *s, const zr_placement *at, zr_plan **out, zero_error *error)
{
    const zero_model *model;
    zr_config config = config_at(s, at);
    zr_settings settings = zr_settings_of(&config, false);
    ZERO_TRY(find_model(s, at->tiles, &model, error));
    return zr_plan_create(model, &s->question->batch, &settings, &s->machine, out, error);
}

// Asks whether it fits on the machines of all ranks.
static zero_status ask_all(const search *s, bool fits, bool *all, zero_error *error)
{
    int64_t answer = !fits;
    ZERO_TRY(zr_comm_agree_on_largest(s->question->comm, &answer, error));
    *all = !answer;
    return ZERO_OK;
}

static zero_status try_form(search *s, zr_placement *at, zero_error *error)
{
    zr_plan *plan = NULL;
    zero_status status = make_plan(s, at, &plan, error);
    bool fits = status == ZERO_OK && zr_plan_fits(plan, &s->machine);
    if (status == ZERO_OK) {
        for (int t = 0; t < ZERO_TIER_COUNT; t++)
            at->tiers[t] = zr_plan_tier_bytes(plan, (zero_tier)t);
        at->step = zr_predict(plan, &s->answer->speed);
        if (!fits)
            zr_plan_describe_excess(plan, &s->machine, at->excess, sizeof at->excess);
    }
    zr_plan_destroy(plan);
    ZERO_TRY(zr_comm_agree(s->question->comm, status, error));
    return ask_all(s, fits, &at->fits, error);
}

// Tries the forms of a placement until one fits; if none does, *at holds the last one.
static zero_status try_placement(search *s, zr_placement *at, zero_error *error)
{
    const zr_config *config = s->question->config;
    bool travels = at->optimizer == ZERO_TIER_nvme || at->parameters == ZERO_TIER_nvme;
    int groups = travels && !was_said(config, SUB_GROUP) ? ZR_COUNT(sub_groups) : 1;
    bool open = s->question->shape && !zr_tiling_was_said(config) && !config->exact_world &&
                config->exact_tensor == 1;
    int tilings = open ? ZR_TILINGS : 1;
    for (at->tiles = 0; at->tiles < tilings; at->tiles++)
        for (int g = 0; g < groups; g++) {
            at->sub_group = sub_groups[g];
            ZERO_TRY(try_form(s, at, error));
            if (at->fits)
                return ZERO_OK;
        }
    at->tiles = tilings - 1;
    return ZERO_OK;
}

static bool is_open(const search *s, const zr_placement *at)
{
    const zr_config *config = s->question->config;
    bool nvme = at->optimizer == ZERO_TIER_nvme || at->parameters == ZERO_TIER_nvme;
    if ((was_said(config, STAGE) && at->stage != config->stage) ||
        (was_said(config, OPTIMIZER "device") && (int)at->optimizer != config->offload.optimizer) ||
        (was_said(config, PARAMETERS "device") &&
         (int)at->parameters != config->offload.parameters))
        return false;
    if (config->offload.delayed_from && at->optimizer == ZERO_TIER_device)
        return false;
    return !nvme || s->answer->with_disk;
}

static zero_status try_all(search *s, zero_error *error)
{
    zr_placement_answer *answer = s->answer;
    for (int stage = 0; stage <= 3; stage++)
        for (int parameters = 0; parameters <= (stage == 3 ? ZERO_TIER_nvme : 0); parameters++)
            for (int optimizer = 0; optimizer <= (stage > 0 ? ZERO_TIER_nvme : 0); optimizer++) {
                zr_placement at = {.stage = stage,
                                   .optimizer = (zero_tier)optimizer,
                                   .parameters = (zero_tier)parameters};
                if (!is_open(s, &at))
                    continue;
                ZERO_TRY(try_placement(s, &at, error));
                assert(answer->count < ZR_MOST_PLACEMENTS); // 1 at stage 0, 3 at 1 and at 2, 9 at 3
                answer->at[answer->count++] = at;
            }
    return ZERO_OK;
}

// Uses the slowest rank's prediction everywhere, because the ranks' measurements differ a little.
static zero_status agree_on_steps(search *s, zero_error *error)
{
    for (int i = 0; i < s->answer->count; i++) {
        int64_t nanoseconds = (int64_t)(s->answer->at[i].step.total * 1e9), own = nanoseconds;
        ZERO_TRY(zr_comm_agree_on_largest(s->question->comm, &nanoseconds, error));
        s->answer->at[i].step.compute += (double)(nanoseconds - own) * 1e-9;
        s->answer->at[i].step.total = (double)nanoseconds * 1e-9;
    }
    return ZERO_OK;
}

// Steps that differ by less than a hundredth count as equal; then the placement that moves and
// divides less is better, which is the one that was tried first.
static bool is_better(const zr_placement *a, const zr_placement *b)
{
    if (a->fits != b->fits)
        return a->fits;
    return a->fits && a->step.total < 0.99 * b->step.total;
}

// A stable insertion sort, because there are few and equals must keep their order.
static void sort(zr_placement_answer *answer)
{
    for (int i = 1; i < answer->count; i++)
        for (int k = i; k > 0 && is_better(&answer->at[k], &answer->at[k - 1]); k--) {
            zr_placement other = answer->at[k];
            answer->at[k] = answer->at[k - 1];
            answer->at[k - 1] = other;
        }
    answer->chosen = answer->count && answer->at[0].fits ? 0 : -1;
}

static zero_status find_speed(search *s, zero_error *error)
{
    const zr_placement_question *q = s->question;
    if (q->speed) {
        s->answer->speed = *q->speed;
        return ZERO_OK;
    }
    const char *directory = first_path(q->config);
    zr_placement plain = {.stage = was_said(q->config, STAGE) ? (int)q->config->stage : 0};
    zr_plan *plan = NULL;
    zero_status status = ZERO_OK;
    if (directory) {
        zr_disk disk;
        status = zr_disk_look(directory, &disk, error);
        s->machine.tier_limit[ZERO_TIER_nvme] = status == ZERO_OK ? disk.available / q->sharers : 0;
    }
    if (status == ZERO_OK)
        status = make_plan(s, &plain, &plan, error);
    status = zr_comm_agree(q->comm, status, error);
    if (status == ZERO_OK)
        status = zr_speed_measure(&(zr_speed_question){.plan = plan,
                                                       .comm = q->comm,
                                                       .sharers = q->sharers,
                                                       .directory = directory,
                                                       .backend = q->backend,
                                                       .logger = q->logger},
                                  &s->answer->speed, error);
    zr_plan_destroy(plan);
    return status;
}

zero_status zr_placement_choose(const zr_placement_question *question, zr_placement_answer *out,
                                zero_error *error)
{
    search s = {.question = question, .machine = question->machine, .answer = out};
    *out = (zr_placement_answer){.chosen = -1, .with_disk = find_paths(question->config) != NULL};
    zero_status status = find_speed(&s, error);
    if (status == ZERO_OK)
        status = try_all(&s, error);
    if (status == ZERO_OK)
        status = agree_on_steps(&s, error);
    if (status == ZERO_OK)
        sort(out);
    for (int i = 0; i < ZR_TILINGS; i++) {
        zr_model_part_free(&s.parts[i]);
        zr_lm_free(s.models[i]);
    }
    return status;
}

static zero_status put(zr_config *config, const char *path, const char *value, zero_error *error)
{
    return was_said(config, path) ? ZERO_OK
                                  : zr_config_override(config, path, value, "libzero.offload auto",
                                                       false, NULL, error);
}

static zero_status put_number(zr_config *config, const char *path, int64_t value, zero_error *error)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    return put(config, path, text, error);
}

static zero_status put_device(zr_config *config, zero_tier tier, const char *device,
                              const char *paths_key, const char *paths, zero_error *error)
{
    static const char *const names[] = {
        [ZERO_TIER_device] = "none", [ZERO_TIER_host] = "cpu", [ZERO_TIER_nvme] = "nvme"};
    ZERO_TRY(put(config, device, names[tier], error));
    return tier == ZERO_TIER_nvme ? put(config, paths_key, paths, error) : ZERO_OK;
}

zero_status zr_placement_apply(const zr_placement *at, const zr_config *resolved, zr_config *parsed,
                               zero_error *error)
{
    const zr_tiles *tiles = &zr_tilings[at->tiles];
    char *paths = json_dumps(find_paths(resolved), JSON_ENCODE_ANY); // NULL: none are named
    zero_status status = zr_config_override(parsed, "libzero.offload", "given",
                                            "libzero.offload auto", false, NULL, error);
    if (status == ZERO_OK)
        status = put_number(parsed, STAGE, at->stage, error);
    if (status == ZERO_OK)
        status = put_device(parsed, at->optimizer, OPTIMIZER "device", OPTIMIZER "nvme_path", paths,
                            error);
    if (status == ZERO_OK)
        status = put_device(parsed, at->parameters, PARAMETERS "device", PARAMETERS "nvme_path",
                            paths, error);
    if (status == ZERO_OK && at->sub_group)
        status = put_number(parsed, SUB_GROUP, at->sub_group, error);
    if (status == ZERO_OK && at->tiles)
        status = put_number(parsed, "libzero.tiling.embedding", tiles->embedding, error);
    if (status == ZERO_OK && at->tiles)
        status = put_number(parsed, "libzero.tiling.attention", tiles->attention, error);
    if (status == ZERO_OK && at->tiles)
        status = put_number(parsed, "libzero.tiling.mlp", tiles->mlp, error);
    free(paths);
    return status;
}

// Asks about the ranks of options->comm, or about ranks that are only imagined.
static zr_placement_question question_of(const zero_options *options,
                                         const zr_imagined_ranks *imagined,
                                         const zr_lm_config *shape, const zr_config *config,
                                         zr_queue *queue)
{
    zr_placement_question question = {
        .model = options->model,
        .shape = shape,
        .config = config,
        .comm = options->comm,
        .sharers = imagined ? imagined->count : zr_local_ranks(options->comm),
        .backend = options->backend,
        .logger = &options->logger,
        .batch = {.batch = config->micro_batch,
                  .seq = options->shape.seq,
                  .threads = queue->threads,
                  .dtype = config->dtype},
    };
    zr_machine *machine = &question.machine;
    zr_machine_fill(queue, imagined ? NULL : options->comm, machine);
    if (imagined) {
        machine->ranks = machine->machine_ranks = imagined->count;
        machine->memory_limit =
            imagined->memory > 0 ? imagined->memory : machine->memory_limit / imagined->count;
    }
    zr_machine_expect(machine, zr_config_model_ranks(config), config->tensor,
                      options->comm->rank % config->tensor);
    zr_machine_limit(machine, &config->offload, question.sharers);
    return question;
}

zero_status zr_placement_of(const zero_options *options, const zr_imagined_ranks *imagined,
                            const zr_lm_config *shape, const zr_config *config,
                            zr_placement_answer *out, zero_error *error)
{
    const char *backend = options->backend ? options->backend : "cpu";
    zr_queue *queue = NULL;
    zero_status status = zr_queue_open(backend, NULL, ZR_MAX(options->threads, 1), &queue, error);
    ZERO_TRY(zr_comm_agree(options->comm, status, error));
    const zr_placement_question question = question_of(options, imagined, shape, config, queue);
    status = zr_placement_choose(&question, out, error);
    zr_queue_close(queue);
    return status;
}

// A logger is given one line at a time, and shows a line end as "\n".
static void log_lines(const zero_logger *logger, char *text)
{
    char *rest;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        zr_log(logger, ZERO_LOG_INFO, "%s", line);
}

static zero_status say(const zero_options *options, const char *model,
                       const zr_placement_answer *answer, zero_error *error)
{
    zr_buffer text = {0};
    bool none = answer->chosen < 0;
    if (!none)
        zr_buffer_printf(&text, "offload  auto: ");
    zr_placement_describe(answer, none ? "; " : ZR_PLACEMENT_LINES, &text);
    zero_status status = ZERO_OK;
    if (none)
        status = zr_fail(error, ZERO_ERR_LIMIT, "planning %s with libzero.offload auto: %s", model,
                         text.failed ? "nothing fits" : text.data);
    else if (!text.failed && options->comm->rank == 0)
        log_lines(&options->logger, text.data);
    zr_buffer_free(&text);
    return status;
}

// Resolves again without a logger, because the first resolution has reported all but the placement.
static zero_status resolve_placed(const zr_resolution *how, const zr_placement *at,
                                  zr_config **config, zero_error *error)
{
    zr_resolution again = *how;
    zr_config *placed;
    again.logger = NULL;
    ZERO_TRY(zr_resolve_read(&again, &placed, error));
    zero_status status = zr_placement_apply(at, *config, placed, error);
    if (status == ZERO_OK)
        status = zr_resolve_finish(&again, placed, error);
    if (status != ZERO_OK) {
        zr_config_destroy(placed);
        return status;
    }
    zr_config_destroy(*config);
    *config = placed;
    return ZERO_OK;
}

zero_status zr_placement_settle(const zr_resolution *how, const zero_options *options,
                                const zr_lm_config *shape, zr_config **config, zero_error *error)
{
    zr_placement_answer answer;
    if (!(*config)->offload.automatic)
        return ZERO_OK;
    ZERO_TRY(zr_placement_of(options, NULL, shape, *config, &answer, error));
    const char *model = shape ? zr_lm_name(shape) : options->model->name;
    zero_status status = say(options, model, &answer, error);
    if (status == ZERO_OK)
        status = resolve_placed(how, &answer.at[answer.chosen], config, error);
    return zr_comm_agree(options->comm, status, error);
}
