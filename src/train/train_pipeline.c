// What a training says of its pipeline before its first step: who has which units, how well that is
// balanced, and which pipeline stage needs most memory.
#include "comm/agreement.h"
#include "engine/engine_api.h"
#include "model/pipeline_stage_cut.h"
#include "setup/pipeline_stages.h"
#include "train/training.h"

#include <string.h>

// Logs what the buffer holds as one line.
static void log_line(const zero_logger *logger, const char *heading, const zr_buffer *line)
{
    zero_log_level level = *heading ? ZERO_LOG_INFO : ZERO_LOG_DEBUG; // details have no heading
    if (!line->failed && line->length > 0)
        zr_log(logger, level, "%-8s %s", heading, line->data);
}

static void log_stage(const zr_pipeline_part *part, const zero_model *model, int stage,
                      zr_buffer *line, const zero_logger *logger)
{
    line->length = 0;
    zr_buffer_printf(line, "pipeline stage %d: ", stage);
    zr_pipeline_stages_units(part, model, stage, line);
    zr_buffer_printf(line, " (%.0f%%)", 100 * zr_pipeline_stages_cost_share(part, stage));
    zr_pipeline_stages_versions(part, stage, line);
    log_line(logger, "", line);
}

zero_status zr_train_describe_pipeline(const zr_train *train, zero_error *error)
{
    const zr_plan *plan = zr_engine_plan(train->run.engine);
    const zr_pipeline_part *part = plan->pipeline;
    const zero_logger *logger = &train->logger;
    zr_simulation simulation;
    zr_buffer line = {0};
    if (!part)
        return ZERO_OK;
    const zero_model *model = zr_pipeline_stage_origin(plan->model);
    zero_status status = zr_pipeline_stages_simulate(part, &simulation, error);
    if (status == ZERO_OK) {
        zr_pipeline_stages_heading(part, simulation.bubble, &line);
        log_line(logger, "pipeline", &line);
        for (int s = 0; s < part->pipeline.stages; s++)
            log_stage(part, model, s, &line, logger);
        line.length = 0;
        zr_pipeline_stages_in_one_part(part, model, plan->settings.activation_checkpoints > 0,
                                       &line);
        log_line(logger, "", &line);
    }
    zr_simulation_free(&simulation);
    zr_buffer_free(&line);
    return status;
}

zero_status zr_train_find_largest(const zr_train *train, zr_train_memory *out, zero_error *error)
{
    zero_comm *comm = train->comm;
    const zr_plan *plan = zr_engine_plan(train->run.engine);
    int64_t own = zr_plan_total_bytes(plan), most = own, back;
    *out = (zr_train_memory){.stage = -1};
    memcpy(out->bytes, plan->bytes, sizeof out->bytes);
    if (!plan->pipeline)
        return ZERO_OK;
    out->stage = plan->pipeline->stage;
    ZERO_TRY(zr_comm_agree_on_largest(comm, &most, error));
    back = own == most ? comm->size - comm->rank : 0; // largest for the first of these ranks
    ZERO_TRY(zr_comm_agree_on_largest(comm, &back, error));
    return zr_comm_broadcast(comm, out, sizeof *out, comm->size - (int)back, error);
}
