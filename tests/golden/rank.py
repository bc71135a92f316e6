#!/usr/bin/env python3
"""rank.py DIRECTORY - write the golden files of a TikTokenizer: a tekken.json, and rank files of Llama 3 and 4

    ranks           lines of a rank file: the bytes, then the tokens of tests/golden/hf/model.bytes
    texts.jsonl     the texts of hf.py and some with special tokens, a line each
    tekken.json     these tokens in Mistral's form; early.json: without special tokens of its own
    NAME.tsv        the ids of each text, a line each: tekken and early without special tokens in the text, llama3 and
                    llama4 with them, where filler tokens that no text has make up the number of ranks

Made with mistral-common 1.13.1 and tiktoken 0.14.0 (PyPI); patterns and special tokens of Llama as in
models/llama3/tokenizer.py and models/llama4/tokenizer.py of meta-llama/llama-models.
"""
import base64
import json
import os
import sys

import tiktoken
from mistral_common.tokens.tokenizers.tekken import Tekkenizer

HERE = os.path.dirname(os.path.abspath(__file__))
UPPERS, LOWERS = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
PREFIX, SHORT = r"[^\r\n\p{L}\p{N}]?", "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
TAIL = r"|\s*[\r\n]+|\s+(?!\S)|\s+"


def cased(short):
    return PREFIX + UPPERS + "*" + LOWERS + "+" + short + "|" + PREFIX + UPPERS + "+" + LOWERS + "*" + short


LLAMA3 = SHORT + "|" + PREFIX + r"\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*" + TAIL
LLAMA4 = cased(SHORT + "?") + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*" + TAIL
TEKKEN = cased("") + r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*" + TAIL

NAMED = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]", "<pad>", "[THINK]"]
MORE = ["<|begin_of_text|>a<|eot_id|><|reserved_special_token_4|>", "x<|eot|> <|image_start|><|patch|>",
        "<|vision_reserved_special_token_1047|><|reasoning_thinking_end|>", "<|reserved_special_token_903|>",
        "<|text_post_train_reserved_special_token_68|><|finetune_right_pad|><|reserved_special_token_250|>",
        "<s>x</s>[INST] hi[/INST]<SPECIAL_25>[THINK]"]


def reserved(name, first, end):
    return ["<|%sreserved_special_token_%d|>" % (name, i) for i in range(first, end)]


def bar(*names):
    return ["<|%s|>" % n for n in names]


# The first tokenizer of Llama 3; later ones give some of the reserved tokens a name.
SPECIAL3 = bar("begin_of_text", "end_of_text") + reserved("", 0, 4) + bar("start_header_id", "end_header_id") + \
    reserved("", 4, 5) + bar("eot_id") + reserved("", 5, 251)
SPECIAL4 = bar("begin_of_text", "end_of_text", "fim_prefix", "fim_middle", "fim_suffix", "header_start", "header_end",
               "eom", "eot", "step") + reserved("text_post_train_", 0, 6) + \
    bar("python_start", "python_end", "finetune_right_pad") + reserved("text_post_train_", 8, 69) + \
    bar("image_start", "image_end") + reserved("vision_", 0, 2) + bar("tile_x_separator", "tile_y_separator") + \
    reserved("vision_", 2, 6) + bar("image") + reserved("vision_", 6, 7) + bar("patch") + \
    reserved("vision_", 7, 1048) + reserved("reasoning_", 0, 8) + bar("reasoning_thinking_start", "reasoning_thinking_end")
SPECIAL4 += reserved("", 0, 2048 - len(SPECIAL4))


def letters():
    """Bytes of the letters of GPT-2's alphabet."""
    plain = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or 174 <= b]
    out = {chr(b): b for b in plain}
    out.update({chr(256 + i): b for i, b in enumerate(b for b in range(256) if b not in plain)})
    return out


def tokens():
    with open(os.path.join(HERE, "hf", "model.bytes")) as f:
        model = json.load(f)
    byte = letters()
    merged = [bytes(byte[c] for c in "".join(m)) for m in model["merges"]]
    return [bytes([b]) for b in range(256)] + list(dict.fromkeys(merged))


def filler(i):
    return b"\xff\xfe%d" % i


def encode_llama(base, count, pattern, special, texts, probe=None):
    ranks = base + [filler(i) for i in range(len(base), count)]
    if probe:
        ranks[probe[0]] = probe[1]
    e = tiktoken.Encoding("llama", pat_str=pattern, mergeable_ranks={t: i for i, t in enumerate(ranks)},
                          special_tokens={s: count + i for i, s in enumerate(special)})
    return [e.encode(t, allowed_special="all") for t in texts]


def write_ids(directory, name, lists):
    with open(os.path.join(directory, name + ".tsv"), "w") as f:
        for ids in lists:
            f.write(" ".join(map(str, ids)) + "\n")


def write_tekken(directory, name, base, version, special):
    config = {"pattern": TEKKEN, "num_vocab_tokens": len(base), "default_vocab_size": len(base) + 20,
              "default_num_special_tokens": 30, "version": version}
    j = {"config": config, "vocab": [{"rank": i, "token_bytes": base64.b64encode(t).decode(), "token_str": None}
                                     for i, t in enumerate(base)]}
    if special:
        j["special_tokens"] = [{"rank": i, "token_str": s, "is_control": True} for i, s in enumerate(special)]
    path = os.path.join(directory, name + ".json")
    with open(path, "w") as f:
        json.dump(j, f, separators=(",", ":"))
    return Tekkenizer.from_file(path)


def main(directory):
    os.makedirs(directory, exist_ok=True)
    with open(os.path.join(HERE, "hf", "texts.jsonl")) as f:
        texts = [json.loads(line)["text"] for line in f] + MORE
    with open(os.path.join(directory, "texts.jsonl"), "w") as f:
        for text in texts:
            f.write(json.dumps({"text": text}) + "\n")
    base = tokens()
    with open(os.path.join(directory, "ranks"), "w") as f:
        for i, t in enumerate(base):
            f.write("%s %d\n" % (base64.b64encode(t).decode(), i))
    for name, version, special in (("tekken", "v13", NAMED), ("early", "v3", None)):
        t = write_tekken(directory, name, base, version, special)
        write_ids(directory, name, [t.encode(text, bos=False, eos=False) for text in texts])
    write_ids(directory, "llama3", encode_llama(base, 128000, LLAMA3, SPECIAL3, texts, (100255, b" Conveyor")))
    write_ids(directory, "llama4", encode_llama(base, 200000, LLAMA4, SPECIAL4, texts))


main(sys.argv[1])
