// Answers: a line of JSON each, with what was found before the probe failed, if it did.
#include "probe.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void probe_answer_begin(probe_answer *answer, const char *name)
{
    memset(answer, 0, sizeof *answer);
    snprintf(answer->name, sizeof answer->name, "%s", name);
}

// Adds a member whose value is written already. One that does not fit is left out whole.
static void add_member(probe_answer *answer, const char *key, const char *value)
{
    size_t left = sizeof answer->members - answer->used;
    int bytes = snprintf(answer->members + answer->used, left, ",\"%s\":%s", key, value);
    if (bytes > 0 && (size_t)bytes < left)
        answer->used += (size_t)bytes;
    answer->members[answer->used] = 0;
}

void probe_answer_number(probe_answer *answer, const char *key, double value)
{
    char text[40] = "null";
    if (isfinite(value))
        snprintf(text, sizeof text, "%.6g", value);
    add_member(answer, key, text);
}

void probe_answer_integer(probe_answer *answer, const char *key, long long value)
{
    char text[40];
    snprintf(text, sizeof text, "%lld", value);
    add_member(answer, key, text);
}

// Writes text as a string of JSON; other bytes than printable ASCII become blanks.
static void quote(const char *text, char *out, size_t bytes)
{
    size_t used = 0;
    out[used++] = '"';
    for (; *text && used + 4 < bytes; text++) {
        if (*text == '"' || *text == '\\')
            out[used++] = '\\';
        out[used++] = *text >= ' ' && *text <= '~' ? *text : ' ';
    }
    out[used++] = '"';
    out[used] = 0;
}

void probe_answer_text(probe_answer *answer, const char *key, const char *value)
{
    char text[1100];
    quote(value, text, sizeof text);
    add_member(answer, key, text);
}

void probe_answer_fail(probe_answer *answer, const char *format, ...)
{
    if (answer->failed)
        return;
    answer->failed = true;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(answer->why, sizeof answer->why, format, arguments);
    va_end(arguments);
}

void probe_answer_fail_call(probe_answer *answer, const char *call, int status, const char *text)
{
    if (answer->failed)
        return;
    probe_answer_fail(answer, "%s: %d %s", call, status, text ? text : "");
    answer->status = status;
    snprintf(answer->call, sizeof answer->call, "%s", call);
}

void probe_answer_print(const probe_answer *answer)
{
    char why[1100];
    printf("{\"probe\":\"%s\",\"ok\":%s", answer->name, answer->failed ? "false" : "true");
    if (answer->call[0])
        printf(",\"call\":\"%s\",\"status\":%d", answer->call, answer->status);
    quote(answer->why, why, sizeof why);
    if (answer->failed)
        printf(",\"why\":%s", why);
    printf("%s}\n", answer->members);
    fflush(stdout);
}
