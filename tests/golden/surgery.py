#!/usr/bin/env python3
"""surgery.py [NAME...] - mckpt's models made of others beside those of the tools that people know, on the CPU

peft       mckpt apply-lora against PEFT's merge_and_unload: plain, rslora, patterns, embeddings, saved modules, GPT-2's
           Conv1D, biases, experts
mergekit   mckpt merge against mergekit 0.1.4 on a llama, a gpt2 and a mixtral: linear, slerp, task_arithmetic, ties,
           and dare with our mask, read back from a merge of one model as the elements that differ from the base; norms
           and thresholds of GPT-2's c_attn are of its three parts here
numpy      ties and dare of the papers against a few lines of numpy

The figure is the largest difference of a tensor relative to its largest number, at most 1e-6. Models are those of
tests/golden/ckpt in fp32, and copies with noise. A peer that PYTHON lacks is skipped with a message. mckpt and mexport are
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


def file_of(directory):
    """The tensors of a model's one file, where each expert has its own."""
    from safetensors.torch import load_file
    return load_file(os.path.join(directory, "model.safetensors"))


def difference(got, want, but="nothing"):
    if got.keys() != want.keys():
        sys.exit("other tensors: %s" % (set(got) ^ set(want)))
    return max(((got[k] - want[k]).abs().max() / want[k].abs().max().clamp_min(1e-30)).item()
               for k in want if but not in k)


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


MERGES = [
    ("linear", {}, ["--method", "linear"]),
    ("linear", {"normalize": False}, ["--method", "linear", "--normalize", "false"]),
    ("slerp", {"t": 0.3}, ["--method", "slerp", "--t", "0.3"]),
    ("task_arithmetic", {"lambda": 0.7}, ["--method", "task_arithmetic", "--lambda", "0.7"]),
    ("ties", {"density": 0.4}, ["--method", "ties", "--density", "0.4"]),
    ("ties", {"density": 0.4, "normalize": False, "rescale": True},
     ["--method", "ties", "--density", "0.4", "--normalize", "false", "--rescale", "true"]),
    ("dare_linear", {"density": 0.6}, ["--method", "dare_linear", "--density", "0.6"]),
    ("dare_ties", {"density": 0.6}, ["--method", "dare_ties", "--density", "0.6"]),
]
WEIGHTS = (0.6, 0.9)


def variants(family):
    """base, a and b: a golden model and two copies with noise."""
    import torch
    torch.manual_seed(7)
    for name in ("base", "a", "b"):
        model = model_of(os.path.join(GOLDEN, family))
        with torch.no_grad():
            for parameter in model.parameters():
                if name != "base":
                    parameter.add_(torch.randn_like(parameter) * 0.02)
        shutil.rmtree(name, ignore_errors=True)
        model.save_pretrained(name)


def weighted():
    return ["%s:%g" % x for x in zip("ab", WEIGHTS)]


def masks():
    """Which elements of each model's delta the random part keeps, of every parameter by its name in the file."""
    import torch
    base, kept = file_of("base"), {}
    for number, name in enumerate("ab"):
        # the mask depends on the number of the operand: the other one adds nothing
        words = ["%s:%d" % (x, x == name) for x in "ab"]
        mckpt("merge", "-q", "--force", "--method", "dare_linear", "--density", "0.6", "--rescale", "false", "--base",
              "base", *words, "mask")
        exported("mask")
        merged = file_of("hf")
        kept[number] = {k: (merged[k] != base[k]).to(torch.float32) for k in base}
    return kept


