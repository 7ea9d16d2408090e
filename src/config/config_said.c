// Keys that a flag with a field of its own may say, too (--tensor, --pipeline): who says what, and
// what happens if both do. They must say the same; what the flag says alone is put into the key, so
// that the resolved file says it, too.
#include "config/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

zero_status zr_config_refuse_flag(const zr_config *config, const char *flag, const char *path,
                                  zero_error *error)
{
    return zr_fail(error, ZERO_ERR_USAGE, "%s contradicts %s: say one of them, or both alike", flag,
                   zr_config_said(config, path).text);
}

zero_status zr_config_put_flag(zr_config *config, const char *path, const char *value,
                               const char *flag, zero_error *error)
{
    return zr_config_override(config, path, value, flag, false, NULL, error);
}
