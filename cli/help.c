// Prints the tables of options and subcommands: the --help of the program and of each subcommand,
// and the man page.
#include "commands.h"
#include "option_table.h"

#include <string.h>

enum { LINE = 100, INDENT = 28 };

// Prints the words of `text`, starting at `column`, and indents the lines that follow by `indent`.
static void wrap(FILE *out, const char *text, int indent, int column)
{
    while (*text) {
        int width = (int)strcspn(text, " ");
        if (column > indent && column + 1 + width > LINE) {
            fprintf(out, "\n%*s", indent, "");
            column = indent;
        }
        fprintf(out, "%s%.*s", column > indent ? " " : "", width, text);
        column += width + (column > indent);
        text += width + (text[width] == ' ');
    }
    fputc('\n', out);
}

void cli_help(FILE *out)
{
    fprintf(out, "zero %s: trains transformers with the Zero Redundancy Optimizer\n\n",
            zero_version());
    for (int i = 0; i < CLI_COMMANDS; i++)
        fprintf(out, "  zero %-9s %s\n", cli_commands[i].name, cli_commands[i].purpose);
    fprintf(out, "  zero help      what a command does, and its options\n  zero --version\n\nzero "
                 "help COMMAND, or zero COMMAND --help, says more. A first run:\n"
                 "  zero train --new gpt2:layers=4,heads=4,width=128,context=64 --data text.txt "
                 "--out run --ranks 2 --stage 3\n"
                 "  zero generate --model run/model\n");
}

// Writes "The words of the help (choices) [default: ...]" for one row, as `command` words it.
static void describe_help(const cli_option *row, const cli_command *command, char *out, size_t size)
{
    const cli_wording words = cli_option_wording(row, command);
    bool choice = row->kind == CLI_CHOICE;
    snprintf(out, size, "%s%s%s%s%s%s%s", words.help, choice ? " (" : "",
             choice ? words.choices : "", choice ? ")" : "",
             words.standard_text ? " [default: " : "",
             words.standard_text ? words.standard_text : "", words.standard_text ? "]" : "");
}

void cli_help_command(const cli_command *command, FILE *out)
{
    char text[1024];
    fprintf(out, "zero %s: %s\n\nusage: zero %s %s\n\n", command->name, command->purpose,
            command->name, command->usage);
    for (int i = 0; i < CLI_OPTIONS; i++) {
        const cli_option *row = cli_option_row((cli_option_id)i);
        if (!cli_option_belongs(row, command))
            continue;
        int width = fprintf(out, "  %s%s%s", row->name, row->argument ? " " : "",
                            row->argument ? row->argument : "");
        int pad = width < INDENT - 1 ? INDENT - width : 1;
        fprintf(out, "%*s", pad, "");
        describe_help(row, command, text, sizeof text);
        wrap(out, text, INDENT, width + pad > INDENT ? width + pad : INDENT);
    }
    if (command->detail) {
        fputc('\n', out);
        wrap(out, command->detail, 0, 0);
    }
}

// Escapes text for roff, which reads '-' as a hyphen, '\' as an escape, and '.' or '\'' at the
// start of a line as a request.
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
    }
}

static void manual_option(FILE *out, const cli_option *row, const cli_command *command)
{
    char text[1024];
    fputs(".TP\n.B ", out);
    roff(out, row->name);
    if (row->argument) {
        fputs(" \\fI", out);
        roff(out, row->argument);
        fputs("\\fR", out);
    }
    fputc('\n', out);
    describe_help(row, command, text, sizeof text);
    roff(out, text);
    fputc('\n', out);
}

static void manual_command(FILE *out, const cli_command *command)
{
    fprintf(out, ".SH ZERO ");
    for (const char *at = command->name; *at; at++)
        fputc(*at - 'a' + 'A', out);
    fputs("\n.B zero ", out);
    fprintf(out, "%s ", command->name);
    roff(out, command->usage);
    fputs("\n.PP\n", out);
    roff(out, command->purpose);
    fputs(".\n", out);
    if (command->detail) {
        roff(out, command->detail);
        fputc('\n', out);
    }
    for (int i = 0; i < CLI_OPTIONS; i++) {
        const cli_option *row = cli_option_row((cli_option_id)i);
        if (cli_option_belongs(row, command))
            manual_option(out, row, command);
    }
}

static void manual_exit_codes(FILE *out)
{
    fputs(".SH EXIT STATUS\n", out);
    static const struct {
        const char *code, *meaning;
    } rows[] = {
        {"0", "success"},
        {"64", "a wrong argument or option"},
        {"65", "data that cannot be used, or a loss that is not finite"},
        {"70", "an invariant of the program does not hold"},
        {"74", "input, output or resources failed, or a rank did"},
        {"78", "a configuration that cannot be used"},
        {"128+n", "ended by signal n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        fprintf(out, ".TP\n.B %s\n%s\n", rows[i].code, rows[i].meaning);
}

void cli_manual(FILE *out)
{
    fprintf(out,
            ".TH ZERO 1 \"\" \"zero %s\" \"User Commands\"\n.SH NAME\nzero \\- trains transformers "
            "with the Zero Redundancy Optimizer\n"
            ".SH SYNOPSIS\n",
            zero_version());
    for (int i = 0; i < CLI_COMMANDS; i++) {
        fprintf(out, ".B zero %s\n", cli_commands[i].name);
        roff(out, cli_commands[i].usage);
        fputs("\n.br\n", out);
    }
    fputs(".B zero help\n[COMMAND]\n.br\n.B zero \\-\\-version\n", out);
    for (int i = 0; i < CLI_COMMANDS; i++)
        manual_command(out, &cli_commands[i]);
    manual_exit_codes(out);
}
