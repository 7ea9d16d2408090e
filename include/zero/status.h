// Status codes, error objects and the version: what every other public header builds on.
//
// The library never prints, exits, installs signal handlers or keeps globals. A function that can
// fail returns a zero_status; the message is written into the error object that the caller passes
// (or NULL).
//
// NULL, in all public headers: `error` may always be NULL, and so may an argument or an option
// whose comment says so. What is freed, destroyed or ended may be NULL: nothing happens. Any other
// pointer is needed. Without it a function that returns a zero_status answers ZERO_ERR_USAGE,
// naming itself and the argument, and does nothing; one that returns a number or a pointer answers
// 0 or NULL; one that fills a report zeroes it. The other ranks of a collective call are not told.
// What lies at a pointer, and pointers inside of structures other than options (a batch's data),
// are not looked at before they are used.
//
// Versions: a program goes on working with a later library of the same soname, and its structures
// keep their layout. One that begins with struct_size gets new fields at its end: the caller sets
// struct_size to sizeof, and zero what it does not use. What the structure of an older program
// lacks counts as 0 or NULL, which means what the library did before. One that is larger than the
// library knows is taken where the rest of it is zero; else the program was made for a newer
// library: ZERO_ERR_USAGE with both sizes.
//
// Two faults of files reach a process as signals, which the program `zero` turns into messages and
// a program of your own may want to: text and token files are mapped while they are read, and one
// that is made shorter meanwhile raises SIGBUS in the thread that reads; a write beyond
// RLIMIT_FSIZE raises SIGXFSZ, and fails with a message where that is ignored (signal(SIGXFSZ,
// SIG_IGN)).
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

// name, exit code of the program (sysexits; 0 ok, 64 usage, 65 data, 74 I/O or resources, 75
// requeue, 78 configuration), meaning
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

// Described once, where the failure was first decided: what was being done, to what, what was
// found, what would be right.
typedef struct zero_error {
    zero_status status;
    char message[ZERO_MESSAGE_BYTES];
} zero_error;

// Name of a status ("ERR_CONFIG"), its meaning in words, and the exit code a program should end
// with.
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

// Where messages for a person go. Called on the thread that runs the rank; must not call back into
// the library.
typedef struct zero_logger {
    // NULL: messages are dropped
    void (*write)(void *user, zero_log_level level, const char *message);
    void *user;
} zero_logger;

#ifdef __cplusplus
}
#endif
#endif
