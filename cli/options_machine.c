// Options for what a command runs on (ranks, threads, precision, memory budgets), and for what
// happens when a rank dies.
#include "option_rows.h"

enum { MOST_STAGES = 256 }; // as in src/config/pipeline_spec.h

#define WHOLE "needs a run without a pipeline"
#define ORDER                                                                                      \
    "in which order pipeline stages work: 1f1b, gpipe, interleaved:CHUNKS (2 to 8; 2 if none are " \
    "said), zb-h1; asynchronous, with bits of their own: 2bw, pipedream"
#define CUT "the first unit of each pipeline stage (of each of its chunks), as 0,6"
#define AUTO_DTYPE "precision; auto is bf16 if the processor multiplies it and fp32 otherwise"

// clang-format off
const cli_option cli_options_machine[] = {
    OPTION(INTEGER, RANKS, "--ranks", "N",
        TRAIN | RUN | EVAL | GENERATE | PLAN | COMPARE | BENCH | SIMULATE | TUNE, RANGE(1, 1048576),
        .standard_text = "1, or the launcher's",
        .help = "processes on this machine, at most 1024",
        .differs = {FOR(SIMULATE, .help = "devices, each a rank", .standard_text = NONE),
                    FOR(RUN, .help = "processes to start, at most 1024; -n N says the same",
                        .standard_text = NONE),
                    FOR(PLAN, .help = "number of ranks, on one machine or several",
                        .standard_text = "a table of several"),
                    FOR(TUNE, .help = "processes on this machine",
                        .standard_text = "open: what is fastest"),
                    FOR(BENCH, .help = "processes on this machine"),
                    FOR(COMPARE, .help = "processes on this machine, 2 at least",
                        .standard_text = "the cores this machine allows"),
                    FOR(GENERATE,
                        .help = "processes on this machine, at most 1024, which divide the "
                                "parameters")}),
    OPTION(INTEGER, TENSOR, "--tensor", "P",
        TRAIN | EVAL | GENERATE | PLAN | BENCH | SIMULATE | TUNE, RANGE(1, ZERO_MAX_RANKS),
        .standard_text = "the configuration's, or 1",
        .help = "ranks that compute one model together, each with a part of every layer; they "
                "divide --ranks, and the others share the batch",
        .differs = {FOR(TUNE,
                        .help = "ranks that compute one model together, each with a part of every "
                                "layer",
                        .standard_text = "the configuration's, or open"),
                    FOR(BENCH,
                        .help = "step: ranks that compute one model together; they divide --ranks",
                        .standard_text = "1"),
                    FOR(EVAL,
                        .help = "ranks that compute one model together, each with a part of every "
                                "layer; they divide --ranks, and the others share the text",
                        .standard_text = "1"),
                    FOR(GENERATE,
                        .help = "ranks that compute one model together, each with a part of every "
                                "layer; they divide --ranks",
                        .standard_text = "1")}),
    FLAG(SEQUENCE_PARALLEL, "--sequence-parallel", TRAIN | EVAL | PLAN | BENCH | SIMULATE | TUNE,
        .help = "the ranks of --tensor divide norms, dropout and the residual stream by rows, too",
        .differs = {FOR(BENCH,
                        .help = "step: the ranks of --tensor divide norms, dropout and the "
                                "residual stream by rows, too")}),
    OPTION(INTEGER, PIPELINE, "--pipeline", "P", TRAIN | PLAN | BENCH | SIMULATE | TUNE,
        RANGE(1, MOST_STAGES), .standard_text = "the configuration's, or 1",
        UNFIT(EVAL | GENERATE, WHOLE),
        .help = "pipeline stages: ranks that compute different layers of one model; with --tensor, "
                "groups of so many; they divide --ranks, and the others share the batch",
        .differs = {FOR(TUNE,
                        .help = "pipeline stages: ranks that compute different layers of one model",
                        .standard_text = "the configuration's, or open"),
                    FOR(BENCH,
                        .help = "step: pipeline stages, ranks that compute different layers of one "
                                "model; they divide --ranks",
                        .standard_text = "1")}),
    OPTION(TEXT, SCHEDULE, "--schedule", "NAME", TRAIN | PLAN | BENCH | SIMULATE | TUNE,
        .choices = "1f1b|gpipe|interleaved:2|zb-h1|2bw|pipedream",
        .standard_text = "the configuration's, or 1f1b", UNFIT(EVAL | GENERATE, WHOLE),
        .help = ORDER,
        .differs = {FOR(TUNE,
                        .standard_text = "the configuration's, or open: 1f1b, zb-h1, interleaved"),
                    FOR(BENCH, .help = "step: " ORDER, .standard_text = "1f1b")}),
    OPTION(TEXT, SPLIT, "--split", "A,B", TRAIN | PLAN | BENCH | TUNE,
        .standard_text = "the configuration's, or by the time of each unit",
        UNFIT(EVAL | GENERATE, WHOLE),
        .help = CUT,
        .differs = {FOR(BENCH, .help = "step: " CUT, .standard_text = "by the time of each unit")}),
    OPTION(TEXT, MACHINES, "--machines", "M", PLAN,
        .standard_text = "one, of which nothing is said",
        .help = "machines that --ranks fill in their order: how many, or the ranks of each, as "
                "4,2,2; shows who is where, and what crosses the network in a step"),
    FLAG(PREDICT, "--predict", PLAN,
        .help = "time, for a second, what a step does on this machine and no run has shown yet; it "
                "is remembered, and predictions use it"),
    OPTION(INTEGER, THREADS, "--threads", "T",
        TRAIN | EVAL | GENERATE | VERIFY | COMPARE | BENCH | TOKENIZE | DATA | TUNE, RANGE(1, 1024),
        .standard_text = "the cores this machine allows, divided by its ranks",
        .help = "threads per rank",
        .differs = {FOR(TOKENIZE | DATA, .help = "threads",
                        .standard_text = "the cores this machine allows"),
                    FOR(VERIFY,
                        .help = "threads per rank; with another number than made the run, results "
                                "may round differently, and the run is then not confirmed",
                        .standard_text = "as many as made the run")}),
    OPTION(CHOICE, COMM, "--comm", "KIND", TRAIN | EVAL | GENERATE | VERIFY | BENCH,
        .choices = "auto|self|local|mpi", .standard = "auto",
        .help = "how ranks exchange data; auto takes shared memory on one machine"),
    OPTION(REAL, TIMEOUT, "--timeout", "SECONDS", TRAIN | EVAL | GENERATE | VERIFY | BENCH,
        RANGE(0.1, 1e6), .standard = "60",
        .help = "end the run when a rank makes no progress for this long"),
    OPTION(TEXT, BACKEND, "--backend", "NAME", TRAIN | EVAL | GENERATE | TUNE | PLAN,
        .choices = "cpu|cpu:portable|cpu:avx2|cpu:avx512|cpu:avx512_bf16|cpu:amx|ref|cuda|cuda:1",
        .standard = "cpu",
        .help = "cpu: the widest instructions that this processor has; cpu:portable, cpu:avx2, "
                "cpu:avx512, cpu:avx512_bf16, cpu:amx: no wider ones than these (zero doctor names "
                "those that it has); ref: the same arithmetic in plain C, slow; cuda: the first "
                "card of NVIDIA's, cuda:1: the second (docs/devices.md)",
        .differs = {FOR(TRAIN, .standard_text = "auto",
                        .choices = "auto|cpu|cpu:portable|cpu:avx2|cpu:avx512|cpu:avx512_bf16|"
                                   "cpu:amx|ref|cuda|cuda:1",
                        .help = "auto: a card of NVIDIA's, where one and its libraries are here "
                                "and train this, else cpu; cuda: the first card, cuda:1: the "
                                "second (docs/devices.md); cpu: the widest instructions that this "
                                "processor has; cpu:portable, cpu:avx2, cpu:avx512, "
                                "cpu:avx512_bf16, cpu:amx: no wider ones than these (zero doctor "
                                "names those that it has); ref: the same arithmetic in plain C, "
                                "slow"),
                    FOR(PLAN,
                        .choices = "cpu|cuda|cuda:a100-40gb|cuda:a100-80gb|cuda:h100-80gb|"
                                   "cuda:h200-141gb|cuda:rtx4090-24gb",
                        .help = "what each rank computes on: cpu; cuda: a card of NVIDIA's, which "
                                "need not be here; cuda:h100-80gb: one of a certain kind, whose "
                                "memory bounds the plan")}),
    OPTION(CHOICE, DTYPE, "--dtype", "TYPE",
        TRAIN | EVAL | GENERATE | CONVERT | PLAN | COMPARE | BENCH | SIMULATE | TUNE,
        .choices = "fp32|bf16|fp16|auto", .standard_text = "the configuration's, or fp32",
        .help = "precision; bf16 and fp16 keep fp32 master weights, auto is bf16 if the processor "
                "multiplies it and fp32 otherwise",
        .differs = {FOR(SIMULATE,
                        .help = "precision of weights and activations; --products says what "
                                "products compute in, where that is less",
                        .standard_text = "the configuration's, or bf16",
                        .choices = "fp32|bf16|fp16"),
                    FOR(EVAL | GENERATE, .help = AUTO_DTYPE),
                    FOR(CONVERT, .help = "precision of the weights that are written",
                        .standard_text = "fp32; of a Hugging Face directory, as they are",
                        .choices = "fp32|bf16|fp16"),
                    FOR(BENCH, .help = AUTO_DTYPE, .standard_text = "fp32")}),
    OPTION(BYTES, DEVICE_MEMORY, "--device-memory", "BYTES",
        TRAIN | EVAL | GENERATE | PLAN | COMPARE | TUNE, .capacity = true, RANGE(1, INT64_SAFE),
        .standard_text = "the configuration's, or what the machine has",
        .help = "what a rank may hold on its device (24GB, 512MiB)"),
    OPTION(BYTES, HOST_MEMORY, "--host-memory", "BYTES",
        TRAIN | EVAL | GENERATE | PLAN | COMPARE | TUNE, .capacity = true, RANGE(1, INT64_SAFE),
        .standard_text = "the configuration's, or what the machine has",
        .help = "what the ranks of a machine may hold on its host, in equal parts"),
    OPTION(REAL, GRACE, "--grace", "SECONDS", RUN, RANGE(0.001, 1e9), .standard = "30",
        .help = "SIGTERM and Ctrl-C are passed on; ranks that still run after this time are "
                "killed, and a second signal kills them at once"),
    OPTION(INTEGER, RESTARTS, "--restarts", "N", TRAIN | RUN, RANGE(0, 1e6), .standard = "0",
        .help = "when a rank dies, start all ranks again from the last checkpoint, at most N times",
        .differs = {FOR(RUN,
                        .help = "when a rank dies, start all ranks again, at most N times; "
                                "ZERO_RESTART tells the program how many times that was")}),
    OPTION(INTEGER, MIN_RANKS, "--min-ranks", "M", TRAIN | RUN, RANGE(1, 1048576),
        .standard_text = "as many as before",
        .help = "let --restarts go on with the ranks that remain, but no fewer than M; with "
                "--tensor or --pipeline, with a multiple of the ranks of a model",
        .differs = {FOR(RUN,
                        .help = "let --restarts go on with the ranks that remain, but no fewer "
                                "than M")}),
};
// clang-format on
const int cli_options_machine_count = sizeof cli_options_machine / sizeof *cli_options_machine;
