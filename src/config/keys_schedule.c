// Rows of the scheduler, and of the program's own schedules. `kinds` says which schedules have a
// parameter; step_schedules.h says what it means.
#include "config/key_rows.h"

#define P "scheduler.params."
#define IS(kind) (1u << ZR_SCHEDULE_##kind)
#define OWN "libzero.schedule."
#define DECAYING (IS(OWN_LINEAR) | IS(OWN_COSINE) | IS(OWN_WSD))
#define WARMUPS (IS(WARMUP) | IS(WARMUP_DECAY))

// clang-format off
const zr_key zr_keys_schedule[] = {
    KEY(ENUM, "scheduler.type", "null", .nullable = true, .any_case = true,
        .choices = "WarmupLR|WarmupDecayLR|WarmupCosineLR|OneCycle|LRRangeTest",
        .help = "null: a constant rate"),
    KEY(NUMBER, P "warmup_min_lr", "0", .kinds = WARMUPS, FIELD(schedule.min_lr),
        .help = "rate before the warm-up"),
    KEY(NUMBER, P "warmup_max_lr", "null", .nullable = true, .kinds = WARMUPS,
        FIELD(schedule.max_lr),
        .help = "rate after the warm-up; null: the optimizer's lr (WarmupDecayLR: 0.001)"),
    KEY(INT, P "warmup_num_steps", "1000", .above = true, .kinds = WARMUPS | IS(WARMUP_COSINE),
        FIELD(schedule.warmup_steps),
        .help = "updates of the warm-up; at least 2 are taken"),
    KEY(ENUM, P "warmup_type", "log", .kinds = WARMUPS | IS(WARMUP_COSINE),
        FIELD(schedule.warmup_linear), .choices = "log|linear",
        .help = "shape of the warm-up"),
    KEY(INT, P "total_num_steps", NULL, .above = true,
        .kinds = IS(WARMUP_DECAY) | IS(WARMUP_COSINE), FIELD(schedule.total_steps),
        .help = "updates of the run; required"),
    KEY(NUMBER, P "warmup_min_ratio", "0", .kinds = IS(WARMUP_COSINE),
        FIELD(schedule.warmup_min_ratio),
        .help = "part of lr at the start"),
    KEY(NUMBER, P "cos_min_ratio", "0.0001", .kinds = IS(WARMUP_COSINE),
        FIELD(schedule.cosine_min_ratio),
        .help = "part of lr at the end"),
    KEY(NUMBER, P "cycle_min_lr", NULL, .kinds = IS(ONE_CYCLE), FIELD(schedule.min_lr),
        .help = "rate at both ends of the cycle; required"),
    KEY(NUMBER, P "cycle_max_lr", NULL, .kinds = IS(ONE_CYCLE), FIELD(schedule.max_lr),
        .help = "rate at the top of the cycle; required"),
    KEY(INT, P "cycle_first_step_size", "2000", .above = true, .kinds = IS(ONE_CYCLE),
        FIELD(schedule.first_steps),
        .help = "updates up"),
    KEY(INT, P "cycle_second_step_size", "null", .nullable = true, .kinds = IS(ONE_CYCLE),
        FIELD(schedule.second_steps),
        .help = "updates down; null: as many as up"),
    KEY(INT, P "cycle_first_stair_count", "0", .kinds = IS(ONE_CYCLE), FIELD(schedule.first_stairs),
        .help = "stairs up; 0: no stairs"),
    KEY(INT, P "cycle_second_stair_count", "null", .nullable = true, .kinds = IS(ONE_CYCLE),
        FIELD(schedule.second_stairs),
        .help = "stairs down; null: as many as up"),
    KEY(INT, P "decay_step_size", "0", .kinds = IS(ONE_CYCLE), FIELD(schedule.decay_steps),
        .help = "updates of one decay after the cycle; 0: no decay"),
    KEY(NUMBER, P "decay_lr_rate", "0", .kinds = IS(ONE_CYCLE), FIELD(schedule.decay_lr_rate),
        .help = "decay of the rate after the cycle"),
    KEY(BOOL, P "cycle_momentum", "true", .kinds = IS(ONE_CYCLE), FIELD(schedule.cycle_momentum),
        .help = "beta1 runs against the rate"),
    KEY(NUMBER, P "cycle_min_mom", "0.8", .most = 1, .kinds = IS(ONE_CYCLE),
        FIELD(schedule.min_momentum),
        .help = "least beta1, below 1"),
    KEY(NUMBER, P "cycle_max_mom", "0.9", .most = 1, .kinds = IS(ONE_CYCLE),
        FIELD(schedule.max_momentum),
        .help = "largest beta1, below 1"),
    KEY(NUMBER, P "decay_mom_rate", "0", .kinds = IS(ONE_CYCLE),
        FIELD(schedule.decay_momentum_rate),
        .help = "growth of beta1 in one decay after the cycle; an update for which it would be 1 "
                "or above is refused, before the run where its length is known"),
    KEY(NUMBER, P "lr_range_test_min_lr", "0.001", .kinds = IS(RANGE_TEST), FIELD(schedule.min_lr),
        .help = "first rate"),
    KEY(INT, P "lr_range_test_step_size", "2000", .above = true, .kinds = IS(RANGE_TEST),
        FIELD(schedule.range_steps),
        .help = "updates of one step up"),
    KEY(NUMBER, P "lr_range_test_step_rate", "1.0", .kinds = IS(RANGE_TEST),
        FIELD(schedule.range_rate),
        .help = "growth in one step, as a multiple of the first rate"),
    KEY(BOOL, P "lr_range_test_staircase", "false", .kinds = IS(RANGE_TEST),
        FIELD(schedule.range_staircase),
        .help = "jump once a step"),
    KEY(INT, P "last_batch_iteration", "-1", .least = -1,
        REFUSED("-1", "a run goes on from its checkpoint, not from a number in the configuration"),
        .help = "where the schedule starts"),
    KEY(ENUM, OWN "type", "null", .nullable = true, .choices = "constant|linear|cosine|wsd",
        .help = "a schedule of the program's own (--schedule-lr): a linear warm-up, then the "
                "optimizer's lr throughout; a linear decay; half a cosine; or the lr throughout "
                "and a decay at the end of the run (warm-up, stable, decay). No update has rate 0; "
                "null: as scheduler.type says"),
    KEY(UPDATES, OWN "warmup", "null", .nullable = true, .kinds = IS(OWN_CONSTANT) | DECAYING,
        FIELD(schedule.warmup_steps),
        .help = "updates of the warm-up (--warmup), or a part of the run, \"5%\": the first "
                "has lr / warmup, the last lr; null: a tenth of the run, at most 100"),
    KEY(UPDATES, OWN "decay", "20%", .kinds = IS(OWN_WSD), FIELD(schedule.decay_steps),
        .help = "updates of the decay (--decay), the last of the run, or a part of the run"),
    KEY(ENUM, OWN "decay_type", "linear", .kinds = IS(OWN_WSD), FIELD(schedule.decay_shape),
        .choices = "linear|cosine|1-sqrt",
        .help = "what is left of lr at part p of the decay: 1 - p, (1 + cos(pi p)) / 2, or "
                "1 - sqrt(p)"),
    KEY(NUMBER, OWN "min_lr_ratio", "0", .most = 1, .kinds = DECAYING,
        FIELD(schedule.min_lr_ratio),
        .help = "part of lr at the last update (cosine: 0.1); with 0 the decay ends an update "
                "later, so that none has rate 0"),
};
// clang-format on
const int zr_keys_schedule_count = ZR_COUNT(zr_keys_schedule);
