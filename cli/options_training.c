// Options of a training run: its steps, its batch, its checkpoints, and what it reports meanwhile.
#include "option_rows.h"

#define STAGES                                                                                     \
    "what the ranks that share the batch divide among them: 1 the optimizer, 2 also gradients, 3 " \
    "also parameters"
#define WINDOW "the model's context, at most 4096"
#define MICRO_BATCH "samples a rank computes at once, or the ranks of --tensor together"

// clang-format off
const cli_option cli_options_training[] = {
    OPTION(INTEGER, STAGE, "--stage", "0..3", TRAIN | PLAN | BENCH | SIMULATE | TUNE, RANGE(0, 3),
        .choices = "0|1|2|3", .standard_text = "the configuration's, or 0",
        .help = STAGES,
        .differs = {FOR(PLAN,
                        .help = "the stage of the command that is printed, of --program and of "
                                "--draw; the table has every stage"),
                    FOR(TUNE, .standard_text = "the configuration's, or open"),
                    FOR(BENCH, .standard_text = "0")}),
    OPTION(INTEGER, MICRO_BATCH, "--micro-batch", "B",
        TRAIN | PLAN | COMPARE | BENCH | DATA | SIMULATE | TUNE, RANGE(1, 1048576),
        .standard_text = "by the model's size",
        .help = MICRO_BATCH,
        .differs = {FOR(SIMULATE, .standard_text = "the configuration's, or 1"),
                    FOR(TUNE, .standard_text = "the configuration's, or open"),
                    FOR(BENCH, .standard_text = "4"),
                    FOR(DATA, .help = "samples to show", .standard_text = "2")}),
    OPTION(INTEGER, ACCUMULATION, "--accumulation", "K",
        TRAIN | PLAN | COMPARE | BENCH | SIMULATE | TUNE, RANGE(1, 1048576), .standard_text = "1",
        .help = "micro-batches per rank and step",
        .differs = {FOR(SIMULATE,
                        .standard_text = "by --global-batch; else 1, or four times --pipeline"),
                    FOR(TUNE, .standard_text = "the configuration's, or open")}),
    OPTION(INTEGER, SEQ, "--seq", "T",
        TRAIN | EVAL | PLAN | COMPARE | BENCH | DATA | SIMULATE | TUNE, RANGE(1, 1048576),
        .standard_text = WINDOW,
        .help = "tokens per window",
        .differs = {FOR(DATA, .standard_text = WINDOW ", or 128 without --model"),
                    FOR(TRAIN, .standard_text = WINDOW "; with --resume, as the run had")}),
    OPTION(INTEGER, STEPS, "--steps", "N", TRAIN | COMPARE | SIMULATE, RANGE(1, 1e12),
        .standard_text = "a few passes over the text",
        .help = "updates to make",
        .differs = {FOR(COMPARE, .help = "updates to measure in each of three rounds, at most 83",
                        .standard_text = "10"),
                    FOR(SIMULATE,
                        .help = "updates of the training, whose days and device hours are told",
                        .standard_text = NONE)}),
    OPTION(REAL, EPOCHS, "--epochs", "E", TRAIN, RANGE(1e-6, 1e6),
        .help = "passes over the text, instead of --steps"),
    OPTION(REAL, LR, "--lr", "X", TRAIN, RANGE(1e-12, 1e3), .standard_text = "by the model's size",
        .help = "highest learning rate; where --config names no schedule, the first update has it "
                "divided by the steps of the warm-up"),
    OPTION(CHOICE, OPTIMIZER, "--optimizer", "NAME", TRAIN | PLAN,
        .choices = "adamw|muon|lion|lamb|adafactor|sgd|adagrad",
        .standard_text = "the configuration's, or adamw",
        .help = "how an update changes the weights; rate, decay and schedule are the program's own "
                "where --config does not say them. muon: with steps as large as AdamW's"),
    OPTION(CHOICE, OPTIMIZER_STATES, "--optimizer-states", "TYPE", TRAIN | PLAN,
        .choices = "fp32|bf16|8bit", .standard_text = "the configuration's, or fp32",
        .help = "type of optimizer states: 8bit keeps Adam's in bitsandbytes' blocks, a quarter of "
                "fp32's bytes"),
    OPTION(REAL, EMA, "--ema", "DECAY", TRAIN | PLAN, RANGE(0, 1),
        .standard_text = "the configuration's, or 0: none",
        .help = "keep an average of the weights, too, with this decay, such as 0.999; exported to "
                "OUT/ema"),
    OPTION(CHOICE, SCHEDULE_LR, "--schedule-lr", "NAME", TRAIN,
        .choices = "constant|linear|cosine|wsd",
        .standard_text = "the configuration's, or cosine",
        .help = "how the learning rate goes on after the warm-up: constant; linear or cosine "
                "decay over the rest of the run, down to 0 or a tenth; wsd (warm-up, stable, "
                "decay), constant but for a linear decay to 0 at the end"),
    OPTION(TEXT, WARMUP, "--warmup", "N|P%", TRAIN,
        .standard_text = "a tenth of the run, at most 100 updates",
        .help = "updates of the linear warm-up, or their part of the run"),
    OPTION(TEXT, DECAY, "--decay", "N|P%", TRAIN, .standard_text = "20%",
        .help = "with --schedule-lr wsd: updates of the decay, or their part of the run"),
    OPTION(INTEGER, SEED, "--seed", "S", TRAIN | GENERATE | DATA, RANGE(0, INT64_SAFE),
        .standard_text = "1337",
        .help = "seed of the weights, the order of the data, and dropout",
        .differs = {FOR(GENERATE, .help = "seed of the sampling"),
                    FOR(DATA, .help = "seed of the order of the data")}),
    OPTION(INTEGER, EVAL_EVERY, "--eval-every", "N", TRAIN, RANGE(0, 1e12),
        .standard_text = "ten times a run",
        .help = "steps between evaluations; 0: never. With --schedule 2bw or pipedream a multiple "
                "of libzero.pipeline.flush_every, and so is the default"),
    OPTION(INTEGER, SAMPLE_EVERY, "--sample-every", "N", TRAIN, RANGE(0, 1e12), .standard = "0",
        .help = "steps between samples of text; 0: never. Left out with --pipeline"),
    OPTION(TEXT, PROFILE, "--profile", "FILE", TRAIN,
        .help = "write where the time of steps 3 to 5 goes on every rank, as a trace for "
                "ui.perfetto.dev or chrome://tracing"),
    FLAG(DRY_RUN, "--dry-run", TRAIN,
        .help = "resolve the configuration, print the plan, make one step, keep nothing"),
    FLAG(QUIET, "--quiet", TRAIN | COMPARE | CONVERT | GENERATE,
        .help = "print only errors",
        .differs = {FOR(COMPARE | CONVERT, .help = "print only warnings and errors"),
                    FOR(GENERATE, .help = "do not say what it took")}),
    OPTION(INTEGER, SAVE_EVERY, "--save-every", "N", TRAIN, RANGE(0, 1e12), .standard = "0",
        .help = "steps between checkpoints in OUT/checkpoints; 0: by time alone. With --schedule "
                "2bw or pipedream a multiple of libzero.pipeline.flush_every"),
    OPTION(REAL, SAVE_SECONDS, "--save-seconds", "S", TRAIN, RANGE(0, 1e9), .standard = "1800",
        .help = "seconds between checkpoints; 0: by steps alone"),
    OPTION(INTEGER, KEEP, "--keep", "N", TRAIN, RANGE(0, 1e9), .standard = "2",
        .help = "how many of the newest checkpoints stay; 0: all"),
    FLAG(NO_FINAL_CHECKPOINT, "--no-final-checkpoint", TRAIN,
        .help = "write no checkpoint after the last step, from which --resume with more --steps "
                "would train on"),
    FLAG(NO_LEARN, "--no-learn", TRAIN | GENERATE,
        .help = "keep nothing of what the run measures of itself, from which later runs are "
                "predicted"),
    FLAG(RESUME, "--resume", TRAIN,
        .help = "continue from the newest intact checkpoint of --out, or start from the beginning "
                "if there is none"),
    OPTION(TEXT, ALLOW_CHANGE, "--allow-change", "NAMES", TRAIN, .choices = "dropout",
        .help = "with --resume: what may differ from the model of the checkpoint, names with "
                "commas between them: dropout"),
};
// clang-format on
const int cli_options_training_count = sizeof cli_options_training / sizeof *cli_options_training;
