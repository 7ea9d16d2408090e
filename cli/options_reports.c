// Options for what plan, bench and doctor report, and for the form of a command's answer.
#include "option_rows.h"

// clang-format off
const cli_option cli_options_reports[] = {
    OPTION(BYTES, MEMORY, "--memory", "BYTES", PLAN | COMPARE, .capacity = true,
        RANGE(1, INT64_SAFE),
        .help = "what the ranks of each machine may hold together (24GB, 512MiB), or with --params "
                "each rank; without --ranks: what do I need?",
        .differs = {FOR(COMPARE,
                        .help = "what the ranks may hold together (24GB, 512MiB), which is how "
                                "large a model may be",
                        .standard_text = "what this machine has")}),
    FLAG(JSON, "--json", INSPECT | GENERATE | PLAN | COMPARE | BENCH | SIMULATE | TUNE,
        .help = "the same as JSON",
        .differs = {FOR(GENERATE, .help = "one JSON object per line for each prompt"),
                    FOR(BENCH, .help = "for memory and io: the same as JSON")}),
    FLAG(PROGRAM, "--program", PLAN,
        .help = "instead of the table: every instruction of a step, at the configuration's stage "
                "and with --ranks (or 1); with --pipeline, of its first stage"),
    OPTION(TEXT, DRAW, "--draw", "FILE", PLAN,
        .help = "instead of the table: an SVG of what a micro-batch does when, and what lies where "
                "meanwhile; with --pipeline, of what each pipeline stage does when in a step; -: "
                "letters on standard output"),
    OPTION(REAL, SECONDS, "--seconds", "X", BENCH | TUNE, RANGE(0.001, 86400), .standard = "0.2",
        .help = "time for each figure, about; for io, that of a round at least",
        .differs = {FOR(TUNE,
                        .help = "time for everything, about; a quarter of it at least is for "
                                "trials",
                        .standard_text = "150, and more where steps are slow")}),
    OPTION(INTEGER, TRIALS, "--trials", "N", TUNE, RANGE(1, 1e6),
        .standard_text = "autotuning.tuner_num_trials, or 50",
        .help = "short trainings to make, at most"),
    OPTION(CHOICE, METRIC, "--metric", "NAME", TUNE, .choices = "throughput|latency|flops",
        .standard_text = "autotuning.metric, or throughput",
        .help = "what is to be best: tokens a second, the seconds of a step, or FLOPs a second"),
    OPTION(TEXT, PATH, "--path", "DIR", COMPARE | BENCH | DOCTOR,
        .standard_text = "the current directory",
        .help = "a directory on the disk to measure",
        .differs = {FOR(BENCH, .help = "for io and checkpoint: a directory on the disk to measure"),
                    FOR(COMPARE,
                        .help = "a directory on NVMe: compare ZeRO with its states there, too",
                        .standard_text = NONE)}),
    OPTION(BYTES, BLOCK, "--block", "BYTES", BENCH, RANGE(4096, 1 << 30), .standard = "1MiB",
        .help = "for io: bytes per transfer, a multiple of 4096 (aio.block_size)"),
    OPTION(INTEGER, DEPTH, "--depth", "N", BENCH, RANGE(1, 256), .standard = "8",
        .help = "for io: transfers in flight (aio.queue_depth)"),
    OPTION(BYTES, BYTES, "--bytes", "BYTES", BENCH, RANGE(16384, INT64_SAFE), .standard = "1GiB",
        .help = "for io: size of the scratch files, at most; never more than half of what is free"),
    OPTION(TEXT, WRITE_MACHINE, "--write-machine", "FILE", DOCTOR,
        .help = "measure this machine for some seconds and describe it in FILE, for zero simulate "
                "--machine FILE: a core is a device"),
    FLAG(HELP, "--help", EVERY, .help = "this text"),
};
// clang-format on
const int cli_options_reports_count = sizeof cli_options_reports / sizeof *cli_options_reports;
