// Predicts runs with candidate constants, for tools/fit-machines.
//
//   sim_candidates < LINES
//
// A line has a word and what follows it, with tabs between:
//   run FILE MACHINE FRAMEWORK   adds a run: as zero simulate --run FILE --machine MACHINE
//                                --framework FRAMEWORK; an empty FRAMEWORK is a well-made one
//   machine DEVICE C...          sets the constants of the runs on machines of this device
//   framework NAME C...          sets those of the runs with this framework
//   go                           predicts: writes the seconds of each run in one line, 0 for a run
//                                that cannot be simulated
#include "simulate/catalogue.h"
#include "simulate/step.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct candidate_run {
    zr_sim_run run;
    double seconds;
    bool refused; // it cannot be simulated: its seconds are 0
    bool known;   // `seconds` are those of the run's present constants
} candidate_run;

typedef struct candidates {
    candidate_run *runs; // (count)
    int count, capacity;
    zr_sim_catalogue catalogue;
} candidates;

// Ends the program with the message of an error.
static void must(zero_status status, const zero_error *error)
{
    if (status == ZERO_OK)
        return;
    fprintf(stderr, "sim_candidates: %s\n", error->message);
    exit(1);
}

static void add_run(candidates *all, const char *file, const char *machine, const char *framework)
{
    zero_error error = {0};
    candidate_run *grown =
        zr_list_grow(all->runs, all->count, &all->capacity, sizeof *grown, &error);
    must(grown ? ZERO_OK : ZERO_ERR_MEMORY, &error);
    all->runs = grown;
    candidate_run *added = &grown[all->count++];
    *added = (candidate_run){0};
    must(zr_sim_order_read("tensor", &added->run, &error), &error);
    must(zr_sim_machine_find(&all->catalogue, machine, &added->run.machine, &error), &error);
    zr_sim_framework_find(&all->catalogue, framework, &added->run.framework);
    zr_sim_run_set_attention(&added->run);
    if (zr_sim_run_read(file, &added->run, &error) != ZERO_OK)
        added->refused = true;
}

// Reads constants. Returns whether one of them is another than before.
static bool read_constants(const char *text, double *out, int count)
{
    char *end;
    bool changed = false;
    for (int i = 0; i < count; i++, text = end) {
        double value = strtod(text, &end);
        changed |= value != out[i];
        out[i] = value;
    }
    return changed;
}

static void set_constants(candidates *all, bool of_machine, const char *name, const char *numbers)
{
    for (int i = 0; i < all->count; i++) {
        zr_sim_run *run = &all->runs[i].run;
        if (strcmp(of_machine ? run->machine.device : run->framework.name, name) != 0)
            continue;
        bool changed =
            of_machine
                ? read_constants(numbers, run->machine.constants, ZR_SIM_CONSTANTS)
                : read_constants(numbers, run->framework.constants, ZR_SIM_FRAMEWORK_CONSTANTS);
        all->runs[i].known &= !changed;
    }
}

static void predict(candidates *all)
{
    for (int i = 0; i < all->count; i++) {
        candidate_run *one = &all->runs[i];
        zr_sim_step step;
        if (!one->known && !one->refused) {
            // A run that does not fit has a time nevertheless.
            zero_status status = zr_sim_step_find(&one->run, &step, NULL);
            one->seconds = status == ZERO_OK || status == ZERO_ERR_LIMIT ? step.seconds : 0;
        }
        one->known = true;
        printf("%.9g ", one->seconds);
    }
    printf("\n");
    fflush(stdout);
}

// Cuts the next part off a line that has tabs between its parts; "" after the last.
static char *next_part(char **line)
{
    char *part = *line, *end = part + strcspn(part, "\t\n");
    *line = *end ? end + 1 : end;
    *end = 0;
    return part;
}

int main(void)
{
    static char line[8192];
    candidates all = {0};
    zero_error error = {0};
    must(zr_sim_catalogue_open(&all.catalogue, &error), &error);
    while (fgets(line, sizeof line, stdin)) {
        char *rest = line;
        const char *word = next_part(&rest), *name = next_part(&rest);
        if (!strcmp(word, "go")) {
            predict(&all);
        } else if (!strcmp(word, "run")) {
            const char *machine = next_part(&rest);
            add_run(&all, name, machine, next_part(&rest));
        } else {
            set_constants(&all, !strcmp(word, "machine"), name, rest);
        }
    }
    zr_free(all.runs);
    zr_sim_catalogue_close(&all.catalogue);
    return 0;
}
