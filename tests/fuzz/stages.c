/* stages.c - fuzz target: any bytes as --data-schedule, and as what a checkpoint says of one; what
 * is accepted keeps the rules, and a checkpoint's text comes back */
#include "lib/base/mem.h"
#include "lib/data/paths.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CORPORA = 3 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Stages rise, and each is of the list of all. */
static void
check_file(const char *text)
{
	struct data_paths p = { 0 };
	struct err e;

	if (data_stages_parse(text, "stages", &p, &e) == 0) {
		if (p.num_stages == 0 || p.stage[0].tokens != 0)
			abort();
		for (int k = 0; k < p.num_stages; k++) {
			const struct path_list *l = &p.stage[k].list;

			if ((k && p.stage[k].tokens <= p.stage[k - 1].tokens) || !l->weight ||
			    l->count > p.list[SPLIT_TRAIN].count)
				abort();
			for (int i = 0; i < l->count; i++)
				if (!isfinite(l->weight[i]) || !(l->weight[i] > 0))
					abort();
		}
	}
	data_paths_release(&p);
}

static void
check_record(const char *text)
{
	struct stage_record *r;
	struct err e;
	int count;

	if (stage_records_parse(text, CORPORA, &r, &count, &e) == 0)
		for (int k = 0; k < count; k++) {
			if (r[k].first < 0 || r[k].tokens < 0 || r[k].count == 0)
				abort();
			for (int i = 0; i < r[k].count; i++)
				if (r[k].corpus[i] < 0 || r[k].corpus[i] >= CORPORA ||
				    !(r[k].weight[i] > 0))
					abort();
		}
	stage_records_free(r, count);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = mem_strndup((const char *)data, size);

	check_file(text);
	check_record(text);
	free(text);
	return 0;
}
