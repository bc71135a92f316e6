#!/usr/bin/env python3
"""megatron_steps.py SOURCE TOKENS.npy OUT.json OPTIONS... - train with Megatron-LM itself, on the CPU

SOURCE is a source tree of Megatron-LM, OPTIONS are its own: of --load a checkpoint, read by its load_checkpoint with the
optimizer and the schedule, and --train-iters. TOKENS has the samples from there on, [samples, --seq-length + 1]. OUT gets
a list of {"lm_loss", "grad_norm", "lr"}, a member per step. One process, or several with torchrun's variables.

Megatron-LM runs on GPUs only. Here the device "cuda" means the CPU, GPUs have no state of random numbers, and Adam is
spelled out below with the state of the fused one that it uses on GPUs. Its layers, its loading and its steps are its own.
"""
import contextlib
import json
import os
import sys
import typing
import unittest.mock

import numpy as np
import torch
from torch.overrides import TorchFunctionMode


class CudaMeansCpu(TorchFunctionMode):
    """Tensors asked for on a GPU are made on the CPU."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if "cuda" in str(kwargs.get("device", "")):
            kwargs["device"] = "cpu"
        return func(*args, **kwargs)


class Adam(torch.optim.Optimizer):
    """AdamW with the state of the fused optimizers: exp_avg, exp_avg_sq, and a step in each group."""

    def __init__(self, params, lr, weight_decay, betas=(0.9, 0.999), eps=1e-8, **_):
        super().__init__(params, dict(lr=lr, weight_decay=weight_decay, betas=betas, eps=eps, bias_correction=True))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            group["step"] = group.get("step", 0) + 1
            for p in (p for p in group["params"] if p.grad is not None):
                self.update(p, group)

    def update(self, p, group):
        state, (b1, b2), t = self.state[p], group["betas"], int(group["step"])
        if not state:
            state.update(exp_avg=torch.zeros_like(p), exp_avg_sq=torch.zeros_like(p))
        m, v = state["exp_avg"], state["exp_avg_sq"]
        m.mul_(b1).add_(p.grad, alpha=1 - b1)
        v.mul_(b2).addcmul_(p.grad, p.grad, value=1 - b2)
        root = (v / (1 - b2 ** t)).sqrt_().add_(group["eps"])
        p.mul_(1 - group["lr"] * group["weight_decay"]).addcdiv_(m, root, value=-group["lr"] / (1 - b1 ** t))


def without_gpus():
    """What modules of Megatron-LM ask torch for when they are imported, and later."""
    typing.override = getattr(typing, "override", lambda f: f)  # Megatron-LM wants Python 3.12
    kind = torch.Tensor.type
    torch.Tensor.type = lambda t, *to: kind(t, *to) if to else "torch.cuda." + kind(t).split(".")[-1]
    torch.Tensor.cuda = lambda t, *_, **__: t
    torch.nn.Module.cuda = lambda m, *_: m
    torch.cuda.current_device = lambda: torch.device("cpu")
    torch.cuda.get_rng_state = lambda *_: torch.zeros(16, dtype=torch.uint8)
    torch.cuda.device_count = lambda: 1
    torch.cuda.Stream = torch.cuda.current_stream = torch.cuda.Event = unittest.mock.MagicMock
    torch.cuda.stream = lambda *_: contextlib.nullcontext()
    for name in ("set_rng_state", "set_device", "synchronize", "empty_cache"):
        setattr(torch.cuda, name, lambda *_, **__: None)


def patch():
    """Parts of Megatron-LM that have no meaning without a GPU."""
    import megatron.core.datasets.utils as utils
    import megatron.core.optimizer as optimizer
    import megatron.core.optimizer.distrib_optimizer as distributed
    import megatron.core.tensor_parallel.random as random

    utils.compile_helpers = lambda: None  # of datasets, which are not read here
    random.CudaRNGStatesTracker.fork = lambda *_: contextlib.nullcontext()
    optimizer.Adam, optimizer.USING_PYTORCH_OPTIMIZER = Adam, False
    distributed.HAVE_APEX_OR_TE = True  # whose Adam has its step in the group


def forward_step(rows, model):
    """The loss function of pretrain_gpt.py, without masks."""
    x = next(rows)
    positions = torch.arange(x.shape[1] - 1)[None].expand(x.shape[0], -1)
    mask = torch.ones(1, 1, x.shape[1] - 1, x.shape[1] - 1).triu(1).bool()

    def loss(out):
        total, count = out.float().sum(), torch.tensor(out.numel(), dtype=torch.int)
        return total, count, {"lm loss": torch.stack([total.detach(), count.float()])}
    return model(x[:, :-1], positions, mask, labels=x[:, 1:].contiguous()), loss


def provider(*_, pre_process=True, post_process=True, vp_stage=None, config=None, pg_collection=None):
    from gpt_builders import gpt_builder
    from megatron.training import get_args

    return gpt_builder(get_args(), pre_process, post_process, vp_stage, config=config, pg_collection=pg_collection)


def main():
    source, tokens, out = sys.argv[1:4]
    sys.argv[1:] = sys.argv[4:]
    sys.path[0] = source  # in the place of this directory, which has a megatron.py, too
    without_gpus()
    from megatron.core.enums import ModelType
    from megatron.core.pipeline_parallel import get_forward_backward_func
    from megatron.core.rerun_state_machine import RerunDataIterator
    from megatron.training import initialize, training
    from megatron.training.arguments import core_transformer_config_from_args, parse_and_validate_args
    patch()
    args = parse_and_validate_args()
    initialize.initialize_megatron(allow_no_cuda=True)
    model, optimizer, schedule = training.setup_model_and_optimizer(ModelType.encoder_or_decoder, provider)
    assert args.iteration > 0, "nothing was loaded"
    rows = RerunDataIterator(iter(torch.from_numpy(np.load(tokens)).long().split(args.micro_batch_size)))
    steps = []
    for i in range(args.iteration, args.train_iters):
        rate = optimizer.param_groups[0]["lr"]
        r = training.train_step(forward_step, rows, model, optimizer, schedule, training.get_model_config(model[0]),
                                get_forward_backward_func(), iteration=i)
        steps.append({"lm_loss": float(r[0]["lm loss"]), "grad_norm": float(r[5]), "lr": rate})
    with open(out, "w") as f:
        json.dump(steps, f)


if __name__ == "__main__":
    os.environ.setdefault("MASTER_ADDR", "localhost")
    os.environ.setdefault("MASTER_PORT", "29511")
    for name in ("RANK", "LOCAL_RANK"):
        os.environ.setdefault(name, "0")
    os.environ.setdefault("WORLD_SIZE", "1")
    with CudaMeansCpu():
        main()
