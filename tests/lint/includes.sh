#!/bin/sh
# includes.sh - the include table: which directory may include what; no other edge may exist
#
# First word: the including directory; then the directories ('/' at the end) and headers that it may
# include. A directory may always include itself; bin and tests may include anything. impl.h and
# X_impl.h are private to their directory and those below it. Of the system's headers, those of MPI,
# BLAS, CUDA, NCCL and a few libraries have one home each.
set -u
cd "${TOP:-.}" || exit 1
lists='train/ops_list.h train/comm_list.h train/op/ train/call/'
operations="train/tensor.h train/ops.h train/backend.h train/comm.h $lists"
plans="lib/model/gpu.h lib/model/hopper.h lib/model/recurrence.h"
cuda="lib/base/ $plans $operations train/cuda/"
table="
lib/base
lib/script		lib/base/
lib/data		lib/base/
lib/ckpt		lib/base/ lib/model/
lib/token		lib/base/ lib/token/
lib/token/bpe		lib/base/ lib/token/
lib/token/hf		lib/base/ lib/token/
lib/token/spm		lib/base/ lib/token/
lib/model		lib/base/ lib/model/
lib/model/block		lib/base/ lib/model/
lib/model/family	lib/base/ lib/model/
lib/model/lr		lib/base/ lib/model/
tok			lib/
shard			lib/
plan			lib/
ckpt			lib/
export			lib/
train			lib/ train/op/ train/call/
train/cpu		lib/base/ $operations
train/cuda		$cuda
train/cuda/attention	$cuda
train/cuda/gemm		$cuda
train/mpi		lib/base/ lib/model/hosts.h $operations
train/hosts		lib/base/ lib/model/hosts.h $operations
train/op		lib/base/ train/tensor.h
train/call		lib/base/ train/tensor.h
train/nccl		lib/base/ $operations train/cuda/device.h
"
# The rooms of train/ in their order: each may include lib/ and the rooms before it.
before="lib/ train/op/ train/call/ $(echo train/*.h)"
for room in watch config engine layers optim step state report data run; do
	table="${table}train/$room	$before
"
	before="$before train/$room/"
done
find bin lib tok shard plan ckpt export train \( -name '*.[ch]' -o -name '*.cc' -o -name '*.cu' \
	-o -name '*.cuh' \) 2>/dev/null | sort |
	xargs grep -nE '^[ 	]*#[ 	]*include' | TABLE=$table awk '
BEGIN {
	rows = split(ENVIRON["TABLE"], row, "\n")
	for (i = 1; i <= rows; i++) {
		n = split(row[i], word, /[ \t]+/)
		if (n)
			may[word[1]] = row[i] "\t"
	}
	home["<mpi.h>"] = "train/mpi"
	home["<cblas.h>"] = home["<openblas_config.h>"] = "train/cpu"
	home["<sentencepiece_processor.h>"] = home["<sentencepiece_trainer.h>"] = \
		"lib/token/spm tok"
	home["<simdjson.h>"] = "lib/base tok"
}

# Whether the directory may include the path.
function allowed(dir, path,    n, word, i)
{
	if (dir == "bin" ||
	    index(path, dir "/") == 1 && index(substr(path, length(dir) + 2), "/") == 0)
		return 1
	n = split(may[dir], word, /[ \t]+/)
	for (i = 2; i <= n; i++)
		if (word[i] == path || word[i] ~ /\/$/ && index(path, word[i]) == 1)
			return 1
	return 0
}

{
	split($0, part, ":")
	file = part[1]
	dir = file
	sub(/\/[^\/]*$/, "", dir)
	what = $0
	sub(/^[^"<]*/, "", what)
	path = substr(what, 2)
	sub(/[">].*/, "", path)
	where = file ":" part[2] ": "
	target = path
	sub(/\/[^\/]*$/, "", target)
}

substr(what, 1, 1) == "<" {
	name = "<" path ">"
	own = home[name]
	if (own && index(" " own " ", " " dir " ") == 0)
		print where name " belongs to " own
	if (path ~ /^(cuda|cublas|cudnn|nccl)/ && dir !~ /^train\/(cuda|nccl)/)
		print where name " belongs to train/cuda and train/nccl"
	next
}

!(dir in may) && dir != "bin" { print where "directory " dir " is not in the include table"; next }
!allowed(dir, path) { print where dir " may not include " path }
path ~ /[\/_]impl\.h$/ && index(dir "/", target "/") != 1 {
	print where path " is private to " target
}
path == "lib/base/prog.h" && dir !~ /^(bin|train)/ && file !~ /^lib\/base\/(cli|prog)\.c$/ {
	print where "only bin/, train/ and cli.c may print or exit"
}
' | {
	found=$(cat)
	[ -z "$found" ] || { echo "$found"; exit 1; }
}
