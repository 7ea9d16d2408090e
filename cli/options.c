// Parses the command line by the rows of option_table.h. Invariant: a value in cli_arguments has
// the form and the range that its row allows. main.c calls it once.
#include "option_table.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static zero_status refuse_usage(zero_error *error, const char *format, ...) ZERO_PRINTF(2, 3);

static zero_status refuse_usage(zero_error *error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->message, sizeof error->message, format, arguments);
    va_end(arguments);
    return error->status = ZERO_ERR_USAGE;
}

enum { LONGEST_NAME = 40 }; // that is compared with others

// Returns the number of edits (insert, delete, replace) that turn a into b. Option names are short;
// longer ones count as far away.
static int edit_distance(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    if (n > LONGEST_NAME || m > LONGEST_NAME)
        return LONGEST_NAME;
    int row[LONGEST_NAME + 1];
    for (size_t j = 0; j <= m; j++)
        row[j] = (int)j;
    for (size_t i = 1; i <= n; i++) {
        int diagonal = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= m; j++) {
            int replace = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            int edit = 1 + (row[j] < row[j - 1] ? row[j] : row[j - 1]);
            row[j] = replace < edit ? replace : edit;
        }
    }
    return row[m];
}

typedef struct search {  // for the nearest of several names
    const char *name;    // that was written, without its dashes
    const char *nearest; // NULL: none is near
    int distance;
} search;

static search begin_search(const char *name)
{
    return (search){.name = name + strspn(name, "-"), .distance = INT_MAX};
}

// Keeps `candidate` if it is the nearest one so far, and more than half of the letters agree: what
// has less in common is another word. Dashes are no letters.
static void consider_candidate(search *of, const char *candidate)
{
    const char *letters = candidate + strspn(candidate, "-");
    size_t length = strlen(of->name), other = strlen(letters);
    int longer = (int)(length > other ? length : other);
    int distance = edit_distance(of->name, letters);
    if (2 * distance < longer && distance < of->distance) {
        of->distance = distance;
        of->nearest = candidate;
    }
}

const cli_command *cli_find_command(const char *name)
{
    for (int i = 0; i < CLI_COMMANDS; i++)
        if (strcmp(name, cli_commands[i].name) == 0)
            return &cli_commands[i];
    return NULL;
}

const char *cli_nearest_command(const char *name)
{
    search of = begin_search(name);
    for (int i = 0; i < CLI_COMMANDS; i++)
        consider_candidate(&of, cli_commands[i].name);
    return of.nearest;
}

// Returns the option called name[0..length), whether or not the command has it; NULL: none.
static const cli_option *find_option(const char *name, size_t length)
{
    for (int i = 0; i < cli_option_row_count(); i++) {
        const cli_option *row = cli_option_row_at(i);
        if (strlen(row->name) == length && strncmp(name, row->name, length) == 0)
            return row;
    }
    return NULL;
}

// Reports that name[0..length) is unknown; `name` goes on after it, as in "--bf16=true".
static zero_status refuse_unknown(const cli_command *command, const char *name, size_t length,
                                  zero_error *error)
{
    char word[LONGEST_NAME + 1], ours[CLI_FOREIGN_TEXT];
    snprintf(word, sizeof word, "%.*s", (int)length, name);
    search of = begin_search(word);
    if (cli_foreign_option(command, name, length, ours))
        return refuse_usage(error, "unknown option %s; %s (zero %s --help lists all)", word, ours,
                            command->name);
    for (int i = 0; i < CLI_OPTIONS; i++) {
        const cli_option *row = cli_option_row((cli_option_id)i);
        if (cli_option_belongs(row, command))
            consider_candidate(&of, row->name);
    }
    if (of.nearest)
        return refuse_usage(error, "unknown option %s; did you mean %s? (zero %s --help lists all)",
                            word, of.nearest, command->name);
    return refuse_usage(error, "unknown option %s (zero %s --help lists all)", word, command->name);
}

// Whether a choice is FILE.EXT, which stands for the names of files that end so, and this is one.
static bool is_file_choice(const char *choice, size_t width, const char *value)
{
    static const char any[] = "FILE";
    size_t length = strlen(value), ending = width - (sizeof any - 1);
    return width > sizeof any && strncmp(choice, any, sizeof any - 1) == 0 && length > ending &&
           strncmp(value + length - ending, choice + sizeof any - 1, ending) == 0;
}

