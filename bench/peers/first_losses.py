"""The first losses of a training, by which bench/compare knows that a peer trains the model that libzero trains."""
import json
import pathlib
import re

from contestants import Unmeasured

STEPS = 4  # so that gradients and updates count, too
TOLERANCE = {"fp32": 1e-5, "bf16": 2e-4}  # of a loss
CONFIG = {"optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "betas": [0.9, 0.95], "weight_decay": 0.1}},  # as train_step.py's
          "gradient_clipping": 1.0, "libzero": {"decay_all": True}}


class FirstLosses:
    """Writes initial weights and samples for all of them to read, and asks libzero for its losses, once for each precision."""

    def __init__(self, zero, work):
        self.zero, self.work, self.reference = zero, work, {}
        self.directory = pathlib.Path(zero.work.name, "first")
        self.directory.mkdir(exist_ok=True)
        self.model, self.samples, self.config = (self.directory / name for name in ("model", "samples", "config.json"))
        self.config.write_text(json.dumps(CONFIG))

    def prepare(self):
        """The weights are those after a step of hardly any length, because a run exports none before. They are rounded to bf16, because some
        make fp32 masters of bf16 weights before the first step, and others do not: from weights that bf16 has, all go the same way."""
        initial = self.directory / "initial"
        self.zero.run(["train", "--new", self.work.model.spec, "--tokenizer", "bytes", *self.data(), "--out", initial, "--overwrite",
                       "--no-final-checkpoint", "--quiet", "--ranks", 1, "--threads", 1, "--micro-batch", 1, "--seq", 16, "--steps", 1, "--lr", 1e-12], 1)
        self.zero.run(["convert", "--from", initial / "model", "--to", self.model, "--dtype", "bf16", "--overwrite", "--quiet"], 1)
        shown = self.zero.run(["data", "show", "--model", self.model, *self.data(), "--seq", self.work.seq, "--micro-batch", STEPS * self.work.rows], 1)
        starts = [int(start) for start in re.findall(r"^--- sample \d+: .*, tokens (\d+) to ", shown, re.M)]
        if len(starts) != STEPS * self.work.rows:
            raise Unmeasured(f"zero data show names {len(starts)} samples of {STEPS * self.work.rows}")
        text = self.zero.text.read_bytes()
        self.samples.write_bytes(b"".join(text[start:start + self.work.seq + 1] for start in starts))

    def data(self):
        return ["--data", self.zero.text, "--val", "none"]

    def of_zero(self, dtype):
        if dtype not in self.reference:
            out, work = self.directory / "run", self.work
            self.zero.run(["train", "--model", self.model, "--config", self.config, *self.data(), "--out", out, "--overwrite", "--no-final-checkpoint",
                           "--quiet", "--steps", STEPS, "--micro-batch", work.batch, "--seq", work.seq, "--dtype", dtype,
                           "--stage", work.stage, *work.flags], work.threads)
            self.reference[dtype] = [json.loads(line)["loss"] for line in (out / "metrics.jsonl").read_text().splitlines() if '"loss"' in line]
        return self.reference[dtype]

    def compare(self, dtype, losses):
        """Raises Unmeasured if these losses of a peer are not libzero's."""
        expected = self.of_zero(dtype)
        if len(losses) != len(expected) or any(not abs(a / b - 1) < TOLERANCE[dtype] for a, b in zip(losses, expected)):
            said, wanted = (" ".join(f"{loss:.6f}" for loss in of) for of in (losses, expected))
            raise Unmeasured(f"its first losses {said} are not libzero's {wanted}: it trains another model")
