// Options of the commands that read checkpoints: verify, convert, inspect.
#include "option_rows.h"

// clang-format off
const cli_option cli_options_files[] = {
    OPTION(INTEGER, FROM_STEP, "--from-step", "S", VERIFY, RANGE(1, INT64_SAFE),
        .standard_text = "the newest before the later one",
        .help = "checkpoint to replay from"),
    OPTION(INTEGER, TO_STEP, "--to-step", "S", VERIFY, RANGE(2, INT64_SAFE),
        .standard_text = "the newest",
        .help = "checkpoint to replay to"),
    OPTION(TEXT, FROM, "--from", "PATH", CONVERT,
        .help = "a checkpoint, a run (its newest intact checkpoint), a Hugging Face directory, or "
                "a DeepSpeed checkpoint of ZeRO stage 1, 2 or 3"),
    OPTION(TEXT, TO, "--to", "DIR", CONVERT, .standard_text = "converted",
        .help = "the directory to make; it appears only when it is complete"),
    OPTION(CHOICE, FORMAT, "--format", "KIND", CONVERT, .choices = "hf|libzero", .standard = "hf",
        .help = "hf makes a model directory; libzero makes DIR/checkpoints/step-N with weights and "
                "the optimizer's states, which zero train --resume continues"),
    OPTION(BYTES, SHARD_SIZE, "--shard-size", "BYTES", CONVERT, RANGE(1, INT64_SAFE),
        .standard_text = "5GB",
        .help = "bytes of tensors per file; a larger model becomes several files and an index"),
    FLAG(SUMS, "--sums", INSPECT,
        .help = "least, most, mean, root mean square and checksum of every tensor"),
    FLAG(VERIFY, "--verify", INSPECT,
        .help = "compare every byte with its checksum; damage is named, and the exit code is 65"),
};
// clang-format on
const int cli_options_files_count = sizeof cli_options_files / sizeof *cli_options_files;
