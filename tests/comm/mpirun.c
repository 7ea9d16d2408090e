#define _GNU_SOURCE
#include "mpirun.h"

#include "base/clock.h"

#include "../sanitizers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <stdarg.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

char *mpirun_program;

int mpirun_rank(const mpirun_scenario *scenarios, int count, char **arguments)
{
    const char *kind = arguments[2], *scenario = arguments[3], *timeout = arguments[4];
    zero_error error = {0};
    zero_comm *comm;
    zero_comm_options options = {
        .struct_size = sizeof options, .timeout_seconds = atof(timeout), .kind = kind};
    zero_status status = zero_comm_open(&options, &comm, &error);
    if (status != ZERO_OK) {
        printf("[opening: %s: %s]\n", zero_status_name(status), error.message);
        return 1;
    }
    int rank = zero_comm_rank(comm);
    for (int i = 0; i < count; i++)
        if (!strcmp(scenarios[i].name, scenario))
            status = scenarios[i].run(comm, &error);
    printf("[rank %d ends with %s%s%s]\n", rank, zero_status_name(status), status ? ": " : "",
           status ? error.message : "");
    fflush(stdout);
    if (status != ZERO_OK) {
        zero_comm_abort(comm, error.message);
        // so that the launcher, which ends the job at the first exit, lets the others speak
        zr_sleep_seconds(0.5);
    }
    zero_comm_destroy(comm);
    return status ? 65 : 0;
}

// Bounded by timeout(1). All ranks are on this machine, whose interfaces may reach each other by
// the loopback alone. Leaks are Open MPI's own, and not looked for.
int mpirun_self(int ranks, const char *kind, const char *scenario, const char *timeout, char *text,
                size_t size)
{
    char command[1024];
    snprintf(
        command, sizeof command,
        "ASAN_OPTIONS=\"$ASAN_OPTIONS:detect_leaks=0\" OMP_NUM_THREADS=1 "
        "OMPI_MCA_btl_tcp_if_include=lo timeout -k 1 40 mpirun --allow-run-as-root --oversubscribe "
        "-n %d '%s' rank %s %s %s 2>&1 </dev/null",
        ranks, mpirun_program, kind, scenario, timeout);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    size_t length = 0, got;
    while ((got = fread(text + length, 1, size - 1 - length, pipe)) > 0)
        length += got;
    text[length] = 0;
    return pclose(pipe);
}

void expect_words(const char *text, const char *words)
{
    if (!strstr(text, words))
        fail_msg("\"%s\" is not in:\n%s", words, text);
}

const char *mpirun_reason_to_skip(void)
{
    if (system("mpirun --version >/dev/null 2>&1"))
        return "there is no mpirun";
    if (system("mpirun --version 2>&1 | grep -q 'Open MPI'"))
        return "mpirun is not Open MPI's, whose options these tests use";
    if (UNDER_TSAN)
        return "ThreadSanitizer finds fault with the locks of Open MPI itself";
    return HAVE_MPI ? NULL : "this build has no module for MPI";
}
