// Turns text into settings: every key is found in the table, checked, and stored with its position
// in the file.
//
// Old names ("bfloat16", "cpu_offload", keys without "stage3_") are stored under the row that they
// mean, so that no other file knows them. A key given under two of its names is refused like any
// key given twice.
#include "base/file.h"
#include "base/json.h"
#include "config/settings.h"

#include <stdio.h>
#include <string.h>

typedef struct parsing {
    zr_config *config;
    const json_t *root;
    const char *text; // with comments blanked out
    size_t length;
    zero_error *error;
} parsing;

typedef struct key_path {
    char written[ZR_KEY_PATH_BYTES]; // as in the file
    char meant[ZR_KEY_PATH_BYTES];   // as in the table
} key_path;

static zero_status parse_section(const parsing *p, const key_path *section, json_t *object);

static zero_status fail_at(const parsing *p, const char *path, const char *message)
{
    zr_json_position place = zr_json_find(p->text, p->length, path);
    if (place.line)
        return zr_fail(p->error, ZERO_ERR_CONFIG, "%s:%d:%d: %s", p->config->name, place.line,
                       place.column, message);
    return zr_fail(p->error, ZERO_ERR_CONFIG, "%s: %s", p->config->name, message);
}

// Refuses an unknown optimizer before one of its parameters is refused as unknown.
static zero_status refuse_optimizer(const parsing *p)
{
    static const char path[] = "optimizer.type";
    char wanted[ZR_KEY_WANTED_BYTES], message[ZERO_MESSAGE_BYTES];
    const zr_key *key = zr_key_at(zr_key_find(path));
    json_t *type = json_object_get(json_object_get(p->root, "optimizer"), "type");
    json_t *normal = type ? zr_key_check(key, type, wanted) : NULL;
    bool refused = normal && !zr_key_allows(key, normal);
    if (refused)
        snprintf(message, sizeof message, "%s %s is refused: %s", path, zr_value_shown(normal).text,
                 zr_key_refusal(key, normal));
    json_decref(normal);
    return refused ? fail_at(p, path, message) : ZERO_OK;
}

// DeepSpeed ignores unknown keys at the top of the file; these are kept for whoever parses.
static zero_status refuse_unknown(const parsing *p, const char *path)
{
    char nearest[ZR_KEY_PATH_BYTES], message[3 * ZR_KEY_PATH_BYTES];
    if (!strncmp(path, "optimizer.params.", 17))
        ZERO_TRY(refuse_optimizer(p));
    zr_key_nearest(path, nearest);
    snprintf(message, sizeof message, "unknown key \"%s\"%s%s%s", path,
             nearest[0] ? "; did you mean \"" : "", nearest, nearest[0] ? "\"?" : "");
    if (strchr(path, '.'))
        return fail_at(p, path, message);
    zr_json_position place = zr_json_find(p->text, p->length, path);
    zr_buffer_printf(&p->config->unknown, "%s:%d:%d: %s\n", p->config->name, place.line,
                     place.column, message);
    return ZERO_OK;
}

static zero_status refuse_value(const parsing *p, const char *path, const json_t *value,
                                const char *wanted)
{
    char message[ZERO_MESSAGE_BYTES];
    snprintf(message, sizeof message, "%s: found %s, expected %s", path, zr_value_shown(value).text,
             wanted);
    return fail_at(p, path, message);
}

static bool join_key_path(char out[ZR_KEY_PATH_BYTES], const char *section, const char *key)
{
    return snprintf(out, ZR_KEY_PATH_BYTES, "%s%s%s", section, section[0] ? "." : "", key) <
           ZR_KEY_PATH_BYTES;
}

// Translates the value of an old key into the terms of the new one.
static json_t *translate_old_value(const zr_key *old, json_t *value)
{
    const zr_key *target = zr_key_at(zr_key_find(old->becomes));
    if (!json_is_boolean(value) || target->type == ZR_KEY_BOOL)
        return json_incref(value);
    if (target->type == ZR_KEY_INT)
        return json_integer(json_is_true(value));
    return json_string(json_is_true(value) ? "cpu" : "none");
}

