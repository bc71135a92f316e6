#!/usr/bin/env bats
# install.bats - installing, building twice, the source archive, and install.sh

bats_require_minimum_version 1.5.0

# again TARGET...: make with the variables of the build that is tested, and nothing of the make that
# runs the tests
again()
{
	local vars=${MAKEFLAGS:-}
	case $vars in *'-- '*) vars=${vars##*-- } ;; *) vars="CUDA=$(sed 's/.*cuda=1.*/1/; t; s/.*/0/' "$B/flags")" ;; esac
	# shellcheck disable=SC2086 # NAME=VALUE words
	env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS make -C "$TOP" --no-print-directory "$@" $vars
}

@test "make install puts the tools and their pages under DESTDIR and PREFIX, which may hold blanks" {
	run -0 again -o all install DESTDIR="$BATS_TEST_TMPDIR/a root" PREFIX='/usr local'
	cd "$BATS_TEST_TMPDIR/a root/usr local"
	for main in "$TOP"/bin/*.c; do
		tool=$(basename "$main" .c)
		[ -x "bin/$tool" ]
		[ -s "share/man/man1/$tool.1" ]
		"bin/$tool" --completion bash | cmp - "share/bash-completion/completions/$tool"
		"bin/$tool" --completion zsh | cmp - "share/zsh/site-functions/_$tool"
	done
	[ -s share/man/man7/mikoshi.7 ]
	[ -s share/mikoshi/recipes/gpt2-124m/model.conf ]
	[ -s share/man/man7/mikoshi-tutorial.7 ]
	[ -s share/man/ja/man7/mikoshi-tutorial.7 ]
	[ -s share/man/man5/mckpt.5 ]
	[ "$(find bin -type f | wc -l)" = "$(ls "$TOP"/bin/*.c | wc -l)" ]
}

@test "a checkout whose path holds blanks builds, and no object knows the path" {
	mkdir "$BATS_TEST_TMPDIR/a checkout"
	cd "$BATS_TEST_TMPDIR/a checkout"
	cp -R "$TOP"/Makefile "$TOP"/VERSION "$TOP"/lib "$TOP"/bin .
	env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS make -s CUDA=0 build/lib/base/err.c.o build/lib/base/json.cc.o
	! grep -q 'a checkout' build/lib/base/err.c.o build/lib/base/json.cc.o || false
}

@test "mpicc is asked as often as its answers are needed, not for each object" {
	mkdir "$BATS_TEST_TMPDIR/bin"
	printf '#!/bin/sh\necho x >>"%s/asked"\n' "$BATS_TEST_TMPDIR" >"$BATS_TEST_TMPDIR/bin/mpicc"
	chmod +x "$BATS_TEST_TMPDIR/bin/mpicc"
	PATH="$BATS_TEST_TMPDIR/bin:$PATH" run -0 again -n -B all
	[ "$(wc -l <"$BATS_TEST_TMPDIR/asked")" -le 4 ]
}

@test "building again does nothing and says nothing" {
	run -0 again -j2 all
	run -0 again -j2 all
	[ -z "$output" ] || { echo "$output"; false; }
}

@test "the source archive is the same bytes each time" {
	[ -e "$TOP/.git" ] || skip 'not a checkout'
	git clone -q "$TOP" "$BATS_TEST_TMPDIR/clone"
	cd "$BATS_TEST_TMPDIR/clone"
	for n in 1 2; do
		env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS make -s dist CUDA=0
		mv mikoshi-*.tar.gz "../$n"
	done
	cmp ../1 ../2
	tar -tzf ../1 >../names
	grep -q '^mikoshi-[0-9.]*/README.md$' ../names
}

@test "install.sh explains itself, refuses what it does not know, and is silent when nothing is missing" {
	run -0 sh "$TOP/install.sh" --help
	[[ "${lines[0]}" == 'install.sh [--test|--package]'* ]]
	run -2 sh "$TOP/install.sh" --everything
	# As if every package were there, apt must not be called.
	mkdir "$BATS_TEST_TMPDIR/bin"
	printf '#!/bin/sh\nprintf installed\n' >"$BATS_TEST_TMPDIR/bin/dpkg-query"
	printf '#!/bin/sh\necho called\nexit 1\n' >"$BATS_TEST_TMPDIR/bin/apt-get"
	chmod +x "$BATS_TEST_TMPDIR/bin/"*
	PATH="$BATS_TEST_TMPDIR/bin:$PATH" run -0 sh "$TOP/install.sh" --test
	[ -z "$output" ]
	# Missing packages and an apt that fails: its last words, and one line of ours.
	printf '#!/bin/sh\nexit 1\n' >"$BATS_TEST_TMPDIR/bin/dpkg-query"
	PATH="$BATS_TEST_TMPDIR/bin:$PATH" run -1 sh "$TOP/install.sh"
	[[ "${lines[-1]}" == 'install.sh: '* ]]
}
