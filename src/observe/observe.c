// The observer of an engine. A step that is wanted is recorded from step_begun to step_done, so that what happens between steps
// (evaluations, samples) neither fills the room nor stands in a table.
#include "observe/observe.h"

#include "base/file.h"
#include "comm/agree.h"
#include "files/own.h"
#include "monitor/breakdown.h"
#include "observe/monitors.h"

#include <string.h>
#include <sys/resource.h>

enum { RECORDS_OF_VISIT = 64, RECORDS_OF_CHUNK = 8, RECORDS_OF_PIECE = 16, RECORDS_OF_STEP = 256, CHUNK_ROWS = 16 };

struct zr_observation {
    zero_engine *engine;   // not owned
    zero_logger logger;
    bool reports;          // rank 0: what the configuration asks for
    zr_recorder *recorder; // NULL: only memory is asked for
    int64_t begun;         // records that were there when the step under way began
    zr_step_range kept;
    const char **units, **pieces;
    zr_messages messages;
    zr_monitors monitors;
};

static bool asks_for_times(const zr_config *config)
{
    return config->wall_clock_breakdown || config->flops_profiler.enabled || config->comms_logger.enabled;
}

static bool asks(const zr_config *config)
{
    return config->memory_breakdown || asks_for_times(config) || zr_monitors_asked(config);
}

// As DeepSpeed: where something times the steps anyway, monitors show it.
static bool monitors_show_times(const zr_config *config)
{
    return zr_monitors_asked(config) && (config->wall_clock_breakdown || config->flops_profiler.enabled);
}

// Where nobody says how often: every step up to 10, every tenth up to 100, and so on.
static bool prints(const zr_config *config, int64_t step)
{
    int64_t every = config->steps_per_print;
    if (every == 0)
        for (every = 1; every * 10 < step;)
            every *= 10;
    return step % every == 0;
}

static bool times_are_wanted(const zr_config *config, int64_t step)
{
    return (config->wall_clock_breakdown && prints(config, step)) || (config->flops_profiler.enabled && config->flops_profiler.step == step) ||
           config->comms_logger.enabled || monitors_show_times(config);
}

// Steps before the kept ones are recorded too: by them the room is known to be large enough.
static bool is_wanted(const zr_observation *o, int64_t step)
{
    return step <= o->kept.last || (o->reports && times_are_wanted(zr_engine_config(o->engine), step));
}

// More than what units of our own models record, unless their rows are cut very fine; a room that was too small grows.
static int64_t records_expected(const zr_plan *plan, zr_step_range kept)
{
    int64_t rows = plan->shape.batch * plan->shape.seq;
    int64_t micro_batch = plan->visit_count * RECORDS_OF_VISIT + rows / CHUNK_ROWS * RECORDS_OF_CHUNK + plan->piece_count * RECORDS_OF_PIECE;
    int64_t step = plan->settings.accumulation * micro_batch + plan->tensor_count * RECORDS_OF_PIECE + RECORDS_OF_STEP;
    return step * (kept.first ? kept.last - kept.first + 1 : 1);
}

// Logs each line of the text behind a name of nine columns, and empties it.
static zero_status log_lines(const zr_observation *o, const char *name, zr_buffer *text, zero_error *error)
{
    char *line = text->data;
    if (text->failed) {
        zr_buffer_free(text);
        return zr_fail(error, ZERO_ERR_MEMORY, "no memory for what \"%s\" says", name);
    }
    while (line && *line) {
        size_t length = strcspn(line, "\n");
        zr_log(&o->logger, ZERO_LOG_INFO, "%-8s %.*s", name, (int)length, line);
        line += length + (line[length] == '\n');
    }
    zr_buffer_free(text);
    return ZERO_OK;
}

static zero_status report_times(const zr_observation *o, int64_t step, zero_error *error)
{
    zr_buffer text = {0};
    zr_step_times times = zr_step_times_of(o->recorder, o->begun);
    zr_breakdown_time(step, &times, &text);
    return log_lines(o, "time", &text, error);
}

