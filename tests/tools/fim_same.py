#!/usr/bin/env python3
"""fim_same.py - rearranged samples against Megatron-LM's unmodified GPTFIMDataset

usage: fim_same.py [-n SAMPLES] MEGATRON BUILD TOKENIZER.json TEXTS.jsonl

MEGATRON is a checkout with its helpers_cpp built; TOKENIZER.json is of byte-level BPE and gets the
five tokens, and one that parts files, where it lacks them. Over five settings, SAMPLES (200) of each
are read by that class, through its own maps, and by the reader of mtrain. Every sample's generator
is set before it is read, as ours is; then the class reads them with its one generator, as it does by
itself, and fim_stream replays that. The documents are also read with a mask beside them, which that
reader does not know. Needs torch and transformers.
"""
import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import warnings

import numpy

SEQ, SEED = 256, 1234
WORDS = {"prefix": "<fim_prefix>", "middle": "<fim_middle>", "suffix": "<fim_suffix>",
         "pad": "<fim_pad>", "eod": "<|endoftext|>"}
SPLIT = "<file_sep>"
SETTINGS = [
    {"fim-rate": .5, "fim-spm-rate": .5},
    {"fim-rate": 1, "fim-spm-rate": .5},
    {"fim-rate": .9, "fim-spm-rate": 1},
    {"fim-rate": .8, "fim-spm-rate": .25, "fim-split-sample": SPLIT, "fim-fragment-rate": .75},
    {"fim-rate": 1, "fim-spm-rate": .5, "fim-split-sample": SPLIT, "fim-fragment-rate": .5,
     "fim-no-prefix": "#"},
]


def run(build, name, *words, **more):
    out = subprocess.run([os.path.join(build, name), *words], capture_output=True, text=True, **more)
    if out.returncode:
        sys.exit("%s: %s" % (name, out.stderr))
    return out.stdout


def with_tokens(path, out):
    """The tokenizer with all tokens that the settings name; its directory."""
    model = json.load(open(path))
    have = {t["content"] for t in model["added_tokens"]} | set(model["model"]["vocab"])
    at = 1 + max([t["id"] for t in model["added_tokens"]] + list(model["model"]["vocab"].values()))
    for word in [*WORDS.values(), SPLIT]:
        if word not in have:
            model["added_tokens"].append({
                "id": at, "content": word, "single_word": False, "lstrip": False, "rstrip": False,
                "normalized": False, "special": True})
            at += 1
    os.mkdir(out)
    json.dump(model, open(os.path.join(out, "tokenizer.json"), "w"))
    json.dump({"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": WORDS["eod"],
               "additional_special_tokens": [*WORDS.values(), SPLIT]},
              open(os.path.join(out, "tokenizer_config.json"), "w"))


def texts(path, out):
    """Texts of the file, some of which are several files."""
    lines = [json.loads(line)["text"] for line in open(path)]
    with open(out, "w") as f:
        for i, text in enumerate(lines):
            for at in range(0, len(text), 700):
                piece = text[at:at + 700]
                if (i + at) % 3 == 0:
                    piece = SPLIT.join([piece[:200], piece[200:250], "", piece[250:]])
                f.write(json.dumps({"text": piece}) + "\n")


class Theirs:
    """Megatron-LM's class on a dataset, a setting at a time."""

    def __init__(self, megatron):
        sys.path.insert(0, megatron)
        warnings.simplefilter("ignore")
        place = os.path.join(megatron, "megatron/training/datasets/fim_dataset.py")
        spec = importlib.util.spec_from_file_location("fim_dataset", place)
        self.fim = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.fim)
        from megatron.core.datasets.indexed_dataset import IndexedDataset
        from megatron.core.datasets.utils import Split
        from megatron.core.tokenizers import MegatronTokenizer
        self.data = IndexedDataset("t_text_document", mmap=True)
        self.tokenizer = MegatronTokenizer.from_pretrained(
            tokenizer_path="tokenizer", metadata_path={"library": "huggingface"})
        self.split = Split.train

    def dataset(self, setting, samples):
        config = self.fim.GPTFIMDatasetConfig(
            random_seed=SEED, sequence_length=SEQ, blend=(["t_text_document"], None), split="1,0,0",
            tokenizer=self.tokenizer, reset_position_ids=False, reset_attention_mask=False,
            eod_mask_loss=False, path_to_cache=None, fim_rate=setting["fim-rate"],
            fim_spm_rate=setting["fim-spm-rate"], fim_extra_tokens=WORDS,
            fim_split_sample=setting.get("fim-split-sample"),
            fim_fragment_rate=setting.get("fim-fragment-rate"),
            fim_no_prefix=setting.get("fim-no-prefix"))
        every = numpy.arange(self.data.sequence_lengths.shape[0], dtype=numpy.int32)
        return self.fim.GPTFIMDataset(
            self.data, "t_text_document", every, samples, self.split, config)

    @staticmethod
    def read(dataset, i):
        return dataset._query_document_sample_shuffle_indices(i)[0].tolist()


