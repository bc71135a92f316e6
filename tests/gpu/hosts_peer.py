#!/usr/bin/env python3
"""hosts_peer.py ddp | fsdp - PyTorch's ranks as hosts of their own: the hash of weights after ten
steps of a small Llama in bf16, for hosts.sh

Run by mpirun. Ranks share the GPUs that they see, in turn, and NCCL takes each for a host. Kernels
are deterministic and data depend on the rank alone, so that only sums over ranks can differ. fsdp
is fully_shard (FSDP2); ddp adds gradients by an all-reduce. Without a GPU it runs on gloo.
"""
import hashlib
import os
import sys

rank, size = (int(os.environ["OMPI_COMM_WORLD_" + name]) for name in ("RANK", "SIZE"))
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
os.environ["NCCL_HOSTID"] = f"peer#{rank}"

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

HIDDEN, HEADS, FFN, VOCAB, LENGTH = 256, 8, 704, 2048, 256


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.ModuleList(torch.nn.RMSNorm(HIDDEN) for _ in range(2))
        self.qkv = torch.nn.Linear(HIDDEN, 3 * HIDDEN, bias=False)
        self.out = torch.nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.up = torch.nn.Linear(HIDDEN, 2 * FFN, bias=False)
        self.down = torch.nn.Linear(FFN, HIDDEN, bias=False)

    def forward(self, x):
        heads = self.qkv(self.norm[0](x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(-2))
        gate, up = self.up(self.norm[1](x)).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * up)


class Llama(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(VOCAB, HIDDEN)
        self.layers = torch.nn.ModuleList(Layer() for _ in range(2))
        self.head = torch.nn.Linear(HIDDEN, VOCAB, bias=False)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def share(kind, model, device):
    if kind == "ddp":
        ids = [device.index] if device.type == "cuda" else None
        return torch.nn.parallel.DistributedDataParallel(model, device_ids=ids)
    from torch.distributed.fsdp import fully_shard
    for layer in model.layers:
        fully_shard(layer)
    return fully_shard(model)


def train(model, device):
    data = torch.Generator().manual_seed(rank)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(10):
        tokens = torch.randint(VOCAB, (1, LENGTH + 1), generator=data).to(device)
        with sdpa_kernel(SDPBackend.MATH):
            loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1).float(),
                                   tokens[:, 1:].flatten())
            loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()


def main():
    kind = sys.argv[1]
    gpus = torch.cuda.device_count()
    device = torch.device("cuda", rank % gpus) if gpus else torch.device("cpu")
    if gpus:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if gpus else "gloo", rank=rank, world_size=size,
                            init_method="tcp://127.0.0.1:29577")
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(1)
    model = share(kind, Llama().to(device).bfloat16(), device)
    train(model, device)
    digest = hashlib.sha256()
    for weight in model.parameters():
        weight = weight.full_tensor() if hasattr(weight, "full_tensor") else weight
        digest.update(weight.detach().cpu().view(torch.int16).numpy().tobytes())
    if rank == 0:
        print(digest.hexdigest())
    dist.destroy_process_group()


main()
