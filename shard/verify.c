/*
 * verify.c - is this a sound dataset?
 *
 * dataset_open checks everything about the index: magic, version, type, counts against the sizes
 * of both files, offsets against lengths, documents in order. What is left are the tokens, which
 * only a vocabulary can judge.
 */
#include "shard/shard.h"

enum { CHUNK = 8192 };                  /* tokens looked at in one go */

/* The ids of one sequence against the vocabulary. In pieces, so that the stack bounds nothing.
 * The first bad id is named with its place. */
static int
check_ids(const struct dataset *d, int64_t sequence, int64_t vocab_size, struct err *e)
{
	int64_t ids[CHUNK], len = dataset_length(d, sequence);

	for (int64_t at = 0; at < len; at += CHUNK) {
		int64_t n = len - at < CHUNK ? len - at : CHUNK;

		dataset_tokens(d, sequence, at, n, ids);
		for (int64_t i = 0; i < n; i++)
			if (ids[i] < 0 || ids[i] >= vocab_size)
				return err_set(e,
				    "%s.bin: token %lld of sequence %lld is %lld; the ids of a "
				    "vocabulary of %lld end at %lld",
				    dataset_prefix(d), (long long)(at + i), (long long)sequence,
				    (long long)ids[i], (long long)vocab_size,
				    (long long)vocab_size - 1);
	}
	return 0;
}

/* The ids are read only when there is a vocabulary to compare them with. One line to out when it
 * is sound; -1 with the first fault otherwise, and nothing to out. */
int
shard_verify(const char *prefix, int64_t vocab_size, FILE *out, struct err *e)
{
	struct dataset *d = dataset_open(prefix, e);
	int rc = 0;

	if (!d)
		return -1;
	for (int64_t i = 0; vocab_size > 0 && rc == 0 && i < dataset_num_sequences(d); i++)
		rc = check_ids(d, i, vocab_size, e);
	if (rc == 0)
		fprintf(out, "%s: ok, %lld documents, %lld sequences, %lld tokens of %s\n", prefix,
		    (long long)dataset_num_documents(d), (long long)dataset_num_sequences(d),
		    (long long)dataset_num_tokens(d), dtype_torch_name(dataset_dtype(d)));
	dataset_close(d);
	return rc;
}
