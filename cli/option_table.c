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

const cli_option cli_options[CLI_OPTIONS] = {
    [OPT_NEW] = {.name = "--new", .argument = "SPEC", .kind = CLI_TEXT, .commands = TRAIN | PLAN | BENCH,
        .help = "new random weights: a preset (gpt2, gpt2-medium, llama, mistral, qwen2, qwen3, smollm2-135m, llama-3.2-1b, ...; docs/models.md), or one with fields, "
                "gpt2:layers=4,heads=4,width=128,context=64[,vocab=V][,dropout=P], llama:layers=4,heads=8,kv_heads=2,width=256[,inner=F][,head_dim=D][,theta=X][,tied=0]"},
    [OPT_MODEL] = {.name = "--model", .argument = "DIR", .kind = CLI_TEXT, .commands = TRAIN | EVAL | GENERATE | CONVERT | PLAN | BENCH | DATA,
        .help = "a directory in Hugging Face's layout of a GPT-2, Llama, Mistral, Qwen2 or Qwen3 (plan: or its config.json); convert: whose config.json "
                "and tokenizer are taken; bench: the same as --new"},
    [OPT_PARAMS] = {.name = "--params", .argument = "X", .kind = CLI_COUNT, .commands = PLAN | BENCH, .least = 1, .most = 1e15,
        .help = "only a number of parameters (7.5e9, 124M): the paper's formulas; bench optimizer: those of a rank"},
    [OPT_DATA] = {.name = "--data", .argument = "FILE...", .kind = CLI_TEXTS, .commands = TRAIN | EVAL | VERIFY | TOKENIZE | TOKENIZER | DATA,
        .help = "[KIND:]PATH[:WEIGHT] each: text, JSONL or token files, patterns too; one after another, or mixed by weights that all have (docs/data.md); "
                "tokenize, tokenizer: text and JSONL, without weights; verify: where the data of the run lie now"},
    [OPT_VAL] = {.name = "--val", .argument = "FILE|none", .kind = CLI_TEXT, .commands = TRAIN | DATA,
        .standard_text = "the last tenth of each of --data", .help = "held-out data, or none"},
    [OPT_FIELD] = {.name = "--field", .argument = "NAME", .kind = CLI_TEXT, .commands = TRAIN | EVAL | GENERATE | TOKENIZE | TOKENIZER | DATA,
        .standard_text = "what a record has: messages; prompt and completion; text; generate: prompt", .help = "the field of JSONL records that is read, and no other"},
    [OPT_CHAT] = {.name = "--chat", .argument = "FORMAT", .kind = CLI_CHOICE, .commands = TRAIN | EVAL | GENERATE | TOKENIZE | DATA,
        .choices = "auto|chatml|llama2|llama3|llama3.1|mistral|mistral-spaced|mistral-2024", .standard_text = "auto: by the model's chat template; generate: no chat",
        .help = "how messages are written; generate: each prompt is what a user says, and the answer the assistant's"},
    [OPT_TOKENIZER] = {.name = "--tokenizer", .argument = "KIND", .kind = CLI_TEXT, .commands = TRAIN | TOKENIZE | DATA,
        .standard_text = "bytes, or the one of --model",
        .help = "what a token is: bytes, chars (the characters of the text), or a directory or file with a BPE: tokenizer.json, or vocab.json and merges.txt"},
    [OPT_VOCAB] = {.name = "--vocab", .argument = "N", .kind = CLI_INTEGER, .commands = TOKENIZER, .least = 257, .most = 1e7,
        .standard = "4096", .help = "tokens: the 256 bytes, the end of a text, and what is learnt"},
    [OPT_SPECIAL] = {.name = "--special", .kind = CLI_FLAG, .commands = TOKENIZE,
        .help = "what spells a special token in the text (<|endoftext|>) is that token; without it, text"},
    [OPT_OUT] = {.name = "--out", .argument = "PATH", .kind = CLI_TEXT, .commands = TRAIN | TOKENIZE | TOKENIZER,
        .help = "a directory: where metrics.jsonl, config.json, model/ and best/ go, or the tokenizer; tokenize: the token file"},
    [OPT_CONFIG] = {.name = "--config", .argument = "FILE", .kind = CLI_TEXT, .commands = TRAIN | EVAL | GENERATE | PLAN,
        .help = "a DeepSpeed configuration file; flags win over it"},
    [OPT_RANKS] = {.name = "--ranks", .argument = "N", .kind = CLI_INTEGER, .commands = TRAIN | RUN | PLAN | BENCH,
        .least = 1, .most = 1048576, .standard_text = "1, or the launcher's", .help = "processes on this machine (train, run: at most 1024)"},
    [OPT_THREADS] = {.name = "--threads", .argument = "T", .kind = CLI_INTEGER, .commands = TRAIN | EVAL | GENERATE | BENCH | TOKENIZE | DATA,
        .least = 1, .most = 1024, .standard_text = "the cores this machine allows, divided by its ranks", .help = "threads of a rank"},
    [OPT_COMM] = {.name = "--comm", .argument = "KIND", .kind = CLI_CHOICE, .commands = TRAIN | VERIFY | BENCH, .choices = "auto|self|local|mpi",
        .standard = "auto", .help = "how ranks talk; auto takes shared memory on one machine"},
    [OPT_TIMEOUT] = {.name = "--timeout", .argument = "SECONDS", .kind = CLI_REAL, .commands = TRAIN | VERIFY | BENCH, .least = 0.1, .most = 1e6,
        .standard = "60", .help = "a rank without progress for longer ends the run"},
    [OPT_BACKEND] = {.name = "--backend", .argument = "NAME", .kind = CLI_CHOICE, .commands = TRAIN | EVAL | GENERATE, .choices = "cpu|ref",
        .standard = "cpu", .help = "cpu, or ref: the same arithmetic in plain C, slow"},
    [OPT_DTYPE] = {.name = "--dtype", .argument = "TYPE", .kind = CLI_CHOICE, .commands = TRAIN | EVAL | GENERATE | CONVERT | PLAN | BENCH,
        .choices = "fp32|bf16|fp16|auto", .standard_text = "the configuration's, or fp32",
        .help = "precision: bf16 and fp16 keep fp32 master weights; auto: bf16 where the processor multiplies it, else fp32; convert: of the weights written"},
    [OPT_STAGE] = {.name = "--stage", .argument = "0..3", .kind = CLI_INTEGER, .commands = TRAIN | PLAN | BENCH, .least = 0, .most = 3,
        .standard_text = "the configuration's", .help = "what is divided among ranks: 1 optimizer, 2 and gradients, 3 and parameters"},
    [OPT_MICRO_BATCH] = {.name = "--micro-batch", .argument = "B", .kind = CLI_INTEGER, .commands = TRAIN | PLAN | BENCH | DATA, .least = 1, .most = 1048576,
        .standard_text = "by the model's size", .help = "samples a rank computes at once"},
    [OPT_ACCUMULATION] = {.name = "--accumulation", .argument = "K", .kind = CLI_INTEGER, .commands = TRAIN | PLAN | BENCH, .least = 1, .most = 1048576,
        .standard_text = "1", .help = "micro-batches a rank and step"},
    [OPT_SEQ] = {.name = "--seq", .argument = "T", .kind = CLI_INTEGER, .commands = TRAIN | EVAL | PLAN | BENCH | DATA, .least = 1, .most = 1048576,
        .standard_text = "the model's context", .help = "tokens of a window"},
    [OPT_STEPS] = {.name = "--steps", .argument = "N", .kind = CLI_INTEGER, .commands = TRAIN, .least = 1, .most = 1e12,
        .standard_text = "a few passes over the text", .help = "updates to make"},
    [OPT_EPOCHS] = {.name = "--epochs", .argument = "E", .kind = CLI_REAL, .commands = TRAIN, .least = 1e-6, .most = 1e6,
        .help = "passes over the text, instead of --steps"},
    [OPT_LR] = {.name = "--lr", .argument = "X", .kind = CLI_REAL, .commands = TRAIN, .least = 1e-12, .most = 1e3,
        .standard_text = "by the model's size", .help = "highest learning rate"},
    [OPT_SEED] = {.name = "--seed", .argument = "S", .kind = CLI_INTEGER, .commands = TRAIN | GENERATE | DATA, .least = 0, .most = INT64_SAFE,
        .standard_text = "1337", .help = "of weights, order of the data and dropout; of sampling"},
    [OPT_EVAL_EVERY] = {.name = "--eval-every", .argument = "N", .kind = CLI_INTEGER, .commands = TRAIN, .least = 0, .most = 1e12,
        .standard_text = "ten times a run", .help = "steps between evaluations; 0: never"},
    [OPT_SAMPLE_EVERY] = {.name = "--sample-every", .argument = "N", .kind = CLI_INTEGER, .commands = TRAIN, .least = 0, .most = 1e12,
        .standard = "0", .help = "steps between samples of text; 0: never"},
    [OPT_PROFILE] = {.name = "--profile", .argument = "FILE", .kind = CLI_TEXT, .commands = TRAIN,
        .help = "where the time of steps 3 to 5 goes, on every rank: a trace for ui.perfetto.dev or chrome://tracing"},
    [OPT_DRY_RUN] = {.name = "--dry-run", .kind = CLI_FLAG, .commands = TRAIN, .help = "configuration, plan and one step; nothing is kept"},
    [OPT_STRICT] = {.name = "--strict", .kind = CLI_FLAG, .commands = TRAIN, .help = "a flag that contradicts the file is an error"},
    [OPT_QUIET] = {.name = "--quiet", .kind = CLI_FLAG, .commands = TRAIN | CONVERT, .help = "print nothing but errors"},
    [OPT_OVERWRITE] = {.name = "--overwrite", .kind = CLI_FLAG, .commands = TRAIN | CONVERT | TOKENIZE | TOKENIZER,
        .help = "replace what --out already holds; convert: the model at --to"},
    [OPT_SAVE_EVERY] = {.name = "--save-every", .argument = "N", .kind = CLI_INTEGER, .commands = TRAIN, .least = 0, .most = 1e12,
        .standard = "0", .help = "steps between checkpoints in OUT/checkpoints; 0: by time alone"},
    [OPT_SAVE_SECONDS] = {.name = "--save-seconds", .argument = "S", .kind = CLI_REAL, .commands = TRAIN, .least = 0, .most = 1e9,
        .standard = "1800", .help = "a checkpoint where the last one is so old; 0: by steps alone"},
    [OPT_KEEP] = {.name = "--keep", .argument = "N", .kind = CLI_INTEGER, .commands = TRAIN, .least = 0, .most = 1e9,
        .standard = "2", .help = "newest checkpoints that stay; 0: all"},
    [OPT_RESUME] = {.name = "--resume", .kind = CLI_FLAG, .commands = TRAIN,
        .help = "go on from the newest whole checkpoint of --out, or from the start where there is none"},
    [OPT_GRACE] = {.name = "--grace", .argument = "SECONDS", .kind = CLI_REAL, .commands = RUN, .least = 0.001, .most = 1e9,
        .standard = "30", .help = "after SIGTERM or Ctrl-C, which are passed on, ranks that still run are killed; a second one kills at once"},
    [OPT_RESTARTS] = {.name = "--restarts", .argument = "N", .kind = CLI_INTEGER, .commands = TRAIN | RUN, .least = 0, .most = 1e6, .standard = "0",
        .help = "when a rank dies, start all again, at most so often: a training goes on from its last checkpoint, a program finds ZERO_RESTART"},
    [OPT_MIN_RANKS] = {.name = "--min-ranks", .argument = "M", .kind = CLI_INTEGER, .commands = TRAIN | RUN, .least = 1, .most = 1048576,
        .standard_text = "as many as before", .help = "restart with the ranks that remain, M at least"},
    [OPT_FROM_STEP] = {.name = "--from-step", .argument = "S", .kind = CLI_INTEGER, .commands = VERIFY, .least = 1, .most = INT64_SAFE,
        .standard_text = "the newest before the later one", .help = "checkpoint to replay from"},
    [OPT_TO_STEP] = {.name = "--to-step", .argument = "S", .kind = CLI_INTEGER, .commands = VERIFY, .least = 2, .most = INT64_SAFE,
        .standard_text = "the newest", .help = "checkpoint to replay to"},
    [OPT_PROMPT] = {.name = "--prompt", .argument = "TEXT", .kind = CLI_EACH, .commands = GENERATE,
        .standard_text = "the tokenizer's begin token, else a new line", .help = "what the text begins with; given several times, several texts"},
    [OPT_PROMPTS] = {.name = "--prompts", .argument = "FILE", .kind = CLI_TEXT, .commands = GENERATE,
        .help = "prompts, after those of --prompt: a line each, or of JSONL (*.jsonl, or jsonl:FILE) a record's --field"},
    [OPT_BATCH] = {.name = "--batch", .argument = "N", .kind = CLI_INTEGER, .commands = GENERATE, .least = 1, .most = 4096,
        .standard = "8", .help = "prompts that are answered at once, at most"},
    [OPT_IGNORE_END] = {.name = "--ignore-end", .kind = CLI_FLAG, .commands = GENERATE, .help = "go on after the model's end token, up to --tokens"},
    [OPT_TOKENS] = {.name = "--tokens", .argument = "N", .kind = CLI_INTEGER, .commands = GENERATE, .least = 1, .most = 1e9,
        .standard = "200", .help = "tokens to generate for each prompt, at most"},
    [OPT_TEMPERATURE] = {.name = "--temperature", .argument = "X", .kind = CLI_REAL, .commands = GENERATE, .least = 0, .most = 100,
        .standard = "0.8", .help = "0 takes the likeliest token"},
    [OPT_TOP_K] = {.name = "--top-k", .argument = "K", .kind = CLI_INTEGER, .commands = GENERATE, .least = 0, .most = INT_MOST,
        .standard = "0", .help = "only the K likeliest tokens; 0: all"},
    [OPT_TOP_P] = {.name = "--top-p", .argument = "P", .kind = CLI_REAL, .commands = GENERATE, .least = 1e-6, .most = 1,
        .standard = "1", .help = "only the likeliest tokens that together have probability P"},
    [OPT_FROM] = {.name = "--from", .argument = "PATH", .kind = CLI_TEXT, .commands = CONVERT,
        .help = "a checkpoint, a run (its newest whole checkpoint), a Hugging Face directory, or a DeepSpeed checkpoint of ZeRO stage 1, 2 or 3"},
    [OPT_TO] = {.name = "--to", .argument = "DIR", .kind = CLI_TEXT, .commands = CONVERT, .help = "what is made; it is there whole or not at all"},
    [OPT_FORMAT] = {.name = "--format", .argument = "KIND", .kind = CLI_CHOICE, .commands = CONVERT, .choices = "hf|libzero", .standard = "hf",
        .help = "hf: a model directory; libzero: DIR/checkpoints/step-N, weights and the optimizer's states, from which train --resume goes on"},
    [OPT_SHARD_SIZE] = {.name = "--shard-size", .argument = "BYTES", .kind = CLI_BYTES, .commands = CONVERT, .least = 1, .most = INT64_SAFE,
        .standard_text = "5GB", .help = "of tensors in a file; what is larger becomes several, and an index"},
    [OPT_SUMS] = {.name = "--sums", .kind = CLI_FLAG, .commands = INSPECT, .help = "least, most, mean, root mean square and checksum of every tensor"},
    [OPT_VERIFY] = {.name = "--verify", .kind = CLI_FLAG, .commands = INSPECT, .help = "compare every byte with its checksum; damage is named, and ends with 65"},
    [OPT_MEMORY] = {.name = "--memory", .argument = "BYTES", .kind = CLI_BYTES, .commands = PLAN, .least = 1, .most = INT64_SAFE,
        .help = "what a rank may hold (24GB, 512MiB); without --ranks: what do I need?"},
    [OPT_DEVICE_MEMORY] = {.name = "--device-memory", .argument = "BYTES", .kind = CLI_BYTES, .commands = TRAIN | EVAL | GENERATE | PLAN,
        .least = 1, .most = INT64_SAFE, .standard_text = "the configuration's, or what the machine has",
        .help = "what a rank may hold on its device (24GB, 512MiB)"},
    [OPT_HOST_MEMORY] = {.name = "--host-memory", .argument = "BYTES", .kind = CLI_BYTES, .commands = TRAIN | EVAL | GENERATE | PLAN,
        .least = 1, .most = INT64_SAFE, .standard_text = "the configuration's, or what the machine has",
        .help = "what the ranks of a machine may hold on its host, in equal parts"},
    [OPT_JSON] = {.name = "--json", .kind = CLI_FLAG, .commands = INSPECT | GENERATE | PLAN | BENCH,
        .help = "the same as JSON; generate: an object a line for each prompt; bench: memory and io"},
    [OPT_SECONDS] = {.name = "--seconds", .argument = "X", .kind = CLI_REAL, .commands = BENCH, .least = 0.001, .most = 60,
        .standard = "0.2", .help = "time for each figure, about; bench io: of a round at least"},
    [OPT_PATH] = {.name = "--path", .argument = "DIR", .kind = CLI_TEXT, .commands = BENCH | DOCTOR,
        .standard_text = "the current directory", .help = "a directory of the disk to measure; bench: io, checkpoint"},
    [OPT_BLOCK] = {.name = "--block", .argument = "BYTES", .kind = CLI_BYTES, .commands = BENCH, .least = 4096, .most = 1 << 30,
        .standard = "1MiB", .help = "bench io: bytes of a transfer, a multiple of 4096 (aio.block_size)"},
    [OPT_DEPTH] = {.name = "--depth", .argument = "N", .kind = CLI_INTEGER, .commands = BENCH, .least = 1, .most = 256,
        .standard = "8", .help = "bench io: transfers under way (aio.queue_depth)"},
    [OPT_BYTES] = {.name = "--bytes", .argument = "BYTES", .kind = CLI_BYTES, .commands = BENCH, .least = 16384, .most = INT64_SAFE,
        .standard = "1GiB", .help = "bench io: of scratch files at most; half of what is free is never exceeded"},
    [OPT_HELP] = {.name = "--help", .kind = CLI_FLAG, .commands = EVERY, .help = "this text"},
};

