// Messages say what a rank of a pipeline was at when something went wrong: its own failures here;
// those of ranks that can no longer speak, the communicator (comm/communicator.h).
#include "engine/step.h"

#include <stdio.h>
#include <string.h>

void zr_step_begin_work(zero_engine *engine, int chunk, int micro_batch)
{
    const zr_pipeline_part *part = engine->plan->pipeline;
    const zr_work work = {.stage = part->stage,
                          .stages = part->pipeline.stages,
                          .chunk = chunk,
                          .micro_batch = micro_batch};
    zr_comm_report_work(engine->grid.world, &work);
}

// The message of another rank's failure has that one's place.
static bool is_own(zero_status status)
{
    return status != ZERO_OK && status != ZERO_ERR_PEER && status != ZERO_ERR_TIMEOUT;
}

zero_status zr_step_say_work(const zero_engine *engine, int chunk, const char *what,
                             zero_status status, zero_error *error)
{
    const zr_pipeline_part *part = engine->plan->pipeline;
    if (!error || !is_own(status))
        return status;
    if (!error->message[0]) // a unit need not say more than its status
        zr_fail(error, status, "%s", zero_status_text(status));
    size_t used = strlen(error->message);
    snprintf(error->message + used, sizeof error->message - used,
             " (rank %d, pipeline stage %d of %d, chunk %d: %s)", engine->grid.world->rank,
             part->stage, part->pipeline.stages, chunk, what);
    zr_comm_report_work(engine->grid.world, NULL);
    return status;
}