static zero_status refuse_repeated(const parsing *p, const key_path *path,
                                   const zr_setting *setting)
{
    char message[3 * ZR_KEY_PATH_BYTES];
    snprintf(message, sizeof message,
             "\"%s\" is the same setting as the key at line %d; give it once", path->written,
             setting->line);
    return fail_at(p, path->written, message);
}

// Stores `value`, which is checked and in normal form, and takes over its reference.
static zero_status store_setting(const parsing *p, const key_path *path, const zr_key *key,
                                 json_t *value)
{
    const char *meant = key->treatment == ZR_KEY_RENAMED ? key->becomes : key->path;
    zr_setting *setting = zr_config_at(p->config, meant);
    if (setting->value) {
        json_decref(value);
        return refuse_repeated(p, path, setting);
    }
    zr_json_position place = zr_json_find(p->text, p->length, path->written);
    setting->line = place.line;
    setting->column = place.column;
    setting->spelled = key->treatment == ZR_KEY_RENAMED ? key : setting->spelled;
    return zr_setting_put(setting, value, ZR_FROM_FILE, p->error);
}

static zero_status parse_value(const parsing *p, const key_path *path, const zr_key *key,
                               json_t *value)
{
    char wanted[ZR_KEY_WANTED_BYTES];
    json_t *normal = zr_key_check(key, value, wanted);
    if (wanted[0])
        return refuse_value(p, path->written, value, wanted);
    if (normal && key->treatment == ZR_KEY_RENAMED) {
        json_t *old = normal;
        normal = translate_old_value(key, old);
        json_decref(old);
    }
    return store_setting(p, path, key, normal);
}

static bool is_null_or_auto(const json_t *value) // a section without content
{
    return json_is_null(value) ||
           (json_is_string(value) && !strcmp(json_string_value(value), "auto"));
}

static zero_status parse_member(const parsing *p, key_path *path, json_t *value)
{
    int index = zr_key_find(path->meant);
    const zr_key *key = index < 0 ? NULL : zr_key_at(index);
    bool old_section = key && key->treatment == ZR_KEY_RENAMED && zr_key_is_section(key->becomes);
    if (old_section)
        snprintf(path->meant, sizeof path->meant, "%s", key->becomes);
    bool section = old_section || zr_key_is_section(path->meant);
    if (section && json_is_object(value))
        return parse_section(p, path, value);
    if (section && is_null_or_auto(value))
        return ZERO_OK;
    if (key)
        return parse_value(p, path, key, value);
    return section ? refuse_value(p, path->written, value, "an object")
                   : refuse_unknown(p, path->written);
}

static zero_status parse_section(const parsing *p, const key_path *section, json_t *object)
{
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        key_path path;
        bool fits = join_key_path(path.written, section->written, key);
        fits = join_key_path(path.meant, section->meant, key) && fits;
        if (strchr(key, '.'))
            return zr_fail(p->error, ZERO_ERR_CONFIG,
                           "%s: the key \"%.64s\" has a dot: sections are nested objects, "
                           "{\"zero_optimization\": {\"stage\": 2}}",
                           p->config->name, key);
        if (!fits)
            return zr_fail(p->error, ZERO_ERR_CONFIG, "%s: unknown key \"%.64s...\"",
                           p->config->name, key);
        ZERO_TRY(parse_member(p, &path, value));
    }
    return ZERO_OK;
}

static bool have_same_section(const char *a, const char *b)
{
    size_t length = (size_t)(strrchr(a, '.') - a) + 1;
    return !strncmp(a, b, length);
}

// Refuses "cpu_offload" next to the section that replaced it, because it is unclear which is meant.
static zero_status refuse_old_beside_new(const zr_config *config, zero_error *error)
{
    for (int i = 0; i < zr_key_count(); i++) {
        const zr_setting *old = &config->settings[i];
        if (!old->spelled || zr_key_at(i)->type != ZR_KEY_ENUM)
            continue;
        for (int j = 0; j < zr_key_count(); j++)
            if (j != i && config->settings[j].value &&
                have_same_section(zr_key_at(i)->path, zr_key_at(j)->path))
                return zr_fail(
                    error, ZERO_ERR_CONFIG,
                    "%s: %s is given together with %s, which replaced it; keep the newer one",
                    zr_setting_where(config, old).text, old->spelled->path, zr_key_at(j)->path);
    }
    return ZERO_OK;
}