static bool is_choice(const char *choices, const char *value)
{
    size_t length = strlen(value);
    for (const char *at = choices; length; at++) {
        size_t width = strcspn(at, "|");
        if ((width == length && strncmp(at, value, length) == 0) ||
            is_file_choice(at, width, value))
            return true;
        at += width;
        if (!*at)
            break;
    }
    return false;
}

static zero_status check_choice(const char *name, const char *choices, const char *value,
                                zero_error *error)
{
    return is_choice(choices, value)
               ? ZERO_OK
               : refuse_usage(error, "%s %s: it must be one of %s", name, value, choices);
}

// Returns the factor of the suffix of a count: K, M, B (or G), T of 1000; 0: unknown.
static double suffix_factor(const char *suffix)
{
    static const char letters[] = "KMBT";
    if (!*suffix)
        return 1;
    char first = (char)toupper((unsigned char)*suffix);
    const char *at = strchr(letters, first == 'G' ? 'B' : first);
    return at && !suffix[1] ? pow(1000, (double)(at - letters) + 1) : 0;
}

// Reads a number as its kind is written; false: it is none.
static bool parse_number(cli_kind kind, const char *value, double *out)
{
    char *end;
    *out = zero_bytes_read(value);
    if (kind == CLI_BYTES)
        return *out >= 0;
    *out = strtod(value, &end);
    double factor = kind == CLI_REAL ? !*end : suffix_factor(end);
    if (end == value || factor == 0 || isspace((unsigned char)*value) || !isfinite(*out))
        return false;
    *out *= factor;
    return true;
}

// Nobody means so few bytes of memory without a unit: 80 was to be 80GB.
#define FEWEST_BARE_BYTES 1e5

static bool is_bare(const char *value) { return isdigit((unsigned char)value[strlen(value) - 1]); }

static zero_status check_integer(const cli_option *row, const char *value, int64_t *out,
                                 zero_error *error)
{
    char *end;
    errno = 0;
    long long number = strtoll(value, &end, 10);
    if (end == value || *end || isspace((unsigned char)*value))
        return refuse_usage(error, "%s %s: it must be a whole number", row->name, value);
    if (errno == ERANGE || (double)number < row->least || (double)number > row->most)
        return refuse_usage(error, "%s %s: it must be from %.0f to %.0f", row->name, value,
                            row->least, row->most);
    *out = number;
    return ZERO_OK;
}

static zero_status check_real(const cli_option *row, const char *value, double *out,
                              zero_error *error)
{
    double number;
    if (!parse_number(row->kind, value, &number))
        return refuse_usage(error, "%s %s: it must be a number%s", row->name, value,
                            row->kind == CLI_BYTES   ? " of bytes, such as 24GB or 512MiB"
                            : row->kind == CLI_COUNT ? ", such as 7.5e9 or 124M"
                                                     : "");
    if (row->capacity && number < FEWEST_BARE_BYTES && is_bare(value))
        return refuse_usage(error, "%s %s: that is %s bytes; %sGB? (%sB means so few)", row->name,
                            value, value, value, value);
    if (number < row->least || number > row->most)
        return refuse_usage(error, "%s %s: it must be from %g to %g", row->name, value, row->least,
                            row->most);
    *out = number;
    return ZERO_OK;
}

static zero_status check_value(const cli_option *row, const char *value, cli_arguments *out,
                               zero_error *error)
{
    cli_option_id id = row->id;
    out->text[id] = value;
    zero_status status = ZERO_OK;
    switch (row->kind) {
    case CLI_FLAG: break;
    case CLI_TEXT:
    case CLI_TEXTS:
    case CLI_EACH:
        if (!*value && id != OPT_PROMPT)
            status = refuse_usage(error, "%s: its value is empty", row->name);
        break;
    case CLI_CHOICE:
        status =
            check_choice(row->name, cli_option_wording(row, out->command).choices, value, error);
        break;
    case CLI_INTEGER: status = check_integer(row, value, &out->integer[id], error); break;
    case CLI_REAL:
    case CLI_COUNT:
    case CLI_BYTES:
        status = check_real(row, value, &out->real[id], error);
        out->integer[id] = status == ZERO_OK ? (int64_t)out->real[id] : 0;
    }
    return status;
}

// Whether an argument is written as an option is: "-" alone and a number below 0 are values.
static bool is_option(const char *argument)
{
    char next = argument[0] == '-' ? argument[1] : 0;
    return next && !isdigit((unsigned char)next) && next != '.';
}

