#include "setup/placement.h"

#include "comm/agreement.h"
#include "config/config_ranks.h"
#include "layers/layers.h"
#include "predict/disk.h"
#include "setup/backend_choice.h"
#include "setup/machine_facts.h"
#include "setup/model_part.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_NANOSECONDS 1e18

const int64_t zr_sub_groups[ZR_SUB_GROUPS] = {1 << 18, 1 << 16};

#define STAGE "zero_optimization.stage"
#define OPTIMIZER "zero_optimization.offload_optimizer."
#define PARAMETERS "zero_optimization.offload_param."
#define SUB_GROUP "zero_optimization.sub_group_size"

static bool was_given(const zr_config *config, const char *path)
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
    zr_estimate_question run; // its configuration is that of the placement which is tried
    zr_rate_book book;
    zr_placement_answer *answer;
} search;

// Returns the configuration with placement `at`. The copy is shallow, which is enough because only
// plain fields are changed.
static zr_config config_of_placement(const search *s, const zr_placement *at)
{
    const zr_tiles *tiles = &zr_tilings[at->tiles];
    zr_config config = *s->question->run.config;
    config.stage = at->stage;
    config.offload.optimizer = (int)at->optimizer;
    config.offload.parameters = (int)at->parameters;
    if (!was_given(&config, OPTIMIZER "ratio"))
        config.offload.ratio = 1;
    if (at->optimizer == ZERO_TIER_device)
        config.offload.ratio = 0;
    if (at->sub_group)
        config.offload.sub_group = at->sub_group;
    if (at->tiles) {
        config.offload.tiles_embedding = tiles->embedding;
        config.offload.tiles_attention = tiles->attention;
        config.offload.tiles_mlp = tiles->mlp;
    }
    return config;
}

// Asks whether it fits on the machines of all ranks.
static zero_status agree_whether_it_fits(const search *s, bool fits, bool *all, zero_error *error)
{
    int64_t answer = !fits;
    ZERO_TRY(zr_comm_agree_on_largest(s->question->comm, &answer, error));
    *all = !answer;
    return ZERO_OK;
}

static void note_bytes_of_tiers(const zr_estimate *estimate, zr_placement *at)
{
    for (int t = 0; t < ZERO_TIER_COUNT; t++) {
        at->tiers[t] = 0;
        for (int stage = 0; stage < estimate->stages; stage++)
            at->tiers[t] =
                ZR_MAX(at->tiers[t], zr_plan_tier_bytes(estimate->at[stage].plan, (zero_tier)t));
    }
    snprintf(at->excess, sizeof at->excess, "%s", estimate->excess);
}

// Predicts it if it fits here, or if it is the last form of its placement.
static zero_status estimate_placement(search *s, bool last, zr_placement *at, zero_error *error)
{
    const zr_config config = config_of_placement(s, at);
    zr_estimate estimate;
    s->run.config = &config;
    zero_status status = zr_estimate_make(&s->run, &estimate, error);
    bool fits = status == ZERO_OK && estimate.fits;
    if (status == ZERO_OK) {
        note_bytes_of_tiers(&estimate, at);
        if (fits || last)
            status = zr_estimate_forecast(&estimate, &s->book, &at->step, error);
    }
    zr_estimate_free(&estimate);
    ZERO_TRY(zr_comm_agree(s->question->comm, status, error));
    return agree_whether_it_fits(s, fits, &at->fits, error);
}

// Tries the forms of a placement until one fits; otherwise *at holds the last one.
static zero_status try_tilings_and_groups(search *s, zr_placement *at, zero_error *error)
{
    const zr_config *config = s->question->run.config;
    bool travels = at->optimizer == ZERO_TIER_nvme || at->parameters == ZERO_TIER_nvme;
    int groups = travels && !was_given(config, SUB_GROUP) ? 1 + ZR_SUB_GROUPS : 1;
    bool open = s->run.shape && !zr_model_tiles_are_given(config) && !config->exact_world &&
                config->exact_tensor == 1 && config->optimizer.kind != ZR_OPTIMIZER_MUON;
    int tilings = open ? ZR_TILINGS : 1;
    for (at->tiles = 0; at->tiles < tilings; at->tiles++)
        for (int g = 0; g < groups; g++) {
            at->sub_group = g ? zr_sub_groups[g - 1] : 0;
            bool last = at->tiles == tilings - 1 && g == groups - 1;
            ZERO_TRY(estimate_placement(s, last, at, error));
            if (at->fits)
                return ZERO_OK;
        }
    at->tiles = tilings - 1;
    return ZERO_OK;
}

