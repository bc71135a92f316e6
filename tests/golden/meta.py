#!/usr/bin/env python3
"""meta.py DIR - a small Llama in the forms of Meta and Mistral, and the same model as transformers writes it

DIR/hf is the model in safetensors, DIR/one one file of torch.save, DIR/two and DIR/three two files of ranks with columns of the
table of tokens each, as of Llama 2, or rows, as of Llama 3, and DIR/mistral one file of safetensors with Mistral's params.json.
The rows of q and k in DIR/hf are those of transformers' own PermuteForRope. Run with torch 2.15 and transformers
5.24.
"""
import json
import os
import sys
import types

import torch
from safetensors.torch import save_file
from transformers.core_model_loading import PermuteForRope

DIM, LAYERS, HEADS, GROUPS, WIDTH, FFN, VOCAB = 16, 2, 4, 2, 4, 24, 12
PARAMS = {"dim": DIM, "n_layers": LAYERS, "n_heads": HEADS, "n_kv_heads": GROUPS, "norm_eps": 1e-5, "rope_theta": 500000.0,
          "multiple_of": 8, "vocab_size": -1, "unheard_of": 1}
CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": VOCAB, "hidden_size": DIM,
          "intermediate_size": FFN, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "num_key_value_heads": GROUPS,
          "hidden_act": "silu", "max_position_embeddings": 2048, "rms_norm_eps": 1e-5, "rope_theta": 500000.0,
          "tie_word_embeddings": False}
NAMES = {"attention.wq": "self_attn.q_proj", "attention.wk": "self_attn.k_proj", "attention.wv": "self_attn.v_proj",
         "attention.wo": "self_attn.o_proj", "feed_forward.w1": "mlp.gate_proj", "feed_forward.w2": "mlp.down_proj",
         "feed_forward.w3": "mlp.up_proj", "attention_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}
COLUMNS = ("attention.wo", "feed_forward.w2")


def tensors():
    """Meta's names, and where they go."""
    g = torch.Generator().manual_seed(11)
    shapes = {"attention.wq": (HEADS * WIDTH, DIM), "attention.wk": (GROUPS * WIDTH, DIM), "attention.wv": (GROUPS * WIDTH, DIM),
              "attention.wo": (DIM, HEADS * WIDTH), "feed_forward.w1": (FFN, DIM), "feed_forward.w2": (DIM, FFN),
              "feed_forward.w3": (FFN, DIM), "attention_norm": (DIM,), "ffn_norm": (DIM,)}
    meta = {"tok_embeddings.weight": (VOCAB, DIM), "norm.weight": (DIM,), "output.weight": (VOCAB, DIM)}
    for i in range(LAYERS):
        meta.update({"layers.%d.%s.weight" % (i, n): s for n, s in shapes.items()})
    meta = {n: torch.randn(s, generator=g).bfloat16() for n, s in meta.items()}
    hf = {"model.embed_tokens.weight": meta["tok_embeddings.weight"], "model.norm.weight": meta["norm.weight"],
          "lm_head.weight": meta["output.weight"]}
    for i in range(LAYERS):
        for name, to in NAMES.items():
            x = meta["layers.%d.%s.weight" % (i, name)]
            if name in ("attention.wq", "attention.wk"):
                x = PermuteForRope()._permute_for_rope(x, types.SimpleNamespace(num_attention_heads=x.shape[0] // WIDTH))
            hf["model.layers.%d.%s.weight" % (i, to)] = x.contiguous()
    return meta, hf


def part(name, x, rank, table):
    if x.ndim == 1:
        return x.clone()
    columns = any(c in name for c in COLUMNS) or (name.startswith("tok_") and table == 1)
    return x.chunk(2, 1 if columns else 0)[rank].clone()


def write(directory, name, value):
    with open(os.path.join(directory, name), "w") as f:
        json.dump(value, f, indent=1)


def main():
    meta, hf = tensors()
    d = {n: os.path.join(sys.argv[1], n) for n in ("hf", "one", "two", "three", "mistral")}
    for n in d.values():
        os.makedirs(n, exist_ok=True)
    save_file(hf, d["hf"] + "/model.safetensors", metadata={"format": "pt"})
    write(d["hf"], "config.json", CONFIG)
    torch.save({**meta, "rope.freqs": torch.ones(WIDTH // 2)}, d["one"] + "/consolidated.00.pth")
    write(d["one"], "params.json", PARAMS)
    for name, table in (("two", 1), ("three", 0)):
        for r in range(2):
            torch.save({n: part(n, x, r, table) for n, x in meta.items()}, "%s/consolidated.%02d.pth" % (d[name], r))
        write(d[name], "params.json", PARAMS)
    save_file(meta, d["mistral"] + "/consolidated.safetensors")
    write(d["mistral"], "params.json",
          {**{k: v for k, v in PARAMS.items() if k != "multiple_of"}, "head_dim": WIDTH, "hidden_dim": FFN, "vocab_size": VOCAB,
           "max_seq_len": 2048})


if __name__ == "__main__":
    main()