def run_one_mergekit(method, parameters, kept):
    """The tensors that mergekit makes; of dare with our masks in place of its own."""
    import mergekit.sparsify
    import torch
    from mergekit.config import MergeConfiguration
    from mergekit.io.tasks import LoaderCache
    from mergekit.merge import run_merge
    from mergekit.options import MergeOptions
    models = [{"model": name, "parameters": {"weight": w}} for name, w in zip("ab", WEIGHTS)]
    config = {"merge_method": method, "models": models, "parameters": parameters, "dtype": "float32"}
    if method == "slerp":
        config["models"] = [{"model": "a"}, {"model": "b"}]
        config["base_model"] = "a"
    elif method != "linear":
        config["base_model"] = "base"
    plain = mergekit.sparsify.bernoulli
    deltas = [{k: v - base for k, v, base in
               ((k, v, BASE[k]) for k, v in file_of(name).items())} for name in "ab"]

    def masked(tensor, density, rescale_norm=None):
        for number in kept:
            for k, delta in deltas[number].items():
                if delta.shape == tensor.shape and torch.equal(delta, tensor):
                    return mergekit.sparsify.rescaled_masked_tensor(tensor, kept[number][k], rescale_norm)
        raise KeyError("no tensor has this delta")

    mergekit.sparsify.bernoulli = masked
    LoaderCache().loaders.clear()
    shutil.rmtree("theirs", ignore_errors=True)
    run_merge(MergeConfiguration.model_validate(config), "theirs",
              options=MergeOptions(copy_tokenizer=False, write_model_card=False, quiet=True))
    mergekit.sparsify.bernoulli = plain
    return model_of("theirs").state_dict()


BASE = {}


def run_mergekit():
    from importlib.metadata import version
    import mergekit.architecture.base as architecture
    import torch
    print("mergekit", version("mergekit"))
    # the configurations of transformers 5 name torch, which mergekit's models of them do not know
    for kind in (architecture.ConfiguredModuleArchitecture, architecture.ConfiguredModelArchitecture):
        kind.model_rebuild(force=True, _types_namespace={**vars(architecture), "torch": torch})
    worst = 0
    for family in ("llama", "gpt2", "mixtral"):
        variants(family)
        BASE.clear()
        BASE.update(file_of("base"))
        kept = masks()
        for method, parameters, words in MERGES:
            base = [] if method in ("linear", "slerp") else ["--base", "base"]
            mckpt("merge", "-q", "--force", *words, *base, *weighted(), "out")
            # c_attn is one tensor to mergekit, whose norm and threshold are of q, k and v together
            joined = family == "gpt2" and method not in ("linear", "task_arithmetic")
            theirs = run_one_mergekit(method, parameters, kept)
            d = difference(exported("out"), theirs, "c_attn" if joined else "nothing")
            print("  %s, %s %s%s: %.2e" % (family, method, parameters or "", " but for c_attn" if joined else "", d))
            worst = max(worst, d)
    return worst


def papers(deltas, method, density, kept):
    """What the papers add to the base: of flat deltas, all tensors of a model one after the other."""
    import numpy
    trimmed = []
    for number, delta in enumerate(deltas):
        if method == "ties":
            order = numpy.argsort(-numpy.abs(delta.astype(numpy.float32)), kind="stable")
            mask = numpy.zeros(delta.size)
            mask[order[:int(density * delta.size)]] = 1
            trimmed.append(delta * mask)
        else:
            trimmed.append(delta * kept[number] / density)
    trimmed = numpy.stack(trimmed)
    if method == "dare_linear":
        return trimmed.sum(0)
    sign = numpy.where(trimmed.sum(0) >= 0, 1, -1)
    agree = (numpy.sign(trimmed) == sign) * trimmed
    return agree.sum(0) / numpy.maximum((agree != 0).sum(0), 1) if method == "ties" else agree.sum(0)


def run_numpy():
    import numpy
    worst = 0
    variants("llama")
    base = model_of("base").state_dict()
    # in the order of the parameters, which is that of ties at the threshold
    names = [k for k in base]
    flat = {x: numpy.concatenate([model_of(x).state_dict()[k].numpy().ravel().astype(float) for k in names])
            for x in ("base", "a", "b")}
    kept = {n: numpy.concatenate([m[k].numpy().ravel() for k in names]) for n, m in masks().items()}
    for method, density in (("ties", 0.3), ("dare_linear", 0.6), ("dare_ties", 0.6)):
        mckpt("merge", "-q", "--force", "--semantics", "paper", "--method", method, "--density", str(density), "--base",
              "base", "a", "b", "out")
        got = exported("out")
        ours = numpy.concatenate([got[k].numpy().ravel() for k in names])
        want = flat["base"] + papers([flat[x] - flat["base"] for x in "ab"], method, density, kept)
        d = float(numpy.abs(ours - want).max() / numpy.abs(want).max())
        print("  %s of the paper: %.2e" % (method, d))
        worst = max(worst, d)
    return worst


PEERS = {"peft": ("peft", run_peft), "mergekit": ("mergekit", run_mergekit), "numpy": ("torch", run_numpy)}


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
