#!/bin/sh
# fuzz.sh - run fuzz targets under libFuzzer, one after the other; findings and what was learnt stay
# in build-fuzz/
#
# TARGETS are names of tests/fuzz, all of them by default; each runs for SECONDS_EACH (60). MERGE=1
# runs nothing, and adds to tests/fuzz/corpus what of build-fuzz/ reaches code that the corpus does
# not. The inputs of the tokenizers, half an hour each:
#	SECONDS_EACH=1800 TARGETS='jsonl tokenizer_json gpt2_vocab rank_file spmodel spm_text' \
#		sh tests/fuzz/fuzz.sh
set -eu
: "${SECONDS_EACH:=60}" "${MERGE:=}" "${CC:=clang}" "${CXX:=clang++}"
: "${TARGETS:=$(find tests/fuzz -name '*.c' ! -name driver.c | sed 's|.*/||; s|\.c$||' | sort)}"
b=build-fuzzer-no-link-address-undefined

# objects DIR...: those of the sources
objects()
{
	for src in $(for dir; do echo "$dir"/*.c; done); do
		echo "$b/$src.o"
	done
}

# longest NAME: bytes of an input. A reader whose work is in the text needs few; a model with all
# bytes needs more.
longest()
{
	case $1 in
	jsonl | spm_text | sentence | pretok | options | json | argv) echo 1024 ;;
	torch_dir | meta) echo 32768 ;;
	*) echo 8192 ;;
	esac
}

oracles=$(for src in tests/*.cc; do echo "$b/$src.o"; done)
tables="$b/train/config/options.c.o $b/train/config/foreign.c.o $b/train/watch/stop_names.c.o"
lib="$(objects tok shard plan export ckpt) $tables $oracles $b/libmikoshi.a"
mkdir -p build-fuzz
for name in $TARGETS; do
	# shellcheck disable=SC2086 # lists of words
	make -s SAN=fuzzer-no-link,address,undefined CC="$CC" CXX="$CXX" CUDA=0 \
		"$b/tests/fuzz/$name.c.o" $lib
	# shellcheck disable=SC2086
	$CXX -fsanitize=fuzzer,address,undefined -o "build-fuzz/$name" "$b/tests/fuzz/$name.c.o" \
		$lib -lsentencepiece_train -lsentencepiece -lsimdjson -lpcre2-8 -lutf8proc -lz \
		-lzstd -lpthread -lm
	mkdir -p "build-fuzz/$name.corpus"
	(
		cd build-fuzz
		set -- "-max_len=$(longest "$name")" -rss_limit_mb=2048 -malloc_limit_mb=1024 \
			-timeout=10
		[ ! -f "../tests/fuzz/dict/$name.dict" ] ||
			set -- "$@" "-dict=../tests/fuzz/dict/$name.dict"
		if [ "$MERGE" ]; then
			"./$name" "$@" -set_cover_merge=1 -use_counters=0 \
				"../tests/fuzz/corpus/$name" "$name.corpus"
		else
			"./$name" "$@" -max_total_time="$SECONDS_EACH" "$name.corpus" \
				"../tests/fuzz/corpus/$name"
		fi
	)
done
