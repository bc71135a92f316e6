# plot.awk - the loss curve of mtrain's --metrics-file as text: 12 rows, one column per group of
# steps
#
# Reads JSON Lines with the members "iteration" and "lm_loss"; lines of evaluations ("split") are
# ignored. Set width=N (default 64) and height=N (default 12).

# Returns the number after "name": in the line, or "" if there is none.
function member(name,    at)
{
	at = index($0, "\"" name "\":")
	if (!at)
		return ""
	at = substr($0, at + length(name) + 3)
	sub(/^ */, "", at)
	sub(/[,} ].*/, "", at)
	return at
}

BEGIN {
	if (!width)
		width = 64
	if (!height)
		height = 12
}

member("lm_loss") != "" && member("split") == "" {
	loss[++n] = member("lm_loss") + 0
	step[n] = member("iteration")
}

END {
	if (!n) {
		print "no losses to plot"
		exit 1
	}
	if (width > n)
		width = n
	for (c = 0; c < width; c++) {
		first = int(c * n / width) + 1
		last = int((c + 1) * n / width)
		for (i = first; i <= last; i++)
			mean[c] += loss[i] / (last - first + 1)
		if (!c || mean[c] > high)
			high = mean[c]
		if (!c || mean[c] < low)
			low = mean[c]
	}
	rows = high > low ? height - 1 : 0
	for (r = 0; r <= rows; r++) {
		line = sprintf("%8.3f |", high - (rows ? r * (high - low) / rows : 0))
		for (c = 0; c < width; c++) {
			at = rows ? int((high - mean[c]) / (high - low) * rows + 0.5) : 0
			line = line (at == r ? "*" : " ")
		}
		sub(/ +$/, "", line)
		print line
	}
	line = sprintf("%*s", width, "")
	gsub(/ /, "-", line)
	gap = width - length(step[1]) - length(step[n])
	printf "%8s +%s\n", "lm loss", line
	printf "%8s  %s%*s%s\n", "step", step[1], (gap > 0 ? gap : 1), "", (n > 1 ? step[n] : "")
}
