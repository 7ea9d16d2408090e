// Numbers in free text, digit by digit: strtod would follow the host program's locale.
#include "simulate/text.h"

#include <ctype.h>
#include <math.h>
#include <string.h>
#include <strings.h>

typedef enum meaning { NUMBER, LENGTH, PARAMETERS } meaning;

typedef struct amount { // "4.19M"
    double value, unit; // 4.19, 1e6; unit 1: none
    const char *end;
} amount;

static bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }

static bool is_word(char letter) { return isalnum((unsigned char)letter) != 0; }

const char *zr_sim_skip_spaces(const char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    return text;
}

bool zr_sim_text_has(const char *text, const char *part)
{
    size_t length = strlen(part);
    for (; *text != 0; text++)
        if (strncasecmp(text, part, length) == 0)
            return true;
    return false;
}

bool zr_sim_text_begins(const char *text, const char *word)
{
    size_t length = strlen(word);
    return strncasecmp(text, word, length) == 0 && !is_word(text[length]);
}

static char folded(char letter)
{
    return letter == '-' || letter == '_' ? ' ' : (char)tolower((unsigned char)letter);
}

bool zr_sim_name_has(const char *name, const char *part)
{
    size_t length = strlen(part);
    for (; *name != 0; name++) {
        size_t same = 0;
        while (same < length && folded(name[same]) == folded(part[same]))
            same++;
        if (same == length)
            return true;
    }
    return false;
}

// Returns whether a comma and a group of three digits follow.
static bool is_group(const char *at)
{
    return at[0] == ',' && is_digit(at[1]) && is_digit(at[2]) && is_digit(at[3]) &&
           !is_digit(at[4]);
}

static const char *read_digits(const char *at, double *value)
{
    for (; is_digit(*at); at++)
        *value = *value * 10 + (*at - '0');
    return at;
}

static const char *read_exponent(const char *at, double *value)
{
    double power = 0;
    if (*at != 'e' && *at != 'E')
        return at;
    bool negative = at[1] == '-';
    const char *digits = at + 1 + (at[1] == '-' || at[1] == '+');
    if (!is_digit(*digits))
        return at;
    digits = read_digits(digits, &power);
    *value *= pow(10, negative ? -power : power);
    return digits;
}

static double text_unit_of(char letter, meaning meaning)
{
    if (meaning == PARAMETERS)
        letter = (char)toupper((unsigned char)letter);
    switch (letter) {
    case 'k':
    case 'K': return 1e3;
    case 'M': return 1e6;
    case 'B': return 1e9;
    case 'T': return 1e12;
    default: return 1;
    }
}

// Reads the unit of an amount, which stands directly after it and ends there.
static void read_unit(amount *out, meaning meaning)
{
    const char *next = zr_sim_skip_spaces(out->end);
    bool million = strncasecmp(next, "million", 7) == 0;
    out->unit = text_unit_of(*out->end, meaning);
    if (million || strncasecmp(next, "billion", 7) == 0) {
        out->unit = million ? 1e6 : 1e9;
        out->end = next + 7;
    } else if (out->unit > 1 && is_word(out->end[1])) {
        out->unit = 1;
    } else if (out->unit > 1) {
        out->end++;
    }
}

// Reads one number and its unit; false: there is none.
static bool read_amount(const char *text, meaning meaning, amount *out)
{
    const char *at = zr_sim_skip_spaces(text), *begin = at;
    double parts = 0;
    *out = (amount){.end = text, .unit = 1};
    if (!is_digit(*at) && !(*at == '.' && is_digit(at[1])))
        return false;
    at = read_digits(at, &out->value);
    bool grouped = at - begin <= 3 && out->value > 0;
    while (grouped && is_group(at))
        at = read_digits(at + 1, &out->value);
    if (*at == '.') {
        const char *point = at;
        parts = out->value;
        at = read_digits(at + 1, &parts);
        out->value = parts / pow(10, (double)(at - point - 1));
    }
    out->end = read_exponent(at, &out->value);
    read_unit(out, meaning);
    return true;
}

// Returns a number and its unit multiplied. Whole and half numbers of lengths have binary units.
static double amount_of(const amount *a, meaning meaning)
{
    bool binary = meaning == LENGTH && a->unit <= 1e6 && fmod(a->value * 2, 1) == 0;
    if (binary && a->unit > 1)
        return a->value * (a->unit > 1e3 ? 1048576 : 1024);
    return a->value * a->unit;
}

static const char *after_times(const char *text)
{
    text = zr_sim_skip_spaces(text);
    bool times = *text == 'x' || *text == 'X' || *text == '*';
    return times && is_digit(*zr_sim_skip_spaces(text + 1)) ? text + 1 : NULL;
}

// Returns the product with which a text begins; *end: where it ends; *unit: the largest in it.
static double read_product(const char *text, meaning meaning, const char **end, double *unit)
{
    double product = 1;
    amount one;
    *unit = 1;
    *end = text;
    if (!read_amount(text, meaning, &one))
        return 0;
    for (;;) {
        product *= amount_of(&one, meaning);
        *unit = fmax(*unit, one.unit);
        *end = one.end;
        const char *next = after_times(one.end);
        if (next == NULL)
            return isfinite(product) ? product : 0;
        read_amount(next, meaning, &one);
    }
}

double zr_sim_text_number(const char *text)
{
    const char *end;
    double unit;
    return read_product(text, NUMBER, &end, &unit);
}

double zr_sim_text_length(const char *text)
{
    const char *end;
    double unit;
    return read_product(text, LENGTH, &end, &unit);
}

double zr_sim_text_tokens(const char *text)
{
    const char *end;
    double unit, tokens = read_product(text, LENGTH, &end, &unit);
    return strncasecmp(zr_sim_skip_spaces(end), "token", 5) == 0 ? tokens : 0;
}

double zr_sim_text_billions(const char *text)
{
    const char *end;
    double unit, number = read_product(text, PARAMETERS, &end, &unit);
    // Nobody has a model of a million billions, so such a number counts parameters.
    return unit > 1 || number >= 1e6 ? number / 1e9 : number;
}

double zr_sim_name_billions(const char *name)
{
    amount size;
    for (const char *at = name; *at != 0; at++) {
        bool begins = at == name || (!is_word(at[-1]) && at[-1] != '.');
        if (begins && is_digit(*at) && read_amount(at, PARAMETERS, &size) && size.unit >= 1e6)
            return size.value * size.unit / 1e9;
    }
    return 0;
}
