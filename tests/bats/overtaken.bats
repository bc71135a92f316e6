# overtaken.bats - a program that was stopped and has lost its lock changes nothing of its successor
#
# It is stopped before one of the calls that may take long, tests/faults/shim.c, and its batch job is
# restarted on another host, where the same or another command finishes. Then it wakes up.

bats_require_minimum_version 1.5.0
load common

setup()
{
	cd "$BATS_TEST_TMPDIR" || exit
	mkdir C
}

# files: the files below C that have names of their own, and their sums
files()
{
	find C -name '.?*' -prune -o -type f ! -name '*lock' ! -name '*.part' -exec md5sum {} + | sort -k 2
}

# lose PID: its locks are those of another host
lose()
{
	local lock
	find C -name '*lock' | while read -r lock; do
		grep -qx "process $1" "$lock" || continue
		sed '1s/.*/host elsewhere/; 2s/.*/boot other/' "$lock" >moved && mv moved "$lock"
	done
}

# stopped ATTEMPT CALL N COMMAND...: the job's process $pid is stopped before its Nth such call, or
# after it, if $when says signal-after; false when it makes fewer
stopped()
{
	local attempt=$1 fault="$2 $3 ${when:-signal} 19" state=
	shift 3
	FAULT_ROOT=$PWD FAULT=$fault LD_PRELOAD=$B/tests/faults/shim.so SLURM_JOB_ID=7 \
		SLURM_RESTART_COUNT=$attempt "$@" >"out$attempt" 2>&1 3>&- &
	pid=$!
	until sleep 0.01 && [ "$state" = T ]; do
		state=$(sed 's/.*) \(.\).*/\1/' /proc/$pid/stat 2>/dev/null) || state=
		case $state in Z | '') wait $pid || true; return 1 ;; esac
	done
}

# overtaken CALL N: `first` is stopped there, `second` takes over and finishes, `first` wakes up
overtaken()
{
	rm -rf C && mkdir C && prepare
	stopped 0 "$1" "$2" "${first[@]}" || return 1
	lose $pid
	SLURM_JOB_ID=7 SLURM_RESTART_COUNT=1 "${second[@]}" >out1 2>&1 && finished=yes || finished=no
	files >before
	kill -CONT $pid
	wait $pid || true
	files >after
}

# harmless CALL FROM: wherever it is stopped from the call of that number on, what a successor has
# finished stays, and nothing under a temporary name; one that does not finish says so
harmless()
{
	local n=$2 done=0
	locks_are_seen
	while overtaken "$1" $n; do
		if [ $finished = yes ] && { ! cmp before after || find C -name '.*.tmp' | grep .; }; then
			echo "stopped before $1 $n:"
			diff before after || cat out0 out1
			return 1
		fi
		[ $finished = no ] || done=$((done + 1))
		n=$((n + 1))
	done
	[ $done -gt 2 ]
}

@test "mexport: an export into an empty directory, and in place of another" {
	mckpt import "$TOP/tests/golden/ckpt/llama" ck
	prepare() { mkdir C/out; }
	first=(mexport -q ck C/out) second=(mexport -q --dtype fp32 ck C/out)
	harmless fsync 2
	prepare() { mexport -q ck C/out; }
	first=(mexport -q --force ck C/out) second=(mexport -q --force --dtype fp32 ck C/out)
	harmless fsync 2
}

# datasets: a.jsonl and b.jsonl make the datasets a and b with a mask
datasets()
{
	local name
	null="--tokenizer-type NullTokenizer --vocab-size 1000 --workers 1"
	for name in a b; do
		for i in $(seq 100); do
			echo "{\"text\": \"$((i * 7 % 900)) $(printf %d "'$name") $i\"}"
		done >$name.jsonl
		mtok -q -o $name $null $name.jsonl
		mshard cat -o $name ${name}_text_document
	done
	echo 0 >first.txt
	echo 1 >second.txt
	mshard mask --documents first.txt a >table
	mshard mask --documents second.txt b >table
}

@test "mshard cat: a dataset with a mask in place of another" {
	datasets
	prepare() { mshard cat -o C/d a; }
	first=(mshard cat --force -o C/d a) second=(mshard cat --force -o C/d b)
	harmless fsync 2
	prepare() { :; }
	first=(mshard cat -o C/d a) second=(mshard cat -o C/d b)
	harmless fsync 2
}

@test "mtok: datasets and the list of bad lines, in place of others; what --resume continues" {
	datasets
	echo '{' | tee -a a.jsonl >>b.jsonl
	prepare() { mtok -q -o C/d $null --on-error skip a.jsonl 2>said; }
	first=(mtok -o C/d $null --on-error skip --force a.jsonl)
	second=(mtok -o C/d $null --on-error skip --force b.jsonl)
	harmless fsync 2
	first+=(--resume)
	harmless fsync 2
	prepare() { :; }
	first=(mtok -o C/d $null --resume --resume-interval 0.0001 --on-error skip a.jsonl)
	second=("${first[@]}")
	harmless fsync 2
}

