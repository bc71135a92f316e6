#!/usr/bin/env python3
"""auto.py DIRECTORY - write the golden files of directories: what AutoTokenizer of transformers makes of one

    NAME/tokenizer.json         a tokenizer whose "model" is the name of one of tests/golden/hf
    NAME/tokenizer_config.json  its config; NAME/config.json, where there is one, the model's
    NAME.tsv                    the vocabulary's size, then the ids of each text of hf/texts.jsonl, a line each
    old/NAME.tsv                the same by transformers 4.57.6; with that release nothing else is written, and none for
                                what it makes of other files or by the model type

Made with transformers 5.23.0 and tokenizers 0.23.3 (PyPI), and 4.57.6 with 0.22.2.
"""
import copy
import json
import os
import shutil
import sys
import tempfile

import transformers
from hf import TEXTS, base_models, ids, metaspace, write

assert transformers.__version__ in ("5.23.0", "4.57.6"), transformers.__version__
OLD = transformers.__version__ == "4.57.6"
transformers.logging.set_verbosity_error()

BOS = {"post_processor": {
    "type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
    "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}}}
LLAMA2 = {"pre_tokenizer": None, "normalizer": {"type": "Sequence", "normalizers": [
    {"type": "Prepend", "prepend": "\u2581"}, {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]}}
WORDS = {"pre_tokenizer": metaspace()}
EMPTY = {}


def config(name, **members):
    return {"tokenizer_class": name, "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", **members}


BOTH = {"add_bos_token": True, "add_eos_token": True}
NEITHER = {"add_bos_token": False, "add_eos_token": False}

# Name, model, the members that differ from the trained tokenizer, tokenizer_config.json, config.json.
CASES = [
    ("generic", "bytes", BOS, config("PreTrainedTokenizerFast", add_prefix_space=True, **BOTH), None),
    ("llama", "bpe", {**BOS, **LLAMA2}, config("LlamaTokenizer", **BOTH), None),
    ("llama-legacy", "bpe", WORDS, config("LlamaTokenizerFast", legacy=True, **BOTH), {"model_type": "llama"}),
    ("llama-no-space", "bpe", {**BOS, **WORDS}, config("LlamaTokenizer", add_prefix_space=False, **NEITHER), None),
    ("llama-bytes", "bytes", BOS, config("LlamaTokenizerFast", add_prefix_space=True, **NEITHER), {"model_type": "llama"}),
    ("llama-of-mistral", "bpe", {**BOS, **LLAMA2}, config("LlamaTokenizerFast", **NEITHER), {"model_type": "mistral"}),
    ("llama-of-qwen2", "bytes", BOS, config("LlamaTokenizerFast", **BOTH), {"model_type": "qwen2"}),
    ("code-llama", "bpe", WORDS, config("CodeLlamaTokenizer", **NEITHER), None),
    ("code-llama-no-space", "bpe", WORDS, config("CodeLlamaTokenizerFast", add_prefix_space=False), None),
    ("gemma", "bpe", BOS, config("GemmaTokenizer", **NEITHER), {"model_type": "gemma2"}),
    ("gemma-by-type", "bpe", EMPTY, {"bos_token": "<s>", "eos_token": "</s>"}, {"model_type": "gemma"}),
    ("gpt2", "bytes", BOS, config("GPT2Tokenizer", add_prefix_space=True, **NEITHER), None),
    ("gpt2-plain", "bytes", {"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True,
                                               "use_regex": True}}, config("GPT2TokenizerFast", **BOTH), None),
    ("qwen2", "bytes", BOS, config("Qwen2TokenizerFast", add_prefix_space=True, bos_token=None), {"model_type": "qwen3"}),
    ("gpt-neox", "bytes", BOS, config("GPTNeoXTokenizerFast", add_prefix_space=True, **BOTH), {"model_type": "gpt_neox"}),
    ("roberta", "bytes", BOS, config("RobertaTokenizerFast", add_prefix_space=True, cls_token="</s>"), {"model_type": "bart"}),
    ("qwen3-5", "bytes", BOS, config("TokenizersBackend"), {"model_type": "qwen3_5"}),
    ("t5", "unigram", {"normalizer": {"type": "Sequence", "normalizers": [
        {"type": "Replace", "pattern": {"String": "e"}, "content": "x"}]}}, config("T5Tokenizer", extra_ids=2, **NEITHER), None),
    ("t5-additional", "unigram", WORDS, config("T5TokenizerFast", additional_special_tokens=["dog"]), {"model_type": "t5"}),
    ("gpt-neox-switches", "bytes", BOS, config("GPTNeoXTokenizer"), None),
    ("llama-switches", "bpe", WORDS, config("LlamaTokenizer", bos_token="</s>"), None),
    ("code-llama-additional", "bpe", WORDS, config("CodeLlamaTokenizer", additional_special_tokens=["dog"]), None),
]


# What version 4 makes of other files, or by tables of model types.
NOT_OLD = ("llama-no-space", "llama-bytes", "gemma-by-type", "qwen3-5")


class Whole:
    """A tokenizer as hf.ids asks it."""

    def __init__(self, t):
        self.t = t

    def encode(self, text):
        return self.t(text)._encodings[0]


def write_case(directory, bases, name, model, members, tokenizer_config, model_config):
    there = os.path.join(directory, name)
    os.makedirs(there, exist_ok=True)
    if OLD:
        with open(os.path.join(there, "tokenizer.json")) as f:
            j = {**json.load(f), "model": bases[model]["model"]}
    else:
        j = {**copy.deepcopy(bases[model]), **members}
    write(os.path.join(there, "tokenizer_config.json"), tokenizer_config)
    if model_config:
        write(os.path.join(there, "config.json"), model_config)
    with tempfile.TemporaryDirectory() as work:
        shutil.copytree(there, work, dirs_exist_ok=True)
        write(os.path.join(work, "tokenizer.json"), j)
        t = transformers.AutoTokenizer.from_pretrained(work)
    j["model"] = model
    if not OLD:
        write(os.path.join(there, "tokenizer.json"), j)
    with open(os.path.join(directory, "old" if OLD else "", name + ".tsv"), "w") as f:
        f.write("%d\n" % len(t))
        for text in TEXTS:
            f.write(ids(Whole(t), text) + "\n")


def main(directory):
    bases = {"bpe": {}, "bytes": {}, "unigram": {}} if OLD else base_models()
    for name in ("bpe", "bytes", "unigram"):
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "hf", "model." + name)) as f:
            bases[name]["model"] = json.load(f)
    if OLD:
        os.makedirs(os.path.join(directory, "old"), exist_ok=True)
    for case in CASES:
        if not OLD or case[0] not in NOT_OLD:
            write_case(directory, bases, *case)


main(sys.argv[1])
