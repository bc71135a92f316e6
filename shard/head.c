/*
 * head.c - documents as the ids they are made of
 *
 * A row is a sequence, since that is what training cuts samples from; its number is the one that
 * the document index of a split uses.
 */
#include "shard/shard.h"

enum { CHUNK = 8192 };                  /* tokens printed in one go */

/* One row; ids in pieces, since a sequence may be long. */
static void
print_sequence(const struct dataset *d, int64_t document, int64_t sequence, FILE *out)
{
	int64_t ids[CHUNK], len = dataset_length(d, sequence);

	fprintf(
	    out, "%lld\t%lld\t%lld\t", (long long)document, (long long)sequence, (long long)len);
	for (int64_t at = 0; at < len; at += CHUNK) {
		int64_t n = len - at < CHUNK ? len - at : CHUNK;

		dataset_tokens(d, sequence, at, n, ids);
		for (int64_t i = 0; i < n; i++)
			fprintf(out, at + i ? " %lld" : "%lld", (long long)ids[i]);
	}
	fputc('\n', out);
}

/* Stops early when the reader is gone. A row "document - 0" stands for an empty document, which
 * has no sequence. -1 when `first` is past the end; fewer than count are no error. */
int
shard_head(const char *prefix, int64_t first, int64_t count, FILE *out, struct err *e)
{
	struct dataset *d = dataset_open(prefix, e);
	int64_t total;
	int rc = 0;

	if (!d)
		return -1;
	total = dataset_num_documents(d);
	if (first > 0 && first >= total)
		rc = err_at(e, prefix, 0, "no document %lld: there are %lld, counted from 0",
		    (long long)first, (long long)total);
	for (int64_t k = first; rc == 0 && k < total && k - first < count && !ferror(out); k++) {
		int64_t begin = dataset_document_start(d, k),
			end = dataset_document_start(d, k + 1);

		if (begin == end)
			fprintf(out, "%lld\t-\t0\t\n", (long long)k);
		for (int64_t s = begin; s < end; s++)
			print_sequence(d, k, s, out);
	}
	dataset_close(d);
	return rc;
}
