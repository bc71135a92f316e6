#!/usr/bin/env python3
"""random_tokenizers.py [-n COUNT] [-s SEED] [-k DIRECTORY] - hold mtok against Python's tokenizers on random tokenizer.json

Each of COUNT configurations, whose numbers begin with SEED, is a tokenizer.json of random parts and some texts. The ids
that mtok gives must be those of tokenizers, text by text. A file or a text that one of the two refuses is counted and not
compared. With -k, what differs is kept in DIRECTORY. mtok is taken from PATH. Prints the counts, and a line for each
difference; the exit status is 1 when there is one. Known to run with tokenizers 0.23.3.
"""
import argparse
import base64
import collections
import json
import os
import random
import re
import resource
import shutil
import struct
import subprocess
import sys
import tempfile

try:
    import tokenizers
except ImportError:
    print("skipped: Python has no module tokenizers")
    sys.exit(0)

MEMORY, SECONDS = 4 << 30, 60  # what tokenizers may take for one configuration
MARK = "\u2581"
BYTES = {c: b for b, c in enumerate(
    [chr(0x100 + i) for i in range(33)] + [chr(i) for i in range(33, 127)] + [chr(0x121 + i) for i in range(34)] +
    [chr(i) for i in range(161, 173)] + [chr(0x143)] + [chr(i) for i in range(174, 256)])}
WHITE = [" ", "  ", "   ", "\t", "\n", "\n\n", "\r\n", "\u00a0", "\u3000", "\u2028", "\u0085"]
WORDS = ["the", "The", "HAS", "of", "dog's", "can't", "IT'S", "x1", "123", "3.14", "a", "b", "ab", "abc", "q", "aa", "...", "!?", "_",
         "-", "(", "{}", "日本", "猫で", "한국어", "é", "e\u0301", "e\u0323\u0301", "\u0301", "Åe", "İ", "ß", "Σς", "ﬁ", "½", "²", "Ⅷ",
         "٣", "नमस्ते", "สวัส", "\u1e69", "\ufdfa", "가\u11a8", "😀", "👩\u200d👧", "\u200d", "\ufeff", "\0", "\x01", MARK, MARK + "a",
         "<s>", "</s>", "<unk>", "[MASK]", "<|end|>", "Ġ", "Ċa", "Ģ"]
LETTERS = list("abcdehinorst TSAHG0123._'-") + ["日", "本", "é", "e", "\u0301", "가", MARK, "\n", "ﬁ"]
PATTERNS = [r"\s+", r"\s", r"[0-9]", r"\d{1,3}", r"\p{L}+", r"\w+|[^\w\s]+", r" ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
            r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+", r"a|b", r"ab?", r"[A-Z][a-z]*", r"\.", r"$",
            r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+", r" +", r"\n|\s{2,}", r"[一-龥]+", r"x*",
            r"\b", r"(?=[A-Z])", r"(?<=a)b", MARK + "+", r" ?[^(\s|[.,!?…。，、।۔،])]+", r"\p{N}{1,3}", r"\p{Han}+", r"[^\s.]+",
            r"\p{Hangul}+|(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
            r"\s+(?!\S)|\s+",
            r"[!-/:-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
            r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+|"
            r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"]
BEHAVIORS = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]


def pick(r, *choices):
    """One of the choices, called if it is a function."""
    c = r.choice(choices)
    return c() if callable(c) else c


def chance(r, p):
    return r.random() < p


def pattern(r):
    return {"Regex": r.choice(PATTERNS)} if chance(r, 0.7) else {"String": r.choice(WHITE[:5] + WORDS[:22] + [MARK])}


# --- normalizers -----------------------------------------------------------------------------------------------------

