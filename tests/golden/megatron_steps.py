#!/usr/bin/env python3
"""megatron_steps.py SOURCE TOKENS.npy OUT.json OPTIONS... - train with Megatron-LM itself, on the CPU

SOURCE is a source tree of Megatron-LM, OPTIONS are its own: of --load a checkpoint, read by its load_checkpoint with the
optimizer and the schedule, and --train-iters. TOKENS has the samples from there on, [samples, --seq-length + 1]. OUT gets
a list of {"lm_loss", "grad_norm", "lr"}, a member per step, and OUT.json.npy the logits of the first sample before the
first step, where a rank has all of them. With --save, what was loaded is saved before the first step,
and the run at each --save-interval. There is a process for each rank of the model and of --data-parallel-size, which is
not an option of Megatron-LM; nor is --wide, with which it computes in fp64, nor --live FILE: each rank R writes its
parameters, masters and states after the last step to FILE.R, as a list of (name, kind, whole shape, first element, elements).

Megatron-LM runs on GPUs only. Here the device "cuda" means the CPU, GPUs have no state of random numbers, and Adam is
spelled out below with the state of the fused one that it uses on GPUs. Its layers, its loading and its steps are its own.
"""
import argparse
import contextlib
import json
import os
import re
import socket
import sys
import types
import typing
import unittest.mock

import numpy as np
import torch
from torch.overrides import TorchFunctionMode


class CudaMeansCpu(TorchFunctionMode):
    """Tensors asked for on a GPU are made on the CPU."""

    def __torch_function__(self, func, _, args=(), kwargs=None):
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
    torch.cuda.get_device_properties = lambda *_: types.SimpleNamespace(major=9, name="Hopper", multi_processor_count=1)
    torch.cuda.Stream = torch.cuda.current_stream = torch.cuda.Event = unittest.mock.MagicMock
    torch.cuda.stream = lambda *_: contextlib.nullcontext()
    for name in ("set_rng_state", "set_device", "synchronize", "empty_cache"):
        setattr(torch.cuda, name, lambda *_, **__: None)


NARROW = torch.float32


def widen():
    """What is asked for in fp32 is computed in fp64; files keep their types."""
    torch.storage._dtype_to_storage_type_map()  # torch makes it once, by the names of types
    torch.set_default_dtype(torch.float64)
    torch.float32 = torch.float = torch.float64
    torch.Tensor.float = torch.Tensor.double
    kind = torch.Tensor.type
    torch.Tensor.type = lambda t, *to: kind(t, *to) if to else kind(t).replace("Double", "Float")


def patch():
    """Parts of Megatron-LM that have no meaning without a GPU."""
    import megatron.core.datasets.utils as utils
    import megatron.core.optimizer as optimizer
    import megatron.core.optimizer.distrib_optimizer as distributed
    import megatron.core.tensor_parallel.random as random
    import megatron.core.transformer.multi_token_prediction as later

    utils.compile_helpers = lambda: None  # of datasets, which are not read here
    random.CudaRNGStatesTracker.fork = lambda *_: contextlib.nullcontext()
    later.is_inference_column_parallel_linear = lambda _: False  # which asks for a class of Transformer Engine
    optimizer.Adam, optimizer.USING_PYTORCH_OPTIMIZER = Adam, False
    widen_heads()
    distributed.HAVE_APEX_OR_TE = True  # whose Adam has its step in the group


def widen_heads():
    """Attention without Transformer Engine takes the widths that attention of latents tells that one of."""
    from megatron.core.transformer import dot_product_attention

    kind = dot_product_attention.DotProductAttention
    init = kind.__init__

    def with_widths(self, config, *args, k_channels=None, v_channels=None, **kwargs):
        init(self, config, *args, **kwargs)
        if v_channels:
            self.hidden_size_per_partition = v_channels * self.num_attention_heads_per_partition
    kind.__init__ = with_widths


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


def save(iteration, *run):
    """Saves when there is a --save, as training.train does between steps."""
    from megatron.training import checkpointing, get_args

    if get_args().save and iteration % get_args().save_interval == 0:
        model, optimizer = run[:2]
        states = [(s, k) for s in optimizer.optimizer.state.values() for k in s] if torch.float32 != NARROW else []
        wide = [(p, p.data) for p in model[0].parameters()] if states else []  # before a step hooks want their types
        for p, data in wide:
            p.data = data.to(NARROW)
        for s, k in states:
            s[k] = s[k].to(NARROW)
        checkpointing.save_checkpoint(iteration, *run, num_floating_point_operations_so_far=0)
        for p, data in wide:
            p.data = data


def write_logits(model, row, out):
    """Of all ranks whose model is whole, since those that share experts run it together; the first one writes them."""
    from megatron.core import mpu

    if mpu.get_tensor_model_parallel_world_size() * mpu.get_pipeline_model_parallel_world_size() > 1:
        return
    length = row.shape[1] - 1
    model.eval()
    with torch.no_grad():
        logits = model(row[:, :-1], torch.arange(length)[None], torch.ones(1, 1, length, length).triu(1).bool())
    model.train()
    if mpu.get_data_parallel_rank() == 0:
        np.save(out + ".npy", logits[0].float().numpy())


