#!/usr/bin/env python3
"""Steps of training a Llama-shaped model by a pipeline on the CPU in a peer: torch.distributed.pipelining or DeepSpeed's PipelineEngine.

    pipeline_step.py --mode gpipe|1f1b|interleaved|pipeline --model DIR --samples FILE [--dtype fp32|bf16] [--bf16 autocast|master]
                     [--seq 256 --batch 2 --accumulation 8] [--split 0,4] [--threads 1] [--steps 10] [--serve]

DIR, FILE and what is printed are those of tensor_step.py. A step has `accumulation` micro-batches of `batch` samples. The model's units are the
table of tokens, each block, and the norm with the head; --split names the first unit of each chunk, and rank r has the chunks r, r + ranks, ...
`pipeline`: DeepSpeed's, which divides units evenly by itself.
"""
import argparse
import contextlib

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F

from tensor_step import read_model, say_losses
from train_step import CLIP, DeepSpeed, adamw, take_rounds

MODES = ("gpipe", "1f1b", "interleaved", "pipeline")


class Chunk(nn.Module):
    """Neighbouring units of a Llama, first .. end - 1: what enters is tokens or the residual stream, what leaves the stream or logits."""

    def __init__(self, directory, seq, first, end, autocast):
        super().__init__()
        whole = read_model(directory, seq)
        head = len(whole.model.layers) + 1
        self.embed_tokens = whole.model.embed_tokens if first == 0 else None
        self.layers = nn.ModuleList(whole.model.layers[max(first - 1, 0):min(end, head) - 1])
        self.norm, self.lm_head = (whole.model.norm, whole.lm_head) if end > head else (None, None)
        self.angles, self.autocast = whole.angles, autocast

    def forward(self, x):
        cos, sin = self.angles.cos(), self.angles.sin()
        with torch.autocast("cpu", torch.bfloat16) if self.autocast else contextlib.nullcontext():
            if self.embed_tokens is not None:
                x = self.embed_tokens(x)
            for block in self.layers:
                x = block(x, cos, sin)
            return x if self.lm_head is None else self.lm_head(self.norm(x))


def loss_of(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def autocast(a):
    return a.dtype == "bf16" and a.bf16 == "autocast"


class Piped:
    """torch.distributed.pipelining's. AdamW takes this rank's weights, or fp32 masters of bf16 ones."""

    def __init__(self, a):
        from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B
        dist.init_process_group("gloo")
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        bounds = [int(first) for first in a.split.split(",")] + [1 << 30]
        mine = range(self.rank, len(bounds) - 1, self.ranks)
        chunks = nn.ModuleList(Chunk(a.model, a.seq, bounds[c], bounds[c + 1], autocast(a)) for c in mine)
        self.weights = list(chunks.parameters())
        self.leaves = self.weights
        if a.dtype == "bf16" and a.bf16 == "master":
            self.leaves = [weight.detach().clone() for weight in self.weights]
            chunks.bfloat16()
        self.optimizer = adamw(self.leaves)
        stages = [PipelineStage(chunk, c, len(bounds) - 1, torch.device("cpu")) for c, chunk in zip(mine, chunks)]
        kind = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B, "interleaved": ScheduleInterleaved1F1B}[a.mode]
        self.schedule = kind(stages if a.mode == "interleaved" else stages[0], n_microbatches=a.accumulation, loss_fn=loss_of)

    @torch.no_grad()
    def update(self, losses):
        """Clips by the whole model's norm. Returns the mean loss of the step, which the last rank knows."""
        for leaf, weight in zip(self.leaves, self.weights):
            leaf.grad = weight.grad.float()
        loss = torch.stack(losses).mean() if losses else torch.zeros(())
        sums = torch.stack([loss.float(), nn.utils.get_total_norm([leaf.grad for leaf in self.leaves]) ** 2])
        dist.all_reduce(sums)
        nn.utils.clip_grads_with_norm_(self.leaves, CLIP, sums[1].sqrt())
        self.optimizer.step()
        if self.leaves is not self.weights:
            torch._foreach_copy_(self.weights, self.leaves)
        for weight in self.weights:
            weight.grad = None
        return sums[0]

    def step(self, ids, targets):
        losses = []
        inputs = (ids,) if self.rank == 0 else ()
        if self.rank == self.ranks - 1:
            self.schedule.step(*inputs, target=targets, losses=losses, return_outputs=False)
        else:
            self.schedule.step(*inputs, return_outputs=False)
        return self.update(losses)


class DeepSpeedPipeline(DeepSpeed):
    """At ZeRO stage 1, as DeepSpeed's AutoTP in tensor_step.py: bf16 weights with fp32 masters."""

    def __init__(self, a):
        self.micro_batches = a.accumulation
        self.keys = {"train_micro_batch_size_per_gpu": a.batch // a.accumulation, "gradient_accumulation_steps": a.accumulation}
        super().__init__(a, None)

    def start(self, deepspeed, a, model, extra):
        from deepspeed.pipe import LayerSpec, PipelineModule
        units = len(read_model(a.model, a.seq).model.layers) + 2
        layers = [LayerSpec(Chunk, a.model, a.seq, u, u + 1, False) for u in range(units)]
        return super().start(deepspeed, a, PipelineModule(layers, num_stages=dist.get_world_size(), loss_fn=loss_of, partition_method="uniform"), extra)

    def step(self, ids, targets):
        return self.engine.train_batch(zip(ids.chunk(self.micro_batches), targets.chunk(self.micro_batches)))


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in dict(seq=256, batch=2, accumulation=8, threads=1, steps=10).items():
        p.add_argument("--" + name, type=int, default=value)
    p.add_argument("--mode", choices=MODES, default="1f1b")
    p.add_argument("--model", required=True)
    p.add_argument("--samples", required=True)
    p.add_argument("--split", default="0,4")
    p.add_argument("--dtype", choices=["fp32", "bf16"], default="fp32")
    p.add_argument("--bf16", choices=["autocast", "master"], default="autocast")
    p.add_argument("--serve", action="store_true")
    p.set_defaults(stage=1)
    a = p.parse_args()
    a.batch *= a.accumulation  # of a step, as train_step.py knows it
    a.vocab = read_model(a.model, a.seq).lm_head.out_features
    return a


def main():
    a = arguments()
    torch.set_num_threads(a.threads)
    trainer = DeepSpeedPipeline(a) if a.mode == "pipeline" else Piped(a)
    say_losses(a, trainer)
    take_rounds(a, trainer)


if __name__ == "__main__":
    main()
