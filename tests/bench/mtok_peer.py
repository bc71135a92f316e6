"""mtok_peer.py tiktoken|tokenizers|sentencepiece FILE CORPUS.jsonl OUT

MB/s of processor time from JSON Lines to a file of ids. FILE is the directory of tokenizers, or a
SentencePiece model. One process, one document after the other, best of two.
"""
import array
import json
import os
import sys
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
name, path, corpus, out = sys.argv[1:]
if name == "tiktoken":
    import tiktoken
    from tiktoken.load import data_gym_to_mergeable_bpe_ranks
    from tiktoken_ext.openai_public import r50k_pat_str

    ranks = data_gym_to_mergeable_bpe_ranks(path + "/gpt2-merges.txt", path + "/gpt2-vocab.json")
    encoding = tiktoken.Encoding(
        "gpt2", pat_str=r50k_pat_str, mergeable_ranks=ranks, special_tokens={})
    encode = encoding.encode_ordinary
elif name == "tokenizers":
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(path + "/gpt2.tokenizer.json")

    def encode(text):
        return tokenizer.encode(text).ids
else:
    import sentencepiece

    encode = sentencepiece.SentencePieceProcessor(model_file=path).encode
best = 0.0
for _ in range(2):
    start = time.process_time()
    with open(corpus, encoding="utf-8") as lines, open(out, "wb") as file:
        for line in lines:
            array.array("H", encode(json.loads(line)["text"])).tofile(file)
    best = max(best, os.path.getsize(corpus) / (time.process_time() - start) / 1e6)
print(f"{best:.1f}")
