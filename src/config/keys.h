// The key table: one row a key of the DeepSpeed file (and of our section "libzero"). The rows drive
// parsing, checking, the flags, the resolved file and docs/configuration.md; nothing else in the
// program knows a key's name, type or range.
// The rows live in keys_*.c, one array a group of sections; keys.c joins them into one table and
// searches it.
#ifndef ZR_CONFIG_KEYS_H
#define ZR_CONFIG_KEYS_H

#include "base/alloc.h"
#include <jansson.h>

typedef enum zr_key_type {
    ZR_KEY_BOOL,
    ZR_KEY_INT, // 5e8 is one, 0.5 is not, "max" is 2^63-1
    ZR_KEY_NUMBER,
    ZR_KEY_BYTES, // 512, "512", "2GB", "512MiB"
    ZR_KEY_STRING,
    ZR_KEY_ENUM, // one of `choices`
    ZR_KEY_LIST,
    ZR_KEY_OBJECT, // its content is not looked at
    ZR_KEY_ANY,
} zr_key_type;

typedef enum zr_treatment {
    ZR_KEY_HONOURED,
    ZR_KEY_NO_EFFECT, // accepted with a warning that gives `reason`
    ZR_KEY_REFUSED,   // not built yet: an error unless its value is one of `allowed`
    ZR_KEY_FORBIDDEN, // DeepSpeed itself refuses it: likewise
    ZR_KEY_RENAMED,   // read as the key `becomes`
} zr_treatment;

typedef struct zr_key {
    const char *path; // "zero_optimization.stage"
    // the default: "0", "null", "none" (no quotes for strings and enums); NULL: there is none
    const char *standard;
    const char *help;    // one line
    const char *reason;  // why it has no effect, is refused or was renamed
    const char *choices; // enum: "none|cpu|nvme"
    // "false|0": what is not refused, and any object not "enabled"; honoured keys: NULL is all
    const char *allowed;
    const char *becomes; // renamed keys: the path read instead
    // honoured keys: a switch, earlier in the table (true, or an enum that is not "none"), without
    // which this one has no effect; NULL: none
    const char *needs;
    zr_key_type type;
    zr_treatment treatment;
    bool nullable;      // null is allowed
    bool any_case;      // enum: upper and lower case are the same
    bool above;         // `least` itself is out of range
    double least, most; // of int and number; most 0: no limit
    // optimizer.params, scheduler.params: bit k: kind k has this parameter; 0: every one
    unsigned kinds;
    // offset in zr_config of what the value fills (int64_t, double, bool; enum: int); 0: none
    size_t field;
} zr_key;

int zr_key_count(void);
// 0 <= index < zr_key_count(), in the order of the documentation
const zr_key *zr_key_at(int index);

// -1 where there is no such row. "zero_optimization.max_live_parameters" finds the row with
// "stage3_".
int zr_key_find(const char *path);
bool zr_key_is_section(const char *path); // some row lies below it

#define ZR_KEY_PATH_BYTES 128 // longer than any path of the table
// The path of a row or section most like `path`, "" where none is close.
void zr_key_nearest(const char *path, char out[ZR_KEY_PATH_BYTES]);

// Checks one JSON value against a row: NULL, and what would be right in `wanted`, where it does not
// fit; else a new reference to the value in its normal form (integers as integers, numbers as
// reals, enums as the table spells them).
// "auto" fits every key. NULL with wanted[0] == 0: out of memory.
#define ZR_KEY_WANTED_BYTES 400
json_t *zr_key_check(const zr_key *key, json_t *value, char wanted[ZR_KEY_WANTED_BYTES]);

// the default in its normal form; NULL: out of memory
json_t *zr_key_standard(const zr_key *key);
bool zr_key_allows(const zr_key *key, const json_t *value); // the value is not refused
const char *zr_key_type_name(zr_key_type type);
const char *zr_treatment_name(zr_treatment treatment);

// Rows by section, joined by keys.c.
extern const zr_key zr_keys_batch[], zr_keys_zero[], zr_keys_offload[], zr_keys_precision[],
    zr_keys_optimizer[], zr_keys_schedule[], zr_keys_activations[], zr_keys_monitors[],
    zr_keys_autotuning[], zr_keys_elasticity[], zr_keys_checkpoint[], zr_keys_unbuilt[];
extern const int zr_keys_batch_count, zr_keys_zero_count, zr_keys_offload_count,
    zr_keys_precision_count, zr_keys_optimizer_count, zr_keys_schedule_count,
    zr_keys_activations_count, zr_keys_monitors_count, zr_keys_autotuning_count,
    zr_keys_elasticity_count, zr_keys_checkpoint_count, zr_keys_unbuilt_count;

#endif
