// The state of a DeepSpeed run in the form of our checkpoints: step, updates, loss scale, batch,
// optimizer.
#include "formats/deepspeed.h"

#include "base/dtype.h"
#include "base/file.h"
#include "formats/manifest.h"

#include <math.h>
#include <string.h>
#include <strings.h>

typedef const zr_pickle_value *value;

static int64_t integer_or(value of, int64_t otherwise)
{
    int64_t number;
    return zr_pickle_integer(of, &number) ? number : otherwise;
}

static double number_or(value of, double otherwise)
{
    double number;
    return zr_pickle_number(of, &number) ? number : otherwise;
}

// Reads the optimizer's count of updates, which torch keeps as a tensor of one number and DeepSpeed
// as an integer.
static zero_status read_updates(const zr_deepspeed *ds, int64_t otherwise, int64_t *out,
                                zero_error *error)
{
    value step = zr_pickle_get(zr_ds_group_state(ds, 0, 0), "step");
    float number;
    int64_t begin;
    if (!zr_pickle_is(step, ZR_PICKLE_TENSOR)) {
        *out = integer_or(step, otherwise);
        return ZERO_OK;
    }
    const zr_torch_file *file = &ds->optim[0];
    ZERO_TRY(zr_torch_position(file, &step->tensor, "the optimizer's step", &begin, error));
    if (step->tensor.elements != 1 || strcmp(step->tensor.storage->dtype, "F32"))
        return zr_fail(error, ZERO_ERR_DATA, "\"%s\": the optimizer's step is no number of fp32",
                       file->zip.path);
    ZERO_TRY(zr_file_pread(file->zip.fd, &number, sizeof number, begin, file->zip.path, error));
    *out = number >= 0 && number < 1e15f ? (int64_t)number : otherwise;
    return ZERO_OK;
}

// Returns the samples of a step; 0 if unknown.
static int64_t samples_per_step(const zr_deepspeed *ds, value root, int64_t steps)
{
    value config = zr_pickle_get(root, "ds_config");
    int64_t batch = integer_or(zr_pickle_get(config, "train_batch_size"), 0),
            samples = integer_or(zr_pickle_get(root, "global_samples"), 0);
    int64_t micro = integer_or(zr_pickle_get(config, "train_micro_batch_size_per_gpu"), 0),
            accumulation = integer_or(zr_pickle_get(config, "gradient_accumulation_steps"), 0);
    if (batch > 0)
        return batch;
    if (micro > 0 && accumulation > 0 && micro < 1 << 20 && accumulation < 1 << 20)
        return micro * accumulation * ds->ranks;
    return steps > 0 && samples > 0 && samples % steps == 0 ? samples / steps : 0;
}

static bool has_optimizer_state(const zr_deepspeed *ds, const char *state)
{
    for (int v = 1; v < ds->vector_count; v++)
        if (!strcmp(ds->vectors[v].name, state))
            return true;
    return false;
}

static bool is_no(value of) { return zr_pickle_is(of, ZR_PICKLE_BOOL) && !of->integer; }

// Returns the optimizer's name: from the configuration, or else derived from the states that there
// are.
static const char *find_optimizer_name(const zr_deepspeed *ds, value root)
{
    static const char *const known[] = {"AdamW", "SGD", "Adagrad", "Lion", "LAMB"};
    value section = zr_pickle_get(zr_pickle_get(root, "ds_config"), "optimizer"),
          all = zr_pickle_get(zr_ds_optimizer(ds, 0),
                              ds->stage == 3 ? "optimizer_state_dict" : "base_optimizer_state");
    const char *type = zr_pickle_text(zr_pickle_get(section, "type"));
    for (int i = 0; type && i < ZR_COUNT(known); i++)
        if (!strcasecmp(type, known[i]))
            return known[i];
    bool coupled = is_no(zr_pickle_get(zr_pickle_get(section, "params"), "adam_w_mode")) ||
                   is_no(zr_pickle_get(zr_pickle_at(zr_pickle_get(all, "param_groups"), 0),
                                       "decoupled_weight_decay"));
    if (has_optimizer_state(ds, "exp_avg"))
        return !has_optimizer_state(ds, "exp_avg_sq") ? "Lion" : coupled ? "Adam" : "AdamW";
    return has_optimizer_state(ds, "sum") ? "Adagrad" : "SGD";
}

// If delayed_shift is 0, DeepSpeed counts hysteresis down without end, so it may be below 0.
static json_t *describe_scale(value scaler, double scale)
{
    return json_pack("{s:f, s:I, s:I, s:I}", "scale", scale, "iteration",
                     (json_int_t)integer_or(zr_pickle_get(scaler, "cur_iter"), 0), "last_overflow",
                     (json_int_t)integer_or(zr_pickle_get(scaler, "last_overflow_iter"), -1),
                     "hysteresis",
                     (json_int_t)ZR_MAX(integer_or(zr_pickle_get(scaler, "cur_hysteresis"), 1), 0));
}

// Describes precision as our configuration does. Only the dynamic scaler counts steps; a static one
// is 1 unless the precision is fp16.
static json_t *describe_precision(value scaler, double scale)
{
    bool dynamic = zr_pickle_get(scaler, "cur_iter") != NULL;
    return json_pack("{s:b, s:f}", "enabled", dynamic || scale != 1, "loss_scale",
                     dynamic ? 0 : scale);
}

static size_t length_of_pickled_list(value list)
{
    size_t length = 0;
    while (zr_pickle_at(list, length))
        length++;
    return length;
}