def charsmap(rules):
    """The blob of a SentencePiece model: a double array of darts-clone's form whose offsets are 256 apart, and a pool."""
    pool, units = b"", {}
    keys = {}
    for k, v in sorted(rules.items()):
        keys[k.encode()] = len(pool)
        pool += v.encode() + b"\0"
    prefixes = sorted({k[:i] for k in keys for i in range(len(k) + 1)})
    base = {p: 256 * (i + 1) for i, p in enumerate(prefixes)}
    place = {p: base[p[:-1]] ^ p[-1] for p in prefixes if p}
    place[b""] = 0

    def offset(frm, to):
        d = frm ^ to
        if d < 1 << 21:
            return d << 10
        return d >> 8 << 10 | 1 << 9

    for p in prefixes:
        leaf = p in keys
        units[place[p]] = offset(place[p], base[p]) | (p[-1] if p else 0) | (leaf << 8)
        if leaf:
            units[base[p]] = keys[p] | 1 << 31
    size = 256 * (len(prefixes) + 2)
    trie = struct.pack("<%dI" % size, *[units.get(i, 0) for i in range(size)])
    return base64.b64encode(struct.pack("<I", len(trie)) + trie + pool).decode()


def precompiled(r):
    rules = {}
    for _ in range(r.randint(1, 6)):
        rules[pick(r, *[w for w in WORDS + WHITE if w != "\0" and len(w.encode()) < 6], *LETTERS)] = pick(
            r, "", " ", "a", "ab", "xyz", "é", MARK, lambda: r.choice(LETTERS))
    return {"type": "Precompiled", "precompiled_charsmap": charsmap(rules)}


def normalizer(r, depth=0):
    if depth < 2 and chance(r, 0.25):
        return {"type": "Sequence", "normalizers": [normalizer(r, depth + 1) for _ in range(r.randint(0, 3))]}
    return pick(
        r, {"type": "NFC"}, {"type": "NFD"}, {"type": "NFKC"}, {"type": "NFKD"}, {"type": "Lowercase"}, {"type": "StripAccents"},
        lambda: {"type": "Prepend", "prepend": pick(r, MARK, " ", "ab", "é", "Ġ")},
        lambda: {"type": "Replace", "pattern": pattern(r), "content": pick(r, MARK, "", " ", "a", "xy", "é", "Ġ")},
        lambda: {"type": "Replace", "pattern": {"String": " "}, "content": MARK},
        lambda: {"type": "Strip", "strip_left": chance(r, 0.6), "strip_right": chance(r, 0.6)}, lambda: precompiled(r))


# --- pre-tokenizers --------------------------------------------------------------------------------------------------

def pre_tokenizer(r, depth=0):
    if depth < 2 and chance(r, 0.35):
        return {"type": "Sequence", "pretokenizers": [pre_tokenizer(r, depth + 1) for _ in range(r.randint(0, 3))]}
    return pick(
        r, {"type": "Whitespace"}, {"type": "WhitespaceSplit"},
        lambda: {"type": "ByteLevel", "add_prefix_space": chance(r, 0.4), "trim_offsets": True, "use_regex": chance(r, 0.6)},
        lambda: {"type": "Metaspace", "replacement": pick(r, MARK, "_", "Ġ"), "prepend_scheme": pick(r, "always", "first", "first", "never"),
                 "split": chance(r, 0.6)},
        lambda: {"type": "Split", "pattern": pattern(r), "behavior": r.choice(BEHAVIORS), "invert": chance(r, 0.3)},
        lambda: {"type": "Digits", "individual_digits": chance(r, 0.5)},
        lambda: {"type": "Punctuation", "behavior": r.choice(BEHAVIORS)},
        lambda: {"type": "FixedLength", "length": r.randint(1, 6)})


def has_byte_level(v):
    return v is not None and '"ByteLevel"' in json.dumps(v)


# --- models ----------------------------------------------------------------------------------------------------------