static zero_status report_memory(const zr_observation *o, int64_t step, zero_error *error)
{
    zr_buffer text = {0};
    zero_memory memory;
    struct rusage usage = {0};
    zero_memory_report(o->engine, &memory);
    getrusage(RUSAGE_SELF, &usage);
    zr_breakdown_memory(step, &memory, (int64_t)usage.ru_maxrss * 1024, &text);
    return log_lines(o, "memory", &text, error);
}

static int64_t owned_parameters(const zr_plan *plan, int unit)
{
    int64_t parameters = 0;
    for (int p = 0; p < plan->piece_count; p++)
        for (int t = 0; t < plan->pieces[p].tensor_count && plan->pieces[p].ref.unit == unit && plan->pieces[p].kind != ZERO_BUFFER; t++)
            parameters += plan->pieces[p].tensors[t].count;
    return parameters;
}

static zero_status flops_table(const zr_observation *o, int64_t step, zr_buffer *text, zero_error *error)
{
    const zr_plan *plan = zr_engine_plan(o->engine);
    const zr_flops_profiler *profiler = &zr_engine_config(o->engine)->flops_profiler;
    zr_unit_facts *units = zr_alloc((size_t)plan->unit_count * sizeof *units, error);
    if (!units)
        return ZERO_ERR_MEMORY;
    for (int u = 0; u < plan->unit_count; u++)
        units[u] = (zr_unit_facts){.name = o->units[u], .parameters = owned_parameters(plan, u), .fused = plan->units[u].fused};
    zr_flops_facts facts = {.step = step, .units = units, .unit_count = plan->unit_count, .ranks = plan->ranks, .detailed = profiler->detailed,
                            .recompute_factor = profiler->recompute_factor};
    zero_status status = zr_breakdown_flops(&facts, o->recorder, o->begun, text, error);
    zr_free(units);
    return status;
}

static zero_status write_text(const char *path, zr_buffer *text, zero_error *error)
{
    zero_status status = text->failed ? zr_fail(error, ZERO_ERR_MEMORY, "no memory for the text of \"%s\"", path)
                                      : zr_file_write_durable(path, text->data, text->length, error);
    zr_buffer_free(text);
    return status;
}

static zero_status report_flops(const zr_observation *o, int64_t step, zero_error *error)
{
    zr_buffer text = {0};
    const char *path = zr_engine_config(o->engine)->flops_profiler.output_file;
    zero_status status = flops_table(o, step, &text, error);
    if (status != ZERO_OK) {
        zr_buffer_free(&text);
        return status;
    }
    return path ? write_text(path, &text, error) : log_lines(o, "flops", &text, error);
}

static zero_status report_messages(zr_observation *o, int64_t step, zero_error *error)
{
    const zr_comms_logger *wanted = &zr_engine_config(o->engine)->comms_logger;
    zr_buffer text = {0};
    ZERO_TRY(zr_messages_add(&o->messages, o->recorder, o->begun, wanted->ops, error));
    if (wanted->verbose && step == 1)
        zr_breakdown_message_list(o->recorder, o->begun, wanted->ops, o->pieces, zr_engine_plan(o->engine)->piece_count, &text);
    return log_lines(o, "comm", &text, error);
}

static int64_t samples_of(const zr_observation *o, int64_t step)
{
    return step * zr_engine_config(o->engine)->train_batch;
}

static double milliseconds(int64_t nanoseconds)
{
    return (double)nanoseconds / 1e6;
}