// Returns the name of an option that is written in short; else the argument itself. -n is what
// mpirun and srun call their ranks; elsewhere it means other things to other people.
static const char *long_name(const cli_command *command, const char *argument)
{
    if (strcmp(argument, "-h") == 0)
        return "--help";
    return command->runs_program && strcmp(argument, "-n") == 0 ? "--ranks" : argument;
}

static bool takes_many(const cli_option *row)
{
    return row->kind == CLI_TEXTS || row->kind == CLI_EACH;
}

static zero_status refuse_missing(const cli_command *command, const cli_option *row,
                                  zero_error *error)
{
    return refuse_usage(error, "%s needs a value: %s %s", row->name, row->name,
                        cli_option_wording(row, command).argument);
}

// Takes the values of --data: every argument up to the next option.
static zero_status take_values(int argc, char *const *argv, int *at, const cli_option *row,
                               cli_arguments *out, zero_error *error)
{
    int first = *at;
    while (*at < argc && !is_option(argv[*at]))
        out->data[out->data_count++] = argv[(*at)++];
    return *at > first ? ZERO_OK : refuse_missing(out->command, row, error);
}

// Takes the value that follows an option. Only a prompt may look like an option itself.
static zero_status take_value(int argc, char *const *argv, int *at, const cli_option *row,
                              const cli_command *command, const char **value, zero_error *error)
{
    if (*at >= argc || (is_option(argv[*at]) && row->id != OPT_PROMPT))
        return refuse_missing(command, row, error);
    *value = argv[(*at)++];
    return ZERO_OK;
}

// Finds the row of written[0..length), and checks that the command has it and that it may be given
// once more.
static zero_status find_allowed_option(const char *written, size_t length, const cli_arguments *of,
                                       const cli_option **out, zero_error *error)
{
    const cli_option *row = find_option(written, length);
    if (!row)
        return refuse_unknown(of->command, written, length, error);
    if (!cli_option_belongs(row, of->command)) {
        char ours[CLI_FOREIGN_TEXT];
        bool known = cli_foreign_option(of->command, written, length, ours);
        if (cli_option_is_unfit(row, of->command))
            return refuse_usage(error, "%s is no option of zero %s, which %s", row->name,
                                of->command->name, row->unfit);
        return refuse_usage(error, "%s is no option of zero %s%s%s", row->name, of->command->name,
                            known ? "; " : "", known ? ours : "");
    }
    if (of->given[row->id] && !takes_many(row))
        return refuse_usage(error, "%s is given twice", row->name);
    *out = row;
    return ZERO_OK;
}

// Takes the option argv[*at] and its value.
static zero_status take_option(int argc, char *const *argv, int *at, cli_arguments *out,
                               zero_error *error)
{
    const char *written = long_name(out->command, argv[*at]);
    size_t length = strcspn(written, "=");
    const char *value = written[length] ? written + length + 1 : NULL;
    const cli_option *row = NULL;
    zero_status status = find_allowed_option(written, length, out, &row, error);
    if (status != ZERO_OK)
        return status;
    out->given[row->id] = true;
    *at += 1;
    if (row->kind == CLI_FLAG)
        return value ? refuse_usage(error, "%s takes no value", row->name) : ZERO_OK;
    if (row->kind == CLI_TEXTS && !value)
        return take_values(argc, argv, at, row, out, error);
    if (!value)
        status = take_value(argc, argv, at, row, out->command, &value, error);
    if (status != ZERO_OK)
        return status;
    if (row->id == OPT_STOP)
        out->stops[out->stop_count++] = value;
    else if (takes_many(row))
        out->data[out->data_count++] = value;
    return check_value(row, value, out, error);
}

static bool is_file(const char *word)
{
    struct stat info;
    return stat(word, &info) == 0 && S_ISREG(info.st_mode);
}

static bool is_directory(const char *word)
{
    struct stat info;
    return stat(word, &info) == 0 && S_ISDIR(info.st_mode);
}

static bool is_text(const char *word) { return true; }

// Whether it may be a model's name: of a file, a path or an end such as .txt tells.
static bool is_name(const char *word)
{
    const char *dot = strrchr(word, '.');
    return !strchr(word, '/') && !(dot && isalpha((unsigned char)dot[1]));
}