def ours(build, options, samples):
    """The samples that training reads, in its order."""
    out = run(build, "tests/tools/read_batches", "1", "1", "0", str(samples),
              "--num-layers", "1", "--hidden-size", "8", "--num-attention-heads", "1",
              "--data-path", "t_text_document", "--split", "1,0,0", "--seq-length", str(SEQ),
              "--micro-batch-size", "1", "--global-batch-size", "1", "--train-iters", str(samples),
              "--eval-iters", "0", "--seed", str(SEED), "--lr", "1", *options)
    return [list(map(int, row.split()[4:])) for row in out.splitlines()]


def own_seed(i):
    return (SEED + 0x9E3779B9 * (i + 1)) % 2**32


def main():
    p = argparse.ArgumentParser()
    p.add_argument("-n", type=int, default=200)
    p.add_argument("megatron")
    p.add_argument("build")
    p.add_argument("tokenizer")
    p.add_argument("texts")
    a = p.parse_args()
    build, megatron = os.path.abspath(a.build), os.path.abspath(a.megatron)
    tokenizer, lines = os.path.abspath(a.tokenizer), os.path.abspath(a.texts)
    os.chdir(tempfile.mkdtemp())
    with_tokens(tokenizer, "tokenizer")
    texts(lines, "t.jsonl")
    model = ["--tokenizer-type", "HuggingFaceTokenizer", "--tokenizer-model",
             "tokenizer/tokenizer.json"]
    run(build, "mtok", "-q", *model, "--append-eod", "-o", "t", "t.jsonl")
    theirs, wrong = Theirs(megatron), 0
    plain = [theirs.data[i].tolist() for i in range(theirs.data.sequence_lengths.shape[0])]
    print("setting\tsamples\tequal\tstream\tequal")
    for setting in SETTINGS:
        words = [w for k, v in setting.items() for w in ("--" + k, str(v))]
        dataset = theirs.dataset(setting, a.n)
        mine = ours(build, ["--fim-data", *words, *model], a.n)
        untouched = ours(build, model, a.n)
        same = 0
        for i in range(a.n):
            dataset.np_rng = numpy.random.RandomState(own_seed(i))
            same += Theirs.read(dataset, i) == mine[i]
        dataset.np_rng = numpy.random.RandomState(SEED)
        stream = [Theirs.read(dataset, i) for i in range(a.n)]
        out = run(build, "tests/tools/fim_stream", *words, *model, "--seed", str(SEED),
                  input="\n".join(" ".join(map(str, ids)) for ids in untouched) + "\n")
        replayed = [list(map(int, line.split())) for line in out.splitlines()]
        equal = sum(x == y for x, y in zip(stream, replayed))
        print("%s\t%d\t%d\t%d\t%d" % (" ".join(words), a.n, same, a.n, equal), flush=True)
        wrong += 2 * a.n - same - equal
    with open("m", "w") as f:
        f.write("0\n1\n2\n")
    run(build, "mshard", "mask", "--documents", "m", "t_text_document")
    masked = Theirs(megatron).data
    if [masked[i].tolist() for i in range(len(plain))] != plain:
        sys.exit("other tokens with a mask beside them")
    print("%d documents: the same tokens with a mask beside them" % len(plain))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
