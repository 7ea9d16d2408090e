// Which process a rank is, and how it has ended. Its start tells a process from a later one of the
// same number. Private to local_*.c.
#ifndef ZR_COMM_LOCAL_PROCESS_H
#define ZR_COMM_LOCAL_PROCESS_H

#include "comm/local.h"

typedef struct zr_process {
    int32_t pid;
    uint64_t start;      // clock ticks since boot; 0: unknown
    uint64_t name_space; // of process numbers; processes of another one cannot be looked at
} zr_process;

typedef struct zr_process_look {
    char state; // 0: gone
    int wait_status;
    bool known; // whether wait_status is known
} zr_process_look;

zr_process zr_process_self(void);
zr_process_look zr_process_look_at(const zr_process *process);
// Describes the failure that the end of `rank` is. wait_status: as waitpid gives it; -1: unknown.
void zr_local_failure_of_end(zr_control *control, int rank, int wait_status, zr_local_failure *out);

#endif
