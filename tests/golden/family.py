#!/usr/bin/env python3
"""family.py [-n COUNT] [-s SEED] [--write DIR] [FAMILY...] - hold the model families against transformers, on the CPU

For each family COUNT models (default 8) are drawn from SEED, filled with random weights and saved by transformers. Then

    logits      of mtrain in fp64 are within 1e-9 of those of transformers in that precision, and in fp32 within 1e-5,
                or within twice what transformers in fp32 differs from itself in fp64
    export      what mckpt import and mexport make of the directory loads without a missing or unknown tensor, and every
                tensor has the bits of the first one; the config means the same to transformers. Tensors of all experts
                of a layer, as transformers 5 has them in memory, are read as those of each
    greedy      64 tokens are those of generate()
    kept        in fp32 the logits that chose 24 tokens, with keys that are kept, are within 1e-5 of those of a pass over
                the whole text
    training    20 steps of AdamW have the loss and the gradient norm of torch.optim.AdamW in fp64: within 1e-9 in fp64,
                with final weights within 1e-6 after rounding to fp32; in fp32 within 2e-6 (the norm within 100 times
                that), or within twice what torch in fp32 differs, the most of six runs from weights within a rounding

transformers computes norms, rotary tables and softmax in fp32 whatever the model's type; for the comparisons in fp64
these are fp64, too (see wide). mtrain, mckpt, mexport and mshard are taken from PATH. Prints a line per model; the exit
status is 1 when a model fails. Known to run with transformers 4.57.6 and 5.23.0, whose configs have different members,
and torch 2.8.0.
"""
import argparse
import contextlib
import json
import math
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import torch
import transformers
from safetensors import safe_open

warnings.filterwarnings("ignore")
transformers.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()
torch.set_num_threads(1)

SEQ, BATCH, STEPS, LR, PROMPT = 32, 4, 20, 1e-3, 8
NUDGED = 6  # runs that tell how far roundings carry
PRECISIONS = {"fp32": (torch.float32, 1e-5, 2e-6), "fp64": (torch.float64, 1e-9, 1e-9)}


# --- what a family's models differ in: functions of a generator and the number of the model -----------------------------

def sizes(r, i):
    """Members that all but GPT-2 have. Every second model has grouped queries, every third heads of another width. No
    padding: torch gives its row no gradient."""
    heads = r.choice([2, 4, 6])
    width = r.choice([8, 12, 16])
    return {
        "vocab_size": r.randrange(90, 160), "hidden_size": heads * width, "intermediate_size": r.randrange(20, 90),
        "num_hidden_layers": r.randrange(2, 5), "num_attention_heads": heads,
        "num_key_value_heads": r.choice([g for g in range(1, heads) if heads % g == 0]) if i % 2 else heads,
        "max_position_embeddings": 128, "rms_norm_eps": r.choice([1e-5, 1e-6, 1e-3]),
        "tie_word_embeddings": i % 4 in (1, 2), "bos_token_id": 1, "eos_token_id": r.choice([2, [2, 5]]),
        "pad_token_id": None}


def rope(r, kind, **members):
    """Positions, spelled as this version of transformers does."""
    base = r.choice([1e4, 5e5, 1e6])
    scaling = dict({"rope_type": kind}, **members)
    if transformers.__version__ < "5":
        return {"rope_theta": base, "rope_scaling": None if kind == "default" else scaling}
    return {"rope_parameters": dict(scaling, rope_theta=base)}


