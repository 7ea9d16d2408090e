// Predicts tables with candidate constants, for tools/fit-machines.
//
//   sim_candidates TABLE.csv...
//
// It writes a line for each row: what the fit needs to know of it. Then it reads lines:
//   machine NAME C...      sets the constants of the runs on machines of this device
//   framework NAME C...    of this framework; "-" is the one without a name
//   go                     predicts; it writes the seconds of each row, in order, in one line
#include "simulate/runs_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TABLES = 8 };

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

// Sets constants in all runs that have them. A run of which one changes has no prediction then.
static void set_constants(zr_sim_table *table, const char *kind, const char *name,
                          const char *numbers)
{
    for (int i = 0; i < table->count; i++) {
        zr_sim_run *run = &table->rows[i].run;
        bool changed = false;
        if (strcmp(kind, "machine") == 0 && strcmp(run->machine.device, name) == 0)
            changed |= read_constants(numbers, run->machine.constants, ZR_SIM_CONSTANTS);
        const char *framework = run->framework.name[0] != 0 ? run->framework.name : "-";
        if (strcmp(kind, "framework") == 0 && strcmp(framework, name) == 0)
            changed |=
                read_constants(numbers, run->framework.constants, ZR_SIM_FRAMEWORK_CONSTANTS);
        if (changed)
            table->rows[i].predicted = 0;
    }
}

static void write_rows(const zr_sim_table *table)
{
    for (int i = 0; i < table->count; i++) {
        const zr_sim_row *row = &table->rows[i];
        const char *framework = row->run.framework.name[0] != 0 ? row->run.framework.name : "-";
        printf("row\t%s\t%s\t%s\t%s\t%d\t%.9g\t%.9g\t%.9g\t%s\n", row->id, row->family,
               row->run.machine.device, framework, row->scored && row->simulated, row->measured,
               row->predicted, row->predicted_memory, row->why);
    }
}

static void answer(zr_sim_table *tables, int count)
{
    static char line[1024];
    while (fgets(line, sizeof line, stdin) != NULL) {
        char kind[16] = "", name[ZR_SIM_NAME] = "";
        int used = 0;
        // A name has no tabs and may have spaces.
        sscanf(line, "%15[^\t\n]\t%47[^\t]\t%n", kind, name, &used);
        if (strcmp(kind, "go") != 0) {
            for (int i = 0; i < count; i++)
                set_constants(&tables[i], kind, name, line + used);
            continue;
        }
        for (int i = 0; i < count; i++) {
            zr_sim_table_predict(&tables[i]);
            for (int j = 0; j < tables[i].count; j++)
                printf("%.9g ", tables[i].rows[j].predicted);
        }
        printf("\n");
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    zr_sim_table tables[MOST_TABLES];
    int count = argc - 1;
    zr_sim_catalogue catalogue;
    zero_error error = {0};
    if (count < 1 || count > MOST_TABLES)
        return 2;
    if (zr_sim_catalogue_open(&catalogue, &error) != ZERO_OK) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    for (int i = 0; i < count; i++) {
        if (zr_sim_table_read(&catalogue, argv[i + 1], NULL, &tables[i], &error) != ZERO_OK) {
            fprintf(stderr, "%s\n", error.message);
            return 1;
        }
        write_rows(&tables[i]);
        zr_buffer score = {0};
        zr_sim_table_score(&tables[i], &score);
        if (score.data != NULL)
            fputs(score.data, stderr);
        zr_buffer_free(&score);
    }
    printf("ready\n");
    fflush(stdout);
    answer(tables, count);
    for (int i = 0; i < count; i++)
        zr_sim_table_free(&tables[i]);
    zr_sim_catalogue_close(&catalogue);
    return 0;
}
