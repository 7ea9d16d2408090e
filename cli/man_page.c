// Writes the man pages: zero.1, with what many commands share, and a page for each command.
#include "option_table.h"

#include <ctype.h>
#include <string.h>

enum { MANY = 4 }; // commands that word an option alike: zero.1 describes it for them

// Escapes text for roff, which reads '-' as a hyphen, '\' as an escape, and '.' or '\'' at the
// start of a line as a request. Long words, such as choices, may be broken after '|', ',' and ']'.
static void roff(FILE *out, const char *text)
{
    if (*text == '.' || *text == '\'')
        fputs("\\&", out);
    for (; *text; text++) {
        if (*text == '-')
            fputs("\\-", out);
        else if (*text == '\\')
            fputs("\\e", out);
        else
            fputc(*text, out);
        if (strchr("|,]", *text) && text[1] && text[1] != ' ')
            fputs("\\:", out);
    }
}

// Writes text between two strings that are roff already.
static void roff_between(FILE *out, const char *before, const char *text, const char *after)
{
    fputs(before, out);
    roff(out, text);
    fputs(after, out);
}

static void write_entry(FILE *out, const char *name, const char *argument, const char *text)
{
    roff_between(out, ".TP\n\\fB", name, "\\fR");
    if (argument)
        roff_between(out, " \\fI", argument, "\\fR");
    roff_between(out, "\n", text, "\n");
}

static void write_title(FILE *out, const char *command)
{
    fputs(".TH ZERO", out);
    if (command)
        fputs("\\-", out);
    for (const char *at = command ? command : ""; *at; at++)
        fputc(toupper((unsigned char)*at), out);
    // Long words such as --new's value would otherwise leave gaps in a justified line.
    fprintf(out, " 1 \"\" \"zero %s\" \"User Commands\"\n.nh\n.ad l\n.SH NAME\nzero",
            zero_version());
}

// ---- options

// Whether this command words the option as its row does, and as many other commands do: zero.1
// describes it then.
static bool is_shared(const cli_option *row, const cli_command *command)
{
    int alike = 0;
    for (int i = 0; i < CLI_COMMANDS; i++)
        alike += cli_option_belongs(row, &cli_commands[i]) &&
                 cli_option_wording(row, &cli_commands[i]).help == row->help;
    return alike >= MANY && cli_option_wording(row, command).help == row->help;
}

// Returns a command that words the option as zero.1 does; NULL if it is not described there.
static const cli_command *who_shares(const cli_option *row)
{
    for (int i = 0; i < CLI_COMMANDS; i++)
        if (cli_option_belongs(row, &cli_commands[i]) && is_shared(row, &cli_commands[i]))
            return &cli_commands[i];
    return NULL;
}

static void write_option(FILE *out, const cli_option *row, const cli_command *command)
{
    char text[1024];
    cli_help_option(row, command, text, sizeof text);
    write_entry(out, row->name, cli_option_wording(row, command).argument, text);
}

// Writes the name of an option that zero.1 describes, and its default, if it is not that of there.
static void write_shared(FILE *out, const cli_option *row, const cli_command *command, bool first)
{
    const cli_wording words = cli_option_wording(row, command);
    const char *here = words.standard_text;
    const char *there = cli_option_wording(row, who_shares(row)).standard_text;
    roff_between(out, first ? "\\fB" : ",\n\\fB", row->name, "\\fR");
    if (words.argument)
        roff_between(out, " \\fI", words.argument, "\\fR");
    if (here && here != there && (!there || strcmp(here, there) != 0))
        roff_between(out, " [default: ", here, "]");
}

static void write_options(FILE *out, const cli_command *command)
{
    bool any = false;
    fputs(".SH OPTIONS\n", out);
    for (int i = 0; i < CLI_OPTIONS; i++) {
        const cli_option *row = cli_option_row((cli_option_id)i);
        if (cli_option_belongs(row, command) && !is_shared(row, command))
            write_option(out, row, command);
    }
    for (int i = 0; i < CLI_OPTIONS; i++) {
        const cli_option *row = cli_option_row((cli_option_id)i);
        if (!cli_option_belongs(row, command) || !is_shared(row, command))
            continue;
        if (!any)
            fputs(".PP\nAs many commands have them, and\n.BR zero (1)\ndescribes them:\n", out);
        write_shared(out, row, command, !any);
        any = true;
    }
    fputs(any ? ".\n" : "", out);
}

