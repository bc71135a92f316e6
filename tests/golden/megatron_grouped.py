#!/usr/bin/env python3
"""megatron_grouped.py SOURCE FROM TO - experts in the first form of Megatron-LM's --moe-grouped-gemm

FROM is a checkpoint of the torch format with experts as a list of modules; TO gets the same model as GroupedMLP had it up
to core 0.14: weight1 and weight2 of each layer, which are views of [experts, in, out]. SOURCE is a source tree of
Megatron-LM, whose classes the arguments need. Made tests/golden/torch/grouped.tar.xz of experts.tar.xz.
"""
import os
import sys
import typing

import torch

typing.override = getattr(typing, "override", lambda f: f)  # Megatron-LM wants Python 3.12


def grouped(model):
    out = type(model)()
    for key, value in model.items():
        before, mark, rest = key.partition(".local_experts.")
        if not mark:
            out[key] = value
        elif rest.startswith("0.") and rest.endswith(".weight"):
            slabs, e = [], 0
            while before + mark + "%d" % e + rest[1:] in model:
                slabs.append(model[before + mark + "%d" % e + rest[1:]].t())
                e += 1
            fc1 = "linear_fc1" in rest
            shape = (slabs[0].shape[0], -1) if fc1 else (-1, slabs[0].shape[1])
            out[before + (".weight1" if fc1 else ".weight2")] = torch.stack(slabs).contiguous().view(shape).clone()
    return out


def main(source, start, end):
    sys.path[0] = source  # in the place of this directory, which has a megatron.py, too
    for directory, _, files in os.walk(start):
        to = os.path.join(end, os.path.relpath(directory, start))
        os.makedirs(to, exist_ok=True)
        for name in files:
            if not name.endswith(".pt"):
                with open(os.path.join(directory, name)) as f, open(os.path.join(to, name), "w") as g:
                    g.write(f.read())
                continue
            state = torch.load(os.path.join(directory, name), weights_only=False)
            state["model"] = grouped(state["model"])
            torch.save(state, os.path.join(to, name))


if __name__ == "__main__":
    main(*sys.argv[1:])
