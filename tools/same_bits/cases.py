"""What tools/same-bits runs: rows that cover every pair of values of the axes, further cases, and the inputs of all."""
import itertools
import json
import shlex

TINY = "gpt2:layers=2,heads=2,width=32,context=32"
MODELS = {
    "gpt2": TINY,
    "llama": "llama:layers=2,heads=4,kv_heads=2,width=32,context=32",
    "dropout": TINY + ",dropout=0.1",
}
TIERS = ["memory", "cpu", "nvme", "cpu-all", "nvme-all"]  # of optimizer states; -all: of parameters too
AXES = {
    "model": list(MODELS),
    "stage": [0, 1, 2, 3],
    "ranks": [1, 2, 4],
    "dtype": ["fp32", "bf16", "fp16"],
    "optimizer": ["Adam", "AdamW", "SGD", "Adagrad", "Lion", "LAMB"],
    "tier": TIERS,
    "tiles": [1, 3],
    "checkpoints": ["all", "device", "cpu", "nvme"],  # activations: all are kept, or where checkpoints of them lie
    "delayed": [False, True],
    "exact_world": [False, True],
    "accumulation": [1, 2],
    "clipping": [0.0, 0.5],
    "overlap": [False, True],
}
SCHEDULE = {
    "type": "WarmupDecayLR",
    "params": {"warmup_min_lr": 1e-4, "warmup_max_lr": 2e-3, "warmup_num_steps": 2, "total_num_steps": 9},
}
TEXT = "--data text.txt --val held-out.txt"


def is_possible(row):
    """Whether a configuration of these values is not refused; values that are not there yet refuse nothing."""
    stage, tier = row.get("stage"), row.get("tier")
    if stage is not None and tier is not None:
        if (stage == 0 and tier != "memory") or (stage != 3 and tier.endswith("-all")):
            return False
    return not row.get("delayed") or (stage != 0 and tier != "memory" and row.get("optimizer") != "LAMB")


def combinations(strength):
    """Every possible combination of values of `strength` axes, as ((axis, value), ...)."""
    for axes in itertools.combinations(AXES, strength):
        for values in itertools.product(*(AXES[axis] for axis in axes)):
            if is_possible(dict(zip(axes, values))):
                yield tuple(zip(axes, values))


def combinations_with(row, axis, strength):
    """Those of a row of values that `axis` takes part in."""
    others = [name for name in AXES if name in row and name != axis]
    for axes in itertools.combinations(others, strength - 1):
        yield tuple((name, row[name]) for name in AXES if name == axis or name in axes)


def choose(row, axis, missing, strength, turn):
    """The possible value of an axis with which most missing combinations occur; of equals the first, from `turn` on."""
    values = AXES[axis][turn % len(AXES[axis]):] + AXES[axis][: turn % len(AXES[axis])]
    rows = [tried for tried in ({**row, axis: value} for value in values) if is_possible(tried)]
    return max(rows, key=lambda tried: sum(c in missing for c in combinations_with(tried, axis, strength)))[axis]


def covering_rows(strength):
    """Rows in which each of the combinations occurs: the same rows at every call."""
    missing = dict.fromkeys(combinations(strength))  # in order
    rows = []
    while missing:
        row = dict(next(iter(missing)))
        for axis in AXES:
            if axis not in row:
                row[axis] = choose(row, axis, missing, strength, len(rows))
        for axes in itertools.combinations(AXES, strength):
            missing.pop(tuple((axis, row[axis]) for axis in axes), None)
        rows.append(row)
    return rows


class Case:
    """Commands that both programs run in a folder that holds nothing but the inputs."""

    def __init__(self, name, commands, files, traits=(), needs=()):
        self.name = name
        self.commands = commands  # [(name of its output, arguments)]; the first one that fails is the last
        self.files = files  # of configuration: {name: content}
        self.traits = set(traits)  # names of differences.ALLOWED that can concern it
        self.needs = needs  # flags and keys that a program may be too old to know: it is not asked then


def configuration(row):
    """The DeepSpeed file of a row; scratch files lie in a folder below the case's."""
    place = row["tier"].split("-")[0]
    kept = row["checkpoints"] if row["checkpoints"] in ("cpu", "nvme") else "none"
    zero = {"stage": row["stage"], "overlap_comm": row["overlap"], "stage3_param_persistence_threshold": 0}
    if place != "memory":
        zero["offload_optimizer"] = {"device": place, "nvme_path": "scratch"}
    if row["tier"].endswith("-all"):
        zero["offload_param"] = {"device": place, "nvme_path": "scratch"}
    out = {
        "train_micro_batch_size_per_gpu": 2,
        "gradient_accumulation_steps": row["accumulation"],
        "gradient_clipping": row["clipping"],
        "optimizer": {"type": row["optimizer"], "params": {"lr": 2e-3, "weight_decay": 0.01}},
        "scheduler": SCHEDULE,
        "zero_optimization": zero,
        "libzero": {
            "exact_world": row["exact_world"],
            "tiling": row["tiles"],
            "checkpoints": {"device": kept, "nvme_path": "scratch"},
        },
    }
    if row["dtype"] == "bf16":
        out["bf16"] = {"enabled": True}
    if row["dtype"] == "fp16":  # a scale at which some steps are skipped, and which grows
        out["fp16"] = {"enabled": True, "initial_scale_power": 18, "loss_scale_window": 2, "hysteresis": 1}
    if row["checkpoints"] != "all":
        out["activation_checkpointing"] = {"number_checkpoints": 2}
    if row["delayed"]:
        out["libzero"]["delayed_update"] = {"start_step": 2}
    return out


