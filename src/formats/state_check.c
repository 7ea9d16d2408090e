#include "formats/manifest.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// The most steps: multiplied by the samples of a step, it is still a valid number of samples.
#define MOST_STEPS 1e12
#define LEAST_SCALE 1e-40
// The limit of fp32; a dynamic scale comes down from it within a few steps.
#define MOST_SCALE 1e40
#define MOST_HYSTERESIS 1e6 // for fp16.hysteresis
#define MOST_RANKS 1e6

typedef struct row {
    const char *key;
    bool integer, optional;
    double least, most;
} row;

static const row rows[] = {
    {.key = "step", .integer = true, .most = MOST_STEPS},
    {.key = "updates", .integer = true, .most = MOST_STEPS},
    {.key = "loss_scale.scale", .least = LEAST_SCALE, .most = MOST_SCALE},
    {.key = "loss_scale.iteration", .integer = true, .most = MOST_STEPS},
    {.key = "loss_scale.last_overflow", .integer = true, .least = -1, .most = MOST_STEPS},
    {.key = "loss_scale.hysteresis", .integer = true, .most = MOST_HYSTERESIS},
    {.key = "gradient_scale", .least = LEAST_SCALE, .most = MOST_SCALE},
    // 0 if its writer did not know it
    {.key = "train_batch_size", .integer = true, .most = MOST_STEPS},
    {.key = "exact_micro_batch", .integer = true, .optional = true, .most = MOST_STEPS},
    {.key = "train.seq", .integer = true, .optional = true, .least = 1, .most = MOST_STEPS},
    {.key = "train.lines", .integer = true, .optional = true, .most = MOST_STEPS},
    {.key = "train.micro_batch", .integer = true, .optional = true, .least = 1, .most = MOST_STEPS},
    {.key = "train.ranks", .integer = true, .optional = true, .least = 1, .most = MOST_RANKS},
    {.key = "train.best_windows",
     .integer = true,
     .optional = true,
     .least = 1,
     .most = MOST_STEPS},
    {.key = "train.resumed_from", .integer = true, .optional = true, .most = MOST_STEPS},
};

// Returns the value of a key; "loss_scale.scale" is that of an object in the state.
static const json_t *value_at(const json_t *state, const char *key)
{
    char object[40] = "";
    const char *dot = strchr(key, '.');
    if (!dot)
        return json_object_get(state, key);
    memcpy(object, key, (size_t)(dot - key));
    return json_object_get(json_object_get(state, object), dot + 1);
}

static bool is_right(const row *of, const json_t *value)
{
    if (!value)
        return of->optional;
    bool kind = of->integer ? json_is_integer(value) : json_is_number(value);
    double number = json_number_value(value);
    return kind && number >= of->least && number <= of->most;
}

static zero_status refuse_state_value(const row *of, const json_t *value, const char *where,
                                      zero_error *error)
{
    char *found =
        value ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15)) : NULL;
    zero_status status = zr_fail(
        error, ZERO_ERR_DATA,
        "\"%s\": the state's \"%s\" is %.80s; it must be a%s number from %.15g to %.15g", where,
        of->key, found ? found : "missing", of->integer ? " whole" : "", of->least, of->most);
    free(found);
    return status;
}

zero_status zr_state_check(const json_t *state, const char *where, zero_error *error)
{
    for (int i = 0; i < ZR_COUNT(rows); i++) {
        const json_t *value = value_at(state, rows[i].key);
        if (!is_right(&rows[i], value))
            return refuse_state_value(&rows[i], value, where, error);
    }
    return ZERO_OK;
}

const char *zr_state_check_key(int i) { return i < ZR_COUNT(rows) ? rows[i].key : NULL; }
