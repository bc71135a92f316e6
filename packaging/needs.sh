#!/bin/sh
# needs.sh DIR GLIBC GLIBCXX [PATH...] - whether the ELF files under DIR run on a host with no more
# than glibc GLIBC and the libstdc++ of GLIBCXX
#
# Prints a line for each thing that such a host does not have: a symbol of a newer version, a
# library that is neither in DIR nor the host's, an RPATH, which would win over modules, a RUNPATH
# that leaves DIR, and a PATH of the build machine anywhere in a file. The last line counts the
# files and names the newest versions; status 1 when there was another.
set -eu
[ $# -ge 3 ] || { sed -n '2,3s/^# //p' "$0" >&2; exit 2; }
dir=$1 glibc=$2 glibcxx=$3
shift 3
# What every host has, and what comes with Open MPI where the bundle has none.
host=' libc.so.6 libm.so.6 libdl.so.2 libpthread.so.0 librt.so.1 libutil.so.1 libresolv.so.2 '
host="$host ld-linux-x86-64.so.2 ld-linux-aarch64.so.1 libstdc++.so.6 libgcc_s.so.1 "
[ -d "$dir/mpi" ] || host="$host libmpi.so.40 "
# What one file takes, which programs do without.
gpu=' libcudart libcublasLt libnccl '
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# elf: the ELF files
elf()
{
	find "$dir" -type f | LC_ALL=C sort | while read -r file; do
		[ "$(head -c 4 "$file" | tail -c 3)" != ELF ] || echo "$file"
	done
}

# versions FILE: VERSION SYMBOL of what the file takes from others
versions()
{
	objdump -T "$1" | awk '/\*UND\*/ {
		version = $(NF - 1)
		gsub(/[()]/, "", version)
		print version, $NF
	}'
}

# newer FILE: the versions above the limits, each with one of its symbols
newer()
{
	versions "$1" | awk -v file="${1#"$dir"/}" -v glibc="$glibc" -v glibcxx="$glibcxx" '
		# Whether version a is above b.
		function above(a, b,    m, n, x, y, i)
		{
			m = split(a, x, ".")
			n = split(b, y, ".")
			for (i = 1; i <= m || i <= n; i++)
				if (x[i] + 0 != y[i] + 0)
					return x[i] + 0 > y[i] + 0
			return 0
		}
		{
			split($1, part, "_")
			limit = part[1] == "GLIBC" ? glibc : part[1] == "GLIBCXX" ? glibcxx : ""
			if (limit != "" && above(part[2], limit) && !said[$1]++)
				print file ": needs " $1 " (" $2 "), above " limit
		}'
}

# places FILE: libraries that are not found, and paths of search of others
places()
{
	objdump -p "$1" | while read -r key value; do
		case $key in
		NEEDED)
			case $host in *" $value "*) continue ;; esac
			case $1,$gpu in
			*/lib/mikoshi-cuda.so,*" ${value%.so*} "*) continue ;;
			esac
			[ -n "$(find "$dir/lib" "$dir/mpi/lib" -name "$value" 2>/dev/null)" ] ||
				echo "${1#"$dir"/}: needs $value, which is not in the bundle"
			;;
		RPATH) echo "${1#"$dir"/}: has RPATH $value, not RUNPATH" ;;
		RUNPATH)
			echo "$value" | tr : '\n' | grep -v '^[$]ORIGIN' |
				sed "s|.*|${1#"$dir"/}: has RUNPATH &, outside the bundle|" ;;
		esac
	done
}

elf >"$tmp/files"
[ -s "$tmp/files" ] || { echo "needs.sh: $dir: no ELF file" >&2; exit 1; }
while read -r file; do
	newer "$file"
	places "$file"
	for path; do
		! grep -qaF "$path" "$file" || echo "${file#"$dir"/}: holds the path $path"
	done
done <"$tmp/files" >"$tmp/found"
cat "$tmp/found"
while read -r file; do versions "$file"; done <"$tmp/files" | cut -d ' ' -f 1 | sort -uV |
	awk -F _ -v files="$(wc -l <"$tmp/files")" '
		$1 == "GLIBC" { glibc = $2 }
		$1 == "GLIBCXX" { glibcxx = $2 }
		END { print files " files need at most GLIBC_" glibc " and GLIBCXX_" glibcxx }'
[ ! -s "$tmp/found" ]
