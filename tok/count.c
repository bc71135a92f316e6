/* count.c - the table that `mtok count` prints */
#include "tok/count.h"

void
count_print(const struct encode_config *c, const struct encode_counts *n, FILE *out)
{
	fputs("key\tdocuments\tsequences\tbytes\ttokens\tbytes_per_token\n", out);
	for (int k = 0; k < n->num_keys; k++)
		fprintf(out, "%s\t%lld\t%lld\t%lld\t%lld\t%.4f\n", c->json_keys.item[k], (long long)n->documents,
		    (long long)n->key[k].sequences, (long long)n->key[k].bytes, (long long)n->key[k].tokens,
		    n->key[k].tokens ? (double)n->key[k].bytes / (double)n->key[k].tokens : 0.0);
}
