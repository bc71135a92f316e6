#!/usr/bin/env python3
"""mutate.py [-n COUNT] [-s SEED] [-v] [FAMILY...] - changed config.json files against transformers, on the CPU

Models are those of family.py. Of each family COUNT copies (default 200) get a config.json with one change, drawn from
SEED: a member is dropped, null, of another type or has another value, or one is added; in the form that transformers 5
writes, or with the rotary settings at the top as 4 wrote them. Each is loaded by transformers and read by mtrain:

    refused   by mtrain; transformers has other logits than before the change, or refuses it too
    noted     mtrain names the member in a note
    read      mtrain has the logits of transformers, in fp32 or, where rounding grows, in fp64
    lenient   transformers refuses the change, mtrain does not: there are no logits to differ from
    silent    other logits without a note: a failure
    strict    refused, though transformers has the logits of before: a failure, but for two members that are refused by
              rule. With tie_word_embeddings, a head that differs is the head to transformers 5 and none to 4; with
              use_bidirectional_attention the logits depend on the kernel of attention

Prints a line a family, with -v one a change, and each failure in full. mtrain is taken from PATH. Without transformers
5 nothing is compared.
"""
import argparse
import copy
import json
import os
import random
import subprocess
import sys
import tempfile

try:
    import family
    import numpy as np
    import torch
    import transformers
except ImportError as e:
    print("skipped: %s" % e)
    sys.exit(0)