def states_of(optimizer, names):
    """Of each parameter of an optimizer: its name, first element, master, and states."""
    if hasattr(optimizer, "model_param_gbuf_map"):
        for p in optimizer.model_param_gbuf_map:  # those of which the data rank has a part
            part = optimizer._get_model_param_range_map(p)["param"]
            tensors = dict(optimizer._get_main_param_and_optimizer_states(p))
            yield names[p], part.start, tensors.pop("param"), tensors
        return
    masters = {}
    if hasattr(optimizer, "float16_groups"):
        for group, main in zip(optimizer.float16_groups, optimizer.fp32_from_float16_groups):
            masters.update((p, m) for p, m in zip(group, main))
    for p, m in masters.items() or [(p, p) for g in optimizer.optimizer.param_groups for p in g["params"]]:
        yield names[p], 0, m if masters else None, optimizer.optimizer.state[m]


def write_live(path, model, optimizer):
    """What the rank has in memory, under Megatron-LM's names; experts are counted over all ranks."""
    from megatron.core import mpu
    from megatron.training import get_args

    names, out = {}, []
    first = mpu.get_expert_model_parallel_rank() * (get_args().num_experts or 0) // mpu.get_expert_model_parallel_world_size()
    for chunk in model:
        for name, p in chunk.named_parameters():
            name = re.sub(r"^(module\.)+", "", name)
            names[p] = re.sub(r"local_experts\.(\d+)", lambda m: "local_experts.%d" % (int(m[1]) + first), name)
            out.append((names[p], "", tuple(p.shape), 0, p.detach().flatten()))
    shapes = {n: tuple(p.shape) for p, n in names.items()}
    for part in optimizer.chained_optimizers:
        for name, start, master, states in states_of(part, names):
            states = dict(states, **({"fp32_param": master} if master is not None else {}))
            out += [(name, kind, shapes[name], start, t.detach().flatten()) for kind, t in states.items()]
    torch.save(out, "%s.%d" % (path, torch.distributed.get_rank()))


def train(tokens, out, live):
    """All steps of one rank. The last stage has the losses; one of its tensor ranks writes them."""
    from megatron.core import mpu
    from megatron.core.distributed import finalize_model_grads
    from megatron.core.enums import ModelType
    from megatron.core.pipeline_parallel import get_forward_backward_func
    from megatron.core.rerun_state_machine import RerunDataIterator
    from megatron.training import get_args, training

    args = get_args()
    model, optimizer, schedule = training.setup_model_and_optimizer(ModelType.encoder_or_decoder, provider)
    assert args.iteration > 0 or not args.load, "nothing was loaded"
    rows = torch.from_numpy(np.load(tokens)).long()
    write_logits(model[0], rows[:1], out)
    rows = rows.split(args.micro_batch_size)
    rows = RerunDataIterator(iter(rows[mpu.get_data_parallel_rank()::args.data_parallel_size]))
    config = training.get_model_config(model[0])
    config.finalize_model_grads_func = finalize_model_grads  # which adds the gradients of tied tables
    if args.load:
        save(args.iteration, model, optimizer, schedule)
    steps = []
    for i in range(args.iteration, args.train_iters):
        rate = optimizer.param_groups[0]["lr"]
        r = training.train_step(forward_step, rows, model, optimizer, schedule, config,
                                get_forward_backward_func(), iteration=i)
        args.consumed_train_samples += args.global_batch_size
        save(i + 1, model, optimizer, schedule)
        if mpu.is_pipeline_last_stage():
            steps.append({"lm_loss": float(r[0]["lm loss"]), "grad_norm": float(r[5]), "lr": rate})
    if live:
        write_live(live, model, optimizer)
    if steps and mpu.get_tensor_model_parallel_rank() == mpu.get_data_parallel_rank() == 0:
        with open(out, "w") as f:
            json.dump(steps, f)


def fork_ranks(count):
    """Becomes `count` processes that find each other by torchrun's variables. Returns whether this is one of them; the
    first one waits for them, and fails when one has."""
    with socket.socket() as s:
        s.bind(("localhost", 0))
        os.environ.update(MASTER_ADDR="localhost", MASTER_PORT=str(s.getsockname()[1]), WORLD_SIZE=str(count))
    ranks = []
    for rank in range(count):
        os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank))
        ranks.append(os.fork())
        if ranks[-1] == 0:
            return True
    if any([os.waitpid(pid, 0)[1] for pid in ranks]):
        sys.exit("a rank failed")
    return False


def main():
    from megatron_engine import stand_in  # not above: a process that Megatron-LM starts has another path
    source, tokens, out = sys.argv[1:4]
    sys.argv[1:] = sys.argv[4:]
    sys.path[0] = source  # in the place of this directory, which has a megatron.py, too
    p = argparse.ArgumentParser(allow_abbrev=False)
    p.add_argument("--data-parallel-size", type=int, default=1)
    p.add_argument("--live")
    p.add_argument("--wide", action="store_true")
    data, sys.argv[1:] = p.parse_known_args()
    p.add_argument("--tensor-model-parallel-size", type=int, default=1)
    p.add_argument("--pipeline-model-parallel-size", type=int, default=1)
    o = p.parse_known_args()[0]
    without_gpus()
    if data.wide:
        widen()
    patch()
    stand_in()
    from megatron.training import initialize
    from megatron.training.arguments import parse_and_validate_args
    if fork_ranks(data.data_parallel_size * o.tensor_model_parallel_size * o.pipeline_model_parallel_size):
        parse_and_validate_args()
        initialize.initialize_megatron(allow_no_cuda=True)
        train(tokens, out, data.live)


if __name__ == "__main__":
    with CudaMeansCpu():
        main()
