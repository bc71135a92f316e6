/*
 * suspects.c - naming the ranks where something went wrong
 */
#include "train/watch/comm_log.h"
#include "train/watch/suspects.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 4 };

/* A GPU is known by its number on the host, which is the local rank. */
void
suspects(struct comm *world, const struct backend *b, const char *what, struct str *out)
{
	int local_size, local_rank, count = 0;
	char host[256] = "", *all;
	struct str mine = { 0 };
	size_t total = 0;

	local_rank = mpi_local_rank(world, &local_size);
	if (what[0]) {
		gethostname(host, sizeof host - 1);
		str_addf(&mine, "rank %d (%s, %s", world->rank, host, b->name);
		if (b->comm)
			str_addf(&mine, " %d", local_rank);
		str_addf(&mine, "): %s", what);
		str_addc(&mine, '\0');
	}
	all = world->ops->gather_bytes(COMM_HERE(world), mine.buf, mine.len, 0, &total);
	for (size_t at = 0; all && at < total; at += strlen(all + at) + 1)
		if (count++ < MOST)
			str_addf(out, "%s%s", at ? "; " : "", all + at);
	if (count > MOST)
		str_addf(out, "; and %d more", count - MOST);
	str_release(&mine);
	free(all);
}
