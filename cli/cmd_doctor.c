// zero doctor: reports what this machine has, and what it lacks.
#include "commands.h"
#include "failure.h"

int cli_doctor(const cli_arguments *a)
{
    zero_doctor_options options = {.path = a->text[OPT_PATH],
                                   .write_machine = a->text[OPT_WRITE_MACHINE]};
    zero_error error = {0};
    return zero_doctor(&options, cli_print, NULL, &error) == ZERO_OK ? 0
                                                                     : cli_fail(a->command, &error);
}
