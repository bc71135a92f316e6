#!/usr/bin/env python3
"""granite.py DIRECTORY - a small random Granite of transformers, tokens, and its logits in fp64

Writes config.json, model.safetensors in fp32, tokens.npy and logits.npy. transformers computes
norms, angles and softmax in fp32 whatever the model's type; here these are fp64, too.
"""
import sys

import numpy as np
import torch
from transformers import GraniteConfig, GraniteForCausalLM

to = sys.argv[1]
torch.manual_seed(41)
config = GraniteConfig(
    vocab_size=32, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=16, rms_norm_eps=1e-5, tie_word_embeddings=True,
    embedding_multiplier=12.0, residual_multiplier=0.22, attention_multiplier=0.3,
    logits_scaling=8.0, initializer_range=0.3, attn_implementation="eager")
model = GraniteForCausalLM(config)
for name, p in model.named_parameters():
    if "norm" in name:
        torch.nn.init.uniform_(p, 0.5, 1.5)
model.save_pretrained(to)
tokens = np.random.default_rng(41).integers(0, 32, 12).astype("<i4")
np.save(to + "/tokens.npy", tokens)
model = GraniteForCausalLM.from_pretrained(
    to, attn_implementation="eager", torch_dtype=torch.float64)
width = config.hidden_size // config.num_attention_heads
exponent = -torch.arange(0, width, 2, dtype=torch.float64) / width
model.model.rotary_emb.inv_freq = 10000.0**exponent
torch.set_default_dtype(torch.float64)
torch.float32 = torch.float = torch.float64
torch.Tensor.float = torch.Tensor.double
with torch.no_grad():
    np.save(to + "/logits.npy", model(torch.tensor(tokens.astype("i8"))[None]).logits[0].numpy())
