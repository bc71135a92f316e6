#!/bin/sh
# fuzz.sh - run every fuzz target under libFuzzer for SECONDS (default 60) each; findings stay in build-fuzz/
set -eu
: "${SECONDS_EACH:=60}"
mkdir -p build-fuzz
make -s SAN=fuzzer-no-link,address,undefined CC=clang CXX=clang++ CUDA=0 tests
b='build-fuzzer-no-link-address-undefined'
for src in tests/fuzz/*.c; do
	name=$(basename "$src" .c)
	[ "$name" = driver ] && continue
	clang++ -fsanitize=fuzzer,address,undefined -o "build-fuzz/$name" "$b/tests/fuzz/$name.c.o" "$b"/tests/*.o \
		"$b"/tok/*.o "$b"/shard/*.o "$b"/export/*.o "$b/libmikoshi.a" -lsentencepiece_train -lsentencepiece -lsimdjson \
		-lpcre2-8 -lutf8proc -lz -lzstd -lpthread -lm
	mkdir -p "build-fuzz/$name.corpus"
	(cd build-fuzz &&
		"./$name" -max_total_time="$SECONDS_EACH" -rss_limit_mb=2048 "$name.corpus" "../tests/fuzz/corpus/$name")
done
