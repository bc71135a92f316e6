#!/usr/bin/env python3
"""chat_same.py - ids and masks of mtok against transformers' apply_chat_template

usage: chat_same.py [-n CONVERSATIONS] MTOK TOKENIZER.json ...

Random conversations in ChatML go through each tokenizer twice: as messages through mtok with a
table, and through apply_chat_template with return_assistant_tokens_mask, whose result also goes
through mtok as ids. Lines that mtok refuses because the tokenizer does not give their text back are
counted. Needs transformers.
"""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile

import numpy
import transformers

from chat_table import conversation

BEFORE = "<|im_start|>%s\n"
AFTER = "<|im_end|>\n"
TEMPLATE = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' }}{% if m['role'] == 'assistant' "
    "%}{% generation %}{{ m['content'] + '<|im_end|>\n' }}{% endgeneration %}{% else %}"
    "{{ m['content'] + '<|im_end|>\n' }}{% endif %}{% endfor %}")


def table():
    return {"roles": {r: {"before": BEFORE % r, "after": AFTER, "train": r == "assistant"}
                      for r in ("system", "user", "assistant")}}


def dataset(prefix):
    """Documents as (ids, mask): a document is one sequence."""
    index = open(prefix + ".idx", "rb").read()
    count = int.from_bytes(index[18:26], "little")
    lengths = numpy.frombuffer(index, "<i4", count, 34)
    kind = {4: "<i4", 8: "<u2"}[index[17]]
    ids = numpy.fromfile(prefix + ".bin", kind)
    mask = numpy.fromfile(prefix + "_mask.bin", "u1")
    out, at = [], 0
    for n in lengths:
        out.append((ids[at:at + n].tolist(), mask[at:at + n].tolist()))
        at += n
    return out


def encode(mtok, tokenizer, prefix, lines, options):
    path = prefix + ".jsonl"
    with open(path, "w") as f:
        f.writelines(json.dumps(line) + "\n" for line in lines)
    subprocess.run([mtok, "-q", "--force", "--on-error", "skip", "--tokenizer-model", tokenizer,
                    "-o", prefix, *options, path], check=True)
    key = "messages" if "--chat-format" in options else "input_ids"
    refused = {int(row.split("\t")[1]) - 1
               for row in open(prefix + ".errors.tsv").read().splitlines()[1:]}
    found = iter(dataset("%s_%s_document" % (prefix, key)))
    return [None if i in refused else next(found) for i in range(len(lines))]


def only_blanks(tokenizer, want, have):
    """True when masks differ only in tokens that begin with a blank after a trained one: their
    offsets are trimmed there."""
    return all(a == b or (b == 1 and tokenizer.decode([i])[:1] in (" ", "\n"))
               for i, a, b in zip(want["input_ids"], want["assistant_masks"], have[1]))


def compare(mtok, path, talks, folder):
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=path, chat_template=TEMPLATE)
    name = os.path.basename(path)
    prefix = os.path.join(folder, name)
    format_file = os.path.join(folder, "format.json")
    json.dump(table(), open(format_file, "w"))
    want = [tokenizer.apply_chat_template(
        t, tokenize=True, return_dict=True, return_assistant_tokens_mask=True) for t in talks]
    have = encode(mtok, path, prefix, [{"messages": t} for t in talks], [
        "--json-keys", "messages", "--chat-format", format_file, "--allow-control"])
    given = encode(mtok, path, prefix + "-ids", [
        {"input_ids": list(w["input_ids"]), "assistant_masks": list(w["assistant_masks"])}
        for w in want], ["--json-keys", "input_ids", "--mask-key", "assistant_masks"])
    count = {"refused": 0, "equal": 0, "blanks": 0, "other": 0, "ids": 0}
    for w, h, g in zip(want, have, given):
        pair = (list(w["input_ids"]), list(w["assistant_masks"]))
        count["ids"] += g == pair
        if h is None:
            count["refused"] += 1
        elif h == pair:
            count["equal"] += 1
        elif h[0] == pair[0] and only_blanks(tokenizer, w, h):
            count["blanks"] += 1
        else:
            count["other"] += 1
    print("%s\t%d" % (name, len(talks)), *count.values(), sep="\t")
    return count["other"] == 0 and count["ids"] == len(talks)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("mtok")
    parser.add_argument("tokenizer", nargs="+")
    parser.add_argument("-n", type=int, default=1000)
    o = parser.parse_args()
    draw = random.Random(7)
    talks = [conversation(draw, True) for _ in range(o.n)]
    print("tokenizer", "conversations", "refused", "equal", "blanks", "other", "ids_equal", sep="\t")
    with tempfile.TemporaryDirectory() as folder:
        good = [compare(o.mtok, path, talks, folder) for path in o.tokenizer]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
