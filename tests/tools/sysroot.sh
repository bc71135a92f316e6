#!/bin/sh
# sysroot.sh DIR - the libraries of Debian or Ubuntu for aarch64, unpacked into DIR, for cross
# builds and for qemu-user
#
# The suite is this machine's own, and its apt reads the packages into DIR. None of its own packages
# is installed or changed, nothing of the other machine runs, and root is not needed. A DIR that is
# complete is left as it is.
set -eu
[ $# = 1 ] || { echo 'usage: sysroot.sh DIR' >&2; exit 2; }
command -v apt-get >/dev/null || { echo 'sysroot.sh: no apt-get here' >&2; exit 2; }
packages='libc6-dev libstdc++-12-dev libopenblas-dev libopenmpi-dev openmpi-bin
	libsentencepiece-dev libsimdjson-dev libpcre2-dev libutf8proc-dev libxxhash-dev zlib1g-dev
	libzstd-dev'
mkdir -p "$1"
root=$(cd "$1" && pwd)
[ ! -e "$root/complete" ] || exit 0
state=$root/var/lib/apt
log=$root/log
mkdir -p "$state/lists/partial" "$state/archives/partial"
: >"$state/status"

# apt ARGUMENT...: apt-get for the other machine, as if nothing were installed there
apt()
{
	apt-get -q -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State="$state" \
		-o Dir::State::status="$state/status" -o Dir::Cache="$state" \
		-o APT::Sandbox::User=root -o APT::Install-Recommends=false \
		-o Acquire::Languages=none "$@" >>"$log" 2>&1 || {
		tail -n 20 "$log" >&2
		echo "sysroot.sh: apt-get $1 failed" >&2
		exit 1
	}
}

: >"$log"
apt update
# shellcheck disable=SC2086 # a list of words
apt install -y --download-only $packages
for package in "$state"/archives/*.deb; do
	dpkg-deb -x "$package" "$root"
done
# What the packages' scripts would choose, and links that begin at the other machine's root.
find "$root/usr" -path '*/openblas-pthread/*' \( -name '*.h' -o -name '*.so*' \) |
	while read -r file; do
		ln -sf "openblas-pthread/${file##*/}" "${file%/*/*}"
	done
find "$root/lib" "$root/usr/lib" -type l -lname '/*' | while read -r link; do
	ln -sfn "$root$(readlink "$link")" "$link"
done
rm -rf "$state"
: >"$root/complete"