// The learning rate and the loss scale are those of the next step, as DeepSpeed shows them.
static void show_step(zr_observation *o, const zero_step_info *info)
{
    const zr_config *config = zr_engine_config(o->engine);
    zr_progress progress = zr_engine_progress(o->engine);
    int64_t samples = samples_of(o, info->step);
    zr_scalar scalars[ZR_SCALAR_COUNT] = {{ZR_SCALAR_train_loss, info->loss}, {ZR_SCALAR_lr, zr_schedule_lr(&config->schedule, progress.updates)}};
    int count = 2;
    if (config->loss_scale.kind != ZR_SCALE_NONE)
        scalars[count++] = (zr_scalar){ZR_SCALAR_loss_scale, progress.scale.scale};
    if (monitors_show_times(config)) {
        zr_step_times times = zr_step_times_of(o->recorder, o->begun);
        scalars[count++] = (zr_scalar){ZR_SCALAR_elapsed_time_ms_forward, milliseconds(times.forward)};
        scalars[count++] = (zr_scalar){ZR_SCALAR_elapsed_time_ms_backward, milliseconds(times.backward)};
        scalars[count++] = (zr_scalar){ZR_SCALAR_elapsed_time_ms_backward_inner, milliseconds(times.backward - times.reduce)};
        scalars[count++] = (zr_scalar){ZR_SCALAR_elapsed_time_ms_backward_allreduce, milliseconds(times.reduce)};
        scalars[count++] = (zr_scalar){ZR_SCALAR_elapsed_time_ms_step, milliseconds(times.step)};
    }
    zr_monitors_write(&o->monitors, samples, config->train_batch, scalars, count);
}

static zero_status report(zr_observation *o, int64_t step, zero_error *error)
{
    const zr_config *config = zr_engine_config(o->engine);
    if (config->wall_clock_breakdown && prints(config, step))
        ZERO_TRY(report_times(o, step, error));
    if (config->memory_breakdown && prints(config, step))
        ZERO_TRY(report_memory(o, step, error));
    if (config->flops_profiler.enabled && config->flops_profiler.step == step)
        ZERO_TRY(report_flops(o, step, error));
    return config->comms_logger.enabled ? report_messages(o, step, error) : ZERO_OK;
}

// Between steps: room for twice of what was there, and what it holds.
static zero_status grow(zr_observation *o, int64_t step, zero_error *error)
{
    zr_recorder *larger, *old = o->recorder;
    if (old->dropped == 0)
        return ZERO_OK;
    zr_log(&o->logger, ZERO_LOG_WARNING, "recording step %lld: %lld of %lld records found no room; the next steps have more", (long long)step,
           (long long)old->dropped, (long long)(old->count + old->dropped));
    ZERO_TRY(zr_recorder_create(2 * (old->count + old->dropped), &larger, error));
    memcpy(larger->records, old->records, (size_t)old->count * sizeof *old->records);
    larger->count = old->count;
    o->recorder = larger;
    zr_recorder_destroy(old);
    return ZERO_OK;
}

static zero_status step_begun(void *user, zero_engine *engine, zero_error *error)
{
    zr_observation *o = user;
    int64_t done, micro_batch;
    zero_position(engine, &done, &micro_batch);
    if (!is_wanted(o, done + 1))
        return ZERO_OK;
    if (done < o->kept.first || done >= o->kept.last)
        zr_recorder_clear(o->recorder);
    o->begun = o->recorder->count;
    return zr_engine_record(engine, o->recorder, error);
}

static zero_status step_done(void *user, zero_engine *engine, const zero_step_info *info, zero_error *error)
{
    zr_observation *o = user;
    bool recorded = is_wanted(o, info->step);
    if (recorded)
        ZERO_TRY(zr_engine_record(engine, NULL, error));
    if (o->reports && zr_monitors_asked(zr_engine_config(o->engine)))
        show_step(o, info);
    if (o->reports)
        ZERO_TRY(report(o, info->step, error));
    return recorded ? grow(o, info->step, error) : ZERO_OK;
}

static void observation_free(zr_observation *o)
{
    zr_recorder_destroy(o->recorder);
    zr_messages_free(&o->messages);
    zr_monitors_close(&o->monitors);
    zr_free(o->units);
    zr_free(o->pieces);
    zr_free(o);
}

static void destroy(void *user, zero_engine *engine)
{
    zr_observation *o = user;
    zr_buffer text = {0};
    if (o->messages.steps > 0)
        zr_breakdown_messages(&o->messages, &text);
    log_lines(o, "comm", &text, NULL);
    zr_engine_record(engine, NULL, NULL);
    observation_free(o);
}

