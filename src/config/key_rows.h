// Short names for the files of rows, keys_*.c, which alone include this:
//
//   KEY(INT, "train_batch_size", "null", .nullable = true, FIELD(train_batch), .help = "..."),
//
// is a type of zr_key_type, a path, the default (NULL: none), and any of zr_key's fields. A key is
// honoured unless one of NO_EFFECT, REFUSED, FORBIDDEN and RENAMED follows; its flag, if it has
// one, wins over the file unless AGREES follows.
#ifndef ZR_CONFIG_KEY_ROWS_H
#define ZR_CONFIG_KEY_ROWS_H

#include "config/config.h"

#define KEY(type_, path_, standard_, ...)                                                          \
    {                                                                                              \
        .type = ZR_KEY_##type_, .path = path_, .standard = standard_, __VA_ARGS__                  \
    }
#define FIELD(member) .field = offsetof(zr_config, member)
// silent_: the integer that leaves the key to its flag
#define AGREES(silent_) .agrees = true, .silent = silent_
#define NO_EFFECT(reason_) .treatment = ZR_KEY_NO_EFFECT, .reason = reason_
// allowed_: the values that are accepted all the same
#define REFUSED(allowed_, reason_)                                                                 \
    .treatment = ZR_KEY_REFUSED, .allowed = allowed_, .reason = reason_
#define FORBIDDEN(allowed_, reason_)                                                               \
    .treatment = ZR_KEY_FORBIDDEN, .allowed = allowed_, .reason = reason_
#define RENAMED(becomes_, reason_)                                                                 \
    .treatment = ZR_KEY_RENAMED, .becomes = becomes_, .reason = reason_

#endif
