"""tok_peer.py tiktoken|tokenizers DIRECTORY CORPUS.jsonl

MB/s of processor time of GPT-2's encoding, one thread, best of two.
"""
import json
import os
import sys
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
name, directory, corpus = sys.argv[1:]
with open(corpus, encoding="utf-8") as lines:
    texts = [json.loads(line)["text"] for line in lines]
if name == "tiktoken":
    import tiktoken
    from tiktoken.load import data_gym_to_mergeable_bpe_ranks
    from tiktoken_ext.openai_public import r50k_pat_str

    ranks = data_gym_to_mergeable_bpe_ranks(
        directory + "/gpt2-merges.txt", directory + "/gpt2-vocab.json")
    encoding = tiktoken.Encoding(
        "gpt2", pat_str=r50k_pat_str, mergeable_ranks=ranks, special_tokens={})
    encode = encoding.encode_ordinary
else:
    from tokenizers import Tokenizer

    encode = Tokenizer.from_file(directory + "/gpt2.tokenizer.json").encode
size = sum(len(text.encode()) for text in texts)
best = 0.0
for _ in range(2):
    start = time.process_time()
    for text in texts:
        encode(text)
    best = max(best, size / (time.process_time() - start) / 1e6)
print(f"{best:.1f}")