def numbered(r, tokens):
    """Tokens with ids: in order, shuffled, or with holes."""
    ids = list(range(len(tokens)))
    if chance(r, 0.1):
        r.shuffle(ids)
    if chance(r, 0.15):
        ids = sorted(r.sample(range(len(tokens) + r.randint(1, 12)), len(tokens)))
    return dict(zip(tokens, ids))


def bpe(r, byte_level):
    """Characters, or the alphabet of bytes, and random merges of what there is."""
    prefix = pick(r, "##", "@") if not byte_level and chance(r, 0.08) else None
    suffix = pick(r, "</w>", "_") if not byte_level and chance(r, 0.08) else None
    letters = list(BYTES) if byte_level else r.sample(LETTERS, r.randint(12, len(LETTERS)))
    if byte_level and chance(r, 0.15):
        letters = r.sample(letters, r.randint(60, 250))
    tokens = (["<unk>"] if chance(r, 0.8) else []) + letters
    if prefix:
        tokens += [prefix + c for c in letters]
    if suffix:
        tokens += [c + suffix for c in letters]
    if not byte_level and chance(r, 0.3):
        tokens += ["<0x%02X>" % b for b in range(256) if chance(r, 0.97)]
    tokens = list(dict.fromkeys(tokens))
    merges, common = [], [c for c in tokens if len(c) < 6 and c != "<unk>"]
    usual = [c for c in common if c in "etaoinshrd1 0Ġ" + MARK] or common
    for _ in range(r.randint(0, 60)):
        a, b = r.choice(usual if chance(r, 0.7) else common), r.choice(usual if chance(r, 0.7) else common)
        if prefix and not b.startswith(prefix):
            continue
        joined = a + (b[len(prefix):] if prefix else b)
        if joined not in tokens:
            tokens.append(joined)
        if (a, b) not in merges or chance(r, 0.3):
            merges.append((a, b))
        usual.append(joined)
    while merges and chance(r, 0.1):
        merges.insert(r.randint(0, len(merges)), r.choice(merges))
    if chance(r, 0.2):
        tokens += [w for w in r.sample(WORDS, 5) if w not in tokens]
    lists = chance(r, 0.5) or any(" " in a + b for a, b in merges)
    return {"type": "BPE", "dropout": None, "unk_token": "<unk>" if "<unk>" in tokens and chance(r, 0.9) else None,
            "continuing_subword_prefix": prefix, "end_of_word_suffix": suffix, "fuse_unk": chance(r, 0.5),
            "byte_fallback": chance(r, 0.4), "ignore_merges": chance(r, 0.3), "vocab": numbered(r, tokens),
            "merges": [list(m) if lists else " ".join(m) for m in merges]}


def unigram(r, byte_level):
    letters = r.sample(list(BYTES), r.randint(100, 256)) if byte_level else r.sample(LETTERS, r.randint(12, len(LETTERS)))
    tokens = ["<unk>"] + letters + r.sample(WORDS, r.randint(0, 20))
    tokens += ["".join(r.choice(letters) for _ in range(r.randint(2, 4))) for _ in range(r.randint(0, 60))]
    if not byte_level and chance(r, 0.3):
        tokens += ["<0x%02X>" % b for b in range(256) if chance(r, 0.97)]
    tokens = [t for t in dict.fromkeys(tokens) if t]
    return {"type": "Unigram", "unk_id": pick(r, 0, 0, 0, 3, None), "byte_fallback": chance(r, 0.4),
            "vocab": [[t, 0.0 if t == "<unk>" else -round(r.uniform(0.5, 14), r.randint(0, 12))] for t in tokens]}


# --- the rest --------------------------------------------------------------------------------------------------------

