#!/usr/bin/env python3
"""boards.py - TensorBoard's and W&B's own readers find in mtrain's files what its metrics file has

A run is killed, resumed and ended. Every event file is read by the package tensorboard, every .wandb
file record by record by the package wandb (0.19.11 is the last one whose reader is Python), also the
one that the killed run left. Each point must be there once, at its step, with its value, and nothing
else of these tags. Then wandb's own command says which files it would upload.
"""
import glob
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

import numpy
import wandb
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from wandb.proto import wandb_internal_pb2
from wandb.sdk.internal.datastore import DataStore

STEPS = 1500
TAGS = {"lm loss": "lm_loss", "learning-rate": "lr", "grad-norm": "grad_norm",
        "loss-scale": "loss_scale", "iteration-time": "seconds"}
OPTIONS = f"""mock-data
num-layers 1
hidden-size 16
num-attention-heads 2
vocab-size 50
seq-length 8
global-batch-size 2
lr 1e-3
lr-decay-style constant
eval-iters 1
eval-interval 100
save-interval 500
save S
load S
log-interval 100
num-threads 1
metrics-file metrics.jsonl
tensorboard-dir B
wandb-project plans
wandb-entity team
wandb-exp-name a name
"""


def lines():
    """The steps and evaluations of the metrics file, a list of each start."""
    with open("metrics.jsonl") as f:
        return [json.loads(s) for s in f if s.endswith("\n")]


def want(found):
    """{(tag, step): value} of these lines."""
    out = {}
    for v in found:
        if v.get("split") == "valid":
            out["lm loss validation", v["iteration"]] = v["lm_loss"]
        elif "seconds" in v:
            for tag, name in TAGS.items():
                out[tag, v["iteration"]] = v[name]
    return out


def board(path):
    """The same of an event file, and the texts."""
    a = EventAccumulator(path, size_guidance={"scalars": 0, "tensors": 0})
    a.Reload()
    out = {}
    for tag in a.Tags()["scalars"]:
        if tag in TAGS or tag == "lm loss validation":
            for p in a.Scalars(tag):
                assert (tag, p.step) not in out, (tag, p.step)
                out[tag, p.step] = p.value
    return out, a.Tags()["tensors"]


def records(path):
    """The records of a .wandb file."""
    store = DataStore()
    store.open_for_scan(path)
    out = []
    while (data := store.scan_data()) is not None:
        out.append(wandb_internal_pb2.Record())
        out[-1].ParseFromString(data)
    return out


def history(found):
    """The same of its history."""
    out = {}
    for r in found:
        if r.WhichOneof("record_type") != "history":
            continue
        for item in r.history.item:
            if item.key in TAGS or item.key == "lm loss validation":
                assert (item.key, r.history.step.num) not in out, item.key
                out[item.key, r.history.step.num] = json.loads(item.value_json)
    return out


def same(name, have, wanted, close):
    """Ends the program unless both have the same points."""
    differ = [k for k in wanted if k not in have or not close(have[k], wanted[k])]
    more = [k for k in have if k not in wanted]
    if differ or more:
        sys.exit(f"boards.py: {name}: {len(differ)} points lack or differ, as {differ[:3]}; "
                 f"{len(more)} are more, as {more[:3]}")
    print(f"{name}: {len(have)} points")


def main():
    os.chdir(tempfile.mkdtemp())
    with open("run.conf", "w") as f:
        f.write(OPTIONS.replace("a name", '"a name"'))
    words = ["mtrain", "-q", "--config", "run.conf", "--train-iters"]
    log = open("log", "w")
    run = subprocess.Popen(words + ["1000000"], stdout=log, stderr=log)
    while not os.path.exists("metrics.jsonl") or len(lines()) < STEPS // 2 + 50:
        assert run.poll() is None, open("log").read()
        time.sleep(0.01)
    run.send_signal(signal.SIGKILL)
    run.wait()
    killed = lines()
    kept = int(open("S/latest_checkpointed_iteration.txt").read())
    # The resumed run's log begins anew after the killed one's.
    subprocess.run(words + [str(kept + STEPS)] + ["--override-opt_param-scheduler"], stdout=log,
                   stderr=log, check=True)
    starts = [want(killed), want(lines()[len(killed):])]
    wandb._assert_is_internal_process = True
    events, files = sorted(glob.glob("B/*")), sorted(glob.glob("S/wandb/*/*.wandb"))
    assert len(events) == len(files) == 2, (events, files)
    for wanted, path, file, ended in zip(starts, events, files, (False, True)):
        found, texts = board(path)
        last = max(step for _, step in wanted)
        if not ended:
            # A line of the metrics file is written before the points of its step.
            for have in (found, wanted):
                for k in [k for k in have if k[1] >= last]:
                    del have[k]
        same("TensorBoard", found, wanted,
             lambda a, b: numpy.float32(a) == numpy.float32(b))
        assert "hidden_size/text_summary" in texts, texts
        read = records(file)
        kinds = [r.WhichOneof("record_type") for r in read]
        have = history(read)
        if not ended:
            for points in (have, wanted):
                for k in [k for k in points if k[1] >= last - 1]:
                    del points[k]
        same("W&B", have, wanted, lambda a, b: a == b)
        assert kinds[:3] == ["header", "run", "config"], kinds[:3]
        assert [r.num for r in read] == list(range(1, len(read) + 1))
        assert ("exit" in kinds) == ended and (not ended or kinds[-2:] == ["summary", "exit"])
        r = read[1].run
        assert (r.project, r.entity, r.display_name) == ("plans", "team", "a name")
        config = {i.key: json.loads(i.value_json) for i in read[2].config.update}
        assert config["hidden_size"] == 16 and config["mock_data"] is True
    ids = {records(f)[1].run.run_id for f in files}
    assert ids == {open("S/wandb_run_id.txt").read().strip()}, ids
    print(f"wandb {wandb.__version__} reads {os.path.getsize(files[1])} bytes; one id: {ids}")


main()
