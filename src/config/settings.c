// Access to single settings, and how messages name them.
#include "config/settings.h"
#include "base/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN_BYTES 48 // bytes shown of a string that a message repeats

zr_setting *zr_config_at(const zr_config *config, const char *path)
{
    int index = zr_key_find(path);
    assert(index >= 0);
    return &config->settings[index];
}

const zr_setting *zr_config_setting(const zr_config *config, const char *path)
{
    int index = zr_key_find(path);
    return index < 0 ? NULL : &config->settings[index];
}

bool zr_config_has_value(const zr_config *config, const char *path)
{
    const zr_setting *setting = zr_config_setting(config, path);
    return setting && setting->value;
}

const json_t *zr_config_value(const zr_config *config, const char *path)
{
    return zr_config_at(config, path)->value;
}

bool zr_setting_is_auto(const zr_setting *setting)
{
    return json_is_string(setting->value) && !strcmp(json_string_value(setting->value), "auto");
}

bool zr_setting_is_given(const zr_setting *setting)
{
    return setting->value && (setting->origin == ZR_FROM_FILE || setting->origin == ZR_FROM_FLAG);
}

zero_status zr_setting_put(zr_setting *setting, json_t *value, zr_origin origin, zero_error *error)
{
    if (!value)
        return zr_fail(error, ZERO_ERR_MEMORY, "no memory for a setting of the configuration");
    json_decref(setting->value);
    setting->value = value;
    setting->origin = origin;
    return ZERO_OK;
}

void zr_setting_clear(zr_setting *setting)
{
    json_decref(setting->value);
    setting->value = NULL;
    setting->origin = ZR_FROM_DEFAULT;
}

zr_where zr_setting_where(const zr_config *config, const zr_setting *setting)
{
    zr_where where;
    if (setting->origin == ZR_FROM_FLAG)
        snprintf(where.text, sizeof where.text, "%s", setting->flag);
    else if (setting->line)
        snprintf(where.text, sizeof where.text, "%.200s:%d:%d", config->name, setting->line,
                 setting->column);
    else
        snprintf(where.text, sizeof where.text, "%.200s", config->name);
    return where;
}

zero_status zr_config_refuse_setting(const zr_config *config, const char *path, const char *why,
                                     zero_error *error)
{
    const zr_setting *setting = zr_config_at(config, path);
    return zr_fail(error, ZERO_ERR_CONFIG, "%s: %s is %s, but %s",
                   zr_setting_where(config, setting).text, path,
                   zr_value_shown(setting->value).text, why);
}

zr_shown zr_value_shown(const json_t *value)
{
    zr_shown shown = {.text = "nothing"};
    if (json_is_object(value))
        snprintf(shown.text, sizeof shown.text, "an object");
    else if (json_is_array(value))
        snprintf(shown.text, sizeof shown.text, "a list");
    else if (json_is_string(value))
        snprintf(shown.text, sizeof shown.text, "\"%.*s%s\"", SHOWN_BYTES, json_string_value(value),
                 json_string_length(value) > SHOWN_BYTES ? "..." : "");
    else if (json_is_integer(value))
        snprintf(shown.text, sizeof shown.text, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_real(value))
        snprintf(shown.text, sizeof shown.text, "%g", json_real_value(value));
    else if (value)
        snprintf(shown.text, sizeof shown.text, "%s",
                 json_is_null(value)   ? "null"
                 : json_is_true(value) ? "true"
                                       : "false");
    return shown;
}

static void new_line(int indent, zr_buffer *out) { zr_buffer_printf(out, "\n%*s", 2 * indent, ""); }

static void write_object(const json_t *object, int indent, zr_buffer *out)
{
    void *first = json_object_iter((json_t *)object);
    zr_buffer_append(out, "{", 1);
    for (void *i = first; i; i = json_object_iter_next((json_t *)object, i)) {
        if (i != first)
            zr_buffer_append(out, ",", 1);
        new_line(indent + 1, out);
        const char *key = json_object_iter_key(i);
        zr_json_append_string(out, key, strlen(key));
        zr_buffer_append(out, ": ", 2);
        zr_value_write(json_object_iter_value(i), indent + 1, out);
    }
    if (first)
        new_line(indent, out);
    zr_buffer_append(out, "}", 1);
}

