#!/usr/bin/env python3
"""megatron_resume.py SOURCE [NAME...] - Megatron-LM itself resumes what mckpt export writes, on the CPU

SOURCE is a source tree of Megatron-LM. mtrain trains a small model and saves it; mckpt export gives it to Megatron-LM,
whose own load_checkpoint reads it strictly, with the optimizer and the schedule; both continue with the same samples. The
losses of the next steps must be equal within 1e-5 in fp32 and 2e-3 in bf16, the norms of gradients within ten times that
(see megatron_steps.py for what stands in for a GPU); of some sets logits and the gradient of each tensor within 1e-6 of
those of mtrain in fp64. What Megatron-LM saves before it makes a step must be imported as the checkpoint that was exported,
bit for bit, and mtrain must continue from what it saves before its last step with the loss of that step. A set of weights
goes there without its optimizer, so that only the next step is compared, and comes back as weights. A NAME of a set is a
list of WORDS; SETS are the default. mtrain, mckpt and mshard are taken from PATH.
Prints a line per set; the exit status is 1 when one fails. Without torch or SOURCE it says so and does nothing.

Known to run with Megatron-LM d98e8a64ddf3 (August 2026), torch 2.8.0 and psutil 7.2, in eight minutes on two cores; experts with torch 2.15.0.
"""
import argparse
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile

STOPPED = 3  # the exit status of mtrain after --exit-interval
SEQ, BATCH, SAVED, STEPS, SEED = 16, 4, 3, 6, 4217

# Options that both know. The vocabulary is not padded: Megatron-LM's softmax counts padded rows, too.
BOTH = """--seq-length %d --max-position-embeddings 16 --micro-batch-size 2 --global-batch-size %d --train-iters %d --seed %d
    --lr 1e-2 --min-lr 1e-3 --lr-decay-style cosine --lr-warmup-iters 2 --lr-decay-iters 8 --weight-decay 0.1
    --clip-grad 1.0 --adam-beta2 0.95 --attention-dropout 0 --hidden-dropout 0 --eval-iters 0 --init-method-std 0.1
    --tokenizer-type NullTokenizer --vocab-size 64 --make-vocab-size-divisible-by 8""" % (SEQ, BATCH, STEPS, SEED)
LLAMA = """--num-layers 4 --hidden-size 16 --ffn-hidden-size 24 --num-attention-heads 4 --group-query-attention
    --num-query-groups 2 --normalization RMSNorm --norm-epsilon 1e-6 --swiglu --untie-embeddings-and-output-weights
    --position-embedding-type rope --rotary-base 50000 --disable-bias-linear"""
GPT2 = """--num-layers 4 --hidden-size 16 --ffn-hidden-size 64 --num-attention-heads 4 --normalization LayerNorm
    --position-embedding-type learned_absolute --no-bias-gelu-fusion"""
LATENTS = """ --multi-latent-attention --qk-layernorm --q-lora-rank 12 --kv-lora-rank 10 --qk-head-dim 6 --qk-pos-emb-head-dim 4
    --v-head-dim 5"""

# Megatron-LM without a GPU, Transformer Engine and fused kernels, and without data of its own.
LOCAL = """--transformer-impl local --use-cpu-initialization --distributed-backend gloo --no-gradient-accumulation-fusion
    --no-masked-softmax-fusion --no-persist-layer-norm --no-rope-fusion --no-bias-swiglu-fusion --no-bias-gelu-fusion
    --no-bias-dropout-fusion --attention-backend unfused --mock-data --no-one-logger"""

