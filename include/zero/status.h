// Status codes, error objects and the version: the base of every other public header.
//
// The library never prints, exits, installs signal handlers or keeps globals. A function that can
// fail returns a zero_status, and writes its message into the error object that the caller passes.
//
// NULL, in all public headers: `error` may always be NULL, and so may any argument or option whose
// comment says so. Functions that free, destroy or end something accept NULL and do nothing. Any
// other pointer is required. If it is NULL, a function that returns a zero_status does nothing and
// returns ZERO_ERR_USAGE, naming itself and the argument; a function that returns a number or a
// pointer returns 0 or NULL; a function that fills a report zeroes it. The other ranks of a
// collective call are not told. What a pointer points to, and pointers inside structures other than
// options (a batch's data), are not checked before they are used.
//
// Versions: a program keeps working with a later library of the same soname, because its structures
// keep their layout. A structure that begins with struct_size may get new fields at its end: the
// caller sets struct_size to sizeof, and zeroes the fields that it does not use. Fields that an
// older program lacks count as 0 or NULL, which means what the library did before they existed. A
// structure larger than the library knows is accepted if the rest of it is zero; otherwise the
// program was made for a newer library, and gets ZERO_ERR_USAGE with both sizes.
//
// Two faults of files reach a process as signals. The program `zero` turns them into messages, and
// a program of your own may want to do the same. Text and token files are mapped while they are
// read: if one is truncated meanwhile, the reading thread gets SIGBUS. A write beyond RLIMIT_FSIZE
// raises SIGXFSZ; if that is ignored (signal(SIGXFSZ, SIG_IGN)), the write fails with a message.
#ifndef ZERO_STATUS_H
#define ZERO_STATUS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define ZERO_API __attribute__((visibility("default")))
#define ZERO_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define ZERO_API
#define ZERO_PRINTF(fmt, args)
#endif

// Each row: name; exit code of the program (sysexits; 0 ok, 64 usage, 65 data, 74 I/O or resources,
// 75 requeue, 78 configuration); meaning.
#define ZERO_STATUS_LIST(X)                                                                        \
    X(OK, 0, "success")                                                                            \
    X(ERR_USAGE, 64, "a wrong argument or option")                                                 \
    X(ERR_DATA, 65, "input data that cannot be used")                                              \
    X(ERR_IO, 74, "reading or writing failed")                                                     \
    X(ERR_MEMORY, 74, "memory that the machine could not provide")                                 \
    X(ERR_CONFIG, 78, "a configuration that cannot be used")                                       \
    X(ERR_LIMIT, 78, "the plan needs more than the machine has")                                   \
    X(ERR_UNSUPPORTED, 78, "not built yet, or not in this build")                                  \
    X(ERR_NONFINITE, 65, "the loss or a gradient is not finite")                                   \
    X(ERR_TIMEOUT, 74, "a rank made no progress within the deadline")                              \
    X(ERR_PEER, 74, "another rank failed")                                                         \
    X(ERR_CANCELLED, 75, "cancelled by the caller")                                                \
    X(ERR_STOPPED, 75, "ended as asked; saved, and may go on")                                     \
    X(ERR_INTERNAL, 70, "an invariant of the library does not hold")

typedef enum zero_status {
#define ZERO_STATUS_ENUM(name, code, text) ZERO_##name,
    ZERO_STATUS_LIST(ZERO_STATUS_ENUM)
#undef ZERO_STATUS_ENUM
} zero_status;

#define ZERO_MESSAGE_BYTES 1024

// A failure is described once, where it was first detected: what was being done, to what, what was
// found, and what would be right.
typedef struct zero_error {
    zero_status status;
    char message[ZERO_MESSAGE_BYTES];
} zero_error;

// Return the name of a status ("ERR_CONFIG"), its meaning in words, and the exit code that a
// program should end with.
ZERO_API const char *zero_status_name(zero_status status);
ZERO_API const char *zero_status_text(zero_status status);
ZERO_API int zero_status_exit_code(zero_status status);

// "0.1.0"; the soname follows the first number.
ZERO_API const char *zero_version(void);

typedef enum zero_log_level {
    ZERO_LOG_ERROR,
    ZERO_LOG_WARNING,
    ZERO_LOG_INFO,
    ZERO_LOG_DEBUG
} zero_log_level;

// Where messages for a person go. Called on the thread that runs the rank; it must not call back
// into the library.
typedef struct zero_logger {
    // NULL: messages are dropped
    void (*write)(void *user, zero_log_level level, const char *message);
    void *user;
} zero_logger;

#ifdef __cplusplus
}
#endif
#endif
