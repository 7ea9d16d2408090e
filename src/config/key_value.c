// Checks one JSON value against a row of the key table, and names the values that are allowed.
//
// A value that passes is in normal form from then on: integers are JSON integers, numbers JSON
// reals, and enums are spelled as the table spells them. The parser, the flags and the defaults all
// use this.
#include "config/keys.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <zero/configuration.h>

static const char *const type_names[] = {
    [ZR_KEY_BYTES] = "bytes",
    [ZR_KEY_BOOL] = "true or false",
    [ZR_KEY_INT] = "integer",
    [ZR_KEY_NUMBER] = "number",
    [ZR_KEY_STRING] = "string",
    [ZR_KEY_ENUM] = "one of",
    [ZR_KEY_LIST] = "list",
    [ZR_KEY_OBJECT] = "object",
    [ZR_KEY_ANY] = "anything",
    [ZR_KEY_UPDATES] = "updates, or part",
    [ZR_KEY_NUMBERS] = "number or list",
};

static const char *const treatment_names[] = {
    [ZR_KEY_HONOURED] = "honoured", [ZR_KEY_NO_EFFECT] = "no effect",
    [ZR_KEY_REFUSED] = "refused",   [ZR_KEY_FORBIDDEN] = "refused (DeepSpeed too)",
    [ZR_KEY_RENAMED] = "renamed",
};

const char *zr_key_type_name(zr_key_type type) { return type_names[type]; }

const char *zr_treatment_name(zr_treatment treatment) { return treatment_names[treatment]; }

// Returns the k-th alternative of "a|b|c", with length 0 after the last one. Callers bound k by the
// number of alternatives.
static const char *nth_alternative(const char *list, int k, size_t *length)
{
    for (; k > 0 && list; k--) {
        list = strchr(list, '|');
        list = list ? list + 1 : NULL;
    }
    *length = list ? strcspn(list, "|") : 0;
    return list;
}

static bool check_enum(const zr_key *key, json_t *value, json_t **normal)
{
    const char *text = json_is_string(value) ? json_string_value(value) : "", *choice;
    size_t length;
    for (int k = 0; (choice = nth_alternative(key->choices, k, &length)); k++) {
        bool same =
            key->any_case ? !strncasecmp(text, choice, length) : !strncmp(text, choice, length);
        if (same && strlen(text) == length) {
            *normal = json_stringn(choice, length);
            return true;
        }
    }
    return false;
}

static bool in_range(const zr_key *key, double value)
{
    if (key->above ? value <= key->least : value < key->least)
        return false;
    return key->most == 0 || value <= key->most;
}

static bool check_int(const zr_key *key, json_t *value, json_t **normal)
{
    double real = json_number_value(value);
    if (json_is_string(value) && !strcmp(json_string_value(value), "max") && key->most == 0)
        *normal = json_integer(INT64_MAX);
    else if (!json_is_number(value) || !in_range(key, real))
        return false;
    else if (json_is_integer(value))
        *normal = json_incref(value);
    else if (real == floor(real) && fabs(real) < 0x1p63)
        *normal = json_integer((json_int_t)real);
    else
        return false;
    return true;
}

// Returns the factor of a unit of bytes; 0: it is none.
static double unit_of_bytes(const char *unit)
{
    static const char letters[] = "kmgtp";
    const char *at = *unit ? strchr(letters, tolower((unsigned char)*unit)) : NULL;
    if (!*unit || !strcasecmp(unit, "B"))
        return 1;
    if (!at)
        return 0;
    double power = (double)(at - letters) + 1;
    if (!strcasecmp(unit + 1, "B"))
        return pow(1000, power);
    return !unit[1] || !strcasecmp(unit + 1, "iB") ? pow(1024, power) : 0;
}

double zero_bytes_read(const char *text)
{
    if (!text)
        return -1;
    char *end;
    double number = strtod(text, &end);
    if (end == text || isspace((unsigned char)*text) || !isfinite(number))
        return -1;
    while (*end == ' ')
        end++;
    double factor = unit_of_bytes(end);
    return factor > 0 && number >= 0 ? number * factor : -1;
}

