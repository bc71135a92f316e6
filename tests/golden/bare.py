#!/usr/bin/env python3
"""bare.py DIRECTORY - write the golden files of directories without tokenizer.json: what AutoTokenizer makes of them

    NAME/           tokenizer.model, or vocab.json and merges.txt
    texts.jsonl     the texts, a line each
    cases.tsv       a NAME, its tokenizer_config.json, then the ids of each text, a column each

Made with transformers 5.23.0, tokenizers 0.23.3, sentencepiece 0.2.3 and protobuf 7.36.2 (PyPI). No text begins with
a space or holds a special token: there SentencePiece's library, which is followed here, and transformers differ.
"""
import io
import itertools
import json
import os
import shutil
import sys
import tempfile

import sentencepiece
import transformers
from hf import TRAIN, write

assert transformers.__version__ == "5.23.0", transformers.__version__
transformers.logging.set_verbosity_error()

TEXTS = ["", "The quick brown fox", "dog.dog!  dog?\n x", "\u732b\u3067\u3042\u308b\u3002", "q\u4e02\u4e05 12345", "\tun c\u0153ur"]
MODELS = {
    "llama": {},
    "gemma": {"add_dummy_prefix": False, "pad_id": 0, "eos_id": 1, "bos_id": 2, "unk_id": 3, "eos_piece": "<eos>",
              "bos_piece": "<bos>", "user_defined_symbols": ["<mask>"]},
}
# Class, files, the members of the config besides the class and the two switches.
CASES = [
    ("LlamaTokenizer", "llama", {}),
    ("LlamaTokenizerFast", "llama", {"legacy": False, "eos_token": "<unk>"}),
    ("CodeLlamaTokenizer", "llama", {}),
    ("GemmaTokenizer", "gemma", {}),
    ("GPT2Tokenizer", "gpt2", {}),
    ("GPT2Tokenizer", "gpt2", {"bos_token": {"content": "<s>", "__type": "AddedToken"}, "eos_token": None}),
]


def train(there, members):
    os.makedirs(there, exist_ok=True)
    model = io.BytesIO()  # a file's name would be in it
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TRAIN), model_writer=model, model_type="bpe", vocab_size=500,
        byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False, split_digits=True,
        allow_whitespace_only_pieces=True, num_threads=1, minloglevel=2, **members)
    with open(os.path.join(there, "tokenizer.model"), "wb") as f:
        f.write(model.getvalue())


def write_gpt2(there, model):
    os.makedirs(there, exist_ok=True)
    write(os.path.join(there, "vocab.json"), {**model["vocab"], "<|endoftext|>": len(model["vocab"])})
    with open(os.path.join(there, "merges.txt"), "w") as f:
        f.write("#version: 0.2\n" + "".join(" ".join(m) + "\n" for m in model["merges"]))


def ids(files, config):
    with tempfile.TemporaryDirectory() as work:
        shutil.copytree(files, work, dirs_exist_ok=True)
        write(os.path.join(work, "tokenizer_config.json"), config)
        t = transformers.AutoTokenizer.from_pretrained(work)
        return [" ".join(map(str, t(text)["input_ids"])) for text in TEXTS]


def main(directory):
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "hf", "model.bytes")) as f:
        write_gpt2(os.path.join(directory, "gpt2"), json.load(f))
    for name, members in MODELS.items():
        train(os.path.join(directory, name), members)
    with open(os.path.join(directory, "texts.jsonl"), "w") as f:
        f.writelines(json.dumps({"text": text}) + "\n" for text in TEXTS)
    with open(os.path.join(directory, "cases.tsv"), "w") as f:
        for (name, files, members), bos, eos in itertools.product(CASES, (None, True, False), (None, True, False)):
            switches = {k: v for k, v in (("add_bos_token", bos), ("add_eos_token", eos)) if v is not None}
            config = {"tokenizer_class": name, **members, **switches}
            f.write("\t".join([files, json.dumps(config), *ids(os.path.join(directory, files), config)]) + "\n")


main(sys.argv[1])
