#!/usr/bin/env python3
"""tasks.py - a few tasks as lines for --eval-tasks, and what lm_eval makes of them

usage: tasks.py TREE

Writes TREE/tests/golden/tasks: a tokenizer of 480 ids whose template has a beginning of text, lines
of the four tasks of tests/tools/lmeval_same.py, and by lm_eval 0.4.13 on tests/golden/ckpt/llama in
fp64, of which it reads 48 positions, the log-likelihoods and greedy flags of each line and the
figures of each task. Needs lm_eval, torch, transformers and tokenizers.
"""
import json
import os
import random
import shutil
import sys
import tempfile

import tokenizers
import transformers

tree = os.path.abspath(sys.argv[1])
sys.path.insert(0, os.path.join(tree, "tests/tools"))
import lmeval_export  # noqa: E402
import lmeval_same as same  # noqa: E402

MODEL = os.path.join(tree, "tests/golden/ckpt/llama")
same.COUNTS = {"few": 9, "whose": 5, "next": 8, "rolled": 4}
BOS, EOS = "<s>", "</s>"


def write_tokenizer(directory):
    draw = random.Random(1)
    t = tokenizers.Tokenizer(tokenizers.models.BPE())
    t.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = tokenizers.decoders.ByteLevel()
    t.train_from_iterator(
        [same.words(draw, 20, 20) for _ in range(50)],
        tokenizers.trainers.BpeTrainer(
            vocab_size=480, special_tokens=["<unk>", BOS, EOS], show_progress=False,
            initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet()))
    t.post_processor = tokenizers.processors.TemplateProcessing(
        single=BOS + " $A", special_tokens=[(BOS, t.token_to_id(BOS))])
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=t, bos_token=BOS, eos_token=EOS).save_pretrained(directory)


def likely(tokenizer):
    """As same.likeliest, of the golden model, which has its tokenizer elsewhere."""
    with tempfile.TemporaryDirectory() as both:
        for source in (MODEL, tokenizer):
            shutil.copytree(source, both, dirs_exist_ok=True)
        return same.likeliest(both)


def main():
    import lm_eval
    from lm_eval.models.huggingface import HFLM
    from lm_eval.tasks import TaskManager
    out = os.path.join(tree, "tests/golden/tasks")
    os.makedirs(out, exist_ok=True)
    write_tokenizer(out)
    with tempfile.TemporaryDirectory() as scratch:
        tasks = os.path.join(scratch, "tasks")
        same.write_tasks(tasks, likely(out))
        with open(os.path.join(out, "lines"), "w", encoding="utf-8") as f:
            lmeval_export.export(list(same.KINDS), f, include=tasks)
        lm = HFLM(pretrained=MODEL, tokenizer=out,
                  dtype="float64", device="cpu", batch_size=4, max_length=48)
        result = lm_eval.simple_evaluate(
            model=lm, tasks=list(same.KINDS), task_manager=TaskManager(include_path=tasks),
            bootstrap_iters=2, log_samples=True)
    with open(os.path.join(out, "answers"), "w", encoding="utf-8") as f:
        for task in same.KINDS:
            for sample in sorted(result["samples"][task], key=lambda s: s["doc_id"]):
                f.write(json.dumps(same.answers(task, sample)) + "\n")
    with open(os.path.join(out, "figures.tsv"), "w", encoding="utf-8") as f:
        for task, kind in same.KINDS.items():
            for metric in same.METRICS[kind]:
                f.write("%s\t%s\t%.17g\n" % (task, metric,
                                             result["results"][task][metric + ",none"]))


main()
