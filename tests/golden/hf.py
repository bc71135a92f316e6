#!/usr/bin/env python3
"""hf.py DIRECTORY - write the golden files of tokenizer.json: what Python's tokenizers does

    texts.jsonl     the texts, a line each
    model.NAME      the member "model" of a tokenizer.json
    NAME.json       a tokenizer whose "model" is such a NAME
    NAME.tsv        its ids of each text, a line each; "error" where the reference fails
    points.tsv      a component, and the CRC-32 of what it makes of every code point
    classes.tsv     an expression, and the CRC-32 of what is left of all code points when its matches are removed
    pairs.tsv       code points to put first, and second, in base 16; then normal forms, each with the CRC-32 of what
                    it makes of every pair

Made with tokenizers 0.23.3 (PyPI). Vocabularies are trained here on the texts below.
"""
import copy
import json
import os
import sys
import zlib

import tokenizers
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

# the older one is for auto.py with transformers 4.57
assert tokenizers.__version__ in ("0.23.3", "0.22.2"), tokenizers.__version__

TRAIN = [
    "The quick brown fox jumps over the lazy dog. It's a dog's life, they said; we'll see!",
    "def loop(argc, argv):\n    return [x ** 2 for x in range(10)]  # 12345 == 0x3039\n",
    "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。――何でも薄暗いじめじめした所で",
    "Le cœur a ses raisons que la raison ne connaît point. Äpfel, Öl und Übermut: 3,50 €.",
    "Съешь же ещё этих мягких французских булок, да выпей чаю.",
    "----- | | || ||| ==== ...... ?!?! «» “quoted” ‘single’ (nested [brackets {here}])",
    "नमस्ते दुनिया। مرحبا بالعالم. สวัสดีชาวโลก 你好,世界!",
] * 3

TEXTS = [
    "", " ", "  two  spaces ", "a", "\n\n\ttabs\n", "The quick brown fox", "It's they're WE'LL I'd'",
    "dog.dog!dog?", "...", "||| || |", "-----------", "―――――――――――――――――", "―― ――― ――――", "SS|||",
    "12345 67,890.12 ½ ² Ⅷ ٣", "猫である。猫。", "名前はまだ無い どこで", "un cœur été e\u0301te\u0301 ÀÉÎ",
    "İstanbul ΣΊΣΥΦΟΣ ǅ ẞ", "\u1e9b\u0323 ﬁ ﷺ ㍻ ½", "हिन्दी क़ ड़", "مرحبا، كيف", "한국어 각 가\u11a8",
    "a\u200db\u200cc 👩\u200d👩\u200d👧 🇯🇵", "x\u00a0y\u3000z\u2028w\u0085v", "$100 + 5% = <b> `code` ^~|",
    "foo_bar-baz.qux@example.com", "<s>bos</s><unk>", "<unk><unk> x<unk>", "<mask> [MASK]<mask>tail",
    "\u2581already \u2581\u2581marked", "zzzz\u0416\u4e02\U0001f600 unseen", "q\u4e02\u4e05q", "tab\tand\r\nline",
    "a\u0300\u0316\u0315b", "\ufeffbom", "CamelCaseWord ABCdef", "¿Qué?¡No!", "a,b;c:d", "\u2581\u5df2\u2581the\u2581\u5df2", "\u0e2a\u0e27\u0e31\u0e2a",
]


