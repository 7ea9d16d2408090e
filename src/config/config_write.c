// Writes the resolved configuration as a file, and the key table as documentation.
#include "config/settings.h"

#include <stdio.h>
#include <string.h>

// Puts the value at "a.b.c" below root and creates the objects on the way.
static bool put_nested(json_t *root, const char *path, json_t *value)
{
    json_t *object = root;
    for (const char *dot = strchr(path, '.'); dot; path = dot + 1, dot = strchr(path, '.')) {
        char section[ZR_KEY_PATH_BYTES];
        snprintf(section, sizeof section, "%.*s", (int)(dot - path), path);
        json_t *below = json_object_get(object, section);
        if (!below && json_object_set_new(object, section, below = json_object()))
            return false;
        object = below;
    }
    return !json_object_set(object, path, value);
}

void zr_config_write(const zr_config *config, zr_buffer *out)
{
    json_t *root = json_object();
    bool complete = root != NULL;
    for (int i = 0; complete && i < zr_key_count(); i++)
        if (config->settings[i].value)
            complete = put_nested(root, zr_key_at(i)->path, config->settings[i].value);
    out->failed = out->failed || !complete;
    if (complete)
        zr_value_write(root, 0, out);
    zr_buffer_append(out, "\n", 1);
    json_decref(root);
}

static size_t section_length(const char *path)
{
    const char *dot = strchr(path, '.');
    return dot ? (size_t)(dot - path) : 0;
}

static void document_choices(const char *choices, zr_buffer *out)
{
    for (const char *c = choices; *c; c++)
        zr_buffer_printf(out, *c == '|' ? ", " : "%c", *c);
}

static void document_kinds(const zr_key *key, zr_buffer *out)
{
    bool optimizer = !strncmp(key->path, "optimizer", 9);
    const char *separator = " Of ";
    for (int kind = 0; kind < (optimizer ? (int)ZR_OPTIMIZER_KINDS : (int)ZR_SCHEDULE_COUNT);
         kind++) {
        if (!(key->kinds >> kind & 1))
            continue;
        const char *name = optimizer ? zr_optimizer_traits_of((zr_optimizer_kind)kind)->name
                                     : zr_schedule_name((zr_lr_schedule_kind)kind);
        zr_buffer_printf(out, "%s%s", separator, name);
        separator = ", ";
    }
    if (key->kinds)
        zr_buffer_printf(out, ".");
}

static void document_key(const zr_key *key, zr_buffer *out)
{
    zr_buffer_printf(out, "| `%s` | ", key->path);
    if (key->choices)
        document_choices(key->choices, out);
    else
        zr_buffer_printf(out, "%s", zr_key_type_name(key->type));
    zr_buffer_printf(out, "%s | %s | %s |", key->nullable ? ", null" : "",
                     key->standard ? key->standard : "", zr_treatment_name(key->treatment));
    zr_buffer_printf(out, " %s.", key->help);
    document_kinds(key, out);
    if (key->needs)
        zr_buffer_printf(out, " No effect without `%s`.", key->needs);
    if (key->becomes)
        zr_buffer_printf(out, " Read as `%s`: %s.", key->becomes, key->reason);
    else if (key->type == ZR_KEY_OBJECT && key->allowed) {
        zr_buffer_printf(out, " Refused if enabled: %s.", key->reason);
    } else if (key->allowed) {
        zr_buffer_printf(out, " Refused unless ");
        document_choices(key->allowed, out);
        zr_buffer_printf(out, ": %s.", key->reason);
    } else if (key->reason)
        zr_buffer_printf(
            out, " %s%s.",
            key->treatment == ZR_KEY_NO_EFFECT ? "No effect: " : "Refused: ", key->reason);
    zr_buffer_printf(out, " |\n");
}

// Writes the rows of one section; "" stands for the top level.
static void document_section(const char *section, size_t length, zr_buffer *out)
{
    zr_buffer_printf(
        out, "\n## %.*s\n\n| key | type | default | here | meaning |\n|---|---|---|---|---|\n",
        length ? (int)length : 9, length ? section : "Top level");
    for (int i = 0; i < zr_key_count(); i++) {
        const zr_key *key = zr_key_at(i);
        if (section_length(key->path) == length && !strncmp(key->path, section, length))
            document_key(key, out);
    }
}

static bool is_first_of_section(int index)
{
    const char *path = zr_key_at(index)->path;
    size_t length = section_length(path);
    for (int i = 0; i < index; i++)
        if (section_length(zr_key_at(i)->path) == length &&
            !strncmp(zr_key_at(i)->path, path, length))
            return false;
    return length > 0;
}

void zr_config_document(zr_buffer *out)
{
    document_section("", 0, out);
    for (int i = 0; i < zr_key_count(); i++)
        if (is_first_of_section(i))
            document_section(zr_key_at(i)->path, section_length(zr_key_at(i)->path), out);
}
