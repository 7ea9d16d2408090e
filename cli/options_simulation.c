// Options for machines that are not here: which, how they are used, and how they fail.
#include "option_rows.h"

// clang-format off
const cli_option cli_options_simulation[] = {
    OPTION(TEXT, MACHINE, "--machine", "NAME", SIMULATE, .choices = "list|FILE",
        .help = "the machine: one that is built in, the NAME of a file machines/NAME.json, a path "
                "of such a file, or what can mean only one of these (h100); list, alone: prints "
                "those that there are"),
    OPTION(TEXT, RUN_FILE, "--run", "FILE", SIMULATE,
        .help = "a file (JSON) that describes the run: its model, grid, batch and states, instead "
                "of --new, --model and the options that describe them"),
    OPTION(INTEGER, CONTEXT, "--context", "P", SIMULATE, RANGE(1, 1048576), .standard = "1",
        .help = "context ranks: devices that divide the tokens of each sample"),
    OPTION(INTEGER, GLOBAL_BATCH, "--global-batch", "B", SIMULATE, RANGE(1, INT64_SAFE),
        .standard_text = "the configuration's, or by micro-batch and accumulation",
        .help = "samples of a step, of all devices together"),
    OPTION(CHOICE, RECOMPUTE, "--recompute", "KIND", SIMULATE, .choices = "none|selective|full",
        .standard_text = "the configuration's, or none",
        .help = "what backward computes again: attention's scores (selective), or whole layers"),
    OPTION(CHOICE, PRODUCTS, "--products", "TYPE", SIMULATE, .choices = "fp8|fp4",
        .standard_text = "as --dtype",
        .help = "what products compute in, if in fewer bits than --dtype"),
    OPTION(TEXT, FRAMEWORK, "--framework", "NAME", SIMULATE,
        .choices = "megatron|torchtitan", .standard_text = "a well-made one",
        .help = "the program whose kernels and overlap are assumed: megatron, torchtitan, ..."),
    OPTION(TEXT, ORDER, "--order", "A,B,...", SIMULATE,
        .choices = ",tensor|context|data|pipeline|best",
        .standard = "tensor,context,data,pipeline",
        .help = "how the grid lies over the nodes: neighbouring devices differ in the first axis; "
                "best: all orders are tried"),
    OPTION(REAL, MTBF, "--mtbf", "HOURS", SIMULATE, RANGE(1e-3, 1e9),
        .help = "mean time between failures of a node: shows how often to save, and the goodput"),
    OPTION(REAL, CHECKPOINT_RATE, "--checkpoint-rate", "GB/S", SIMULATE, RANGE(1e-6, 1e9),
        .standard_text = "what the NVMe of all nodes writes",
        .help = "for --mtbf: GB/s that the storage takes from all devices together"),
    FLAG(CHECKPOINT_ASYNC, "--checkpoint-async", SIMULATE,
        .help = "for --mtbf: states are copied to the hosts, and written from there beside "
                "training"),
    OPTION(REAL, RESTART_TIME, "--restart-time", "SECONDS", SIMULATE, RANGE(0, 1e9),
        .standard = "300",
        .help = "for --mtbf: from a failure until a checkpoint is read again"),
};
// clang-format on
const int cli_options_simulation_count =
    sizeof cli_options_simulation / sizeof *cli_options_simulation;
