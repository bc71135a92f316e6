#!/usr/bin/env python3
"""surgery.py [NAME...] - mckpt's models made of others beside those of the tools that people know, on the CPU

peft       mckpt apply-lora against PEFT's merge_and_unload: plain, rslora, patterns, embeddings, saved modules, GPT-2's
           Conv1D, biases, experts
mergekit   mckpt merge against mergekit 0.1.4 on a llama, a gpt2 and a mixtral: linear, slerp, task_arithmetic, ties,
           and dare with our mask, read back from a merge of one model as the elements that differ from the base; norms
           and thresholds of GPT-2's c_attn are of its three parts here
numpy      ties and dare of the papers against a few lines of numpy
resize     mckpt resize-vocab --init mean against transformers' resize_token_embeddings without the noise that it adds
average    mckpt average against Megatron-LM's tools/checkpoint/weighted_merge.py in the directory MEGATRON: the weights
           that it gives 1 to 64 checkpoints, within 1e-12, and three torch_dist checkpoints that are added as it adds
           them, by add_ in fp32
vocabulary every row of mckpt resize-vocab --report, and of the tables, between the tokenizers of GOLDEN/tokenizers: pieces
           that meet by their bytes, and the old pieces of new ones by sentencepiece and tokenizers without normaliser

The figure is the largest difference of a tensor relative to its largest number, at most 1e-6. Models are those of
tests/golden/ckpt in fp32, and copies with noise. A peer that PYTHON lacks is skipped with a message, and so are those
whose directory is not given. mckpt and mexport are taken from PATH.
"""
import json
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


def byte_letters():
    """The letter of each byte in vocabularies of GPT-2's kind."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    other = iter(range(256, 512))
    return [chr(b) if b in plain else chr(next(other)) for b in range(256)]


def write_bytes_vocabulary(prefix, count):
    """Bytes, pairs of them, and the end of text: `count` tokens, of which fewer are the first of more."""
    letters = byte_letters()
    joined = [(letters[97 + k // 26], letters[97 + k % 26]) for k in range(count - 257)]
    tokens = letters + [a + b for a, b in joined]
    with open(prefix + ".json", "w") as f:
        json.dump({**{t: i for i, t in enumerate(tokens)}, "<|endoftext|>": count - 1}, f)
    with open(prefix + ".txt", "w") as f:
        f.write("#version: 0.2\n" + "".join("%s %s\n" % pair for pair in joined))


def run_resize():
    import torch
    import transformers
    from torch.distributions.multivariate_normal import MultivariateNormal
    print("transformers", transformers.__version__)
    # what it draws is the mean and noise of 1e-9 of the covariance
    MultivariateNormal.sample = lambda self, sample_shape=(): self.loc.expand(*sample_shape, *self.loc.shape)
    worst = 0
    for prefix, count in (("old", 500), ("new", 540)):
        write_bytes_vocabulary(prefix, count)
    words = ["--old-vocab-file", "old.json", "--old-merge-file", "old.txt", "--vocab-file", "new.json", "--merge-file",
             "new.txt", "--init", "mean"]
    for family in ("llama", "gpt2"):
        model = start(family)
        mckpt("resize-vocab", "-q", *words, "base", "out")
        got = exported("out")
        with torch.no_grad():
            model.resize_token_embeddings(540, mean_resizing=True)
        want = {k: v.clone() for k, v in model.state_dict().items()}
        # the end of text is the last token of both: theirs keeps its number, and new ones follow it
        for v in want.values():
            if v.shape[0] == 540:
                v[539], v[499] = v[499].clone(), v[500]
        d = difference(got, want)
        print("  %s: %.2e" % (family, d))
        worst = max(worst, d)
    return worst


def megatron_weights():
    """checkpoint_coefficients of Megatron-LM's tool, whose imports need more than it does."""
    import ast
    import math
    import random
    import typing
    path = os.path.join(os.environ["MEGATRON"], "tools/checkpoint/weighted_merge.py")
    wanted = {"_schedule_linear_decay", "_schedule_minus_sqrt_decay", "SCHEDULES", "VALID_MODIFIERS", "WeightedMergeError",
              "parse_schedule_style", "schedule_to_merge_coefficients", "apply_modifier", "checkpoint_coefficients"}
    with open(path) as f:
        tree = ast.parse(f.read())
    names = lambda x: {getattr(x, "name", None), *(t.id for t in getattr(x, "targets", [getattr(x, "target", None)])
                                                   if isinstance(t, ast.Name))}
    tree.body = [x for x in tree.body if names(x) & wanted]
    space = {**vars(typing), "math": math, "random": random}
    exec(compile(tree, path, "exec"), space)
    return space["checkpoint_coefficients"]


