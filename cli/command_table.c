// The table of subcommands. To add one: a name in cli_command_id, a row here, and a file cmd_NAME.c
// that runs it.
#include "option_table.h"

const cli_command cli_commands[CLI_COMMANDS] = {
    [CLI_TRAIN] =
        {.name = "train",
         .usage = "--new SPEC | --model DIR  --data FILE...  [--out DIR]  [OPTION...]",
         .out = "run",
         .run = cli_train,
         .purpose = "train a model on text with ZeRO stages 0 to 3",
         .detail = "The directory of --out gets metrics.jsonl (one object per step), config.json "
                   "(the configuration that was used), model/ (the last weights, which Hugging "
                   "Face's transformers opens), if text is held out, best/, and a checkpoint of "
                   "the last step, from which --resume with more --steps trains on. Under mpirun "
                   "or srun --ranks is not needed. On SIGTERM, SIGUSR1, Ctrl-C, and when a Slurm "
                   "allocation ends (SLURM_JOB_END_TIME), all ranks save after the current step, "
                   "the command that continues the run is printed, and the exit code is 75; a "
                   "second signal stops the program at once. With --resume, and after a restart, a "
                   "different number of ranks keeps the number of samples per step."},
    [CLI_RUN] = {.name = "run",
                 .usage = "--ranks N PROGRAM [ARG...]",
                 .runs_program = true,
                 .run = cli_run,
                 .purpose = "start a program of your own on N ranks of this machine",
                 .detail =
                     "Each rank finds RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE in its "
                     "environment; zero_comm_open reads them. If one rank fails, the others are "
                     "ended. SIGTERM, Ctrl-C (as SIGTERM) and SIGUSR1 are passed on."},
    [CLI_EVAL] = {.name = "eval",
                  .usage = "--model DIR --data FILE... [OPTION...]",
                  .run = cli_eval,
                  .purpose = "measure the mean cross-entropy of a text",
                  .detail =
                      "Windows start at i*T, i < floor((n-1)/T); targets are shifted by one, the "
                      "tail is dropped; each target that counts (prompts do not) counts once. "
                      "Standard output: a line `loss X` (nats), then perplexity and bits_per_byte; "
                      "--json has the windows, tokens and bytes, too. "
                      "From --config only precision, offload_param, budgets and "
                      "libzero.exact_tensor are read, as in zero generate: parameters on the host "
                      "or on NVMe give the same bits; --tensor says who computes the slices."},
    [CLI_GENERATE] =
        {.name = "generate",
         .usage = "--model DIR [--prompt TEXT]... [--prompts FILE] [OPTION...]",
         .run = cli_generate,
         .purpose = "write text with a model",
         .detail = "A prompt becomes the tokens that transformers' tokenizer gives, begin token "
                   "and special tokens included. One prompt is printed with its answer as that "
                   "comes. With several, each answer is printed when it and those before it are "
                   "complete, under a line `--- prompt I: N tokens ---` (`, ended` if the model "
                   "ended it). A prompt's answer depends on --seed and the prompt's number, not on "
                   "the other prompts. It ends at eos_token_id of generation_config.json, else of "
                   "config.json, else at the tokenizer's end token. When the context is full, its "
                   "later half is read again, and a warning says so. With --config, parameters are "
                   "kept where offload_param says, on the host or on NVMe; the text is the same. "
                   "Of its keys about tensor ranks libzero.exact_tensor alone is read."},
    [CLI_DIFF] =
        {.name = "diff",
         .usage = "A B [--json]",
         .takes_paths = true,
         .run = cli_diff,
         .purpose = "compare two runs, checkpoints or models, and say where they differ first",
         .detail =
             "A and B are two runs (--out): what their steps computed, checkpoints of the "
             "same steps, and models are compared. Or each is a checkpoint, a Hugging Face "
             "directory, a file *.safetensors, or a GGUF file. The exit code is 1 if they differ."},
    [CLI_VERIFY] = {.name = "verify",
                    .usage = "DIR [OPTION...]",
                    .takes_path = true,
                    .run = cli_verify,
                    .purpose =
                        "replay the steps between two checkpoints of a run and compare every bit",
                    .detail =
                        "DIR is the --out of a training run. Its steps are computed again on the "
                        "number of ranks (and, without --threads, of threads) that made it, from "
                        "its own config.json; losses, weights and optimizer states must come out "
                        "the same. Its models are compared with their receipt.json. Nothing in DIR "
                        "changes. The exit code is 1 if the run is not confirmed."},
    [CLI_INSPECT] =
        {.name = "inspect",
         .usage = "PATH... [--sums] [--verify] [--json]",
         .takes_paths = true,
         .run = cli_inspect,
         .purpose = "show what a checkpoint, a run or a model holds, and whether it is intact",
         .detail =
             "PATH is a checkpoint, a run (--out), a Hugging Face directory, a "
             "file *.safetensors, a GGUF file, a DeepSpeed checkpoint of ZeRO stage 1, 2 or 3, "
             "or pytorch_model.bin or its directory; pickles are parsed and never executed."},
    [CLI_CONVERT] =
        {.name = "convert",
         .usage = "--from PATH [--adapter DIR] [--to DIR|FILE.gguf] [--format hf|libzero|gguf] "
                  "[OPTION...]",
         .out = "converted",
         .run = cli_convert,
         .purpose =
             "turn a checkpoint into a Hugging Face directory or a GGUF file, or a DeepSpeed "
             "checkpoint into a libzero one",
         .detail =
             "Checksums are compared while files are read. It needs a few MiB of memory for a "
             "model of any size, and up to 100 MiB for GPT-2's as GGUF. --dtype and --shard-size "
             "belong to --format hf, --type and --base to gguf. With --adapter the model is "
             "written with the adapter in its weights. A Hugging Face "
             "directory needs no conversion into a checkpoint: zero train --model starts from it."},
    [CLI_TOKENIZE] =
        {.name = "tokenize",
         .usage = "--tokenizer bytes|DIR|FILE --data FILE... [--out FILE.bin] [OPTION...]",
         .out = "tokens.bin",
         .run = cli_tokenize,
         .purpose = "turn text and records into a token file, once",
         .detail = "The file has llm.c's format: uint16 if all ids fit, else uint32. The ids are "
                   "those that zero train reads from the same data, for any --threads; the "
                   "tokenizer's end token, if it has one, follows each text and record. Records "
                   "with prompts are refused, because a token file cannot say what is not a "
                   "target. FILE.bin.json names the tokenizer of the ids."},
    [CLI_TOKENIZER] = {.name = "tokenizer",
                       .usage = "train --data FILE... [--out DIR] [--vocab N]",
                       .out = "tokenizer",
                       .choices = "train",
                       .run = cli_tokenizer,
                       .purpose = "learn a tokenizer of your own from text",
                       .detail = "A byte-level BPE with GPT-2's pre-tokenizer, in a tokenizer.json "
                                 "that transformers opens. The same text gives the same file."},
    [CLI_PLAN] = {.name = "plan",
                  .usage = "--new SPEC | --model DIR|config.json | --params X  [--ranks N | "
                           "--memory BYTES] [OPTION...]",
                  .run = cli_plan,
                  .purpose = "show the bytes of every rank at every stage, without a run",
                  .detail = "With --memory and without --ranks it answers \"what do I need?\": a "
                            "table of stages and ranks that fit into a machine together, and the "
                            "command to run, or the least change with which it would. --program "
                            "and --draw show how a step is made: docs/how-it-works.md reads them. "
                            "--machines shows who is where and what crosses the network: "
                            "docs/parallelism.md compares grids."},
    [CLI_TUNE] =
        {.name = "tune",
         .usage = "--new SPEC | --model DIR  --data FILE...  [--config FILE] [OPTION...]",
         .run = cli_tune,
         .purpose = "find the fastest way to train a model on this machine",
         .detail = "What --config and the flags do not say is open: ranks x threads, tensor x "
                   "pipeline x data, schedule, stage, micro-batch x accumulation at the same "
                   "samples a step, activation checkpoints, tiers, tiles. What does not fit is "
                   "dropped by its plan, the rest is predicted, and the best are measured in turn "
                   "by short trainings. The directory of --out gets tuned.json, a DeepSpeed file "
                   "for --config, and what was found; the last line is the command to run. "
                   "docs/tuning.md has an example."},
    [CLI_COMPARE] =
        {.name = "compare",
         .usage = "--new SPEC | --model DIR  [--data FILE...] [--ranks N] [OPTION...]",
         .run = cli_compare,
         .purpose = "train one model in every way that ranks can share the work, side by side",
         .detail =
             "Data parallelism, ZeRO stages 1 to 3, tensor parallelism, a pipeline, all three axes "
             "(with 4 or 8 ranks), and states off the device train in turn, with the same samples "
             "a step. Prints what each needs, its step as predicted and measured, the bytes that "
             "ranks exchange, the largest model that fits, and what a user writes for it. A way "
             "that cannot be, does not fit or fails is one line. Without --data a text is made "
             "up. More ranks than cores take turns, which the tables say."},
    [CLI_SIMULATE] =
        {.name = "simulate",
         .usage = "--new SPEC --ranks N | --model DIR --ranks N | --run FILE  --machine NAME "
                  "[OPTION...]",
         .run = cli_simulate,
         .purpose = "predict a step on machines that are not here",
         .detail =
             "Prints how long a step takes, where its time goes, what memory a device needs, what "
             "crosses which links, and the fitted constants of the machine. Machines are data: "
             "v100-dgx2, a100-dgx, h100-hgx and others are built in, machines/NAME.json below the "
             "working directory wins over them, and zero doctor --write-machine writes that of "
             "this machine. tools/score-runs predicts tables of published runs and scores the "
             "predictions. docs/scale.md says what is modelled, and what is not."},
    [CLI_BENCH] =
        {.name = "bench",
         .usage = "comm|gemm|optimizer|blocks|step|checkpoint|memory|io [OPTION...]",
         .choices = "comm|gemm|optimizer|blocks|step|checkpoint|memory|io",
         .run = cli_bench,
         .purpose = "measure communication, matrix products, the optimizer, numbers in blocks, a "
                    "training step, checkpoints, memory and disks on this machine",
         .detail =
             "optimizer times norm, clip, AdamW and the 16-bit copy over a rank's shard, and "
             "Muon's iteration on three matrices, in both of its methods. blocks encodes and "
             "decodes what quantised exchanges send, codes of 8 and 4 bits, and compares that "
             "with a loop that moves as many bytes. step takes a model "
             "(--new, 4 samples of its context unless told otherwise) through steps of training "
             "and prints the step's time, the time of its matrix products alone, their "
             "ratio (efficiency), the step against its floor (products at their best, everything "
             "else at memory's bandwidth), and where the time went. memory measures copies, "
             "updates in place and sums over a graph's neighbours with 1 to T threads. io reads, "
             "writes, and updates in place as training with states on NVMe does, with the engine "
             "that training uses. Both keep their figures for plans ($XDG_CACHE_HOME or ~/.cache, "
             "libzero/rates-PROCESSOR.json). checkpoint saves a model's training state under "
             "--path and loads it again, five times. Only step and checkpoint read the options "
             "that describe a model."},
    [CLI_DATA] = {.name = "data",
                  .usage = "show --data FILE... [--model DIR | --tokenizer KIND] [OPTION...]",
                  .choices = "show",
                  .run = cli_data,
                  .purpose = "show the first batch that a training run would read, as text",
                  .detail =
                      "Text that the loss does not count (prompts, and the first token of each "
                      "window) is dimmed on a terminal; elsewhere, or if NO_COLOR is set, it is in "
                      "[brackets]. A new line follows each end token. The first line says so."},
    [CLI_DOCTOR] =
        {.name = "doctor",
         .usage = "[--path DIR] [--write-machine FILE] [--json]",
         .run = cli_doctor,
         .purpose = "show what this machine is, what it lacks, and how large a model it takes",
         .detail = "Three lines of verdict come first: how large a model this machine "
                   "trains, what is missing with the command that gets it, and where "
                   "to look. The disk of DIR is measured for about a second, in a scratch file "
                   "that is removed afterwards."},
};

