#!/bin/sh
# deb.sh - the Debian package has no errors by lintian, installs in a clean Debian 12 with what it
# depends on, and trains and exports there
#
# As root, with debootstrap and a mirror of Debian; the sources are this machine's.
set -eu
cd "${TOP:-.}"
if [ "$(id -u)" != 0 ] || ! command -v debootstrap >/dev/null; then
	echo 'skipped: needs root and debootstrap'
	exit 0
fi
tmp=$(mktemp -d)
root=$tmp/root
trap 'umount "$root/proc" 2>/dev/null || :; rm -rf "$tmp"' EXIT
package=$(make -s deb B="$B" | tail -n 1)
lintian --fail-on error "$package"
uri=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | awk '
	/^URIs:.*debian\/*$/ { print $2; exit }
	/^deb .*debian\/* / && match($0, /http[^ ]*/) { print substr($0, RSTART, RLENGTH); exit }')
debootstrap --variant=minbase bookworm "$root" ${uri:+"$uri"} \
	>"$tmp/log" 2>&1 || { tail -n 5 "$tmp/log"; exit 1; }
mkdir "$root/run/pipeline"
cp examples/corpus/en.txt tests/packaging/train.conf tests/packaging/pipeline \
	"$root/run/pipeline"
cp "$package" "$root/run/mikoshi.deb"
cp /etc/resolv.conf /etc/hosts "$root/etc/"
mount -t proc proc "$root/proc"
env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
	${http_proxy:+http_proxy="$http_proxy"} chroot "$root" sh -ec '
	apt-get -q -y install /run/mikoshi.deb
	cd /run/pipeline
	sh pipeline
	apt-get -q -y remove mikoshi
	! command -v mtrain' >"$tmp/log" 2>&1 || { tail -n 20 "$tmp/log"; exit 1; }
grep -c 'iteration .* lm loss' "$tmp/log" | grep -x 20
ls -l "$root/run/pipeline/hf/model.safetensors"
