#!/usr/bin/env bats
# explain.bats - launch scripts of other programs: mtrain --explain

bats_require_minimum_version 1.5.0

setup()
{
	cd "$BATS_TEST_TMPDIR" || exit
	scripts=$TOP/tests/porting/scripts
	load common
}

@test "every script gives its command, table and status" {
	sh "$TOP/tests/porting/explain.sh"
}

@test "the manual has the table of a script" {
	(cd "$scripts" && mtrain --explain manual.sh) | sed -n '/^given/,$p' >table
	[ -s table ]
	awk '/^given / { on = 1 } /^\.Ed/ { on = 0 } on' "$TOP/man/mtrain.1" | cmp - table
}

@test "the option file of a script is accepted" {
	mtrain --explain "$scripts/llama.sh" D=cache S=ckpt T=tb -o c.conf >table &&
		mtrain --dry-run --world-size 8 --config c.conf >plan
	grep -q '^75 options: 64 kept, 10 without effect, 1 not read in this run$' table
	[ "$(wc -l <plan)" = 9 ]
}

@test "a refused option is in the option file, which is refused for it" {
	run mtrain --explain "$scripts/manual.sh" NAME=a -o c.conf
	[ "$status" = 1 ]
	fails 2 'mtrain: --fp4-format: FP4 is not supported' \
		mtrain --dry-run --world-size 8 --config c.conf --vocab-size 100
}

@test "options without a script, as JSON Lines" {
	run mtrain --explain --json -- --num-layers 2 --use-mcore-models
	expect 0 '{"given": "--num-layers 2", "here": "--num-layers 2", "what": "kept", "why": ""}
{"given": "--use-mcore-models", "here": "", "what": "without effect", "why": "there is one model code"}'
}

@test "a word too many, and a value that is missing, are in the table" {
	run mtrain --explain -- --num-layers 2 --bf16 true --use-flash-attn 1 --num-workers
	[ "$status" = 1 ]
	[[ $output == *"--bf16 true  "*"refused: 'true': mtrain takes no operands, after --bf16, which takes no value"* ]]
	[[ $output == *"--use-flash-attn 1  "*"refused: '1': mtrain takes no operands, after --use-flash-attn, which takes no value"* ]]
	[[ $output == *"--num-workers  "*"refused: needs a value"* ]]
	[[ $output == *"4 options: 1 kept, 3 refused"* ]]
}

@test "what is no script" {
	refused 2 'mtrain: --explain: needs a script, or options after --' mtrain --explain
	refused 2 "mtrain: cannot open 'absent.sh': No such file or directory" \
		mtrain --explain absent.sh
	printf 'A=1\n\0' >nul.sh
	refused 2 'mtrain: nul.sh: not a script: it has control characters' mtrain --explain nul.sh
	echo 'bash run.sh 8' >other.sh
	refused 2 "mtrain: other.sh:1: nothing in it starts a training program: no command has a word \
that ends in pretrain_*.py, train*.py, finetune*.py, pretrain_gpt or mtrain; it starts 'run.sh' \
here, which may: give that" mtrain --explain other.sh
	run mtrain --json --train-iters 1
	[ "$status" = 2 ]
	[ "${lines[1]}" = 'mtrain: --json: is for --explain' ]
}

@test "reading a script starts no program" {
	command -v strace >/dev/null || skip "no strace"
	strace -f -e trace=execve,execveat true 2>/dev/null || skip "strace may not trace"
	cd "$scripts"
	for s in *.sh *.yaml; do
		strace -f -o "$BATS_TEST_TMPDIR/calls" -e trace=execve,execveat,fork,vfork \
			mtrain --explain "$s" >/dev/null 2>&1 || true
		[ "$(grep -c exec "$BATS_TEST_TMPDIR/calls")" = 1 ]
		[ "$(grep -c fork "$BATS_TEST_TMPDIR/calls")" = 0 ]
	done
}