def metaspace(scheme="always", split=True):
    return {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": scheme, "split": split}


def train(t, trainer):
    t.train_from_iterator(TRAIN, trainer)
    return json.loads(t.to_str())


def train_unigram():
    """A Unigram whose first pieces are <unk>, <s> and </s>."""
    t = Tokenizer(models.Unigram())
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    return train(t, trainers.UnigramTrainer(vocab_size=220, special_tokens=["<unk>", "<s>", "</s>"],
                                            unk_token="<unk>", show_progress=False))


def train_bpe():
    """A BPE of characters, likewise; it knows 60 of them."""
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    return train(t, trainers.BpeTrainer(vocab_size=250, special_tokens=["<unk>", "<s>", "</s>"],
                                        limit_alphabet=60, show_progress=False))


def train_bytes():
    """A byte-level BPE, likewise."""
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return train(t, trainers.BpeTrainer(vocab_size=360, special_tokens=["<unk>", "<s>", "</s>"],
                                        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))


def with_bytes(model, keep=lambda b: True):
    """A Unigram with byte fallback and the tokens of some bytes."""
    model["vocab"] += [["<0x%02X>" % b, 0.0] for b in range(256) if keep(b)]
    model["byte_fallback"] = True


def with_double_mark(model):
    """A BPE without an unknown token that joins two marks, also when what stood between them is dropped."""
    model["unk_token"] = None
    model["vocab"]["\u2581\u2581"] = len(model["vocab"])
    model["merges"].insert(0, ["\u2581", "\u2581"])


def without_letters(model):
    """A byte-level BPE that lacks some bytes, and has no unknown token."""
    model["unk_token"] = None
    for letter in "vxzÃģ":
        model["merges"] = [m for m in model["merges"] if letter not in "".join(m)]
        model["vocab"] = {k: v for k, v in model["vocab"].items() if letter not in k}


# Models made from the trained ones.
MODELS = {
    "unigram-bytes": with_bytes,
    "unigram-some-bytes": lambda m: with_bytes(m, lambda b: b < 0xe0),
    "unigram-untyped": lambda m: m.pop("type"),
    "unigram-no-unk": lambda m: m.update(unk_id=None),
    "bpe-gap": with_double_mark,
    "bytes-gap": without_letters,
}

BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}


def split(pattern, behavior="Isolated"):
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": False}


def sequence(*steps):
    return {"pre_tokenizer": {"type": "Sequence", "pretokenizers": list(steps)}}


# cl100k's expression, DeepSeek-V3's steps, and Kimi-K2's expression.
CONTRACTION = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
REST = "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
CL100K = CONTRACTION + "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+" + REST
DEEPSEEK = ["\\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+",
            "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
            "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"]
KIMI_WORD = ("[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]%s"
             "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]%s" + CONTRACTION + "?")
KIMI = "[\\p{Han}]+|" + KIMI_WORD % ("*", "+") + "|" + KIMI_WORD % ("+", "*") + REST
BYTES = dict(BYTE_LEVEL, use_regex=False)

# Name, model, and the members that differ from the trained tokenizer.
CASES = [
    ("unigram", "unigram", {}),
    ("unigram-whole", "unigram", {"pre_tokenizer": metaspace("first", False)}),
    ("unigram-bytes", "unigram-bytes", {"pre_tokenizer": metaspace("never")}),
    ("unigram-some-bytes", "unigram-some-bytes", {}),
    ("unigram-untyped", "unigram-untyped", {}),
    ("unigram-no-unk", "unigram-no-unk", {}),
    ("unigram-byte-level", "unigram", {"pre_tokenizer": dict(BYTE_LEVEL, add_prefix_space=True)}),
    ("gap", "bpe-gap", {"pre_tokenizer": None}),
    ("gap-words", "bpe-gap", {}),
    ("gap-bytes", "bytes-gap", {}),
    ("falcon", "bytes", sequence({"type": "Punctuation", "behavior": "Contiguous"}, BYTE_LEVEL,
                                 {"type": "Digits", "individual_digits": False}, split("[0-9][0-9][0-9]"))),
    ("bloom", "bytes", sequence(split(" ?[^(\\s|[.,!?…。，、।۔،])]+"), dict(BYTE_LEVEL, use_regex=False))),
    ("deepseek", "bytes", sequence(*map(split, DEEPSEEK), BYTES)),
    ("kimi", "bytes", sequence(split(KIMI), BYTES)),
    ("han", "bytes", sequence(split("\\p{Han}+"), split("[\\p{Hiragana}\\p{Katakana}]+"), split(CL100K), BYTES)),
    ("hangul", "bytes", sequence(split("\\p{Hangul}+|" + CL100K), BYTES)),
    ("digits", "bytes", sequence({"type": "Digits", "individual_digits": True}, BYTE_LEVEL)),
    ("punctuation", "bpe", {"pre_tokenizer": {"type": "Punctuation", "behavior": "Isolated"}}),
    ("punctuation-next", "bpe", {"pre_tokenizer": {"type": "Punctuation", "behavior": "MergedWithNext"}}),
    ("whitespace", "bpe", {"pre_tokenizer": {"type": "Whitespace"}, "normalizer": {"type": "StripAccents"}}),
    ("whitespace-split", "bpe", {"pre_tokenizer": {"type": "WhitespaceSplit"}}),
    ("fixed-length", "bpe", {"pre_tokenizer": {"type": "FixedLength", "length": 3}}),
    ("roberta", "bytes", {"post_processor": {"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 1],
                                             "trim_offsets": True, "add_prefix_space": False}}),
    ("bert", "bpe", {"post_processor": {"type": "BertProcessing", "sep": ["</s>", 2], "cls": ["<s>", 1]}}),
]