def run_average():
    import torch
    coefficients = megatron_weights()
    variants("llama")
    styles = ("linear", "minus-sqrt", "linear__reverse", "minus-sqrt__reverse")
    worst = 0
    for style in styles:
        for n in range(1, 65):
            done = subprocess.run(["mckpt", "average", "-q", "--merge-preflight-only", "--merge-style", style, *["a"] * n,
                                   "none"], capture_output=True, text=True, check=True)
            got = [float(line.split("\t")[2]) for line in done.stdout.splitlines()[1:]]
            want = list(coefficients(list(range(n)), style).values())
            worst = max(worst, *(abs(x - y) for x, y in zip(got, want, strict=True)))
    print("  weights of 1 to 64 checkpoints, %d styles: %.1e" % (len(styles), worst))
    if worst > 1e-12:
        sys.exit("the weights are others")
    names = ("base", "a", "b")
    for name in names:
        mckpt("export", "-q", "--to", "torch_dist", name, "dist-" + name)
    mckpt("average", "-q", "--merge-style", "minus-sqrt", *("dist-" + x for x in names), "out")
    weights = list(coefficients([0, 1, 2], "minus-sqrt").values())
    want = {}
    for name, weight in zip(names, weights):
        for k, v in model_of(name).state_dict().items():
            want.setdefault(k, torch.zeros_like(v)).add_(v, alpha=weight)
    d = difference(exported("out"), want)
    print("  three torch_dist checkpoints of llama: %.2e" % d)
    return d


class Pieces:
    """A tokenizer by its pieces: (class, bytes) of each, and how exact bytes are encoded."""

    def __init__(self, *paths):
        self.paths = paths
        if len(paths) == 1:
            self.read_sentencepiece()
        else:
            self.read_bytes()
        self.first = {}
        for i, key in enumerate(self.keys):
            self.first.setdefault(key, []).append(i)

    def read_sentencepiece(self):
        import sentencepiece
        from sentencepiece import sentencepiece_model_pb2
        proto = sentencepiece_model_pb2.ModelProto()
        with open(self.paths[0], "rb") as f:
            proto.ParseFromString(f.read())
        self.keys = []
        for p in proto.pieces:
            if p.type in (p.CONTROL, p.UNKNOWN):
                self.keys.append(("control", p.piece.encode()))
            elif p.type == p.BYTE:
                self.keys.append(("byte", bytes([int(p.piece[3:5], 16)])))
            else:
                self.keys.append(("text", p.piece.replace("\u2581", " ").encode()))
        self.roles = {"unk": proto.trainer_spec.unk_id, "bos": proto.trainer_spec.bos_id, "eos": proto.trainer_spec.eos_id}
        spec = proto.normalizer_spec
        spec.name, spec.precompiled_charsmap = "identity", b""
        spec.add_dummy_prefix = spec.remove_extra_whitespaces = False
        self.model = sentencepiece.SentencePieceProcessor(model_proto=proto.SerializeToString())
        self.encode_text = self.model.encode

    def read_bytes(self):
        from tokenizers.models import BPE
        with open(self.paths[0]) as f:
            vocab = json.load(f)
        with open(self.paths[1]) as f:
            merges = [tuple(line.split()) for line in f.read().splitlines() if line and not line.startswith("#version")]
        letters = byte_letters()
        of = {c: b for b, c in enumerate(letters)}
        self.keys = [None] * len(vocab)
        for piece, i in vocab.items():
            control = piece == "<|endoftext|>"
            raw = piece.encode() if control else bytes(of[c] for c in piece)
            self.keys[i] = ("control" if control else "byte" if len(raw) == 1 and raw[0] > 127 else "text", raw)
        self.roles = dict.fromkeys(("bos", "eos", "unk"), vocab["<|endoftext|>"])
        model = BPE(vocab, merges)
        self.encode_text = lambda text: [t.id for t in model.tokenize("".join(letters[b] for b in text.encode()))]

    def encode(self, raw):
        try:
            ids = self.encode_text(raw.decode())
        except UnicodeDecodeError:
            ids = [self.first[("byte", raw[k:k + 1])][0] if ("byte", raw[k:k + 1]) in self.first else None
                   for k in range(len(raw))]
        return [] if None in ids or self.roles.get("unk") in ids else ids

    def words(self, prefix):
        if len(self.paths) == 1:
            return ["--%stokenizer-model" % prefix, self.paths[0]]
        return ["--%svocab-file" % prefix, self.paths[0], "--%smerge-file" % prefix, self.paths[1]]


