#!/usr/bin/env python3
"""mtp.py DIR - write a small DeepSeek-V3 with layers that predict later tokens, and the losses that transformers gives it

DIR gets config.json, model.safetensors in F32, whose layers after the last repeat the tables as published files do,
tokens.jsonl, a document of a sample and its next token, and losses.json: by fp64, the mean loss of the next token and of
each later one, from DeepseekV3ForCausalLM and MtpLayer with the weights that were written. Made with transformers 5.24
and torch 2.15.
"""
import json
import os
import sys

import torch
import torch.nn.functional as F
import transformers
from safetensors.torch import save_file
from transformers.modeling_layers import MtpLayer
from transformers.models.deepseek_v3 import modeling_deepseek_v3 as v3

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import family

SEQ, LAYERS, LATER = 16, 2, 2
F32 = torch.float32  # which is another type inside family.wide


def config(changes):
    return transformers.DeepseekV3Config(**{**dict(
        vocab_size=41, hidden_size=16, intermediate_size=20, moe_intermediate_size=6, num_hidden_layers=LAYERS,
        num_attention_heads=3, num_key_value_heads=3, n_shared_experts=1, n_routed_experts=6, num_experts_per_tok=2,
        n_group=3, topk_group=2, routed_scaling_factor=1.5, kv_lora_rank=10, q_lora_rank=14, qk_nope_head_dim=6,
        qk_rope_head_dim=4, v_head_dim=5, first_k_dense_replace=1, max_position_embeddings=64, rope_theta=100.0,
        num_nextn_predict_layers=LATER, tie_word_embeddings=False, bos_token_id=0, eos_token_id=1,
        attn_implementation="eager", **family.EXPERTS), **changes})


def stored_name(name):
    """Experts of a layer are one tensor each in files, and in memory all of them together."""
    return name.replace("mtp_block.", "").replace("post_norm.", "shared_head.norm.")


def stored(name, t):
    if name.endswith("mlp.experts.gate_up_proj"):
        half = t.shape[1] // 2
        for i in range(t.shape[0]):
            yield name.replace("gate_up_proj", "%d.gate_proj.weight" % i), t[i, :half]
            yield name.replace("gate_up_proj", "%d.up_proj.weight" % i), t[i, half:]
    elif name.endswith("mlp.experts.down_proj"):
        for i in range(t.shape[0]):
            yield name.replace("down_proj", "%d.down_proj.weight" % i), t[i]
    else:
        yield name, t


def write(directory, model, layers):
    tensors = {}
    for name, t in model.state_dict().items():
        tensors.update(stored(name, t))
    for k, layer in enumerate(layers):
        prefix = "model.layers.%d." % (LAYERS + k)
        for name, t in layer.state_dict().items():
            tensors.update(stored(prefix + stored_name(name), t))
        tensors[prefix + "embed_tokens.weight"] = model.model.embed_tokens.weight
        tensors[prefix + "shared_head.head.weight"] = model.lm_head.weight
    save_file({n: t.detach().to(F32).contiguous().clone() for n, t in tensors.items()},
              os.path.join(directory, "model.safetensors"), metadata={"format": "pt"})


def losses(model, layers, ids):
    """Of the hidden state after the final norm, and of what each layer makes of the one before."""
    inputs, labels = ids[None, :-1], ids[None, 1:]
    positions = torch.arange(SEQ)[None]
    mask = torch.full((SEQ, SEQ), float("-inf")).triu(1)[None, None]
    hidden = model.model(input_ids=inputs).last_hidden_state
    angles = model.model.rotary_emb(hidden, positions)
    out = [F.cross_entropy(model.lm_head(hidden)[0], labels[0]).item()]
    for k, layer in enumerate(layers):
        tokens = torch.cat([labels[:, k:], torch.zeros(1, k, dtype=torch.long)], 1)
        hidden = layer(model.model.embed_tokens(tokens), hidden, angles, mask, positions, None)
        left = SEQ - k - 1
        out.append(F.cross_entropy(model.lm_head(hidden)[0, :left], labels[0, k + 1:]).item())
    return out


def make(directory, seed=1, **changes):
    """The directory with everything in it; changes: members of the config that are to be others."""
    os.makedirs(directory, exist_ok=True)
    with family.wide(torch.float64), torch.no_grad():
        model = v3.DeepseekV3ForCausalLM(config(changes)).double().eval()
        layers = [MtpLayer(model.config, v3.DeepseekV3DecoderLayer, v3.DeepseekV3RMSNorm, LAYERS + k).double().eval()
                  for k in range(LATER)]
        family.randomise(model, seed)
        for k, layer in enumerate(layers):
            family.randomise(layer, seed + 1 + k)
        for m in [model, *layers]:
            m.load_state_dict({n: t.to(F32).double() for n, t in m.state_dict().items()})
        ids = torch.randint(2, 41, (SEQ + 1,), generator=torch.Generator().manual_seed(9))
        out = losses(model, layers, ids)
        write(directory, model, layers)
    with open(os.path.join(directory, "tokens.jsonl"), "w") as f:
        f.write(json.dumps({"text": " ".join(map(str, ids.tolist()))}) + "\n")
    with open(os.path.join(directory, "losses.json"), "w") as f:
        json.dump({"transformers": transformers.__version__, "lm_loss": out[0],
                   **{"mtp_%d_loss" % k: x for k, x in enumerate(out[1:], 1)}}, f, indent=1)
        f.write("\n")
    saved = model.config.to_dict()
    saved.update(architectures=["DeepseekV3ForCausalLM"], dtype="float32", num_nextn_predict_layers=LATER)
    for key in ("num_mtp_layers", "_attn_implementation", "attn_implementation"):
        saved.pop(key, None)
    with open(os.path.join(directory, "config.json"), "w") as f:
        json.dump(saved, f, indent=2, sort_keys=True)
        f.write("\n")


if __name__ == "__main__":
    make(sys.argv[1])
