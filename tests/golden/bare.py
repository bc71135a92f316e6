#!/usr/bin/env python3
"""bare.py DIRECTORY - write the golden files of directories without tokenizer.json: what AutoTokenizer makes of them

    NAME/           tokenizer.model, or vocab.json and merges.txt
    texts.jsonl     the texts, a line each
    cases.tsv       a NAME, its tokenizer_config.json, then the ids of each text, a column each
    older.tsv       the lines that transformers 5.23.0 gives otherwise; with that release nothing else is written

Made with transformers 5.24.0, tokenizers 0.23.3, sentencepiece 0.2.3 and protobuf 7.36.2 (PyPI).
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

assert transformers.__version__ in ("5.24.0", "5.23.0"), transformers.__version__
OLDER = transformers.__version__ == "5.23.0"
transformers.logging.set_verbosity_error()

TEXTS = ["", "The quick brown fox", "dog.dog!  dog?\n x", "\u732b\u3067\u3042\u308b\u3002", "q\u4e02\u4e05 12345", "\tun c\u0153ur",
         "  two  spaces ", "<s> a </s> b<unk>c<mask>", "\u2581a \u2581\u2581b", "a<|endoftext|> IT'S it's", "e\u0301 \ufb01 \u00bd\u00a0x\u3000",
         "<extra_id_0> x<extra_id_99>", "\U0001f600<bos>", "line\n\n  two"]
MARK = "\u2581"
RULES = "rules.tsv"  # where the models are trained, since the name is in them: a ligature, a half, two blanks
RULE_LINES = "FB01\t66 69\nBD\t31 2F 32\nA0\t20\n3000\t20\n"
MODELS = {
    "llama": {},
    "t5": {"model_type": "unigram", "vocab_size": 200, "pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1,
           "byte_fallback": False, "normalization_rule_tsv": RULES, "remove_extra_whitespaces": True},
    "gemma": {"add_dummy_prefix": False, "pad_id": 0, "eos_id": 1, "bos_id": 2, "unk_id": 3, "eos_piece": "<eos>",
              "bos_piece": "<bos>", "user_defined_symbols": ["<mask>"]},
    # a model whose own settings say much: blanks, rules, symbols, of which one begins with another
    "settings": {"remove_extra_whitespaces": True, "normalization_rule_tsv": RULES, "control_symbols": ["<ctl>"],
                 "user_defined_symbols": ["do", "dog.", "<mask>", "(b)", MARK + "x"]},
}
# Class, files, the members of the config besides the class and the two switches, of which all settings are tried.
CASES = [
    ("LlamaTokenizer", "llama", {}),
    ("LlamaTokenizerFast", "llama", {"legacy": False, "eos_token": "<unk>"}),
    ("CodeLlamaTokenizer", "llama", {}),
    ("GemmaTokenizer", "gemma", {}),
    ("GPT2Tokenizer", "gpt2", {}),
    ("GPT2Tokenizer", "gpt2", {"bos_token": {"content": "<s>", "__type": "AddedToken"}, "eos_token": None}),
    ("Qwen2Tokenizer", "gpt2", {"bos_token": "<s>"}),
    ("GPTNeoXTokenizer", "gpt2", {}),
    ("RobertaTokenizer", "gpt2", {}),
    ("T5Tokenizer", "t5", {}),
    ("PreTrainedTokenizerFast", "t5", {}),
]
NEW = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True}
# Files, tokenizer_config.json.
MORE = [
    ("llama", {}),
    ("llama", {"tokenizer_class": "NoSuchTokenizer"}),
    ("llama", {"tokenizer_class": "LlamaTokenizer", "legacy": True}),
    ("llama", {"tokenizer_class": "LlamaTokenizer", "add_prefix_space": False}),
    ("llama", {"tokenizer_class": "LlamaTokenizer", "added_tokens_decoder": {"1": {"content": "<s>", **NEW, "rstrip": True}},
               "additional_special_tokens": ["dog"]}),
    ("llama", {"tokenizer_class": "T5Tokenizer", "extra_ids": 3}),
    ("gemma", {"tokenizer_class": "LlamaTokenizer"}),
    ("gemma", {"tokenizer_class": "GemmaTokenizer", "extra_special_tokens": ["<mask>"]}),
    ("gemma", {"tokenizer_class": "TokenizersBackend", "added_tokens_decoder": {"4": {"content": "un", **NEW}}}),
    ("t5", {"tokenizer_class": "LlamaTokenizer"}),
    ("t5", {"tokenizer_class": "GemmaTokenizer"}),
    ("settings", {}),
    ("settings", {"legacy": False}),
    ("settings", {"legacy": None, "tokenizer_class": "PreTrainedTokenizerFast"}),
    ("settings", {"tokenizer_class": "LlamaTokenizer"}),
    ("settings", {"added_tokens_decoder": {"3": {"content": "<ctl>", **NEW, "normalized": True}, "6": {"content": "<mask>", **NEW},
                                           "9": {"content": "quick", **NEW, "normalized": True, "special": False}}}),
    ("t5", {}),
    ("t5", {"legacy": False, "extra_special_tokens": ["dog"]}),
    ("gemma", {"tokenizer_class": "TokenizersBackend", "added_tokens_decoder": {"4": {"content": "<pad>", **NEW}, "0": {"content": "x1", **NEW}}}),
    ("gpt2", {"tokenizer_class": "CodeGenTokenizer", "add_prefix_space": True}),
    ("gpt2", {"tokenizer_class": "BartTokenizerFast", "add_prefix_space": True}),
    ("gpt2", {"tokenizer_class": "Qwen2TokenizerFast", "add_prefix_space": True}),
]


def train(there, members):
    os.makedirs(there, exist_ok=True)
    model, home = io.BytesIO(), os.getcwd()  # a file's name would be in it
    there = os.path.abspath(there)
    with tempfile.TemporaryDirectory() as work:
        os.chdir(work)
        with open(RULES, "w") as f:
            f.write(RULE_LINES)
        run_trainer(model, members)
        os.chdir(home)
    with open(os.path.join(there, "tokenizer.model"), "wb") as f:
        f.write(model.getvalue())


def run_trainer(model, members):
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TRAIN), model_writer=model, split_digits=True, allow_whitespace_only_pieces=True,
        num_threads=1, minloglevel=2, **{"model_type": "bpe", "vocab_size": 500, "byte_fallback": True,
                                         "normalization_rule_name": "identity", "remove_extra_whitespaces": False,
                                         **members})


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
    if not OLDER:
        make_files(directory)
    cases = list(MORE)
    for (name, files, members), bos, eos in itertools.product(CASES, (None, True, False), (None, True, False)):
        switches = {k: v for k, v in (("add_bos_token", bos), ("add_eos_token", eos)) if v is not None}
        cases.append((files, {"tokenizer_class": name, **members, **switches}))
    lines = ["\t".join([files, json.dumps(config), *ids(os.path.join(directory, files), config)]) + "\n" for files, config in cases]
    if OLDER:
        with open(os.path.join(directory, "cases.tsv")) as f:
            newer = set(f)
        lines = [x for x in lines if x not in newer]
    with open(os.path.join(directory, "older.tsv" if OLDER else "cases.tsv"), "w") as f:
        f.writelines(lines)


def make_files(directory):
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "hf", "model.bytes")) as f:
        write_gpt2(os.path.join(directory, "gpt2"), json.load(f))
    for name, members in MODELS.items():
        train(os.path.join(directory, name), members)
    with open(os.path.join(directory, "texts.jsonl"), "w") as f:
        f.writelines(json.dumps({"text": text}) + "\n" for text in TEXTS)


main(sys.argv[1])
