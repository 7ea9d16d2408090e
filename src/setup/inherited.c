#include "setup/defaults.h"

#include "config/config_ranks.h"

#include <stdio.h>

#define WEIGHT_DECAY "optimizer.params.weight_decay"

enum { RANKS_BYTES = 256 }; // of the words for how many ranks there are, and were

// Returns 0 if the key is not given, or left to the program.
static int64_t given_integer(const zr_config *config, const char *key)
{
    const zr_setting *setting = zr_config_setting(config, key);
    return setting && json_is_integer(setting->value) ? json_integer_value(setting->value) : 0;
}

static const char *number_text(int64_t number, char out[static 40])
{
    snprintf(out, 40, "%lld", (long long)number);
    return out;
}

// Returns the micro-batch with which `ranks` ranks make `batch` samples: with `times` micro-batches
// each if that is given, else the largest that divides them, up to the one before.
static int64_t fit_micro_batch(const zr_inherited *keep, int64_t times)
{
    int64_t batch = keep->before->batch, ranks = keep->ranks, micro = keep->before->micro_batch;
    if (times)
        return ZR_MAX(batch / (ranks * times), 1);
    while (micro > 1 && batch % (ranks * micro))
        micro--;
    return micro;
}

static bool makes_same_batch(const zr_inherited *keep, int64_t micro, int64_t times)
{
    int64_t batch = keep->before->batch, ranks = keep->ranks;
    return micro >= 1 && batch % (ranks * micro) == 0 && (!times || batch == ranks * micro * times);
}

// `fitting` is the micro-batch that would be chosen if none were given.
static zero_status refuse_batch(const zr_inherited *keep, zr_job_grid grid, int64_t micro,
                                int64_t fitting, int64_t times, zero_error *error)
{
    char number[40], way[160] = "";
    zr_ranks_words ranks = zr_ranks_in_words(grid);
    if (makes_same_batch(keep, fitting, times))
        snprintf(
            way, sizeof way,
            "; without --micro-batch (train_micro_batch_size_per_gpu) it is chosen to fit: %lld",
            (long long)fitting);
    return zr_fail(error, ZERO_ERR_CONFIG,
                   "the run to go on with has steps of %lld samples; %s with micro-batches "
                   "of %lld%s%s cannot make them%s",
                   (long long)keep->before->batch, ranks.text, (long long)micro,
                   times ? ", gradient_accumulation_steps " : "",
                   times ? number_text(times, number) : "", way);
}

static bool gives_batch(const zr_config *config)
{
    return given_integer(config, "train_batch_size") ||
           given_integer(config, "train_micro_batch_size_per_gpu") ||
           given_integer(config, "gradient_accumulation_steps");
}

// Returns whether the batch needs no adjusting: there are as many ranks as before, and either the
// configuration gives a batch, or the program would choose the same one, or the micro-batch of the
// run before is unknown.
static bool has_batch(const zr_inherited *keep, const zr_config *config, int64_t chosen)
{
    return keep->before->ranks == keep->ranks &&
           (gives_batch(config) || chosen * keep->ranks == keep->before->batch ||
            !keep->before->micro_batch);
}

static bool is_divided(zr_job_grid grid) { return grid.stages > 1 || grid.tensor > 1; }

// Says how many ranks share a batch. `split`: calls them data ranks in any case.
static zr_ranks_words words_of_ranks(zr_job_grid grid, bool split)
{
    zr_ranks_words words = zr_ranks_in_words(grid);
    if (split && !is_divided(grid))
        snprintf(words.text, sizeof words.text, "%lld data rank%s", (long long)grid.data,
                 grid.data == 1 ? "" : "s");
    return words;
}

// Writes "4 ranks instead of 2"; where the model is divided, or was, both numbers are called data
// ranks.
static void describe_ranks(const zr_inherited *keep, zr_job_grid grid, char out[static RANKS_BYTES])
{
    const zr_run_before *before = keep->before;
    const zr_job_grid past = {.stages = ZR_MAX(before->stages, 1),
                              .data = before->ranks,
                              .tensor = ZR_MAX(before->tensor, 1)};
    bool split = is_divided(grid) || is_divided(past), same = keep->ranks == before->ranks;
    zr_ranks_words now = words_of_ranks(grid, split && !same), then = words_of_ranks(past, split);
    if (same)
        snprintf(out, RANKS_BYTES, "%s", now.text);
    else if (split)
        snprintf(out, RANKS_BYTES, "%s instead of %s", now.text, then.text);
    else
        snprintf(out, RANKS_BYTES, "%s instead of %lld", now.text, (long long)before->ranks);
}

// Returns the grid of this run, with the data ranks that the caller gives.
static zr_job_grid grid_of_run(const zr_inherited *keep, const zr_config *config)
{
    return (zr_job_grid){
        .stages = config->pipeline.stages, .data = keep->ranks, .tensor = config->tensor};
}

