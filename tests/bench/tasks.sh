#!/bin/sh
# tasks.sh - seconds of 1,000 items of tasks in one thread of a CPU, beside lm-evaluation-harness;
# appends to results.tsv
#
# Both rate the requests of tests/tools/lmeval_same.py by the same model in fp32, lm_eval by its HF
# backend. Both have a turn in each of RUNS runs, and the best counts: seconds are of processor
# time, so that other people's load counts little, of lm_eval at its best batch size and without
# its start. PYTHON has lm_eval, torch and transformers; TOKENIZERS is a directory with
# l3style.tokenizer.json. Columns as in bench.sh.
set -eu
: "${B:=build}" "${PYTHON:=python3}" "${RUNS:=3}"
# shellcheck source=tests/bench/record
. tests/bench/record
export OMP_NUM_THREADS=1
figures=$("$PYTHON" tests/tools/lmeval_same.py --seconds "$RUNS" "$B" "$TOKENIZERS" 2>/dev/null |
	tail -n 1)
record \
	"mtrain --eval-tasks, 1,000 items of four tasks, Llama of 4 layers and width 128 in fp32, 1\
 thread, seconds of processor time; peer: lm_eval 0.4.13, HF backend, batches of $(echo "$figures" |
		cut -f 3)" \
	"$(echo "$figures" | cut -f 1)" "$(echo "$figures" | cut -f 2)"
