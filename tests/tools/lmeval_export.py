#!/usr/bin/env python3
"""lmeval_export.py - the requests of tasks of lm-evaluation-harness, as lines for --eval-tasks

usage: lmeval_export.py --tasks T,.. [--num_fewshot N] [--limit N] [--include_path DIR] -o FILE

The examples, templates and delimiters are lm_eval's own (0.4.13): a line has a document's requests as
they would go to a model. Tasks that generate text are left out, with a note.
"""
import argparse
import io
import json
import sys

from lm_eval.tasks import TaskManager


def number(gold, choices):
    """What lm_eval takes a target for: a place among the choices."""
    if isinstance(gold, list):
        return [number(g, choices) for g in gold]
    return choices.index(gold) if isinstance(gold, str) else int(gold)


def line(task, requests):
    """The members of one document's line, beside its task and id."""
    doc, kind = requests[0].doc, requests[0].request_type
    pairs = [r.args for r in requests]
    if task.OUTPUT_TYPE == "multiple_choice":
        choices = list(task.doc_to_choice(doc))
        pairs = pairs[:len(choices)]  # those after them are of acc_mutual_info
        contexts = [p[0] for p in pairs]
        target = task.doc_to_text if task.multiple_input else task.doc_to_target
        context = {"contexts": contexts} if task.multiple_input else {"context": contexts[0]}
        return {"type": "multiple_choice", **context, "continuations": [p[1] for p in pairs],
                "choices": choices, "gold": number(target(doc), choices)}
    if kind == "loglikelihood":
        return {"type": kind, "context": pairs[0][0], "continuation": pairs[0][1]}
    target = task.doc_to_target(doc)
    return {"type": kind, "text": pairs[0][0], "bytes": task.count_bytes(target),
            "words": task.count_words(target)}


def lines(task, name, shots, limit):
    if shots is not None and task.get_config("num_fewshot") != 0:
        task.set_config(key="num_fewshot", value=shots)
    elif task.get_config("num_fewshot") is None:
        task.set_config(key="num_fewshot", value=0)
    task.set_fewshot_seed(seed=1234)
    task.build_all_requests(limit=limit, rank=0, world_size=1)
    documents = {}
    for request in task.instances:
        documents.setdefault(request.doc_id, []).append(request)
    for number_, requests in documents.items():
        requests.sort(key=lambda r: r.idx)
        yield {"task": name, "id": number_, **line(task, requests)}


def export(names, out, shots=None, limit=None, include=None):
    for name, task in TaskManager(include_path=include).load(names)["tasks"].items():
        if task.OUTPUT_TYPE == "generate_until":
            print("%s: generates text, which --eval-tasks does not: left out" % name,
                  file=sys.stderr)
            continue
        for x in lines(task, name, shots, limit):
            out.write(json.dumps(x, ensure_ascii=False) + "\n")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--tasks", required=True)
    p.add_argument("--num_fewshot", type=int)
    p.add_argument("--limit", type=int)
    p.add_argument("--include_path")
    p.add_argument("-o", required=True)
    o = p.parse_args()
    out = io.StringIO()
    try:
        export(o.tasks.split(","), out, o.num_fewshot, o.limit, o.include_path)
        with open(o.o, "w", encoding="utf-8") as f:
            f.write(out.getvalue())
    except (KeyError, OSError, ValueError) as wrong:
        sys.exit("lmeval_export.py: %s" % (wrong.args[0] if wrong.args[1:] == () else wrong))


if __name__ == "__main__":
    main()
