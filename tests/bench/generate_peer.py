"""generate_peer.py write DIR | generate DIR N PROMPTS | bandwidth

write: a Llama of 49 M parameters with random weights, by transformers. generate: seconds of
processor time for a token of each of PROMPTS prompts, by transformers with its cache, in one thread
and fp32: N + 1 tokens, less the time of one. bandwidth: bytes read in a second of one thread, the
best of ten sums over 512 MiB.
"""
import sys
import time

import torch
from transformers import LlamaConfig, LlamaForCausalLM

torch.set_num_threads(1)
VOCABULARY, PROMPT = 10240, list(range(1, 9))


def write(directory):
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=512, intermediate_size=1408, num_hidden_layers=12,
        num_attention_heads=8, num_key_value_heads=8, max_position_embeddings=2048,
        tie_word_embeddings=False, bos_token_id=None, eos_token_id=None)
    model = LlamaForCausalLM(config)
    model.save_pretrained(directory)
    print(sum(p.numel() for p in model.parameters()))


def seconds(work):
    start = time.process_time()
    work()
    return time.process_time() - start


def generate(directory, count, prompts):
    model = LlamaForCausalLM.from_pretrained(directory, dtype=torch.float32)
    ids = torch.tensor([PROMPT] * prompts)
    mask = torch.ones_like(ids)

    def run(n):
        with torch.inference_mode():
            out = model.generate(
                ids, attention_mask=mask, do_sample=False, max_new_tokens=n, min_new_tokens=n,
                pad_token_id=0)
        assert out.shape[1] == len(PROMPT) + n

    run(2)
    print((seconds(lambda: run(count + 1)) - seconds(lambda: run(1))) / count)


def bandwidth():
    x = torch.ones(1 << 27)
    print(4 * x.numel() / min(seconds(x.sum) for _ in range(10)))


mode, *words = sys.argv[1:]
if mode == "write":
    write(words[0])
elif mode == "generate":
    generate(words[0], int(words[1]), int(words[2]))
else:
    bandwidth()
