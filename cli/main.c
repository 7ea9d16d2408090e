// The program `zero`: finds the subcommand, parses its options and runs it. Each subcommand has a
// file cmd_NAME.c; the library does the work.
#define _GNU_SOURCE
#include "commands.h"
#include "running.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define SPINS "5000" // about a tenth of a millisecond

static int refuse_unknown_command(const char *name)
{
    const char *nearest = cli_nearest_command(name);
    fprintf(stderr, "zero: unknown command %s%s%s%s (zero --help lists all)\n", name,
            nearest ? "; did you mean " : "", nearest ? nearest : "", nearest ? "?" : "");
    return zero_status_exit_code(ZERO_ERR_USAGE);
}

static bool is_one_of(const char *word, const char *const *words)
{
    for (; *words; words++)
        if (strcmp(word, *words) == 0)
            return true;
    return false;
}

// Writes the man page of a command, or of the program if the name is NULL.
static int print_man_page(const char *name)
{
    const cli_command *command = name ? cli_find_command(name) : NULL;
    if (name && !command)
        return refuse_unknown_command(name);
    cli_man_page(command, stdout);
    return 0;
}

static int print_completion(const char *shell)
{
    if (cli_completion(shell, stdout))
        return 0;
    fprintf(stderr, "zero: --completion needs the name of a shell: bash, zsh or fish\n");
    return zero_status_exit_code(ZERO_ERR_USAGE);
}

// Answers what needs no subcommand (--help, ...) and returns the exit code; -1: `word` is none of
// these. `next` is the word after it, or NULL.
static int answer_global_option(const char *word, const char *next)
{
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
        cli_help(stdout);
        return 0;
    }
    if (is_one_of(word, (const char *const[]){"--version", "-v", "-V", "version", NULL})) {
        printf("zero %s\n", zero_version());
        return 0;
    }
    if (strcmp(word, "--man") == 0)
        return print_man_page(next);
    if (strcmp(word, "--completion") == 0)
        return print_completion(next);
    if (strcmp(word, "--describe-configuration") == 0) {
        zero_error error = {0};
        if (zero_describe_configuration(cli_print, NULL, &error) == ZERO_OK)
            return 0;
        fprintf(stderr, "zero: %s\n", error.message);
        return zero_status_exit_code(error.status);
    }
    return -1;
}

// Runs zero help [COMMAND].
static int print_help(const char *name)
{
    bool general = !name || strcmp(name, "help") == 0;
    const cli_command *command = general ? NULL : cli_find_command(name);
    if (!general && !command)
        return refuse_unknown_command(name);
    if (command)
        cli_help_command(command, stdout);
    else
        cli_help(stdout);
    return 0;
}

static int run_parsed_command(const cli_arguments *arguments)
{
    zero_error error = {0};
    if (cli_check_output_names(arguments, &error) != ZERO_OK)
        return cli_fail(arguments->command, &error);
    if (!arguments->command->runs_program) // its program gets signals unchanged
        cli_faults_install(arguments->command);
    return arguments->command->run(arguments);
}

static int run_command(const cli_command *command, int argc, char **argv)
{
    cli_arguments arguments;
    zero_error error = {0};
    int code = 0;
    zero_status status = cli_parse(command, argc, argv, &arguments, &error);
    if (arguments.given[OPT_HELP]) // whatever comes after it
        cli_help_command(command, stdout);
    else if (status != ZERO_OK)
        code = cli_fail(command, &error);
    else
        code = run_parsed_command(&arguments);
    cli_arguments_free(&arguments);
    return code;
}

// Checks that all output was written, because a full disk is an error too.
static int close_output(int code)
{
    int failed = ferror(stdout) | fflush(stdout);
    if (!failed || code != 0)
        return code;
    fprintf(stderr, "zero: writing to standard output: %s\n", strerror(errno));
    return zero_status_exit_code(ZERO_ERR_IO);
}

// Limits how long threads spin. By libgomp's default, threads that wait for each other spin for
// several milliseconds. If one other process keeps a core busy, a step then takes ten times as
// long, because the thread that the others wait for gets no core meanwhile. libgomp reads the
// setting before main, so the program executes itself once more. If the user has set something, or
// exec fails, it continues unchanged.
static void start_with_short_spins(char **argv)
{
    if (getenv("GOMP_SPINCOUNT") || getenv("OMP_WAIT_POLICY") || setenv("GOMP_SPINCOUNT", SPINS, 1))
        return;
    execv("/proc/self/exe", argv);
}

int main(int argc, char **argv)
{
    start_with_short_spins(argv);
    // ps and pkill use this name, which would be "exe" after the program has executed itself.
    prctl(PR_SET_NAME, program_invocation_short_name);
    if (argc < 2) {
        cli_help(stderr);
        return zero_status_exit_code(ZERO_ERR_USAGE);
    }
    int code =
        strcmp(argv[1], "help") == 0 ? print_help(argv[2]) : answer_global_option(argv[1], argv[2]);
    if (code >= 0)
        return close_output(code);
    const cli_command *command = cli_find_command(argv[1]);
    return command ? close_output(run_command(command, argc, argv))
                   : refuse_unknown_command(argv[1]);
}
