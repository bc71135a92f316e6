#!/usr/bin/env python3
"""megatron_other.py SRC DST PREFIX - a torch_dist checkpoint as other versions write it

SRC is an iteration that mckpt export wrote. DST/iter_* gets the same tensors under PREFIX, such as NeMo's "module.", layer
by layer instead of stacked, written by torch itself, with the args in common.pt. Made for torch 2.8.
"""
import argparse
import io
import os
import re
import sys

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.metadata import BytesStorageMetadata

src, dst, prefix = sys.argv[1:]
torch.serialization.add_safe_globals([argparse.Namespace])
metadata = dcp.FileSystemReader(src).read_metadata()
state = {k: torch.empty(v.size, dtype=v.properties.dtype) for k, v in metadata.state_dict_metadata.items()
         if not isinstance(v, BytesStorageMetadata)}
dcp.load(state, checkpoint_id=src, no_dist=True)
[place] = [v for k, v in metadata.storage_data.items() if k.fqn == "common_state/shard_0_1"]
with open(os.path.join(src, place.relative_path), "rb") as f:
    f.seek(place.offset)
    [common] = torch.load(io.BytesIO(f.read(place.length)), weights_only=True)
out = {}
for key, tensor in state.items():
    kind, name = re.fullmatch(r"(optimizer\.state\.\w+\.)?(.*)", key).groups(default="")
    if not name.startswith("decoder.layers."):
        out[kind + prefix + name] = tensor
        continue
    for layer in range(tensor.shape[0]):
        out[kind + prefix + name.replace("layers.", "layers.%d." % layer, 1)] = tensor[layer].clone()
path = os.path.join(dst, os.path.basename(src))
os.makedirs(path)
dcp.save(out, checkpoint_id=path, no_dist=True)
torch.save(common, path + "/common.pt")
with open(path + "/metadata.json", "w") as f:
    f.write('{"sharded_backend": "torch_dist", "sharded_backend_version": 1}')
