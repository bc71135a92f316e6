#!/bin/sh
# bundle.sh - a bundle with its own MPI trains and exports in a root with glibc, libstdc++, libgcc_s
# and sh alone, with the losses and the model that the build's tools give here
#
# With a build for GPUs, mtrain there also says which of CUDA's libraries is absent, in one line.
# The root is entered by chroot in a name space of the user's, with /proc, by which glibc finds the
# place of a program. Where SPDX names spdx-tools' pyspdxtools, it reads the list of parts.
set -eu
cd "${TOP:-.}"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
root=$tmp/root
make -s bundle BUNDLE_MPI=own B="$B" >"$tmp/made" || { cat "$tmp/made"; exit 1; }
cat "$tmp/made"
bundle=$(sed -n 's/: .* MB, .*//p' "$tmp/made")

# give FILE: puts a file of this host, with its path, into the root
give()
{
	mkdir -p "$root$(dirname "$1")"
	cp -L "$1" "$root$1"
}

# furnish: a root with what every host has
furnish()
{
	for name in libc libm libdl libpthread librt libutil libresolv libstdc++ libgcc_s; do
		give "$(ldconfig -p | awk -v name="$name.so." \
			'index($1, name) == 1 && /x86-64|AArch64/ { print $NF; exit }')"
	done
	give "$(ldd /bin/sh | awk '/ld-linux/ { print $1 }')"
	mkdir -p "$root/bin" "$root/tmp" "$root/dev" "$root/etc" "$root/run" "$root/proc"
	cp -L /bin/dash "$root/bin/sh"
	ln "$root/bin/sh" "$root/bin/dash"
	: >"$root/dev/null"
	chmod 666 "$root/dev/null"
	cp -R "$bundle" "$root/mikoshi"
}

# inside COMMAND...: runs it in the root, with the bundle's tools in PATH
inside()
{
	# shellcheck disable=SC2016 # expanded by the shells that are started
	ROOT=$root unshare -rm sh -c 'mount --rbind /proc "$ROOT/proc" && exec chroot "$ROOT" \
		/bin/sh -c "cd /run && PATH=/mikoshi/bin && export PATH && exec \"\$@\"" sh "$@"' \
		sh "$@"
}

# prepare DIR: the text, the options and the commands
prepare()
{
	mkdir -p "$1"
	cp examples/corpus/en.txt tests/packaging/train.conf tests/packaging/pipeline "$1"
}

# without_gpu: the bundle of a build for GPUs on this host, which has no library of CUDA
without_gpu()
{
	absent='lib[A-Za-z]*[.]so[.][0-9]*: cannot open shared object file: No such file.*'
	grep -qx "check: mtrain: without GPUs: $absent" "$tmp/check"
	rc=0
	inside mtrain --config train.conf --tensor-model-parallel-size 1 --save gpu \
		--backend cuda >"$tmp/refused" 2>&1 || rc=$?
	cat "$tmp/refused"
	[ "$rc" = 2 ] && [ "$(wc -l <"$tmp/refused")" = 1 ]
	grep -qx "mtrain: backend 'cuda' cannot be used: $absent" "$tmp/refused"
}

# losses FILE: loss and norm of each step
losses()
{
	awk -F '|' '/iteration .*lm loss/ { print $1, $7, $9 }' "$1" | sed 's/.*iteration//'
}

furnish
prepare "$root/run"
prepare "$tmp/here"
find "$root" -path "$root/mikoshi" -prune -o -path "$root/run" -prune -o -type f -print |
	sed "s|^$root||" | sort | tr '\n' ' '
echo
inside /bin/sh /mikoshi/bin/check >"$tmp/check" 2>&1
cat "$tmp/check"
[ -e "$bundle/lib/mikoshi-cuda.so" ] || [ ! -s "$tmp/check" ]
inside /bin/sh pipeline >"$tmp/bare.log" 2>&1 || { tail -n 20 "$tmp/bare.log"; exit 1; }
(cd "$tmp/here" && sh pipeline) >"$tmp/here.log" 2>&1 || { tail -n 20 "$tmp/here.log"; exit 1; }
losses "$tmp/bare.log" >"$tmp/bare"
losses "$tmp/here.log" >"$tmp/here.losses"
[ "$(wc -l <"$tmp/bare")" = 20 ]
diff "$tmp/here.losses" "$tmp/bare"
cmp "$tmp/here/hf/model.safetensors" "$root/run/hf/model.safetensors"
tail -n 1 "$tmp/bare"
[ ! -e "$bundle/lib/mikoshi-cuda.so" ] || without_gpu
[ -z "${SPDX:-}" ] || "$SPDX" -i "$bundle/share/doc/mikoshi/sbom.spdx.json"
