#!/bin/sh
# man.sh - every tool has a page, every page is clean mdoc, and its option lists are those of the
# tool
set -u
cd "${TOP:-.}" || exit 1
found=0
for main in bin/*.c; do
	tool=$(basename "$main" .c)
	[ -e "man/$tool.1" ] || { echo "man/$tool.1: no page for $tool"; found=1; }
done
for page in man/*.[157] man/ja/*/*.[157]; do
	mandoc -T lint -W warning "$page" || found=1
done
sh man/options.sh --check || found=1
exit $found
