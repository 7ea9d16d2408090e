// How the program handles file faults that arrive as signals. If a mapped file has become shorter
// (SIGBUS), the program ends with one message; a write beyond the limit on file sizes (SIGXFSZ)
// becomes an error of that write. Only the program installs handlers, never the library.
#ifndef CLI_FAULTS_H
#define CLI_FAULTS_H

#include "options.h"
#include <zero/comm.h>

void cli_faults_install(const cli_command *command);
// Sets the communicator whose ranks are told of a fault; NULL: there are no others, or no longer.
void cli_faults_tell(zero_comm *comm);

#endif
