#include "model/preference_spec.h"

#include "base/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct setting { // of a loss
    const char *name;    // NULL ends the list
    size_t at;           // in zr_preference
    double usual, least, most;
    bool flag; // written as true or false
} setting;

#define SETTING(field, ...)                                                                        \
    {                                                                                              \
        .name = #field, .at = offsetof(zr_preference, field), __VA_ARGS__                          \
    }
#define BETA(value) SETTING(beta, .usual = (value), .least = 1e-6, .most = 1e6)
// From a half on, the pairs would say the opposite.
#define SMOOTHING SETTING(smoothing, .usual = 0, .least = 0, .most = 0.499)
#define WEIGHT(field) SETTING(field, .usual = 1, .least = 0, .most = 1e6)

static const struct {
    const char *name;
    bool reference;
    setting settings[4];
} losses[] = {
    [ZR_PREFERENCE_DPO] = {"dpo", true, {BETA(0.1), SMOOTHING}},
    [ZR_PREFERENCE_ORPO] = {"orpo",
                            false,
                            {BETA(0.1), SETTING(prompt_loss, .usual = 1, .least = 0, .most = 1,
                                                .flag = true)}},
    [ZR_PREFERENCE_SIMPO] =
        {"simpo", false, {BETA(2), SETTING(gamma, .usual = 1, .least = 0, .most = 1e6), SMOOTHING}},
    [ZR_PREFERENCE_KTO] = {"kto", true, {BETA(0.1), WEIGHT(desirable), WEIGHT(undesirable)}},
};

const char *zr_preference_name(zr_preference_kind kind)
{
    return (int)kind < ZR_COUNT(losses) ? losses[kind].name : NULL;
}

bool zr_preference_has_reference(const zr_preference *preference)
{
    return losses[preference->kind].reference;
}

static double *value_of(zr_preference *preference, const setting *setting)
{
    return (double *)(void *)((char *)preference + setting->at);
}

bool zr_preference_is_same(const zr_preference *a, const zr_preference *b)
{
    const setting *s = losses[a->kind].settings;
    bool same = a->kind == b->kind;
    for (int i = 0; i < ZR_COUNT(losses[0].settings) && same && s[i].name; i++)
        same = *value_of((zr_preference *)a, &s[i]) == *value_of((zr_preference *)b, &s[i]);
    return same;
}

typedef struct parsing {
    const char *text, *name;
    zr_preference *out;
    zero_error *error;
} parsing;

static zero_status refuse_loss(const parsing *p, const char *word, size_t length)
{
    zr_buffer known = {0};
    for (int i = 0; i < ZR_COUNT(losses); i++)
        if (losses[i].name)
            zr_buffer_printf(&known, "%s%s", known.length ? ", " : "", losses[i].name);
    zero_status status =
        known.failed ? zr_fail(p->error, ZERO_ERR_MEMORY, "no memory to name the losses")
                     : zr_fail(p->error, ZERO_ERR_CONFIG,
                               "%s: \"%s\": no loss of preferences is called \"%.*s\"; there are "
                               "%s, as in \"dpo,beta=0.1\"",
                               p->name, p->text, (int)ZR_MIN(length, (size_t)64), word, known.data);
    zr_buffer_free(&known);
    return status;
}

static zero_status refuse_setting(const parsing *p, const char *word, size_t length)
{
    const setting *s = losses[p->out->kind].settings;
    char known[64] = "";
    for (int i = 0, used = 0; i < ZR_COUNT(losses[0].settings) && s[i].name; i++)
        used +=
            snprintf(known + used, sizeof known - (size_t)used, "%s%s", i ? ", " : "", s[i].name);
    return zr_fail(p->error, ZERO_ERR_CONFIG,
                   "%s: \"%s\": \"%.*s\" is no setting of %s, which has %s, as in \"%s,beta=0.1\"",
                   p->name, p->text, (int)ZR_MIN(length, (size_t)64), word,
                   losses[p->out->kind].name, known, losses[p->out->kind].name);
}

static zero_status read_flag(const parsing *p, const setting *s, const char *value)
{
    bool yes = !strcmp(value, "true") || !strcmp(value, "1");
    if (!yes && strcmp(value, "false") && strcmp(value, "0"))
        return zr_fail(p->error, ZERO_ERR_CONFIG, "%s: \"%s\": %s=%s: true or false is expected",
                       p->name, p->text, s->name, value);
    *value_of(p->out, s) = yes;
    return ZERO_OK;
}

static zero_status read_value(const parsing *p, const setting *s, const char *value)
{
    char *end;
    double number = strtod(value, &end);
    if (s->flag)
        return read_flag(p, s, value);
    if (end == value || *end || !(number >= s->least) || !(number <= s->most))
        return zr_fail(p->error, ZERO_ERR_CONFIG,
                       "%s: \"%s\": %s=%s: a number from %g to %g is expected", p->name, p->text,
                       s->name, value, s->least, s->most);
    *value_of(p->out, s) = number;
    return ZERO_OK;
}

static zero_status read_setting(const parsing *p, const char *word, size_t length)
{
    const setting *s = losses[p->out->kind].settings;
    const char *equal = memchr(word, '=', length);
    size_t name = equal ? (size_t)(equal - word) : length;
    char value[40] = "";
    for (int i = 0; equal && i < ZR_COUNT(losses[0].settings) && s[i].name; i++) {
        if (strlen(s[i].name) != name || memcmp(s[i].name, word, name))
            continue;
        snprintf(value, sizeof value, "%.*s", (int)(length - name - 1), equal + 1);
        return read_value(p, &s[i], value);
    }
    return refuse_setting(p, word, name);
}

static zero_status read_loss(const parsing *p, const char *word, size_t length)
{
    int kind = ZR_COUNT(losses) - 1;
    while (kind > 0 &&
           (strlen(losses[kind].name) != length || memcmp(losses[kind].name, word, length)))
        kind--;
    if (!kind)
        return refuse_loss(p, word, length);
    p->out->kind = (zr_preference_kind)kind;
    const setting *s = losses[kind].settings;
    for (int i = 0; i < ZR_COUNT(losses[0].settings) && s[i].name; i++)
        *value_of(p->out, &s[i]) = s[i].usual;
    return ZERO_OK;
}

zero_status zr_preference_parse(const char *text, const char *name, zr_preference *out,
                                zero_error *error)
{
    const parsing p = {.text = text, .name = name, .out = out, .error = error};
    *out = (zr_preference){0};
    if (!text || !strcmp(text, "none"))
        return ZERO_OK;
    size_t length = strcspn(text, ",");
    ZERO_TRY(read_loss(&p, text, length));
    for (text += length; *text; text += length) {
        length = strcspn(++text, ",");
        ZERO_TRY(read_setting(&p, text, length));
    }
    return ZERO_OK;
}

void zr_preference_write(const zr_preference *preference, char text[static ZR_PREFERENCE_TEXT])
{
    const setting *s = losses[preference->kind].settings;
    int used = snprintf(text, ZR_PREFERENCE_TEXT, "%s",
                        preference->kind ? losses[preference->kind].name : "none");
    for (int i = 0; i < ZR_COUNT(losses[0].settings) && s[i].name; i++) {
        double value = *value_of((zr_preference *)preference, &s[i]);
        used += s[i].flag ? snprintf(text + used, (size_t)(ZR_PREFERENCE_TEXT - used), ",%s=%s",
                                     s[i].name, value > 0 ? "true" : "false")
                          : snprintf(text + used, (size_t)(ZR_PREFERENCE_TEXT - used), ",%s=%.9g",
                                     s[i].name, value);
    }
}
