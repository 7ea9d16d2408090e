// The date that a template takes for today.
#include "chat/chat_internal.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static bool is_leap(int year) { return (year % 4 == 0 && year % 100) || year % 400 == 0; }

static bool is_date(const zr_template_date *date)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return date->year >= 1 && date->month >= 1 && date->month <= 12 && date->day >= 1 &&
           date->day <= days[date->month - 1] + (date->month == 2 && is_leap(date->year));
}

static bool has_form(const char *text)
{
    static const char form[] = "0000-00-00";
    bool has = strlen(text) == sizeof form - 1;
    for (size_t i = 0; has && form[i]; i++)
        has = form[i] == '-' ? text[i] == '-' : text[i] >= '0' && text[i] <= '9';
    return has;
}

zero_status zr_chat_date_read(const char *text, zr_template_date *out, zero_error *error)
{
    time_t now = time(NULL);
    struct tm today;
    if (!text && localtime_r(&now, &today)) {
        *out = (zr_template_date){today.tm_year + 1900, today.tm_mon + 1, today.tm_mday};
        return ZERO_OK;
    }
    bool right = text && has_form(text) &&
                 sscanf(text, "%d-%d-%d", &out->year, &out->month, &out->day) == 3 && is_date(out);
    return right ? ZERO_OK
                 : zr_fail(error, ZERO_ERR_USAGE,
                           "--chat-date %s: it must be a date as 2026-03-09 (year, month, day)",
                           text ? text : "(none)");
}

bool zr_chat_asks_date(const zr_chat *chat, char out[static 16])
{
    const zr_template_date *date = &chat->date;
    snprintf(out, 16, "%04d-%02d-%02d", date->year % 10000, date->month % 100, date->day % 100);
    return chat->template && zr_template_mentions(chat->template, "strftime_now");
}