static bool is_allowed_placement(const search *s, const zr_placement *at)
{
    const zr_config *config = s->question->run.config;
    bool nvme = at->optimizer == ZERO_TIER_nvme || at->parameters == ZERO_TIER_nvme;
    if ((was_given(config, STAGE) && at->stage != config->stage) ||
        (was_given(config, OPTIMIZER "device") &&
         (int)at->optimizer != config->offload.optimizer) ||
        (was_given(config, PARAMETERS "device") &&
         (int)at->parameters != config->offload.parameters))
        return false;
    if (config->offload.delayed_from && at->optimizer == ZERO_TIER_device)
        return false;
    if (config->optimizer.kind == ZR_OPTIMIZER_MUON && at->optimizer == ZERO_TIER_nvme)
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
                if (!is_allowed_placement(s, &at))
                    continue;
                ZERO_TRY(try_tilings_and_groups(s, &at, error));
                assert(answer->count < ZR_MOST_PLACEMENTS); // 1 at stage 0, 3 at 1 and at 2, 9 at 3
                answer->at[answer->count++] = at;
            }
    return ZERO_OK;
}

static void scale_forecast(zr_forecast *step, double factor)
{
    for (int part = 0; part < ZR_TIME_PARTS; part++)
        step->parts[part] *= factor;
    step->bubble *= factor;
    step->seconds *= factor;
    step->low *= factor;
    step->high *= factor;
    step->tokens /= factor;
}

// Uses the slowest rank's prediction everywhere, because what is known of machines may differ.
static zero_status agree_on_forecasts(search *s, zero_error *error)
{
    for (int i = 0; i < s->answer->count; i++) {
        zr_forecast *step = &s->answer->at[i].step;
        int64_t nanoseconds = (int64_t)fmin(step->seconds * 1e9, MOST_NANOSECONDS);
        ZERO_TRY(zr_comm_agree_on_largest(s->question->comm, &nanoseconds, error));
        scale_forecast(step, (double)nanoseconds * 1e-9 / step->seconds);
    }
    return ZERO_OK;
}

// Steps that differ by less than a hundredth count as equal; then the placement that moves and
// divides less is better, which is the one that was tried first.
static bool placement_is_better(const zr_placement *a, const zr_placement *b)
{
    if (a->fits != b->fits)
        return a->fits;
    return a->fits && a->step.seconds < 0.99 * b->step.seconds;
}

// A stable insertion sort, because there are few and equals must keep their order.
static void sort_fastest_first(zr_placement_answer *answer)
{
    for (int i = 1; i < answer->count; i++)
        for (int k = i; k > 0 && placement_is_better(&answer->at[k], &answer->at[k - 1]); k--) {
            zr_placement other = answer->at[k];
            answer->at[k] = answer->at[k - 1];
            answer->at[k - 1] = other;
        }
    answer->chosen = answer->count && answer->at[0].fits ? 0 : -1;
}

// Asks the disk for its room, which bounds what lies there.
static zero_status find_room(search *s, zero_error *error)
{
    const char *directory = first_path(s->question->run.config);
    zr_disk disk;
    if (!directory || s->question->book)
        return ZERO_OK;
    ZERO_TRY(zr_disk_look(directory, &disk, error));
    s->run.machine.tier_limit[ZERO_TIER_nvme] = disk.available / s->run.together;
    return ZERO_OK;
}

static zero_status choose_placement(search *s, zero_error *error)
{
    ZERO_TRY(zr_comm_agree(s->question->comm, find_room(s, error), error));
    ZERO_TRY(try_all(s, error));
    ZERO_TRY(agree_on_forecasts(s, error));
    sort_fastest_first(s->answer);
    return ZERO_OK;
}

zero_status zr_placement_choose(const zr_placement_question *question, zr_placement_answer *out,
                                zero_error *error)
{
    search s = {.question = question, .run = question->run, .answer = out};
    *out =
        (zr_placement_answer){.chosen = -1, .with_disk = find_paths(question->run.config) != NULL};
    if (question->book)
        s.book = *question->book;
    else
        zr_rate_book_read(question->logger, &s.book);
    zero_status status = choose_placement(&s, error);
    if (!question->book)
        zr_rate_book_free(&s.book);
    return status;
}

