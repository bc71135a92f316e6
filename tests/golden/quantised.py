#!/usr/bin/env python3
"""quantised.py - decoded FP8 blocks and MXFP4 against transformers 5, bit for bit, on the CPU

All codes of FP8 with all bytes of scales as exponents, and with random factors in F32, BF16 and F16; all codes of MXFP4 with
all bytes of scales up to 252; to BF16 and FP32. Then a small Llama whose weights are FP8 blocks and a small GPT-OSS whose
experts are MXFP4, through mckpt import, and a matrix of 576 rows, which transformers' own decoder refuses, by hand. Prints
a line a case. hf_decoded is taken from PATH.
"""
import json
import os
import subprocess
import sys
import tempfile

try:
    import torch
    import transformers
    from safetensors.torch import load_file, save_file
    from transformers.integrations.finegrained_fp8 import Fp8Dequantize
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors
except ImportError as e:
    print("skipped: %s" % e)
    sys.exit(0)

TYPES = {"BF16": torch.bfloat16, "F32": torch.float32}


def decoded(directory, how, name, kind):
    out = subprocess.run(["hf_decoded", directory, *[str(h) for h in how], kind, name], stdout=subprocess.PIPE, check=True)
    return torch.frombuffer(bytearray(out.stdout), dtype=TYPES[kind])


def compare(what, got, want):
    want = want.contiguous().reshape(-1)
    bits = torch.int16 if want.element_size() == 2 else torch.int32
    nan = torch.isnan(got) & torch.isnan(want)
    wrong = int(((got.view(bits) != want.view(bits)) & ~nan).sum())
    print("%-62s %9d numbers, %d differ" % (what, want.numel(), wrong))
    if wrong:
        at = int(((got.view(bits) != want.view(bits)) & ~nan).nonzero()[0])
        sys.exit("first at %d: %r, transformers has %r" % (at, got[at].item(), want[at].item()))


def codes(rows, columns):
    """Every byte many times, in an order that differs from row to row."""
    g = torch.Generator().manual_seed(3)
    return torch.stack([torch.randperm(columns, generator=g) for _ in range(rows)]).remainder(256).to(torch.uint8)


def fp8(d):
    g = torch.Generator().manual_seed(5)
    weight = codes(2048, 2048).view(torch.float8_e4m3fn)
    byte = torch.arange(256, dtype=torch.uint8).reshape(16, 16)
    random = torch.randn(16, 16, generator=g) * 10.0 ** torch.randint(-6, 5, (16, 16), generator=g)
    seen = torch.zeros(256, 256, dtype=torch.bool)
    each = byte.repeat_interleave(128, 0).repeat_interleave(128, 1)
    seen[each.long().reshape(-1), weight.view(torch.uint8).long().reshape(-1)] = True
    print("fp8: %d of %d pairs of a code and a byte of a factor occur" % (int(seen.sum()), seen.numel()))
    for what, scales in [("bytes", byte), ("F8_E8M0", byte.view(torch.float8_e8m0fnu)), ("F32", random),
                         ("BF16", random.bfloat16()), ("F16", random.clamp(-1e4, 1e4).half())]:
        save_file({"a.weight": weight, "a.weight_scale_inv": scales}, os.path.join(d, "model.safetensors"))
        for kind, dtype in TYPES.items():
            want = Fp8Dequantize(None)._dequantize_one(weight, scales, dtype)
            compare("fp8, 256 codes, factors in %s, to %s" % (what, kind), decoded(d, ("fp8", 128, 128), "a.weight", kind), want)
    save_file({"a.weight": weight, "a.weight_scale_inv": torch.tensor(0.37)}, os.path.join(d, "model.safetensors"))
    want = Fp8Dequantize(None)._dequantize_one(weight, torch.tensor([[0.37]]), torch.bfloat16)
    compare("fp8, one factor", decoded(d, ("fp8", 0, 0), "a.weight", "BF16"), want)


