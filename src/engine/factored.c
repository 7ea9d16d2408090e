#include "engine/factored.h"

#include "engine/engine_internal.h"
#include "model/unit.h"

#include <math.h>
#include <string.h>

// ---- what is kept of a tensor -------------------------------------------------------------------

typedef struct kept { // rows: NULL for a vector
    const zr_tensor_factors *of;
    float *rows, *columns; // averages
    float *row_roots, *column_roots;
    int64_t *row_sums, *column_sums; // two words each
} kept;

static kept kept_of(const zero_engine *engine, int number)
{
    const zr_plan *plan = engine->plan;
    const zr_tensor_factors *of = &plan->factors[number];
    float *averages = (float *)(void *)engine->spaces[ZR_SPACE_FACTORS].at + of->first,
          *roots = averages + plan->factor_elems;
    int64_t *sums = (int64_t *)(void *)(roots - of->first + plan->factor_elems) + 2 * of->first;
    return (kept){.of = of,
                  .rows = of->rows ? averages : NULL,
                  .columns = averages + of->rows,
                  .row_roots = of->rows ? roots : NULL,
                  .column_roots = roots + of->rows,
                  .row_sums = of->rows ? sums : NULL,
                  .column_sums = sums + 2 * of->rows};
}

float *zr_engine_factors(const zero_engine *engine, int number, bool of_rows, int64_t *count)
{
    const kept k = kept_of(engine, number);
    *count = of_rows ? k.of->rows : k.of->columns;
    return of_rows ? k.rows : k.columns;
}

bool zr_engine_saves_factors(const zero_engine *engine, int number)
{
    return engine->update.factor_savers[number] == engine->grid.world->rank;
}

zero_status zr_factored_create(zero_engine *engine, zero_error *error)
{
    const zr_plan *plan = engine->plan;
    zero_comm *world = engine->grid.world;
    int64_t *savers = engine->update.factor_savers, at_once = ZR_COMM_SMALL_BYTES / 8;
    memset(engine->spaces[ZR_SPACE_FACTORS].at, 0, (size_t)plan->spaces[ZR_SPACE_FACTORS].bytes);
    for (int t = 0; t < plan->tensor_count; t++)
        savers[t] = INT64_MAX;
    for (int p = 0; p < plan->flat_param_count; p++)
        for (int t = 0; t < plan->flat_params[p].tensor_count; t++)
            if (plan->flat_params[p].state_first >= 0)
                savers[plan->flat_params[p].tensors[t].number] = world->rank;
    for (int64_t t = 0; t < plan->tensor_count; t += at_once)
        ZERO_TRY(zr_comm_all_reduce_small(
            world, savers + t, ZR_MIN(at_once, plan->tensor_count - t), ZERO_I64, ZR_MIN, error));
    return ZERO_OK;
}

// ---- stretches ----------------------------------------------------------------------------------

// Elements of a part of a tensor, as operations take them; row, column: of the whole matrix, in
// which the rows and columns of `shape` begin.
typedef struct stretch {
    zr_factored shape;
    int64_t row, column;
} stretch;

// Takes elements [start, start + count) of a tensor that may be a tile. Returns how many of them,
// from the first on, are a stretch.
static int64_t find_stretch(const zero_tensor_desc *tensor, int64_t start, int64_t count,
                            stretch *out)
{
    const zero_tensor_desc whole = zr_tensor_whole(tensor);
    int64_t last = whole.dims - 1, columns = whole.shape[last], at;
    if (tensor->tile.whole && tensor->tile.axis == last) {
        int64_t wide = tensor->shape[last], parts = zr_tensor_parts(tensor);
        *out = (stretch){.shape = {.width = wide / parts,
                                   .stride = columns / parts,
                                   .parts = parts,
                                   .first = start % wide,
                                   .count = count},
                         .row = start / wide,
                         .column = tensor->tile.first};
        return count;
    }
    count = zr_tile_stretch(tensor, start, count, &at);
    *out = (stretch){.shape = {.width = columns,
                               .stride = columns,
                               .parts = 1,
                               .first = at % columns,
                               .count = count},
                     .row = at / columns};
    return count;
}

typedef void (*stretch_use)(const zr_update_walk *walk, int number, const stretch *s,
                            const zr_range_states *at);

// Calls `use` for the stretches of a part.
static void each_stretch(const zr_update_walk *walk, const zr_plan_tensor *tensor, int64_t first,
                         int64_t count, stretch_use use)
{
    stretch s;
    for (int64_t end = first + count; first < end; first += s.shape.count) {
        const zr_range_states at = zr_update_states_from(walk, first);
        find_stretch(tensor->desc, first - tensor->first, end - first, &s);
        s.shape.place = first;
        s.shape.gradient = at.gradient_dtype;
        s.shape.parameters = at.parameters_dtype;
        use(walk, tensor->number, &s, &at);
    }
}