static zero_status override_unless_given(zr_config *config, const char *path, const char *value,
                                         zero_error *error)
{
    return was_given(config, path) ? ZERO_OK
                                   : zr_config_override(config, path, value, "libzero.offload auto",
                                                        false, NULL, error);
}

static zero_status override_number_unless_given(zr_config *config, const char *path, int64_t value,
                                                zero_error *error)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    return override_unless_given(config, path, text, error);
}

static zero_status put_device(zr_config *config, zero_tier tier, const char *device,
                              const char *paths_key, const char *paths, zero_error *error)
{
    static const char *const names[] = {
        [ZERO_TIER_device] = "none", [ZERO_TIER_host] = "cpu", [ZERO_TIER_nvme] = "nvme"};
    ZERO_TRY(override_unless_given(config, device, names[tier], error));
    return tier == ZERO_TIER_nvme ? override_unless_given(config, paths_key, paths, error)
                                  : ZERO_OK;
}

zero_status zr_placement_apply(const zr_placement *at, const zr_config *resolved, zr_config *parsed,
                               zero_error *error)
{
    const zr_tiles *tiles = &zr_tilings[at->tiles];
    char *paths = json_dumps(find_paths(resolved), JSON_ENCODE_ANY); // NULL: none are named
    zero_status status = zr_config_override(parsed, "libzero.offload", "given",
                                            "libzero.offload auto", false, NULL, error);
    if (status == ZERO_OK)
        status = override_number_unless_given(parsed, STAGE, at->stage, error);
    if (status == ZERO_OK)
        status = put_device(parsed, at->optimizer, OPTIMIZER "device", OPTIMIZER "nvme_path", paths,
                            error);
    if (status == ZERO_OK)
        status = put_device(parsed, at->parameters, PARAMETERS "device", PARAMETERS "nvme_path",
                            paths, error);
    if (status == ZERO_OK && at->sub_group)
        status = override_number_unless_given(parsed, SUB_GROUP, at->sub_group, error);
    if (status == ZERO_OK && at->tiles)
        status = override_number_unless_given(parsed, "libzero.tiling.embedding", tiles->embedding,
                                              error);
    if (status == ZERO_OK && at->tiles)
        status = override_number_unless_given(parsed, "libzero.tiling.attention", tiles->attention,
                                              error);
    if (status == ZERO_OK && at->tiles)
        status = override_number_unless_given(parsed, "libzero.tiling.mlp", tiles->mlp, error);
    free(paths);
    return status;
}

// Asks about the ranks of options->comm, or about ranks that are only imagined.
static zr_placement_question make_placement_question(const zero_options *options,
                                                     const zr_imagined_ranks *imagined,
                                                     const zr_lm_config *shape,
                                                     const zr_config *config, zr_queue *queue)
{
    int together = imagined ? imagined->count : zr_local_ranks(options->comm);
    zr_placement_question question = {
        .run =
            {
                .model = options->model,
                .shape = shape,
                .name = shape ? zr_lm_name(shape) : options->model->name,
                .config = config,
                .seq = options->shape.seq,
                .ranks = imagined ? imagined->count : options->comm->size,
                .together = together,
                .threads = queue->threads,
                .backend = options->backend,
            },
        .comm = options->comm,
        .logger = &options->logger,
    };
    zr_machine *machine = &question.run.machine;
    zr_machine_fill(queue, NULL, machine);
    machine->memory_limit =
        imagined && imagined->memory > 0 ? imagined->memory : machine->memory_limit / together;
    return question;
}

zero_status zr_placement_of_options(const zero_options *options, const zr_imagined_ranks *imagined,
                                    const zr_lm_config *shape, const zr_config *config,
                                    zr_placement_answer *out, zero_error *error)
{
    zr_queue *queue = NULL;
    zr_backend_configure(config);
    zero_status status =
        zr_said_queue_open(options->backend, ZR_MAX(options->threads, 1), &queue, error);
    ZERO_TRY(zr_comm_agree(options->comm, status, error));
    const zr_placement_question question =
        make_placement_question(options, imagined, shape, config, queue);
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

static zero_status report_or_refuse(const zero_options *options, const char *model,
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
    ZERO_TRY(zr_placement_of_options(options, NULL, shape, *config, &answer, error));
    const char *model = shape ? zr_lm_name(shape) : options->model->name;
    zero_status status = report_or_refuse(options, model, &answer, error);
    if (status == ZERO_OK)
        status = resolve_placed(how, &answer.at[answer.chosen], config, error);
    return zr_comm_agree(options->comm, status, error);
}
