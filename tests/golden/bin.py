#!/usr/bin/env python3
"""bin.py DIR - a small Llama as older versions of transformers saved it, and the same in safetensors

DIR/sharded has pytorch_model-*.bin and their index, which names a buffer that is in no file; DIR/one a single file in which
the tied output table shares the embedding's storage, one tensor is a transposed view, and a buffer is left; DIR/plain the
same weights as model.safetensors; DIR/fp8 these in blocks of FP8 with 4 rows and 6 columns, and DIR/decoded what they
decode to in BF16. Run with torch 2.15.
"""
import json
import os
import sys

import torch
from safetensors.torch import save_file

CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 11, "hidden_size": 8,
          "intermediate_size": 12, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "hidden_act": "silu",
          "max_position_embeddings": 32, "rms_norm_eps": 1e-5, "tie_word_embeddings": True, "bos_token_id": 1, "eos_token_id": 2}

BLOCK = [4, 6]


def tensors():
    g = torch.Generator().manual_seed(7)
    p = "model.layers.0."
    shapes = {"model.embed_tokens.weight": (11, 8), "model.norm.weight": (8,), p + "input_layernorm.weight": (8,),
              p + "post_attention_layernorm.weight": (8,), p + "self_attn.q_proj.weight": (8, 8),
              p + "self_attn.k_proj.weight": (4, 8), p + "self_attn.v_proj.weight": (4, 8),
              p + "self_attn.o_proj.weight": (8, 8), p + "mlp.gate_proj.weight": (12, 8), p + "mlp.up_proj.weight": (12, 8),
              p + "mlp.down_proj.weight": (8, 12)}
    return {name: torch.randn(shape, generator=g) for name, shape in shapes.items()}


def put(directory, name, value):
    with open(os.path.join(directory, name), "w") as f:
        json.dump(value, f, indent=1)


def blocks(t):
    """The projections as codes and factors, and the numbers that these are."""
    coded, decoded = {}, {}
    for name, x in t.items():
        decoded[name] = coded[name] = x.bfloat16()
        if "_proj" not in name:
            continue
        grid = [-(-n // b) for n, b in zip(x.shape, BLOCK)]
        factors = 0.01 + torch.rand(grid, generator=torch.Generator().manual_seed(len(coded)))
        coded[name] = (x * 16).to(torch.float8_e4m3fn)
        coded[name + "_scale_inv"] = factors
        each = factors.repeat_interleave(BLOCK[0], 0)[:x.shape[0]].repeat_interleave(BLOCK[1], 1)[:, :x.shape[1]]
        decoded[name] = (coded[name].float() * each).bfloat16()
    return coded, decoded


def main():
    t = tensors()
    coded, decoded = blocks(t)
    for name in ("plain", "one", "sharded", "fp8", "decoded"):
        os.makedirs(os.path.join(sys.argv[1], name), exist_ok=True)
        put(os.path.join(sys.argv[1], name), "config.json", CONFIG)
    save_file(t, os.path.join(sys.argv[1], "plain/model.safetensors"), metadata={"format": "pt"})
    method = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": BLOCK}
    put(os.path.join(sys.argv[1], "fp8"), "config.json", {**CONFIG, "quantization_config": method})
    save_file(coded, os.path.join(sys.argv[1], "fp8/model.safetensors"), metadata={"format": "pt"})
    save_file(decoded, os.path.join(sys.argv[1], "decoded/model.safetensors"), metadata={"format": "pt"})
    one = dict(t)
    one["lm_head.weight"] = one["model.embed_tokens.weight"]
    down = "model.layers.0.mlp.down_proj.weight"
    one[down] = one[down].t().contiguous().t()
    one["model.layers.0.self_attn.rotary_emb.inv_freq"] = torch.ones(2)
    torch.save(one, os.path.join(sys.argv[1], "one/pytorch_model.bin"))
    names, where = sorted(t), {}
    for i in range(2):
        file = "pytorch_model-%05d-of-00002.bin" % (i + 1)
        torch.save({"state_dict": {n: t[n] for n in names[i::2]}}, os.path.join(sys.argv[1], "sharded", file))
        where.update({n: file for n in names[i::2]})
    where["model.layers.0.self_attn.rotary_emb.inv_freq"] = file
    put(os.path.join(sys.argv[1], "sharded"), "pytorch_model.bin.index.json", {"metadata": 1, "weight_map": where})


if __name__ == "__main__":
    main()