// ---- walk 0: sums of squares by rows and columns ------------------------------------------------

// Returns the coarse unit: all squares together are at most 2^51 of them.
static double find_unit(const zero_engine *engine)
{
    double norm = sqrt(zr_exact_value(&engine->sums.norm)) * (double)engine->update.scale;
    int exponent = 0;
    // Scaled gradients are rounded: 4 leaves room for that.
    if (isnormal(norm * norm))
        frexp(4 * norm * norm, &exponent);
    return ldexp(1, exponent - 51);
}

// Returns the fine unit of a tensor's sums: each sum has at most 2^50 of it beyond the coarse ones.
static double fine_unit(const zr_tensor_factors *of, double coarse)
{
    int64_t addends = of->rows ? ZR_MAX(of->rows, of->columns) : 1;
    int exponent;
    frexp((double)addends, &exponent);
    return ldexp(coarse, exponent - 51);
}

void zr_factored_begin(zero_engine *engine)
{
    const zr_plan *plan = engine->plan;
    char *sums =
        engine->spaces[ZR_SPACE_FACTORS].at + 2 * plan->factor_elems * (int64_t)sizeof(float);
    memset(sums, 0, 2 * (size_t)plan->factor_elems * sizeof(int64_t));
    engine->operands.factored =
        (zr_factored_values){.gradient_scale = engine->update.scale,
                             .most = (float)(1 / engine->config->optimizer.least_root),
                             .coarse = find_unit(engine)};
}

static void sum_stretch(const zr_update_walk *walk, int number, const stretch *s,
                        const zr_range_states *at)
{
    zr_factored_values *values = &walk->engine->operands.factored;
    const kept k = kept_of(walk->engine, number);
    values->fine = fine_unit(k.of, values->coarse);
    zr_run(walk->queue, zr_op_factor_sums(&s->shape, values, at->gradient,
                                          k.row_sums ? k.row_sums + 2 * s->row : NULL,
                                          k.column_sums + 2 * s->column));
}

static void sum_part(void *user, const zr_plan_tensor *tensor, int64_t first, int64_t count)
{
    each_stretch(user, tensor, first, count, sum_stretch);
}

void zr_factored_add_sums(const zr_update_walk *walk, int flat_param)
{
    zero_engine *engine = walk->engine;
    zr_span own;
    if (!zr_update_counted_span(walk, flat_param, &own))
        return;
    const zr_range_states at = zr_update_states_from(walk, own.first);
    zr_for_parts(&engine->plan->flat_params[flat_param], own, sum_part, (void *)walk);
    zr_norm_add_squares(engine, engine->queue, flat_param, own, ZERO_F32, at.master,
                        zr_update_squares(engine, false), true);
}

// ---- averages -----------------------------------------------------------------------------------

// How averages move to the means of this step's squares.
typedef struct moving {
    double take; // part of the new ones
    double coarse, fine;
} moving;

static void move_averages(const moving *m, const int64_t *sums, int64_t count, int64_t addends,
                          float *averages)
{
    for (int64_t i = 0; i < count; i++) {
        double sum = (double)sums[2 * i] * m->coarse + (double)sums[2 * i + 1] * m->fine,
               old = averages[i];
        averages[i] = (float)(old + m->take * (sum / (double)addends - old));
    }
}

// Sets the reciprocals of the roots of averages / by.
static void find_roots(const float *averages, int64_t count, double by, float *roots)
{
    for (int64_t i = 0; i < count; i++)
        roots[i] = (float)(1 / sqrt(averages[i] / by));
}

static double mean_of(const float *averages, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += averages[i];
    return sum / (double)count;
}

static void average_tensor(const zero_engine *engine, int number)
{
    const zr_optimizer_spec *spec = &engine->config->optimizer;
    const kept k = kept_of(engine, number);
    double t = (double)(engine->progress.updates + 1), coarse = engine->operands.factored.coarse;
    const moving m = {.take = __builtin_pow(t, spec->beta2_decay),
                      .coarse = coarse,
                      .fine = fine_unit(k.of, coarse)};
    move_averages(&m, k.column_sums, k.of->columns, ZR_MAX(k.of->rows, 1), k.columns);
    find_roots(k.columns, k.of->columns, 1, k.column_roots);
    if (!k.rows)
        return;
    move_averages(&m, k.row_sums, k.of->rows, k.of->columns, k.rows);
    find_roots(k.rows, k.of->rows, fmax(mean_of(k.rows, k.of->rows), spec->least_root),
               k.row_roots);
}

