// Options for what a command reads (the model, the data and how they become tokens) and where it
// writes.
#include "option_rows.h"

#define A_SPEC                                                                                     \
    "a preset (gpt2, gpt2-medium, llama, mistral, qwen2, qwen3, pythia-160m, smollm2-135m, "       \
    "llama-3.1-8b, llama-3.1-70b, llama-3.1-405b, ...; docs/models.md), or one with fields, "      \
    "gpt2:layers=4,heads=4,width=128,context=64[,vocab=V][,dropout=P], "                           \
    "llama:layers=4,heads=8,kv_heads=2,width=256[,inner=F][,head_dim=D][,theta=X][,tied=0]"
#define A_MODEL                                                                                    \
    "a GPT-2, Llama, Mistral, Qwen2, Qwen3 or GPT-NeoX (Pythia), in a directory in Hugging "       \
    "Face's layout; of a run's directory, its model/ is taken"
#define A_TOKENIZER                                                                                \
    "a directory or file with a BPE: tokenizer.json, vocab.json and merges.txt, or "               \
    "tokenizer.model"

// clang-format off
const cli_option cli_options_model[] = {
    OPTION(TEXT, NEW, "--new", "SPEC", TRAIN | PLAN | COMPARE | BENCH | SIMULATE | TUNE,
        .choices = "gpt2|gpt2-medium|llama|mistral|qwen2|qwen3|pythia-160m|smollm2-135m|"
                   "llama-3.1-8b|llama-3.1-70b|llama-3.1-405b",
        .help = "start from random weights: " A_SPEC,
        .differs = {FOR(SIMULATE, .help = "the model to train: " A_SPEC),
                    FOR(PLAN, .help = "the model to plan for: " A_SPEC),
                    FOR(TUNE, .help = "the model to train, with random weights: " A_SPEC),
                    FOR(BENCH, .help = "the model of step and checkpoint: " A_SPEC)}),
    OPTION(TEXT, MODEL, "--model", "DIR",
        TRAIN | EVAL | GENERATE | CONVERT | PLAN | COMPARE | BENCH | DATA | SIMULATE | TUNE,
        .help = A_MODEL,
        .differs = {FOR(SIMULATE, .help = "the model to train: its directory, or its config.json",
                        .choices = "FILE"),
                    FOR(TRAIN | TUNE | COMPARE, .help = "start from the weights of " A_MODEL),
                    FOR(CONVERT,
                        .help = "take config.json and the tokenizer from here instead of looking "
                                "for them next to PATH"),
                    FOR(PLAN, .help = "the model to plan for: its directory, or its config.json",
                        .choices = "FILE"),
                    FOR(BENCH, .help = "another name of --new: it takes a SPEC too"),
                    FOR(DATA,
                        .help = "the model whose tokenizer, chat template and context are used: "
                                A_MODEL)}),
    OPTION(TEXT, LORA, "--lora", "r=R,...", TRAIN | PLAN,
        .standard_text = "the whole model trains",
        .help = "train low-rank adapters of --model instead of the model: r=16[,alpha=32]"
                "[,targets=all-linear][,dropout=0.05][,rslora][,dora]; targets are layers, as "
                "q_proj+v_proj; dora: with magnitudes (docs/fine-tuning.md)"),
    OPTION(TEXT, PREFERENCE, "--preference", "LOSS", TRAIN | EVAL | PLAN | DATA,
        .standard_text = "none: the loss is that of the next token",
        .help = "train on preferences, records with \"chosen\" and \"rejected\" answers: "
                "dpo[,beta=0.1][,smoothing=0], orpo[,beta=0.1][,prompt_loss=true], "
                "simpo[,beta=2][,gamma=1][,smoothing=0] or kto[,beta=0.1][,desirable=1]"
                "[,undesirable=1] (docs/fine-tuning.md)",
        .differs = {FOR(EVAL, .help = "measure the loss, the accuracy and the margin of "
                                      "preferences, as a training with --preference says them"),
                    FOR(DATA, .help = "show records as a training with --preference reads them")}),
    OPTION(CHOICE, TASK, "--task", "TASK", TRAIN | EVAL | DATA, .choices = "classify",
        .standard_text = "what the model's config.json says, else to continue texts",
        .help = "classify: train on records with a \"text\" and its \"label\", with a head of "
                "labels that transformers opens as AutoModelForSequenceClassification "
                "(docs/fine-tuning.md)",
        .differs = {FOR(EVAL, .help = "classify: the loss and the accuracy of labels, of a model "
                                      "that has them; with --json, a line for each text before"),
                    FOR(DATA, .help = "classify: show texts with their labels")}),
    OPTION(TEXT, REFERENCE, "--reference", "FILE", TRAIN | EVAL, .choices = "FILE",
        .standard_text = "next to the first data file",
        .help = "where the log-probabilities of dpo's and kto's reference are kept: computed once, "
                "of the model as the run begins",
        .differs = {FOR(EVAL, .standard_text = "--model without its --adapter",
                        .help = "the reference of dpo and kto: " A_MODEL)}),
    OPTION(TEXT, ADAPTER, "--adapter", "DIR", EVAL | GENERATE | CONVERT, .choices = "FILE",
        .help = "an adapter of --model: a directory as peft saves it, or that of a run that "
                "trained one",
        .differs = {FOR(CONVERT, .help = "an adapter of the model --from, which is added to its "
                                         "weights: a directory as peft saves it, or that of a run "
                                         "that trained one")}),
    OPTION(CHOICE, ATTENTION, "--attention", "KIND", TRAIN | EVAL | DATA,
        .choices = "auto|causal|document",
        .standard_text = "auto: document for records with prompts or messages",
        .help = "document: pack whole examples into windows, which do not see each other; causal: "
                "cut windows from one stream"),
    OPTION(COUNT, PARAMS, "--params", "X", PLAN | BENCH, RANGE(1, 1e15),
        .help = "only a number of parameters (7.5e9, 124M): the paper's formulas",
        .differs = {FOR(BENCH,
                        .help = "for optimizer and blocks: the number of parameters of a rank "
                                "(7.5e9, 124M)")}),
    FLAG(IGNORE_UNUSED, "--ignore-unused", TRAIN | EVAL | GENERATE | TUNE,
        .help = "leave out tensors of --model that the model of its config.json has no place for, "
                "with a warning; without it they are refused"),
    OPTION(TEXTS, DATA, "--data", "FILE...",
        TRAIN | EVAL | VERIFY | COMPARE | TOKENIZE | TOKENIZER | DATA | TUNE,
        .help = "each is [KIND:]PATH[:WEIGHT]: text, JSON or token files; patterns such as "
                "'part-*.txt' work too. Files are read one after another, or mixed if every one "
                "has a weight (docs/data.md)",
        .differs = {FOR(VERIFY, .help = "where the data of the run are now, if they have moved"),
                    FOR(TOKENIZE | TOKENIZER,
                        .help = "each is [KIND:]PATH: text or JSON; patterns such as 'part-*.txt' "
                                "work too (docs/data.md)")}),
    OPTION(TEXT, VAL, "--val", "FILE|none", TRAIN | DATA, .choices = "none|FILE",
        .standard_text = "the last tenth of each of --data",
        .help = "held-out data, or none"),
    OPTION(TEXT, FIELD, "--field", "NAME",
        TRAIN | EVAL | GENERATE | TOKENIZE | TOKENIZER | DATA | TUNE,
        .standard_text = "what a record has, by its shape (docs/data.md)",
        .help = "read only this field of JSON records; DATA.TEXT is the field TEXT of DATA",
        .differs = {FOR(GENERATE,
                        .help = "the field of --prompts' JSON records that holds the prompt",
                        .standard_text = "prompt")}),
    OPTION(TEXT, MAP, "--map", "KEY=FIELD,...", TRAIN | EVAL | TOKENIZE | TOKENIZER | DATA | TUNE,
        .help = "how fields of JSON records are named: user=question,assistant=answer, and "
                "system=, input=, history=; or prompt=, completion=; messages=; conversations="),
    OPTION(CHOICE, CHAT, "--chat", "FORMAT", TRAIN | EVAL | GENERATE | TOKENIZE | DATA | TUNE,
        .choices = "auto|chatml|llama2|llama3|llama3.1|mistral|mistral-spaced|mistral-2024|"
                   "FILE.jinja",
        .standard_text = "auto: by the model's chat template",
        .help = "how messages are written",
        .differs = {FOR(GENERATE,
                        .help = "treat each prompt as a user's message and answer as the "
                                "assistant; without a prompt each line of standard input is a "
                                "message of one conversation, and /reset begins another",
                        .standard_text = "no chat: the prompt is continued")}),
    OPTION(TEXT, CHAT_DATE, "--chat-date", "YYYY-MM-DD",
        TRAIN | EVAL | GENERATE | TOKENIZE | DATA | TUNE, .standard_text = "today",
        .help = "the date that a chat template writes as today's, if it writes any",
        .differs = {FOR(TRAIN, .standard_text = "that of the run that is resumed, or today")}),
    OPTION(TEXT, TOKENIZER, "--tokenizer", "KIND", TRAIN | EVAL | TOKENIZE | DATA | TUNE,
        .choices = "bytes|chars|FILE", .standard_text = "that of --model, or bytes",
        .help = "what a token is: bytes, chars (the characters of the text), or " A_TOKENIZER,
        .differs = {FOR(EVAL,
                        .help = "what a token is, if --model does not say it: bytes, or "
                                A_TOKENIZER,
                        .standard_text = "that of --model; token files need none",
                        .choices = "bytes|FILE"),
                    FOR(TOKENIZE, .help = "what a token is: bytes, or " A_TOKENIZER,
                        .standard_text = NONE, .choices = "bytes|FILE")}),
    OPTION(INTEGER, VOCAB, "--vocab", "N", TOKENIZER, RANGE(257, 1e7), .standard = "4096",
        .help = "number of tokens: the 256 bytes, the end of a text, and those that are learnt"),
    FLAG(SPECIAL, "--special", TOKENIZE,
        .help = "read a special token that is spelt out in the text (<|endoftext|>) as that token; "
                "without this flag it is plain text"),
    OPTION(TEXT, OUT, "--out", "PATH", TRAIN | COMPARE | TOKENIZE | TOKENIZER | TUNE,
        .standard_text = "run",
        .help = "the directory that gets metrics.jsonl, config.json, checkpoints/, model/ and "
                "best/",
        .differs = {FOR(TUNE, .help = "the directory that gets tuned.json and what was found",
                        .standard_text = "autotuning.results_dir, or tuned"),
                    FOR(COMPARE, .help = "a file that gets the tables as Markdown, too",
                        .standard_text = NONE),
                    FOR(TOKENIZE, .help = "the token file to write", .standard_text = "tokens.bin"),
                    FOR(TOKENIZER, .help = "the directory to write tokenizer.json into",
                        .standard_text = "tokenizer")}),
    FLAG(OVERWRITE, "--overwrite", TRAIN | CONVERT | TOKENIZE | TOKENIZER,
        .help = "replace what an earlier run wrote to --out; what it did not write stays, and so "
                "does what is read",
        .differs = {FOR(CONVERT, .help = "replace the model at --to"),
                    FOR(TOKENIZE | TOKENIZER, .help = "replace what --out names")}),
    OPTION(TEXT, CONFIG, "--config", "FILE",
        TRAIN | EVAL | GENERATE | PLAN | COMPARE | SIMULATE | TUNE,
        .help = "a DeepSpeed configuration file; flags win over it",
        .differs = {FOR(SIMULATE,
                        .help = "a DeepSpeed configuration file, of which stage, batch, precision, "
                                "offload, activation checkpoints and numbers of ranks are read; "
                                "flags win over it"),
                    FOR(TUNE,
                        .help = "a DeepSpeed configuration file: what it says stays, unless it "
                                "says \"auto\"; its section autotuning is honoured; flags win over "
                                "it")}),
    FLAG(ALLOW_UNKNOWN, "--allow-unknown", TRAIN | PLAN | COMPARE | SIMULATE | TUNE,
        .help = "warn of unknown keys at the top of the configuration file, as a trainer's own "
                "are, instead of refusing them; libzero.allow_unknown says the same"),
    FLAG(STRICT, "--strict", TRAIN,
        .help = "treat a flag that contradicts the configuration file as an error"),
    FLAG(EXPLAIN, "--explain", TRAIN | EVAL | GENERATE | PLAN | COMPARE | SIMULATE,
        .help = "name each key of --config that has no effect here, and the reason, and all that "
                "was chosen",
        .differs = {FOR(SIMULATE,
                        .help = "with --machine list: the constants of each machine, and how well "
                                "they fit")}),
};
// clang-format on
const int cli_options_model_count = sizeof cli_options_model / sizeof *cli_options_model;
