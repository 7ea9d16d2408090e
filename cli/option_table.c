// The table of options and the table of subcommands. To add an option: a name in cli_option_id and a row here.
#include "option_table.h"

#define TRAIN (1u << CLI_TRAIN)
#define RUN (1u << CLI_RUN)
#define EVAL (1u << CLI_EVAL)
#define GENERATE (1u << CLI_GENERATE)
#define VERIFY (1u << CLI_VERIFY)
#define INSPECT (1u << CLI_INSPECT)
#define CONVERT (1u << CLI_CONVERT)
#define PLAN (1u << CLI_PLAN)
#define BENCH (1u << CLI_BENCH)
#define DATA (1u << CLI_DATA)
#define DOCTOR (1u << CLI_DOCTOR)
#define TOKENIZE (1u << CLI_TOKENIZE)
#define TOKENIZER (1u << CLI_TOKENIZER)
#define EVERY ((1u << CLI_COMMANDS) - 1)
#define INT_MOST 2147483647.0
#define INT64_SAFE 9007199254740992.0 // 2^53: what a double still counts exactly
#define NONE ""                        // a standard_text: there is no default

// What several rows say.
#define A_SPEC "a preset (gpt2, gpt2-medium, llama, mistral, qwen2, qwen3, smollm2-135m, llama-3.2-1b, ...; docs/models.md), or one with fields, " \
    "gpt2:layers=4,heads=4,width=128,context=64[,vocab=V][,dropout=P], llama:layers=4,heads=8,kv_heads=2,width=256[,inner=F][,head_dim=D][,theta=X][,tied=0]"
#define A_MODEL "a GPT-2, Llama, Mistral, Qwen2 or Qwen3, in a directory in Hugging Face's layout; of a run's directory, its model/ is taken"
#define A_TOKENIZER "a directory or file with a BPE: tokenizer.json, or vocab.json and merges.txt"
#define STAGES "what the ranks divide among them: 1 the optimizer, 2 also gradients, 3 also parameters"
#define AUTO_DTYPE "precision; auto is bf16 if the processor multiplies it and fp32 otherwise"