static bool check_bytes(json_t *value, json_t **normal)
{
    double bytes = json_is_string(value)   ? zero_bytes_read(json_string_value(value))
                   : json_is_number(value) ? json_number_value(value)
                                           : -1;
    if (!(bytes >= 1 && bytes < 0x1p62))
        return false;
    *normal = json_integer((json_int_t)bytes);
    return true;
}

double zr_key_percent(const char *text)
{
    char *end;
    double number = strtod(text, &end);
    bool begins = isdigit((unsigned char)*text) || *text == '.';
    return begins && !strcmp(end, "%") && number <= 100 ? number : -1;
}

static bool check_updates(const zr_key *key, json_t *value, json_t **normal)
{
    if (!json_is_string(value))
        return check_int(key, value, normal);
    bool fits = zr_key_percent(json_string_value(value)) >= 0;
    *normal = fits ? json_incref(value) : NULL;
    return fits;
}

static bool check_number(const zr_key *key, json_t *value, json_t **normal)
{
    double real = json_number_value(value);
    if (!json_is_number(value) || !in_range(key, real))
        return false;
    *normal = json_real(real);
    return true;
}

static void describe_range(const zr_key *key, const char *noun, char wanted[ZR_KEY_WANTED_BYTES])
{
    const char *from = key->above ? "above" : key->most != 0 ? "from" : "of at least";
    int used = snprintf(wanted, ZR_KEY_WANTED_BYTES, "%s %s %g", noun, from, key->least);
    if (key->most != 0)
        snprintf(wanted + used, (size_t)(ZR_KEY_WANTED_BYTES - used), " to %g", key->most);
}

static void describe_choices(const zr_key *key, char wanted[ZR_KEY_WANTED_BYTES])
{
    size_t length, used = (size_t)snprintf(wanted, ZR_KEY_WANTED_BYTES, "one of");
    for (int k = 0; used < ZR_KEY_WANTED_BYTES; k++) {
        const char *choice = nth_alternative(key->choices, k, &length);
        if (!choice)
            return;
        used += (size_t)snprintf(wanted + used, ZR_KEY_WANTED_BYTES - used, "%s %.*s", k ? "," : "",
                                 (int)length, choice);
    }
}

static void describe_wanted(const zr_key *key, char wanted[ZR_KEY_WANTED_BYTES])
{
    switch (key->type) {
    case ZR_KEY_INT: describe_range(key, "an integer", wanted); break;
    case ZR_KEY_NUMBER: describe_range(key, "a number", wanted); break;
    case ZR_KEY_NUMBERS: describe_range(key, "a list or a number", wanted); break;
    case ZR_KEY_ENUM: describe_choices(key, wanted); break;
    case ZR_KEY_BYTES:
        snprintf(wanted, ZR_KEY_WANTED_BYTES,
                 "a number of bytes, such as 2147483648, \"2GB\" or \"512MiB\"");
        break;
    case ZR_KEY_UPDATES:
        snprintf(wanted, ZR_KEY_WANTED_BYTES,
                 "a number of updates, such as 100, or a part of the run, such as \"5%%\"");
        break;
    default:
        snprintf(wanted, ZR_KEY_WANTED_BYTES, "%s%s",
                 key->type == ZR_KEY_BOOL     ? ""
                 : key->type == ZR_KEY_OBJECT ? "an "
                                              : "a ",
                 type_names[key->type]);
    }
    size_t used = strlen(wanted);
    if (key->nullable)
        snprintf(wanted + used, ZR_KEY_WANTED_BYTES - used, " or null");
}