def command(name, line):
    return (name, shlex.split(line))


def train(model, more, name="train", threads=1):
    return command(name, f"train --new {model} --config config.json --out out --seed 7 --threads {threads} --quiet "
                         f"--save-every 2 --keep 0 --eval-every 2 {more}")


def used(dtype):
    """What is made with the model afterwards."""
    how = f"--model out/model --dtype {dtype} --threads 1"
    return [
        command("eval", f"eval {how} --data held-out.txt"),
        command("generate", f"generate {how} --prompt '7 times' --tokens 24 --seed 3"),
    ]


def name_of(row):
    words = [row["model"], f"stage{row['stage']}", f"ranks{row['ranks']}", row["dtype"], row["optimizer"].lower()]
    words += [row["tier"]] * (row["tier"] != "memory")
    words += [f"tiles{row['tiles']}"] * (row["tiles"] > 1)
    words += [f"recompute.{row['checkpoints']}"] * (row["checkpoints"] != "all")
    words += [axis for axis in ("delayed", "exact_world", "overlap") if row[axis]]
    words += [f"accumulation{row['accumulation']}"] * (row["accumulation"] > 1)
    words += ["clipped"] * (row["clipping"] > 0)
    return "-".join(words)


def row_case(row):
    model = MODELS[row["model"]]
    plan = command("plan", f"plan --new {model} --config config.json --ranks {row['ranks']} --json")
    run = train(model, f"{TEXT} --ranks {row['ranks']} --steps 5")
    traits = ["lamb"] if row["optimizer"] == "LAMB" else []
    return Case(name_of(row), [plan, run, *used(row["dtype"])], {"config.json": configuration(row)}, traits)


def row_of(**values):
    """An ordinary row, but for these values."""
    return {**{axis: all_of[0] for axis, all_of in AXES.items()},
            "stage": 2, "ranks": 2, "dtype": "bf16", "optimizer": "AdamW", **values}


def run_case(name, row, *more, data=TEXT, how="", steps=5, threads=1, without=(), traits=(), needs=()):
    """A training, the commands `more`, and what is made with its model; `without` these keys in its file."""
    config = {key: value for key, value in configuration(row).items() if key not in without}
    model = MODELS.get(row["model"], row["model"])
    first = train(model, f"{data} --ranks {row['ranks']} --steps {steps} {how}", threads=threads)
    return Case(name, [first, *more, *used(row["dtype"])], {"config.json": config}, traits, needs)


def further_cases():
    """What goes on from a checkpoint follows a run whose last step is saved in any case (--save-every 2)."""
    resume = train(TINY, f"{TEXT} --ranks 2 --steps 8 --resume", name="resume")
    further = command("further", f"train --model out/model --config config.json --out further --seed 5 --threads 1 --quiet "
                                 f"{TEXT} --ranks 2 --steps 3")
    fewer = train(TINY, f"{TEXT} --ranks 1 --accumulation 4 --steps 8 --resume", name="resume")
    yield run_case("no-schedule", row_of(), without=["scheduler"])  # an optimizer alone: a constant rate
    yield run_case("schedule-by-flags", row_of(), without=["scheduler"], how="--schedule-lr wsd --warmup 2 --decay 40%",
                   needs=["--schedule-lr"])
    yield run_case("default-everything", row_of(), without=["scheduler", "optimizer", "gradient_clipping"],
                   traits=["default-schedule"])
    yield run_case("masked-prompts", row_of(accumulation=2), data="--data records.jsonl --val held-out.jsonl",
                   traits=["masked"])
    yield run_case("masked-chat", row_of(stage=3, dtype="fp32"), data="--data chat.jsonl --val none", how="--chat chatml",
                   traits=["masked"])
    yield run_case("mixed-sources", row_of(), data="--data text.txt:2 held-out.txt:1 --val held-out.txt",
                   how="--tokenizer chars")
    yield run_case("tenth-held-out", row_of(), data="--data text.txt")
    yield run_case("two-threads", row_of(), threads=2)
    yield run_case("reference-backend", row_of(dtype="fp32", ranks=1), how="--backend ref", steps=3)
    yield run_case("resumed", row_of(), resume, steps=4)
    yield run_case("resumed-fp16", row_of(dtype="fp16", stage=1, tier="nvme"), resume, steps=4)
    yield run_case("resumed-adafactor", row_of(optimizer="Adafactor", stage=3, tier="nvme"), resume, steps=4,
                   needs=["optimizer.params.beta2_decay"])
    yield run_case("resumed-delayed", row_of(tier="cpu", delayed=True), resume, steps=4, traits=["last-checkpoint"])
    yield run_case("resumed-on-fewer-ranks", row_of(exact_world=True), fewer, how="--accumulation 2",
                   steps=4, without=["gradient_accumulation_steps"])
    yield run_case("tuned-further", row_of(), further)
    yield run_case("converted", row_of(dtype="fp16"), *(
        command(f"to-{dtype}", f"convert --from out --model out/model --to to-{dtype} --dtype {dtype} "
                               f"--shard-size 40KB --quiet")
        for dtype in AXES["dtype"]), steps=4)
    yield answers_case()
    yield from tensor_cases()
    for preset, seq in ("gpt2", 1024), ("llama-3.2-1b", 131072), ("qwen3", 1024):
        yield plans_case(preset, seq)


