#!/bin/sh
# openmpi.sh DIR - builds Open MPI for a bundle into DIR, from Debian 12's source package
#
# For hosts without any MPI: libevent and hwloc are Open MPI's own copies, since Debian's libevent
# needs a newer glibc than a bundle may, as its copy does where it finds arc4random. Components are
# linked in. There are no drivers of fast networks, which a host with such a network has an MPI for,
# and no files, windows and tables of frames, which mtrain does not use. OPENMPI_SOURCE=FILE is the
# archive; without it apt-get fetches it. Files are sought by OPAL_PREFIX.
# shellcheck source=packaging/common
. "$(dirname "$0")/common"
version=4.1.4
sum=ddaee7dbdb01eb4fab1fda5b5e03e8bbff026711806c095c1f39bb410f99f263
out=$1
prefix=/nonexistent/openmpi
jobs=${JOBS:-$(nproc)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# fetch: the archive, by apt-get with Debian's source packages alone
fetch()
{
	need apt-get
	uri=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | awk '
		/^URIs:.*debian\/*$/ { print $2; exit }
		/^deb .*debian\/* / && match($0, /http[^ ]*/) {
			print substr($0, RSTART, RLENGTH)
			exit
		}')
	[ -n "$uri" ] ||
		die "no source of Debian in /etc/apt; OPENMPI_SOURCE=FILE names the archive"
	mkdir -p "$work/lists/partial"
	key=/usr/share/keyrings/debian-archive-keyring.gpg
	echo "deb-src [signed-by=$key] $uri bookworm main" >"$work/sources.list"
	for words in update 'source --download-only openmpi'; do
		# shellcheck disable=SC2086 # a command and its operands
		(cd "$work" && apt-get -qq -o Dir::Etc::SourceList="$work/sources.list" \
			-o Dir::Etc::SourceParts=/dev/null -o Dir::State::Lists="$work/lists" \
			-o APT::Sandbox::User="$(id -un)" $words >"$work/log" 2>&1) || {
			tail -n 5 "$work/log" >&2
			die "apt-get $words: failed; OPENMPI_SOURCE=FILE names the archive"
		}
	done
}

# no_arc4random DIR: libevent takes its own generator, whose functions get names that glibc 2.36,
# which declares them too, does not have
no_arc4random()
{
	sed -i '/#include/!s/\barc4random/own_arc4random/g' "$1/arc4random.c" "$1/evutil_rand.c"
}

# build: configures, compiles and installs into $work/root
build()
{
	cd "$work/openmpi-$version" &&
		no_arc4random opal/mca/event/libevent2022/libevent &&
		USER=mikoshi HOSTNAME=mikoshi ./configure --prefix="$prefix" \
			--disable-dlopen \
			CFLAGS="-O2 -fno-asynchronous-unwind-tables -ffile-prefix-map=$PWD=." \
			--with-libevent=internal --with-hwloc=internal --with-pmix=internal \
			--disable-mpi-fortran --disable-oshmem --disable-mpi-io \
			--disable-mpi-cxx --without-verbs --without-ucx --without-ofi \
			--without-psm --without-psm2 --without-cuda --without-libnl \
			--disable-libudev --disable-pci --disable-wrapper-rpath \
			--disable-wrapper-runpath \
			--enable-mca-no-build=btl-usnic,coll-hcoll,osc,reachable-netlink \
			ac_cv_func_arc4random=no ac_cv_func_arc4random_buf=no &&
		make -j"$jobs" USER=mikoshi HOSTNAME=mikoshi &&
		make install DESTDIR="$work/root"
}

[ -n "${OPENMPI_SOURCE:-}" ] || fetch
archive=${OPENMPI_SOURCE:-$work/openmpi_$version.orig.tar.xz}
echo "$sum  $archive" | sha256sum -c --quiet - || die "$archive is not what was expected"
tar -xJf "$archive" -C "$work"
(build) >"$work/log" 2>&1 || { tail -n 20 "$work/log" >&2; die "Open MPI does not build"; }
rm -rf "$out"
mkdir -p "$out/bin" "$out/lib"
root=$work/root$prefix
install -m 755 "$root/bin/orterun" "$out/bin/mpirun"
install -m 755 "$root/bin/orted" "$out/bin/orted"
for name in libmpi libopen-rte libopen-pal; do
	install -m 755 "$(realpath "$root/lib/$name.so.40")" "$out/lib/$name.so.40"
done
cp -R "$root/etc" "$out/etc"
mkdir "$out/share"
cp -R "$root/share/openmpi" "$out/share/openmpi"
install -m 644 "$work/openmpi-$version/LICENSE" "$out/LICENSE"
echo "$version" >"$out/VERSION"
