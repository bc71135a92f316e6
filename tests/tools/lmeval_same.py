#!/usr/bin/env python3
"""lmeval_same.py - mtrain --eval-tasks against lm-evaluation-harness 0.4.13

usage: lmeval_same.py [--items N] [--seconds RUNS] BUILD TOKENIZERS

Four local tasks of N items together, by default 1,000 (multiple choice, contexts by choice,
log-likelihood, rolling), with blanks at the ends, U+3000, Japanese and contexts beyond the window,
go through a tiny Llama, trained and exported here, in fp32 by lm_eval's HF backend and by mtrain,
with a tokenizer without and one with a beginning of text; TOKENIZERS holds
qwen2style.tokenizer.json and l3style.tokenizer.json. Fails unless accuracies are equal in the digits
that lm_eval prints, perplexities and bits within 1e-6 of their size, which is what sums in fp32
hold, log-likelihoods within 1e-4 and rolling ones within 1e-6 of their size, on one rank and with
two tensor, pipeline, context and data ranks.

--seconds: instead, processor seconds of both by turns in one thread, the best of RUNS runs each and
of lm_eval's batch sizes 8, 32 and 128, for a model of more layers; without the start of either.
Needs lm_eval, torch and transformers.
"""
import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile

import lmeval_export

os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", TOKENIZERS_PARALLELISM="false",
                  OMP_NUM_THREADS="1")
# As in tests/run.sh: ranks that wait leave their core to others.
MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
       "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_ess_singleton_isolated": "1",
       "OMPI_MCA_mpi_yield_when_idle": "1", "OMPI_MCA_hwloc_base_binding_policy": "none"}
POSITIONS, WORDS = 64, (
    "the of and a to in is model river stone night 3.14 (a+b) naïve don't answer: Tokyo 東京 の"
    " 夜は静かです。 川　石 日本語 それから e\u0301 Ω 🙂 U.S. well-known \u2003 x=1; return").split(" ")
KINDS = {"few": "multiple_choice", "whose": "multiple_choice", "next": "loglikelihood",
         "rolled": "loglikelihood_rolling"}
COUNTS = {"few": 400, "whose": 200, "next": 250, "rolled": 150}
METRICS = {"multiple_choice": ["acc", "acc_norm", "acc_bytes"],
           "loglikelihood": ["acc", "perplexity"],
           "loglikelihood_rolling": ["word_perplexity", "byte_perplexity", "bits_per_byte"]}
FIELDS = {"few": "doc_to_text: question\ndoc_to_choice: choices\ndoc_to_target: gold",
          "whose": "doc_to_text: gold\ndoc_to_choice: choices\ndoc_to_target: end",
          "next": "doc_to_text: question\ndoc_to_target: end\ntarget_delimiter: ''",
          "rolled": "doc_to_text: ''\ndoc_to_target: text"}


TRAINING = """--split 1,0,0 --seq-length 64 --max-position-embeddings 64 --num-attention-heads 4
    --group-query-attention --num-query-groups 2 --swiglu --normalization RMSNorm
    --disable-bias-linear --position-embedding-type rope --hidden-dropout 0 --attention-dropout 0
    --untie-embeddings-and-output-weights --micro-batch-size 8 --global-batch-size 8 --lr 2e-3
    --eval-iters 0 --num-threads 1"""


def words(draw, least, most):
    return " ".join(draw.choice(WORDS) for _ in range(draw.randint(least, most)))


def ends(draw, text):
    """White space of many kinds at the ends of some texts."""
    blank = ["", "", " ", "  ", "\n", "\t", "\u3000", "\u00a0 ", " \u2003"]
    return draw.choice(blank[:3] + [""] * 6) + text + draw.choice(blank)


def document(draw, task):
    long = draw.random() < .15
    question = ends(draw, words(draw, 1, POSITIONS if long else 12))
    if task == "rolled":
        return {"text": ends(draw, words(draw, 1, draw.choice([5, 40, 150])))}
    if task == "next":
        return {"question": question, "end": " " + words(draw, 1, 4)}
    n = draw.randint(2, 5) if task == "few" else 2
    choices = [words(draw, 1, 6) for _ in range(n)]
    if task == "few":
        return {"question": question, "choices": choices, "gold": draw.randrange(n)}
    return {"choices": [question + " " + c for c in choices], "end": words(draw, 1, 4),
            "gold": draw.randrange(n)}


def likeliest(directory):
    """A function from a text to that of the token that the model would continue it with, or None
    where that is not one token of the text with it."""
    import torch
    import transformers
    model = transformers.AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)

    def text(context):
        ids = tokenizer.encode(context)
        with torch.no_grad():
            best = int(model(torch.tensor([ids[-POSITIONS:]])).logits[0, -1].argmax())
        after = tokenizer.decode([best])
        return after if tokenizer.encode(context + after) == ids + [best] else None
    return text


