#include "comm/agreement.h"
#include "layers/layers.h"
#include "setup/backend_choice.h"
#include "setup/machine_facts.h"
#include "setup/run_setup.h"

static int64_t at_least_one_tile(int64_t tiles) { return ZR_MAX(tiles, 1); }

bool zr_model_tiles_apply(const zr_config *config, zr_lm_config *shape)
{
    const zr_offload_config *o = &config->offload;
    const zr_tiles before = zr_lm_tiles(shape),
                   asked = {o->tiles_embedding, o->tiles_attention, o->tiles_mlp};
    zr_lm_set_tiles(shape, &asked);
    return at_least_one_tile(before.embedding) != asked.embedding ||
           at_least_one_tile(before.attention) != asked.attention ||
           at_least_one_tile(before.mlp) != asked.mlp;
}

const zr_tiles zr_tilings[ZR_TILINGS] = {{1, 1, 1},   {4, 1, 1},     {8, 1, 1},
                                         {16, 1, 1},  {16, 2, 4},    {32, 4, 8},
                                         {64, 8, 16}, {128, 16, 32}, {256, 32, 64}};

bool zr_model_tiles_are_given(const zr_config *config)
{
    static const char *const keys[] = {"libzero.tiling.all", "libzero.tiling.embedding",
                                       "libzero.tiling.attention", "libzero.tiling.mlp"};
    for (int i = 0; i < ZR_COUNT(keys); i++) {
        const zr_setting *setting = zr_config_setting(config, keys[i]);
        if (setting->origin != ZR_FROM_DEFAULT)
            return true;
    }
    return false;
}

static bool tiling_fits(const zero_options *options, const zr_config *config, zr_queue *queue,
                        const zr_lm_config *shape, const zr_tiles *tiles)
{
    zr_lm_config tiled = *shape;
    zero_model *model = NULL;
    zr_rank_question question = {0};
    zr_rank_plan rank;
    zr_lm_set_tiles(&tiled, tiles);
    if (zr_lm_create(&tiled, &model, NULL) != ZERO_OK)
        return false;
    const zr_run_setup run = {
        .config = config,
        .shape = zr_run_shape(config, options->shape.batch, options->shape.seq, queue->threads),
        .inference = options->inference,
        .part = {.model = model},
    };
    zr_machine_fill(queue, options->comm, &question.machine);
    zr_machine_set_limit(&question.machine, &config->offload, zr_local_ranks(options->comm));
    bool good = zr_run_setup_plan(&run, &question, &rank, NULL) == ZERO_OK &&
                zr_plan_fits(rank.plan, &rank.machine);
    zr_rank_plan_free(&rank);
    zr_lm_free(model);
    return good;
}

// Finds the first choice that fits on this rank; returns 0 if there is none.
static zero_status find_choice(const zero_options *options, const zr_config *config,
                               const zr_lm_config *shape, int64_t *out, zero_error *error)
{
    zr_queue *queue = NULL;
    *out = 0;
    zr_backend_configure(config);
    ZERO_TRY(zr_said_queue_open(options->backend, ZR_MAX(options->threads, 1), &queue, error));
    int i = 0;
    while (i < ZR_TILINGS && !tiling_fits(options, config, queue, shape, &zr_tilings[i]))
        i++;
    *out = i % ZR_TILINGS;
    zr_queue_close(queue);
    return ZERO_OK;
}

zero_status zr_model_tiles_choose(const zero_options *options, zr_config *config,
                                  zr_lm_config *shape, zero_error *error)
{
    int64_t choice = 0;
    if (zr_model_tiles_are_given(config) || config->exact_tensor > 1)
        return ZERO_OK;
    ZERO_TRY(
        zr_comm_agree(options->comm, find_choice(options, config, shape, &choice, error), error));
    ZERO_TRY(zr_comm_all_reduce_small(options->comm, &choice, 1, ZERO_I64, ZR_MAX, error));
    const zr_tiles *tiles = &zr_tilings[choice];
    if (choice == 0)
        return ZERO_OK;
    if (config->exact_world)
        return zr_fail(error, ZERO_ERR_LIMIT,
                       "planning with libzero.exact_world: the model does not fit undivided on %d "
                       "rank%s, and tiles that follow from that would give other bits on others; "
                       "say libzero.tiling, the same for all: {\"embedding\": %lld, \"attention\": "
                       "%lld, \"mlp\": %lld} would fit here",
                       options->comm->size, options->comm->size == 1 ? "" : "s",
                       (long long)tiles->embedding, (long long)tiles->attention,
                       (long long)tiles->mlp);
    ZERO_TRY(zr_config_choose(config, "libzero.tiling.embedding", tiles->embedding, error));
    ZERO_TRY(zr_config_choose(config, "libzero.tiling.attention", tiles->attention, error));
    ZERO_TRY(zr_config_choose(config, "libzero.tiling.mlp", tiles->mlp, error));
    zr_model_tiles_apply(config, shape);
    zr_log(&options->logger, ZERO_LOG_INFO,
           "tiling   the model does not fit undivided: %lld tiles of the token table, %lld of each "
           "of the attention's weights, %lld of the MLP's (libzero.tiling)",
           (long long)tiles->embedding, (long long)tiles->attention, (long long)tiles->mlp);
    return ZERO_OK;
}

zero_status zr_model_tiles_check(const zr_config *config, const zero_model *model,
                                 zero_error *error)
{
    const zr_offload_config *o = &config->offload;
    const zr_lm_config *ours = zr_lm_config_of(model);
    if (o->tiles_embedding <= 1 && o->tiles_attention <= 1 && o->tiles_mlp <= 1)
        return ZERO_OK;
    zr_lm_config copy;
    if (ours) {
        copy = *ours;
        if (!zr_model_tiles_apply(config, &copy))
            return ZERO_OK;
    }
    return zr_fail(
        error, ZERO_ERR_CONFIG,
        "%s: libzero.tiling asks for %lld, %lld and %lld tiles of the embedding's, the attention's "
        "and the MLP's weights, but the model \"%s\" was built otherwise: "
        "a program says it in the configuration of its model, or in the units of its own",
        config->name, (long long)o->tiles_embedding, (long long)o->tiles_attention,
        (long long)o->tiles_mlp, model->name);
}