@test "mtok --resume: a run that was stopped while it copied its parts takes no newer ones away" {
	datasets
	locks_are_seen
	for _ in $(seq 200); do cat a.jsonl; done >many.jsonl
	set -- mtok -o C/d $null --resume --resume-interval 0.0000001 many.jsonl
	for n in 3 4 5; do
		rm -rf C && mkdir C
		stopped 0 fsync 12 "$@"
		lose $pid
		former=$pid
		stopped 1 fsync $n "$@"
		lose $pid
		woken=$pid
		stopped 2 fsync 30 "$@"
		kill -KILL $pid $former
		kill -CONT $woken
		wait $woken || true
		SLURM_JOB_ID=7 SLURM_RESTART_COUNT=3 "$@"
	done
}

# continued: the program $1, which was stopped, wakes up beside $2, which is killed then; what the
# second has begun can be finished
continued()
{
	kill -CONT "$1"
	wait "$1" || true
	kill -KILL "$2"
	wait "$2" || true
	[ -e C/d.resume ]
	SLURM_JOB_ID=7 SLURM_RESTART_COUNT=3 mtok -q -o C/d $null --resume many.jsonl
}

@test "mtok --resume: one that fails, or has ended, removes no parts and no state of its successor" {
	datasets
	locks_are_seen
	for _ in $(seq 200); do cat a.jsonl; done >many.jsonl
	{ cat b.jsonl; echo '{'; } >bad.jsonl
	set -- mtok -o C/d $null --resume --resume-interval 0.0001
	n=1
	while rm -rf C && mkdir C && when=signal-after stopped 0 unlink $n "$@" bad.jsonl; do
		lose $pid
		woken=$pid
		stopped 1 fsync 30 "$@" many.jsonl
		continued $woken $pid
		n=$((n + 1))
	done
	[ $n -gt 8 ]
	n=1
	while rm -rf C && mkdir C && when=signal-after stopped 0 unlink $n "$@" a.jsonl; do
		lose $pid
		woken=$pid
		SLURM_JOB_ID=7 SLURM_RESTART_COUNT=1 "$@" a.jsonl || [ -e C/d_text_document.idx ]
		stopped 2 fsync 60 "$@" --force many.jsonl
		continued $woken $pid
		n=$((n + 1))
	done
	[ $n -gt 8 ]
}

@test "mshard mask: another mask, and another dataset" {
	datasets
	prepare() { mshard cat -o C/d a; }
	first=(mshard mask --force --documents first.txt C/d)
	second=(mshard mask --force --documents second.txt C/d)
	harmless fsync 2
	second=(mshard cat --force -o C/d b)
	harmless fsync 2
}

@test "mshard repair: tokens that replace those that are cut" {
	datasets
	prepare() {
		mshard cat -o C/d a
		echo more >>C/d.bin
	}
	first=(mshard repair --in-place C/d) second=(mshard cat --force -o C/d a b)
	rm a_mask.* b_mask.*
	for name in a b; do cp "${name}_text_document.json" $name.json; done
	harmless fsync 2
}

@test "mshard split: pieces that both write" {
	datasets
	prepare() { :; }
	first=(mshard split --force -o C/p --proportion 1,1,1 a)
	second=(mshard split --force -o C/p --proportion 2,1,1 b)
	harmless fsync 2
	prepare() { mkdir C/p_00002.lock; }
	second=(sh -c 'rmdir C/p_00002.lock && mshard split --force -o C/p --proportion 2,1,1 b')
	when=signal-after harmless unlink 28
}

@test "mckpt and mtrain: checkpoints, the tracker, what is retained, and what replaces a checkpoint" {
	cp "$TOP/tests/tiny.conf" .
	tiny="--config tiny.conf --mock-data --save-interval 2"
	mtrain -q $tiny --save ck --train-iters 4 >log
	prepare() { :; }
	first=(mckpt reshard ck/iter_0000002 C/S) second=(mckpt reshard --force ck C/S)
	harmless fsync 3
	first=(mtrain -q $tiny --save C/S --load C/S --train-iters 4 --save-retain-interval 4)
	second=(mtrain -q $tiny --save C/S --load C/S --train-iters 8 --seed 2)
	harmless fsync 14
	first=(mtrain -q $tiny --save C/S --train-iters 4 --metrics-file C/m.jsonl)
	second=("${first[@]}" --seed 2)
	harmless mkdir 4
}

@test "mckpt export: files that both write, and those of the checkpoint that both replace" {
	mckpt import "$TOP/tests/golden/ckpt/llama" ck
	export="mckpt export --to torch --tensor-model-parallel-size 4 --force"
	$export --dtype fp32 ck want
	for n in 1 2; do
		rm -rf C/S
		$export ck C/S
		stopped 0 unlink $n $export ck C/S
		lose $pid
		woken=$pid
		stopped 1 fsync 10 $export --dtype fp32 ck C/S
		kill -CONT $woken
		wait $woken || true
		kill -CONT $pid
		wait $pid
		diff -r want C/S
		[ "$(ls -A C/S)" = "$(ls -A want)" ]
	done
}

@test "mtrain: the file that a rank was about to write when it was stopped" {
	cp "$TOP/tests/tiny.conf" .
	first=(mtrain -q --config tiny.conf --mock-data --save C/S --save-interval 2 --train-iters 2)
	second=("${first[@]}" --seed 2)
	for n in 17 18 19; do
		rm -rf C/S
		stopped 0 change $n "${first[@]}"
		lose $pid
		woken=$pid
		stopped 1 fsync 12 "${second[@]}"
		kill -CONT $woken
		wait $woken || true
		kill -CONT $pid
		wait $pid
		mckpt verify C/S
	done
}
