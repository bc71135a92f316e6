#!/usr/bin/env bats
# packaging.bats - what a bundle says on a host that lacks something, and what is refused as a bundle

bats_require_minimum_version 1.5.0
load common

setup()
{
	cd "$BATS_TEST_TMPDIR"
	mkdir -p bundle/bin
	cp "$TOP/packaging/check.sh" bundle/bin/check
	for tool in mtok mshard mplan mckpt mexport mtrain; do
		fake $tool 'exit 0'
	done
}

# fake TOOL COMMANDS: a tool of the bundle that does nothing else
fake()
{
	printf '#!/bin/sh\n%s\n' "$2" >"bundle/bin/$1"
	chmod +x "bundle/bin/$1"
}

@test "check is silent where every tool runs, and needs nothing but sh" {
	mkdir empty
	run -0 env PATH="$PWD/empty" /bin/sh bundle/bin/check
	[ -z "$output" ]
	[ "$(wc -l <bundle/bin/check)" -le 14 ]
}

@test "check names each version that an older glibc or libstdc++ lacks, in one line" {
	fake mplan "echo \"mplan: /lib/libc.so.6: version \\\`GLIBC_2.32' not found (required by mplan)
mplan: /lib/libc.so.6: version \\\`GLIBC_2.34' not found (required by mplan)\" >&2; exit 1"
	refused 2 'check: mplan: this host lacks GLIBC_2.32 GLIBC_2.34' sh bundle/bin/check
	fake mtok "echo \"mtok: /lib/libstdc++.so.6: version \\\`GLIBCXX_3.4.29' not found (required \
by mtok)\" >&2; exit 1"
	refused 2 'check: mtok: this host lacks GLIBCXX_3.4.29' sh bundle/bin/check
}

@test "check names a library that is missing, a processor that is too old, and a tool that is not there" {
	fake mtrain 'echo "mtrain: error while loading shared libraries: libmpi.so.40: cannot open \
shared object file: No such file or directory" >&2; exit 127'
	refused 2 "check: mtrain: libmpi.so.40: cannot open shared object file: No such file or \
directory; load a module with Open MPI 4" sh bundle/bin/check
	fake mckpt 'kill -ILL $$'
	refused 2 'check: mckpt: this host lacks AVX2 of its processor (x86-64-v3)' sh bundle/bin/check
	rm bundle/bin/mtok
	run -2 --separate-stderr sh bundle/bin/check
	[[ $stderr == 'check: mtok: '*'not found' ]]
}

@test "check names the library without which there are no GPUs, and does not fail" {
	fake mtrain 'echo "mtrain (mikoshi) 0.1.0, commit 0; backends: cuda (not on this host: \
libnccl.so.2: cannot open shared object file: No such file or directory) cpu"'
	refused 0 "check: mtrain: without GPUs: libnccl.so.2: cannot open shared object file: No such \
file or directory" sh bundle/bin/check
	fake mtrain 'echo "mtrain (mikoshi) 0.1.0, commit 0; backends: cuda (no cuDNN, NCCL 2.27.3) cpu"'
	run -0 sh bundle/bin/check
	[ -z "$output" ]
}

@test "a real loader's words about a version are understood" {
	echo 'int f(void) { return 0; }' >f.c
	echo 'int f(void); int main(void) { return f(); }' >main.c
	echo 'NEW_2.99 { global: f; };' >new
	gcc -shared -o libf.so -Wl,-soname,libf.so,--version-script=new f.c
	gcc -o bundle/bin/mtok main.c libf.so
	echo 'OLD_1 { global: f; };' >old
	gcc -shared -o libf.so -Wl,-soname,libf.so,--version-script=old f.c
	LD_LIBRARY_PATH=$PWD refused 2 'check: mtok: this host lacks NEW_2.99' sh bundle/bin/check
	rm libf.so
	refused 2 'check: mtok: libf.so: cannot open shared object file: No such file or directory' \
		sh bundle/bin/check
}

@test "needs.sh refuses versions above the limits, an RPATH, a search outside, a library that is not there, a path" {
	rm bundle/bin/*
	cp "$B/mtok" bundle/bin/mtok
	run -1 sh "$TOP/packaging/needs.sh" bundle 2.2.5 3.4.28
	[[ $output == *'bin/mtok: needs GLIBC_2.34 ('*'), above 2.2.5'* ]]
	[[ $output == *'bin/mtok: needs GLIBCXX_3.4.29 ('*'), above 3.4.28'* ]]
	[[ $output == *'bin/mtok: needs libsimdjson.so.'*', which is not in the bundle'* ]]
	for name in GLIBC GLIBCXX; do
		objdump -T bundle/bin/mtok | sed -n "s/.*(\(${name}_[0-9.]*\)).*/\1/p" | sort -V | tail -n 1
	done >highest
	[ "${lines[-1]}" = "1 files need at most $(paste -s -d' ' highest | sed 's/ / and /')" ]
	echo 'int main(void) { return 0; }' >main.c
	gcc -o bundle/bin/mtok -Wl,--disable-new-dtags,-rpath,/opt/lib main.c
	run -1 sh "$TOP/packaging/needs.sh" bundle 2.34 3.4.29
	[[ $output == 'bin/mtok: has RPATH /opt/lib, not RUNPATH'* ]]
	gcc -o bundle/bin/mtok -Wl,--enable-new-dtags,-rpath,'$ORIGIN/../lib:/opt/lib' main.c
	run -1 sh "$TOP/packaging/needs.sh" bundle 2.34 3.4.29
	[[ $output == 'bin/mtok: has RUNPATH /opt/lib, outside the bundle'* ]]
	gcc -o bundle/bin/mtok -Wl,--enable-new-dtags,-rpath,'$ORIGIN/../lib' main.c
	run -0 sh "$TOP/packaging/needs.sh" bundle 2.34 3.4.29
	mkdir bundle/lib
	echo 'int f(void) { return 0; }' >f.c
	gcc -shared -o libcudart.so.13 -Wl,-soname,libcudart.so.13 f.c
	gcc -shared -Wl,--no-as-needed -o bundle/lib/mikoshi-cuda.so f.c libcudart.so.13
	run -0 sh "$TOP/packaging/needs.sh" bundle 2.34 3.4.29
	mv bundle/lib/mikoshi-cuda.so bundle/lib/other.so
	run -1 sh "$TOP/packaging/needs.sh" bundle 2.34 3.4.29
	[[ $output == 'lib/other.so: needs libcudart.so.13, which is not in the bundle'* ]]
	rm -r bundle/lib
	printf 'const char path[] = "%s";' "$PWD" >>main.c
	gcc -o bundle/bin/mtok main.c
	run -1 sh "$TOP/packaging/needs.sh" bundle 2.34 3.4.29 "$PWD"
	[[ $output == "bin/mtok: holds the path $PWD"* ]]
}

@test "a kind of MPI that a bundle does not have is refused" {
	run -2 env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS make -C "$TOP" bundle BUNDLE_MPI=mpich B="$B"
	[[ $output == *'BUNDLE_MPI is host or own, not mpich'* ]]
}