# What a word in the name of a set stands for: options of both, of mckpt export, and of Megatron-LM. An export has no state
# of random numbers; of the torch format Megatron-LM must be told.
TENSOR_2, STAGES_2 = "--tensor-model-parallel-size 2", "--pipeline-model-parallel-size 2"
WORDS = {
    "llama": (LLAMA, "", ""),
    "tied": (LLAMA.replace("--untie-embeddings-and-output-weights", ""), "", ""),
    "latent": (LLAMA.replace("--group-query-attention", "").replace("--num-query-groups 2", "") + LATENTS,
               "--transformer-impl local", ""),
    "yarn": ("--rotary-scaling-factor 4 --mscale 0.7 --mscale-all-dim 1.2", "", ""),
    "gpt2": (GPT2, "", ""),
    "fp32": ("", "", ""),
    "bf16": ("--bf16", "", ""),
    "torch": ("", "--to torch --transformer-impl local", "--ckpt-format torch --no-load-rng"),
    "torch_dist": ("", "--to torch_dist", "--ckpt-format torch_dist"),
    "distributed": ("--use-distributed-optimizer", "--use-distributed-optimizer", ""),
    "TP2": ("", TENSOR_2, TENSOR_2),
    "sequence": ("", "", "--sequence-parallel"),
    "PP2": ("", STAGES_2, STAGES_2),
    "DP2": ("", "", "--data-parallel-size 2"),
    "WSD": ("--lr-decay-style WSD --lr-wsd-decay-iters 4 --lr-wsd-decay-style cosine --start-weight-decay 0.1"
            " --end-weight-decay 0.3 --weight-decay-incr-style linear", "", ""),
    "skipping": ("--iterations-to-skip 2", "", ""),
    "experts": ("--num-experts 4 --moe-router-topk 2 --moe-ffn-hidden-size 20 --moe-router-load-balancing-type aux_loss"
                " --moe-aux-loss-coeff 0.01 --moe-token-dispatcher-type alltoall",
                "--transformer-impl local", ""),
    "weights": ("", "--no-optim", "--no-load-optim"),
    "whole": ("", "", "--dist-ckpt-optim-fully-reshardable"),
    "EP2": ("", "--expert-model-parallel-size 2",
            "--expert-model-parallel-size 2 --data-parallel-size 2 --moe-token-dispatcher-type allgather"),
    "all": ("--moe-router-pre-softmax", "", ""),
    "some": ("--moe-layer-freq ([1]+[0])*2", "", ""),
    "balanced": ("--moe-router-score-function sigmoid --moe-router-enable-expert-bias", "", ""),
    "shared": ("--moe-shared-expert-intermediate-size 12", "", ""),
    "groups": ("--moe-router-num-groups 2 --moe-router-group-topk 1", "", ""),
    "scaled": ("--moe-router-topk-scaling-factor 2.5", "", ""),
    "sigmoid": ("--moe-router-score-function sigmoid", "", ""),
    # Megatron-LM divides its gradients by the number of data ranks
    "global": ("--moe-router-load-balancing-type global_aux_loss --moe-aux-loss-coeff 0.05", "",
               "--moe-aux-loss-coeff 0.1 --micro-batch-size 1"),
    "later": ("--mtp-num-layers 2 --mtp-loss-scaling-factor 0.3", "", ""),
    # of the rows without a next token, which the balancing loss alone counts, Megatron-LM takes token 0 for the next
    "unbalanced": ("--moe-aux-loss-coeff 0", "", ""),
    # after words with another implementation: its names are those of Transformer Engine (megatron_engine.py)
    "delta": ("--linear-attention-freq 2 --experimental-attention-variant gdn --linear-num-key-heads 2 --linear-num-value-heads 4"
              " --linear-key-head-dim 6 --linear-value-head-dim 4 --linear-conv-kernel-dim 3 --attention-output-gate"
              " --apply-layernorm-1p --qk-layernorm --rotary-percent 0.5",
              "--transformer-impl transformer_engine", "--transformer-impl transformer_engine"),
    "sinks": ("--softmax-type learnable", "", ""),
    "gradients": ("--adam-beta1 0", "", ""),  # are the first moments then, and are compared, as logits are
    # Megatron-LM in fp64: in fp32 the rounding of sinks is 2e-6, and of gradients through the norm of linear attention 2e-5
    "wide": ("", "", "--wide"),
}
SETS = [m + " fp32 " + f + layout for layout in ("", " TP2", " PP2", " TP2 PP2") for m in ("llama", "gpt2")
        for f in ("torch", "torch_dist")]
SETS += ["llama bf16 " + f + layout for layout in ("", " TP2 PP2") for f in ("torch", "torch_dist")]
SETS += ["llama bf16 " + f + " distributed" + layout for layout in ("", " TP2 PP2", " DP2") for f in ("torch", "torch_dist")]
SETS += ["gpt2 fp32 torch WSD skipping", "llama fp32 torch_dist WSD skipping"]
SETS += ["llama fp32 torch experts shared weights", "llama fp32 torch_dist experts all weights"]
SETS += ["llama bf16 torch_dist experts some weights"]
# In fp32 it cannot load a distributed optimizer from torch: it writes into views of parameters while autograd records.
SETS += ["llama fp32 torch experts EP2"]
SETS += ["llama %s experts%s" % (kind, more) for kind in ("fp32 torch_dist", "bf16 torch", "bf16 torch_dist")
         for more in (" EP2", " distributed EP2", " distributed shared")]
SETS += ["llama bf16 torch_dist experts distributed whole EP2", "llama bf16 torch experts some distributed PP2 EP2",
         "llama bf16 torch_dist experts some distributed PP2 EP2", "llama bf16 torch experts balanced distributed EP2",
         "llama bf16 torch_dist experts balanced distributed EP2"]