def base_models():
    """Tokenizers by the name of their model."""
    out = {"unigram": train_unigram(), "bpe": train_bpe(), "bytes": train_bytes()}
    for name, change in MODELS.items():
        base = copy.deepcopy(out[name.split("-")[0]])
        change(base["model"])
        out[name] = base
    return out


def ids(t, text):
    try:
        return " ".join(map(str, t.encode(text).ids))
    except Exception:
        return "error"


# Components that are compared on every code point: pre-tokenizers on it between two letters, normalizers on it alone.
POINTS = [
    {"type": "Digits", "individual_digits": True},
    {"type": "Punctuation", "behavior": "Isolated"},
    {"type": "Whitespace"},
    {"type": "WhitespaceSplit"},
    split("'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"),
    split("[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+"
          "(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+"
          "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*"
          "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"),
    {"type": "StripAccents"},
    {"type": "Strip", "strip_left": True, "strip_right": True},
    {"type": "Lowercase"},
    {"type": "NFC"},
    {"type": "NFD"},
    {"type": "NFKC"},
    {"type": "NFKD"},
]


def checksum(component):
    """Over "piece|piece|...\\n" of each code point but surrogates, or the normalised text and a line feed."""
    key = "normalizer" if component["type"].startswith(("Strip", "Lower", "NF")) else "pre_tokenizer"
    t = Tokenizer.from_str(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
        "pre_tokenizer": None, "post_processor": None, "decoder": None,
        "model": {"type": "BPE", "vocab": {}, "merges": []}, **{key: component}}))
    crc = 0
    for c in range(0x110000):
        if 0xD800 <= c < 0xE000:
            continue
        if key == "normalizer":
            out = t.normalizer.normalize_str(chr(c))
        else:
            out = "|".join(p for p, _ in t.pre_tokenizer.pre_tokenize_str("A" + chr(c) + "b"))
        crc = zlib.crc32((out + "\n").encode(), crc)
    return crc


# Expressions without a scanner: general categories and white space, words and digits, each in a set and negated too,
# with and without members of other kinds.
CATEGORIES = ("L Lu Ll Lt Lm Lo M Mn Mc Me N Nd Nl No P Pc Pd Ps Pe Pi Pf Po S Sm Sc Sk So Z Zs C Cc Cf Cn Co Cs").split()
CLASSES = [form % name for name in CATEGORIES
           for form in (r"\p{%s}", r"\P{%s}", r"[\p{%s}A]", r"[^\p{%s}]", r"[\P{%s}a]", r"[^\P{%s}x]", r"[\p{^%s}\P{Lu}^]")]
CLASSES += [form % name for name in "Han Arabic Latin Common Hani Cyrl Greek Thai Egyptian_Hieroglyphs".split()
            for form in (r"\p{%s}", r"\P{%s}", r"[\p{%s}A]", r"[^\P{%s}x]")]
