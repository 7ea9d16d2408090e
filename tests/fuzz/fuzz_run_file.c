// A run for zero simulate --run: whatever a file says, what is predicted of an accepted run is a
// number.
#include "fuzz.h"

#include "simulate/catalogue.h"
#include "simulate/step.h"

#include <math.h>

static zr_sim_catalogue catalogue; // read once

static void close_catalogue(void) { zr_sim_catalogue_close(&catalogue); }

static void open_catalogue(void)
{
    zero_error error;
    fuzz_must(zr_sim_catalogue_open(&catalogue, &error) == ZERO_OK);
    atexit(close_catalogue);
}

zero_status fuzz_one(const uint8_t *data, size_t size, zero_error *error)
{
    zr_sim_run run = {.number = ZR_SIM_16_BIT};
    zr_sim_step step;
    const zr_sim_text file = {"run.json", (const char *)data, size};
    if (!catalogue.machines)
        open_catalogue();
    run.machine = catalogue.machines[size % (size_t)catalogue.machine_count];
    run.framework = catalogue.frameworks[size % (size_t)catalogue.framework_count];
    zr_sim_run_set_attention(&run);
    fuzz_must(zr_sim_order_read("tensor", &run, error) == ZERO_OK);
    zero_status status = zr_sim_run_parse(&file, &run, error);
    if (status != ZERO_OK)
        return status;
    status = zr_sim_step_find(&run, &step, error);
    if (status != ZERO_OK && status != ZERO_ERR_LIMIT)
        return status;
    fuzz_must(isfinite(step.seconds) && step.seconds > 0);
    fuzz_must(isfinite(step.memory) && step.memory > 0);
    return ZERO_OK; // a run that does not fit into memory is accepted, too
}
