#!/bin/sh
# bundle.sh OUT OBJECT... - the product's objects as one, for the simulator
#
# The main of bin/TOOL.c becomes TOOL_main. A call that calls.txt names becomes sim_NAME; any other
# symbol that is not the product's must be in pure.txt, so that a new call is not forgotten. The
# writable data comes into the section sim_state. Only the names in kept.txt can be seen from
# outside. LD, NM, OBJCOPY and OBJDUMP are the tools of the machine that it is for.
set -eu
: "${LD:=ld}" "${NM:=nm}" "${OBJCOPY:=objcopy}" "${OBJDUMP:=objdump}"
out=$1
shift
here=$(dirname "$0")
work=$out.parts
rm -rf "$work"
mkdir -p "$work"
for o; do
	case $o in
	*/bin/*.c.o)
		tool=$(basename "$o" .c.o)
		"$OBJCOPY" --redefine-sym main="${tool}_main" "$o" "$work/$tool.o"
		echo "$work/$tool.o" ;;
	*) echo "$o" ;;
	esac
done >"$work/objects"
"$LD" -r -o "$work/all.o" "@$work/objects"

# Since version 2.38 glibc's headers have names of their own for calls that read numbers.
"$NM" -u "$work/all.o" | awk '$2 ~ /^__isoc23_/ {
	usual = $2
	sub(/^__isoc23_/, $2 ~ /scanf$/ ? "__isoc99_" : "", usual)
	print "--redefine-sym " $2 "=" usual }' >"$work/renamed"
"$OBJCOPY" "@$work/renamed" "$work/all.o"
"$NM" -u "$work/all.o" | awk '{ print $2 }' >"$work/wanted"
awk '
/^#/ { next }
FILENAME != wanted && /\*$/ { begins[substr($1, 1, length($1) - 1)]; next }
FILENAME != wanted { known[$1]; next }
$1 in known { next }
{
	for (s in begins)
		if (index($1, s) == 1)
			next
	print "the simulator does not know what to do with this call: " $1
	bad = 1
}
END { exit bad }' wanted="$work/wanted" "$here/calls.txt" "$here/pure.txt" "$work/wanted"

# Options for objcopy, one a line.
{
	"$OBJDUMP" -h "$work/all.o" | awk '$2 ~ /^\.(data|bss)/ && $2 !~ /rel\.ro|DW\.ref/ {
		print "--rename-section " $2 "=sim_state" }'
	sed 's/.*/--redefine-sym &=sim_&/' "$here/calls.txt"
	sed 's/.*/--keep-global-symbol=&/' "$here/kept.txt"
} >"$work/options"
"$OBJCOPY" --set-section-flags .bss=alloc,load,contents,data "@$work/options" "$work/all.o" "$out"
rm -rf "$work"