static zero_status fill_names(zr_observation *o, zero_error *error)
{
    const zr_plan *plan = zr_engine_plan(o->engine);
    o->units = zr_alloc((size_t)plan->unit_count * sizeof *o->units, error);
    o->pieces = zr_alloc((size_t)plan->piece_count * sizeof *o->pieces, error);
    if (!o->units || !o->pieces)
        return ZERO_ERR_MEMORY;
    for (int u = 0; u < plan->unit_count; u++)
        o->units[u] = plan->model->units[u].name;
    for (int p = 0; p < plan->piece_count; p++)
        o->pieces[p] = plan->pieces[p].name;
    return ZERO_OK;
}

// A file that cannot be written, or is something else, is refused before the first step.
static zero_status check_output(const zr_config *config, zero_error *error)
{
    zr_durable file;
    if (!config->flops_profiler.output_file)
        return ZERO_OK;
    ZERO_TRY(zr_own_check_file(config->flops_profiler.output_file, "table of flops_profiler", zr_breakdown_flops_is_one, NULL, error));
    ZERO_TRY(zr_durable_open(config->flops_profiler.output_file, &file, error));
    zr_durable_discard(&file);
    return ZERO_OK;
}

static zero_status prepare(zr_observation *o, const zr_config *config, zero_error *error)
{
    ZERO_TRY(fill_names(o, error));
    if (o->kept.first || asks_for_times(config))
        ZERO_TRY(zr_recorder_create(records_expected(zr_engine_plan(o->engine), o->kept), &o->recorder, error));
    if (!o->reports)
        return ZERO_OK;
    ZERO_TRY(check_output(config, error));
    ZERO_TRY(zr_monitors_prepare(config, error));
    return config->memory_breakdown ? report_memory(o, 0, error) : ZERO_OK;
}

// This rank's observation; NULL where it has nothing to see.
static zero_status make(zero_engine *engine, const zero_logger *logger, zr_step_range kept, zr_observation **out, zero_error *error)
{
    const zr_config *config = zr_engine_config(engine);
    bool reports = zr_engine_comm(engine)->rank == 0 && asks(config);
    if (!reports && !kept.first)
        return ZERO_OK;
    zr_observation *o = zr_alloc(sizeof *o, error);
    if (!o)
        return ZERO_ERR_MEMORY;
    o->engine = engine;
    o->logger = zr_engine_comm(engine)->rank == 0 ? *logger : (zero_logger){0};
    o->reports = reports;
    o->kept = kept;
    o->monitors = (zr_monitors){.config = config, .logger = &o->logger};
    zero_status status = prepare(o, config, error);
    if (status == ZERO_OK)
        *out = o;
    else
        observation_free(o);
    return status;
}

zero_status zr_observe(zero_engine *engine, const zero_logger *logger, zr_step_range kept, zr_observation **out, zero_error *error)
{
    *out = NULL;
    if (!asks(zr_engine_config(engine)) && !kept.first)
        return ZERO_OK;
    zero_status status = zr_comm_agree(zr_engine_comm(engine), make(engine, logger, kept, out, error), error);
    if (*out && status == ZERO_OK) {
        zr_observer observer = {.step_begun = step_begun, .step_done = step_done, .destroy = destroy, .user = *out};
        zr_engine_observe(engine, &observer);
    } else if (*out) {
        observation_free(*out);
        *out = NULL;
    }
    return status;
}

void zr_observation_evaluated(zr_observation *o, int64_t step, double loss)
{
    if (o && o->reports && zr_monitors_asked(zr_engine_config(o->engine)))
        zr_monitors_write(&o->monitors, samples_of(o, step), 0, &(zr_scalar){ZR_SCALAR_eval_loss, loss}, 1);
}

void zr_observation_owes(zr_observation *o)
{
    if (o)
        o->monitors.owes = true;
}

const zr_recorder *zr_observation_kept(const zr_observation *observation)
{
    return observation->recorder;
}

const char *const *zr_observation_units(const zr_observation *observation)
{
    return observation->units;
}

const char *const *zr_observation_pieces(const zr_observation *observation)
{
    return observation->pieces;
}