// ---- examples, files, and the pages

static void write_examples(FILE *out, const cli_command *command)
{
    fputs(".SH EXAMPLES\n", out);
    for (const cli_example *row = cli_examples; row->words; row++) {
        if (&cli_commands[row->command] != command)
            continue;
        roff_between(out, ".PP\n", row->purpose, "\n");
        roff_between(out, ".IP\n.B ", row->words, "\n");
    }
}

// Writes the files of a command; NULL: those of the program itself.
static void write_files(FILE *out, const cli_command *command)
{
    unsigned bit = command ? 1U << (command - cli_commands) : 0;
    fputs(".SH FILES\n", out);
    for (const cli_file *row = cli_files; row->path; row++)
        if (command ? row->commands & bit : !row->commands)
            write_entry(out, row->path, NULL, row->content);
}

static void write_command_page(FILE *out, const cli_command *command)
{
    write_title(out, command->name);
    roff_between(out, "\\-", command->name, "");
    roff_between(out, " \\- ", command->purpose, "\n");
    roff_between(out, ".SH SYNOPSIS\n.B zero ", command->name, "\n");
    roff_between(out, "", command->usage, "\n");
    roff_between(out, ".SH DESCRIPTION\n", command->detail, "\n");
    write_options(out, command);
    write_examples(out, command);
    write_files(out, command);
    fputs(".SH SEE ALSO\n.BR zero (1),\nwhich lists all commands and exit codes\n", out);
}

static void write_exit_codes(FILE *out)
{
    static const struct {
        const char *code, *meaning;
    } rows[] = {
        {"0", "success"},
        {"1", "the answer of zero diff and zero verify: they differ"},
        {"64", "a wrong argument or option"},
        {"65", "data that cannot be used, or a loss that is not finite"},
        {"70", "an invariant of the program does not hold"},
        {"74", "input, output or resources failed, or a rank did"},
        {"75", "a training ended as a signal asked, and can go on"},
        {"78", "a configuration that cannot be used"},
        {"128+n", "ended by signal n"},
    };
    fputs(".SH EXIT STATUS\n", out);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        write_entry(out, rows[i].code, NULL, rows[i].meaning);
}

static void write_overview(FILE *out)
{
    write_title(out, NULL);
    fputs(" \\- trains transformers with the Zero Redundancy Optimizer\n.SH SYNOPSIS\n.B zero\n"
          ".I COMMAND\n[OPTION...]\n.SH COMMANDS\nEach has a page of its own:\n"
          ".BR zero\\-train (1)\nand so on.\n",
          out);
    for (int i = 0; i < CLI_COMMANDS; i++)
        write_entry(out, cli_commands[i].name, NULL, cli_commands[i].purpose);
    fputs(".SH OPTIONS\nIn place of a command:\n", out);
    for (const cli_general *row = cli_generals; row->name; row++)
        write_entry(out, row->name, row->argument, row->help);
    fputs(".SS Options of many commands\nThe page of a command lists those that it has.\n", out);
    for (int i = 0; i < CLI_OPTIONS; i++) {
        const cli_option *row = cli_option_row((cli_option_id)i);
        if (who_shares(row))
            write_option(out, row, who_shares(row));
    }
    write_files(out, NULL);
    write_exit_codes(out);
    fputs(".SH SEE ALSO\n", out);
    for (int i = 0; i < CLI_COMMANDS; i++) {
        roff_between(out, ".BR zero\\-", cli_commands[i].name, " (1)");
        fputs(i + 1 < CLI_COMMANDS ? ",\n" : "\n", out);
    }
}

void cli_man_page(const cli_command *command, FILE *out)
{
    if (command)
        write_command_page(out, command);
    else
        write_overview(out);
}
