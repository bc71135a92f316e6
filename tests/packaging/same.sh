#!/bin/sh
# same.sh - two builds of this commit in different directories, by different users with other time
# zones, languages, masks and numbers of jobs, give the same bytes: tools, bundle, Debian package
#
# As root, the second build is that of the user nobody. No cache of compilers is used. BUNDLE_MPI
# chooses the bundle. Where they differ, the first differing files are named, and diffoscope, where
# there is one, says how.
set -eu
cd "${TOP:-.}"
[ -e .git ] || { echo 'skipped: not a checkout'; exit 0; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
chmod 755 "$tmp"
mkdir "$tmp/one" "$tmp/the other directory"
two="$tmp/the other directory/of mikoshi"
git clone -q . "$tmp/one/mikoshi"
git clone -q . "$two"
as_user=
if [ "$(id -u)" = 0 ]; then
	chown -R nobody "$tmp/the other directory"
	as_user='setpriv --reuid=nobody --clear-groups'
fi

# build JOBS COMMAND...: makes what is compared, in this directory, through the command
build()
{
	jobs=$1
	shift
	"$@" env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS -u B -u TOP CCACHE_DISABLE=1 \
		make -s -j"$jobs" CUDA=0 BUNDLE_MPI="${BUNDLE_MPI:-host}" bundle deb \
		>"$tmp/log" 2>&1 || { tail -n 20 "$tmp/log"; return 1; }
}

(cd "$tmp/one/mikoshi" && umask 022 && TZ=Asia/Tokyo LANG=C build 2)
# shellcheck disable=SC2086 # a command and its operands, or none
(cd "$two" && umask 077 && TZ=America/St_Johns LANG=C.UTF-8 HOME=$two build 3 $as_user)

# files: what is compared, by paths
files()
{
	find build/bundle build/deb build/m* -maxdepth 3 -type f \( -name '*.tar.gz' \
		-o -name '*.deb' -o -path 'build/m*' -o -path 'build/bundle/*/bin/*' \) | sort
}

cd "$tmp/one/mikoshi"
failed=0
for file in $(files); do
	if cmp -s "$file" "$two/$file"; then
		sha256sum "$file"
	else
		echo "$file differs"
		failed=1
		! command -v diffoscope >/dev/null ||
			diffoscope "$file" "$two/$file" | head -n 40 || :
	fi
done
exit $failed
