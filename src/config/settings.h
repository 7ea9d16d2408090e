// Shared by the files of config/: functions that find, change and name settings.
#ifndef ZR_CONFIG_SETTINGS_H
#define ZR_CONFIG_SETTINGS_H

#include "config/config.h"

// Returns the setting of a path that is known to be in the table.
zr_setting *zr_config_at(const zr_config *config, const char *path);
const json_t *zr_config_value(const zr_config *config, const char *path); // NULL: not given

bool zr_setting_is_auto(const zr_setting *setting);
bool zr_setting_is_given(const zr_setting *setting); // by the file or a flag, "auto" included

// Replaces a value and takes over its reference. A NULL value means that memory has run out, and is
// reported so. The position in the file stays, for messages.
zero_status zr_setting_put(zr_setting *setting, json_t *value, zr_origin origin, zero_error *error);
void zr_setting_clear(zr_setting *setting);

// Where a setting is from: "ds.json:7:12", "--stage", or the file's name if neither is known.
typedef struct zr_where {
    char text[256];
} zr_where;
zr_where zr_setting_where(const zr_config *config, const zr_setting *setting);

// A value as a message shows it: scalars as JSON, long strings cut, "a list", "an object".
typedef struct zr_shown {
    char text[80];
} zr_shown;
zr_shown zr_value_shown(const json_t *value);

// Refuses the value of a key: "ds.json:1:20: PATH is VALUE, but " and why.
zero_status zr_config_refuse_setting(const zr_config *config, const char *path, const char *why,
                                     zero_error *error);

// What a key says, and where: "--tensor 2", "libzero.exact_tensor 4 (ds.json:1:20)".
typedef struct zr_said {
    char text[384];
} zr_said;
zr_said zr_config_said(const zr_config *config, const char *path);
// Returns the number of a key; 0: it has none, or `silent`, which is as good as none.
int64_t zr_config_number(const zr_config *config, const char *path, int64_t silent);

// Puts flags into the keys that divide ranks, each of which must agree with the file.
zero_status zr_config_override_parallel(zr_config *config, const zero_parallel *parallel,
                                        zero_error *error);
// Rows of the key table use these (zr_key.read_flag, zr_key.same): config_pipeline.c and
// config_split.c.
json_t *zr_schedule_of_flag(const char *text, const char **wanted);
bool zr_schedule_is_same(const json_t *in_file, const json_t *by_flag);
json_t *zr_split_of_flag(const char *text, const char **wanted);
bool zr_split_is_same(const json_t *in_file, const json_t *by_flag);

// Writes the value as JSON; numbers read back have the same bits.
void zr_value_write(const json_t *value, int indent, zr_buffer *out);
// Returns whether row `key` is a parameter of the optimizer or schedule that the configuration has
// chosen (true for rows that are no parameters).
bool zr_key_applies(const zr_key *key, const zr_config *config);
// The section of the program's own schedules; whether a row is in it.
#define ZR_OWN_SCHEDULE "libzero.schedule."
bool zr_key_is_own_schedule(const zr_key *key);
// Returns whether the switch that row `key` needs is off, so that the key has no effect. It may be
// called only after that switch is settled.
bool zr_key_is_idle(const zr_key *key, const zr_config *config);
// Appends "lr, betas, eps": the parameters that a kind of optimizer or schedule has, from the rows
// whose paths begin with `prefix`.
void zr_key_list_parameters(const char *prefix, int kind, zr_buffer *out);

typedef struct zr_batch { // 0: not given
    int64_t train, micro, accumulation;
} zr_batch;
// Fills in what is not given, by DeepSpeed's rules, for the data ranks of a grid. Returns
// ZERO_ERR_CONFIG, with the arithmetic, if they cannot be met. `name` is the file's name.
zero_status zr_batch_solve(zr_batch *batch, zr_job_grid grid, const char *name, zero_error *error);

// The steps of resolving, in this order, each with its file; zr_config_find_ranks comes before the
// second. The batch arithmetic comes after elasticity.
// config_elastic.c
zero_status zr_config_settle_elastic(zr_config *config, const zero_logger *logger,
                                     zero_error *error);
// config_refuse.c
zero_status zr_config_refuse(const zr_config *config, zero_error *error);
void zr_config_settle_optimizer(zr_config *config); // a step of the next
zero_status zr_config_settle_kinds(zr_config *config, zero_error *error);
// config_schedule.c: the first is a step of zr_config_settle_kinds, the second says why row `index`
// is no key of the schedule.
zero_status zr_config_settle_schedule(zr_config *config, zero_error *error);
zero_status zr_config_refuse_schedule_key(const zr_config *config, int index, zero_error *error);
void zr_config_fill_schedule(zr_config *config, const zr_config_facts *facts,
                             const zero_logger *logger);
// Forgets the file's scheduler, in whose place a flag has put a schedule of the program's own.
void zr_config_forget_scheduler(zr_config *config);
// config_precision.c
zero_status zr_config_settle_precision(zr_config *config, const zr_config_facts *facts,
                                       const zero_logger *logger, zero_error *error);
// config_defaults.c
zero_status zr_config_settle_values(zr_config *config, const zr_config_facts *facts,
                                    const zero_logger *logger, zero_error *error);
// config_precision.c
zero_status zr_config_fill_precision(zr_config *config, const zero_logger *logger,
                                     zero_error *error);
// config_states.c
zero_status zr_config_fill_states(zr_config *config, zero_error *error);
// config_quantised.c
zero_status zr_config_check_quantised(const zr_config *config, zero_error *error);
// config_offload.c
zero_status zr_config_fill_offload(zr_config *config, zero_error *error);
// config_profilers.c
zero_status zr_config_fill_profilers(zr_config *config, zero_error *error);
// config_tensor.c: the first two are steps of zr_config_find_ranks.
zero_status zr_config_settle_tensor(zr_config *config, zero_error *error);
zero_status zr_config_settle_slices(zr_config *config, zero_error *error);
// What says how many tensor ranks there are, where something does, and whether that is a flag.
zr_said zr_config_tensor_said(const zr_config *config);
bool zr_config_tensor_is_flag(const zr_config *config);
// Returns whether `path` says how many tensor ranks there are, and another number holds, because
// nothing is trained.
bool zr_config_overrules_tensor(const zr_config *config, const char *path);
zero_status zr_config_fill_tensor(zr_config *config, zero_error *error);
// config_pipeline.c: the first is a step of zr_config_find_ranks.
zero_status zr_config_settle_pipeline(zr_config *config, zero_error *error);
zero_status zr_config_fill_partition(zr_config *config, zero_error *error);
// Returns why a key of pipelines has nothing to decide; NULL: it decides, asks for nothing or is
// another key.
const char *zr_config_pipeline_idle(const zr_config *config, const zr_key *key);
// config_split.c: a step of zr_config_settle_pipeline
zero_status zr_config_settle_split(zr_config *config, zero_error *error);
// config_pipeline_check.c
zero_status zr_config_fill_pipeline(zr_config *config, const zero_logger *logger,
                                    zero_error *error);
// config_exact.c
zero_status zr_config_check_exact(const zr_config *config, zero_error *error);
// config_effect.c
void zr_config_report_idle(const zr_config *config, const zero_logger *logger);

#endif
