// A machine of zero simulate (machines/NAME.json), or the frameworks of machines/frameworks.json. A
// machine that is accepted is written to a file that says the same, and what is divided by is
// above 0.
#include "fuzz.h"

#include "simulate/machine.h"

#include <math.h>
#include <string.h>

static void check_machine(const zr_sim_machine *machine)
{
    fuzz_must(machine->devices >= 1 && machine->processors >= 1);
    fuzz_must(machine->memory > 0 && isfinite(machine->memory));
    fuzz_must(machine->memory_rate > 0 && isfinite(machine->memory_rate));
    for (int i = 0; i < ZR_SIM_REACHES; i++)
        fuzz_must(machine->links[i].rate > 0 && isfinite(machine->links[i].rate) &&
                  machine->links[i].latency >= 0 && machine->links[i].sharers >= 1);
}

static zero_status write_again(const zr_sim_machine *machine, zero_error *error)
{
    zr_buffer text = {0}, twice = {0};
    zr_sim_machine again;
    zr_sim_machine_write(machine, &text);
    const zr_sim_text file = {"again", text.data, text.length};
    zero_status status = text.failed ? zr_fail(error, ZERO_ERR_MEMORY, "no memory for a machine")
                                     : zr_sim_machine_parse(&file, &again, error);
    if (status == ZERO_OK)
        zr_sim_machine_write(&again, &twice);
    fuzz_must(status == ZERO_OK || status == ZERO_ERR_MEMORY);
    fuzz_must(status != ZERO_OK || twice.failed || !strcmp(text.data, twice.data));
    zr_buffer_free(&text);
    zr_buffer_free(&twice);
    return status;
}

zero_status fuzz_one(const uint8_t *data, size_t size, zero_error *error)
{
    const zr_sim_text file = {"machine.json", (const char *)data, size};
    zr_sim_machine machine = {.name = ""};
    zr_sim_framework *frameworks = NULL;
    int count = 0;
    zero_status status = zr_sim_machine_parse(&file, &machine, error);
    if (status == ZERO_OK) {
        check_machine(&machine);
        return write_again(&machine, error);
    }
    if (status == ZERO_ERR_MEMORY)
        return status;
    status = zr_sim_frameworks_parse(&file, &frameworks, &count, error);
    for (int i = 0; i < count && status == ZERO_OK; i++)
        fuzz_must(memchr(frameworks[i].name, 0, ZR_SIM_NAME));
    zr_free(frameworks);
    return status;
}
