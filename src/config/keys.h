// The key table: one row for each key of the DeepSpeed file (and of our section "libzero"). The
// rows drive parsing, checking, the flags, the resolved file and docs/configuration.md; nothing
// else in the program knows a key's name, type or range. The rows are in keys_*.c, one array for
// each group of sections; keys.c joins them into one table and searches it.
#ifndef ZR_CONFIG_KEYS_H
#define ZR_CONFIG_KEYS_H

#include "base/alloc.h"
#include <jansson.h>

typedef enum zr_key_type {
    ZR_KEY_BOOL,
    ZR_KEY_INT, // 5e8 is an integer, 0.5 is not; "max" is 2^63-1
    ZR_KEY_NUMBER,
    ZR_KEY_NUMBERS, // a number or a list
    ZR_KEY_BYTES,   // 512, "512", "2GB", "512MiB"
    ZR_KEY_UPDATES, // 100, or "5%" of the run's
    ZR_KEY_STRING,
    ZR_KEY_ENUM, // one of `choices`
    ZR_KEY_LIST,
    ZR_KEY_OBJECT, // its content is not checked
    ZR_KEY_ANY,
} zr_key_type;

typedef enum zr_treatment {
    ZR_KEY_HONOURED,
    ZR_KEY_NO_EFFECT, // accepted with a warning that gives `reason`
    ZR_KEY_REFUSED,   // not built yet: an error unless its value is one of `allowed`
    ZR_KEY_FORBIDDEN, // DeepSpeed itself refuses it: an error in the same way
    ZR_KEY_RENAMED,   // read as the key named by `becomes`
} zr_treatment;

typedef struct zr_key {
    const char *path; // "zero_optimization.stage"
    // The default: "0", "null", "none" (no quotes for strings and enums); NULL: there is none.
    const char *standard;
    const char *help;    // one line
    const char *reason;  // why it has no effect, is refused or was renamed
    const char *choices; // enum: "none|cpu|nvme"
    // Refused keys: the values that are accepted all the same ("false|0"), and with them an object
    // that is switched off. Honoured keys: the values that are accepted; NULL: all.
    const char *allowed;
    const char *removed; // enum: those of the choices that DeepSpeed itself has removed
    const char *becomes; // renamed keys: the path read instead
    // Honoured keys: the path of a switch, earlier in the table, without which this key has no
    // effect. The switch is on if it is true, or an enum that is not "none". NULL: none is needed.
    const char *needs;
    // The path of another key that means the same, so that a flag of one must agree with both.
    const char *same_as;
    // Reads the text of a flag where it is not the key's JSON ("0,6"). Returns NULL, with what
    // would be right in *wanted, or with "" there if memory has run out. NULL: the text is read as
    // JSON.
    json_t *(*read_flag)(const char *text, const char **wanted);
    // Whether a file's value, which may be invalid, and a flag's mean the same; NULL: if they are
    // equal.
    bool (*same)(const json_t *in_file, const json_t *by_flag);
    zr_key_type type;
    zr_treatment treatment;
    bool nullable; // null is allowed
    bool any_case; // enum: case does not matter
    bool above;    // `least` itself is out of range
    // A flag that sets this key must agree with the file: another value there is an error. false:
    // the flag wins, and a log line says so.
    bool agrees;
    int silent; // with agrees: the integer that, as null and "auto" do, leaves the key to the flag
    double least, most; // of int and number; most 0: no limit
    // optimizer.params, scheduler.params: bit k means that kind k has this parameter; 0: all have.
    unsigned kinds;
    // Offset in zr_config of the field that the value fills (int64_t, double, bool; int for enums);
    // 0: there is none.
    size_t field;
} zr_key;

int zr_key_count(void);
// 0 <= index < zr_key_count(); the rows are in the order of the documentation.
const zr_key *zr_key_at(int index);

// Returns -1 if there is no such row. "zero_optimization.max_live_parameters" finds the row whose
// name begins with "stage3_".
int zr_key_find(const char *path);
bool zr_key_is_section(const char *path); // at least one row lies below it

#define ZR_KEY_PATH_BYTES 128 // longer than any path of the table
// Finds the path of the row or section most similar to `path`; "" if none is close.
void zr_key_nearest(const char *path, char out[ZR_KEY_PATH_BYTES]);

// Checks one JSON value against a row. Returns a new reference to the value in its normal form
// (integers as integers, numbers as reals, enums as the table spells them), or NULL if it does not
// fit, with what would be right in `wanted`. "auto" fits every key. NULL with wanted[0] == 0 means
// out of memory.
#define ZR_KEY_WANTED_BYTES 400
json_t *zr_key_check(const zr_key *key, json_t *value, char wanted[ZR_KEY_WANTED_BYTES]);

// Returns the default in its normal form; NULL: out of memory.
json_t *zr_key_standard(const zr_key *key);
bool zr_key_allows(const zr_key *key, const json_t *value); // the value is not refused
// Returns why a value that is not allowed is refused.
const char *zr_key_refusal(const zr_key *key, const json_t *value);
// Returns the number of "5%", 0 to 100; -1: the text is something else.
double zr_key_percent(const char *text);
const char *zr_key_type_name(zr_key_type type);
#define ZR_KEY_REMOVED "DeepSpeed has removed it: 0.19.6 reads it, 0.19.8 refuses it"
const char *zr_treatment_name(zr_treatment treatment);

// Rows by section; keys.c joins them.
extern const zr_key zr_keys_batch[], zr_keys_zero[], zr_keys_offload[], zr_keys_precision[],
    zr_keys_optimizer[], zr_keys_schedule[], zr_keys_tensor[], zr_keys_pipeline[],
    zr_keys_monitors[], zr_keys_autotuning[], zr_keys_elasticity[], zr_keys_unbuilt[];
extern const int zr_keys_batch_count, zr_keys_zero_count, zr_keys_offload_count,
    zr_keys_precision_count, zr_keys_optimizer_count, zr_keys_schedule_count, zr_keys_tensor_count,
    zr_keys_pipeline_count, zr_keys_monitors_count, zr_keys_autotuning_count,
    zr_keys_elasticity_count, zr_keys_unbuilt_count;

#endif
