/* scaled.c - numbers with a suffix */
#include "lib/base/scaled.h"

#include <stdlib.h>
#include <string.h>

/* Doubles hold integers exactly up to here and beyond. */
#define SCALED_MAX 1e15

bool
scaled_read(const char **at, char end, int64_t *out)
{
	static const char suffixes[] = "KMBTkmbt";
	static const double times[] = { 1e3, 1e6, 1e9, 1e12 };
	const char *suffix;
	char *after;
	double x = strtod(*at, &after);

	if (after == *at || strspn(*at, "0123456789.eE+") < (size_t)(after - *at))
		return false;
	if (*after && (suffix = strchr(suffixes, *after))) {
		x *= times[(suffix - suffixes) % 4];
		after++;
	}
	if (!(x >= 0 && x <= SCALED_MAX) || *after != end)
		return false;
	*out = (int64_t)x;
	*at = after + (end != '\0');
	return true;
}
