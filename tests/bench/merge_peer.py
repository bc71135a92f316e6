#!/usr/bin/env python3
"""merge_peer.py METHOD BASE A B OUT - a merge by mergekit, for tests/bench/merge.sh

Equal weights, density 0.5 for ties; files are read lazily.
"""
import sys

import mergekit.architecture.base as architecture
import torch
from mergekit.config import MergeConfiguration

method, base, a, b, out = sys.argv[1:]
# the configurations of transformers 5 name torch, which mergekit's models of them do not know
for kind in (architecture.ConfiguredModuleArchitecture, architecture.ConfiguredModelArchitecture):
    kind.model_rebuild(force=True, _types_namespace={**vars(architecture), "torch": torch})

from mergekit.merge import run_merge  # noqa: E402
from mergekit.options import MergeOptions  # noqa: E402

parameters = {"weight": 0.5}
config = {"merge_method": method, "dtype": "bfloat16",
          "models": [{"model": x, "parameters": parameters} for x in (a, b)]}
if method == "ties":
    config["base_model"] = base
    parameters["density"] = 0.5
run_merge(MergeConfiguration.model_validate(config), out,
          options=MergeOptions(copy_tokenizer=False, write_model_card=False, quiet=True,
                               lazy_unpickle=True))
