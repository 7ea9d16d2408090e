// Writes the scripts by which shells complete command lines. The scripts (completion/SHELL.in) are
// the same for every command; what they complete is a table that is made here from the tables of
// commands and options, with a line for each command and for each of its options:
//
//   COMMAND  OPTION  VALUES  TEXT       with tabs between; OPTION "-": the command itself
//
// VALUES is what may follow: "-" nothing, or words separated by '|', among which FILE and DIR are
// names of files, PROGRAM is a program, and ARG is what no script knows. "..." at its end: several
// words; '+' at its end: the option may be given again; ',' in front: a list with commas.
#include "option_table.h"

#include <string.h>

#define MARK "@TABLE@"

enum { SHORTEST_TEXT = 16, LONGEST_TEXT = 72 };

// Returns where the first clause of a help ends; a few words alone ("for --mtbf:") are not one.
static size_t clause_length(const char *help)
{
    size_t length = 0;
    for (; help[length]; length++) {
        const char *at = help + length;
        bool ends = strchr(";:.", *at) && at[1] == ' ';
        if (length >= SHORTEST_TEXT && (ends || strncmp(at, " (", 2) == 0))
            break;
    }
    return length;
}

// Writes the first clause of a help, as the inside of a string in single quotes, which all three
// shells read in the same way.
static void write_clause(FILE *out, const char *help)
{
    size_t length = clause_length(help);
    bool cut = length > LONGEST_TEXT;
    for (length = cut ? LONGEST_TEXT : length; cut && help[length] != ' '; length--)
        continue;
    while (length && strchr(" ,;:", help[length - 1]))
        length--;
    for (size_t i = 0; i < length; i++)
        if (help[i] == '\'')
            fputs("'\\''", out);
        else
            fputc(help[i], out);
    fputs(cut ? "...\n" : "\n", out);
}

// Returns what an option's argument is, by its name in the help: "FILE...", "DIR".
static const char *values_of_argument(const char *argument)
{
    static const char *const names[][2] = {{"FILE", "FILE"}, {"PATH", "FILE"}, {"DIR", "DIR"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(argument, names[i][0], strlen(names[i][0])) == 0)
            return names[i][1];
    return "ARG";
}

static const char *values_of_operand(const cli_command *command)
{
    if (command->choices)
        return command->choices;
    if (command->runs_program)
        return "PROGRAM";
    return command->takes_paths ? "FILE..." : command->takes_path ? "DIR" : "-";
}

static void write_option(FILE *out, const cli_option *row, const cli_command *command)
{
    const cli_wording words = cli_option_wording(row, command);
    const char *values = words.choices    ? words.choices
                         : words.argument ? values_of_argument(words.argument)
                                          : "-";
    const char *end = row->kind == CLI_TEXTS ? "..." : row->kind == CLI_EACH ? "+" : "";
    const char *file = strstr(values, "FILE."); // the ending is not what completion looks at
    int width = (int)(file ? (size_t)(file - values) + strlen("FILE") : strlen(values));
    fprintf(out, "%s\t%s\t%.*s%s\t", command->name, row->name, width, values, end);
    write_clause(out, words.help);
}

static void write_command(FILE *out, const cli_command *command)
{
    fprintf(out, "%s\t-\t%s\t", command->name, values_of_operand(command));
    write_clause(out, command->purpose);
    for (int i = 0; i < CLI_OPTIONS; i++) {
        const cli_option *row = cli_option_row((cli_option_id)i);
        if (cli_option_belongs(row, command))
            write_option(out, row, command);
    }
}

static void write_general(FILE *out, const cli_general *word)
{
    fprintf(out, "%s\t-\t", word->name);
    if (word->argument && strcmp(word->argument, "[COMMAND]") == 0)
        for (int i = 0; i < CLI_COMMANDS; i++)
            fprintf(out, "%s%s", i ? "|" : "", cli_commands[i].name);
    else
        fputs(word->argument ? word->argument : "-", out);
    fputc('\t', out);
    write_clause(out, word->help);
}

bool cli_completion(const char *shell, FILE *out)
{
    const cli_completion_script *script = cli_completion_scripts;
    while (script->name && (!shell || strcmp(script->name, shell) != 0))
        script++;
    if (!script->name)
        return false;
    const char *mark = strstr(script->text, MARK);
    fprintf(out, "%.*s", (int)(mark - script->text), script->text);
    for (int i = 0; i < CLI_COMMANDS; i++)
        write_command(out, &cli_commands[i]);
    for (const cli_general *word = cli_generals; word->name; word++)
        write_general(out, word);
    fputs(mark + strlen(MARK), out);
    return true;
}
