#!/bin/sh
# install.sh [--test|--package] - install the Debian or Ubuntu packages needed to build, with --test
# those needed to test, and with --package those needed by `make bundle deb test-packaging`
#
# For Debian 12, Ubuntu 24.04 and later, as root or through sudo. Installed packages are left alone;
# when nothing is missing, apt is not called. CUDA, cuDNN and NCCL are optional and not installed
# here: the build uses them if it finds them.
set -eu

build='gcc g++ make git ca-certificates libopenblas-dev libopenmpi-dev openmpi-bin
	libsentencepiece-dev libsimdjson-dev libpcre2-dev libutf8proc-dev libxxhash-dev
	zlib1g-dev libzstd-dev'
tests='bats shellcheck mandoc procps zstd xz-utils'
packaging='patchelf binutils dpkg-dev xz-utils debootstrap lintian'

case ${1:-} in
'') wanted=$build ;;
--test) wanted="$build $tests" ;;
--package) wanted="$build $packaging" ;;
*)
	sed -n '2,7s/^# \{0,1\}//p' "$0"
	case $1 in -h | --help) exit 0 ;; *) exit 2 ;; esac
	;;
esac

if ! command -v apt-get >/dev/null; then
	echo "install.sh: no apt-get here; install what corresponds to: $wanted" >&2
	exit 1
fi

missing=
for package in $wanted; do
	[ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] ||
		missing="$missing $package"
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ]; then
	as_root=
elif command -v sudo >/dev/null; then
	as_root=sudo
else
	echo "install.sh: root or sudo is needed to install:$missing" >&2
	exit 1
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT

# apt ARGUMENT...: apt-get without questions; its output is shown only when it fails
apt()
{
	$as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Dpkg::Use-Pty=0 "$@" \
		>"$log" 2>&1 || {
		tail -n 20 "$log" >&2
		echo "install.sh: apt-get $1 failed" >&2
		exit 1
	}
}

echo "installing:$missing"
apt update
# shellcheck disable=SC2086 # a list of words
apt install --no-install-recommends $missing