static void write_array(const json_t *array, int indent, zr_buffer *out)
{
    zr_buffer_append(out, "[", 1);
    for (size_t i = 0; i < json_array_size(array); i++) {
        if (i)
            zr_buffer_append(out, ", ", 2);
        zr_value_write(json_array_get(array, i), indent + 1, out);
    }
    zr_buffer_append(out, "]", 1);
}

void zr_value_write(const json_t *value, int indent, zr_buffer *out)
{
    if (json_is_object(value))
        write_object(value, indent, out);
    else if (json_is_array(value))
        write_array(value, indent, out);
    else if (json_is_string(value))
        zr_json_append_string(out, json_string_value(value), json_string_length(value));
    else if (json_is_real(value))
        zr_json_append_double(out, json_real_value(value));
    else if (json_is_integer(value))
        zr_buffer_printf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else
        zr_buffer_printf(out, "%s",
                         json_is_null(value)   ? "null"
                         : json_is_true(value) ? "true"
                                               : "false");
}

static bool has_kind(const zr_key *key, int kind)
{
    return key->kinds == 0 || (key->kinds >> kind & 1);
}

bool zr_key_is_own_schedule(const zr_key *key)
{
    return !strncmp(key->path, ZR_OWN_SCHEDULE, sizeof ZR_OWN_SCHEDULE - 1);
}

bool zr_key_applies(const zr_key *key, const zr_config *config)
{
    if (!strncmp(key->path, "optimizer.params.", 17))
        return has_kind(key, config->optimizer.kind);
    if (!strncmp(key->path, "scheduler.params.", 17))
        return config->schedule.kind != ZR_SCHEDULE_CONSTANT &&
               has_kind(key, config->schedule.kind);
    return !zr_key_is_own_schedule(key) || has_kind(key, config->schedule.kind);
}

bool zr_key_is_idle(const zr_key *key, const zr_config *config)
{
    const json_t *on = key->needs ? zr_config_value(config, key->needs) : NULL;
    bool chosen = json_is_string(on) && strcmp(json_string_value(on), "none") &&
                  strcmp(json_string_value(on), "auto");
    return key->needs && !json_is_true(on) && !chosen;
}

void zr_key_list_parameters(const char *prefix, int kind, zr_buffer *out)
{
    size_t length = strlen(prefix), before = out->length;
    for (int i = 0; i < zr_key_count(); i++) {
        const zr_key *key = zr_key_at(i);
        if (!strncmp(key->path, prefix, length) && has_kind(key, kind) &&
            key->treatment == ZR_KEY_HONOURED)
            zr_buffer_printf(out, "%s%s", out->length > before ? ", " : "", key->path + length);
    }
}

int64_t zr_config_number(const zr_config *config, const char *path, int64_t silent)
{
    int64_t number = json_integer_value(zr_config_value(config, path)); // 0 if "auto" or null
    return number == silent ? 0 : number;
}

// Writes a value as a flag has it, "gpipe" or "0,6", or as the file has it.
static void write_value(const json_t *value, bool of_flag, char *out, size_t size)
{
    if (of_flag && json_is_string(value)) {
        snprintf(out, size, "%s", json_string_value(value));
    } else if (json_is_array(value)) {
        char *text = json_dumps(value, JSON_COMPACT);
        size_t length = text ? strlen(text) : 0;
        if (of_flag && length)
            snprintf(out, size, "%.*s", (int)length - 2, text + 1);
        else
            snprintf(out, size, "%s", text ? text : "a list");
        free(text);
    } else {
        snprintf(out, size, "%s", zr_value_shown(value).text);
    }
}

zr_said zr_config_said(const zr_config *config, const char *path)
{
    zr_said out;
    char value[80];
    const zr_setting *setting = zr_config_at(config, path);
    bool of_flag = setting->origin == ZR_FROM_FLAG;
    zr_where where = zr_setting_where(config, setting);
    write_value(setting->value, of_flag, value, sizeof value);
    if (of_flag)
        snprintf(out.text, sizeof out.text, "%s %s", where.text, value);
    else
        snprintf(out.text, sizeof out.text, "%s %s (%s)", path, value, where.text);
    return out;
}