def answers_case():
    hows = ["--temperature 0", "--seed 11 --top-k 9", "--seed 12 --top-p 0.7", "--dtype bf16"]
    case = run_case("answers", row_of(model="llama", ranks=1), steps=3)
    case.commands += [
        command(f"answers-{n}", f"generate --model out/model --prompt '3 times' --prompt owl --tokens 40 --json "
                                f"--threads 1 {how}")
        for n, how in enumerate(hows)]
    return case


def tensor_cases():
    """Models that are cut into slices, on one rank and on several."""
    def cut(name, row, how, *more, libzero=(), **options):
        case = run_case(f"tensor-{name}", row, *more, how=how, **options)
        case.files["config.json"]["libzero"].update(libzero)
        return case

    flag, key = ("--tensor",), ("libzero.exact_tensor",)
    split = "--ranks 2 --tensor 2 --model out/model --threads 1"
    together = [command("eval-together", f"eval {split} --data held-out.txt"),
                command("generate-together", f"generate {split} --prompt '7 times' --tokens 24 --seed 3")]
    alone = train(MODELS["llama"], f"{TEXT} --ranks 1 --steps 8 --resume", name="resume")
    yield cut("rows-divided", row_of(accumulation=2), "--tensor 2 --sequence-parallel", *together, needs=flag)
    for keys, ranks in ((1, 2), (2, 4)):  # the first are shared by all tensor ranks, the second by two each
        model = f"llama:layers=2,heads=4,kv_heads={keys},width=32,context=32"
        yield cut(f"{ranks}-ranks-share-{keys}", row_of(model=model, ranks=4), f"--tensor {ranks}", needs=flag)
    yield cut("exact-on-one-rank", row_of(model=TINY.replace("heads=2", "heads=4"), ranks=1), "",
              libzero={"exact_tensor": 4}, needs=key)
    yield cut("exact-resumed-alone", row_of(model="llama", dtype="fp32"), "--tensor 2", alone, steps=4,
              libzero={"exact_tensor": 2}, needs=flag + key)
    yield Case("tensor-plan", [command("plan", "plan --new llama-3.1-8b --seq 131072 --ranks 1024 --tensor 8 --json")], {},
               needs=flag)


def plans_case(preset, seq):
    """Plans of a model that people train, which take no time and need no memory. seq: its whole context."""
    files, commands = {}, []
    for n, (dtype, tier, stage) in enumerate(itertools.product(AXES["dtype"], TIERS, AXES["stage"])):
        row = row_of(dtype=dtype, tier=tier, stage=stage, exact_world=n % 3 == 0, tiles=1 + n % 4, accumulation=1 + n % 2,
                     optimizer=AXES["optimizer"][n % 6], checkpoints=AXES["checkpoints"][n % 4])
        if is_possible(row):
            name = f"plan-{dtype}-{tier}-stage{stage}"
            files[name + ".json"] = configuration(row)
            commands.append(command(name, f"plan --new {preset} --seq {seq} --config {name}.json --ranks {1 << n % 7} --json"))
    return Case(f"plans-of-{preset}", commands, files)


def all_cases(strength):
    return [row_case(row) for row in covering_rows(strength)] + list(further_cases())


def write_inputs(folder):
    """The same bytes at every call."""
    def write(name, lines):
        folder.joinpath(name).write_text("".join(line + "\n" for line in lines))

    lines = [f"{i % 37} times {i % 11} is {(i % 37) * (i % 11)}, said the {'owl' if i % 3 else 'pussycat'}."
             for i in range(900)]
    records = [{"prompt": f"{i % 19} plus {i % 7}?" * (1 + i % 3), "completion": f" {i % 19 + i % 7}" * (1 + i % 4)}
               for i in range(160)]
    chats = [{"messages": [{"role": "user", "content": r["prompt"]}, {"role": "assistant", "content": r["completion"]}]}
             for r in records]
    write("text.txt", lines[:800])
    write("held-out.txt", lines[800:])
    write("records.jsonl", map(json.dumps, records[:140]))
    write("held-out.jsonl", map(json.dumps, records[140:]))
    write("chat.jsonl", map(json.dumps, chats))
    folder.joinpath("scratch").mkdir()
