// Options for answers: what plan, bench and doctor report, what verify, convert and inspect read,
// and the text that generate writes.
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
    FLAG(JSON, "--json",
        EVAL | DIFF | VERIFY | DOCTOR | DATA | INSPECT | GENERATE | PLAN | COMPARE | BENCH |
            SIMULATE | TUNE,
        .help = "the same as JSON",
        .differs = {FOR(GENERATE, .help = "one JSON object per line for each prompt"),
                    FOR(DATA, .help = "one JSON object per line for each sample, with token ids"),
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
    OPTION(INTEGER, FROM_STEP, "--from-step", "S", VERIFY, RANGE(1, INT64_SAFE),
        .standard_text = "the newest before the later one",
        .help = "checkpoint to replay from"),
    OPTION(INTEGER, TO_STEP, "--to-step", "S", VERIFY, RANGE(2, INT64_SAFE),
        .standard_text = "the newest",
        .help = "checkpoint to replay to"),
    OPTION(TEXT, FROM, "--from", "PATH", CONVERT,
        .help = "a checkpoint, a run (its newest intact checkpoint), a Hugging Face directory, a "
                "DeepSpeed checkpoint of ZeRO stage 1, 2 or 3, a GGUF file, pytorch_model.bin or "
                "its directory, nanoGPT's ckpt.pt, or for --format gguf an adapter as peft saves "
                "it, or the run that trained it"),
    OPTION(TEXT, TO, "--to", "DIR|FILE.gguf", CONVERT,
        .standard_text = "converted, or converted.gguf",
        .help = "what to make; it appears only when it is complete"),
    OPTION(CHOICE, FORMAT, "--format", "KIND", CONVERT, .choices = "hf|libzero|gguf",
        .standard_text = "gguf if --to ends with .gguf, else hf",
        .help = "hf makes a model directory; libzero makes DIR/checkpoints/step-N with weights and "
                "the optimizer's states, which zero train --resume continues; gguf makes a file of "
                "llama.cpp, with the tokenizer and chat template"),
    OPTION(CHOICE, TYPE, "--type", "TYPE", CONVERT, .choices = "f32|f16|bf16|q8_0|q4_0",
        .standard_text = "f16; of an adapter f32",
        .help = "how a GGUF file stores weights; norms and vectors are always f32"),
    OPTION(TEXT, BASE, "--base", "DIR", CONVERT | TRAIN | PLAN | EVAL | GENERATE,
        .standard_text = "weights as their files have them",
        .help = "for a GGUF file of an adapter: the base model, whose config.json is read",
        .differs = {FOR(CONVERT, .standard_text = "the one that adapter_config.json names"),
                    FOR(EVAL | GENERATE, .argument = "KIND", .choices = "nf4|int8",
                        .help = "keep the weights of the blocks in 4 or 8 bits, as bitsandbytes "
                                "does: nf4 or int8"),
                    FOR(TRAIN | PLAN, .argument = "KIND", .choices = "nf4|int8",
                        .help = "with --lora: keep the weights that do not train in 4 or 8 bits, "
                                "as bitsandbytes does: nf4 or int8")}),
    OPTION(BYTES, SHARD_SIZE, "--shard-size", "BYTES", CONVERT, RANGE(1, INT64_SAFE),
        .standard_text = "5GB",
        .help = "bytes of tensors per file; a larger model becomes several files and an index"),
    FLAG(SUMS, "--sums", INSPECT,
        .help = "least, most, mean, root mean square and checksum of every tensor"),
    FLAG(VERIFY, "--verify", INSPECT,
        .help = "compare every byte with its checksum; damage is named, and the exit code is 65"),
    OPTION(EACH, PROMPT, "--prompt", "TEXT", GENERATE,
        .standard_text = "the tokenizer's begin token, else a new line",
        .help = "what the text begins with; given several times, several texts"),
    OPTION(TEXT, PROMPTS, "--prompts", "FILE", GENERATE,
        .help = "more prompts, one per line, or one per record of JSONL (*.jsonl, or jsonl:FILE); "
                "they follow those of --prompt"),
    OPTION(INTEGER, BATCH, "--batch", "N", GENERATE, RANGE(1, 4096), .standard = "8",
        .help = "how many prompts are answered at once, at most"),
    OPTION(EACH, STOP, "--stop", "TEXT", GENERATE,
        .help = "end an answer before this text; given several times, before the first of them"),
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
const int cli_options_reports_count = sizeof cli_options_reports / sizeof *cli_options_reports;