SETS += ["llama fp32 torch sinks weights gradients wide"]
SETS += ["llama fp32 torch_dist experts %s EP2 gradients" % router for router in
         ("groups", "all groups scaled", "sigmoid groups scaled", "global", "sigmoid global groups scaled")]
# Its own writer of torch_dist fails with a tied table on two stages, of which the last has an output table that is idle, and
# with the buffers of stages that share a table, whose bucket before the table it has padded.
SETS += ["llama fp32 %s later%s" % (f, layout) for f in ("torch", "torch_dist") for layout in ("", " TP2 PP2")]
SETS += ["llama bf16 %s PP2" % f for f in ("torch later distributed", "torch_dist later distributed whole")]
SETS += ["llama bf16 torch_dist later distributed TP2"]
SETS += ["tied fp32 torch later PP2", "tied bf16 torch later distributed PP2", "tied fp32 torch_dist later"]
SETS += ["llama bf16 torch later experts some distributed PP2 EP2", "llama bf16 torch_dist later experts some distributed whole PP2 EP2"]
SETS += ["llama fp32 torch later gradients", "llama fp32 torch_dist later experts unbalanced gradients"]
# Several tensor ranks of it without Transformer Engine lose parts of the gradient of what rotates of keys: in bf16 alone.
SETS += ["latent fp32 torch gradients", "latent fp32 torch yarn gradients", "latent fp32 torch_dist yarn"]
SETS += ["latent bf16 torch distributed TP2", "latent bf16 torch distributed PP2", "latent bf16 torch_dist distributed"]
SETS += ["latent fp32 torch yarn experts sigmoid groups later unbalanced gradients",
         "latent bf16 torch_dist later experts sigmoid groups distributed whole EP2"]
SETS += ["llama fp32 torch delta", "llama fp32 torch delta weights gradients wide"]
# Without sequence parallelism tensor ranks do not add up the gradients of the norm of linear attention.
SETS += ["llama fp32 %s delta TP2 sequence" % f for f in ("torch", "torch_dist", "torch_dist distributed")]
SETS += ["llama fp32 torch_dist experts delta EP2", "llama fp32 torch_dist experts shared delta"]
LIMITS = {"fp32": 1e-5, "bf16": 2e-3}


def run(*words, **environment):
    p = subprocess.run([str(w) for w in words], capture_output=True, text=True, env=dict(os.environ, **environment))
    assert p.returncode in (0, STOPPED), "%s: %s" % (os.path.basename(str(words[0])), (p.stdout + p.stderr)[-1500:])
    return p.stdout


def write_dataset(prefix):
    """Documents of random tokens, as a .bin and an .idx of 32-bit ids. The last token ends documents."""
    r = random.Random(SEED)
    lengths = [r.randrange(20, 300) for _ in range(25)]
    n = len(lengths)
    starts = [4 * sum(lengths[:i]) for i in range(n)]
    with open(prefix + ".bin", "wb") as f:
        f.write(struct.pack("<%di" % sum(lengths), *(r.randrange(63) for _ in range(sum(lengths)))))
    with open(prefix + ".idx", "wb") as f:
        f.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ%di%dq%dq" % (n, n, n + 1), 1, 4, n, n + 1, *lengths, *starts, *range(n + 1)))


def write_samples(prefix, path):
    """The samples of the steps after the checkpoint, [samples, SEQ + 1]."""
    import numpy as np

    n = STEPS * BATCH
    rows = run("mshard", "sample", "-q", "--data-path", prefix, "--split", "1,0,0", "--seq-length", SEQ, "--seed", SEED,
               "--num-samples", "%d,0,0" % n, "-n", n, "--data-cache-path", prefix + ".cache").splitlines()
    ids = rows[0].split("\t").index("ids")
    np.save(path, np.array([[int(t) for t in row.split("\t")[ids].split()] for row in rows[1 + SAVED * BATCH:]]))


def mtrain(work, options, *more):
    run("mtrain", "-q", *options, "--data-path", work + "/data", "--data-cache-path", work + "/data.cache",
        "--split", "1,0,0", "--num-threads", 1, *more)


def resume(work, options, name):
    """The steps that mtrain makes from a checkpoint on."""
    metrics = "%s/%s.metrics" % (work, name)
    mtrain(work, options, "--load", work + "/" + name, "--metrics-file", metrics)
    with open(metrics) as f:
        return [m for m in map(json.loads, f) if "lm_loss" in m]


