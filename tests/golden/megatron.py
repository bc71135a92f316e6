#!/usr/bin/env python3
"""megatron.py EXPECTED.safetensors DIR [SET] - read what mckpt export wrote with torch itself

DIR is a SAVE directory of either format. EXPECTED has Megatron-LM's whole tensors: NAME, and with an optimizer
fp32_param/NAME, exp_avg/NAME and exp_avg_sq/NAME. All must be equal, bit for bit, but for padded rows of the vocabulary,
which must be zeros. With SET, a torch_dist directory that Megatron-LM wrote with the same layout, names, sizes and chunks
must be its. Made for torch 2.8.
"""
import argparse
import glob
import json
import os
import re
import sys

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.metadata import BytesStorageMetadata, TensorProperties

TYPES = {"BF16": torch.bfloat16, "F16": torch.float16, "F32": torch.float32}
KINDS = {"param": "fp32_param", "fp32_param": "fp32_param", "exp_avg": "exp_avg", "exp_avg_sq": "exp_avg_sq"}


def read_expected(path):
    with open(path, "rb") as f:
        header = json.loads(f.read(int.from_bytes(f.read(8), "little")))
        body = f.read()
    out = {}
    for name, t in header.items():
        if name != "__metadata__":
            begin, end = t["data_offsets"]
            out[name] = torch.frombuffer(bytearray(body[begin:end]), dtype=TYPES[t["dtype"]]).reshape(t["shape"])
    return out


def iteration_dir(save):
    with open(os.path.join(save, "latest_checkpointed_iteration.txt")) as f:
        return os.path.join(save, "iter_%07d" % int(f.read()))


def engine_name(key):
    """Transformer Engine's name of a norm."""
    key = re.sub(r"\.input_layernorm\.(\w+)", r".self_attention.linear_qkv.layer_norm_\1", key)
    return re.sub(r"\.pre_mlp_layernorm\.(\w+)", r".mlp.linear_fc1.layer_norm_\1", key)


# --- torch_dist ------------------------------------------------------------------------------------


def load_dist(path):
    """All tensors, by EXPECTED's names, and the args."""
    metadata = dcp.FileSystemReader(path).read_metadata()
    state = {k: torch.empty(v.size, dtype=v.properties.dtype) for k, v in metadata.state_dict_metadata.items()
             if not isinstance(v, BytesStorageMetadata)}
    dcp.load(state, checkpoint_id=path, no_dist=True)
    out = {}
    for key, tensor in state.items():
        m = re.fullmatch(r"optimizer\.state\.(\w+)\.(.*)", key)
        kind, name = (KINDS[m[1]] + "/", m[2]) if m else ("", key)
        if name.startswith("decoder.layers."):
            for layer in range(tensor.shape[0]):
                out[kind + name.replace("layers.", "layers.%d." % layer, 1)] = tensor[layer]
        else:
            out[kind + name] = tensor
    place = metadata.storage_data[[k for k in metadata.storage_data if k.fqn == "common_state/shard_0_1"][0]]
    with open(os.path.join(path, place.relative_path), "rb") as f:
        f.seek(place.offset)
        [common] = torch.load(__import__("io").BytesIO(f.read(place.length)), weights_only=True)
    return out, common


def chunks(path):
    """Names, types and sizes of all tensors, with where their chunks lie."""
    metadata = dcp.FileSystemReader(path).read_metadata().state_dict_metadata
    return {k: (v.properties.dtype, tuple(v.size), sorted((tuple(c.offsets), tuple(c.sizes)) for c in v.chunks))
            for k, v in metadata.items() if not isinstance(v, BytesStorageMetadata)}


# --- torch -----------------------------------------------------------------------------------------


def merge(parts, key, args):
    """The whole tensor of what tensor ranks have of it."""
    if len(parts) == 1 or re.search(r"norm|linear_(proj|fc2)\.bias|position_embeddings", key):
        assert all(torch.equal(parts[0], p) for p in parts), key
        return parts[0]
    if re.search(r"linear_(proj|fc2)\.weight", key):
        return torch.cat(parts, 1)
    if "linear_fc1" in key and args.swiglu:
        halves = [p.chunk(2) for p in parts]
        return torch.cat([h[0] for h in halves] + [h[1] for h in halves])
    return torch.cat(parts)