def write_tasks(directory, likely):
    """The files of the tasks; of the third kind every other document ends as is likeliest, where one
    of a hundred does."""
    draw = random.Random(5)
    os.makedirs(directory)
    for task, kind in KINDS.items():
        data = os.path.join(directory, task + ".jsonl")
        with open(data, "w", encoding="utf-8") as f:
            for i in range(COUNTS[task]):
                doc = document(draw, task)
                for _ in range(100 if task == "next" and i % 2 else 0):
                    end = likely(doc["question"].rstrip())
                    if end:
                        doc["end"] = end
                        break
                    doc = document(draw, task)
                f.write(json.dumps(doc, ensure_ascii=False) + "\n")
        with open(os.path.join(directory, task + ".yaml"), "w", encoding="utf-8") as f:
            f.write("task: %s\ndataset_path: json\ndataset_kwargs:\n  data_files:\n    test: %s\n"
                    "test_split: test\noutput_type: %s\n%s\nmetric_list:\n" %
                    (task, data, kind, FIELDS[task]))
            f.writelines("  - metric: %s\n" % m for m in METRICS[kind])


def write_model(build, directory, tokenizer, width, layers, steps):
    """A Llama that has read some text of the same words: trained, and exported with its tokenizer."""
    import transformers
    file, bos, eos = tokenizer
    made = directory + "-tokenizer"
    transformers.PreTrainedTokenizerFast(
        tokenizer_file=file, bos_token=bos, eos_token=eos).save_pretrained(made)
    draw = random.Random(4)
    with open("text.jsonl", "w", encoding="utf-8") as f:
        f.writelines(json.dumps({"text": words(draw, 5, 60)}) + "\n" for _ in range(2000))
    named = ["--tokenizer-type", "HuggingFaceTokenizer", "--tokenizer-model", made]
    run([os.path.join(build, "mtok"), "-q", "-o", directory, "--append-eod", *named, "--input",
         "text.jsonl"])
    run([os.path.join(build, "mtrain"), "-q", *named, *TRAINING.split(), "--num-layers",
         str(layers), "--hidden-size", str(width), "--ffn-hidden-size", str(3 * width),
         "--train-iters", str(steps), "--data-path", directory + "_text_document", "--save",
         directory + "-run"])
    run([os.path.join(build, "mexport"), "-q", "--dtype", "fp32", "--tokenizer-model", made,
         directory + "-run", directory])


def theirs(model, tasks, batch):
    import lm_eval
    from lm_eval.models.huggingface import HFLM
    from lm_eval.tasks import TaskManager
    lm = HFLM(pretrained=model, dtype="float32", device="cpu", batch_size=batch)
    return lambda: lm_eval.simple_evaluate(
        model=lm, tasks=list(KINDS), task_manager=TaskManager(include_path=tasks),
        bootstrap_iters=2, log_samples=True)


def write(build, model, tokenizers, width=64, layers=2, steps=100):
    """A model with its tokenizer, its tasks, and their lines."""
    file, *special = MODELS[model]
    write_model(build, model, (os.path.join(tokenizers, file), *special), width, layers, steps)
    tasks = os.path.abspath(model + "-tasks")
    write_tasks(tasks, likeliest(model))
    with open(model + "-lines", "w", encoding="utf-8") as f:
        lmeval_export.export(list(KINDS), f, include=tasks)
    return tasks


def command(build, model, lines, *words_):
    return [os.path.join(build, "mtrain"), "-q", "--model", model, "--pretrained-checkpoint",
            model, "--tokenizer-type", "HuggingFaceTokenizer", "--tokenizer-model", model,
            "--skip-train", "--eval-tasks", lines, "--seq-length", "256", "--num-threads", "1",
            "--eval-tasks-output", "answers", "--metrics-file", "metrics",
            "--eval-max-length", str(POSITIONS), *words_]


def run(words_, ranks=1):
    launch = [] if ranks == 1 else ["mpirun", "-np", str(ranks)]
    out = subprocess.run(launch + words_, capture_output=True, text=True,
                         env={**os.environ, **MPI})
    if out.returncode:
        sys.exit("%s\n%s" % (" ".join(words_), out.stderr))


def answers(task, sample):
    """What lm_eval logs of a document, in the form of --eval-tasks-output."""
    given = [r[0] if isinstance(r[0], tuple) else r for r in sample["resps"]]
    out = {"task": task, "id": sample["doc_id"], "lls": [float(x[0]) for x in given]}
    if KINDS[task] != "loglikelihood_rolling":
        out["greedy"] = [x[1] in (True, "True") for x in given]
    return out