LIMIT = 3e-5
BY_RULE = ("tie_word_embeddings", "use_bidirectional_attention")
KINDS = ("refused", "noted", "read", "lenient", "silent", "strict")
SCALINGS = [
    None, {}, {"type": "linear", "factor": 2.0}, {"rope_type": "linear", "factor": 2}, {"rope_type": "default"},
    {"rope_type": "default", "factor": 4.0}, {"rope_type": "dynamic", "factor": 2.0},
    {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
    {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
     "original_max_position_embeddings": 32},
    {"type": "yarn", "factor": 4.0}, {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16},
    {"rope_type": "yarn", "factor": 2.0, "truncate": None, "original_max_position_embeddings": 32},
    {"rope_type": "yarn", "factor": None, "original_max_position_embeddings": 32},
    {"rope_type": "yarn", "factor": 4.0, "beta_fast": 0, "attention_factor": 1.5}, {"rope_theta": 500.0},
    {"rope_type": "linear", "factor": 2.0, "rope_theta": 500.0}, {"type": "su"}, "linear", False]
ADDED = {
    "rope_scaling": SCALINGS, "rope_parameters": SCALINGS, "rope_theta": [500.0, 10000, "x", None],
    "original_max_position_embeddings": [16, 64, None], "partial_rotary_factor": [1.0, 0.5], "sliding_window": [5, 500, None],
    "layer_types": [None, "full", "sliding"], "use_sliding_window": [True, False, None], "max_window_layers": [0, 1, 99],
    "attention_bias": [True, False], "mlp_bias": [True, False], "head_dim": [None, 8], "pretraining_tp": [2, 1],
    "hidden_act": ["silu", "swish", "gelu", "gelu_new", "gelu_fast", "relu"],
    "hidden_activation": ["gelu_new", "gelu_pytorch_tanh", "gelu", "silu"],
    "activation_function": ["gelu_new", "gelu_fast", "gelu", "silu"], "attn_logit_softcapping": [1.0, None],
    "final_logit_softcapping": [1.0, None], "use_bidirectional_attention": [True, False, None], "clip_qkv": [None, 0.1],
    "router_jitter_noise": [0.0, 0.1], "num_experts": [2, 3], "num_local_experts": [2, 3], "norm_topk_prob": [True, False],
    "num_hidden_layers": [1, 2], "num_attention_heads": [1, 2], "hidden_size": [16], "max_position_embeddings": [128, 64],
    "scale_attn_weights": [False], "scale_attn_by_inverse_layer_idx": [True], "add_cross_attention": [False],
    "use_parallel_residual": [True, False], "rotary_pct": [0.5, 1.0], "rotary_emb_base": [77.0], "logit_scale": [0.5, 1.0],
    "output_router_logits": [True], "output_attentions": [True], "temperature": [0.3], "use_cache": [False],
    "mlp_only_layers": [[0], [], None], "decoder_sparse_step": [1, 2], "quantization_config": [None],
    "transformers_version": ["4.57.6", "5.0.0"], "rope_local_base_freq": [77.0], "sliding_window_pattern": [2, 3, "x"],
    "unheard_of": [1, "x", None], "per_layer_config": [None], "torch_dtype": ["float16"], "return_dict": [True],
    "num_nextn_predict_layers": [0, 1], "id2label": [{"0": "a", "1": "b", "2": "c"}], "rope_interleaved": [False],
    "attention_dropout": [0.1], "resid_pdrop": [0.1], "query_pre_attn_scalar": [4, 64], "attention_multiplier": [0.5]}


# --- changes ------------------------------------------------------------------------------------------------------------

def old_form(config):
    """The rotary settings as transformers 4 wrote them."""
    c = copy.deepcopy(config)
    rope = c.pop("rope_parameters", None)
    if rope is None:
        return c
    if "full_attention" in rope:
        c["rope_local_base_freq"] = rope["sliding_attention"]["rope_theta"]
        rope = rope["full_attention"]
    c["rotary_emb_base" if c["model_type"] == "gpt_neox" else "rope_theta"] = rope.pop("rope_theta")
    if "partial_rotary_factor" in rope:
        c["rotary_pct" if c["model_type"] == "gpt_neox" else "partial_rotary_factor"] = rope.pop("partial_rotary_factor")
    c["rope_scaling"] = None if rope["rope_type"] == "default" else rope
    return c


def other_value(r, x):
    if isinstance(x, bool):
        return not x
    if isinstance(x, int):
        return r.choice([x + 1, 2 * x, max(x // 2, 1), 0])
    if isinstance(x, float):
        return r.choice([2 * x, x / 2, x + 0.25, 0.0])
    if isinstance(x, str):
        return r.choice(["", "x", x.upper(), x + "x"])
    if isinstance(x, list):
        return r.choice([x[::-1], x[:-1], x + x[:1], []])
    return r.choice([{}, 1])


def other_type(r, x):
    if isinstance(x, bool):
        return r.choice([int(x), str(x)])
    if isinstance(x, (int, float)):
        return r.choice([str(x), float(x) if isinstance(x, int) else int(x), [x]])
    return r.choice([1, "x", {}, [], True])


def place(r, config):
    """An object and a member of it: at the top, or in the rotary settings."""
    inside = [config]
    for key in ("rope_scaling", "rope_parameters"):
        if isinstance(config.get(key), dict):
            inside.append(config[key])
            inside += [v for v in config[key].values() if isinstance(v, dict)]
    at = r.choice(inside) if r.random() < 0.4 else config
    return (at, r.choice(sorted(at))) if at else (config, "hidden_size")


def change(r, config):
    """One change of a copy: the copy, the member's name, and how."""
    c = copy.deepcopy(config)
    if r.random() < 0.35:
        key = r.choice(sorted(ADDED))
        value = copy.deepcopy(r.choice(ADDED[key]))
        if key == "layer_types" and value:
            value = [value + "_attention" if value == "full" or i % 2 else "full_attention" for i in range(
                c.get("num_hidden_layers") or c.get("n_layer"))]
        c[key] = value
        return c, key, "is " + json.dumps(value)
    at, key = place(r, c)
    how = r.choice(["drop", "null", "type", "value", "value"])
    if how == "drop":
        del at[key]
        return c, key, "dropped"
    at[key] = {"null": lambda: None, "type": lambda: other_type(r, at[key]), "value": lambda: other_value(r, at[key])}[how]()
    return c, key, "is " + json.dumps(at[key])


# --- both sides ---------------------------------------------------------------------------------------------------------

def theirs(directory, tokens):
    """The logits of transformers, or None."""
    try:
        model, info = transformers.AutoModelForCausalLM.from_pretrained(
            directory, attn_implementation="eager", experts_implementation="eager",
            output_loading_info=True, dtype=torch.float32)
        if info["missing_keys"] or info["mismatched_keys"] or info.get("error_msgs"):
            return None
        with torch.no_grad():
            out = model.eval()(torch.tensor(tokens.astype("i8"))[None])
        return out.logits[0].numpy()
    except Exception:
        return None


def equal_in_double(directory, work, tokens):
    """Whether it was rounding: both in fp64."""
    model = family.load(directory, torch.float64)
    with family.wide(torch.float64), torch.no_grad():
        they = model(torch.tensor(tokens.astype("i8"))[None]).logits[0].numpy()
    we, _ = ours(directory, work, "--fp64")
    return family.relative(we, they) <= 1e-9


def ours(directory, work, *words):
    """The logits of mtrain, or None; and what it said."""
    p = subprocess.run(["mtrain", "--model", directory, "--pretrained-checkpoint", directory, "--num-threads", "1", *words,
                        "--seq-length", "48", "--tokens-file",
                        work + "/tokens.npy", "--logits-file", work + "/logits.npy"],
                       capture_output=True, text=True)
    return (np.load(work + "/logits.npy") if p.returncode == 0 else None), p.stderr


def same(a, b):
    return a.shape == b.shape and np.abs(a - b).max() <= LIMIT * np.abs(b).max()


def kind_of(before, they, we, said, key):
    noted = any(key in line for line in said.splitlines() if "not read" in line)
    if we is None:
        unchanged = they is not None and same(they, before)
        return "strict" if unchanged and key not in BY_RULE else "refused"
    if they is None:
        return "lenient"
    if same(we, they):
        return "noted" if noted else "read"
    return "noted" if noted else "silent"


class Base:
    """A model of a family, its config and its logits."""
    def __init__(self, name, seed, number, work):
        r = random.Random("%d %s %d" % (seed, name, number))
        self.dir = "%s/base%d" % (work, number)
        config = transformers.AutoConfig.for_model(name, **family.FAMILIES[name](r, number))
        model = transformers.AutoModelForCausalLM.from_config(config)
        family.randomise(model, seed + number)
        model.save_pretrained(self.dir)
        self.config = json.load(open(self.dir + "/config.json"))
        self.tokens = np.array([r.randrange(self.config["vocab_size"]) for _ in range(48)], "<i4")
        self.logits = theirs(self.dir, self.tokens)


def one(base, r, work):
    """The kind of a change, and a line about it."""
    form = r.choice([old_form, copy.deepcopy])
    config, key, how = change(r, form(base.config))
    with tempfile.TemporaryDirectory(dir=work) as d:
        for file in os.listdir(base.dir):
            if file.endswith(".safetensors"):
                os.symlink(os.path.join(base.dir, file), os.path.join(d, file))
        with open(d + "/config.json", "w") as f:
            json.dump(config, f)
        np.save(work + "/tokens.npy", base.tokens)
        they = theirs(d, base.tokens)
        we, said = ours(d, work)
        kind = kind_of(base.logits, they, we, said, key)
        if kind == "silent" and equal_in_double(d, work, base.tokens):
            kind = "read"
    last = [line for line in said.splitlines() if line.startswith("mtrain")][-1:]
    return kind, "%s: %s %s, %s form: %s" % (kind, key, how, "old" if form is old_form else "new", " ".join(last))


def run_family(name, args):
    count = dict.fromkeys(KINDS, 0)
    r = random.Random("%d %s" % (args.seed, name))
    with tempfile.TemporaryDirectory() as work:
        bases = [Base(name, args.seed, i, work) for i in range(8)]
        for i in range(args.count):
            kind, line = one(bases[i % len(bases)], r, work)
            count[kind] += 1
            if args.verbose or kind in ("silent", "strict"):
                print("%s %s" % (name, line), flush=True)
    print("%-12s %s" % (name, "  ".join("%s %d" % (k, count[k]) for k in KINDS)), flush=True)
    return count["silent"] + count["strict"]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("-n", "--count", type=int, default=200)
    p.add_argument("-s", "--seed", type=int, default=1)
    p.add_argument("-v", "--verbose", action="store_true")
    p.add_argument("families", nargs="*")
    args = p.parse_args()
    if transformers.__version__ < "5":
        print("skipped: transformers %s is older than 5" % transformers.__version__)
        return 0
    names = args.families or list(family.FAMILIES)
    return 1 if sum(run_family(name, args) for name in names) else 0


if __name__ == "__main__":
    sys.exit(main())
