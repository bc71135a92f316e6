#!/bin/sh
# sim_tables.sh FILE... - the sums of tables of sim --table, and what was struck too rarely
#
# Exit status 1 when a seed has failed, a kind of fault has happened fewer than LEAST times, or
# nothing has happened at a kind of call of some layout.
awk -F '\t' -v least="${LEAST:-500}" '
{ sum[$1 FS $2] += $3; if (!(($1 FS $2) in row)) { row[$1 FS $2]; name[++rows] = $1 FS $2 } }
END {
	for (i = 1; i <= rows; i++) {
		split(name[i], part, FS)
		n = sum[name[i]]
		if (part[1] == "site" && n)
			sites++
		if (part[1] == "struck" && n)
			struck++
		if (part[1] == "struck" && !n) {
			print "never struck: " part[2]
			bad = 1
		}
		if (part[1] ~ /^(fault|also)$/ && n < least) {
			print "fewer than " least ": " part[2]
			bad = 1
		}
		if (part[1] !~ /^(site|struck)$/)
			printf "%s\t%.0f\n", name[i], n
	}
	printf "sites (a kind of call in a layout): %d, struck: %d\n", sites, struck
	printf "%.1f simulated hours\n", sum["total" FS "simulated seconds"] / 3600
	exit bad || sum["total" FS "failed"] > 0
}' "$@"