CLASSES += [r"[^\p{L}\p{M}]", r"\s", r"\S", r"[\s]", r"[^\s]", r"\w", r"\W", r"[\w]", r"[^\w]", r"[\W]", r"[^\W]",
            r"[\Wa]", r"\d", r"\D", r"[\d]", r"[^\d]", r"[\D]", r"[^\Da]", r"\h", r"\H", r"[\h]", r"[\H]",
            r"[[:digit:]]", r"[[:^digit:]]", r"[[:space:]]", r"[[:^space:]]", r"[^[:word:]]", r"[[:^word:]]",
            r"[[:xdigit:]]", r"[[:cntrl:]]", r"[[:^cntrl:]b]", r"[^[:ascii:]]", r"\p{Lowercase_Letter}", r"\p{nd}",
            r"\p{Private Use}", r"\p{assigned}", r"\p{^Any}", r"(?i)\p{Lu}", r"(?i:\p{Ll}(?-i:)[\p{N}b])", r"(?m).", r"."]


def class_sum(pattern):
    """Over the pieces of each 1024 code points, each before a bar, and a line feed."""
    split = pre_tokenizers.Split(tokenizers.Regex(pattern), "removed")
    crc = 0
    for start in range(0, 0x110000, 1024):
        text = "".join(chr(c) for c in range(start, start + 1024) if not 0xD800 <= c < 0xE000)
        crc = zlib.crc32(("".join(p + "|" for p, _ in split.pre_tokenize_str(text)) + "\n").encode(), crc)
    return crc


def pair_lists():
    """What may join or change places with its neighbour: parts of composites, marks, and some of Hangul."""
    nfd = {c: normalizers.NFD().normalize_str(chr(c)) for c in range(0x30000) if not 0xD800 <= c < 0xE000}
    firsts, seconds = {0x1100, 0x1112, 0xAC00, 0xAC01, 0xD788, 0xD7A3}, {0x1161, 0x1175, 0x1176, 0x11A7, 0x11A8, 0x11C2}
    for c, d in nfd.items():
        if len(d) > 1 and not 0xAC00 <= c < 0xD7A4:
            firsts.update((c, ord(d[0])))
            seconds.update(map(ord, d[1:]))
        if len(d) == 1 and normalizers.NFD().normalize_str("a\u0345" + chr(c) + "\u0334") != "a\u0345" + chr(c) + "\u0334":
            firsts.add(c)
            seconds.add(c)
    return sorted(firsts), sorted(seconds)


def write_pairs(path):
    """The text of a first one is all its pairs, each before a bar; its form goes into the sum with a line feed."""
    firsts, seconds = pair_lists()
    with open(path, "w") as f:
        for points in (firsts, seconds):
            f.write(" ".join("%x" % c for c in points) + "\n")
        for name in ("NFC", "NFD", "NFKC", "NFKD"):
            crc = 0
            for a in firsts:
                out = getattr(normalizers, name)().normalize_str("".join(chr(a) + chr(b) + "|" for b in seconds))
                crc = zlib.crc32((out + "\n").encode(), crc)
            f.write("%s\t%08x\n" % (name, crc))


def write(path, value):
    with open(path, "w", encoding="utf-8") as f:
        json.dump(value, f, ensure_ascii=False, separators=(",", ":"))


def write_case(directory, bases, name, model, members):
    j = copy.deepcopy(bases[model])
    j.update(members)
    t = Tokenizer.from_str(json.dumps(j))
    j["model"] = model
    write(os.path.join(directory, name + ".json"), j)
    with open(os.path.join(directory, name + ".tsv"), "w") as f:
        for text in TEXTS:
            f.write(ids(t, text) + "\n")


def main(directory):
    os.makedirs(directory, exist_ok=True)
    with open(os.path.join(directory, "texts.jsonl"), "w") as f:
        for text in TEXTS:
            f.write(json.dumps({"text": text}) + "\n")
    bases = base_models()
    for name in {model for _, model, _ in CASES}:
        write(os.path.join(directory, "model." + name), bases[name]["model"])
    for case in CASES:
        write_case(directory, bases, *case)
    with open(os.path.join(directory, "points.tsv"), "w") as f:
        for component in POINTS:
            f.write("%s\t%08x\n" % (json.dumps(component), checksum(component)))
    with open(os.path.join(directory, "classes.tsv"), "w") as f:
        for pattern in CLASSES:
            f.write("%s\t%08x\n" % (pattern, class_sum(pattern)))
    write_pairs(os.path.join(directory, "pairs.tsv"))


if __name__ == "__main__":
    main(sys.argv[1])
