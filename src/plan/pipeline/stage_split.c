#include "plan/pipeline/stage_split.h"

#include "base/text.h"

#include <regex.h>
#include <string.h>

// Appends the units of a range by name, those of one kind that follow each other by the first and
// the last.
static void list_units(const zr_unit_cost *units, int first, int end, zr_buffer *out)
{
    for (int u = first, last; u < end; u = last + 1) {
        for (last = u; last + 1 < end && strcmp(units[last + 1].kind, units[u].kind) == 0;)
            last++;
        zr_buffer_printf(out, "%s%s", u > first ? ", " : "", units[u].name);
        if (last > u)
            zr_buffer_printf(out, " to %s", units[last].name);
    }
}

void zr_pipeline_stage_list_units(const zr_unit_cost *units, const int *first, int stages,
                                  int chunks, int stage, zr_buffer *out)
{
    for (int c = stage; c < stages * chunks; c += stages) {
        zr_buffer_printf(out, "%s", c > stage ? "; " : "");
        list_units(units, first[c], first[c + 1], out);
    }
}

static zero_status check_count(const zr_pipeline_spec *spec, int units, zero_error *error)
{
    int parts = spec->stages * spec->chunks, most = units / spec->chunks;
    if (parts <= units)
        return ZERO_OK;
    return zr_fail(
        error, ZERO_ERR_CONFIG,
        "dividing %d units among %d pipeline stages of %d chunk%s: each of the %d chunks "
        "needs a unit; at most %d pipeline stages of %d chunk%s are possible",
        units, spec->stages, spec->chunks, spec->chunks == 1 ? "" : "s", parts, most, spec->chunks,
        spec->chunks == 1 ? "" : "s");
}

// Takes the first units of chunks from the specification.
static zero_status take_given_split(const zr_pipeline_spec *spec, int units, int *first,
                                    zero_error *error)
{
    int parts = spec->stages * spec->chunks;
    if (spec->split_count != parts)
        return zr_fail(error, ZERO_ERR_CONFIG,
                       "the split has %d numbers: %d pipeline stages of %d chunk%s need %d, the "
                       "first unit of each chunk",
                       spec->split_count, spec->stages, spec->chunks, spec->chunks == 1 ? "" : "s",
                       parts);
    if (spec->split[0] != 0)
        return zr_fail(error, ZERO_ERR_CONFIG,
                       "the split begins with unit %d: the first chunk begins with unit 0",
                       spec->split[0]);
    for (int c = 0; c < parts; c++) {
        first[c] = spec->split[c];
        if (c > 0 && first[c] <= first[c - 1])
            return zr_fail(error, ZERO_ERR_CONFIG,
                           "the split has %d after %d: its numbers ascend, and each chunk has at "
                           "least one unit",
                           first[c], first[c - 1]);
        if (first[c] >= units)
            return zr_fail(error, ZERO_ERR_CONFIG,
                           "the split has %d: the model's units are 0 to %d", first[c], units - 1);
    }
    first[parts] = units;
    return ZERO_OK;
}

static zero_status refuse_regex(const zr_pipeline_spec *spec, const zr_division_of_units *of,
                                zero_error *error)
{
    zr_buffer names = {0};
    list_units(of->units, 0, of->count, &names);
    zero_status status =
        names.failed
            ? zr_fail(error, ZERO_ERR_MEMORY, "no memory to list the model's units")
            : zr_fail(error, ZERO_ERR_CONFIG,
                      "dividing units of type \"%s\" among pipeline stages: no unit's kind "
                      "or name matches it; the units are %s",
                      spec->regex, names.data);
    zr_buffer_free(&names);
    return status;
}