// Returns whether the value fits; if it does, a NULL *normal means that memory has run out.
static bool check_type(const zr_key *key, json_t *value, json_t **normal)
{
    bool fits = true;
    switch (key->type) {
    case ZR_KEY_INT: return check_int(key, value, normal);
    case ZR_KEY_NUMBER: return check_number(key, value, normal);
    case ZR_KEY_NUMBERS:
        if (!json_is_array(value))
            return check_number(key, value, normal);
        break;
    case ZR_KEY_ENUM: return check_enum(key, value, normal);
    case ZR_KEY_BYTES: return check_bytes(value, normal);
    case ZR_KEY_UPDATES: return check_updates(key, value, normal);
    case ZR_KEY_BOOL: fits = json_is_boolean(value); break;
    case ZR_KEY_STRING: fits = json_is_string(value); break;
    case ZR_KEY_LIST: fits = json_is_array(value); break;
    case ZR_KEY_OBJECT: fits = json_is_object(value); break;
    case ZR_KEY_ANY: break;
    }
    *normal = fits ? json_incref(value) : NULL;
    return fits;
}

json_t *zr_key_check(const zr_key *key, json_t *value, char wanted[ZR_KEY_WANTED_BYTES])
{
    json_t *normal = NULL;
    wanted[0] = 0;
    bool is_auto = json_is_string(value) && !strcmp(json_string_value(value), "auto");
    if (is_auto || (key->nullable && json_is_null(value)))
        return json_incref(value);
    if (!check_type(key, value, &normal))
        describe_wanted(key, wanted);
    return normal;
}

json_t *zr_key_standard(const zr_key *key)
{
    bool text = key->type == ZR_KEY_STRING || key->type == ZR_KEY_ENUM ||
                key->type == ZR_KEY_UPDATES || key->type == ZR_KEY_ANY;
    bool word = !strcmp(key->standard, "auto") || !strcmp(key->standard, "max");
    json_t *value = word || (text && strcmp(key->standard, "null"))
                        ? json_string(key->standard)
                        : json_loads(key->standard, JSON_DECODE_ANY, NULL);
    if (!value)
        return NULL;
    char wanted[ZR_KEY_WANTED_BYTES];
    json_t *normal = zr_key_check(key, value, wanted);
    json_decref(value);
    return normal;
}

// Writes a scalar as the table writes it in `allowed`; "" for lists and objects.
static void scalar_text(const json_t *value, char out[64])
{
    out[0] = 0;
    if (json_is_boolean(value))
        snprintf(out, 64, "%s", json_is_true(value) ? "true" : "false");
    else if (json_is_null(value))
        snprintf(out, 64, "null");
    else if (json_is_string(value))
        snprintf(out, 64, "%s", json_string_value(value));
    else if (json_is_number(value))
        snprintf(out, 64, "%g", json_number_value(value));
}

static bool is_among_alternatives(const char *list, const json_t *value)
{
    char text[64];
    size_t length;
    scalar_text(value, text);
    for (int k = 0; text[0]; k++) {
        const char *choice = nth_alternative(list, k, &length);
        if (!choice)
            return false;
        if (strlen(text) == length && !strncmp(text, choice, length))
            return true;
    }
    return false;
}

// Says whether a section asks for nothing: it is empty, not "enabled", or has only such sections.
static bool is_off(const zr_key *key, json_t *section)
{
    const char *name;
    json_t *value, *enabled = json_object_get(section, "enabled");
    if (enabled)
        return json_is_object(enabled) ? is_off(key, enabled)
                                       : is_among_alternatives(key->allowed, enabled);
    json_object_foreach(section, name, value)
    {
        if (!json_is_object(value) || !is_off(key, value))
            return false;
    }
    return true;
}

bool zr_key_allows(const zr_key *key, const json_t *value)
{
    bool selective = key->treatment == ZR_KEY_REFUSED || key->treatment == ZR_KEY_FORBIDDEN;
    if (!selective && !key->allowed)
        return true;
    if (key->type == ZR_KEY_OBJECT && json_is_object(value))
        return !json_is_true(json_object_get(value, "enabled"));
    if (key->type == ZR_KEY_ANY && key->allowed && json_is_object(value))
        return is_off(key, (json_t *)value);
    return is_among_alternatives(key->allowed, value);
}

const char *zr_key_refusal(const zr_key *key, const json_t *value)
{
    return key->removed && is_among_alternatives(key->removed, value) ? ZR_KEY_REMOVED
                                                                      : key->reason;
}
