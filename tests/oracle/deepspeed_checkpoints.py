#!/usr/bin/env python3
"""Writes ZeRO checkpoints with DeepSpeed itself, and what must come out of them.

For every case CASE (stage, ranks, precision, parameter groups) under OUT:
  CASE/latest, CASE/global_stepN/...     as engine.save_checkpoint left them
  CASE.weights.safetensors               zero_to_fp32's answer, which is the engine's own; tied names once
  CASE.exp_avg.safetensors, CASE.exp_avg_sq.safetensors
                                         as the engine itself gives them (safe_get_full_optimizer_state) before it saved
  CASE.model/                            config.json of the model

    DS_ACCELERATOR=cpu torchrun --standalone --nproc_per_node=2 deepspeed_checkpoints.py OUT [--cases PATTERN]
    deepspeed_checkpoints.py OUT --fixtures tests/formats/deepspeed s1-groups-r2 s2-schedule-r3 s3-frozen-r3

The second copies cases, and writes expected.txt beside them: case, vector, tensor, CRC32C of its bytes in fp32.

deepspeed 0.19.8, torch 2.15.0 (CPU, gloo), transformers 5.23.0, safetensors 0.8.0.
"""
import argparse, fnmatch, json, os, shutil, sys

os.environ.setdefault("DS_ACCELERATOR", "cpu")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
import torch
import deepspeed
import torch.distributed as dist
from deepspeed.utils import safe_get_full_fp32_param, safe_get_full_optimizer_state
from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint
from safetensors.torch import load_file, save_file
from transformers import GPT2Config, GPT2LMHeadModel