def optimizer_parts(loaded, names, args):
    """What a file has of each tensor: {(kind, key): tensor}."""
    if "optimizer" not in loaded:
        return {}
    optimizer, out = loaded["optimizer"], {}
    inner = optimizer.get("optimizer", optimizer)
    shapes = [[k for k, t in names if (t.dim() > 1) == decay] for decay in (True, False)]
    if "state" not in inner:
        return {}
    for group, keys in zip(inner["param_groups"], shapes):
        assert len(group["params"]) == len(keys) and (group["wd_mult"] > 0) == (keys is shapes[0])
        for i, key in zip(group["params"], keys):
            for kind, tensor in inner["state"][i].items():
                out[kind, key] = tensor
    for keys, tensors in zip(shapes, optimizer.get("fp32_from_fp16_params", [[], []])):
        for key, tensor in zip(keys, tensors):
            out["fp32_param", key] = tensor
    return out


def flat_parts(path, chunk_names):
    """The same of distrib_optim.pt: tensors from the last to the first, each at a multiple of 64."""
    out = {}
    loaded = torch.load(path, weights_only=True)
    assert loaded["buckets_coalesced"]
    for chunk, names in enumerate(chunk_names):
        [buffers] = loaded[chunk].values()
        at = 0
        for key, tensor in reversed(names):
            at = (at + 63) // 64 * 64
            for kind in ("param", "exp_avg", "exp_avg_sq"):
                out[KINDS[kind], key] = buffers[kind][at:at + tensor.numel()].reshape(tensor.shape)
            at += tensor.numel()
        assert at == buffers["numel_unpadded"] == len(buffers["param"])
    return out


def load_torch(path):
    parts, first_layers = {}, {}
    names = sorted(os.listdir(path))
    for name in names:
        m = re.fullmatch(r"mp_rank_(\d\d)(?:_(\d\d\d))?", name)
        rank, stage = int(m[1]), int(m[2] or 0)
        loaded = torch.load(os.path.join(path, name, "model_optim_rng.pt"), weights_only=True)
        args = loaded["args"]
        stages, chunks_of = args.pipeline_model_parallel_size, args.virtual_pipeline_model_parallel_size or 1
        each = args.num_layers // stages // chunks_of
        chunk_names = []
        for j in range(chunks_of):
            first = (j * stages + stage) * each
            model = loaded["model" if chunks_of == 1 else "model%d" % j]
            chunk_names.append([(re.sub(r"(?<=layers\.)\d+", lambda n: str(int(n[0]) + first), engine_name(k)), t)
                                for k, t in model.items() if t is not None])
        flat = [kt for c in chunk_names for kt in c]
        held = {("", k): t for k, t in flat}
        held.update(optimizer_parts(loaded, flat, args))
        distributed = os.path.join(path, name, "distrib_optim.pt")
        if os.path.exists(distributed):
            held.update(flat_parts(distributed, chunk_names))
        for (kind, key), tensor in held.items():
            if key == "output_layer.weight" and not args.untie_embeddings_and_output_weights:
                key = "copy." + key
            parts.setdefault((kind, key), {})[rank] = tensor
    out = {}
    for (kind, key), ranks in parts.items():
        out[(kind + "/" if kind else "") + key] = merge([ranks[r] for r in sorted(ranks)], key, args)
    for key in [k for k in out if "copy." in k]:
        assert torch.equal(out.pop(key), out[key.replace("copy.output_layer", "embedding.word_embeddings")]), key
    return out, loaded


# --- the comparison --------------------------------------------------------------------------------


def main():
    expected, path = read_expected(sys.argv[1]), iteration_dir(sys.argv[2])
    torch.serialization.add_safe_globals([argparse.Namespace])
    found, common = (load_torch if glob.glob(path + "/mp_rank_*") else load_dist)(path)
    args, optimizer = common["args"], any(k.startswith("exp_avg/") for k in found)
    if not optimizer:
        expected = {k: v for k, v in expected.items() if "/" not in k}
    masters = any(k.startswith("fp32_param/") for k in found)
    expected = {k: v for k, v in expected.items() if masters or not k.startswith("fp32_param/")}
    assert found.keys() == expected.keys(), sorted(found.keys() ^ expected.keys())
    for name, tensor in expected.items():
        got = found[name]
        if re.search(r"word_embeddings|output_layer", name):
            assert got.shape[0] == args.padded_vocab_size and not got[args.vocab_size:].any(), name
            tensor, got = tensor[:args.vocab_size], got[:args.vocab_size]
        assert got.dtype == tensor.dtype and torch.equal(got, tensor), name
    if optimizer:
        group = common["optimizer"].get("optimizer", common["optimizer"])["param_groups"][0]
        assert group["step"] == common["iteration"] and "opt_param_scheduler" in common
    if len(sys.argv) > 3:
        setstate = TensorProperties.__setstate__
        TensorProperties.__setstate__ = lambda self, state: setstate(self, state[:5])
        assert chunks(path) == chunks(iteration_dir(sys.argv[3]))
    print("%d equal" % len(expected))


main()
