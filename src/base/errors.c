// Status names, and the only way a message gets into an error object. Every room calls this.
#define _GNU_SOURCE
#include "base/errors.h"
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct status_row {
    const char *name, *text;
    int exit_code;
} status_row;

static const status_row statuses[] = {
#define STATUS_ROW(id, code, meaning)                                                              \
    [ZERO_##id] = {.name = #id, .text = meaning, .exit_code = code},
    ZERO_STATUS_LIST(STATUS_ROW)
#undef STATUS_ROW
};

static const status_row *find_status(zero_status status)
{
    bool known = (int)status >= 0 && (int)status < ZR_COUNT(statuses);
    return &statuses[known ? status : ZERO_ERR_INTERNAL];
}

const char *zero_status_name(zero_status status) { return find_status(status)->name; }

const char *zero_status_text(zero_status status) { return find_status(status)->text; }

int zero_status_exit_code(zero_status status) { return find_status(status)->exit_code; }

const char *zero_version(void) { return ZERO_VERSION; }

// Cuts a message that is too long, but not inside a UTF-8 sequence. The message may quote anything,
// so what a terminal would obey is escaped.
static zero_status set_message(zero_error *error, zero_status status, const char *message)
{
    if (!error)
        return status;
    error->status = status;
    zr_plain_text(message, error->message, sizeof error->message);
    return status;
}

zero_status zr_fail(zero_error *error, zero_status status, const char *format, ...)
{
    // It is formatted apart from error->message, which may be among the arguments.
    char message[2 * ZERO_MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return set_message(error, status, message);
}

zero_status zr_needed(zero_error *error, const char *function, const char *name,
                      const void *pointer)
{
    return pointer
               ? ZERO_OK
               : zr_fail(error, ZERO_ERR_USAGE, "%s: %s is NULL, and is needed", function, name);
}

zero_status zr_fail_errno(zero_error *error, zero_status status, int errnum, const char *format,
                          ...)
{
    char what[ZERO_MESSAGE_BYTES], message[ZERO_MESSAGE_BYTES + 256], reason[128];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    snprintf(message, sizeof message, "%s: %s", what, strerror_r(errnum, reason, sizeof reason));
    return set_message(error, status, message);
}

void zr_error_prefix(zero_error *error, const char *format, ...)
{
    if (!error)
        return;
    char prefix[ZERO_MESSAGE_BYTES], message[2 * ZERO_MESSAGE_BYTES + 2];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(prefix, sizeof prefix, format, arguments);
    va_end(arguments);
    snprintf(message, sizeof message, "%s: %s", prefix, error->message);
    set_message(error, error->status, message);
}

void zr_log(const zero_logger *logger, zero_log_level level, const char *format, ...)
{
    if (!logger || !logger->write)
        return;
    char message[2 * ZERO_MESSAGE_BYTES], plain[2 * sizeof message];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    zr_plain_text(message, plain, sizeof plain);
    logger->write(logger->user, level, plain);
}

// The most bytes by which a newer version may be larger; a larger size is a mistake.
#define MOST_NEW_BYTES 4096

static bool is_zero(const char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (bytes[i])
            return false;
    return true;
}

zero_status zr_struct_take(const char *name, const void *from, size_t first, void *to, size_t size,
                           zero_error *error)
{
    const char *given = from;
    size_t given_size;
    memcpy(&given_size, from, sizeof given_size);
    if (given_size < first || given_size > size + MOST_NEW_BYTES)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "%s.struct_size is %zu, this library expects %zu, its sizeof", name,
                       given_size, size);
    if (given_size > size && !is_zero(given + size, given_size - size))
        return zr_fail(error, ZERO_ERR_USAGE,
                       "%s.struct_size is %zu, this library expects %zu, and a field that it does "
                       "not know is set: the program is made for a newer one",
                       name, given_size, size);
    memset(to, 0, size);
    memcpy(to, from, ZR_MIN(given_size, size));
    memcpy(to, &size, sizeof size);
    return ZERO_OK;
}