// Refuses a word without an option, and says which option may have been meant.
static zero_status refuse_operand(const char *word, const cli_command *command, zero_error *error)
{
    static const struct {
        cli_option_id id;
        bool (*fits)(const char *word);
    } rows[] = {
        {OPT_DATA, is_file}, {OPT_MODEL, is_directory}, {OPT_NEW, is_name}, {OPT_PROMPT, is_text}};
    if (strcmp(word, "help") == 0)
        return refuse_usage(error, "unexpected argument help: zero help %s, or zero %s --help",
                            command->name, command->name);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const cli_option *row = cli_option_row(rows[i].id);
        if (cli_option_belongs(row, command) && rows[i].fits(word))
            return refuse_usage(error,
                                "unexpected argument %s; did you mean %s %s? (usage: zero %s %s)",
                                word, row->name, word, command->name, command->usage);
    }
    return refuse_usage(error, "unexpected argument %s (usage: zero %s %s)", word, command->name,
                        command->usage);
}

static zero_status take_operand(const char *word, cli_arguments *out, zero_error *error)
{
    const cli_command *command = out->command;
    if (command->takes_paths) {
        out->data[out->data_count++] = word;
        return ZERO_OK;
    }
    if (out->operand || (!command->choices && !command->takes_path))
        return refuse_operand(word, command, error);
    out->operand = word;
    if (command->takes_path || is_choice(command->choices, word))
        return ZERO_OK;
    return refuse_usage(error, "%s %s: it must be %s%s (usage: zero %s %s)", command->name, word,
                        strchr(command->choices, '|') ? "one of " : "", command->choices,
                        command->name, command->usage);
}

static zero_status set_defaults(cli_arguments *out, zero_error *error)
{
    for (int id = 0; id < CLI_OPTIONS; id++) {
        const cli_option *row = cli_option_row((cli_option_id)id);
        if (!row->standard)
            continue;
        zero_status status = check_value(row, row->standard, out, error);
        if (status != ZERO_OK)
            return status;
    }
    return ZERO_OK;
}

static zero_status check_map(const cli_arguments *of, zero_error *error)
{
    if (!of->given[OPT_MAP])
        return ZERO_OK;
    if (of->given[OPT_FIELD])
        return refuse_usage(error, "--field and --map both say which fields of a record are read: "
                                   "only one of them can be given (--map text=NAME is --field)");
    if (!strchr(of->text[OPT_MAP], '='))
        return refuse_usage(error,
                            "--map %s: it must be KEY=FIELD,KEY=FIELD,... such as "
                            "user=question,assistant=answer",
                            of->text[OPT_MAP]);
    return ZERO_OK;
}

// Checks options that say something of each other.
static zero_status check_together(const cli_arguments *of, zero_error *error)
{
    // The others have more to explain.
    bool of_file = strcmp(of->command->name, "train") && strcmp(of->command->name, "simulate");
    if (of->given[OPT_EXPLAIN] && of_file && !of->given[OPT_CONFIG] && !of->given[OPT_HELP])
        return refuse_usage(
            error, "--explain is about the keys of a configuration file: --config FILE is missing");
    return check_map(of, error);
}

zero_status cli_parse(const cli_command *command, int argc, char *const *argv, cli_arguments *out,
                      zero_error *error)
{
    *out = (cli_arguments){.command = command, .argv = argv};
    out->data = calloc((size_t)argc + 1, sizeof *out->data);
    out->stops = calloc((size_t)argc + 1, sizeof *out->stops);
    if (!out->data || !out->stops) {
        refuse_usage(error, "no memory for %d arguments", argc);
        return error->status = ZERO_ERR_MEMORY;
    }
    zero_status status = set_defaults(out, error);
    int at = 2;
    while (at < argc && status == ZERO_OK) {
        bool separator = strcmp(argv[at], "--") == 0 && command->runs_program;
        if (command->runs_program && (separator || !is_option(argv[at]))) {
            out->program = argv + at + separator;
            break;
        }
        status = is_option(argv[at]) ? take_option(argc, argv, &at, out, error)
                                     : take_operand(argv[at++], out, error);
    }
    return status == ZERO_OK ? check_together(out, error) : status;
}

const char *cli_field(const cli_arguments *arguments)
{
    return arguments->text[arguments->given[OPT_MAP] ? OPT_MAP : OPT_FIELD];
}

const char *cli_out(const cli_arguments *arguments)
{
    cli_option_id id = arguments->command - cli_commands == CLI_CONVERT ? OPT_TO : OPT_OUT;
    return arguments->given[id] ? arguments->text[id] : arguments->command->out;
}

void cli_arguments_free(cli_arguments *arguments)
{
    free(arguments->data);
    free(arguments->stops);
    arguments->data = arguments->stops = NULL;
}
