#!/usr/bin/env python3
"""kinds.py [-s SEED] [KIND...] - which of thirty published kinds of models are read, as a table, on the CPU

Of each kind a small model with random weights is saved by transformers as its releases are: text models inside a
model of images, the older one as pytorch_model.bin. Then transformers loads it from there, mckpt imports it and mtrain
gives its logits. A line a kind: the model that made it known, what transformers 5 does, what mikoshi does: "reads",
with the largest difference of the logits to the largest of them, or the line that refuses it. Status 1 when logits
differ by more than 1e-4, or a kind is not read that should be. Megatron-Bridge was not at hand and has no column.
mckpt and mtrain are taken from PATH. Without transformers 5 there is no table.
"""
import argparse
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
    from safetensors.torch import load_file
except ImportError as e:
    print("skipped: %s" % e)
    sys.exit(0)

LIMIT = 1e-4
VISION = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
          "image_size": 28, "patch_size": 14}
QWEN_VISION = {"depth": 1, "hidden_size": 16, "intermediate_size": 16, "num_heads": 2, "patch_size": 14}
BASE = {"vocab_size": 120, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128, "head_dim": 8,
        "pad_token_id": None, "bos_token_id": 1, "eos_token_id": 2}
ROPE = {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4}}
SECTIONS = {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [1, 1, 2]}}


def of_family(name):
    return lambda: family.FAMILIES[name](random.Random(3), 3)


def inside(text, **members):
    """A text model in one of images."""
    return lambda: {"text_config": text, "vision_config": VISION, **members}


