#!/usr/bin/env python3
"""experts.py DIR - make the models with experts of tests/golden/ckpt, with the logits of transformers in fp64

mixtral/, qwen3_moe/  a Hugging Face directory in bf16, tokens.npy, logits_f64.npy [tokens, vocabulary]
stacked/              the second once more, as transformers 5 has its experts in memory: those of a layer in one tensor

Made with transformers 5.23.0 and torch 2.8.0.
"""
import os
import sys

import numpy as np
import torch
import transformers

import family

COMMON = {
    "vocab_size": 83, "hidden_size": 16, "intermediate_size": 20, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 64, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": None,
    "tie_word_embeddings": False, "router_aux_loss_coef": 0.01}
MODELS = {
    "mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2,
                "rope_parameters": {"rope_type": "default", "rope_theta": 1e6}},
    "qwen3_moe": {"num_experts": 5, "num_experts_per_tok": 3, "moe_intermediate_size": 12, "norm_topk_prob": False,
                  "mlp_only_layers": [0], "head_dim": 6, "rope_parameters": {"rope_type": "default", "rope_theta": 1e4}}}


def make(name, directory):
    config = transformers.AutoConfig.for_model(name, **COMMON, **MODELS[name])
    model = transformers.AutoModelForCausalLM.from_config(config)
    family.randomise(model, 4217)
    model.to(torch.bfloat16).save_pretrained(directory)
    if name == "qwen3_moe":
        model.save_pretrained(directory + "/../stacked", save_original_format=False)
    tokens = np.random.default_rng(4217).integers(0, config.vocab_size, 12).astype("<i4")
    exact = family.load(directory, torch.float64)
    with family.wide(torch.float64), torch.no_grad():
        logits = exact(torch.tensor(tokens.astype("i8"))[None]).logits[0].numpy()
    np.save(directory + "/tokens.npy", tokens)
    np.save(directory + "/logits_f64.npy", logits)


def main(top):
    for name in MODELS:
        os.makedirs(os.path.join(top, name), exist_ok=True)
        make(name, os.path.join(top, name))


if __name__ == "__main__":
    main(sys.argv[1])
