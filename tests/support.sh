#!/bin/sh
# support.sh [--check] - prints docs/SUPPORT.md: what is tested where, from the tests' own lists of
# options; with --check it compares the file instead
#
# A cell names the first test of its column whose text has the row's option. Without one it says
# "built" where the code is the same as in a column that has a test, or "no" where it cannot run.
set -u
cd "$(dirname "$0")/.." || exit 1

# cell PATTERN OTHERWISE TEST...: the first test with the pattern
cell()
{
	pattern=$1 otherwise=$2
	shift 2
	for file; do
		if grep -qE -e "$pattern" "tests/$file"; then
			printf ' | tested: %s' "\`$file\`"
			return
		fi
	done
	printf ' | %s' "$otherwise"
}

# row NAME PATTERN ALONE: the cells of CPU, one GPU, several GPUs, several hosts; ALONE is what one
# GPU says without a test
row()
{
	printf '| %s' "$1"
	# shellcheck disable=SC2046 # a list of words
	cell "$2" built parity/rows parity/common $(cd tests && echo parity/*.sh)
	if [ "$3" = no ]; then
		printf ' | no'
	else
		cell "$2" "$3" gpu/parity.sh
	fi
	cell "$2" built gpu/layouts.sh gpu/crowded.sh gpu/parity.sh
	cell "$2" built parity/hosts.sh parity/rows
	echo ' |'
}

page()
{
	cat <<-'END'
		# What is tested where

		Made by `sh tests/support.sh` from the options that the tests use. *Tested* names a
		test; *built* means that the same code runs, but no test of ours holds it there;
		*no* that one GPU cannot do it alone. `parity/rows` is a list that `layouts.sh` and
		`pretended.sh` go through. Tests of several hosts run on CPUs: over namespaces of
		one machine, and over hosts that are pretended. What was measured, and on which
		cards, is in [SPEED.md](SPEED.md).

		| | CPU | one GPU | several GPUs | several hosts |
		|---|---|---|---|---|
	END
	row 'tensor ranks' '--tensor-model-parallel-size' no
	row 'sequence parallelism' '--sequence-parallel' no
	row 'context ranks' '--context-parallel-size' no
	row 'pipeline stages' '--pipeline-model-parallel-size' no
	row 'expert ranks' '--expert-model-parallel-size' no
	row 'ZeRO-1' '--use-distributed-optimizer|[ =]optim[ "]' no
	row 'ZeRO-2' '[ =]optim_grads[ "]' no
	row 'ZeRO-3' '[ =]optim_grads_params' no
	row 'FP8' '--fp8-format' built
	row 'optimizer on the host' '--optimizer-cpu-offload' built
	row 'activations on the host' '--cpu-offloading-num-layers' built
	row 'Muon' '--optimizer muon' built
	row 'linear attention' '--linear-attention-freq' built
}

if [ "${1:-}" = --check ]; then
	page | diff docs/SUPPORT.md - || {
		echo 'docs/SUPPORT.md: not what tests/support.sh prints'
		exit 1
	}
else
	page
fi