const cli_option cli_options[CLI_OPTIONS] = {
    [OPT_NEW] = {.name = "--new", .argument = "SPEC", .kind = CLI_TEXT, .commands = TRAIN | PLAN | BENCH,
        .help = "start from random weights: " A_SPEC,
        .differs = {{.commands = PLAN, .help = "the model to plan for: " A_SPEC},
                    {.commands = BENCH, .help = "the model of step and checkpoint: " A_SPEC}}},
    [OPT_MODEL] = {.name = "--model", .argument = "DIR", .kind = CLI_TEXT, .commands = TRAIN | EVAL | GENERATE | CONVERT | PLAN | BENCH | DATA,
        .help = A_MODEL,
        .differs = {{.commands = TRAIN, .help = "start from the weights of " A_MODEL},
                    {.commands = CONVERT, .help = "take config.json and the tokenizer from here instead of looking for them next to PATH"},
                    {.commands = PLAN, .help = "the model to plan for: its directory, or its config.json"},
                    {.commands = BENCH, .help = "another name of --new: it takes a SPEC too"},
                    {.commands = DATA, .help = "the model whose tokenizer, chat template and context are used: " A_MODEL}}},
    [OPT_PARAMS] = {.name = "--params", .argument = "X", .kind = CLI_COUNT, .commands = PLAN | BENCH, .least = 1, .most = 1e15,
        .help = "only a number of parameters (7.5e9, 124M): the paper's formulas",
        .differs = {{.commands = BENCH, .help = "for optimizer: the number of parameters of a rank (7.5e9, 124M)"}}},
    [OPT_DATA] = {.name = "--data", .argument = "FILE...", .kind = CLI_TEXTS, .commands = TRAIN | EVAL | VERIFY | TOKENIZE | TOKENIZER | DATA,
        .help = "each is [KIND:]PATH[:WEIGHT]: text, JSONL or token files; patterns such as 'part-*.txt' work too. Files are read one after another, or mixed if every one "
                "has a weight (docs/data.md)",
        .differs = {{.commands = VERIFY, .help = "where the data of the run are now, if they have moved"},
                    {.commands = TOKENIZE | TOKENIZER, .help = "each is [KIND:]PATH: text or JSONL; patterns such as 'part-*.txt' work too (docs/data.md)"}}},
    [OPT_VAL] = {.name = "--val", .argument = "FILE|none", .kind = CLI_TEXT, .commands = TRAIN | DATA,
        .standard_text = "the last tenth of each of --data", .help = "held-out data, or none"},
    [OPT_FIELD] = {.name = "--field", .argument = "NAME", .kind = CLI_TEXT, .commands = TRAIN | EVAL | GENERATE | TOKENIZE | TOKENIZER | DATA,
        .standard_text = "what a record has: messages; prompt and completion; text", .help = "read only this field of JSONL records",
        .differs = {{.commands = GENERATE, .help = "the field of --prompts' JSONL records that holds the prompt", .standard_text = "prompt"}}},
    [OPT_CHAT] = {.name = "--chat", .argument = "FORMAT", .kind = CLI_CHOICE, .commands = TRAIN | EVAL | GENERATE | TOKENIZE | DATA,
        .choices = "auto|chatml|llama2|llama3|llama3.1|mistral|mistral-spaced|mistral-2024", .standard_text = "auto: by the model's chat template",
        .help = "how messages are written",
        .differs = {{.commands = GENERATE, .help = "treat each prompt as a user's message and answer as the assistant", .standard_text = "no chat: the prompt is continued"}}},
    [OPT_TOKENIZER] = {.name = "--tokenizer", .argument = "KIND", .kind = CLI_TEXT, .commands = TRAIN | TOKENIZE | DATA,
        .standard_text = "that of --model, or bytes", .help = "what a token is: bytes, chars (the characters of the text), or " A_TOKENIZER,
        .differs = {{.commands = TOKENIZE, .help = "what a token is: bytes, or " A_TOKENIZER, .standard_text = NONE}}},
    [OPT_VOCAB] = {.name = "--vocab", .argument = "N", .kind = CLI_INTEGER, .commands = TOKENIZER, .least = 257, .most = 1e7,
        .standard = "4096", .help = "number of tokens: the 256 bytes, the end of a text, and those that are learnt"},
    [OPT_SPECIAL] = {.name = "--special", .kind = CLI_FLAG, .commands = TOKENIZE,
        .help = "read a special token that is spelt out in the text (<|endoftext|>) as that token; without this flag it is plain text"},
    [OPT_OUT] = {.name = "--out", .argument = "PATH", .kind = CLI_TEXT, .commands = TRAIN | TOKENIZE | TOKENIZER,
        .help = "the directory that gets metrics.jsonl, config.json, checkpoints/, model/ and best/",
        .differs = {{.commands = TOKENIZE, .help = "the token file to write"}, {.commands = TOKENIZER, .help = "the directory to write tokenizer.json into"}}},
    [OPT_CONFIG] = {.name = "--config", .argument = "FILE", .kind = CLI_TEXT, .commands = TRAIN | EVAL | GENERATE | PLAN,
        .help = "a DeepSpeed configuration file; flags win over it"},
    [OPT_RANKS] = {.name = "--ranks", .argument = "N", .kind = CLI_INTEGER, .commands = TRAIN | RUN | PLAN | BENCH,
        .least = 1, .most = 1048576, .standard_text = "1, or the launcher's", .help = "processes on this machine, at most 1024",
        .differs = {{.commands = RUN, .help = "processes to start, at most 1024", .standard_text = NONE},
                    {.commands = PLAN, .help = "number of ranks, on one machine or several", .standard_text = "a table of several"},
                    {.commands = BENCH, .help = "processes on this machine"}}},
    [OPT_THREADS] = {.name = "--threads", .argument = "T", .kind = CLI_INTEGER, .commands = TRAIN | EVAL | GENERATE | VERIFY | BENCH | TOKENIZE | DATA,
        .least = 1, .most = 1024, .standard_text = "the cores this machine allows, divided by its ranks", .help = "threads per rank",
        .differs = {{.commands = GENERATE | TOKENIZE | DATA, .help = "threads", .standard_text = "the cores this machine allows"},
                    {.commands = VERIFY, .help = "threads per rank; with another number than made the run, results may round differently, and the run is then not confirmed",
                     .standard_text = "as many as made the run"}}},
    [OPT_COMM] = {.name = "--comm", .argument = "KIND", .kind = CLI_CHOICE, .commands = TRAIN | VERIFY | BENCH, .choices = "auto|self|local|mpi",
        .standard = "auto", .help = "how ranks exchange data; auto takes shared memory on one machine"},
    [OPT_TIMEOUT] = {.name = "--timeout", .argument = "SECONDS", .kind = CLI_REAL, .commands = TRAIN | VERIFY | BENCH, .least = 0.1, .most = 1e6,
        .standard = "60", .help = "end the run when a rank makes no progress for this long"},
    [OPT_BACKEND] = {.name = "--backend", .argument = "NAME", .kind = CLI_TEXT, .commands = TRAIN | EVAL | GENERATE, .standard = "cpu",
        .help = "cpu: the widest instructions that this processor has; cpu:portable, cpu:avx2, cpu:avx512, cpu:avx512_bf16, cpu:amx: no wider ones than these"
                " (zero doctor names those that it has); ref: the same arithmetic in plain C, slow"},
    [OPT_DTYPE] = {.name = "--dtype", .argument = "TYPE", .kind = CLI_CHOICE, .commands = TRAIN | EVAL | GENERATE | CONVERT | PLAN | BENCH,
        .choices = "fp32|bf16|fp16|auto", .standard_text = "the configuration's, or fp32",
        .help = "precision; bf16 and fp16 keep fp32 master weights, auto is bf16 if the processor multiplies it and fp32 otherwise",
        .differs = {{.commands = EVAL | GENERATE, .help = AUTO_DTYPE},
                    {.commands = CONVERT, .help = "precision of the weights that are written", .choices = "fp32|bf16|fp16",
                     .standard_text = "fp32; of a Hugging Face directory, as they are"},
                    {.commands = BENCH, .help = AUTO_DTYPE, .standard_text = "fp32"}}},
    [OPT_STAGE] = {.name = "--stage", .argument = "0..3", .kind = CLI_INTEGER, .commands = TRAIN | PLAN | BENCH, .least = 0, .most = 3,
        .standard_text = "the configuration's, or 0", .help = STAGES,
        .differs = {{.commands = PLAN, .help = "the stage of the command that is printed, of --program and of --draw; the table has every stage"},
                    {.commands = BENCH, .help = STAGES, .standard_text = "0"}}},
    [OPT_MICRO_BATCH] = {.name = "--micro-batch", .argument = "B", .kind = CLI_INTEGER, .commands = TRAIN | PLAN | BENCH | DATA, .least = 1, .most = 1048576,
        .standard_text = "by the model's size", .help = "samples a rank computes at once",
        .differs = {{.commands = BENCH, .help = "samples a rank computes at once", .standard_text = "4"},
                    {.commands = DATA, .help = "samples to show", .standard_text = "2"}}},
    [OPT_ACCUMULATION] = {.name = "--accumulation", .argument = "K", .kind = CLI_INTEGER, .commands = TRAIN | PLAN | BENCH, .least = 1, .most = 1048576,
        .standard_text = "1", .help = "micro-batches per rank and step"},
    [OPT_SEQ] = {.name = "--seq", .argument = "T", .kind = CLI_INTEGER, .commands = TRAIN | EVAL | PLAN | BENCH | DATA, .least = 1, .most = 1048576,
        .standard_text = "the model's context", .help = "tokens per window",
        .differs = {{.commands = DATA, .help = "tokens per window", .standard_text = "the model's context, or 128 without --model"}}},
    [OPT_STEPS] = {.name = "--steps", .argument = "N", .kind = CLI_INTEGER, .commands = TRAIN, .least = 1, .most = 1e12,
        .standard_text = "a few passes over the text", .help = "updates to make"},
    [OPT_EPOCHS] = {.name = "--epochs", .argument = "E", .kind = CLI_REAL, .commands = TRAIN, .least = 1e-6, .most = 1e6,
        .help = "passes over the text, instead of --steps"},
    [OPT_LR] = {.name = "--lr", .argument = "X", .kind = CLI_REAL, .commands = TRAIN, .least = 1e-12, .most = 1e3,
        .standard_text = "by the model's size",
        .help = "highest learning rate; where --config names no schedule, the first update has it divided by the steps of the warm-up"},
    [OPT_SEED] = {.name = "--seed", .argument = "S", .kind = CLI_INTEGER, .commands = TRAIN | GENERATE | DATA, .least = 0, .most = INT64_SAFE,
        .standard_text = "1337", .help = "seed of the weights, the order of the data, and dropout",
        .differs = {{.commands = GENERATE, .help = "seed of the sampling"}, {.commands = DATA, .help = "seed of the order of the data"}}},
    [OPT_EVAL_EVERY] = {.name = "--eval-every", .argument = "N", .kind = CLI_INTEGER, .commands = TRAIN, .least = 0, .most = 1e12,
        .standard_text = "ten times a run", .help = "steps between evaluations; 0: never"},
    [OPT_SAMPLE_EVERY] = {.name = "--sample-every", .argument = "N", .kind = CLI_INTEGER, .commands = TRAIN, .least = 0, .most = 1e12,
        .standard = "0", .help = "steps between samples of text; 0: never"},
    [OPT_PROFILE] = {.name = "--profile", .argument = "FILE", .kind = CLI_TEXT, .commands = TRAIN,
        .help = "write where the time of steps 3 to 5 goes on every rank, as a trace for ui.perfetto.dev or chrome://tracing"},
    [OPT_DRY_RUN] = {.name = "--dry-run", .kind = CLI_FLAG, .commands = TRAIN, .help = "resolve the configuration, print the plan, make one step, keep nothing"},
    [OPT_STRICT] = {.name = "--strict", .kind = CLI_FLAG, .commands = TRAIN, .help = "treat a flag that contradicts the configuration file as an error"},
    [OPT_EXPLAIN] = {.name = "--explain", .kind = CLI_FLAG, .commands = TRAIN | EVAL | GENERATE | PLAN,
        .help = "name each key of --config that has no effect here, and the reason"},
    [OPT_QUIET] = {.name = "--quiet", .kind = CLI_FLAG, .commands = TRAIN | CONVERT, .help = "print only errors",
        .differs = {{.commands = CONVERT, .help = "print only warnings and errors"}}},
    [OPT_OVERWRITE] = {.name = "--overwrite", .kind = CLI_FLAG, .commands = TRAIN | CONVERT | TOKENIZE | TOKENIZER,
        .help = "replace what an earlier run wrote to --out; what it did not write stays, and so does what is read",
        .differs = {{.commands = CONVERT, .help = "replace the model at --to"}, {.commands = TOKENIZE | TOKENIZER, .help = "replace what --out names"}}},
    [OPT_SAVE_EVERY] = {.name = "--save-every", .argument = "N", .kind = CLI_INTEGER, .commands = TRAIN, .least = 0, .most = 1e12,
        .standard = "0", .help = "steps between checkpoints in OUT/checkpoints; 0: by time alone"},
    [OPT_SAVE_SECONDS] = {.name = "--save-seconds", .argument = "S", .kind = CLI_REAL, .commands = TRAIN, .least = 0, .most = 1e9,
        .standard = "1800", .help = "seconds between checkpoints; 0: by steps alone"},
    [OPT_KEEP] = {.name = "--keep", .argument = "N", .kind = CLI_INTEGER, .commands = TRAIN, .least = 0, .most = 1e9,
        .standard = "2", .help = "how many of the newest checkpoints stay; 0: all"},
    [OPT_NO_FINAL_CHECKPOINT] = {.name = "--no-final-checkpoint", .kind = CLI_FLAG, .commands = TRAIN,
        .help = "write no checkpoint after the last step, from which --resume with more --steps would train on"},
    [OPT_RESUME] = {.name = "--resume", .kind = CLI_FLAG, .commands = TRAIN,
        .help = "continue from the newest intact checkpoint of --out, or start from the beginning if there is none"},
    [OPT_ALLOW_CHANGE] = {.name = "--allow-change", .argument = "NAMES", .kind = CLI_TEXT, .commands = TRAIN,
        .help = "with --resume: what may differ from the model of the checkpoint, names with commas between them: dropout"},
    [OPT_GRACE] = {.name = "--grace", .argument = "SECONDS", .kind = CLI_REAL, .commands = RUN, .least = 0.001, .most = 1e9,
        .standard = "30", .help = "SIGTERM and Ctrl-C are passed on; ranks that still run after this time are killed, and a second signal kills them at once"},
    [OPT_RESTARTS] = {.name = "--restarts", .argument = "N", .kind = CLI_INTEGER, .commands = TRAIN | RUN, .least = 0, .most = 1e6, .standard = "0",
        .help = "when a rank dies, start all ranks again from the last checkpoint, at most N times",
        .differs = {{.commands = RUN, .help = "when a rank dies, start all ranks again, at most N times; ZERO_RESTART tells the program how many times that was"}}},
    [OPT_MIN_RANKS] = {.name = "--min-ranks", .argument = "M", .kind = CLI_INTEGER, .commands = TRAIN | RUN, .least = 1, .most = 1048576,
        .standard_text = "as many as before", .help = "let --restarts go on with the ranks that remain, but no fewer than M"},
    [OPT_FROM_STEP] = {.name = "--from-step", .argument = "S", .kind = CLI_INTEGER, .commands = VERIFY, .least = 1, .most = INT64_SAFE,
        .standard_text = "the newest before the later one", .help = "checkpoint to replay from"},
    [OPT_TO_STEP] = {.name = "--to-step", .argument = "S", .kind = CLI_INTEGER, .commands = VERIFY, .least = 2, .most = INT64_SAFE,
        .standard_text = "the newest", .help = "checkpoint to replay to"},
    [OPT_PROMPT] = {.name = "--prompt", .argument = "TEXT", .kind = CLI_EACH, .commands = GENERATE,
        .standard_text = "the tokenizer's begin token, else a new line", .help = "what the text begins with; given several times, several texts"},
    [OPT_PROMPTS] = {.name = "--prompts", .argument = "FILE", .kind = CLI_TEXT, .commands = GENERATE,
        .help = "more prompts, one per line, or one per record of JSONL (*.jsonl, or jsonl:FILE); they follow those of --prompt"},
    [OPT_BATCH] = {.name = "--batch", .argument = "N", .kind = CLI_INTEGER, .commands = GENERATE, .least = 1, .most = 4096,
        .standard = "8", .help = "how many prompts are answered at once, at most"},
    [OPT_IGNORE_END] = {.name = "--ignore-end", .kind = CLI_FLAG, .commands = GENERATE, .help = "go on after the model's end token, up to --tokens"},
    [OPT_IGNORE_UNUSED] = {.name = "--ignore-unused", .kind = CLI_FLAG, .commands = TRAIN | EVAL | GENERATE,
        .help = "leave out tensors of --model that the model of its config.json has no place for, with a warning; without it they are refused"},
    [OPT_TOKENS] = {.name = "--tokens", .argument = "N", .kind = CLI_INTEGER, .commands = GENERATE, .least = 1, .most = 1e9,
        .standard = "200", .help = "tokens to generate for each prompt, at most"},
    [OPT_TEMPERATURE] = {.name = "--temperature", .argument = "X", .kind = CLI_REAL, .commands = GENERATE, .least = 0, .most = 100,
        .standard = "0.8", .help = "how much chance there is in the choice; 0 takes the likeliest token"},
    [OPT_TOP_K] = {.name = "--top-k", .argument = "K", .kind = CLI_INTEGER, .commands = GENERATE, .least = 0, .most = INT_MOST,
        .standard = "0", .help = "only the K likeliest tokens; 0: all"},
    [OPT_TOP_P] = {.name = "--top-p", .argument = "P", .kind = CLI_REAL, .commands = GENERATE, .least = 1e-6, .most = 1,
        .standard = "1", .help = "only the likeliest tokens that together have probability P"},
    [OPT_FROM] = {.name = "--from", .argument = "PATH", .kind = CLI_TEXT, .commands = CONVERT,
        .help = "a checkpoint, a run (its newest intact checkpoint), a Hugging Face directory, or a DeepSpeed checkpoint of ZeRO stage 1, 2 or 3"},
    [OPT_TO] = {.name = "--to", .argument = "DIR", .kind = CLI_TEXT, .commands = CONVERT, .help = "the directory to make; it appears only when it is complete"},
    [OPT_FORMAT] = {.name = "--format", .argument = "KIND", .kind = CLI_CHOICE, .commands = CONVERT, .choices = "hf|libzero", .standard = "hf",
        .help = "hf makes a model directory; libzero makes DIR/checkpoints/step-N with weights and the optimizer's states, which zero train --resume continues"},
    [OPT_SHARD_SIZE] = {.name = "--shard-size", .argument = "BYTES", .kind = CLI_BYTES, .commands = CONVERT, .least = 1, .most = INT64_SAFE,
        .standard_text = "5GB", .help = "bytes of tensors per file; a larger model becomes several files and an index"},
    [OPT_SUMS] = {.name = "--sums", .kind = CLI_FLAG, .commands = INSPECT, .help = "least, most, mean, root mean square and checksum of every tensor"},
    [OPT_VERIFY] = {.name = "--verify", .kind = CLI_FLAG, .commands = INSPECT, .help = "compare every byte with its checksum; damage is named, and the exit code is 65"},
    [OPT_MEMORY] = {.name = "--memory", .argument = "BYTES", .kind = CLI_BYTES, .commands = PLAN, .least = 1, .most = INT64_SAFE,
        .help = "what a rank may hold (24GB, 512MiB); without --ranks: what do I need?"},
    [OPT_DEVICE_MEMORY] = {.name = "--device-memory", .argument = "BYTES", .kind = CLI_BYTES, .commands = TRAIN | EVAL | GENERATE | PLAN,
        .least = 1, .most = INT64_SAFE, .standard_text = "the configuration's, or what the machine has",
        .help = "what a rank may hold on its device (24GB, 512MiB)"},
    [OPT_HOST_MEMORY] = {.name = "--host-memory", .argument = "BYTES", .kind = CLI_BYTES, .commands = TRAIN | EVAL | GENERATE | PLAN,
        .least = 1, .most = INT64_SAFE, .standard_text = "the configuration's, or what the machine has",
        .help = "what the ranks of a machine may hold on its host, in equal parts"},
    [OPT_JSON] = {.name = "--json", .kind = CLI_FLAG, .commands = INSPECT | GENERATE | PLAN | BENCH,
        .help = "the same as JSON",
        .differs = {{.commands = GENERATE, .help = "one JSON object per line for each prompt"}, {.commands = BENCH, .help = "for memory and io: the same as JSON"}}},
    [OPT_PROGRAM] = {.name = "--program", .kind = CLI_FLAG, .commands = PLAN,
        .help = "instead of the table: every instruction of a step, at the configuration's stage and with "
                "--ranks (or 1)"},
    [OPT_DRAW] = {.name = "--draw", .argument = "FILE", .kind = CLI_TEXT, .commands = PLAN,
        .help = "instead of the table: an SVG of what a micro-batch does when, and what lies where "
                "meanwhile; -: letters on standard output"},
    [OPT_SECONDS] = {.name = "--seconds", .argument = "X", .kind = CLI_REAL, .commands = BENCH, .least = 0.001, .most = 60,
        .standard = "0.2", .help = "time for each figure, about; for io, that of a round at least"},
    [OPT_PATH] = {.name = "--path", .argument = "DIR", .kind = CLI_TEXT, .commands = BENCH | DOCTOR,
        .standard_text = "the current directory", .help = "a directory on the disk to measure",
        .differs = {{.commands = BENCH, .help = "for io and checkpoint: a directory on the disk to measure"}}},
    [OPT_BLOCK] = {.name = "--block", .argument = "BYTES", .kind = CLI_BYTES, .commands = BENCH, .least = 4096, .most = 1 << 30,
        .standard = "1MiB", .help = "for io: bytes per transfer, a multiple of 4096 (aio.block_size)"},
    [OPT_DEPTH] = {.name = "--depth", .argument = "N", .kind = CLI_INTEGER, .commands = BENCH, .least = 1, .most = 256,
        .standard = "8", .help = "for io: transfers in flight (aio.queue_depth)"},
    [OPT_BYTES] = {.name = "--bytes", .argument = "BYTES", .kind = CLI_BYTES, .commands = BENCH, .least = 16384, .most = INT64_SAFE,
        .standard = "1GiB", .help = "for io: size of the scratch files, at most; never more than half of what is free"},
    [OPT_HELP] = {.name = "--help", .kind = CLI_FLAG, .commands = EVERY, .help = "this text"},
};

