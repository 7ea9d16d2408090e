// Prints the tables of options and subcommands: the --help of the program and of each subcommand.
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
    fprintf(out, "  zero help      what a command does, and its options\n  zero --version\n"
                 "  zero --completion bash|zsh|fish\n\nzero help COMMAND, zero COMMAND --help and "
                 "man zero-COMMAND say more. A first run:\n"
                 "  zero train --new gpt2:layers=4,heads=4,width=128,context=64 --data text.txt "
                 "--out run --ranks 2 --stage 3\n"
                 "  zero generate --model run/model\n");
}

void cli_help_option(const cli_option *row, const cli_command *command, char *out, size_t size)
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
        const char *argument = cli_option_wording(row, command).argument;
        int width =
            fprintf(out, "  %s%s%s", row->name, argument ? " " : "", argument ? argument : "");
        int pad = width < INDENT - 1 ? INDENT - width : 1;
        fprintf(out, "%*s", pad, "");
        cli_help_option(row, command, text, sizeof text);
        wrap(out, text, INDENT, width + pad > INDENT ? width + pad : INDENT);
    }
    if (command->detail) {
        fputc('\n', out);
        wrap(out, command->detail, 0, 0);
    }
}
