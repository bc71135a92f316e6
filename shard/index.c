/*
 * index.c - writing in advance the index maps that training looks for
 *
 * Existing maps are read and checked, not rewritten.
 */
#include "shard/maps.h"

/* The row of a blend, or of each of its stages, then those of its corpora. The names of the maps
 * begin with the hash, so that a script can find the files. */
static int
print_split(const struct maps_run *r, const struct blend *b, enum split which, struct err *e)
{
	for (int k = 0; k < blend_num_stages(b); k++) {
		struct blend_stage s;

		blend_stage(b, k, &s);
		if (s.count)
			fprintf(r->out, "%s\t%lld\t-\t%s\t-\n", split_name[which],
			    (long long)s.count, s.hash);
	}
	for (int k = 0; k < blend_num_corpora(b); k++) {
		struct blend_corpus c;

		blend_corpus(b, k, &c);
		fprintf(r->out, "%s\t%lld\t%lld\t%s\t%s\n", split_name[which],
		    (long long)samples_count(c.samples), (long long)samples_num_epochs(c.samples),
		    samples_hash(c.samples), dataset_prefix(c.dataset));
	}
	(void)e; /* lost rows show when the program ends */
	return 0;
}

int
shard_index(const struct maps_config *c, FILE *out, struct str *notes, struct err *e)
{
	struct maps_run r = { .c = c,
		.write = true,
		.out = out,
		.head = "split\tsamples\tepochs\thash\tdataset\n",
		.row = print_split };

	return shard_maps_run(&r, notes, e);
}
