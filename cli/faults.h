// What the program makes of faults that a file raises as a signal: memory that maps a file which
// has become shorter (SIGBUS) ends it with one message, a limit on the size of files (SIGXFSZ)
// becomes an error of the write. Only the program installs handlers, never the library.
#ifndef CLI_FAULTS_H
#define CLI_FAULTS_H

#include "options.h"
#include <zero/comm.h>

void cli_faults_install(const cli_command *command);
// The ranks that hear of it; NULL: no others, or no more.
void cli_faults_tell(zero_comm *comm);

#endif
