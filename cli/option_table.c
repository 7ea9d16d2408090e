// The table of options: the tables of all subjects, one after another. To add an option: a name in
// cli_option_id and a row in the file of its subject. To add a subject: its file, its names in
// option_rows.h and a row here.
#include "option_rows.h"

#include <assert.h>

static const struct {
    const cli_option *rows;
    const int *count;
} subjects[] = {
    {.rows = cli_options_model, .count = &cli_options_model_count},
    {.rows = cli_options_machine, .count = &cli_options_machine_count},
    {.rows = cli_options_training, .count = &cli_options_training_count},
    {.rows = cli_options_simulation, .count = &cli_options_simulation_count},
    {.rows = cli_options_reports, .count = &cli_options_reports_count},
};
enum { SUBJECTS = sizeof subjects / sizeof *subjects };

int cli_option_row_count(void)
{
    int count = 0;
    for (int i = 0; i < SUBJECTS; i++)
        count += *subjects[i].count;
    return count;
}

const cli_option *cli_option_row_at(int index)
{
    int subject = 0;
    for (; index >= *subjects[subject].count; subject++)
        index -= *subjects[subject].count;
    return &subjects[subject].rows[index];
}

const cli_option *cli_option_row(cli_option_id id)
{
    const cli_option *row = NULL;
    for (int s = 0; s < SUBJECTS && !row; s++)
        for (int i = 0; i < *subjects[s].count && !row; i++)
            row = subjects[s].rows[i].id == id ? &subjects[s].rows[i] : NULL;
    assert(row); // tests/cli/test_option_table.c checks that every option has a row
    return row;
}