def added_tokens(r, model):
    """Tokens with ids as a program writes them, or with gaps, or as they come."""
    vocab = model["vocab"] if isinstance(model["vocab"], dict) else {t: i for i, (t, _) in enumerate(model["vocab"])}
    out, next_id = [], len(vocab) if chance(r, 0.7) else r.randint(0, len(vocab) + 9)
    for _ in range(r.choice([0, 1, 2, 3, 5, 8])):
        content = pick(r, *WORDS, *WORDS, *WHITE, lambda: r.choice(list(vocab)), lambda: r.choice(WORDS) + r.choice(WORDS),
                       lambda: r.choice(WHITE) + r.choice(WORDS), "")
        if chance(r, 0.05) and out:
            content = r.choice(out)["content"]
        special = chance(r, 0.5)
        out.append({"id": vocab.get(content, next_id), "content": content, "single_word": chance(r, 0.15), "lstrip": chance(r, 0.25),
                    "rstrip": chance(r, 0.25), "normalized": chance(r, 0.2 if special else 0.7), "special": special})
        next_id += content not in vocab
        next_id += r.randint(1, 5) if chance(r, 0.1) else 0
    return out


def post_processor(r, added):
    known = [a for a in added if a["content"]]
    if not known or chance(r, 0.6):
        return None
    a, b = r.choice(known), r.choice(known)
    return pick(
        r, {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True},
        {"type": "BertProcessing", "sep": [a["content"], a["id"]], "cls": [b["content"], b["id"]]},
        {"type": "RobertaProcessing", "sep": [a["content"], a["id"]], "cls": [b["content"], b["id"]], "trim_offsets": True,
         "add_prefix_space": False},
        {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": a["content"], "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
         "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
         "special_tokens": {a["content"]: {"id": a["content"], "ids": [a["id"]], "tokens": [a["content"]]}}})


def configuration(r):
    pre = pre_tokenizer(r) if chance(r, 0.8) else None
    byte_level = has_byte_level(pre) or chance(r, 0.05)
    model = unigram(r, byte_level) if chance(r, 0.3) else bpe(r, byte_level)
    added = added_tokens(r, model)
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
            "normalizer": normalizer(r) if chance(r, 0.6) else None, "pre_tokenizer": pre,
            "post_processor": post_processor(r, added), "decoder": None, "model": model}


def text(r, config):
    """Words, blanks, added tokens and tokens, often without anything between them."""
    extra = [a["content"] for a in config["added_tokens"]] or [""]
    parts = [pick(r, *WORDS, lambda: r.choice(WHITE), lambda: r.choice(WHITE), lambda: r.choice(extra), lambda: r.choice(LETTERS),
                  lambda: "".join(r.choice("etaoinshrd ") for _ in range(r.randint(1, 12)))) for _ in range(r.choice([0, 1, 2, 4, 8, 16]))]
    return pick(r, "", " ", "").join(parts)


# --- the two programs ------------------------------------------------------------------------------------------------

def documents(prefix):
    """The ids of each document of PREFIX.bin and PREFIX.idx."""
    with open(prefix + ".idx", "rb") as f:
        idx = f.read()
    with open(prefix + ".bin", "rb") as f:
        data = f.read()
    ids = memoryview(data).cast("H" if idx[17] == 8 else "i")
    n, m = struct.unpack("<QQ", idx[18:34])
    at = [0]
    for x in struct.unpack("<%di" % n, idx[34:34 + 4 * n]):
        at.append(at[-1] + x)
    docs = struct.unpack("<%dq" % m, idx[34 + 12 * n:34 + 12 * n + 8 * m])
    return [list(ids[at[a]:at[b]]) for a, b in zip(docs, docs[1:])]


def mtok(d, count):
    """A list with the ids of each text, or the reason why there are none; or one reason for the whole file."""
    p = subprocess.run(["mtok", "-q", "--force", "--tokenizer-type", "HuggingFaceTokenizer", "--tokenizer-model", d + "/tokenizer.json",
                        "--workers", "1", "--on-error", "skip", "--error-list", d + "/errors", "-o", d + "/o", "--input", d + "/texts.jsonl"],
                       capture_output=True, text=True)
    if p.returncode == 2:
        return p.stderr.strip()
    if p.returncode:
        raise SystemExit("mtok: status %d: %s" % (p.returncode, p.stderr))
    bad = {}
    if os.path.exists(d + "/errors"):
        with open(d + "/errors", encoding="utf-8", errors="replace") as f:
            for line in f.read().split("\n")[1:]:
                if line:
                    cells = line.split("\t")
                    bad[int(cells[1])] = cells[-1]
        os.remove(d + "/errors")
    got = iter(documents(d + "/o_text_document"))
    return [bad[i + 1] if i + 1 in bad else next(got) for i in range(count)]