def rows_576(d):
    """kv_a_proj_with_mqa of DeepSeek-V3: 4.5 blocks of 128 rows, 5 rows of factors."""
    weight = codes(576, 512).view(torch.float8_e4m3fn)
    scales = torch.randn(5, 4, generator=torch.Generator().manual_seed(6))
    save_file({"a.weight": weight, "a.weight_scale_inv": scales}, os.path.join(d, "model.safetensors"))
    want = torch.empty(576, 512, dtype=torch.bfloat16)
    for r in range(576):
        want[r] = (weight[r].float() * scales[r // 128].repeat_interleave(128)).bfloat16()
    compare("fp8, 576 rows, by hand", decoded(d, ("fp8", 128, 128), "a.weight", "BF16"), want)
    try:
        Fp8Dequantize(None)._dequantize_one(weight, scales)
        print("transformers decodes 576 rows")
    except ValueError as e:
        print("transformers: %s" % e)


def mxfp4(d):
    experts, out, groups = 3, 253 * 8, 4
    blocks = codes(experts * out, groups * 16).reshape(experts, out, groups, 16)
    # the rows of 64 bytes hold 64 codes: the high bits change with the row, so that every byte meets every scale
    blocks = blocks ^ (torch.arange(out).remainder(4) * 64).to(torch.uint8).reshape(1, out, 1, 1)
    scales = (torch.arange(experts * out * groups) // groups // 8).remainder(253).to(torch.uint8).reshape(experts, out, groups)
    seen = torch.zeros(253, 256, dtype=torch.bool)
    seen[scales.long().unsqueeze(-1).expand(blocks.shape).reshape(-1), blocks.long().reshape(-1)] = True
    print("mxfp4: %d of %d pairs of a byte of codes and a scale occur" % (int(seen.sum()), seen.numel()))
    save_file({"x.gate_up_proj_blocks": blocks, "x.gate_up_proj_scales": scales}, os.path.join(d, "model.safetensors"))
    for kind, dtype in TYPES.items():
        want = convert_moe_packed_tensors(blocks, scales, dtype=dtype)
        compare("mxfp4, all bytes, scales 0 to 252, to %s" % kind, decoded(d, ("mxfp4", 0, 0), "x.gate_up_proj", kind), want)


def llama(d):
    """A model of FP8 blocks through mckpt import."""
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 300, "hidden_size": 288,
              "intermediate_size": 400, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
              "head_dim": 64, "hidden_act": "silu", "max_position_embeddings": 32, "rms_norm_eps": 1e-5,
              "tie_word_embeddings": True,
              "quantization_config": {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]}}
    g = torch.Generator().manual_seed(8)
    t = {"model.embed_tokens.weight": (300, 288), "model.norm.weight": (288,)}
    for i in range(2):
        p = "model.layers.%d." % i
        t.update({p + "input_layernorm.weight": (288,), p + "post_attention_layernorm.weight": (288,),
                  p + "self_attn.q_proj.weight": (256, 288), p + "self_attn.k_proj.weight": (128, 288),
                  p + "self_attn.v_proj.weight": (128, 288), p + "self_attn.o_proj.weight": (288, 256),
                  p + "mlp.gate_proj.weight": (400, 288), p + "mlp.up_proj.weight": (400, 288),
                  p + "mlp.down_proj.weight": (288, 400)})
    stored, want = {}, {}
    for name, shape in t.items():
        w = torch.randn(shape, generator=g)
        if "_proj" not in name:
            stored[name] = want[name] = w.bfloat16()
            continue
        grid = [-(-s // 128) for s in shape]
        scales = torch.rand(grid, generator=g) * 0.01
        stored[name] = w.to(torch.float8_e4m3fn)
        stored[name + "_scale_inv"] = scales
        each = scales.repeat_interleave(128, 0)[:shape[0]].repeat_interleave(128, 1)[:, :shape[1]]
        want[name] = stored[name].float() * each
    save_file(stored, os.path.join(d, "model.safetensors"))
    with open(os.path.join(d, "config.json"), "w") as f:
        json.dump(config, f)
    for kind, word in [("BF16", "keep"), ("F32", "fp32")]:
        ck, out = os.path.join(d, "ck" + word), os.path.join(d, "out" + word)
        subprocess.run(["mckpt", "import", "-q", "--dtype", word, d, ck], check=True, stderr=subprocess.DEVNULL)
        subprocess.run(["mexport", "-q", ck, out], check=True)
        got = load_file(os.path.join(out, "model.safetensors"))
        if set(got) != set(want):
            sys.exit("other tensors: %s" % sorted(set(got) ^ set(want)))
        names = sorted(want)
        compare("a llama of FP8 blocks through mckpt import --dtype %s" % word, torch.cat([got[n].reshape(-1) for n in names]),
                torch.cat([want[n].to(TYPES[kind]).reshape(-1) for n in names]))


def gpt_oss(d):
    """A model of MXFP4 experts through mckpt import: files have outputs by inputs, transformers the transpose."""
    config = transformers.AutoConfig.for_model(
        "gpt_oss", vocab_size=90, hidden_size=64, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=16, num_local_experts=3, num_experts_per_tok=2, sliding_window=8)
    model = transformers.AutoModelForCausalLM.from_config(config).to(torch.bfloat16)
    g = torch.Generator().manual_seed(9)
    stored, want = {}, {}
    for name, w in model.state_dict().items():
        want[name] = stored[name] = torch.randn(w.shape, generator=g).bfloat16()
        if name.endswith("experts.gate_up_proj") or name.endswith("experts.down_proj"):
            shape = (w.shape[0], w.shape[2], w.shape[1] // 32)
            blocks = torch.randint(0, 256, (*shape, 16), generator=g).to(torch.uint8)
            scales = torch.randint(115, 130, shape, generator=g).to(torch.uint8)
            del stored[name]
            stored.update({name + "_blocks": blocks, name + "_scales": scales})
            want[name] = convert_moe_packed_tensors(blocks, scales, dtype=torch.bfloat16)
    save_file(stored, os.path.join(d, "model.safetensors"))
    with open(os.path.join(d, "config.json"), "w") as f:
        json.dump({**config.to_dict(), "quantization_config": {"quant_method": "mxfp4"}}, f)
    ck, out = os.path.join(d, "ck"), os.path.join(d, "out")
    subprocess.run(["mckpt", "import", "-q", d, ck], check=True, stderr=subprocess.DEVNULL)
    subprocess.run(["mexport", "-q", ck, out], check=True)
    got = load_file(os.path.join(out, "model.safetensors"))
    if set(got) != set(want):
        sys.exit("other tensors: %s" % sorted(set(got) ^ set(want)))
    names = sorted(want)
    compare("a GPT-OSS of MXFP4 through mckpt import", torch.cat([got[n].reshape(-1) for n in names]),
            torch.cat([want[n].reshape(-1) for n in names]))


def main():
    print("transformers %s, torch %s" % (transformers.__version__, torch.__version__))
    for case in (fp8, rows_576, mxfp4, llama, gpt_oss):
        with tempfile.TemporaryDirectory() as d:
            case(d)


if __name__ == "__main__":
    main()