const cli_general cli_generals[] = {
    {"help", "[COMMAND]", "what a command does, and its options"},
    {"--help", NULL, "the commands, one line each"},
    {"--version", NULL, "the version of the program"},
    {"--man", "[COMMAND]", "the man page of zero or of a command, as `man -l -` reads it"},
    {"--completion", "bash|zsh|fish",
     "the script by which a shell completes commands, options and their values"},
    {"--describe-configuration", NULL, "every key of a configuration file, as Markdown"},
    {0}};

// ---- which options a subcommand has, and how it describes them

// Whether a set of subcommands, bits 1 << cli_command_id, contains this one.
static bool names(unsigned commands, const cli_command *command)
{
    return commands >> (command - cli_commands) & 1;
}

bool cli_option_belongs(const cli_option *row, const cli_command *command)
{
    return names(row->commands, command);
}

bool cli_option_is_unfit(const cli_option *row, const cli_command *command)
{
    return names(row->unfit_for, command);
}

cli_wording cli_option_wording(const cli_option *row, const cli_command *command)
{
    cli_wording wording = {.help = row->help,
                           .standard_text = row->standard_text,
                           .choices = row->choices,
                           .argument = row->argument};
    for (int i = 0; i < CLI_MOST_WORDINGS; i++) {
        const cli_wording *own = &row->differs[i];
        if (!names(own->commands, command))
            continue;
        wording.help = own->help ? own->help : wording.help;
        wording.standard_text = own->standard_text ? own->standard_text : wording.standard_text;
        wording.choices = own->choices ? own->choices : wording.choices;
        wording.argument = own->argument ? own->argument : wording.argument;
    }
    if (!wording.standard_text)
        wording.standard_text = row->standard;
    else if (!*wording.standard_text)
        wording.standard_text = NULL;
    return wording;
}