// base/ reports wrong syntax and size as bad data; here that is a bad configuration.
static zero_status as_config_error(zero_status status, zero_error *error)
{
    if (status != ZERO_ERR_DATA)
        return status;
    if (error)
        error->status = ZERO_ERR_CONFIG;
    return ZERO_ERR_CONFIG;
}

// Says whether a text is YAML: after comments it begins with "---" or with a key that has no
// quotes, "name: value" or "name:".
static bool is_yaml(const char *text)
{
    for (text += strspn(text, " \t\r\n"); *text == '#'; text += strspn(text, " \t\r\n"))
        text += strcspn(text, "\n");
    size_t name = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");
    return !strncmp(text, "---", 3) ||
           (name && text[name] == ':' && strchr(" \r\n", text[name + 1]));
}

static zero_status refuse_yaml(const zr_config *config, const char *text, zero_error *error)
{
    bool accelerate = strstr(text, "deepspeed_config") != NULL;
    return zr_fail(error, ZERO_ERR_CONFIG, "%s: this is YAML%s, and DeepSpeed's file is JSON: %s",
                   config->name, accelerate ? " of accelerate" : "",
                   accelerate
                       ? "give the file that its deepspeed_config_file names, or write what its "
                         "deepspeed_config says, as {\"zero_optimization\": {\"stage\": 2}}"
                       : "write its DeepSpeed keys as {\"zero_optimization\": {\"stage\": 2}}");
}

static zero_status parse_document(zr_config *config, char *text, size_t length, zero_error *error)
{
    json_t *root = NULL;
    if (is_yaml(text))
        return refuse_yaml(config, text, error);
    ZERO_TRY(as_config_error(zr_json_blank(text, length, config->name, error), error));
    ZERO_TRY(as_config_error(zr_json_parse(text, length, config->name, &root, error), error));
    parsing p = {.config = config, .root = root, .text = text, .length = length, .error = error};
    const key_path top = {.written = ""};
    zero_status status = ZERO_OK;
    if (json_is_object(root))
        status = parse_section(&p, &top, root);
    else
        status = zr_fail(error, ZERO_ERR_CONFIG, "%s: found %s, expected one object in braces",
                         config->name, zr_value_shown(root).text);
    json_decref(root);
    ZERO_TRY(status);
    return refuse_old_beside_new(config, error);
}

static zero_status create_config(const char *name, zr_config **out, zero_error *error)
{
    zr_config *config = zr_alloc(sizeof *config, error);
    if (!config)
        return ZERO_ERR_MEMORY;
    config->name = zr_strdup(name, error);
    config->settings =
        config->name ? zr_alloc((size_t)zr_key_count() * sizeof *config->settings, error) : NULL;
    if (!config->settings) {
        zr_config_destroy(config);
        return ZERO_ERR_MEMORY;
    }
    *out = config;
    return ZERO_OK;
}

zero_status zr_config_parse(const char *text, size_t length, const char *name, zr_config **out,
                            zero_error *error)
{
    zr_config *config;
    *out = NULL;
    ZERO_TRY(create_config(name, &config, error));
    zero_status status = ZERO_OK;
    if (text) {
        char *copy = zr_alloc(length + 1, error);
        status = ZERO_ERR_MEMORY;
        if (copy) {
            memcpy(copy, text, length);
            status = parse_document(config, copy, length, error);
        }
        zr_free(copy);
    }
    if (status != ZERO_OK)
        zr_config_destroy(config);
    else
        *out = config;
    return status;
}

void zr_config_destroy(zr_config *config)
{
    if (!config)
        return;
    for (int i = 0; config->settings && i < zr_key_count(); i++) {
        json_decref(config->settings[i].value);
        zr_free(config->settings[i].flag);
    }
    zr_free(config->settings);
    zr_free(config->flops_profiler.output_file);
    zr_free(config->tensorboard.directory);
    zr_free(config->csv_monitor.directory);
    zr_free(config->elastic);
    zr_buffer_free(&config->unknown);
    zr_free(config->name);
    zr_free(config);
}