const cli_command cli_commands[CLI_COMMANDS] = {
    [CLI_TRAIN] = {.name = "train", .usage = "--new SPEC | --model DIR  --data FILE...  --out DIR  [OPTION...]", .run = cli_train,
        .purpose = "train a model on text with ZeRO stages 0 to 3",
        .detail = "The directory of --out gets metrics.jsonl (one object per step), config.json (the configuration that was used), model/ (the last weights, which "
                  "Hugging Face's transformers opens), if text is held out, best/, and a checkpoint of the last step, from which --resume with more --steps trains on. Under mpirun or srun --ranks is not needed. On SIGTERM, SIGUSR1, "
                  "Ctrl-C, and when a Slurm allocation ends (SLURM_JOB_END_TIME), all ranks save after the current step, the command that continues the run "
                  "is printed, and the exit code is 75; a second signal stops the program at once. With --resume, and after a restart, a different number of ranks "
                  "keeps the number of samples per step."},
    [CLI_RUN] = {.name = "run", .usage = "--ranks N PROGRAM [ARG...]", .runs_program = true, .run = cli_run,
        .purpose = "start a program of your own on N ranks of this machine",
        .detail = "Each rank finds RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE in its environment; zero_comm_open reads them. "
                  "If one rank fails, the others are ended. SIGTERM, Ctrl-C (as SIGTERM) and SIGUSR1 are passed on."},
    [CLI_EVAL] = {.name = "eval", .usage = "--model DIR --data FILE... [OPTION...]", .run = cli_eval,
        .purpose = "measure the mean cross-entropy of a text",
        .detail = "Windows start at i*T, i < floor((n-1)/T); targets are shifted by one, the tail is dropped; each target that counts (prompts do not) counts once. Standard output: a line "
                  "`loss X` (nats), then perplexity and bits_per_byte. From --config only precision, offload_param and budgets are read, as in "
                  "zero generate: parameters on the host or on NVMe give the same bits."},
    [CLI_GENERATE] = {.name = "generate", .usage = "--model DIR [--prompt TEXT]... [--prompts FILE] [OPTION...]", .run = cli_generate,
        .purpose = "write text with a model",
        .detail = "A prompt becomes the tokens that transformers' tokenizer gives, begin token and special tokens included. One prompt is printed with its answer as that comes. "
                  "With several, each answer is printed when it and those before it are complete, under a line `--- prompt I: N tokens ---` (`, ended` if the model ended it). A "
                  "prompt's answer depends on --seed and the prompt's number, not on the other prompts. It ends at eos_token_id of generation_config.json, else of config.json, "
                  "else at the tokenizer's end token. When the context is full, its later half is read again, and a warning says so. With --config, parameters are kept where "
                  "offload_param says, on the host or on NVMe; the text is the same."},
    [CLI_DIFF] = {.name = "diff", .usage = "A B", .takes_paths = true, .run = cli_diff,
        .purpose = "compare two runs, checkpoints or models, and say where they differ first",
        .detail = "A and B are two runs (--out): what their steps computed, checkpoints of the same steps, and models are compared. Or each is a checkpoint, a Hugging Face "
                  "directory, or a file *.safetensors. The exit code is 1 if they differ."},
    [CLI_VERIFY] = {.name = "verify", .usage = "DIR [OPTION...]", .takes_path = true, .run = cli_verify,
        .purpose = "replay the steps between two checkpoints of a run and compare every bit",
        .detail = "DIR is the --out of a training run. Its steps are computed again on the number of ranks (and, without --threads, of threads) that made it, from its own config.json; losses, "
                  "weights and optimizer states must come out the same. Its models are compared with their receipt.json. Nothing in DIR changes. "
                  "The exit code is 1 if the run is not confirmed."},
    [CLI_INSPECT] = {.name = "inspect", .usage = "PATH... [--sums] [--verify] [--json]", .takes_paths = true, .run = cli_inspect,
        .purpose = "show what a checkpoint, a run or a model holds, and whether it is intact",
        .detail = "PATH is a checkpoint, a run (--out), a Hugging Face directory, a file *.safetensors, or a DeepSpeed checkpoint of ZeRO stage 1, "
                  "2 or 3, whose pickles are parsed and never executed."},
    [CLI_CONVERT] = {.name = "convert", .usage = "--from PATH --to DIR [--format hf|libzero] [OPTION...]", .run = cli_convert,
        .purpose = "turn a checkpoint into a Hugging Face directory, or a DeepSpeed checkpoint into a libzero one",
        .detail = "Checksums are compared while files are read. It needs a few MiB of memory for a model of any size. --dtype and --shard-size belong to --format hf. "
                  "A Hugging Face directory needs no conversion into a checkpoint: zero train --model starts from it."},
    [CLI_TOKENIZE] = {.name = "tokenize", .usage = "--tokenizer bytes|DIR|FILE --data FILE... --out FILE.bin [OPTION...]", .run = cli_tokenize,
        .purpose = "turn text and records into a token file, once",
        .detail = "The file has llm.c's format: uint16 if all ids fit, else uint32. The ids are those that zero train reads from the same data, for any --threads; the "
                  "tokenizer's end token, if it has one, follows each text and record. Records with prompts are refused, because a token file cannot say what is not a target. FILE.bin.json "
                  "names the tokenizer of the ids."},
    [CLI_TOKENIZER] = {.name = "tokenizer", .usage = "train --data FILE... --out DIR [--vocab N]", .choices = "train", .run = cli_tokenizer,
        .purpose = "learn a tokenizer of your own from text",
        .detail = "A byte-level BPE with GPT-2's pre-tokenizer, in a tokenizer.json that transformers opens. The same text gives the same file."},
    [CLI_PLAN] = {.name = "plan", .usage = "--new SPEC | --model DIR|config.json | --params X  [--ranks N | --memory BYTES] [OPTION...]",
        .run = cli_plan, .purpose = "show the bytes of every rank at every stage, without a run",
        .detail = "With --memory and without --ranks it answers \"what do I need?\": a table of stages and ranks that fit, and the command to run. "
                  "--program and --draw show how a step is made: docs/how-it-works.md reads them."},
    [CLI_BENCH] = {.name = "bench", .usage = "comm|gemm|optimizer|step|checkpoint|memory|io [OPTION...]", .choices = "comm|gemm|optimizer|step|checkpoint|memory|io", .run = cli_bench,
        .purpose = "measure communication, matrix products, the optimizer, a training step, checkpoints, memory and disks on this machine",
        .detail = "optimizer times norm, clip, AdamW and the 16-bit copy over a rank's shard. step takes a model (--new, 4 samples of its context unless told otherwise) through steps of training and prints the "
                  "step's time, the time of its matrix products alone, their ratio (efficiency), the step against its floor (products at "
                  "their best, everything else at memory's bandwidth), and where the time went. memory measures copies and updates in "
                  "place with 1 to T threads. io reads, writes, and updates in place as training with states on NVMe does, with the engine "
                  "that training uses. Both keep their figures for plans ($XDG_CACHE_HOME or ~/.cache, libzero/bandwidth.json). checkpoint saves "
                  "a model's training state under --path and loads it again, five times. Only step and checkpoint read the options that describe a model."},
    [CLI_DATA] = {.name = "data", .usage = "show --data FILE... [--model DIR | --tokenizer KIND] [OPTION...]", .choices = "show", .run = cli_data,
        .purpose = "show the first batch that a training run would read, as text",
        .detail = "Text that the loss does not count (prompts, and the first token of each window) is dimmed on a terminal; elsewhere, or if "
                  "NO_COLOR is set, it is in [brackets]. A new line follows each end token. The first line says so."},
    [CLI_DOCTOR] = {.name = "doctor", .usage = "[--path DIR]", .run = cli_doctor, .purpose = "show what this machine is, what it lacks, and how large a model it takes",
        .detail = "The disk of DIR is measured for about a second, in a scratch file that is removed afterwards."},
};

cli_wording cli_option_wording(const cli_option *row, const cli_command *command)
{
    cli_wording wording = {.help = row->help, .standard_text = row->standard_text, .choices = row->choices};
    for (int i = 0; i < CLI_MOST_WORDINGS; i++) {
        const cli_wording *own = &row->differs[i];
        if (!(own->commands >> (command - cli_commands) & 1))
            continue;
        wording.help = own->help;
        wording.standard_text = own->standard_text ? own->standard_text : wording.standard_text;
        wording.choices = own->choices ? own->choices : wording.choices;
    }
    if (!wording.standard_text)
        wording.standard_text = row->standard;
    else if (!*wording.standard_text)
        wording.standard_text = NULL;
    return wording;
}