// Weighs the units whose kind or name matches with 1, others with 0.
static zero_status weigh_matches(const zr_pipeline_spec *spec, const zr_division_of_units *of,
                                 zr_unit_cost *weights, zero_error *error)
{
    regex_t regex;
    char why[128];
    bool any = false;
    int failed = regcomp(&regex, spec->regex, REG_EXTENDED | REG_ICASE | REG_NOSUB);
    if (failed) {
        regerror(failed, &regex, why, sizeof why);
        return zr_fail(error, ZERO_ERR_CONFIG,
                       "dividing units of type \"%s\" among pipeline stages: this is no regular "
                       "expression (%s)",
                       spec->regex, why);
    }
    for (int u = 0; u < of->count; u++) {
        const zr_unit_cost *unit = &of->units[u];
        bool matches = regexec(&regex, unit->kind, 0, NULL, 0) == 0 ||
                       regexec(&regex, unit->name, 0, NULL, 0) == 0;
        weights[u].time = matches;
        any = any || matches;
    }
    regfree(&regex);
    return any ? ZERO_OK : refuse_regex(spec, of, error);
}

static zero_status divide_by_weight(const zr_pipeline_spec *spec, const zr_division_of_units *of,
                                    int *first, zero_error *error)
{
    zr_unit_cost *weights = zr_alloc((size_t)of->count * sizeof *weights, error); // as times
    zr_division_of_units weighed = *of;
    zero_status status = weights ? ZERO_OK : ZERO_ERR_MEMORY;
    if (weights && spec->method == ZR_SPLIT_TYPE)
        status = weigh_matches(spec, of, weights, error);
    for (int u = 0; weights && u < of->count && spec->method == ZR_SPLIT_PARAMETERS; u++)
        weights[u].time = (double)of->units[u].parameters;
    weighed.units = weights;
    if (status == ZERO_OK)
        status = zr_divide_balanced(&weighed, first, error);
    zr_free(weights);
    return status;
}

// Says whether some division fits with these numbers of sets.
static bool would_fit(const zr_division_of_units *of, int stages, const int *sets)
{
    zr_division_of_units other = *of;
    bool fits = false;
    int *first = zr_alloc((size_t)(stages * of->chunks + 1) * sizeof *first, NULL);
    other.stages = stages;
    other.sets = sets;
    if (first && zr_divide_best(&other, first, &fits, NULL) != ZERO_OK)
        fits = false;
    zr_free(first);
    return fits;
}

static int most_sets(const zr_division_of_units *of)
{
    int most = 0;
    for (int c = 0; c < of->stages * of->chunks; c++)
        most = ZR_MAX(most, of->sets[c]);
    return most;
}

// Returns with how many sets a chunk at most some division would fit; 0: with none. sets: scratch.
static int find_fitting_set_count(const zr_division_of_units *of, int *sets)
{
    for (int most = most_sets(of) - 1; most > 0; most--) {
        for (int c = 0; c < of->stages * of->chunks; c++)
            sets[c] = ZR_MIN(of->sets[c], most);
        if (would_fit(of, of->stages, sets))
            return most;
    }
    return 0;
}

// Returns with how many stages some division would fit if all of them held as many sets, and
// versions, as the one that holds most now; 0: with none. sets, versions: scratch.
static int find_fitting_stage_count(const zr_division_of_units *of, int *sets, int *versions)
{
    zr_division_of_units other = *of;
    int most = ZR_MIN(of->count / of->chunks, ZR_MOST_PIPELINE_STAGES), set = most_sets(of),
        version = 1;
    for (int c = 0; c < of->stages * of->chunks && of->versions; c++)
        version = ZR_MAX(version, of->versions[c]);
    for (int c = 0; c < most * of->chunks; c++) {
        sets[c] = set;
        versions[c] = version;
    }
    other.versions = versions;
    for (int stages = of->stages + 1; stages <= most; stages++)
        if (would_fit(&other, stages, sets))
            return stages;
    return 0;
}

static void append_advice(const zr_division_of_units *of, zr_buffer *text)
{
    int *scratch = zr_alloc(2 * (size_t)of->count * sizeof *scratch, NULL);
    int fewer = scratch ? find_fitting_set_count(of, scratch) : 0,
        stages = scratch ? find_fitting_stage_count(of, scratch, scratch + of->count) : 0;
    zr_free(scratch);
    if (fewer)
        zr_buffer_printf(text, "; at most %d micro-batch%s in flight on each would fit", fewer,
                         fewer == 1 ? "" : "es");
    if (stages)
        zr_buffer_printf(text, "; %d pipeline stages would fit", stages);
    if (!fewer && !stages)
        zr_buffer_printf(text, "; no number of pipeline stages fits: a smaller micro-batch, a "
                               "higher stage of ZeRO or offload would need less");
}