zero_status zr_factored_average(zero_engine *engine, zero_error *error)
{
    const zr_plan *plan = engine->plan;
    char *sums =
        engine->spaces[ZR_SPACE_FACTORS].at + 2 * plan->factor_elems * (int64_t)sizeof(float);
    ZERO_TRY(zr_words_all_reduce(engine, sums, plan->factor_elems, 2, error));
    ZERO_TRY(
        zr_norm_all_reduce(engine, zr_update_squares(engine, false), plan->tensor_count, error));
    for (int p = 0; p < plan->flat_param_count; p++)
        ZERO_TRY(zr_guard_await(engine, p, error));
    for (int t = 0; t < plan->tensor_count; t++)
        if (plan->factors[t].columns)
            average_tensor(engine, t);
    return ZERO_OK;
}

// ---- walk 1: squares of directions --------------------------------------------------------------

static void square_stretch(const zr_update_walk *walk, int number, const stretch *s,
                           const zr_range_states *at)
{
    const int64_t most = (ZR_SQUARE_PARTS - 1) * ZR_CHUNK;
    zero_engine *engine = walk->engine;
    double *squares = engine->operands.squares;
    const kept k = kept_of(engine, number);
    zr_exact *sum = &zr_update_squares(engine, true)[number];
    int64_t size = (int64_t)zero_dtype_bytes(at->gradient_dtype),
            wide = s->shape.width * s->shape.parts;
    for (int64_t done = 0; done < s->shape.count; done += most) {
        int64_t from = s->shape.first + done;
        zr_factored part = s->shape;
        part.first = from % wide;
        part.count = ZR_MIN(most, s->shape.count - done);
        part.place += done;
        zr_run(walk->queue,
               zr_op_factored_squares(&part, &engine->operands.factored,
                                      (const char *)at->gradient + done * size,
                                      k.row_roots ? k.row_roots + s->row + from / wide : NULL,
                                      k.column_roots + s->column, squares));
        for (int64_t i = 0; i < zr_factored_sums(&part); i++)
            zr_exact_add(sum, squares[i]);
    }
}

static void square_part(void *user, const zr_plan_tensor *tensor, int64_t first, int64_t count)
{
    each_stretch(user, tensor, first, count, square_stretch);
}

void zr_factored_add_squares(const zr_update_walk *walk, int flat_param)
{
    zr_span own;
    if (zr_update_counted_span(walk, flat_param, &own))
        zr_for_parts(&walk->engine->plan->flat_params[flat_param], own, square_part, (void *)walk);
}

zero_status zr_factored_sum_squares(zero_engine *engine, zero_error *error)
{
    return zr_norm_all_reduce(engine, zr_update_squares(engine, true), engine->plan->tensor_count,
                              error);
}

// ---- walk 2: weights ----------------------------------------------------------------------------

static void update_stretch(const zr_update_walk *walk, int number, const stretch *s,
                           const zr_range_states *at)
{
    const kept k = kept_of(walk->engine, number);
    zr_run(walk->queue,
           zr_op_factored_update(&s->shape, &walk->engine->operands.factored, at->master,
                                 at->gradient, k.row_roots ? k.row_roots + s->row : NULL,
                                 k.column_roots + s->column, at->parameters));
}

// Returns the factor of a tensor's directions.
static double step_of(const zero_engine *engine, const zr_plan_tensor *tensor)
{
    const zr_optimizer_spec *spec = &engine->config->optimizer;
    double t = (double)(engine->progress.updates + 1),
           elements = (double)zr_factors_elements(&engine->plan->factors[tensor->number]),
           scale =
               sqrt(zr_exact_value(&zr_update_squares(engine, false)[tensor->number]) / elements),
           size = sqrt(zr_exact_value(&zr_update_squares(engine, true)[tensor->number]) / elements);
    return fmax(spec->eps, scale) * fmin(engine->update.lr, 1 / sqrt(t)) /
           fmax(1, size / spec->clip);
}

void zr_factored_apply(void *user, const zr_plan_tensor *tensor, int64_t first, int64_t count)
{
    zr_update_walk *walk = user;
    zero_engine *engine = walk->engine;
    const zr_range_states at = zr_update_states_from(walk, first);
    double decay = tensor->decays ? walk->weight_decay : 0;
    engine->operands.factored.keep = (float)(1 - engine->update.lr * decay);
    engine->operands.factored.step = (float)step_of(engine, tensor);
    each_stretch(walk, tensor, first, count, update_stretch);
    zr_update_average(walk, count, &at);
}
