"""tok_peer.py tiktoken|tokenizers|gigatoken MODEL CORPUS.jsonl

MB/s of processor time of encoding in one thread. MODEL is a tokenizer.json, or for tiktoken the
directory of GPT-2's files. The best of two passes, but of gigatoken, which remembers what it has
encoded, the first one.
"""
import json
import os
import sys
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
name, model, corpus = sys.argv[1:]
with open(corpus, encoding="utf-8") as lines:
    texts = [json.loads(line)["text"] for line in lines]
size = sum(len(text.encode()) for text in texts)


def each(encode):
    """The texts one by one."""
    def run():
        for text in texts:
            encode(text)
    return run


if name == "tiktoken":
    import tiktoken
    from tiktoken.load import data_gym_to_mergeable_bpe_ranks
    from tiktoken_ext.openai_public import r50k_pat_str

    ranks = data_gym_to_mergeable_bpe_ranks(
        model + "/gpt2-merges.txt", model + "/gpt2-vocab.json")
    encoding = tiktoken.Encoding(
        "gpt2", pat_str=r50k_pat_str, mergeable_ranks=ranks, special_tokens={})
    run = each(encoding.encode_ordinary)
elif name == "tokenizers":
    from tokenizers import Tokenizer

    run = each(Tokenizer.from_file(model).encode)
else:
    import gigatoken

    with open(model, encoding="utf-8") as f:
        tokenizer = gigatoken.Tokenizer.from_json(f.read())
    texts = [text.encode() for text in texts]

    def run():
        tokenizer.encode_batch(texts, parallel=False)

best = 0.0
for _ in range(1 if name == "gigatoken" else 2):
    start = time.process_time()
    run()
    best = max(best, size / (time.process_time() - start) / 1e6)
print(f"{best:.1f}")