const cli_command cli_commands[CLI_COMMANDS] = {
    [CLI_TRAIN] = {.name = "train", .usage = "--new SPEC | --model DIR  --data FILE...  --out DIR  [OPTION...]", .run = cli_train,
        .purpose = "train a model on text with ZeRO stages 0 to 3",
        .detail = "DIR of --out gets metrics.jsonl (one object a step), config.json as resolved, model/ (the last weights, which "
                  "Hugging Face's transformers opens) and, where text is held out, best/. Under mpirun or srun --ranks is not needed. SIGTERM, SIGUSR1, "
                  "Ctrl-C and the end of a Slurm allocation (SLURM_JOB_END_TIME): all ranks save after the step under way, the command that "
                  "goes on is printed, and the exit code is 75; a second signal ends it now. With --resume, and after a restart, other ranks "
                  "than before make steps of as many samples."},
    [CLI_RUN] = {.name = "run", .usage = "--ranks N PROGRAM [ARG...]", .runs_program = true, .run = cli_run,
        .purpose = "start a program of your own on N ranks of this machine",
        .detail = "Each rank finds RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE in its environment; zero_comm_open reads them. "
                  "If one rank fails, the others are ended. SIGTERM, Ctrl-C (as SIGTERM) and SIGUSR1 are passed on."},
    [CLI_EVAL] = {.name = "eval", .usage = "--model DIR --data FILE... [OPTION...]", .run = cli_eval,
        .purpose = "mean cross-entropy of a text",
        .detail = "Windows start at i*T, i < floor((n-1)/T); targets are shifted by one, the tail is dropped; each target that counts (prompts do not) counts once. Standard output: a line "
                  "`loss X` (nats), then perplexity and bits_per_byte. Of --config precision, offload_param and budgets are read, as by "
                  "generate: parameters on the host or on NVMe give the same bits."},
    [CLI_GENERATE] = {.name = "generate", .usage = "--model DIR [--prompt TEXT]... [--prompts FILE] [OPTION...]", .run = cli_generate,
        .purpose = "text sampled from a model",
        .detail = "A prompt becomes the tokens that transformers' tokenizer gives, begin token and special tokens included. One prompt: it and its answer as that comes. "
                  "Several: each answer, when it and those before it are complete, under a line `--- prompt I: N tokens ---` (`, ended` where the model ended it). A "
                  "prompt's answer depends on --seed and its number, not on the others. It ends at eos_token_id of generation_config.json, else of config.json, "
                  "else the tokenizer's end token; where the context is full, its later half is read again, which a warning says. With --config parameters lie "
                  "where offload_param says, on the host or on NVMe: the text is the same."},
    [CLI_DIFF] = {.name = "diff", .usage = "A B", .takes_paths = true, .run = cli_diff,
        .purpose = "whether two runs, checkpoints or models are the same, and where they part",
        .detail = "Two runs (--out): what their steps computed, checkpoints of the same steps, and models. Or two of a checkpoint, a Hugging Face "
                  "directory, a file *.safetensors. Ends with 1 where they differ."},
    [CLI_VERIFY] = {.name = "verify", .usage = "DIR [OPTION...]", .takes_path = true, .run = cli_verify,
        .purpose = "replay the steps between two checkpoints of a run and compare every bit",
        .detail = "DIR is the --out of a training. As many ranks and threads as made it compute its steps again, from its own config.json; losses, "
                  "weights and optimizer states must come out the same. Its models are compared with their receipt.json. Nothing in DIR changes. "
                  "Ends with 1 where the run is not confirmed."},
    [CLI_INSPECT] = {.name = "inspect", .usage = "PATH... [--sums] [--verify] [--json]", .takes_paths = true, .run = cli_inspect,
        .purpose = "what a checkpoint, a run or a model holds, and whether it is whole",
        .detail = "PATH is a checkpoint, a run (--out), a Hugging Face directory, a file *.safetensors, or a DeepSpeed checkpoint of ZeRO stage 1, "
                  "2 or 3, whose pickles are parsed and never executed."},
    [CLI_CONVERT] = {.name = "convert", .usage = "--from PATH --to DIR [--format hf|libzero] [OPTION...]", .run = cli_convert,
        .purpose = "a checkpoint, ours or DeepSpeed's, as a model directory; DeepSpeed's as one of ours",
        .detail = "Checksums of what is read are compared, memory is a few MiB whatever the size. --dtype and --shard-size are of --format hf. "
                  "A Hugging Face directory needs no conversion into a checkpoint: zero train --model starts from it."},
    [CLI_TOKENIZE] = {.name = "tokenize", .usage = "--tokenizer bytes|DIR|FILE --data FILE... --out FILE.bin [OPTION...]", .run = cli_tokenize,
        .purpose = "text and records to a token file, once",
        .detail = "The file has llm.c's format: uint16 where ids fit, else uint32. The ids are those that a training reads of these data, whatever --threads; the "
                  "tokenizer's end token, where it has one, follows each text and record. Records with prompts are refused: a token file cannot say what is no target. FILE.bin.json "
                  "says which tokenizer the ids are of."},
    [CLI_TOKENIZER] = {.name = "tokenizer", .usage = "train --data FILE... --out DIR [--vocab N]", .choices = "train", .run = cli_tokenizer,
        .purpose = "a tokenizer of your own, learnt from text",
        .detail = "A byte-level BPE with GPT-2's pre-tokenizer, in a tokenizer.json that transformers opens. The same text gives the same file."},
    [CLI_PLAN] = {.name = "plan", .usage = "--new SPEC | --model DIR|config.json | --params X  [--ranks N | --memory BYTES] [OPTION...]",
        .run = cli_plan, .purpose = "bytes of every rank at every stage, without a run",
        .detail = "With --memory and without --ranks: what do I need? A table of stages and ranks that fit, and the command to run."},
    [CLI_BENCH] = {.name = "bench", .usage = "comm|gemm|optimizer|step|checkpoint|memory|io [OPTION...]", .choices = "comm|gemm|optimizer|step|checkpoint|memory|io", .run = cli_bench,
        .purpose = "what communication, matrix products, the optimizer, a training step, checkpoints, memory and disks reach on this machine",
        .detail = "optimizer times norm, clip, AdamW and the 16-bit copy over a rank's shard. step takes a model (--new, 4 samples of its context unless told otherwise) through steps of training and prints the "
                  "step's time, what its matrix products alone take, their ratio (efficiency), the step against its floor (products at "
                  "their best, everything else at memory's bandwidth), and where the time went. memory measures copies and updates in "
                  "place with 1 to T threads. io reads, writes, and updates in place as training with states on NVMe does, with the engine "
                  "that training uses. Both keep their figures for plans ($XDG_CACHE_HOME or ~/.cache, libzero/bandwidth.json). checkpoint saves "
                  "a model's training state under --path and loads it again, five times. Only step and checkpoint read the options that describe a model."},
    [CLI_DATA] = {.name = "data", .usage = "show --data FILE... [--model DIR | --tokenizer KIND] [OPTION...]", .choices = "show", .run = cli_data,
        .purpose = "show what a training would read: the first batch, as text",
        .detail = "What the loss does not count, prompts and the first token of each window, is dimmed on a terminal, and stands in [brackets] elsewhere or where "
                  "NO_COLOR is set. After an end token comes a new line. --seq is 128 and --micro-batch 2 where neither they nor a model say more."},
    [CLI_DOCTOR] = {.name = "doctor", .usage = "[--path DIR]", .run = cli_doctor, .purpose = "what this machine is, what it lacks, and how large a model it takes",
        .detail = "The disk behind DIR is measured for about a second, in a scratch file that is gone afterwards."},
};
