#!/usr/bin/env python3
"""megatron_experts.py SOURCE DIR [FORM...] - experts with their optimizer, as Megatron-LM itself saves them

SOURCE is a source tree of Megatron-LM. It trains a small model with 4 experts, which 2 ranks share, for three steps on
random tokens (megatron_steps.py says what stands in for a GPU) and saves it in each FORM, by default all: DIR/FORM/ckpt,
and DIR/FORM/expected.safetensors with the whole tensors that were in the memory of its processes, as megatron_same of
tests/tools reads them. mckpt must import each bit for bit; both are taken from PATH. Prints a line a form; status 1 when
one fails.

Made tests/golden/torch/experts_{plain,flat}.tar.xz and tests/golden/torch_dist/experts_flat.tar.xz with Megatron-LM
d98e8a64ddf3 (August 2026) and torch 2.15.0, and later.tar.xz of both directories: that of torch with the module
mtp_model_layer called transformer_layer, as it was before 9d71cb1cd2 (February 2026).
"""
import glob
import os
import shutil
import subprocess
import sys

try:
    import megatron_resume as resume
    import numpy as np
    import torch
    from safetensors.torch import save_file
except ImportError as e:
    print("skipped: %s" % e)
    sys.exit(0)

STEPS = 3
MODEL = """--num-layers 2 --hidden-size 16 --ffn-hidden-size 24 --num-attention-heads 4 --group-query-attention
    --num-query-groups 2 --normalization RMSNorm --swiglu --untie-embeddings-and-output-weights
    --position-embedding-type rope --disable-bias-linear --num-experts 4 --moe-router-topk 2 --moe-ffn-hidden-size 20
    --moe-router-load-balancing-type aux_loss --moe-aux-loss-coeff 0.01 --seq-length 16 --max-position-embeddings 16
    --micro-batch-size 1 --global-batch-size 4 --lr 1e-2 --min-lr 1e-3 --lr-decay-style constant --weight-decay 0.1
    --clip-grad 1.0 --attention-dropout 0 --hidden-dropout 0 --eval-iters 0 --init-method-std 0.1 --seed 4217
    --tokenizer-type NullTokenizer --vocab-size 61 --make-vocab-size-divisible-by 8 --train-iters %d
    --expert-model-parallel-size 2 --data-parallel-size 2 --moe-token-dispatcher-type allgather --bf16""" % STEPS
# Two layers, of which the last predicts the token after the next, and two experts.
LATER = "--num-layers 1 --mtp-num-layers 1 --mtp-loss-scaling-factor 0.3 --num-experts 2"
DISTRIBUTED, WHOLE = "--use-distributed-optimizer", "--dist-ckpt-optim-fully-reshardable"
FORMS = {
    "torch-plain": "--ckpt-format torch",
    "torch-flat": "--ckpt-format torch " + DISTRIBUTED,
    "dist-plain": "--ckpt-format torch_dist",
    "dist-flat": "--ckpt-format torch_dist " + DISTRIBUTED,
    "dist-flat-buckets": "--ckpt-format torch_dist --overlap-grad-reduce --ddp-bucket-size 1500 " + DISTRIBUTED,
    "later-torch": "--ckpt-format torch %s %s" % (DISTRIBUTED, LATER),
    "later-dist": "--ckpt-format torch_dist %s %s" % (DISTRIBUTED, LATER),
    "dist-whole": "--ckpt-format torch_dist %s %s" % (DISTRIBUTED, WHOLE),
}


def engine_name(name):
    """The name that the norm before attention has with Transformer Engine; layers after the head have names as in torch_dist."""
    name = name.replace(".mtp_model_layer.", ".transformer_layer.")
    return name.replace(".input_layernorm.", ".self_attention.linear_qkv.layer_norm_")


def whole(paths):
    """The tensors of which each process has written what it had; copies must be equal."""
    out, seen, shapes = {}, {}, {}
    for path in paths:
        for name, kind, shape, start, part in torch.load(path):
            key = (kind + "/" if kind else "") + engine_name(name)
            count, mine, shapes[key] = int(np.prod(shape)), slice(start, start + part.numel()), shape
            flat = out.setdefault(key, torch.zeros(count, dtype=part.dtype))
            had = seen.setdefault(key, torch.zeros(count, dtype=torch.bool))
            assert torch.equal(flat[mine][had[mine]], part[had[mine]]), "copies of %s differ" % key
            flat[mine], had[mine] = part, True
    assert all(had.all() for had in seen.values()), "not every element was in a process"
    return {k: flat.reshape(shapes[k]) for k, flat in out.items()}


def make(source, directory, form):
    """One form: how many tensors are equal in what mckpt makes of it."""
    shutil.rmtree(directory, ignore_errors=True)
    os.makedirs(directory)
    tokens = np.random.default_rng(7).integers(0, 61, (STEPS * 4, 17))
    np.save(directory + "/tokens.npy", tokens)
    resume.run(sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "megatron_steps.py"), source,
               directory + "/tokens.npy", directory + "/steps.json", *MODEL.split(), *resume.LOCAL.split(),
               *FORMS[form].split(), "--save", directory + "/ckpt", "--save-interval", STEPS, "--live", directory + "/live",
               CUDA_DEVICE_MAX_CONNECTIONS="1")
    for empty in glob.glob(directory + "/ckpt/iter_*/tokenizer"):
        shutil.rmtree(empty)
    live = sorted(glob.glob(directory + "/live.*"))
    save_file(whole(live), directory + "/expected.safetensors")
    for path in live + [directory + "/tokens.npy", directory + "/steps.json"]:
        os.remove(path)
    same = resume.run("megatron_same", directory + "/expected.safetensors", directory + "/ckpt")
    resume.run("mckpt", "import", "-q", directory + "/ckpt", directory + "/ours")
    again = resume.run("megatron_same", directory + "/expected.safetensors", directory + "/ours")
    assert same == again, "%s as it is, %s imported" % (same, again)
    shutil.rmtree(directory + "/ours")
    return same.strip()


def main():
    source, directory, forms = sys.argv[1], sys.argv[2], sys.argv[3:] or list(FORMS)
    why, failed = resume.missing(source), 0
    if why:
        print("skipped: " + why)
        return 0
    for form in forms:
        try:
            print("%s: %s" % (form, make(os.path.abspath(source), os.path.join(directory, form), form)), flush=True)
        except Exception as e:
            failed += 1
            print("%s: FAILED: %s" % (form, e), flush=True)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
