// How a subcommand describes an option, if the option's row has another wording for it.
#include "option_table.h"

// Whether a set of subcommands, bits 1 << cli_command_id, contains this one.
static bool names(unsigned commands, const cli_command *command)
{
    return commands >> (command - cli_commands) & 1;
}

bool cli_option_belongs(const cli_option *row, const cli_command *command)
{
    return names(row->commands, command);
}

bool cli_option_is_unfit(const cli_option *row, const cli_command *command)
{
    return names(row->unfit_for, command);
}

cli_wording cli_option_wording(const cli_option *row, const cli_command *command)
{
    cli_wording wording = {
        .help = row->help, .standard_text = row->standard_text, .choices = row->choices};
    for (int i = 0; i < CLI_MOST_WORDINGS; i++) {
        const cli_wording *own = &row->differs[i];
        if (!names(own->commands, command))
            continue;
        wording.help = own->help ? own->help : wording.help;
        wording.standard_text = own->standard_text ? own->standard_text : wording.standard_text;
        wording.choices = own->choices ? own->choices : wording.choices;
    }
    if (!wording.standard_text)
        wording.standard_text = row->standard;
    else if (!*wording.standard_text)
        wording.standard_text = NULL;
    return wording;
}
