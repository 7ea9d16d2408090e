// How every room reports failure: ZERO_TRY forwards it, `goto undo_thing` unwinds, and zr_fail
// describes it once. Also what every public function does with its arguments.
#ifndef ZR_BASE_ERRORS_H
#define ZR_BASE_ERRORS_H

#include <assert.h>
#include <stdbool.h>
#include <zero/status.h>

#define ZERO_TRY(call)                                                                             \
    do {                                                                                           \
        zero_status zero_try_status_ = (call);                                                     \
        if (zero_try_status_ != ZERO_OK)                                                           \
            return zero_try_status_;                                                               \
    } while (0)

// Writes status and message into `error` (which may be NULL) and returns the status, as in `return
// zr_fail(error, ZERO_ERR_IO, "...")`.
zero_status zr_fail(zero_error *error, zero_status status, const char *format, ...)
    ZERO_PRINTF(3, 4);

// Fails with ZERO_ERR_USAGE where a pointer that the public function `function` needs is NULL; the
// message names both.
zero_status zr_needed(zero_error *error, const char *function, const char *name,
                      const void *pointer);
#define ZR_NEED(error, pointer)                                                                    \
    ZERO_TRY(zr_needed(error, __func__, #pointer, (const void *)(pointer)))

// Does what zr_fail does, and appends ": " and the text of `errnum`.
zero_status zr_fail_errno(zero_error *error, zero_status status, int errnum, const char *format,
                          ...) ZERO_PRINTF(4, 5);

// Puts "context: " before a message that is already there.
void zr_error_prefix(zero_error *error, const char *format, ...) ZERO_PRINTF(2, 3);

// `logger` may be NULL.
void zr_log(const zero_logger *logger, zero_log_level level, const char *format, ...)
    ZERO_PRINTF(3, 4);

#define ZR_COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))
#define ZR_MIN(a, b) ((a) < (b) ? (a) : (b))
#define ZR_MAX(a, b) ((a) > (b) ? (a) : (b))
#define ZR_ROUND_UP(x, to) (((x) + (to)-1) / (to) * (to))
#define ZR_IS_POWER_OF_TWO(x) ((x) > 0 && !((x) & ((x)-1)))

// Structs that callers fill in. Their first field, struct_size, says which version of the struct
// the caller was compiled with.
//
// Fields are only added at the end, after what was padding, and 0 or NULL in a new field means what
// the library did before the field existed. So the struct of an older program is a prefix of
// today's, and that of a newer program can be taken as long as it uses nothing new.

// Bytes of a struct up to and including `field`: the size of the version whose last field it was.
#define ZR_STRUCT_UPTO(type, field) (offsetof(type, field) + sizeof(((type *)0)->field))

// Copies the caller's struct at `from` to `to`, of `size` bytes. Fields that an older struct lacks
// become zero, and struct_size becomes `size`. `name` is the struct's name for the message.
// ZERO_ERR_USAGE if the struct is smaller than `first`, or larger than `size` with anything but
// zeros after that.
zero_status zr_struct_take(const char *name, const void *from, size_t first, void *to, size_t size,
                           zero_error *error);

#endif
