/*
 * count.c - counts in words
 *
 * TSV for machines on stdout, words for the summary on stderr; which stream is the caller's
 * choice.
 */
#include "tok/count.h"

/* A row a key. Documents are those of the run, the same for each; bytes are those of the text
 * before encoding, without JSON's escapes. */
void
count_print(const struct encode_config *c, const struct encode_counts *n, FILE *out)
{
	fputs("key\tdocuments\tsequences\tbytes\ttokens\tbytes_per_token\n", out);
	for (int k = 0; k < n->num_keys; k++)
		fprintf(out, "%s\t%lld\t%lld\t%lld\t%lld\t%.4f\n", c->json_keys.item[k],
		    (long long)n->documents, (long long)n->key[k].sequences,
		    (long long)n->key[k].bytes, (long long)n->key[k].tokens,
		    n->key[k].tokens ? (double)n->key[k].bytes / (double)n->key[k].tokens : 0.0);
}

/* Appends nothing when no line was bad, so an empty text means none. */
void
count_skipped(const struct encode_counts *n, struct str *out)
{
	for (int i = 0; i < JSONL_CLASSES; i++)
		if (n->bad[i])
			str_addf(out, "%s%lld %s", out->len ? ", " : "", (long long)n->bad[i],
			    jsonl_class_name[i]);
}
