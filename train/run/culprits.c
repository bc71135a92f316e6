/*
 * culprits.c - naming the ranks where something went wrong
 */
#include "train/engine/comm_log.h"
#include "train/run/culprits.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 4 };

/* A GPU is known by its number on the host, which is the local rank. */
void
culprits(struct engine *e, const char *what, struct str *out)
{
	struct comm *w = e->groups.world;
	int local_size, local_rank, count = 0;
	char host[256] = "", *all;
	struct str mine = { 0 };
	size_t total = 0;

	comm_log_begin(COMM_HERE(w), COMM_WORLD, "split by host");
	local_rank = mpi_local_rank(w, &local_size);
	comm_log_end(w);
	if (what[0]) {
		gethostname(host, sizeof host - 1);
		str_addf(&mine, "rank %d (%s, %s", e->rank, host, e->backend->name);
		if (e->backend->comm)
			str_addf(&mine, " %d", local_rank);
		str_addf(&mine, "): %s", what);
		str_addc(&mine, '\0');
	}
	all = w->ops->gather_bytes(COMM_HERE(w), mine.buf, mine.len, 0, &total);
	for (size_t at = 0; all && at < total; at += strlen(all + at) + 1)
		if (count++ < MOST)
			str_addf(out, "%s%s", at ? "; " : "", all + at);
	if (count > MOST)
		str_addf(out, "; and %d more", count - MOST);
	str_release(&mine);
	free(all);
}
