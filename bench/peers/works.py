"""What bench/compare measures: the models, and the works that are made of them."""
import collections

Model = collections.namedtuple("Model", "name spec layers heads width vocab")
GPT2 = Model("GPT-2 124M", "gpt2", 12, 12, 768, 50257)
SMALL = Model("4 layers, width 128", "gpt2:layers=4,heads=4,width=128,context=64,vocab=256", 4, 4, 128, 256)
MIDDLE = Model("6 layers, width 384", "gpt2:layers=6,heads=6,width=384,context=256,vocab=65", 6, 6, 384, 65)
LLAMA = Model("Llama, 6 layers, width 384", "llama:layers=6,heads=6,kv_heads=6,width=384,inner=1024,context=256,vocab=256,tied=0", 6, 6, 384, 256)


class Work(collections.namedtuple("Work", "model dtype ranks threads batch seq stage tensor schedule split accumulation", defaults=[1, None, None, 1])):
    """batch: samples of a micro-batch on a rank, or on the ranks that compute one model together: `tensor` ranks, or, where there is a
    schedule, all of them as a pipeline that is split at these units."""

    @property
    def flags(self):
        """How libzero is started."""
        return (["--ranks", self.ranks, "--threads", self.threads, "--accumulation", self.accumulation] + ["--tensor", self.tensor] * (self.tensor > 1)
                + (["--pipeline", self.ranks, "--schedule", self.schedule, "--split", self.split] if self.schedule else []))

    @property
    def asked(self):
        """As Zero's methods take it."""
        return self.model.spec, self.batch, self.seq, self.dtype, self.stage, self.threads, self.flags

    @property
    def rows(self):
        """Samples of a step."""
        return (1 if self.schedule else self.ranks // self.tensor) * self.batch * self.accumulation

    @property
    def tokens(self):
        return self.rows * self.seq


def describe(work):
    divided = f"{work.ranks} ranks x {work.threads} thread, {work.batch} x {work.seq} each, stage {work.stage}"
    if work.tensor > 1:
        divided = f"{work.tensor} tensor ranks x {work.threads} thread, {work.batch} x {work.seq}"
    if work.schedule:
        divided = f"{work.ranks} pipeline stages x {work.threads} thread, {work.schedule}, {work.accumulation} micro-batches of {work.batch} x {work.seq}"
    alone = f"1 rank x {work.threads} threads, {work.batch} x {work.seq}"
    return f"{work.model.name}, {work.dtype}, {divided if work.ranks > 1 else alone}"