def yarn(r, i):
    """The attention factor follows from the factor, is given, or from two others."""
    more = [{}, {"attention_factor": 1.25, "beta_fast": 8.0}, {"mscale": 1.0, "mscale_all_dim": 0.8, "beta_slow": 2.0},
            {"truncate": False, "beta_fast": 4.0, "beta_slow": 0.5}]
    return rope(r, "yarn", factor=r.choice([4.0, 40.0]), original_max_position_embeddings=r.choice([16, 32, 64]),
                **more[i // 4 % 4])


def llama3(r):
    return rope(r, "llama3", factor=r.choice([8.0, 32.0]), low_freq_factor=1.0, high_freq_factor=r.choice([2.0, 4.0]),
                original_max_position_embeddings=r.choice([16, 32]))


def head_dim(r, i):
    return {"head_dim": r.choice([6, 10, 20])} if i % 3 == 2 else {}


def llama(r, i):
    kinds = [rope(r, "default"), llama3(r), rope(r, "linear", factor=r.choice([2.0, 2.5])), yarn(r, i)]
    return {**sizes(r, i), **head_dim(r, i), **kinds[i % 4], "attention_bias": i % 5 == 3, "mlp_bias": i % 5 in (3, 4)}


def gpt2(r, i):
    heads, width = r.choice([2, 4, 6]), r.choice([8, 10, 16])
    return {"vocab_size": r.randrange(90, 160), "n_embd": heads * width, "n_inner": r.choice([None, 50]),
            "n_layer": r.randrange(2, 5), "n_head": heads, "n_positions": 128, "layer_norm_epsilon": r.choice([1e-5, 1e-3]),
            "activation_function": ["gelu_new", "gelu", "gelu_pytorch_tanh"][i % 3],
            "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "bos_token_id": 1, "eos_token_id": 2}


def mistral(r, i):
    kinds = [rope(r, "default"), llama3(r)]
    s = sizes(r, i)
    kind = ["sliding_attention", "full_attention"]
    types = {"layer_types": kind + [r.choice(kind) for _ in range(s["num_hidden_layers"] - 2)]}
    return {**s, **head_dim(r, i), **kinds[i % 2], "sliding_window": r.choice([3, 7, 20, 95]) if i % 4 else None,
            **(types if i % 4 > 1 else {})}


def windows(r, i, layers):
    """Of the Qwen families: none, in all layers, or in some."""
    kinds = [{}, {"use_sliding_window": False, "sliding_window": 9, "max_window_layers": 0},
             {"use_sliding_window": True, "sliding_window": r.choice([3, 7, 20]), "max_window_layers": 0},
             {"use_sliding_window": True, "sliding_window": 5, "layer_types": ["sliding_attention"] * layers},
             {"use_sliding_window": True, "sliding_window": 6, "max_window_layers": 1}]
    return kinds[i % 5]


def qwen2(r, i):
    kinds = [rope(r, "default"), yarn(r, i), rope(r, "linear", factor=4.0), yarn(r, i + 4)]
    s = sizes(r, i)
    return {**s, **kinds[i % 4], **windows(r, i, s["num_hidden_layers"])}


def qwen3(r, i):
    return {**qwen2(r, i), "head_dim": r.choice([6, 10, 20]), "attention_bias": i % 5 == 3}


def phi3(r, i):
    s = {**sizes(r, i), **rope(r, "default")}
    if i % 2:
        s["head_dim"] = 16
    s.update(partial_rotary_factor=[1.0, 0.5, 0.75][i % 3], sliding_window=[None, 7, None, 20][i % 4])
    if i % 3 < 2:
        s.update(longrope(r, i, s))
    return s


def longrope(r, i, s):
    """Sequences have more than the original positions from the prompt on, or never."""
    s.pop("head_dim", None)
    pairs = int(s["hidden_size"] // s["num_attention_heads"] * s["partial_rotary_factor"]) // 2
    lists = {k: [r.choice([1.0, 1.05, 2.5, 7.0]) * (k[0] == "l" or 1.1) for _ in range(pairs)]
             for k in ("short_factor", "long_factor")}
    place = rope(r, "longrope", **lists, **([{}, {"attention_factor": 1.4}][i // 3 % 2]))
    return {**place, "original_max_position_embeddings": 4 if i % 2 else 100}


def layer_types(r, i, layers):
    """Where Gemma has the window: by the family's rule, or as listed."""
    return {} if i % 3 else {"layer_types": [r.choice(["sliding_attention", "full_attention"]) for _ in range(layers)]}


def gemma2(r, i):
    s = sizes(r, i)
    layers = s["num_hidden_layers"] = r.randrange(2, 5)
    return {**s, **rope(r, ["default", "linear"][i % 2], **({"factor": 2.0} if i % 2 else {})), **layer_types(r, i, layers),
            "tie_word_embeddings": i % 4 != 3, "head_dim": r.choice([6, 10, 20]), "sliding_window": r.choice([3, 7, 20]),
            "query_pre_attn_scalar": r.choice([9, 16, 24]), "attention_bias": i % 5 == 3,
            "attn_logit_softcapping": [0.7, 50.0, None][i % 3], "final_logit_softcapping": [None, 2.0, 30.0][i % 3]}


def gemma3(r, i):
    s = gemma2(r, i)
    layers = s["num_hidden_layers"] = r.randrange(2, 8)
    s.update(layer_types(r, i, layers), attn_logit_softcapping=None)
    scaling = {"rope_type": "linear", "factor": 8.0}
    for key in ("rope_theta", "rope_scaling", "rope_parameters"):
        s.pop(key, None)
    if transformers.__version__ < "5":
        return {**s, "rope_theta": 1e6, "rope_local_base_freq": r.choice([1e4, 500.0]),
                "rope_scaling": scaling if i % 2 else None}
    full = scaling if i % 2 else {"rope_type": "default"}
    return {**s, "rope_parameters": {"full_attention": dict(full, rope_theta=1e6),
                                     "sliding_attention": {"rope_type": "default", "rope_theta": r.choice([1e4, 500.0])}}}


def olmo2(r, i):
    return {**sizes(r, i), **rope(r, "default"), "attention_bias": i % 4 == 3}


def gpt_neox(r, i):
    s = sizes(r, i)
    for key in ("num_key_value_heads", "rms_norm_eps"):
        s.pop(key)
    share = [0.25, 0.5, 1.0][i % 3]
    s["hidden_size"] = 8 * r.choice([1, 2]) * s["num_attention_heads"]
    base = {"rotary_pct": share, "rotary_emb_base": 5e3}
    if transformers.__version__ >= "5":
        base = {"rope_parameters": {"rope_type": "default", "rope_theta": 5e3, "partial_rotary_factor": share}}
    return {**s, **base, "layer_norm_eps": r.choice([1e-5, 1e-3]), "use_parallel_residual": i % 4 != 2,
            "hidden_act": ["gelu", "gelu_new", "gelu_fast"][i % 3], "attention_bias": i % 5 != 3,
            "attention_dropout": 0.0, "hidden_dropout": 0.0}


def router(r, i):
    """No loss of its own: transformers adds it only where it is asked for the router's logits."""
    experts = r.choice([2, 4, 5, 8])
    return experts, {"num_experts_per_tok": r.randrange(2, experts + 1), "router_aux_loss_coef": 0.0}


def mixtral(r, i):
    experts, members = router(r, i)
    return {**sizes(r, i), **head_dim(r, i), **rope(r, ["default", "linear"][i % 2], **({"factor": 2.0} if i % 2 else {})),
            **members, "num_local_experts": experts, "sliding_window": [None, 7, None, 20][i % 4]}


def qwen3_moe(r, i):
    s, (experts, members) = sizes(r, i), router(r, i)
    if i % 2:
        members["num_experts_per_tok"] = r.randrange(1, experts + 1)
    window = [{}, {"use_sliding_window": True, "sliding_window": 7}, {"use_sliding_window": False, "sliding_window": 9}]
    layers = [{}, {"mlp_only_layers": [0]}, {"decoder_sparse_step": 2}, {"mlp_only_layers": [1], "decoder_sparse_step": 1}]
    return {**s, **[rope(r, "default"), yarn(r, i)][i % 2], **window[i % 3], **layers[i % 4], **members,
            "num_experts": experts, "moe_intermediate_size": r.randrange(10, 40), "head_dim": r.choice([6, 10, 20]),
            "norm_topk_prob": i % 2 == 0, "attention_bias": i % 5 == 3}


def qwen2_moe(r, i):
    s = qwen3_moe(r, i)
    s.update([{}, {"max_window_layers": 1}, {"layer_types": ["full_attention", "sliding_attention", "full_attention"]}][i % 3])
    if "layer_types" in s:
        s.update(num_hidden_layers=3, use_sliding_window=True, sliding_window=5)
    if "mlp_only_layers" in s and i % 3 == 1:
        s["use_sliding_window"] = True
    for key in ("head_dim", "attention_bias"):
        s.pop(key)
    return {**s, "qkv_bias": i % 5 != 3, "shared_expert_intermediate_size": r.randrange(10, 40)}


def arcee(r, i):
    return {**llama(r, i), "hidden_act": "relu2"}


def nemotron(r, i):
    s = sizes(r, i)
    s["norm_eps"] = s.pop("rms_norm_eps")
    share = {"partial_rotary_factor": [0.5, 1.0, 0.25][i % 3]}
    if transformers.__version__ < "5":
        place = {"rope_theta": 1e4, **share}
    else:
        place = {"rope_parameters": {"rope_type": "default", "rope_theta": r.choice([1e4, 5e5]), **share}}
    return {**s, **place, "head_dim": 8 if i % 2 else 16, "attention_bias": i % 5 == 3, "mlp_bias": i % 5 in (3, 4)}


def starcoder2(r, i):
    s = sizes(r, i)
    s["norm_epsilon"] = s.pop("rms_norm_eps")
    return {**s, **[rope(r, "default"), yarn(r, i)][i % 2], "use_bias": i % 4 != 2, "sliding_window": [None, 7, 20][i % 3],
            "hidden_act": ["gelu_pytorch_tanh", "gelu", "gelu_pytorch_tanh", "gelu_new"][i % 4],
            "attention_dropout": 0.0, "residual_dropout": 0.0, "embedding_dropout": 0.0}


def seed_oss(r, i):
    return {**sizes(r, i), **[rope(r, "default"), yarn(r, i)][i % 2], "head_dim": r.choice([6, 10, 20]),
            "attention_bias": i % 4 != 3, "attention_out_bias": i % 3 == 1, "mlp_bias": i % 5 == 4,
            "attention_dropout": 0.0, "residual_dropout": 0.0}


def gemma(r, i):
    return {**sizes(r, i), **rope(r, ["default", "linear"][i % 2], **({"factor": 2.0} if i % 2 else {})),
            "tie_word_embeddings": i % 4 != 3, "head_dim": r.choice([6, 10, 20]), "attention_bias": i % 5 == 3,
            "hidden_act": ["gelu_pytorch_tanh", "gelu"][i % 2 if transformers.__version__ >= "5" else 0]}


def olmoe(r, i):
    experts, members = router(r, i)
    return {**sizes(r, i), **[rope(r, "default"), rope(r, "linear", factor=2.0)][i % 2], **members, "num_experts": experts,
            "norm_topk_prob": i % 2 == 1, "attention_bias": i % 5 == 3}


def ministral(r, i):
    return {**mistral(r, i), "head_dim": r.choice([6, 10, 20]), "sliding_window": r.choice([3, 7, 20])}


def olmo3(r, i):
    s = sizes(r, i)
    layers = s["num_hidden_layers"] = r.randrange(3, 7)
    kinds = [None, {"rope_type": "linear", "factor": 8.0},
             {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 32, "beta_fast": 32.0, "beta_slow": 1.0}]
    s.update(layer_types(r, i, layers), sliding_window=r.choice([3, 7, 20]), attention_bias=i % 4 == 3)
    if "layer_types" in s:  # what is said of a kind without layers is not kept
        s["layer_types"][:2] = ["full_attention", "sliding_attention"]
    elif layers < 4:
        s["layer_types"] = ["sliding_attention", "full_attention", "sliding_attention"]
    if transformers.__version__ < "5":
        return {**s, "rope_theta": 5e5, "rope_scaling": kinds[i % 3]}
    full = dict(kinds[i % 3] or {"rope_type": "default"}, rope_theta=r.choice([1e4, 1e6]))
    return {**s, "rope_parameters": {"full_attention": full, "sliding_attention": {
        "rope_type": "default", "rope_theta": r.choice([5e5, full["rope_theta"], 500.0])}}}


def smollm3(r, i):
    s = sizes(r, i)
    layers = s["num_hidden_layers"] = r.randrange(2, 7)
    s.update([{}, {"no_rope_layer_interval": 2}, {"no_rope_layers": [r.randrange(0, 2) for _ in range(layers)]}][i % 3])
    if i % 4 == 3:
        s.update(use_sliding_window=True, sliding_window=r.choice([3, 7, 20]))
    return {**s, **[rope(r, "default"), yarn(r, i)][i % 2], "attention_bias": i % 5 == 3, "mlp_bias": i % 5 == 4}


def exaone4(r, i):
    """The smaller models have no window."""
    s = sizes(r, i)
    layers = s["num_hidden_layers"] = r.randrange(2, 6)
    s.update(layer_types(r, i, layers), sliding_window=r.choice([3, 7, 20]))
    if i % 3 == 0:
        s["layer_types"][:2] = ["sliding_attention", "full_attention"]
    if i % 3 == 2:
        s.update(sliding_window=None, layer_types=["full_attention"] * layers)
    return {**s, **head_dim(r, i), **[rope(r, "default"), llama3(r)][i % 2]}


def granite(r, i):
    """A file that says nothing of attention multiplies nothing there, either."""
    s = {**llama(r, i), "embedding_multiplier": r.choice([12.0, 1.0]), "logits_scaling": r.choice([8.0, 0.7]),
         "residual_multiplier": r.choice([0.22, 1.5])}
    s.pop("head_dim", None)
    return {**s, **([{}, {"attention_multiplier": 0.3}, {"attention_multiplier": 0.015625}][i % 3])}


def ministral3(r, i):
    """In 5 alone. Positions stay below those before the scaling."""
    s = rope(r, "yarn", factor=r.choice([4.0, 16.0]), original_max_position_embeddings=r.choice([128, 200]),
             llama_4_scaling_beta=r.choice([0.1, 0.3]), beta_fast=32.0, beta_slow=1.0,
             **[{}, {"mscale": 1.0, "mscale_all_dim": 1.0}][i % 2])
    return {**sizes(r, i), **s, "head_dim": r.choice([6, 10, 20]), "sliding_window": [None, 7, None, 20][i % 4],
            "max_position_embeddings": 512}


def cohere2(r, i):
    """The larger of two models has a scale of 1 / 16, the smaller 1 / 4; 0.3 is not the inverse of a number."""
    s = sizes(r, i)
    layers = s["num_hidden_layers"] = r.randrange(2, 7)
    s["layer_norm_eps"] = s.pop("rms_norm_eps")
    s.update(layer_types(r, i, layers), sliding_window=r.choice([3, 7, 20]), tie_word_embeddings=i % 4 != 3)
    if "layer_types" in s:
        s["layer_types"][:2] = ["sliding_attention", "full_attention"]
    if i == 7:
        s["layer_types"] = ["full_attention"] * layers
    return {**s, **rope(r, ["default", "linear"][i % 2], **({"factor": 2.0} if i % 2 else {})),
            "logit_scale": [0.25, 0.0625, 0.3, 1.0][i % 4], "attention_bias": i % 5 == 4}


def deepseek_v3(r, i):
    """A bias of the choice is drawn as weights are. Two scores make that of a group."""
    s = sizes(r, i)
    groups, best, each = [(1, 1, 4), (2, 1, 3), (4, 2, 2), (3, 2, 2)][i % 4]
    more = [{}, {"mscale": 1.0, "mscale_all_dim": 0.8}, {"mscale_all_dim": 1.2}, {"mscale": 0.7, "attention_factor": 1.1}]
    kinds = [rope(r, "default"), rope(r, "yarn", factor=r.choice([4.0, 40.0]), original_max_position_embeddings=32,
                                      beta_fast=r.choice([32.0, 4.0]), beta_slow=1.0, **more[i // 2 % 4])]
    s.update(kinds[i % 2], num_key_value_heads=s["num_attention_heads"], q_lora_rank=None if i % 3 == 2 else r.randrange(5, 30),
             kv_lora_rank=r.randrange(5, 80), qk_nope_head_dim=r.randrange(3, 16), qk_rope_head_dim=r.choice([2, 4, 8]),
             v_head_dim=r.randrange(3, 24), moe_intermediate_size=r.randrange(8, 24), n_group=groups, topk_group=best,
             n_routed_experts=groups * each, num_experts_per_tok=r.randrange(1, best * each + 1),
             n_shared_experts=r.choice([1, 2, 3]), routed_scaling_factor=r.choice([2.5, 1.0, 0.6]),
             first_k_dense_replace=i % 2, num_mtp_layers=0)
    return s


def deepseek_v2(r, i):
    """By parts of the softmax, of which the largest is that of a group. transformers reads what rotates as complex numbers in
    place, so that they begin at even elements."""
    s = deepseek_v3(r, i)
    del s["num_mtp_layers"]
    for key in ("qk_nope_head_dim", "kv_lora_rank"):
        s[key] += s[key] % 2
    return {**s, "topk_method": "group_limited_greedy" if s["n_group"] > 1 else "greedy"}


def gpt_oss(r, i):
    """Bounds that some activations reach, and a model whose down projections are square."""
    s, (experts, members) = sizes(r, i), router(r, i)
    layers = s["num_hidden_layers"] = r.randrange(2, 6)
    if i == 2:
        s["intermediate_size"] = s["hidden_size"]
    place = [{}, yarn(r, i), rope(r, "default"), yarn(r, 12)][i % 4]
    return {**s, **members, **place, **layer_types(r, i, layers), "num_local_experts": experts,
            "head_dim": r.choice([8, 10, 20]), "sliding_window": r.choice([3, 7, 20]), "attention_bias": i % 4 != 3,
            "swiglu_limit": [7.0, 1.0, 0.5][i % 3]}


def qwen3_next(r, i):
    """Layers by the interval's default, by another one, or as listed, one of them with attention: transformers generates
    with no other model. At the first token of a text the output of linear attention is its value times q.k, and its norm
    takes that away but for the sign: what is added to its square keeps rounding small."""
    s = qwen3_moe(r, i)
    for key in ("use_sliding_window", "sliding_window", "max_window_layers", "attention_bias", "rope_theta", "rope_parameters",
                "rope_scaling"):
        s.pop(key, None)
    layers = s["num_hidden_layers"] = r.randrange(4, 6)
    kinds = ["linear_attention", "full_attention"]
    s.update([{}, {"full_attention_interval": 2}, {"layer_types": kinds[1:] + [r.choice(kinds) for _ in range(layers - 1)]},
              {"layer_types": kinds[:1] * (layers - 1) + kinds[1:]}][i % 4])
    share = [{}, {"partial_rotary_factor": 0.5}, {"partial_rotary_factor": 1.0}][i % 3]
    scaling = [{}, {"factor": 4.0, "original_max_position_embeddings": 32}][i // 2 % 2]
    place = rope(r, "yarn" if scaling else "default", **scaling, **(share if transformers.__version__ >= "5" else {}))
    keys, each = r.choice([2, 1, 3]), r.choice([2, 1, 3])
    return {**s, **place, **(share if transformers.__version__ < "5" else {}), "head_dim": r.choice([8, 16, 24]),
            "linear_num_key_heads": keys, "linear_num_value_heads": keys * each, "linear_key_head_dim": r.randrange(5, 20),
            "linear_value_head_dim": r.randrange(5, 20), "linear_conv_kernel_dim": [4, 4, 3, 2][i % 4],
            "shared_expert_intermediate_size": r.randrange(10, 40), "rms_norm_eps": r.choice([1e-3, 1e-2]) if i else 1e-6}


FAMILIES = {"llama": llama, "gpt2": gpt2, "mistral": mistral, "mixtral": mixtral, "qwen3_moe": qwen3_moe,
            "qwen2": qwen2, "qwen3": qwen3, "phi3": phi3, "gemma2": gemma2, "gemma3_text": gemma3, "olmo2": olmo2,
            "gpt_neox": gpt_neox, "arcee": arcee, "nemotron": nemotron, "starcoder2": starcoder2,
            "seed_oss": seed_oss, "gemma": gemma, "olmoe": olmoe, "ministral": ministral, "olmo3": olmo3,
            "smollm3": smollm3, "exaone4": exaone4, "granite": granite, "ministral3": ministral3,
            "cohere2": cohere2, "qwen2_moe": qwen2_moe, "deepseek_v2": deepseek_v2,
            "deepseek_v3": deepseek_v3, "gpt_oss": gpt_oss, "qwen3_next": qwen3_next}


# --- transformers -------------------------------------------------------------------------------------------------------

@contextlib.contextmanager
def wide(dtype):
    """With fp64, what transformers computes in fp32 whatever the model's type is computed in fp64."""
    saved = torch.float32, torch.float, torch.Tensor.float
    if dtype == torch.float64:
        torch.set_default_dtype(torch.float64)
        torch.float32 = torch.float = torch.float64
        torch.Tensor.float = torch.Tensor.double
    try:
        yield
    finally:
        torch.float32, torch.float, torch.Tensor.float = saved
        torch.set_default_dtype(torch.float32)


def randomise(model, seed):
    """Weights that make every part matter at these widths."""
    g = torch.Generator().manual_seed(seed)
    shifted = model.config.model_type in ("nemotron", "qwen3_next")  # norms have 1 + weight
    with torch.no_grad():
        biases = [(name, b) for name, b in model.named_buffers() if name.endswith("e_score_correction_bias")]
        for name, p in list(model.named_parameters()) + biases:
            x = torch.randn(p.shape, generator=g)
            if "norm" in name or "ln_" in name:
                one = name.endswith("weight") and (not shifted or name.endswith("linear_attn.norm.weight"))
                p.copy_(one + 0.3 * x)
            elif name.endswith("conv1d.weight"):  # what is divided by its length is not short
                p.copy_(1.5 * x)
            elif name.endswith("bias"):
                p.copy_(0.3 * x)
            elif name.endswith("sinks"):
                p.copy_(1.5 * x)
            else:
                p.copy_(x * (0.5 if "embed" in name or "wte" in name else p.shape[-1] ** -0.5))


# The grouped product of torch knows no fp64.
EXPERTS = {"experts_implementation": "eager"} if transformers.__version__ >= "5" else {}


def load(directory, dtype):
    """The model of a directory, every number in this type; to be used inside wide."""
    config = transformers.AutoConfig.from_pretrained(directory)
    model, info = transformers.AutoModelForCausalLM.from_pretrained(
        directory, attn_implementation="eager", output_loading_info=True, config=config, torch_dtype=torch.float32, **EXPERTS)
    for problem in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs"):
        assert not info.get(problem), "%s: %s" % (problem, info[problem])
    with wide(dtype):
        bare = type(model)(model.config).to(dtype)  # whose tables are of this type, too
    bare.load_state_dict(model.state_dict())
    return bare.eval()


def tensors(directory):
    """Of all files: name, then type and bits."""
    out = {}
    for file in sorted(os.listdir(directory)):
        if file.endswith(".safetensors"):
            with safe_open(os.path.join(directory, file), "pt") as f:
                for name in f.keys():
                    t = f.get_tensor(name)
                    out[name] = (t.dtype, tuple(t.shape), t.contiguous().view(torch.uint8).numpy().tobytes())
    return out


def yarn_meaning(rope):
    """Fills in what missing members of YaRN mean."""
    def scale(m):
        return 0.1 * m * math.log(rope["factor"]) + 1

    one, all_dims = rope.pop("mscale", None), rope.pop("mscale_all_dim", None)
    default = scale(one) / scale(all_dims) if one and all_dims else scale(1)
    for key, value in (("beta_fast", 32.0), ("beta_slow", 1.0), ("truncate", True), ("attention_factor", default)):
        rope.setdefault(key, value)


def meaning(directory):
    """The config as transformers understands it, without what names its origin or repeats other members."""
    c = transformers.AutoConfig.from_pretrained(directory).to_dict()
    for rope in (c.get("rope_parameters"), c.get("rope_scaling")):
        if rope and rope.get("rope_type") == "yarn":
            yarn_meaning(rope)
        if rope and rope.get("rope_type") == "longrope":
            original = c["original_max_position_embeddings"]
            factor = rope.pop("factor", None) or c["max_position_embeddings"] / original
            rope.setdefault("attention_factor", math.sqrt(1 + math.log(factor) / math.log(original)))
    other = "rope_parameters" if transformers.__version__ < "5" else "rope_scaling"
    # These count layers as layer_types or no_rope_layers lists them.
    for key in ("_name_or_path", "max_window_layers", "no_rope_layer_interval", "transformers_version", "dtype",
                "torch_dtype", "use_cache", "n_ctx", "num_mtp_layers", "num_nextn_predict_layers",
                "scoring_func", "topk_method", other):
        c.pop(key, None)
    if c.get("rope_scaling"):
        c["rope_scaling"].pop("rope_theta", None)
    if c.get("activation_function") == "gelu_pytorch_tanh":
        c["activation_function"] = "gelu_new"
    if c.get("hidden_act") in ("gelu_fast", "gelu_pytorch_tanh"):
        c["hidden_act"] = "gelu_new"
    if c["model_type"] == "ministral":
        c.pop("architectures")  # a Mistral's where its file has layer_types
    if "decoder_sparse_step" in c:
        step, listed = c.pop("decoder_sparse_step"), c["mlp_only_layers"]
        c["mlp_only_layers"] = [i for i in range(c["num_hidden_layers"]) if i in listed or (i + 1) % step]
    if c["model_type"] == "gpt2":
        c["n_inner"] = c["n_inner"] or 4 * c["n_embd"]
    else:
        c["head_dim"] = c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]
    return c


# --- mikoshi ------------------------------------------------------------------------------------------------------------

def run(*words):
    p = subprocess.run([str(w) for w in words], capture_output=True, text=True)
    assert p.returncode == 0, "%s: %s" % (" ".join(map(str, words)), p.stderr[-400:])
    return p.stdout


def mtrain(directory, precision, *words):
    return run("mtrain", "-q", "--model", directory, "--pretrained-checkpoint", directory, "--num-threads", 1,
               *(["--fp64"] if precision == "fp64" else []), *words)


def write_dataset(prefix, documents):
    """A .bin and an .idx of 32-bit ids."""
    lengths = np.array([len(d) for d in documents], "<i4")
    starts = np.concatenate([[0], np.cumsum(lengths[:-1], dtype="<i8") * 4]).astype("<i8")
    with open(prefix + ".bin", "wb") as f:
        f.write(np.concatenate(documents).astype("<i4").tobytes())
    with open(prefix + ".idx", "wb") as f:
        f.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 4, len(lengths), len(lengths) + 1))
        f.write(lengths.tobytes() + starts.tobytes() + np.arange(len(lengths) + 1, dtype="<i8").tobytes())


def samples(prefix):
    """All samples of the training, in its order: [steps x batch, seq + 1]."""
    n = STEPS * BATCH
    rows = run("mshard", "sample", "-q", "--data-path", prefix, "--split", "1,0,0", "--seq-length", SEQ,
               "--num-samples", "%d,0,0" % n, "-n", n, "--data-cache-path", prefix + ".cache").splitlines()
    ids = rows[0].split("\t").index("ids")
    return torch.tensor([[int(t) for t in row.split("\t")[ids].split()] for row in rows[1:]])


# --- the comparisons: each returns its figures --------------------------------------------------------------------------

def relative(a, b):
    return float(np.abs(np.asarray(a, "f8") - np.asarray(b, "f8")).max() / np.abs(np.asarray(b, "f8")).max())


def within(what, value, limit):
    assert value <= limit, "%s differ by %.2g, more than %.2g" % (what, value, limit)
    return value


def compare_logits(d, r, vocab):
    tokens = np.array([r.randrange(vocab) for _ in range(96)], "<i4")
    np.save(d + "/../tokens.npy", tokens)
    out, exact = [], None
    for precision, (dtype, limit, _) in reversed(PRECISIONS.items()):
        model = load(d, dtype)
        with wide(dtype), torch.no_grad():
            theirs = model(torch.tensor(tokens.astype("i8"))[None]).logits[0].numpy()
        exact = theirs if exact is None else exact
        limit = max(limit, 2 * relative(theirs, exact))
        mtrain(d, precision, "--tokens-file", d + "/../tokens.npy", "--logits-file", d + "/../logits.npy")
        out.append(within("logits in " + precision, relative(np.load(d + "/../logits.npy"), theirs), limit))
    return out[::-1]


def compare_export(d, name):
    work = os.path.dirname(d)
    run("mckpt", "import", "-q", d, work + "/ckpt")
    run("mexport", "-q", "--arch", name, "--max-shard-size", "20KB", work + "/ckpt", work + "/back")
    load(work + "/back", torch.float32)
    a, b = tensors(d), tensors(work + "/back")
    assert a.keys() == b.keys(), "exported other tensors: %s" % sorted(a.keys() ^ b.keys())
    assert a == b, "tensors differ: %s" % sorted(k for k in a if a[k] != b[k])
    x, y = meaning(d), meaning(work + "/back")
    other = sorted(k for k in x.keys() | y.keys() if x.get(k) != y.get(k))
    assert not other, "members of config.json: %s" % [(k, x.get(k), y.get(k)) for k in other]
    return len(a)


def compare_stacked(model, d):
    """The form of experts that transformers 5 has in memory is read, too."""
    stacked = d + "/../stacked"
    model.save_pretrained(stacked, save_original_format=False)
    assert any(name.endswith("experts.gate_up_proj") for name in tensors(stacked))
    run("mckpt", "diff", d, stacked)


def compare_greedy(d, r, vocab):
    """Of a prompt that is not soon followed by the end of text, if there is one."""
    model = load(d, torch.float64)
    for _ in range(8):
        prompt = [r.randrange(vocab - 1) for _ in range(PROMPT)]
        with wide(torch.float64), torch.no_grad():
            model.generation_config.eos_token_id = model.generation_config.pad_token_id = None
            theirs = model.generate(torch.tensor([prompt]), attention_mask=torch.ones(1, PROMPT, dtype=torch.long),
                                    do_sample=False, max_new_tokens=64)[0].tolist()
        if vocab - 1 not in theirs:
            break
    with open(d + "/../prompt", "w") as f:
        f.write(" ".join(map(str, prompt)))
    ours = mtrain(d, "fp64", "--tokenizer-type", "NullTokenizer", "--vocab-size", vocab, "--prompt-file",
                  d + "/../prompt", "--generate", 64, "--seq-length", PROMPT + 64).split()
    ours = [int(t) for t in ours]
    end = theirs.index(vocab - 1) if vocab - 1 in theirs else len(theirs)  # the end of text of a NullTokenizer
    assert ours == theirs[:end], "greedy tokens differ: %s and %s" % (ours, theirs)
    return len(ours) - PROMPT


def compare_kept(d, r, vocab):
    prompt = [r.randrange(vocab - 1) for _ in range(PROMPT)]
    with open(d + "/../prompt", "w") as f:
        f.write(json.dumps({"input_ids": prompt}))
    null = ["--tokenizer-type", "NullTokenizer", "--vocab-size", vocab, "--seq-length", PROMPT + 24]
    line = mtrain(d, "fp32", *null, "--prompts", d + "/../prompt", "--generate", 24, "--logits-file", d + "/../kept.npy")
    kept, text = np.load(d + "/../kept.npy"), prompt + json.loads(line)["tokens"]
    assert len(kept) >= min(24, len(text) - PROMPT + 1), "%d rows of logits" % len(kept)
    np.save(d + "/../tokens.npy", np.array(text[:PROMPT + len(kept) - 1], "<i4"))
    mtrain(d, "fp32", *null, "--tokens-file", d + "/../tokens.npy", "--logits-file", d + "/../logits.npy")
    return within("logits of kept keys", relative(kept, np.load(d + "/../logits.npy")[PROMPT - 1:]), 1e-5)


def steps_of_torch(model, x):
    """Loss and gradient norm of each step, and the weights after the last. Biases of experts are vectors, one an expert."""
    flat = [p.dim() <= 1 or name.endswith("_bias") for name, p in model.named_parameters()]
    decay = [p for p, plain in zip(model.parameters(), flat) if not plain]
    plain = [p for p, plain in zip(model.parameters(), flat) if plain]
    adam = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}], lr=LR,
                             betas=(0.9, 0.95), eps=1e-8)
    loss, norm = [], []
    for s in range(STEPS):
        rows = x[s * BATCH:(s + 1) * BATCH]
        logits = model(rows[:, :-1]).logits
        step = torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), rows[:, 1:].reshape(-1))
        adam.zero_grad()
        step.backward()
        for p in model.parameters():  # transformers 4 gives an expert without a token none
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad
        norm.append(float(torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)))
        loss.append(float(step))
        adam.step()
    return loss, norm, {k: v.numpy().astype("f4") for k, v in model.state_dict().items()}


def nudge(model, seed):
    """Moves every weight by at most a rounding."""
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(1 + (2 * torch.rand(p.shape, generator=g) - 1) * 2.0 ** -24)


def spread(d, x, exact):
    """How far from the exact losses and gradient norms torch is in fp32: the most of runs that begin within a rounding.
    A small number that a norm divides by, or Adam, multiplies what was rounded before, in any program."""
    out = []
    for seed in range(NUDGED):
        model = load(d, torch.float32).train()
        nudge(model, seed)
        out.append([relative(a, b) for a, b in zip(steps_of_torch(model, x)[:2], exact)])
    return np.max(out, 0)


def compare_training(d, name, r, vocab):
    data, work = d + "/../data", os.path.dirname(d)
    write_dataset(data, [np.array([r.randrange(vocab) for _ in range(r.randrange(20, 300))]) for _ in range(25)])
    x = samples(data)
    model = load(d, torch.float64).train()
    with wide(torch.float64):
        loss, norm, after = steps_of_torch(model, x)
    out, own = [], None
    for precision, (_, _, limit) in reversed(PRECISIONS.items()):
        mtrain(d, precision, "--data-path", data, "--data-cache-path", data + ".cache", "--split", "1,0,0", "--seq-length",
               SEQ, "--global-batch-size", BATCH, "--micro-batch-size", 2, "--train-iters", STEPS, "--lr", LR,
               "--lr-decay-style", "constant", "--weight-decay", 0.1, "--adam-beta1", 0.9, "--adam-beta2", 0.95,
               "--adam-eps", 1e-8, "--clip-grad", 1.0, "--eval-iters", 0, "--metrics-file", work + "/metrics." + precision,
               *(["--moe-router-bias-update-rate", 0] if name == "deepseek_v3" else []), "--no-save-optim", "--save", work + "/trained." + precision)
        rows = [json.loads(line) for line in open(work + "/metrics." + precision)]
        mine = [[row[k] for row in rows if k in row] for k in ("lm_loss", "grad_norm")]
        assert len(mine[0]) == STEPS, "%d steps" % len(mine[0])
        errors, limits = [relative(a, b) for a, b in zip(mine, (loss, norm))], np.array([limit, 100 * limit])
        if precision == "fp32" and any(errors > limits):
            own = spread(d, x, (loss, norm))
            limits = np.maximum(limits, 2 * own)
        out.append(within("losses in " + precision, errors[0], limits[0]))
        within("gradient norms in " + precision, errors[1], limits[1])
    run("mexport", "-q", "--arch", name, "--dtype", "fp32", work + "/trained.fp64", work + "/trained")
    ours = {k: v.numpy() for k, v in load(work + "/trained", torch.float32).state_dict().items()}
    out.append(within("final weights", max(relative(ours[k], v) for k, v in after.items()), 1e-6))
    return out, "" if own is None else " (torch's up to %.0e)" % own[0]


def check(name, i, seed, work):
    """One model: its figures, as words."""
    r = random.Random("%s %d %d" % (name, i, seed))
    members = FAMILIES[name](r, i)
    config = transformers.AutoConfig.for_model(name, **members)
    model = transformers.AutoModelForCausalLM.from_config(config)
    randomise(model, seed + i)
    dtype = [torch.float32, torch.bfloat16, torch.float16][i % 3]
    d = work + "/model"
    model.to(dtype).save_pretrained(d, max_shard_size="16KB" if i % 2 else "5GB")
    vocab = config.vocab_size
    name = transformers.AutoConfig.from_pretrained(d).model_type  # with layer_types mistral is ministral
    logits = compare_logits(d, r, vocab)
    count = compare_export(d, name)
    if hasattr(config, "num_experts_per_tok") and transformers.__version__ >= "5":
        compare_stacked(model, d)
    greedy, kept = compare_greedy(d, r, vocab), compare_kept(d, r, vocab)
    (wide_steps, steps, weights), own = compare_training(d, name, r, vocab)
    return "%s logits %.0e %.0e, %d tensors, %d greedy, kept %.0e, steps %.0e %.0e%s, weights %.0e" % (
        re.sub(r"^torch\.", "", str(dtype)), *logits, count, greedy, kept, wide_steps, steps, own, weights)


class Small(random.Random):
    """Draws the smallest sizes."""
    def randrange(self, a, b):
        return a + super().randrange(2) if b - a > 2 else super().randrange(a, b)

    def choice(self, values):
        return values[0] if isinstance(values[0], int) else super().choice(values)


def write_golden(name, number, directory):
    """A small model and its logits in fp64, for tests without transformers."""
    config = transformers.AutoConfig.for_model(name, **FAMILIES[name](Small(name), number))
    model = transformers.AutoModelForCausalLM.from_config(config)
    randomise(model, number)
    model.to(torch.bfloat16).save_pretrained(directory)
    tokens = np.arange(7, 7 + 3 * 24, 3, "<i4") % config.vocab_size
    with wide(torch.float64), torch.no_grad():
        logits = load(directory, torch.float64)(torch.tensor(tokens.astype("i8"))[None]).logits[0].numpy()
    np.save(directory + "/tokens.npy", tokens)
    np.save(directory + "/logits_f64.npy", logits)
    os.remove(directory + "/generation_config.json")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--write", metavar="DIR", help="only write model NUMBER (-n) of each family as DIR/FAMILY")
    p.add_argument("-n", type=int, default=8)
    p.add_argument("-s", type=int, default=1)
    p.add_argument("--keep", action="store_true", help="leave the files of a model that fails, and print where")
    p.add_argument("family", nargs="*", default=list(FAMILIES))
    o = p.parse_args()
    failed = 0
    if o.write:
        for name in o.family:
            write_golden(name, o.n, os.path.join(o.write, name))
        return 0
    for name in o.family:
        for i in range(o.n):
            work = tempfile.mkdtemp()
            try:
                print("%s %d: %s" % (name, i, check(name, i, o.s, work)), flush=True)
            except Exception as e:  # of the comparison, or of transformers
                failed += 1
                print("%s %d: FAILED: %s%s" % (name, i, e or repr(e), " in " + work if o.keep else ""), flush=True)
                if o.keep:
                    continue
            shutil.rmtree(work)
    print("transformers %s: %d of %d failed" % (transformers.__version__, failed, o.n * len(o.family)))
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