def reference(d, texts):
    """The same by tokenizers, in a process of its own: a file may make it take all memory, or never end."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        t = refusal(tokenizers.Tokenizer.from_file, d + "/tokenizer.json")
        with os.fdopen(write, "w") as f:
            json.dump(t if isinstance(t, str) else [refusal(lambda x: t.encode(x).ids, x) for x in texts], f)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as f:
        said = f.read()
    status = os.waitpid(pid, 0)[1]
    return "ended by signal %d" % os.WTERMSIG(status) if os.WIFSIGNALED(status) else json.loads(said)


def refusal(f, x):
    """f(x), or why it fails. A panic is not an Exception."""
    try:
        return f(x)
    except BaseException as e:
        return str(e)


def kind(reason):
    """A reason without its numbers and quoted parts."""
    return re.sub(r"\d+", "N", re.sub(r"'[^']*'", "'...'", reason.split(".json: ")[-1]))[:90]


def compare(seed, d, counts, refusals):
    """Returns a line for the first text that differs, or None."""
    r = random.Random(seed)
    config = configuration(r)
    texts = [text(r, config) for _ in range(12)]
    with open(d + "/tokenizer.json", "w", encoding="utf-8") as f:
        json.dump(config, f, ensure_ascii=False, indent=1)
    with open(d + "/texts.jsonl", "w") as f:
        f.writelines(json.dumps({"text": t}) + "\n" for t in texts)
    want, got = reference(d, texts), mtok(d, len(texts))
    if isinstance(want, str) or isinstance(got, str):
        counts["files refused by " + ("tokenizers" if isinstance(want, str) else "mtok alone")] += 1
        if not isinstance(want, str):
            refusals[kind(got)] += 1
        return None
    for t, a, b in zip(texts, want, got):
        if isinstance(a, str) or isinstance(b, str):
            counts["texts refused by " + ("tokenizers" if isinstance(a, str) else "mtok alone")] += 1
            if not isinstance(a, str):
                refusals[kind(b)] += 1
            continue
        counts["texts compared"] += 1
        if a != b:
            return "%d: text %s: %s, not %s" % (seed, json.dumps(t), b, a)
    return None


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("-n", type=int, default=300, help="configurations")
    p.add_argument("-s", type=int, default=1, help="the number of the first one")
    p.add_argument("-k", help="keep the files of those that differ here")
    a = p.parse_args()
    counts, refusals, differ = collections.Counter(), collections.Counter(), 0
    stderr = os.dup(2)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)  # where tokenizers panics it also writes pages of frames
    try:
        with tempfile.TemporaryDirectory() as d:
            for seed in range(a.s, a.s + a.n):
                line = compare(seed, d, counts, refusals)
                if line:
                    differ += 1
                    print(line[:600], flush=True)
                    if a.k:
                        shutil.copytree(d, os.path.join(a.k, str(seed)), dirs_exist_ok=True)
    finally:
        os.dup2(stderr, 2)
    for reason, n in refusals.most_common():
        print("  refused: %6d  %s" % (n, reason))
    for name, n in sorted(counts.items()):
        print("  %-30s %d" % (name, n))
    print("%d configurations from %d on, tokenizers %s: %d differ" % (a.n, a.s, tokenizers.__version__, differ))
    return differ > 0


if __name__ == "__main__":
    sys.exit(main())
