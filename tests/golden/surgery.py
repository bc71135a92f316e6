#!/usr/bin/env python3
"""surgery.py [NAME...] - mckpt's models made of others beside those of the tools that people know, on the CPU

peft       mckpt apply-lora against PEFT's merge_and_unload: plain, rslora, patterns, embeddings, saved modules, GPT-2's
           Conv1D, biases, experts; largest difference of a tensor relative to its largest number, at most 1e-6

Models are those of tests/golden/ckpt in fp32. A peer that PYTHON lacks is skipped with a message. mckpt and mexport are
taken from PATH.
"""
import os
import shutil
import subprocess
import sys
import tempfile
import warnings

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ckpt")
BOUND = 1e-6

ADAPTERS = [
    ("llama", "plain", {"target_modules": ["q_proj", "v_proj", "down_proj"]}),
    ("llama", "rslora", {"r": 6, "lora_alpha": 9, "use_rslora": True, "target_modules": "all-linear"}),
    ("llama", "patterns", {"target_modules": ["q_proj", "k_proj", "up_proj"],
                           "rank_pattern": {"layers.1.self_attn.q_proj": 2, "^model.layers.0.mlp.up_proj": 3},
                           "alpha_pattern": {"k_proj": 5, r"layers\.[02]\.self_attn\.q_proj": 1}}),
    ("llama", "embedding", {"target_modules": ["embed_tokens", "q_proj"]}),
    ("llama", "saved modules", {"target_modules": ["q_proj"], "modules_to_save": ["lm_head", "embed_tokens", "norm"]}),
    ("gpt2", "Conv1D", {"target_modules": ["c_attn", "c_proj", "c_fc"]}),
    ("gpt2", "biases", {"target_modules": ["c_attn"], "bias": "all"}),
    ("mixtral", "plain", {"target_modules": ["q_proj", "o_proj"]}),
]


def mckpt(*words):
    done = subprocess.run(["mckpt", *words], capture_output=True, text=True)
    if done.returncode:
        sys.exit("mckpt %s: %s" % (" ".join(words), done.stderr))


def model_of(directory):
    import torch
    from transformers import AutoModelForCausalLM
    return AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)


def exported(checkpoint):
    """The tensors of a checkpoint as transformers loads them."""
    shutil.rmtree("hf", ignore_errors=True)
    subprocess.run(["mexport", "-q", "--dtype", "fp32", checkpoint, "hf"], check=True)
    return model_of("hf").state_dict()


def difference(got, want):
    if got.keys() != want.keys():
        sys.exit("other tensors: %s" % (set(got) ^ set(want)))
    return max(((got[k] - want[k]).abs().max() / want[k].abs().max().clamp_min(1e-30)).item() for k in want)


def start(family):
    for directory in ("base", "adapter", "out"):
        shutil.rmtree(directory, ignore_errors=True)
    model = model_of(os.path.join(GOLDEN, family))
    model.save_pretrained("base")
    return model


def run_peft():
    import peft
    import torch
    print("peft", peft.__version__)
    worst = 0
    for family, name, options in ADAPTERS:
        torch.manual_seed(1)
        config = peft.LoraConfig(task_type="CAUSAL_LM", **{"r": 4, "lora_alpha": 8, **options})
        model = peft.get_peft_model(start(family), config)
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.requires_grad:
                    parameter.add_(torch.randn_like(parameter) * 0.05)
        model.save_pretrained("adapter")
        want = {k: v.clone() for k, v in model.merge_and_unload().state_dict().items()}
        mckpt("apply-lora", "-q", "base", "adapter", "out")
        d = difference(exported("out"), want)
        print("  %s, %s: %.2e" % (family, name, d))
        worst = max(worst, d)
    return worst


PEERS = {"peft": ("peft", run_peft)}


def main():
    import importlib.util
    warnings.filterwarnings("ignore")
    os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
    worst = 0
    for name in sys.argv[1:] or PEERS:
        module, run = PEERS[name]
        if not importlib.util.find_spec(module):
            print("%s: skipped: this Python has no %s" % (name, module))
            continue
        import transformers
        transformers.utils.logging.disable_progress_bar()
        with tempfile.TemporaryDirectory() as directory:
            os.chdir(directory)
            worst = max(worst, run())
            os.chdir("/")
    print("largest relative difference %.2e (at most %.0e)" % (worst, BOUND))
    sys.exit(worst > BOUND)


if __name__ == "__main__":
    main()