GEMMA3 = {**BASE, "model_type": "gemma3_text", "sliding_window": 8, "query_pre_attn_scalar": 8}
MISTRAL = {**BASE, **ROPE, "model_type": "mistral", "sliding_window": None}
KINDS = {
    # model_type: the release that made it known, the config of a small one, whether it is refused today
    "llama": ("Llama 3.1 8B", of_family("llama"), False),
    "mistral": ("Mistral 7B", of_family("mistral"), False),
    "mixtral": ("Mixtral 8x7B", of_family("mixtral"), False),
    "mistral3": ("Mistral Small 3.1", inside(MISTRAL, image_token_index=5, tie_word_embeddings=False), False),
    "ministral3": ("Ministral 3 8B", of_family("ministral3"), False),
    "qwen2": ("Qwen2.5 7B", of_family("qwen2"), False),
    "qwen2_moe": ("Qwen1.5-MoE-A2.7B", of_family("qwen2_moe"), False),
    "qwen2_5_vl": ("Qwen2.5-VL 7B", lambda: {
        "text_config": {**BASE, **SECTIONS, "use_sliding_window": False}, "image_token_id": 5, "video_token_id": 6,
        "vision_start_token_id": 7, "vision_end_token_id": 8,
        "vision_config": {**QWEN_VISION, "out_hidden_size": 32}}, False),
    "qwen3": ("Qwen3 8B", of_family("qwen3"), False),
    "qwen3_moe": ("Qwen3-30B-A3B", of_family("qwen3_moe"), False),
    "qwen3_vl": ("Qwen3-VL 8B", lambda: {
        "text_config": {**BASE, **SECTIONS}, "image_token_id": 5, "video_token_id": 6, "vision_start_token_id": 7,
        "vision_end_token_id": 8, "vision_config": {
            **QWEN_VISION, "out_hidden_size": 32, "deepstack_visual_indexes": [0],
            "num_position_embeddings": 16}}, False),
    "gemma": ("Gemma 7B", of_family("gemma"), False),
    "gemma2": ("Gemma 2 9B", of_family("gemma2"), False),
    "gemma3": ("Gemma 3 4B", inside(
        GEMMA3, mm_tokens_per_image=4, image_token_index=5, boi_token_index=6, eoi_token_index=7), False),
    "phi3": ("Phi-4", of_family("phi3"), False),
    "olmo2": ("OLMo 2 7B", of_family("olmo2"), False),
    "olmo3": ("OLMo 3 7B", of_family("olmo3"), False),
    "olmoe": ("OLMoE-1B-7B", of_family("olmoe"), False),
    "gpt2": ("GPT-2", of_family("gpt2"), False),
    "gpt_neox": ("japanese-gpt-neox-3.6b, a .bin", of_family("gpt_neox"), False),
    "starcoder2": ("StarCoder2 7B", of_family("starcoder2"), False),
    "granite": ("Granite 3 8B", of_family("granite"), False),
    "smollm3": ("SmolLM3 3B", of_family("smollm3"), False),
    "exaone4": ("EXAONE 4 32B", of_family("exaone4"), False),
    "cohere2": ("Command R7B", of_family("cohere2"), False),
    "nemotron": ("Minitron 8B", of_family("nemotron"), False),
    "gpt_oss": ("gpt-oss-20b, in BF16", lambda: {
        **BASE, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 8}, False),
    "deepseek_v3": ("DeepSeek-V3", lambda: {
        **{k: v for k, v in BASE.items() if k != "head_dim"}, "num_key_value_heads": 4, "moe_intermediate_size": 16,
        "n_routed_experts": 8, "num_experts_per_tok": 2, "n_group": 2, "topk_group": 1, "first_k_dense_replace": 1,
        "q_lora_rank": 16, "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8}, False),
    "qwen3_next": ("Qwen3-Next-80B-A3B", lambda: {
        **BASE, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16,
        "shared_expert_intermediate_size": 16,
        "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 8,
        "layer_types": ["linear_attention", "full_attention"]}, True),
    "falcon": ("Falcon 7B", lambda: {
        "vocab_size": 120, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}, True)}


def loader(config):
    if hasattr(config, "vision_config"):
        return transformers.AutoModelForImageTextToText
    return transformers.AutoModelForCausalLM


def write(kind, directory, seed):
    """A model of the kind, as it is published."""
    config = transformers.AutoConfig.for_model(kind, **KINDS[kind][1]())
    model = loader(config).from_config(config)
    family.randomise(model, seed)
    model.save_pretrained(directory)
    if KINDS[kind][0].endswith(".bin"):
        torch.save(load_file(directory + "/model.safetensors"), directory + "/pytorch_model.bin")
        os.remove(directory + "/model.safetensors")


def theirs(directory, tokens):
    """The logits of transformers from the directory, or its reason."""
    try:
        config = transformers.AutoConfig.from_pretrained(directory)
        model, info = loader(config).from_pretrained(
            directory, attn_implementation="eager", output_loading_info=True, dtype=torch.float32, **family.EXPERTS)
        assert not info["missing_keys"] and not info["mismatched_keys"], "tensors are missing"
        with torch.no_grad():
            return model.eval()(input_ids=torch.tensor(tokens.astype("i8"))[None]).logits[0].numpy(), "reads"
    except Exception as e:
        return None, "%s: %s" % (type(e).__name__, str(e).strip().split("\n")[0][:60])


def ours(directory, work, tokens):
    """The logits of mtrain, whose weights mckpt has imported, or the line that refuses them."""
    np.save(work + "/tokens.npy", tokens)
    for words in (["mckpt", "import", "-q", directory, work + "/ck"],
                  ["mtrain", "--model", directory, "--pretrained-checkpoint", work + "/ck", "--num-threads", "1",
                   "--seq-length", str(len(tokens)), "--tokens-file", work + "/tokens.npy",
                   "--logits-file", work + "/logits.npy"]):
        p = subprocess.run(words, capture_output=True, text=True)
        if p.returncode:
            return None, p.stderr.strip().split("\n")[-1].replace(directory, "DIR")[:90]
    return np.load(work + "/logits.npy"), "reads"


def one(kind, seed):
    """The line of a kind; whether it is as it should be."""
    tokens = np.array([random.Random(seed).randrange(9, 90) for _ in range(24)], "<i4")
    with tempfile.TemporaryDirectory() as work:
        write(kind, work + "/hf", seed)
        they, their_word = theirs(work + "/hf", tokens)
        we, our_word = ours(work + "/hf", work, tokens)
    good = we is not None or KINDS[kind][2]
    if we is not None and they is not None:
        apart = float(np.abs(we - they).max() / np.abs(they).max())
        our_word += ", within %.0e" % apart
        good = apart <= LIMIT
    return "%-12s %-30s %-8s %s" % (kind, KINDS[kind][0], their_word, our_word), good


def main():
    p = argparse.ArgumentParser()
    p.add_argument("-s", "--seed", type=int, default=1)
    p.add_argument("kinds", nargs="*")
    args = p.parse_args()
    if transformers.__version__ < "5":
        print("skipped: transformers %s is older than 5" % transformers.__version__)
        return 0
    print("%-12s %-30s %-8s %s" % ("model_type", "release", "theirs", "mikoshi"))
    failed = 0
    for kind in args.kinds or KINDS:
        line, good = one(kind, args.seed)
        print(line if good else line + "   <- FAILED", flush=True)
        failed += not good
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