static int stage_of_most_bytes(const zr_division_of_units *of, const int *first)
{
    int most = 0;
    for (int s = 1; s < of->stages; s++)
        if (zr_divided_bytes(of, first, s) > zr_divided_bytes(of, first, most))
            most = s;
    return most;
}

// Says of the division that comes nearest what is too much, and what would fit.
static zero_status refuse_memory(const zr_division_of_units *of, const int *first,
                                 zero_error *error)
{
    zr_buffer text = {0};
    int stage = stage_of_most_bytes(of, first);
    int64_t bytes = zr_divided_bytes(of, first, stage);
    char need[ZR_BYTES_TEXT], more[ZR_BYTES_TEXT], limit[ZR_BYTES_TEXT];
    zr_bytes_text((double)bytes, need);
    zr_bytes_text((double)(bytes - of->memory_limit), more);
    zr_bytes_text((double)of->memory_limit, limit);
    zr_pipeline_stage_list_units(of->units, first, of->stages, of->chunks, stage, &text);
    zr_buffer_printf(&text, ") needs %s, %s more than the %s of a rank", need, more, limit);
    append_advice(of, &text);
    zero_status status =
        text.failed ? zr_fail(error, ZERO_ERR_MEMORY, "no memory to say what does not fit")
                    : zr_fail(error, ZERO_ERR_LIMIT,
                              "dividing %d units among %d pipeline stages: in the division that "
                              "needs least, pipeline stage %d (%s",
                              of->count, of->stages, stage, text.data);
    zr_buffer_free(&text);
    return status;
}

static zero_status divide_by_method(const zr_pipeline_spec *spec, const zr_division_of_units *of,
                                    int *first, zero_error *error)
{
    bool fits = true;
    if (spec->split_count)
        return take_given_split(spec, of->count, first, error);
    switch (spec->method) {
    case ZR_SPLIT_UNIFORM: zr_divide_evenly(of->count, of->stages * of->chunks, first); break;
    case ZR_SPLIT_PARAMETERS:
    case ZR_SPLIT_TYPE: return divide_by_weight(spec, of, first, error);
    default: ZERO_TRY(zr_divide_best(of, first, &fits, error));
    }
    return fits ? ZERO_OK : refuse_memory(of, first, error);
}

// Adds up what each stage has of the division.
static void compute_stage_loads(const zr_division_of_units *of, zr_pipeline_split *out)
{
    double total = 0, largest = 0;
    for (int s = 0; s < of->stages; s++) {
        zr_pipeline_stage_load *stage = &out->stage[s];
        stage->time = zr_divided_time(of, out->first, s);
        stage->bytes = zr_divided_bytes(of, out->first, s);
        total += stage->time;
        largest = stage->time > largest ? stage->time : largest;
    }
    for (int s = 0; s < of->stages; s++)
        out->stage[s].share = total > 0 ? out->stage[s].time / total : 1.0 / of->stages;
    out->imbalance = total > 0 ? largest * of->stages / total : 1;
}

zero_status zr_pipeline_split_make(const zr_pipeline_spec *spec, const zr_division_of_units *of,
                                   zr_pipeline_split *out, zero_error *error)
{
    size_t parts = (size_t)(spec->stages * spec->chunks);
    ZERO_TRY(check_count(spec, of->count, error));
    *out = (zr_pipeline_split){.stages = spec->stages,
                               .chunks = spec->chunks,
                               .first = zr_alloc((parts + 1) * sizeof *out->first, error),
                               .stage = zr_alloc((size_t)spec->stages * sizeof *out->stage, error)};
    zero_status status = ZERO_ERR_MEMORY;
    if (out->first && out->stage)
        status = divide_by_method(spec, of, out->first, error);
    if (status == ZERO_OK)
        compute_stage_loads(of, out);
    else
        zr_pipeline_split_free(out);
    return status;
}

void zr_pipeline_split_free(zr_pipeline_split *split)
{
    zr_free(split->first);
    zr_free(split->stage);
    *split = (zr_pipeline_split){0};
}