def compare(mine, theirs, limit):
    """The greatest differences of the steps' losses, norms and rates."""
    assert len(mine) == len(theirs), "%d and %d steps" % (len(mine), len(theirs))
    difference = {k: max(abs(a[k] - b[k]) for a, b in zip(mine, theirs)) for k in ("lm_loss", "grad_norm", "lr")}
    for key, most in (("lm_loss", limit), ("grad_norm", 10 * limit), ("lr", 1e-9)):
        assert difference[key] <= most, "%s differs by %.2g, more than %.2g" % (key, difference[key], most)
    return difference


def check(name, source, work):
    """One set: the greatest differences of loss and norm, there and back."""
    model, to, theirs = ([o for word in name.split() for o in WORDS[word][i].split()] for i in range(3))
    options = BOTH.split() + model
    limit = LIMITS["bf16" if "--bf16" in options else "fp32"]
    write_dataset(work + "/data")
    write_samples(work + "/data", work + "/samples.npy")
    mtrain(work, options, "--exit-interval", SAVED, "--save", work + "/ours")
    run("mckpt", "export", "-q", *to, work + "/ours", work + "/theirs")
    run(sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "megatron_steps.py"), source,
        work + "/samples.npy", work + "/steps.json", *options, *LOCAL.split(), *theirs, "--load", work + "/theirs",
        "--save", work + "/saved", "--save-interval", 1, CUDA_DEVICE_MAX_CONNECTIONS="1")
    with open(work + "/steps.json") as f:
        steps = json.load(f)
    ours = resume(work, options, "ours")
    if "gradients" in name.split():
        gradients, logits = first_step(work, options)
        print("%s: gradients %.1e, logits %.1e" % (name, gradients, logits), flush=True)
        assert max(gradients, logits) <= 1e-6, "gradients or logits differ by more than 1e-6"
    if "--no-optim" in to:
        steps[0]["lr"] = ours[0]["lr"]  # the schedule, too, starts over there
        there = compare(ours[:1], steps[:1], limit)
        if "--wide" in theirs:
            return there, there
    run("mckpt", "import", "-q", work + "/saved/iter_%07d" % SAVED, work + "/same")
    if "--no-optim" in to:
        run("mckpt", "diff", "--tolerance", 0.004 if "--bf16" in options else 0, "--ignore", "*.exp_avg*", work + "/ours",
            work + "/same")
        return there, there
    there = compare(ours, steps, limit)
    run("mckpt", "diff", work + "/ours", work + "/same")
    run("mckpt", "import", "-q", work + "/saved/iter_%07d" % (STEPS - 1), work + "/back")
    return there, compare(resume(work, options, "back"), steps[-1:], limit)


def first_step(work, options):
    """The greatest differences of the gradients of the first step, as a share of their tensor's norm, and of logits, as a
    share of the largest, from those of mtrain in fp64."""
    import numpy as np

    run("mckpt", "import", "-q", work + "/saved/iter_%07d" % (SAVED + 1), work + "/step")
    mtrain(work, options, "--fp64", "--load", work + "/ours", "--exit-interval", SAVED + 1, "--save", work + "/next")
    rows = run("mckpt", "diff", "--tolerance", 1, "--only", "*.exp_avg", work + "/next", work + "/step").splitlines()[1:]
    gradients = max(float(row.split("\t")[6]) for row in rows)
    np.save(work + "/row.npy", np.load(work + "/samples.npy")[0, :-1].astype("<i4"))
    run("mtrain", "-q", "--use-checkpoint-args", "--pretrained-checkpoint", work + "/ours", "--tokens-file", work + "/row.npy",
        "--logits-file", work + "/logits.npy", "--num-threads", 1, "--fp64")
    ours, theirs = np.load(work + "/logits.npy"), np.load(work + "/steps.json.npy")
    return gradients, abs(ours - theirs).max() / abs(theirs).max()


def missing(source):
    """What is not there to compare with, or None."""
    try:
        import torch  # noqa: F401
    except ImportError:
        return "no torch for this Python"
    if not os.path.isfile(os.path.join(source, "megatron", "training", "checkpointing.py")):
        return "no Megatron-LM in '%s'" % source
    return None


def main():
    p = argparse.ArgumentParser()
    p.add_argument("source")
    p.add_argument("name", nargs="*", default=SETS)
    o = p.parse_args()
    why = missing(o.source)
    if why:
        print("skipped: " + why)
        return 0
    failed = 0
    for name in o.name:
        work = tempfile.mkdtemp()
        try:
            d = check(name, os.path.abspath(o.source), work)
            print("%s: loss %.1e, norm %.1e; back: loss %.1e, norm %.1e" %
                  (name, *(x[k] for x in d for k in ("lm_loss", "grad_norm"))), flush=True)
        except Exception as e:
            failed += 1
            print("%s: FAILED: %s" % (name, e), flush=True)
        shutil.rmtree(work)
    print("%d of %d failed" % (failed, len(o.name)))
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
