#!/bin/sh
# deb.sh DIR - makes a Debian package of DIR/root, into which the tools were installed under /usr;
# prints its path
#
# The package has what `make install` installs, with Debian's places for pages and completions; what
# it depends on is found by dpkg-shlibdeps. debhelper is not used: the build is that of the
# Makefile, so the programs are those of the bundle.
# shellcheck source=packaging/common
. "$(dirname "$0")/common"
dir=$1 root=$1/root
need dpkg-shlibdeps dpkg-gencontrol dpkg-deb gzip strip
machine=$(dpkg --print-architecture)
share=$root/usr/share doc=$root/usr/share/doc/mikoshi

# control: the files of DEBIAN/, from those that dpkg's tools read in a source package
control()
{
	mkdir -p "$dir/source/debian" "$root/DEBIAN"
	cp "$here/debian/control" "$dir/source/debian/control"
	printf 'mikoshi (%s) unstable; urgency=medium\n\n  * Version %s.\n\n -- %s  %s\n' \
		"$VERSION" "$VERSION" "$(sed -n 's/^Maintainer: //p' "$here/debian/control")" \
		"$(date -u -R -d "@$SOURCE_DATE_EPOCH")" >"$dir/source/debian/changelog"
	(cd "$dir/source" &&
		dpkg-shlibdeps -O ../root/usr/bin/* >debian/substvars &&
		dpkg-gencontrol -Tdebian/substvars -P../root -O >../control)
	mv "$dir/control" "$root/DEBIAN/control"
}

# place: what has other places in Debian
place()
{
	mv "$share/zsh/site-functions" "$share/zsh/vendor-completions"
	mkdir -p "$doc"
	cp "$here/debian/copyright" "$doc/copyright"
	gzip -9nc "$dir/source/debian/changelog" >"$doc/changelog.gz"
	find "$share/man" -type f -exec gzip -9n {} +
	find "$root/usr/bin" -type f -exec strip --remove-section=.comment \
		--remove-section=.note {} +
}

# sums: the MD5 of every file
sums()
{
	(cd "$root" && find usr -type f | sort | xargs md5sum >DEBIAN/md5sums)
}

control
place
reset "$root"
sums
reset "$root"
dpkg-deb --root-owner-group -Zxz --build "$root" "$dir" >"$dir/log" || {
	cat "$dir/log" >&2
	die "dpkg-deb failed"
}
echo "$dir/mikoshi_${VERSION}_$machine.deb"
