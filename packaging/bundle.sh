#!/bin/sh
# bundle.sh DIR [MPI] - makes of DIR, into which the tools were installed, a directory that runs on
# any host with the bundle's glibc, without root, and DIR.tar.gz
#
# Beside the tools go the libraries that they need, found by ldd, into lib/, and MPI, an Open MPI by
# openmpi.sh, into mpi/; without it mtrain takes the host's libmpi.so.40. Left to the host are
# glibc, libstdc++, libgcc_s, and for lib/mikoshi-cuda.so, which mtrain opens where there are GPUs,
# CUDA's libraries and NCCL. Libraries of the host's modules win over those here, since search paths
# are RUNPATH. needs.sh refuses what a host with glibc 2.34 does not have.
# shellcheck source=packaging/common
. "$(dirname "$0")/common"
glibc=2.34 glibcxx=3.4.29
dir=$1 mpi=${2:-}
doc=$dir/share/doc/mikoshi
need patchelf objdump dpkg-query
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# left NAME: whether the host, Open MPI or CUDA has the library
left()
{
	case $1 in
	libc.so.* | libm.so.* | ld-linux* | libstdc++.so.* | libgcc_s.so.* | libmpi.so.*) ;;
	libcudart.so.* | libcublasLt.so.* | libnccl.so.*) ;;
	*) return 1 ;;
	esac
}

# needed FILE: the libraries that it names
needed()
{
	objdump -p "$1" | awk '$1 == "NEEDED" { print $2 }'
}

# take FILE: copies what it needs into lib/, and what that needs
take()
{
	for name in $(needed "$1"); do
		if left "$name" || [ -e "$dir/lib/$name" ]; then
			continue
		fi
		path=$(awk -v name="$name" '$1 == name { print $3; exit }' "$tmp/ldd")
		[ -n "$path" ] || die "$1 needs $name, which is not found"
		install -m 755 "$(realpath "$path")" "$dir/lib/$name"
		part "$name" "$path"
		take "$dir/lib/$name"
	done
}

# part NAME PATH: a line of the list of parts, and the library's copyright
part()
{
	package=$(owner "$2")
	[ -n "$package" ] || die "$2 is of no Debian package, so its licence is not known"
	licence=$(awk -F '\t' -v name="$1" 'index(name, $1) == 1 { print $2; exit }' \
		"$here/licences.tsv")
	[ -n "$licence" ] || die "packaging/licences.tsv has no licence for $1"
	# Packages of one source may share the file.
	copyright=$(realpath "/usr/share/doc/$package/copyright")
	install -m 644 "$copyright" "$doc/copyright/$(basename "$(dirname "$copyright")")"
	printf 'lib/%s\t%s\t%s\t%s\n' "$1" "$package" \
		"$(dpkg-query -W -f '${Version}' "$package")" "$licence" >>"$tmp/parts"
}

# take_mpi: Open MPI, and a launcher that finds it
take_mpi()
{
	cp -R "$mpi" "$dir/mpi"
	install -m 644 "$mpi/LICENSE" "$doc/copyright/openmpi"
	rm "$dir/mpi/LICENSE"
	install -m 755 "$here/mpirun.sh" "$dir/bin/mpirun"
	printf 'mpi/\topenmpi\t%s\tBSD-3-Clause\n' "$(cat "$dir/mpi/VERSION")" >>"$tmp/parts"
	rm "$dir/mpi/VERSION"
}

# elf DIR...: the ELF files in directories
elf()
{
	for file in $(find "$@" -type f | sort); do
		[ "$(head -c 4 "$file" | tail -c 3)" != ELF ] || echo "$file"
	done
}

# finish: no symbols that the loader does not read, and libraries sought beside the files
finish()
{
	for file in $(elf "$dir"); do
		chmod u+w "$file"
		strip --strip-unneeded --remove-section=.comment "$file"
		case $file in
		"$dir"/bin/*) search="\$ORIGIN/../lib${mpi:+:\$ORIGIN/../mpi/lib}" ;;
		*/bin/*) search="\$ORIGIN/../lib" ;;
		"$dir"/mpi/*) search="\$ORIGIN:\$ORIGIN/../../lib" ;;
		*) search="\$ORIGIN" ;;
		esac
		patchelf --set-rpath "$search" "$file"
	done
}

mkdir -p "$dir/lib" "$doc/copyright"
elf "$dir" >"$tmp/ours"
while read -r file; do ldd "$file"; done <"$tmp/ours" >"$tmp/ldd"
: >"$tmp/parts"
while read -r file; do take "$file"; done <"$tmp/ours"
[ -z "$mpi" ] || take_mpi
finish
install -m 755 "$here/check.sh" "$dir/bin/check"
install -m 644 LICENSE README.md CONTRIBUTING.md "$doc"
cp -R docs "$doc/docs"
cp /usr/share/common-licenses/Apache-2.0 /usr/share/common-licenses/GPL-3 \
	/usr/share/common-licenses/LGPL-2.1 "$doc/copyright"
find "$dir/share/man" -type f -exec gzip -9n {} +
reset "$dir"
sh "$here/sbom.sh" "$dir" <"$tmp/parts" >"$tmp/sbom"
install -m 644 "$tmp/sbom" "$doc/sbom.spdx.json"
reset "$dir"
sh "$here/needs.sh" "$dir" "$glibc" "$glibcxx" "$PWD"
tar -C "$(dirname "$dir")" --sort=name --format=gnu --owner=0 --group=0 --numeric-owner \
	--mtime="@$SOURCE_DATE_EPOCH" -cf - "$(basename "$dir")" | gzip -9n >"$dir.tar.gz"
awk -v dir="$(du -sb "$dir" | cut -f 1)" -v tar="$(wc -c <"$dir.tar.gz")" -v name="$dir" 'BEGIN {
	printf "%s: %.1f MB, %s.tar.gz: %.1f MB\n", name, dir / 1e6, name, tar / 1e6 }'