// Returns whether all tensors of a group have two or more dimensions (`matrices`), or all fewer.
static bool has_only(value shapes, bool matrices)
{
    bool only = zr_pickle_is(shapes, ZR_PICKLE_DICT);
    for (size_t i = 1; only && i < shapes->items.count; i += 2)
        only = (length_of_pickled_list(shapes->items.at[i]) >= 2) == matrices;
    return only;
}

typedef enum decay_rule { DECAY_UNKNOWN, DECAY_ALL, DECAY_MATRICES, DECAY_OTHER } decay_rule;

// Returns the largest weight decay of the parameter groups that have one; -1 if unknown.
static double largest_decay(value groups, size_t count)
{
    double largest = -1;
    for (size_t g = 0; g < count; g++) {
        double own = number_or(zr_pickle_get(zr_pickle_at(groups, g), "weight_decay"), 0);
        if (!(own >= 0) || !isfinite(own))
            return -1;
        if (zr_pickle_get(zr_pickle_at(groups, g), "weight_decay"))
            largest = fmax(largest, own);
    }
    return largest;
}

// Finds the tensors that the parameter groups decay (all, or those of two or more dimensions:
// libzero.decay_all), and the value of decay (-1 if unknown). If nothing is decayed, the value is
// known, but not the tensors that it would apply to.
static decay_rule find_decay_rule(const zr_deepspeed *ds, value root, double *decay)
{
    value all = zr_pickle_get(zr_ds_optimizer(ds, 0),
                              ds->stage == 3 ? "optimizer_state_dict" : "base_optimizer_state");
    value groups = zr_pickle_get(all, "param_groups"), shapes = zr_pickle_get(root, "param_shapes");
    bool every = true, matrices = true;
    size_t count = length_of_pickled_list(groups);
    *decay = count == length_of_pickled_list(shapes) ? largest_decay(groups, count) : -1;
    if (!(*decay > 0))
        return DECAY_UNKNOWN;
    for (size_t g = 0; g < count; g++) {
        double own = number_or(zr_pickle_get(zr_pickle_at(groups, g), "weight_decay"), 0);
        every = every && own == *decay;
        matrices =
            matrices && (own == *decay || own == 0) && has_only(zr_pickle_at(shapes, g), own > 0);
    }
    return every ? DECAY_ALL : matrices ? DECAY_MATRICES : DECAY_OTHER;
}

// Describes decay as our configuration does; NULL if it is unknown. decay_all is null for any other
// choice of tensors.
static json_t *describe_decay(decay_rule rule)
{
    return rule == DECAY_UNKNOWN
               ? NULL
               : json_pack("{s:o}", "decay_all",
                           rule == DECAY_OTHER ? json_null() : json_boolean(rule == DECAY_ALL));
}

static json_t *describe_optimizer(double decay)
{
    return decay < 0 ? NULL : json_pack("{s:{s:f}}", "params", "weight_decay", decay);
}

typedef struct standing { // the run's progress
    int64_t steps, updates;
    double scale; // the loss scale
} standing;

static zero_status read_standing(const zr_deepspeed *ds, value root, value scaler, standing *out,
                                 zero_error *error)
{
    int64_t steps = integer_or(zr_pickle_get(root, "global_steps"), 0);
    int64_t skipped = integer_or(zr_pickle_get(root, "skipped_steps"), 0);
    if (steps < 0 || skipped < 0 || skipped > steps)
        return zr_fail(error, ZERO_ERR_DATA, "\"%s\": %lld steps, of which %lld were skipped",
                       ds->model[0].zip.path, (long long)steps, (long long)skipped);
    double scale = number_or(zr_pickle_get(scaler, "cur_scale"), 1);
    if (!isfinite(scale)) // JSON could not express it
        return zr_fail(error, ZERO_ERR_DATA, "\"%s\": a loss scale of %g", ds->optim[0].zip.path,
                       scale);
    *out = (standing){.steps = steps, .scale = scale};
    return read_updates(ds, steps - skipped, &out->updates, error);
}

static json_t *describe_origin(const zr_deepspeed *ds, value root)
{
    const char *version = zr_pickle_text(zr_pickle_get(root, "ds_version"));
    return json_pack("{s:s, s:s?, s:i, s:i}", "imported_from", "DeepSpeed", "version", version,
                     "stage", ds->stage, "ranks", ds->ranks);
}

static json_t *describe_config(const zr_deepspeed *ds, value root, value scaler, double scale)
{
    double decay;
    const decay_rule rule = find_decay_rule(ds, root, &decay);
    return json_pack("{s:o, s:o*, s:o*}", "fp16", describe_precision(scaler, scale), "libzero",
                     describe_decay(rule), "optimizer", describe_optimizer(decay));
}

zero_status zr_ds_describe(const zr_deepspeed *ds, zr_source *out, zero_error *error)
{
    value root = ds->model[0].pickle.root,
          scaler = zr_pickle_get(zr_ds_optimizer(ds, 0), "loss_scaler");
    standing at = {0};
    ZERO_TRY(read_standing(ds, root, scaler, &at, error));
    out->state = json_pack(
        "{s:I, s:I, s:o, s:f, s:I, s:s, s:s, s:o, s:o}", "step", (json_int_t)at.steps, "updates",
        (json_int_t)at.updates, "loss_scale", describe_scale(scaler, at.scale), "gradient_scale",
        at.scale, "train_batch_size", (json_int_t)samples_per_step(ds, root, at.steps), "optimizer",
        find_optimizer_name(ds, root), "model", "imported", "lineage", describe_origin(ds, root),
        "config", describe_config(ds, root, scaler, at.scale));
    return out->state
               ? zr_state_check(out->state, ds->folder, error)
               : zr_fail(error, ZERO_ERR_MEMORY, "no memory for the state of \"%s\"", ds->folder);
}
