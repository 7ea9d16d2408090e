// Options for generating text.
#include "option_rows.h"

// clang-format off
const cli_option cli_options_generation[] = {
    OPTION(EACH, PROMPT, "--prompt", "TEXT", GENERATE,
        .standard_text = "the tokenizer's begin token, else a new line",
        .help = "what the text begins with; given several times, several texts"),
    OPTION(TEXT, PROMPTS, "--prompts", "FILE", GENERATE,
        .help = "more prompts, one per line, or one per record of JSONL (*.jsonl, or jsonl:FILE); "
                "they follow those of --prompt"),
    OPTION(INTEGER, BATCH, "--batch", "N", GENERATE, RANGE(1, 4096), .standard = "8",
        .help = "how many prompts are answered at once, at most"),
    FLAG(IGNORE_END, "--ignore-end", GENERATE,
        .help = "go on after the model's end token, up to --tokens"),
    OPTION(COUNT, TOKENS, "--tokens", "N", GENERATE | SIMULATE, RANGE(1, INT64_SAFE),
        .standard = "200",
        .help = "tokens to generate for each prompt, at most",
        .differs = {FOR(SIMULATE,
                        .help = "tokens of the training (15T, 300B, 1e12), whose days and device "
                                "hours are told",
                        .standard_text = NONE)}),
    OPTION(REAL, TEMPERATURE, "--temperature", "X", GENERATE, RANGE(0, 100), .standard = "0.8",
        .help = "how much chance there is in the choice; 0 takes the likeliest token"),
    OPTION(INTEGER, TOP_K, "--top-k", "K", GENERATE, RANGE(0, INT_MOST), .standard = "0",
        .help = "only the K likeliest tokens; 0: all"),
    OPTION(REAL, TOP_P, "--top-p", "P", GENERATE, RANGE(1e-6, 1), .standard = "1",
        .help = "only the likeliest tokens that together have probability P"),
};
// clang-format on
const int cli_options_generation_count =
    sizeof cli_options_generation / sizeof *cli_options_generation;
