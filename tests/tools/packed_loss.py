#!/usr/bin/env python3
"""packed_loss.py - the loss of a packed batch against transformers

usage: packed_loss.py BUILD

A tiny Llama in fp32 with random weights reads random documents with masks. mtrain packs them by
best fit and prints the loss of its first step; transformers reads each document of that batch by
itself, with labels -100 where the mask is 0. The padding token of the model is its end of text,
which the masks count. Fails unless both means agree within 1e-6. Needs torch and transformers.
"""
import json
import os
import random
import re
import subprocess
import sys
import tempfile

import torch
import transformers

SEQ, BATCH, VOCAB, EOS = 64, 8, 160, 2


def run(build, name, *words):
    out = subprocess.run([os.path.join(build, name), *words], capture_output=True, text=True)
    if out.returncode:
        sys.exit("%s: %s" % (name, out.stderr))
    return out.stdout


def main():
    build, draw = os.path.abspath(sys.argv[1]), random.Random(3)
    torch.manual_seed(3)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=VOCAB, hidden_size=64, intermediate_size=96, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=SEQ,
        initializer_range=.3, pad_token_id=EOS, eos_token_id=EOS, bos_token_id=1)).float().eval()
    talks = []
    for _ in range(300):
        n = draw.randint(2, 50)
        ids = [draw.randrange(3, VOCAB) for _ in range(n)] + [EOS]
        talks.append((ids, [draw.randint(0, 1) for _ in range(n)] + [1]))
    os.chdir(tempfile.mkdtemp())
    model.save_pretrained("m")
    with open("t.jsonl", "w") as f:
        f.writelines(json.dumps({"ids": i, "m": m}) + "\n" for i, m in talks)
    run(build, "mtok", "-q", "-o", "t", "--json-keys", "ids", "--mask-key", "m",
        "--tokenizer-type", "NullTokenizer", "--vocab-size", str(VOCAB), "--input", "t.jsonl")
    data = ["--data-path", "t_ids_document", "--split", "1,0,0", "--seq-length", str(SEQ),
            "--sample-packing", "best-fit"]
    out = run(build, "mtrain", "--model", "m/config.json", "--pretrained-checkpoint", "m", *data,
              "--micro-batch-size", "2", "--global-batch-size", str(BATCH), "--train-iters", "1",
              "--lr", "1e-6", "--eval-iters", "0", "--log-interval", "1", "--backend", "cpu",
              "--metrics-file", "metrics")
    del out
    ours = float(re.search(r'"lm_loss": ([^,]*)', open("metrics").read()).group(1))
    rows = run(build, "mshard", "sample", *data, "--num-samples", "%d,0,0" % BATCH,
               "-n", str(BATCH)).splitlines()[1:]
    total, count, ends, parts = 0.0, 0, 0, 0
    for row in rows:
        for part in row.split("\t")[2].split(","):
            sequence, first, length = map(int, re.split("[:+]", part))
            ids, mask = (x[first:first + length] for x in talks[sequence])
            labels = torch.tensor([[i if m else -100 for i, m in zip(ids, mask)]])
            kept = int((labels[0, 1:] != -100).sum())
            with torch.no_grad():
                loss = model(torch.tensor([ids]), labels=labels).loss if kept else torch.zeros(())
            total, count, parts = total + float(loss) * kept, count + kept, parts + 1
            ends += mask[-1]
    theirs = total / count
    print("documents\tlabels\tends\tmtrain\ttransformers\tdifference\n%d\t%d\t%d\t%.9f\t%.9f\t%.1e"
          % (parts, count, ends, ours, theirs, abs(ours - theirs)))
    return 0 if abs(ours - theirs) < 1e-6 else 1


if __name__ == "__main__":
    sys.exit(main())
