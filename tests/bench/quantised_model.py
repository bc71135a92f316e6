#!/usr/bin/env python3
"""quantised_model.py FORM GB DIR - a Hugging Face directory of quantised weights, for benchmarks

FORM is fp8, a Llama of an 8B's widths in blocks of 128 x 128, or mxfp4, a GPT-OSS of the 20B's
widths. DIR gets config.json and one model.safetensors of about GB 10^9 bytes with as many layers as
that takes: random bytes, nothing in it is sparse. Numbers are finite, and factors near 1.
"""
import json
import os
import sys

SIZES = {"BF16": 2, "F32": 4, "F8_E4M3": 1, "U8": 1}
WINDOW = 1 << 26
ROWS = 32000
COMMON = {"vocab_size": ROWS, "num_key_value_heads": 8, "max_position_embeddings": 8192,
          "rms_norm_eps": 1e-5, "tie_word_embeddings": False, "rope_theta": 500000.0,
          "hidden_act": "silu"}
# Codes of FP8 without NaN; BF16, whose second byte has most of the exponent, below 2; factors.
FINITE = bytes(b - (b & 127 == 127) for b in range(256))
SMALL = bytes(b & 0xbf for b in range(256))
FACTORS = bytes(120 + b % 8 for b in range(256))


def fp8(name, rows, columns):
    """A matrix and its factors."""
    return [(name, "F8_E4M3", (rows, columns)),
            (name + "_scale_inv", "F32", (-(-rows // 128), -(-columns // 128)))]


def mxfp4(name, experts, out, inputs):
    """A matrix of each expert, with its bias."""
    return [(name + "_blocks", "U8", (experts, out, inputs // 32, 16)),
            (name + "_scales", "U8", (experts, out, inputs // 32)),
            (name + "_bias", "BF16", (experts, out))]


def norms(p, h):
    return [(p + n + "_layernorm.weight", "BF16", (h,)) for n in ("input", "post_attention")]


def llama(p):
    h, f, g, out = 4096, 14336, 1024, norms(p, 4096)
    for name, shape in (("self_attn.q", (h, h)), ("self_attn.k", (g, h)), ("self_attn.v", (g, h)),
                        ("self_attn.o", (h, h)), ("mlp.gate", (f, h)), ("mlp.up", (f, h)),
                        ("mlp.down", (h, f))):
        out += fp8(p + name + "_proj.weight", *shape)
    return out


def gpt_oss(p):
    h, e, q, g = 2880, 32, 4096, 512
    out = norms(p, h) + [(p + "self_attn.sinks", "BF16", (64,)),
                         (p + "mlp.router.weight", "BF16", (e, h)),
                         (p + "mlp.router.bias", "BF16", (e,))]
    for n, rows, columns in (("q", q, h), ("k", g, h), ("v", g, h), ("o", h, q)):
        out += [(p + "self_attn.%s_proj.weight" % n, "BF16", (rows, columns)),
                (p + "self_attn.%s_proj.bias" % n, "BF16", (rows,))]
    return out + mxfp4(p + "mlp.experts.gate_up_proj", e, 2 * h, h) + mxfp4(
        p + "mlp.experts.down_proj", e, h, h)


FORMS = {
    "fp8": (llama, 4096, {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096,
        "intermediate_size": 14336, "num_attention_heads": 32,
        "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}),
    "mxfp4": (gpt_oss, 2880, {
        "architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", "hidden_size": 2880,
        "intermediate_size": 2880, "num_attention_heads": 64, "head_dim": 64,
        "num_local_experts": 32, "num_experts_per_tok": 4, "sliding_window": 128,
        "attention_bias": True, "swiglu_limit": 7.0,
        "quantization_config": {"quant_method": "mxfp4"}}),
}


def size(tensor):
    n = SIZES[tensor[1]]
    for s in tensor[2]:
        n *= s
    return n


def numbers(name, kind, n):
    """n random bytes of a tensor."""
    data = os.urandom(n)
    if kind == "F8_E4M3":
        return data.translate(FINITE)
    if kind == "F32":
        return b"".join(b"\0\0\0\x3f" for _ in range(n // 4))
    if kind == "BF16":
        return data.translate(SMALL)
    return data.translate(FACTORS) if name.endswith("_scales") else data


def main():
    form, total, directory = sys.argv[1], float(sys.argv[2]) * 1e9, sys.argv[3]
    layer, hidden, config = FORMS[form]
    ends = [("model.embed_tokens.weight", "BF16", (ROWS, hidden)),
            ("lm_head.weight", "BF16", (ROWS, hidden)), ("model.norm.weight", "BF16", (hidden,))]
    count = max(1, round((total - sum(map(size, ends))) / sum(map(size, layer("")))))
    tensors = ends + sum((layer("model.layers.%d." % i) for i in range(count)), [])
    header, at = {}, 0
    for t in tensors:
        header[t[0]] = {"dtype": t[1], "shape": t[2], "data_offsets": [at, at + size(t)]}
        at += size(t)
    os.makedirs(directory)
    with open(directory + "/config.json", "w") as f:
        json.dump({**COMMON, **config, "num_hidden_layers": count}, f)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(directory + "/model.safetensors", "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text)
        for t in tensors:
            for start in range(0, size(t), WINDOW):
                f.write(numbers(t[0], t[1], min(WINDOW, size(t) - start)))


main()