SHAPE = dict(vocab_size=50, n_positions=8, n_embd=8, n_layer=2, n_head=2, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
STEPS = 3


def cases():
    for stage in (1, 2, 3):
        for dtype in ("fp32", "bf16", "fp16"):
            yield dict(name=f"s{stage}-{dtype}", stage=stage, dtype=dtype)
    # zero_to_fp32 cannot read this one: DeepSpeed forgets to write its stage
    yield dict(name="s1-bf16-fp32grads", stage=1, dtype="bf16", stageless=True, more={"data_types": {"grad_accum_dtype": "fp32"}})
    for stage in (1, 2, 3):
        yield dict(name=f"s{stage}-groups", stage=stage, dtype="fp32", groups=True)
        yield dict(name=f"s{stage}-frozen", stage=stage, dtype="bf16", frozen=True)
        yield dict(name=f"s{stage}-adagrad", stage=stage, dtype="fp32", optimizer="adagrad")
    yield dict(name="s3-subgroups", stage=3, dtype="bf16", zero={"sub_group_size": 500})
    yield dict(name="s2-schedule", stage=2, dtype="fp16", more={"scheduler": {"type": "WarmupDecayLR", "params": {
        "warmup_num_steps": 2, "total_num_steps": 10, "warmup_max_lr": 1e-3}}})


def model_of(case):
    torch.manual_seed(7)
    config = GPT2Config(**SHAPE, bos_token_id=0, eos_token_id=0)
    model = GPT2LMHeadModel(config)
    if case.get("frozen"):
        for name, parameter in model.named_parameters():
            parameter.requires_grad = ".h.0." not in name
    return model


def groups_of(model, case):
    trained = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    if not case.get("groups"):
        return [p for _, p in trained]
    return [{"params": [p for _, p in trained if p.dim() >= 2], "weight_decay": 0.1},
            {"params": [p for _, p in trained if p.dim() < 2], "weight_decay": 0.0}]


def engine_of(case, model):
    config = {"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 1, "gradient_clipping": 1.0, "steps_per_print": 10**9,
              "zero_allow_untested_optimizer": True, "zero_force_ds_cpu_optimizer": False,
              "zero_optimization": {"stage": case["stage"], "stage3_param_persistence_threshold": 0, **case.get("zero", {})}, **case.get("more", {})}
    if case["dtype"] == "bf16":
        config["bf16"] = {"enabled": True}
    if case["dtype"] == "fp16":
        config["fp16"] = {"enabled": True, "initial_scale_power": 8}
    groups = groups_of(model, case)
    optimizer = torch.optim.Adagrad(groups, lr=1e-2) if case.get("optimizer") == "adagrad" else torch.optim.AdamW(groups, lr=1e-2, weight_decay=0.1)
    return deepspeed.initialize(model=model, optimizer=optimizer, config=config)[0]


def train(engine):
    torch.manual_seed(100 + dist.get_rank())
    for _ in range(STEPS):
        ids = torch.randint(0, SHAPE["vocab_size"], (2, SHAPE["n_positions"]))
        loss = engine(input_ids=ids, labels=ids).loss
        engine.backward(loss)
        engine.step()


def states_of(engine, names):
    states = {}
    for state in names:
        states[state] = {}
        for name, parameter in engine.module.named_parameters():
            if parameter.requires_grad:
                value = safe_get_full_optimizer_state(parameter, state) if state != "master" else safe_get_full_fp32_param(parameter)
                states[state][name] = value.detach().clone().float().contiguous().view(parameter.ds_shape if hasattr(parameter, "ds_shape") else parameter.shape)
    return states


def without_ties(tensors):
    seen, out = set(), {}
    for name, tensor in tensors.items():
        if name == "lm_head.weight" and "transformer.wte.weight" in tensors:
            continue
        out[name] = tensor.contiguous()
    return out


def write(case, out):
    model = model_of(case)
    engine = engine_of(case, model)
    train(engine)
    name = f"{case['name']}-r{dist.get_world_size()}"
    at = os.path.join(out, name)
    if dist.get_rank() == 0:
        shutil.rmtree(at, ignore_errors=True)
    dist.barrier()
    master = states_of(engine, ("master",))["master"]
    if case.get("groups") and case["stage"] < 3:  # with several groups DeepSpeed does not find its own
        states = {}
    else:
        states = states_of(engine, ("sum",) if case.get("optimizer") == "adagrad" else ("exp_avg", "exp_avg_sq"))
    engine.save_checkpoint(at)
    dist.barrier()
    if dist.get_rank() == 0:
        for junk in ("zero_to_fp32.py",):
            if os.path.exists(os.path.join(at, junk)):
                os.remove(os.path.join(at, junk))
        # as its command writes them: all in fp32
        weights = master if case.get("stageless") else without_ties(get_fp32_state_dict_from_zero_checkpoint(at))
        weights = {n: w.float() if w.is_floating_point() else w for n, w in weights.items()}
        if case["stage"] == 1 and case.get("frozen"):  # zero_to_fp32 loses these
            weights.update({n: p.detach().float() for n, p in engine.module.named_parameters() if not p.requires_grad})
        assert all(torch.equal(weights[n], m) for n, m in master.items())
        save_file(weights, os.path.join(out, name + ".weights.safetensors"), metadata={"format": "pt"})
        for state, tensors in states.items():
            save_file(tensors, os.path.join(out, f"{name}.{state}.safetensors"), metadata={"format": "pt"})
        os.makedirs(os.path.join(out, name + ".model"), exist_ok=True)
        model.config.save_pretrained(os.path.join(out, name + ".model"))
    dist.barrier()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def copy_fixtures(out, to, names):
    with open(os.path.join(to, "expected.txt"), "w") as expected:
        for name in names:
            shutil.copytree(os.path.join(out, name), os.path.join(to, name), ignore=shutil.ignore_patterns("*.py"), dirs_exist_ok=True)
            for vector in ("weights", "exp_avg", "exp_avg_sq"):
                file = os.path.join(out, f"{name}.{vector}.safetensors")
                for tensor, value in sorted(load_file(file).items()) if os.path.exists(file) else ():
                    expected.write(f"{name} {vector} {tensor} {crc32c(value.numpy().tobytes()):08x}\n")


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("out")
    arguments.add_argument("--cases", default="*")
    arguments.add_argument("--local_rank", type=int, default=0)
    arguments.add_argument("--fixtures", nargs="+")
    a = arguments.parse_args()
    if a.fixtures:
        return copy_fixtures(a.out, a.fixtures[0], a.fixtures[1:])
    from deepspeed.accelerator import get_accelerator
    type(get_accelerator()).is_fp16_supported = lambda self: True  # it only asks whether fp16 is fast
    deepspeed.ops.__compatible_ops__ = {}  # no operators of its own to compile
    deepspeed.init_distributed(dist_backend="gloo")
    failed = 0
    for case in cases():
        if not fnmatch.fnmatch(case["name"], a.cases):
            continue
        try:
            write(case, a.out)
            if dist.get_rank() == 0:
                print("WROTE", case["name"], dist.get_world_size(), flush=True)
        except Exception as error:
            failed += 1
            print("FAILED", case["name"], type(error).__name__, str(error)[:300], flush=True)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