def rows_of(before, after):
    """(from, old ids) of each new token."""
    used, rows = {}, []
    for i, key in enumerate(after.keys):
        same = before.first.get(key)
        if same:
            k = used.get(key, 0)
            used[key] = k + 1
            old = same[k] if k < len(same) else same[0]
            rows.append(("same" if old == i else "moved", [old]))
        else:
            rows.append(None)
    for role, i in after.roles.items():
        if i >= 0 and rows[i] is None and before.roles.get(role, -1) >= 0:
            rows[i] = ("role", [before.roles[role]])
    for i, key in enumerate(after.keys):
        if rows[i] is None:
            ids = before.encode(key[1]) if key[0] != "control" else []
            rows[i] = ("mean-of", ids) if ids else ("mean", [])
    return rows


def run_vocabulary():
    import numpy
    import torch
    from collections import Counter
    from transformers import LlamaConfig, LlamaForCausalLM
    path = lambda name: os.path.join(os.environ["GOLDEN"], "tokenizers", name)
    span, own, gpt2 = (Pieces(path("spm-bpe-span-3k.model")), Pieces(path("spm-bpe-8k.model")),
                       Pieces(path("gpt2-vocab.json"), path("gpt2-merges.txt")))
    for name, before, after in (("3k to 8k", span, own), ("8k to GPT-2's", own, gpt2), ("GPT-2's to 8k", gpt2, own)):
        for directory in ("base", "out"):
            shutil.rmtree(directory, ignore_errors=True)
        torch.manual_seed(3)
        config = LlamaConfig(vocab_size=len(before.keys), hidden_size=8, intermediate_size=16, num_hidden_layers=1,
                             num_attention_heads=2, tie_word_embeddings=False)
        LlamaForCausalLM(config).save_pretrained("base")
        mckpt("resize-vocab", "-q", *before.words("old-"), *after.words(""), "--report", "rows.tsv", "--shrink", "base",
              "out")
        want = rows_of(before, after)
        with open("rows.tsv", encoding="utf-8", errors="surrogateescape") as f:
            lines = [line.rstrip("\n").split("\t") for line in f][1:]
        if len(lines) != len(want):
            sys.exit("%s: %d rows, not %d" % (name, len(lines), len(want)))
        for i, (line, (source, ids)) in enumerate(zip(lines, want)):
            if line[2] != source or line[3] != " ".join(map(str, ids)):
                sys.exit("%s: row %d: %s is not %s of %s" % (name, i, line[2:4], source, ids))
        tables, old = exported("out"), file_of("base")
        for table in ("model.embed_tokens.weight", "lm_head.weight"):
            e = old[table].double().numpy()
            made = numpy.stack([e[ids].sum(0) / len(ids) if ids else e.sum(0) / len(e) for _, ids in want])
            if numpy.abs(tables[table].double().numpy() - made.astype(numpy.float32)).max() > 1e-9:
                sys.exit("%s: %s differs" % (name, table))
        blank = sum(source == "mean-of" and before.keys[ids[0]][1][:1] == b" " != after.keys[i][1][:1]
                    for i, (source, ids) in enumerate(want))
        print("  %s: %d rows as the second implementation has them: %s; %d begin with a blank that the token has not" % (
            name, len(want), ", ".join("%d %s" % (n, k) for k, n in Counter(x for x, _ in want).items()), blank))
        if blank:
            sys.exit("a new row is made of a piece with a leading blank")
    return 0


# the module that it needs, and the variable with its directory
PEERS = {"peft": ("peft", None, run_peft), "mergekit": ("mergekit", None, run_mergekit), "numpy": ("torch", None, run_numpy),
         "resize": ("transformers", None, run_resize), "average": ("torch", "MEGATRON", run_average),
         "vocabulary": ("sentencepiece", "GOLDEN", run_vocabulary)}


def main():
    import importlib.util
    warnings.filterwarnings("ignore")
    os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
    worst = 0
    for name in sys.argv[1:] or PEERS:
        module, directory, run = PEERS[name]
        if not importlib.util.find_spec(module) or (directory and not os.environ.get(directory)):
            print("%s: skipped: %s" % (name, "no %s=DIR" % directory if importlib.util.find_spec(module)
                                       else "this Python has no %s" % module))
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