// Makes a resumed training take steps of as many samples as before, in as many micro-batches as
// that needs on these ranks; otherwise it would read other text from here on. `chosen` is the
// program's own micro-batch.
static zero_status keep_batch(const zr_inherited *keep, zr_config *config, int64_t chosen,
                              const zero_logger *logger, zero_error *error)
{
    bool restarted = keep->restarted;
    int64_t batch = keep->before->batch, ranks = keep->ranks,
            micro = given_integer(config, "train_micro_batch_size_per_gpu");
    int64_t times = restarted ? 0 : given_integer(config, "gradient_accumulation_steps");
    char number[40], words[RANKS_BYTES];
    ZERO_TRY(zr_config_find_elastic(config, error));
    // Elasticity has one batch for all numbers of ranks that it allows.
    if (!keep->before->ranks || has_batch(keep, config, chosen) || config->elastic)
        return ZERO_OK;
    int64_t fitting = fit_micro_batch(keep, times);
    micro = micro ? micro : fitting;
    if (!makes_same_batch(keep, micro, times))
        return refuse_batch(keep, grid_of_run(keep, config), micro, fitting, times, error);
    describe_ranks(keep, grid_of_run(keep, config), words);
    zr_log(logger, restarted ? ZERO_LOG_WARNING : ZERO_LOG_INFO,
           "%s: %lld micro-batches of %lld each, so that a step keeps its %lld samples", words,
           (long long)(batch / (ranks * micro)), (long long)micro, (long long)batch);
    ZERO_TRY(zr_config_override(config, "train_batch_size", number_text(batch, number), "--resume",
                                false, logger, error));
    ZERO_TRY(zr_config_override(config, "train_micro_batch_size_per_gpu",
                                number_text(micro, number), "--resume", false, logger, error));
    return zr_config_override(config, "gradient_accumulation_steps",
                              number_text(batch / (ranks * micro), number), "--resume", false,
                              logger, error);
}

// The tensors that decayed in the checkpoint's run still decay, and no others, unless this
// configuration explicitly chooses otherwise.
static zero_status keep_decay(const zr_inherited *keep, zr_config *config,
                              const zero_logger *logger, zero_error *error)
{
    const zr_setting *said = zr_config_setting(config, "libzero.decay_all");
    bool given = said && json_is_boolean(said->value), all = given && json_is_true(said->value);
    zr_decay_before before = keep->before->decay;
    if (before == ZR_DECAY_UNKNOWN)
        return ZERO_OK;
    if (before == ZR_DECAY_OTHER && !given)
        return zr_fail(
            error, ZERO_ERR_CONFIG,
            "the parameter groups of the checkpoint decay neither all tensors nor those of two or "
            "more dimensions: libzero.decay_all must say which it shall be from here on");
    if (given && (before == ZR_DECAY_OTHER || all != (before == ZR_DECAY_ALL)))
        zr_log(logger, ZERO_LOG_WARNING,
               "libzero.decay_all %s holds from here on: the checkpoint was made with weight decay "
               "on %s",
               all ? "true" : "false",
               before == ZR_DECAY_ALL        ? "every tensor"
               : before == ZR_DECAY_MATRICES ? "tensors of two or more dimensions only"
                                             : "another choice of tensors");
    if (given || before != ZR_DECAY_ALL)
        return ZERO_OK;
    zr_log(logger, ZERO_LOG_INFO,
           "libzero.decay_all true: the checkpoint was made with weight decay on every tensor");
    return zr_config_override(config, "libzero.decay_all", "true", "--resume", false, logger,
                              error);
}

static bool gives_weight_decay(const zr_config *config)
{
    const zr_setting *said = zr_config_setting(config, WEIGHT_DECAY);
    return said && json_is_number(said->value);
}

// Keeps a weight decay that came from a DeepSpeed run. The program's own choice needs no record,
// because the program makes the same choice again.
static zero_status keep_weight_decay(const zr_inherited *keep, zr_config *config,
                                     const zero_logger *logger, zero_error *error)
{
    char number[40];
    if (!keep->before->has_weight_decay || gives_weight_decay(config))
        return ZERO_OK;
    zr_log(logger, ZERO_LOG_INFO, WEIGHT_DECAY " %g: the checkpoint was made with it",
           keep->before->weight_decay);
    snprintf(number, sizeof number, "%.17g", keep->before->weight_decay);
    return zr_config_override(config, WEIGHT_DECAY, number, "--resume", false, logger, error);
}

// Keeps the run's objective and rates, unless the configuration says otherwise.
static zero_status keep_formulas(const zr_inherited *keep, zr_config *config,
                                 const zero_logger *logger, zero_error *error)
{
    if (keep->before->has_rate_0 && !zr_config_has_value(config, "libzero.schedule_from_one"))
        ZERO_TRY(zr_config_override(config, "libzero.schedule_from_one", "false", "--resume", false,
                                    logger, error));
    if (!keep->before->has_loss_mean || zr_config_has_value(config, "libzero.loss_mean"))
        return ZERO_OK;
    zr_log(logger, ZERO_LOG_INFO, "libzero.loss_mean micro_batch: the checkpoint was made with it");
    return zr_config_override(config, "libzero.loss_mean", "micro_batch", "--resume", false, logger,
                              error);
}

zero_status zr_inherited_apply(const zr_inherited *keep, zr_config *config, int64_t micro_batch,
                               const zero_logger *logger, zero_error *error)
{
    ZERO_TRY(keep_batch(keep, config, micro_batch, logger, error));
    ZERO_TRY(keep_decay(keep, config, logger, error));
    ZERO_TRY(keep_weight_decay(keep, config, logger, error));
    return keep_formulas(keep, config, logger, error);
}

void zr_inherited_tell(const zr_run_before *before, const zr_config *config,
                       const zero_logger *logger)
{
    double now = config->optimizer.weight_decay;
    if (before->has_weight_decay && before->weight_decay != now)
        zr_log(logger, ZERO_LOG_WARNING,
               "weight decay is %g from here on (optimizer.params.weight_decay): the checkpoint "
               "was made with %g",
               now, before->weight_decay);
}
