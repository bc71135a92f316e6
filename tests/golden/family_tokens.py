#!/usr/bin/env python3
"""family_tokens.py DIRECTORY - hold the tokenizers of the model families against Python's tokenizers and transformers

DIRECTORY has tokenizers/ and corpus/. Each family's form of tokenizer.json is made of a vocabulary there: its normalizer,
pre-tokenizer and added tokens, as in the files that the family's models come with. Every text of the corpora must get
the ids from mtok that tokenizers gives it, and AutoTokenizer those of the directory that mexport makes. mtok, mckpt and
mexport are taken from PATH. Prints a line per form; the exit status is 1 when one differs. Known to run with tokenizers
0.22.2 and 0.23.3, transformers 4.57.6 and 5.23.0.
"""
import copy
import glob
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import transformers
from tokenizers import Tokenizer

transformers.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()

MARK = "\u2581"
CL100K = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
NEMO = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
        r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}


def split(pattern, behavior="Isolated", invert=False):
    return {"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": invert},
        {**BYTES, "use_regex": False}]}


# Family, the file whose vocabulary it has, the members that differ from that file, and further tokens: text, members.
FORMS = [
    ("llama2", "llama2style", {}, []),
    ("llama3", "l3style", {}, []),
    ("mistral v0.3", "llama2style", {"normalizer": None, "pre_tokenizer": {
        "type": "Metaspace", "replacement": MARK, "prepend_scheme": "first", "split": False}}, [("[INST]", {})]),
    ("mistral nemo", "l3style", {"pre_tokenizer": split(NEMO)}, [("[INST]", {})]),
    ("qwen2", "qwen2style", {}, []),
    ("phi3", "llama2style", {}, [("<|endoftext|>", {}), ("<|end|>", {"rstrip": True}), ("<|user|>", {"rstrip": True})]),
    ("phi4, olmo2", "l3style", {"pre_tokenizer": split(CL100K, "Removed", True)}, []),
    ("gemma", "llama2style", {
        "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": MARK},
        "pre_tokenizer": {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False}},
     [("<start_of_turn>", {}), ("\n\n", {"special": False}), (MARK * 4, {"special": False}), ("<b>", {"special": False})]),
    ("gpt_neox", "qwen2style", {"pre_tokenizer": {**BYTES, "use_regex": True}},
     [(" " * n, {"special": False, "normalized": True}) for n in range(24, 1, -1)]),
]


def make(directory, form, path):
    """Writes the form's file; returns how many ids it has."""
    name, base, members, more = form
    with open(os.path.join(directory, "tokenizers", base + ".tokenizer.json")) as f:
        j = json.load(f)
    j.update(copy.deepcopy(members))
    first = max([len(j["model"]["vocab"]) - 1] + [t["id"] for t in j["added_tokens"]]) + 1
    for i, (content, flags) in enumerate(more):
        j["added_tokens"].append({"id": first + i, "content": content, "single_word": False, "lstrip": False,
                                  "rstrip": False, "normalized": False, "special": True, **flags})
    with open(path, "w") as f:
        json.dump(j, f, ensure_ascii=False)
    return first + len(more)


def corpus(directory):
    """All texts but those of bad.jsonl, whose lines mtok refuses."""
    out = []
    for path in sorted(glob.glob(os.path.join(directory, "corpus", "*.jsonl"))):
        if os.path.basename(path) != "bad.jsonl":
            with open(path, encoding="utf-8-sig") as f:
                out += [json.loads(line).get("text") for line in f]
    return [t for t in out if isinstance(t, str)]


def run(*words):
    p = subprocess.run(words, capture_output=True, text=True)
    assert p.returncode == 0, p.stderr[-400:]


def ids_of_mtok(path, texts, work):
    """Of every text that has any."""
    with open(work + "/in.jsonl", "w") as f:
        for text in texts:
            f.write(json.dumps({"text": text}) + "\n")
    run("mtok", "-q", "--force", "--input", work + "/in.jsonl", "-o", work + "/out", "--tokenizer-model", path)
    with open(work + "/out_text_document.idx", "rb") as f:
        index = f.read()
    lengths = np.frombuffer(index[34:], "<i4", int.from_bytes(index[18:26], "little"))
    ids = np.fromfile(work + "/out_text_document.bin", "<u2" if index[17] == 8 else "<i4")
    return [d.tolist() for d in np.split(ids, np.cumsum(lengths)[:-1])]


def exported(path, count, work):
    """AutoTokenizer of a directory that mexport made."""
    c = transformers.LlamaConfig(vocab_size=count, hidden_size=8, intermediate_size=8, num_hidden_layers=1,
                                 num_attention_heads=2, max_position_embeddings=8)
    transformers.LlamaForCausalLM(c).save_pretrained(work + "/model")
    run("mckpt", "import", "-q", work + "/model", work + "/ckpt")
    run("mexport", "-q", "--tokenizer-model", path, work + "/ckpt", work + "/hf")
    return transformers.AutoTokenizer.from_pretrained(work + "/hf")


def check(directory, form, texts):
    with tempfile.TemporaryDirectory() as work:
        path = work + "/tokenizer.json"
        count = make(directory, form, path)
        theirs = Tokenizer.from_file(path)
        want = [theirs.encode(t).ids for t in texts]
        ours = ids_of_mtok(path, texts, work)
        some = [w for w in want if w]
        assert len(ours) == len(some), "%d and %d texts with tokens" % (len(ours), len(some))
        bad = [i for i, (a, b) in enumerate(zip(ours, some)) if a != b]
        assert not bad, "%d texts differ, first number %d" % (len(bad), bad[0])
        auto = exported(path, count, work)
        bad = [i for i in range(0, len(texts), 7) if auto(texts[i]).input_ids != want[i]]
        assert not bad, "exported: %d texts differ, first number %d" % (len(bad), bad[0])
        return sum(map(len, want))


def main(directory):
    texts, failed = corpus(directory), 0
    for form in FORMS:
        try:
            print("%s: %d tokens of %d texts" % (form[0], check(directory, form, texts), len(texts)), flush=True)
        except Exception as e:  # of the comparison, or of transformers
            failed += 1
            print("%s: FAILED: %s" % (form[0], e or repr(e)), flush=True)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
