#!/usr/bin/env python3
"""megatron_families.py [-n COUNT] [-s SEED] [FAMILY...] - every family through Megatron-LM's formats and back

Of each FAMILY of family.py, of DeepSeek-V3 with layers that predict later tokens (LATER; mtp.py) and of each kind of kinds.py with
a model inside another COUNT models (default 8) are drawn and saved by transformers. mckpt import and export write them in both formats of Megatron-LM, by one rank, and where the model lets ranks
share it by 2 tensor ranks, 2 stages or 2 expert ranks; mckpt import reads that, and every tensor and member of the model must be
what it was. What Megatron-LM has no parts for must be refused by a line that says which: REFUSED has the words of each family
that is, or of some of its models. Prints a line a family; status 1 when one is otherwise. mckpt is taken from PATH.
"""
import argparse
import os
import random
import re
import subprocess
import sys
import tempfile

try:
    import torch
    import transformers

    import family
    import kinds
    import mtp
except ImportError as e:
    print("skipped: %s" % e)
    sys.exit(0)

# Lines that refuse a model as such, whatever the layout.
REASON = re.compile(r"Megatron-LM has no tensor for '(?:decoder\.layers\.\d+\.)?(?P<tensor>[\w.]+)'"
                    r"|Megatron-LM's args cannot express (?P<field>--[\w-]+)"
                    r"|Megatron-LM's args cannot express the model: (?P<args>.*)")
LATER = "deepseek_v3_later"
NESTED = ("gemma3", "mistral3", "qwen2_5_vl", "qwen3_vl")
LAYOUTS = ["--tensor-model-parallel-size 2", "--pipeline-model-parallel-size 2", "--expert-model-parallel-size 2"]


def draw(name, i, seed, directory):
    """Model i of a family, in a directory."""
    if name in NESTED:
        kinds.write(name, directory, seed + i)
        return
    r = random.Random("%s %d %d" % (name, i, seed))
    if name == LATER:  # groups whose scores Megatron-LM has too
        mtp.make(directory, seed + i, num_experts_per_tok=2, topk_group=1, n_group=r.choice([1, 2, 3]), tie_word_embeddings=i % 2 == 1,
                 q_lora_rank=r.choice([None, 12]), first_k_dense_replace=r.randrange(2), rope_theta=r.choice([100.0, 10000.0]))
        return
    config = transformers.AutoConfig.for_model(name, **family.FAMILIES[name](r, i))
    model = transformers.AutoModelForCausalLM.from_config(config)
    family.randomise(model, seed + i)
    for key, p in model.named_parameters():  # below 0.5 a weight loses bits where it is stored less 1
        if key.endswith("linear_attn.norm.weight"):
            p.data.clamp_(min=0.5)
    model.to([torch.float32, torch.bfloat16, torch.float16][i % 3]).save_pretrained(directory)


def mckpt(*words):
    p = subprocess.run(["mckpt", *words], capture_output=True, text=True)
    return p.returncode, p.stderr.strip(), p.stdout


def there_and_back(work, options):
    """Nothing when all is equal, or the line that refused."""
    for word in ("there", "back"):
        subprocess.run(["rm", "-rf", "%s/%s" % (work, word)], check=True)
    status, said, _ = mckpt("export", "-q", *options, work + "/ours", work + "/there")
    if status:
        return said
    status, said, _ = mckpt("import", "-q", work + "/there", work + "/back")
    assert status == 0, said
    status, said, out = mckpt("diff", work + "/ours", work + "/back")
    other = [line for line in out.split("\n")[1:] if line and "\tequal\t" not in line]
    assert status == 0 and not other, (said or other[0])[:200]
    a, b = (mckpt("info", "%s/%s" % (work, word))[2].split("\n") for word in ("ours", "back"))
    other = ("directory", "bos_token_id", "eos_token_id", "state_")  # those of the tokenizer are in no args
    differ = [line for line in a if line not in b and not line.startswith(other)]
    assert not differ, "the model is another: %s" % differ[:3]
    return None


def one(name, i, seed):
    """What comes of a model: "equal", or why it is refused; and in how many layouts it is equal."""
    with tempfile.TemporaryDirectory() as work:
        draw(name, i, seed, work + "/hf")
        later = ["--mtp-num-layers", str(mtp.LATER)] if name == LATER else []
        status, said, _ = mckpt("import", "-q", *later, work + "/hf", work + "/ours")
        assert status == 0, said
        count = 0
        for to in ("torch", "torch_dist"):
            why = there_and_back(work, ["--to", to])
            if why:
                found = REASON.search(why)
                assert found, "refused by no reason: " + why
                return next(w for w in found.groups() if w), 0
            for layout in LAYOUTS:
                why = there_and_back(work, ["--to", to, *layout.split()])
                assert not why or "--" in why or "ranks cannot share" in why, why
                count += not why
        return "equal", count + 2


def main():
    p = argparse.ArgumentParser()
    p.add_argument("-n", type=int, default=8)
    p.add_argument("-s", type=int, default=1)
    p.add_argument("family", nargs="*", default=list(family.FAMILIES) + [LATER] + list(NESTED))
    o = p.parse_args()
    failed = 0
    for name in o.family:
        found, layouts = {}, 0
        for i in range(1 if name in NESTED else o.n):
            try:
                what, count = one(name, i, o.s)
                layouts += count
            except Exception as e:
                what = "FAILED: %s" % str(e).strip().split("\n")[-1][:300]
                failed += 1
            found[what] = found.get(what, 0) + 1
        print("%-12s %s" % (name, "; ".join("%d %s" % (n, w if w != "equal" else "equal in %d layouts" % layouts)
                                            for w, n in sorted(found.items()))), flush=True)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