def compare(name, their, layout):
    """Figures, and the largest distances of log-likelihoods."""
    figures = {}
    for row in map(json.loads, open("metrics")):
        if "task" in row:
            figures[row["task"], row["metric"]] = row["value"], row["stderr"]
    bad = 0
    for task, kind in KINDS.items():
        for metric in METRICS[kind]:
            theirs_ = their["results"][task][metric + ",none"]
            error = their["results"][task].get(metric + "_stderr,none")
            value, stderr = figures[task, metric]
            if stderr is None:
                same = abs(value - theirs_) <= 1e-6 * theirs_
            else:
                same = "%.4f %.4f" % (value, stderr) == "%.4f %.4f" % (theirs_, error)
            bad += not same
            if not same or layout == "1":
                print("%s\t%s\t%s\t%s\t%.6f\t%.6f" % (name, layout, task, metric, value, theirs_))
    worst = {"ll": 0.0, "rolling": 0.0, "greedy": 0}
    for row in map(json.loads, open("answers")):
        given = answers(row["task"], their["index"][row["task"], row["id"]])
        for ll, x in zip(row["lls"], given["lls"], strict=True):
            rolling = "greedy" not in given
            kind, size = ("rolling", max(1, abs(x))) if rolling else ("ll", 1)
            worst[kind] = max(worst[kind], abs(ll - x) / size)
        worst["greedy"] += row.get("greedy") != given.get("greedy")
    print("%s\t%s\tlargest differences\tll %.1e\trolling %.1e of the size\tgreedy %d" %
          (name, layout, worst["ll"], worst["rolling"], worst["greedy"]))
    return bad or worst["ll"] > 1e-4 or worst["rolling"] > 1e-6 or worst["greedy"]


LAYOUTS = {"1": [], "TP 2": ["--tensor-model-parallel-size", "2"],
           "PP 2": ["--pipeline-model-parallel-size", "2"],
           "CP 2": ["--context-parallel-size", "2"], "DP 2": ["--global-batch-size", "4"]}
MODELS = {"qwen2style": ("qwen2style.tokenizer.json", None, "<|endoftext|>"),
          "l3style": ("l3style.tokenizer.json", "<|begin_of_text|>", "<|end_of_text|>")}


def same(build, tokenizers):
    bad = 0
    for name in MODELS:
        their = theirs(name, write(build, name, tokenizers), 32)()
        their["index"] = {(task, s["doc_id"]): s for task in KINDS for s in their["samples"][task]}
        for layout, options in LAYOUTS.items():
            run(command(build, name, name + "-lines", "--micro-batch-size", "2", *options),
                1 if layout == "1" else 2)
            bad += bool(compare(name, their, layout))
    print("%d of %d layouts differ" % (bad, len(LAYOUTS) * len(MODELS)))
    return 1 if bad else 0


def spent(who, work):
    def now():
        u = resource.getrusage(who)
        return u.ru_utime + u.ru_stime
    before = now()
    work()
    return now() - before


def seconds(build, tokenizers, runs):
    import torch
    torch.set_num_threads(1)
    name = "l3style"
    tasks = write(build, name, tokenizers, width=128, layers=4, steps=1)
    with open(name + "-lines", encoding="utf-8") as f, open("one", "w", encoding="utf-8") as one:
        one.write(f.readline())
    ours, peer = [], {b: [] for b in (8, 32, 128)}
    work = {b: theirs(name, tasks, b) for b in peer}
    for _ in range(runs):
        whole, start = (spent(resource.RUSAGE_CHILDREN, lambda f=f: run(
            command(build, name, f, "--micro-batch-size", "4"))) for f in (name + "-lines", "one"))
        ours.append(whole - start)
        for b in peer:
            peer[b].append(spent(resource.RUSAGE_SELF, work[b]))
    best = min(peer, key=lambda b: min(peer[b]))
    print("mtrain\tlm_eval\tbatch\n%.2f\t%.2f\t%d" % (min(ours), min(peer[best]), best))
    return 0


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--items", type=int, default=1000)
    p.add_argument("--seconds", type=int)
    p.add_argument("build")
    p.add_argument("tokenizers")
    o = p.parse_args()
    for task in COUNTS:
        COUNTS[task] = COUNTS[task] * o.items // 1000
    build, tokenizers = os.path.abspath(o.build), os.path.abspath(o.tokenizers)
    with tempfile.TemporaryDirectory() as here:
        os.chdir(here)
        status = seconds(build, tokenizers, o.seconds) if o.seconds else same(build, tokenizers)
        os.chdir("/")
    return status


if __name__ == "__main__":
    sys.exit(main())
